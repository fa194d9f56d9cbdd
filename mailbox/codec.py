"""Bodies as JSON text, exactly and totally: what goes in comes out, NUL and lone surrogates included.

JSON because people will query the rows. msgspec does the work; the text that it refuses (a lone surrogate, which UTF-8
cannot hold but a model's or a tool's output can) takes the standard library's ASCII escapes instead. A body that
contains such an escape is read by the standard library too, as msgspec would refuse it. What JSON itself cannot tell
apart becomes one thing: two halves of a character side by side are read as the character, NaN and infinity as null.
"""

import json
import math
import re
from typing import Any, NoReturn, TypeVar

import msgspec

from .errors import BadMessage

T = TypeVar("T")

_encoder = msgspec.json.Encoder()
_decoders: dict[type[Any], msgspec.json.Decoder[Any]] = {}
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def encode(value: Any) -> str:
    """`value` (a Struct, or plain JSON values) as JSON text.

    Raises:
        BadMessage: when a part of it is nothing JSON can hold.
    """
    try:
        try:
            return _encoder.encode(value).decode()
        except UnicodeEncodeError:
            plain = _without_nan(msgspec.to_builtins(value, str_keys=True))
            return json.dumps(plain, ensure_ascii=True, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError, OverflowError) as error:
        raise BadMessage(f"cannot store a {type(value).__name__} as JSON: {error}") from error


def _without_nan(value: Any) -> Any:
    # The standard library writes NaN, which is not JSON; msgspec writes null.
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _without_nan(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(item) for item in value]
    return value


def decode(body: str, kind: type[T]) -> T:
    """The `kind` that `body` holds.

    Raises:
        BadMessage: when `body` is not JSON, or not one of `kind`; the message says where.
    """
    decoder = _decoders.get(kind)
    if decoder is None:
        decoder = _decoders[kind] = msgspec.json.Decoder(kind)
    try:
        return decoder.decode(body)  # type: ignore[no-any-return]
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        if _SURROGATE.search(body) is None:
            raise BadMessage(f"not a {kind.__name__}: {error}") from error
    return convert(builtins(body), kind)


def builtins(body: str) -> Any:
    """`body` as plain dicts, lists, strings and numbers.

    Raises:
        BadMessage: when it is not JSON.
    """
    try:
        return json.loads(body, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise BadMessage(f"not JSON: {error}") from error


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def convert(value: Any, kind: type[T]) -> T:
    """Plain values as a `kind`.

    Raises:
        BadMessage: when they do not fit.
    """
    try:
        return msgspec.convert(value, kind)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:  # UnicodeError: a surrogate where none fits
        raise BadMessage(f"not a {kind.__name__}: {error}") from error
