"""The quick way through `arguments.validate`, for what nearly all calls are: texts, numbers, yes and no.

A value that is exactly of the type that its parameter wants (a `str` for a `str`) is its own plain form and its own
typed value, and its canonical text can be written at once. The general way, which converts there and back and compares,
is for the others: containers, classes, a "5" for an int. It costs ten times as much, and a call is validated twice.

Invariant: where `Scalars.read` gives something, `validate` gives the same; what it is not sure of it leaves to that.
"""

from collections.abc import Callable, Sequence
from json.encoder import encode_basestring_ascii
from math import isfinite
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Union, get_args, get_origin

import msgspec

if TYPE_CHECKING:
    from .arguments import Parameter

_SCALARS: Final = (str, int, float, bool)
_MISSING: Final = object()
"""Of no type that any parameter wants."""
_LEAST, _MOST = -(1 << 63), (1 << 64) - 1
"""Whole numbers that a run's snapshot can hold (`text.require_short_numbers`)."""

_WRITE: Final[dict[type, Callable[[Any], str]]] = {
    str: encode_basestring_ascii,
    int: int.__repr__,
    float: float.__repr__,
    bool: lambda value: "true" if value else "false",
    NoneType: lambda value: "null",
}
"""How the standard library's JSON, which is what `digest.canonical` is made with, writes each of them."""


class Takes(NamedTuple):
    """What one parameter takes as it is."""

    name: str
    kinds: tuple[type, ...]
    choices: frozenset[str] | None
    """Of a text: one of these; None: any."""
    absent: Any
    """What stands for it where it is not given; UNSET: nothing does; `_MISSING`: the general way has to say."""


class Scalars:
    """The parameters of one tool, where all of them take scalars."""

    __slots__ = ("_names", "_takes", "_written")

    def __init__(self, takes: Sequence[Takes]) -> None:
        self._takes = tuple(takes)
        self._names = frozenset(one.name for one in takes)
        self._written = [(name, f"{encode_basestring_ascii(name)}:") for name in sorted(self._names)]

    @classmethod
    def of(cls, parameters: "Sequence[Parameter]") -> "Scalars | None":
        """The quick way for these parameters; None: there is none."""
        takes: list[Takes] = []
        for one in parameters:
            kinds, choices = _kinds_of(one.hint)
            if not kinds:
                return None
            unfit = one.default is not msgspec.UNSET and (
                type(one.default) not in kinds or (choices is not None and one.default not in choices)
            )
            takes.append(Takes(one.name, kinds, choices, _MISSING if one.required or unfit else one.default))
        return cls(takes)

    def read(self, raw: object) -> tuple[dict[str, Any], str] | None:
        """The plain form of what a model sent, and its canonical text; None: only the general way can tell."""
        if type(raw) is not dict or not self._names.issuperset(raw):
            return None
        plain: dict[str, Any] = {}
        for name, kinds, choices, absent in self._takes:
            value = raw.get(name, absent)
            kind = type(value)
            if kind not in kinds:
                if value is msgspec.UNSET and name not in raw:
                    continue
                return None
            if (
                (choices is not None and value not in choices)
                or (kind is int and not _LEAST <= value <= _MOST)
                or (kind is float and not isfinite(value))
            ):
                return None
            plain[name] = value
        written = [start + _WRITE[type(plain[name])](plain[name]) for name, start in self._written if name in plain]
        return plain, "{" + ",".join(written) + "}"


def _kinds_of(hint: Any) -> tuple[tuple[type, ...], frozenset[str] | None]:
    """The types whose values a hint takes as they are, and which texts of them; no types: it is none of these."""
    found = get_args(hint)
    if any(hint is kind for kind in _SCALARS):
        return (hint,), None
    if get_origin(hint) is Literal and all(type(one) is str for one in found):
        return (str,), frozenset(found)
    if get_origin(hint) in {Union, UnionType} and len(found) == 2 and found[1] is NoneType:
        kinds = tuple(kind for kind in _SCALARS if kind is found[0])
        return ((*kinds, NoneType), None) if kinds else ((), None)
    return (), None
