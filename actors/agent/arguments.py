"""What a model asks a tool to do it with: checked, converted, and in one canonical form.

A call's arguments exist three times. The *plain* form (JSON values) is what is stored and shown to approvers, its
*canonical* text is what digests and keys are made of, and the typed *values* are what the function gets. Values are
always made from the plain form, never from what the model sent, so that a call that another process repeats after a
crash gets exactly the same, and exactly what was approved.
"""

import dataclasses
import json
import math
import re
import typing
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from types import NoneType
from typing import Any, Final

import msgspec

from callboard.mailbox.errors import UsageError

from .digest import canonical
from .result import text_of
from .scalars import Scalars
from .text import require_short_numbers

MAX_CANONICAL_CHARS: Final = 1 << 20
MAX_DEPTH: Final = 64
_MAX_PROBLEM_CHARS: Final = 2_000
_MAX_COMPLAINTS: Final = 20


class InvalidArguments(UsageError):
    """Arguments that a tool does not take. `problem` is a sentence for the model: which argument, expected, got."""

    def __init__(self, problem: str) -> None:
        self.problem = problem if len(problem) <= _MAX_PROBLEM_CHARS else problem[:_MAX_PROBLEM_CHARS] + " …"
        super().__init__(self.problem)


@dataclass(frozen=True, slots=True)
class Parameter:
    """One argument that a tool takes."""

    name: str
    hint: Any
    required: bool
    default: Any = msgspec.UNSET
    """The default's plain form; UNSET when there is none, or none that JSON can hold (the function applies its own)."""


class Arguments(msgspec.Struct, frozen=True):
    """Validated arguments."""

    values: dict[str, Any]
    """Typed, as the function gets them. Handing them to foreign code may change them: see `values_of`."""
    plain: dict[str, Any]
    """The same as JSON values, with the defaults that apply. Validating them again gives the same `canonical`."""
    canonical: str
    """`plain` as the one text that equal arguments have."""
    scalar: bool = False
    """All are scalars (`scalars`): a copy of `plain` is fresh values."""


def validate(parameters: Sequence[Parameter], raw: object, scalars: Scalars | None = None) -> Arguments:
    """Check and convert what a model sent. `scalars`: the quick way for these parameters, where they have one.

    Conversion is lax ("5" is a 5 for an int, never the other way round); unknown names are refused.

    Raises:
        InvalidArguments: naming every argument at fault.
    """
    if scalars is not None and (read := scalars.read(raw)) is not None and len(read[1]) <= MAX_CANONICAL_CHARS:
        return Arguments(values=read[0].copy(), plain=read[0], canonical=read[1], scalar=True)
    if not isinstance(raw, dict):
        raise InvalidArguments(f"the arguments must be an object, got {_json_name(raw)}")
    problems = [*_unknown(parameters, raw), *_missing(parameters, raw)]
    plain: dict[str, Any] = {}
    for parameter in parameters:
        if parameter.name in raw:
            try:
                plain[parameter.name] = to_plain(from_plain(raw[parameter.name], parameter.hint))
            except Exception as error:  # noqa: BLE001 - a type's own constructor may raise anything
                problems.append(_sentence(parameter, error))
        elif parameter.default is not msgspec.UNSET:
            plain[parameter.name] = _copied(parameter.default)
    if problems:
        raise InvalidArguments("; ".join(problems))
    try:
        text = canonical(plain)
        require_short_numbers(plain)  # once more: a conversion may have made a very long one
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArguments(f"the arguments cannot be written as JSON: {error}") from error
    if len(text) > MAX_CANONICAL_CHARS:
        raise InvalidArguments(f"the arguments take {len(text)} bytes; at most {MAX_CANONICAL_CHARS} are allowed")
    values = values_of(parameters, plain)
    _require_stable(parameters, values, plain)
    return Arguments(values=values, plain=plain, canonical=text)


def _require_stable(parameters: Sequence[Parameter], values: dict[str, Any], plain: dict[str, Any]) -> None:
    """Refuse values that change when they are read again: what is called would not be what was approved."""
    for parameter in parameters:
        value = values.get(parameter.name)
        # Built-in scalars cannot have a constructor that changes them.
        if type(value) in {str, int, bool, float, NoneType} or parameter.name not in values:
            continue
        try:
            same = to_plain(value) == plain[parameter.name]
        except Exception:  # noqa: BLE001 - a type's own encoder may raise anything
            same = False
        if not same:
            raise InvalidArguments(f"argument {parameter.name!r} cannot be used: its type does not keep its own value")


