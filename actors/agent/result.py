"""Whatever a tool returns, as a JSON object: total, bounded, and never an exception.

An effect has happened by the time its result gets here. A result that could not be recorded would leave the effect in
doubt for no reason, so nothing a tool returns may fail: cycles, hostile `__str__`, endless iterators and gigabytes
included. NUL and lone surrogates are kept; `callboard.mailbox.codec` can hold them.
"""

import dataclasses
import json
import math
import reprlib
from collections import deque
from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from datetime import date, time
from enum import Enum
from typing import Any, Final

import msgspec

from callboard.mailbox import codec

MAX_BYTES: Final = 768 << 10
"""Of the JSON as it is stored; leaves room for the rest of a message, which may take 1 MiB."""
MAX_DEPTH: Final = 20
SUMMARY_CHARS: Final = 2_000
# Python refuses to print longer integers (4,300 digits by default), and no decoder reads them.
_MAX_INTEGER_BITS: Final = 2_000

_QUICK_NODES: Final = 1_000
_QUICK_DEPTH: Final = 8
"""Containers within each other; half of what the walk allows."""
_SHORT: Final = 1 << 63
_OTHER: Final = object()
_encode: Final = msgspec.json.Encoder().encode

_SEQUENCES: Final = (list, tuple, set, frozenset, deque, range, KeysView, ValuesView, ItemsView)


def normalise(value: object, max_bytes: int = MAX_BYTES) -> dict[str, Any]:
    """`value` as a JSON object of plain dicts, lists, strings, finite numbers, booleans and None.

    Mappings, Structs, dataclasses, attrs classes and pydantic models become an object; anything else becomes
    `{"result": value}`. What JSON cannot hold becomes text. When the JSON is larger than `max_bytes`, the result is
    `{"summary": its first 2,000 characters, "truncated_bytes": how many bytes (at least) the summary leaves out}`.
    """
    if (quick := _quickly(value, max_bytes)) is not None:
        return quick
    walk = _Walk(
        max_nodes=max_bytes // 2 + 1
    )  # a node takes two bytes at least, so the limit is passed when they run out
    plain = walk.plain(value, 0)
    result = plain if isinstance(plain, dict) else {"result": plain}
    size = len(codec.encode(result).encode())
    if size <= max_bytes and walk.nodes_left > 0:
        return result
    summary = json.dumps(result, ensure_ascii=False, separators=(",", ":"))[:SUMMARY_CHARS]
    return {"summary": summary, "truncated_bytes": size - len(summary.encode(errors="surrogatepass"))}


def text_of(value: object) -> str:
    """`str(value)`, or the next best text when that fails or is no text."""
    for attempt in (str, repr):
        try:
            return str.__str__(attempt(value))  # a plain str, also of a subclass with ideas of its own
        except KeyboardInterrupt:
            raise
        except BaseException:  # noqa: BLE001, S112 - a hostile __str__ may raise anything; the next attempt is the answer
            continue
    return (
        f"<unprintable {type.__dict__['__name__'].__get__(type(value))}>"  # not type(value).__name__: see metaclasses
    )


def _quickly(value: object, max_bytes: int) -> dict[str, Any] | None:
    """`normalise` for what most tools return: plain values, not many of them. None: the walk has to look.

    At a tenth of what that costs, and every call of a tool pays for it.
    """
    copied = _copied(value, [_QUICK_NODES], 0)
    if copied is _OTHER:
        return None
    result: dict[str, Any] = copied if type(copied) is dict else {"result": copied}
    try:
        return result if len(_encode(result)) <= max_bytes else None
    except (TypeError, ValueError):  # of a lone surrogate
        return None


def _copied(value: Any, left: list[int], depth: int) -> Any:
    """A copy of plain values that shares nothing with them that can be changed; `_OTHER` where there is anything else,
    more than `left`, or too deep."""
    kind = type(value)
    if kind is str or kind is bool or value is None:
        return value
    if kind is int:
        return value if -_SHORT < value < _SHORT else _OTHER
    if kind is float:
        return value if math.isfinite(value) else _OTHER
    if (kind is not dict and kind is not list) or depth > _QUICK_DEPTH:
        return _OTHER
    left[0] -= len(value) + 1
    if left[0] < 0:
        return _OTHER
    if kind is list:
        items = [_copied(item, left, depth + 1) for item in value]
        return _OTHER if any(item is _OTHER for item in items) else items
    copy: dict[str, Any] = {}
    for key, item in value.items():
        found = item if type(item) is str else _copied(item, left, depth + 1)
        if type(key) is not str or found is _OTHER:
            return _OTHER
        copy[key] = found
    return copy


