"""From units to the arguments of `commit_batch`: one array a column, one pass over the batch.

Neighbours: `session` sends what is made here; `functions/2_commit.sql` says what becomes of it.
Invariant: columns go in the order of the fields of the row classes. The packers are zipped strictly with the fields, so
that a new field fails at import; a test compares the order with the types in the database.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Any

import msgspec

from ...mailbox.envelope import DeadLetter, Envelope
from ..rows import ActorRow, EventRow, TurnRow
from ..unit import Unit
from .arrays import Array, Columns, bools, byte_strings, floats, integers, texts

_Packer = Callable[[Sequence[Any]], Array]
_I, _T, _F, _B, _Y = integers, texts, floats, bools, byte_strings


def _section(kind: type[msgspec.Struct], packers: Iterable[_Packer]) -> list[_Packer | None]:
    return [None if field in _NOT_SENT else pack for field, pack in zip(kind.__struct_fields__, packers, strict=True)]


# The store's clock says when, the commit under which epoch, and what happened to a message is told by retries: a new
# one begins without.
_NOT_SENT = ("at", "epoch", "losses", "timeouts", "failing_seconds")

# In the order of the fields of the row classes, which is that of the types in functions/2_commit.sql.
_ACTOR = _section(ActorRow, (_I, _T, _T, _I, _I, _T, _T, _Y, _I, _I, _I, _I, _T, _T))
_MESSAGE = _section(Envelope, (_I, _I, _T, _T, _I, _T, _I, _T, _I, _I, _I, _F, _T, _T, _I, _I, _B, _I, _T, _I, _I, _F))
_TURN = _section(TurnRow, (_I, _I, _T, _T, _T, _I, _I, _I, _T, _I, _I, _I, _I, _F))
_EVENT = _section(EventRow, (_I, _T, _I, _T, _T, _F, _I))


def flatten(units: Sequence[Unit], node: int, epoch: int) -> dict[str, Any]:
    """The arguments of `commit_batch`.

    Raises:
        UnicodeEncodeError, struct.error, OverflowError: a value cannot be sent.
    """
    ack_shards: list[int] = []
    acks: list[int] = []
    actors: list[ActorRow] = []
    expected: list[int] = []
    messages: list[Envelope] = []
    held: list[Envelope] = []
    turns: list[TurnRow] = []
    events: list[EventRow] = []
    rare: dict[str, list[Any]] = {}
    for unit in units:
        if unit.acks:
            acks += unit.acks
            ack_shards += [unit.shard] * len(unit.acks)
        if unit.actor is not None:
            actors.append(unit.actor)
            expected.append(unit.expected)
        messages += unit.sends
        held += unit.holds
        turns += unit.turns
        events += unit.events
        _flatten_rare(unit, rare)
    return {
        "node": node,
        "epoch": epoch,
        "ack_shard": integers(ack_shards),
        "ack_id": integers(acks),
        "actor": _columns(_ACTOR, actors, integers(expected)),
        "created": expected.count(0),
        "message": _columns(_MESSAGE, messages + held, bools([False] * len(messages) + [True] * len(held))),
        "turn": _columns(_TURN, turns),
        "event": _columns(_EVENT, events),
        "rare": to_json(rare) if rare else None,
    }


def _columns(section: Sequence[_Packer | None], rows: Sequence[msgspec.Struct], *more: Array) -> Columns | None:
    if not rows:
        return None
    columns = zip(*map(msgspec.structs.astuple, rows), strict=True)
    packed = [pack(column) for pack, column in zip(section, columns, strict=True) if pack is not None]
    return Columns([*packed, *more])


def message_columns(envelopes: Sequence[Envelope]) -> Columns | None:
    """Messages as `accept_messages` takes them; None where there are none.

    Raises:
        UnicodeEncodeError, struct.error, OverflowError: a value cannot be sent.
    """
    return _columns(_MESSAGE, envelopes, bools([False] * len(envelopes)))


_RARE = attrgetter(
    "retries", "charges", "releases", "drops", "withdraws", "stashes", "unstash", "dead", "fires", "timers_cancelled",
    "timers", "moves", "decisions",
)  # fmt: skip


def _flatten_rare(unit: Unit, rare: dict[str, list[Any]]) -> None:
    found = _RARE(unit)
    if not any(found):
        return
    retries, charges, releases, drops, withdraws, stashes, unstash, dead, fires, cancels = found[:10]
    timers, moves, decisions = found[10:]
    # A plan may begin with an empty table and never look at an id: what does not fit 64 bits is refused here.
    integers([*charges, *releases, *drops, *withdraws, *stashes, *(retry.id for retry in retries)])
    shard = unit.shard
    owner = unit.actor
    added: dict[str, list[Any]] = {
        "retries": [{**msgspec.structs.asdict(retry), "shard": shard} for retry in retries],
        "charges": [{"shard": shard, "id": identifier} for identifier in charges],
        "releases": [{"shard": shard, "id": identifier} for identifier in releases],
        "drops": [{"shard": shard, "id": identifier} for identifier in drops],
        "withdraws": [{"shard": shard, "id": identifier} for identifier in withdraws],
        "stashes": [{"shard": shard, "id": identifier, "recipient": _name(unit)} for identifier in stashes],
        "unstashes": [{"shard": shard, "address": _name(unit)}] if unstash else [],
        "dead": [dead_letter(letter) for letter in dead],
        "fires": [{**msgspec.structs.asdict(fire), "shard": shard} for fire in fires],
        "cancels": [] if owner is None else [
            {"shard": owner.shard, "address": owner.address, "key": key} for key in cancels
        ],
        # Set twice in one unit: the last one counts; a statement may hit a row once.
        "timers": list({(timer.address, timer.key): timer for timer in timers}.values()),
        "moves": list(moves),
        "decisions": list(decisions),
    }  # fmt: skip
    for name, rows in added.items():
        if rows:
            rare.setdefault(name, []).extend(rows)


def _name(unit: Unit) -> str:
    # Only an actor has a stash: no message is for the empty address.
    return "" if unit.actor is None else unit.actor.address


def dead_letter(letter: DeadLetter) -> dict[str, Any]:
    """A dead letter as one flat object."""
    more = {name: getattr(letter, name) for name in ("reason", "detail", "settled", "settled_by")}
    return {**msgspec.structs.asdict(letter.envelope), **more}


def to_json(value: Any) -> str:
    """Plain values and structs as JSON text.

    Raises:
        UnicodeEncodeError, OverflowError: a value cannot be sent.
    """
    return msgspec.json.encode(value).decode()


def claims(units: Sequence[Unit]) -> str:
    """What each unit expects to find, for `misfits`."""
    actors: list[dict[str, Any]] = []
    messages: list[dict[str, Any]] = []
    fires: list[dict[str, Any]] = []
    moves: list[dict[str, Any]] = []
    for index, unit in enumerate(units):
        here = {"unit": index, "shard": unit.shard}
        if unit.actor is not None:
            actors.append(
                {"unit": index, "shard": unit.actor.shard, "address": unit.actor.address, "expected": unit.expected}
            )
        waiting = [*unit.acks, *(retry.id for retry in unit.retries)]
        messages += [{**here, "id": identifier, "held": False} for identifier in waiting]
        messages += [{**here, "id": identifier, "held": True} for identifier in (*unit.releases, *unit.drops)]
        messages += [{**here, "id": identifier, "held": False, "recipient": _name(unit)} for identifier in unit.stashes]
        fires += [{**msgspec.structs.asdict(fire), **here} for fire in unit.fires]
        moves += [{**msgspec.structs.asdict(move), **here} for move in unit.moves if move.must]
    return to_json({"actors": actors, "messages": messages, "fires": fires, "moves": moves})


def overlaps(units: Sequence[Unit]) -> list[int]:
    """Indexes of units that touch a row which an earlier unit, or they themselves before, touch already."""
    touched: set[Hashable] = set()
    found = []
    for index, unit in enumerate(units):
        rows = list(_rows_touched(unit))
        distinct = set(rows)
        if len(distinct) < len(rows) or not touched.isdisjoint(distinct):
            found.append(index)
        else:
            touched |= distinct
    return found


def _rows_touched(unit: Unit) -> Iterator[Hashable]:
    if unit.actor is not None:
        yield "actor", unit.actor.shard, unit.actor.address
    for identifier in (*unit.acks, *unit.releases, *unit.drops, *unit.stashes, *(retry.id for retry in unit.retries)):
        yield "message", unit.shard, identifier
    for fire in unit.fires:
        yield "timer", unit.shard, fire.address, fire.key
    for move in filter(attrgetter("must"), unit.moves):
        yield "decision", move.decision