def values_of(parameters: Sequence[Parameter], plain: dict[str, Any]) -> dict[str, Any]:
    """Fresh typed values of validated plain ones, sharing nothing that can be changed with any made before.

    Raises:
        InvalidArguments: when a type does not take back its own plain form.
    """
    values: dict[str, Any] = {}
    for parameter in parameters:
        if parameter.name in plain:
            try:
                values[parameter.name] = from_plain(plain[parameter.name], parameter.hint)
            except Exception as error:
                raise InvalidArguments(_sentence(parameter, error)) from error
    return values


def from_plain(value: object, hint: Any) -> Any:
    """`value` (JSON values) as a `hint`.

    Raises:
        Exception: when it does not fit; of any class, since types may have constructors of their own.
    """
    converted = msgspec.convert(value, hint, strict=False, str_keys=True, dec_hook=_decode_foreign)
    # Under `Any` msgspec hands out the containers it was given.
    return _copied(converted) if isinstance(converted, dict | list) else converted


def to_plain(value: object) -> Any:
    """`value` as JSON values, which have one canonical text.

    Raises:
        TypeError: for what JSON cannot hold.
        ValueError: for NaN and infinity, and for deeper nesting than 64.
    """
    _spell_out(value)
    convert = partial(msgspec.to_builtins, value, builtin_types=(Decimal,), str_keys=True, enc_hook=_encode_foreign)
    try:
        built = convert(order="deterministic")
    except TypeError:  # members without an order of their own, such as an Enum's; or it is no JSON at all
        built = _sets_in_order(value, convert())
    return _json_values(built, 0)


def _sets_in_order(value: Any, built: Any) -> Any:
    """`built`, which was made of `value`, with what were sets in the order of their members' text.

    The order in which a set gives its members differs between processes, and so would the digest of a call.
    """
    if not isinstance(built, list | dict):
        return built
    if isinstance(built, dict):
        inner = [_sets_in_order(*pair) for pair in zip(_parts_of(value, built), built.values(), strict=True)]
        return dict(zip(built, inner, strict=True))
    if isinstance(value, msgspec.Struct):  # array_like, perhaps with a tag before its fields
        fields = [getattr(value, name) for name in value.__struct_fields__]
        value = [None] * (len(built) - len(fields)) + fields
    if isinstance(value, list | tuple | set | frozenset) and len(value) == len(built):
        built = [_sets_in_order(*pair) for pair in zip(value, built, strict=True)]
    if isinstance(value, set | frozenset):
        return sorted(built, key=lambda member: json.dumps(member, sort_keys=True, default=str))
    return built


def _parts_of(value: Any, built: dict[str, Any]) -> list[Any]:
    """What the values of `built` were made of; None where that is not known."""
    if isinstance(value, dict):
        return list(value.values()) if len(value) == len(built) else [None] * len(built)
    own: dict[str, str] = {}
    if isinstance(value, msgspec.Struct):
        own = dict(zip(value.__struct_encode_fields__, value.__struct_fields__, strict=True))
    return [getattr(value, own.get(name, name), None) for name in built]


def _spell_out(value: Any) -> None:
    """Write out the defaults of dataclasses: msgspec leaves them to the class, and an approver would not see them."""
    if isinstance(value, dict):
        parts: Iterable[Any] = value.values()
    elif isinstance(value, list | tuple | set | frozenset):
        parts = value
    elif isinstance(value, msgspec.Struct):
        parts = [getattr(value, name) for name in value.__struct_fields__]
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        parts = [getattr(value, field.name, None) for field in dataclasses.fields(value)]
        own = getattr(value, "__dict__", None)
        for field, part in zip(dataclasses.fields(value), parts, strict=True):
            if own is not None and field.name not in own and not (isinstance(part, float) and not math.isfinite(part)):
                object.__setattr__(value, field.name, part)
    else:
        return
    for part in parts:
        _spell_out(part)