class _Walk:
    """One value being made plain: remembers the containers it is inside of, and how much it may still visit."""

    def __init__(self, max_nodes: int) -> None:
        self.nodes_left = max_nodes
        self._inside: set[int] = set()

    def plain(self, value: object, depth: int) -> Any:
        self.nodes_left -= 1
        try:
            found = self._convert(value, depth)
        except KeyboardInterrupt:
            raise
        except BaseException:  # noqa: BLE001 - hostile iterators, properties and __class__ raise what they like
            found = text_of(value)
        if isinstance(found, str):
            # One text in a thousand places is written a thousand times.
            self.nodes_left -= len(found) // 2
        return found

    def _convert(self, value: object, depth: int) -> Any:
        if value is None or isinstance(value, bool | int | float | str | bytes | bytearray | memoryview | Enum):
            return _scalar(value)
        if isinstance(value, date | time):
            return value.isoformat()
        fields = _fields(value)
        if fields is None and not isinstance(value, _SEQUENCES):
            return text_of(value)
        if id(value) in self._inside:
            return "<cycle>"
        if depth > MAX_DEPTH:
            return _BRIEF.repr(value)
        self._inside.add(id(value))
        try:
            if fields is not None:
                return self._object(fields, depth)
            assert isinstance(value, Iterable)
            items = [self.plain(item, depth + 1) for item in self._affordable(value)]
            return _in_order(items) if isinstance(value, set | frozenset) else items
        finally:
            self._inside.discard(id(value))

    def _object(self, fields: Iterable[tuple[object, object]], depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        alike: dict[str, int] = {}
        for key, item in self._affordable(fields):
            name = key_text(key)
            self.nodes_left -= len(name) // 2
            if name in found:  # 1 and "1": two keys stay two
                name = self._free_name(name, found, alike)
            found[name] = self.plain(item, depth + 1)
        return found

    @staticmethod
    def _free_name(name: str, found: dict[str, Any], alike: dict[str, int]) -> str:
        """A name that is not taken. Counted, not lengthened until it fits: of many keys alike that takes for ever."""
        while True:
            count = alike[name] = alike.get(name, 0) + 1
            free = f"{name}'" if count == 1 else f"{name}'{count}"
            if free not in found:
                return free

    def _affordable(self, items: Iterable[Any]) -> Iterator[Any]:
        for item in items:
            if self.nodes_left <= 0:
                return
            yield item


def key_text(key: object) -> str:
    """An object's key as text: what the value would be, without quotes."""
    try:
        plain = _scalar(key)
    except KeyboardInterrupt:
        raise
    except BaseException:  # noqa: BLE001 - see _Walk.plain
        return text_of(key)
    return plain if isinstance(plain, str) else text_of(plain)


def _scalar(value: object) -> Any:
    """The exact built-in value: subclasses lose what they added, since an encoder would call it."""
    match value:
        case None | True | False:
            return value
        case Enum() if not isinstance(value, str | int | float):
            return text_of(value.value)
        case str():
            return str.__str__(value)
        case int():
            exact = int.__int__(value)
            return exact if exact.bit_length() <= _MAX_INTEGER_BITS else hex(exact)
        case float():
            exact_float = float.__float__(value)
            return exact_float if math.isfinite(exact_float) else str(exact_float)
        case bytes() | bytearray() | memoryview():
            # Spelling out 50 MB takes a minute, in which no heart beats; what is left is too large still.
            return bytes(value)[: MAX_BYTES + 4].decode(errors="backslashreplace")
        case date() | time():
            return value.isoformat()
    return text_of(value)


def _fields(value: object) -> Iterable[tuple[object, object]] | None:
    """Names and values of what is an object in JSON; None for the rest."""
    if isinstance(value, Mapping):
        return value.items()
    if isinstance(value, type):
        return None
    if isinstance(value, msgspec.Struct):
        return [(name, getattr(value, name)) for name in value.__struct_fields__]
    if dataclasses.is_dataclass(value):
        return [(field.name, getattr(value, field.name)) for field in dataclasses.fields(value)]
    if isinstance(attributes := getattr(type(value), "__attrs_attrs__", None), tuple):  # attrs, without importing it
        return [(attribute.name, getattr(value, attribute.name)) for attribute in attributes]
    if hasattr(type(value), "model_dump") and hasattr(type(value), "model_fields"):  # pydantic, without importing it
        dumped = value.model_dump()  # type: ignore[attr-defined]
        return dumped.items() if isinstance(dumped, dict) else None
    return None


def _in_order(items: list[Any]) -> list[Any]:
    """A set's order differs between processes; this one does not."""
    try:
        return sorted(items)
    except TypeError:
        return sorted(items, key=lambda item: json.dumps(item, sort_keys=True))


class _Brief(reprlib.Repr):
    """Text of a container that is too deep. Not `str`: where parts are shared, that can be exponentially long."""

    def repr_instance(self, x: Any, level: int) -> str:
        return super().repr_instance(x, level) if isinstance(x, float | bool | None) else f"<{type(x).__name__}>"


_BRIEF = _Brief()
_BRIEF.maxlevel = 2
