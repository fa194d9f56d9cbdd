"""What a database could store, so that the memory store refuses the same values as the real one.

Text is UTF-8 without NUL (bodies carry those as JSON escapes), whole numbers have 64 bits, times are finite. Every row
of every commit passes here, so all texts of a row are looked at as one, and all its numbers; only a row that fails is
looked at field by field.
"""

from collections.abc import Callable, Sequence
from functools import cache
from math import isfinite
from operator import attrgetter
from typing import Any, Literal, get_origin

import msgspec

from ...mailbox.envelope import Envelope
from ...mailbox.errors import BadRow
from ..unit import Unit

_LOWEST, _HIGHEST = -(1 << 63), (1 << 63) - 1


def check_unit(unit: Unit) -> None:
    """Look at every value of a unit.

    Raises:
        BadRow: with the row, the field and what is wrong with it.
    """
    if unit.actor is not None:
        check(unit.actor)
    for rows in (
        unit.sends, unit.turns, unit.events, unit.holds, unit.retries, unit.timers, unit.dead, unit.fires,
        unit.decisions, unit.moves,
    ):  # fmt: skip
        for row in rows:
            check(row)
    for values in (
        unit.acks, unit.charges, unit.releases, unit.drops, unit.withdraws, unit.stashes, unit.timers_cancelled,
    ):  # fmt: skip
        for value in values:
            if (fault := _fault(value)) is not None:
                raise BadRow(f"unit of shard {unit.shard}: {fault}; the turn that wrote it is at fault")


def check(row: msgspec.Struct) -> None:
    """Look at every value of a row.

    Raises:
        BadRow: with the row, the field and what is wrong with it.
    """
    texts, wholes, lengths, envelopes = _columns(type(row))
    try:
        text = "".join(texts(row))
        numbers = wholes(row)
        if (
            "\0" in text
            or not (text.isascii() or _encodable(text))
            or min(numbers) < _LOWEST
            or max(numbers) > _HIGHEST
            or not isfinite(sum(lengths(row)))
        ):
            _refuse(row)
    except TypeError as error:
        raise BadRow(f"{type(row).__name__}: a value has another type than its column ({error})") from error
    for envelope in envelopes(row):
        check(envelope)


def check_text(name: str, text: str) -> None:
    """Look at a value that is not in a row.

    Raises:
        BadRow: with what is wrong with it.
    """
    fault = _fault(text)
    if fault is not None:
        raise BadRow(f"{name}: {fault}")


_Columns = Callable[[Any], Sequence[Any]]


@cache
def _columns(kind: type[msgspec.Struct]) -> tuple[_Columns, _Columns, _Columns, _Columns]:
    """What takes the texts, the whole numbers, the lengths of time and the envelopes out of such a row."""
    names: dict[object, list[str]] = {str: [], int: [], float: [], Envelope: []}
    for field in msgspec.structs.fields(kind):
        names.get(str if get_origin(field.type) is Literal else field.type, []).append(field.encode_name)
    return (
        _taker(names[str], ()),
        _taker(names[int], (0,)),
        _taker(names[float], (0.0,)),
        _taker(names[Envelope], ()),
    )


def _taker(names: list[str], otherwise: Sequence[Any]) -> _Columns:
    if not names:
        return lambda _row: otherwise
    # The first name twice: attrgetter gives a tuple only for two and more.
    return attrgetter(*names, names[0]) if len(names) == 1 else attrgetter(*names)


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _refuse(row: msgspec.Struct) -> None:
    for index, value in enumerate(msgspec.structs.astuple(row)):
        fault = _fault(value)
        if fault is not None:
            name = row.__struct_fields__[index]
            raise BadRow(f"{type(row).__name__}.{name}: {fault}; the turn that wrote it is at fault")


def _fault(value: object) -> str | None:
    if isinstance(value, str):
        if "\0" in value:
            return "a text with a NUL character cannot be stored (JSON has an escape for it)"
        if not _encodable(value):
            return "a text with a lone surrogate cannot be stored (JSON has an escape for it)"
    elif isinstance(value, int) and not _LOWEST <= value <= _HIGHEST:
        return f"{value} does not fit 64 bits"
    elif isinstance(value, float) and not isfinite(value):
        return f"{value} is not a length of time"
    return None