def _json_values(value: Any, depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise ValueError(f"is nested deeper than {MAX_DEPTH} levels")
    match value:
        case dict():
            return {key: _json_values(item, depth + 1) for key, item in value.items()}
        case list() | tuple():
            return [_json_values(item, depth + 1) for item in value]
        case float() if not math.isfinite(value):
            raise ValueError(f"holds {value}, expected a finite number")
        case Decimal():
            if not value.is_finite():
                raise ValueError(f"holds {value}, expected a finite number")
            return str(value)
    return value


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    return [_copied(item) for item in value] if isinstance(value, list) else value


def _decode_foreign(kind: type, value: object) -> object:
    """A pydantic model, without importing pydantic; schema.py refuses every other type msgspec does not know."""
    # Names count beside aliases, since the plain form has names: an alias for reading may differ from that for writing.
    return kind.model_validate(value, by_alias=True, by_name=True)  # type: ignore[attr-defined]


def _encode_foreign(value: object) -> object:
    dump = getattr(value, "model_dump", None)
    if dump is None:
        raise TypeError(f"holds a {type(value).__name__}, which JSON cannot")
    form = {"by_alias": False, "round_trip": True}
    return _sets_in_order(dump(mode="python", **form), dump(mode="json", **form))


def _unknown(parameters: Sequence[Parameter], raw: dict[Any, Any]) -> list[str]:
    known = [parameter.name for parameter in parameters]
    takes = ", ".join(known) or "none"
    return [f"unknown argument {text_of(name)!r:.100} (expected: {takes})" for name in raw if name not in known]


def _missing(parameters: Sequence[Parameter], raw: dict[Any, Any]) -> list[str]:
    return [
        f"argument {parameter.name!r} is missing, expected {_type_name(parameter.hint)}"
        for parameter in parameters
        if parameter.required and parameter.name not in raw
    ]


_MSGSPEC_MESSAGE = re.compile(r"(?P<what>.*?)(?: - at `(?:key` in `)?\$(?P<path>[^`]*)`)?", re.DOTALL)


def _sentence(parameter: Parameter, error: Exception) -> str:
    """`error` with the argument's name and no markup."""
    if isinstance(error, RecursionError):
        return f"argument {parameter.name!r} is nested too deep"
    if not isinstance(error, msgspec.ValidationError | ValueError | TypeError) or isinstance(error, UnicodeError):
        return f"argument {parameter.name!r} cannot be read as {_type_name(parameter.hint)}: {text_of(error)}"
    if details := _pydantic_details(error):
        return "; ".join(f"argument {parameter.name + path!r}: {what}" for path, what in details)
    text = text_of(error)
    found = _MSGSPEC_MESSAGE.fullmatch(text) if isinstance(error, msgspec.ValidationError) else None
    what, path = (found["what"], found["path"] or "") if found else (text, "")
    what = what.replace("`", "")
    return f"argument {parameter.name + path!r}: {what[:1].lower()}{what[1:]}"


def _pydantic_details(error: Exception) -> list[tuple[str, str]]:
    """Place and problem of each of a pydantic model's complaints, also of one that msgspec has wrapped."""
    path = ""
    if isinstance(error, msgspec.ValidationError) and error.__cause__ is not None:
        found = _MSGSPEC_MESSAGE.fullmatch(text_of(error))
        path = (found["path"] or "") if found else ""
        error = typing.cast(Exception, error.__cause__)
    complaints = getattr(error, "errors", None)
    if not callable(complaints) or not isinstance(error, ValueError):
        return []
    try:
        return [
            (path + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in one["loc"]), one["msg"])
            for one in complaints(include_url=False, include_input=False, include_context=False)[:_MAX_COMPLAINTS]
        ]
    except Exception:  # noqa: BLE001 - something else that has `errors`
        return []


def _type_name(hint: Any) -> str:
    return hint.__name__ if isinstance(hint, type) else str(hint).replace("typing.", "")


def _json_name(value: object) -> str:
    names = {
        list: "an array",
        str: "a string",
        bool: "a boolean",
        int: "a number",
        float: "a number",
        type(None): "null",
    }
    return names.get(type(value), f"a {type(value).__name__}")
