"""In which currency the sums among a call's arguments are, where the arguments say so; nothing is guessed.

They say it in the name of a field (`amount_usd`, `price_euros`) or in one beside it (`currency: "EUR"`). Fields are
named as `money` names them, so each of its sums is found here by its own.
"""

import re
from collections.abc import Iterator
from typing import Any

_NAMES = {"dollars": "USD", "euros": "EUR"}
_CODES = {"chf", "eur", "gbp", "jpy", "usd"}
_CODE = re.compile(r"[A-Za-z]{3}")
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


def currencies_in(arguments: Any) -> dict[str, str]:
    """Field (`lines[0].price`) to the code of its currency; what says none is left out."""
    return dict(_walk(arguments, "", ""))


def _walk(value: Any, path: str, beside: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        said = next((code for key, one in value.items() if str(key).lower() == "currency" and (code := _code(one))), "")
        for key, inner in value.items():
            place = f"{path}.{key}" if path else str(key)
            if not isinstance(inner, dict | list):
                if code := _named(str(key)) or said:
                    yield place, code
            else:
                yield from _walk(inner, place, said)
    elif isinstance(value, list):
        for position, inner in enumerate(value):
            place = f"{path}[{position}]"
            if isinstance(inner, dict | list):
                yield from _walk(inner, place, beside)
            elif beside:
                yield place, beside


def _code(value: Any) -> str:
    return value.strip().upper() if isinstance(value, str) and _CODE.fullmatch(value.strip()) else ""


def _named(field: str) -> str:
    words = [word.lower() for word in _WORD.findall(field)]
    found = next((word for word in words[-2:] if word in _CODES or word in _NAMES), "")
    return _NAMES.get(found, found.upper())
