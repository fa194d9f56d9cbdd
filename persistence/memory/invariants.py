"""The invariants of SEMANTICS 4.17 as a look at the rows of a memory store: what breaks one is told in a sentence.

Neighbours: `tables` and `cluster` are only read. `postgres/queries/invariants.sql` asks a database the same.
A text begins with the number of its invariant:

    I1   a message is in exactly one place: waiting (or held, or stashed), ended by a turn row, or a dead letter; at
         rest also: none that its sender numbered is missing
    I2   of an actor's turns each made a version of its own, none beyond the one that it has
    I3   what one actor sent another in one lane was handled in that order, and once; a stashed one counts where it was
         put aside
    I4   no turn row of a node after its end, under an epoch that is none of its own
    I5   a message names a cause that was handled, or is still there
    I6   an open ask still has its time-out before it; none was answered twice
    I7   a gated call is free, or was made, only after it was released
    I8   a worker's call was done once
    I9   below a supervisor that has ended, is parked or escalated no single child is active
    I10  an ended actor has no turn beyond its version; whether it changes shows in two looks (`ended`)
    I11  a periodic timer that an actor counts on is set
    I12  needs two looks: `charges`
    I13  who does not move has a reason; at rest also: a message that may be handled lies in a shard that is served
    I14  by a supervisor's journal no child was started while it was up, and each start had a higher incarnation
    S9   an actor's events are numbered from 1 without gaps, as many as it counted

What rows cannot show: a turn that is missing (I2: an actor that fails or is parked gets a version without one), effects
outside (I8), that fires and folds add up (I11: only the receiver counts them), the order of starts and stops among the
children of a group (I14), and anything about rows that retention has removed.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator

import msgspec

from ...mailbox.address import parent_of
from ...mailbox.envelope import Envelope
from ...mailbox.lane import Lane
from ..rows import ENDED, ActorRow, TurnRow
from .cluster import Cluster
from .tables import Tables

_ENDS = frozenset({"done", "refused", "cancelled", "late"})
"""Outcomes after which a message is gone; one that is dead has its dead letter instead."""
_TURNS = frozenset({"done", "stashed"})
"""Outcomes that make a version."""
_DOWN = frozenset(
    f"sys.supervision.{what}"
    for what in (
        *("start_error", "child_terminated", "child_ended"),
        *("child_stopped", "shutdown_error", "instance_abandoned"),
    )
)
"""What a supervisor records of a child that is not up any more."""
_OVER = frozenset({"completed", "cancelled", "stopped", "escalated", "parked"})
"""Statuses of a supervisor whose children were stopped before."""


class _Bonds(msgspec.Struct):
    """What is looked at of an actor's bonds."""

    asks: dict[int, msgspec.Raw] = {}
    tickers: dict[str, int] = {}


class _Lived(msgspec.Struct):
    """What is looked at of an event of a supervisor."""

    child: str = ""
    incarnation: int = 0


class _TimedOut(msgspec.Struct):
    ask: int


def violations(tables: Tables, cluster: Cluster, now: float, *, at_rest: bool = True) -> list[str]:
    """What breaks an invariant at this moment, `now` by the store's clock; empty when all hold.

    `at_rest` includes what holds only while nothing moves, and before anything is removed.
    """
    turns = [turn for rows in tables.turns.values() for turn in rows]
    found = [
        *_places(tables, turns),
        *_versions(tables),
        *_order(tables),
        *_epochs(cluster, turns),
        *_causes(tables, turns),
        *_asks(tables, turns),
        *_gates(tables, turns),
        *_calls(turns),
        *_families(tables),
        *_tickers(tables),
        *_reasons(tables),
        *_starts(tables),
        *_events(tables),
    ]
    if at_rest:
        found += [*_lost(tables, turns), *_unserved(tables, cluster, now)]
    return found


def charges(tables: Tables) -> int:
    """How many failures are charged to messages, waiting or dead. I12: what is no failure leaves this as it is."""
    waiting = sum(stored.envelope.failures for stored in tables.messages.values())
    return waiting + sum(letter.envelope.failures for letter in tables.dead)


def ended(tables: Tables) -> dict[str, tuple[int, int]]:
    """Incarnation and version of each actor that has ended. I10: the same in a later look, or a new incarnation."""
    return {row.address: (row.incarnation, row.version) for row in tables.actors.values() if row.status in ENDED}


def _places(tables: Tables, turns: list[TurnRow]) -> Iterator[str]:
    ends: dict[tuple[int, int], list[str]] = defaultdict(list)
    buried: set[tuple[int, int]] = set()
    for turn in turns:
        if turn.outcome in _ENDS:
            ends[turn.shard, turn.id].append(turn.outcome)
        elif turn.outcome == "dead":
            buried.add((turn.shard, turn.id))
    dead = {(letter.envelope.shard, letter.envelope.id) for letter in tables.dead}
    for (shard, identifier), outcomes in ends.items():
        if len(outcomes) > 1:
            yield f"I1 message {identifier} of shard {shard} ended {len(outcomes)} times: {', '.join(sorted(outcomes))}"
        if (shard, identifier) in tables.messages:
            yield f"I1 message {identifier} of shard {shard} is {outcomes[0]}, and waits"
        if (shard, identifier) in dead and outcomes != ["cancelled"]:
            yield f"I1 message {identifier} of shard {shard} is {outcomes[0]}, and a dead letter"
    for key in dead & tables.messages.keys():
        yield f"I1 message {key[1]} of shard {key[0]} is a dead letter, and waits"
    for key in buried - dead - tables.messages.keys() - ends.keys():
        yield f"I1 message {key[1]} of shard {key[0]} was given up, and there is no dead letter"


def _lost(tables: Tables, turns: list[TurnRow]) -> Iterator[str]:
    numbers: dict[str, set[int]] = defaultdict(set)
    rows: list[TurnRow | Envelope] = [*turns, *(stored.envelope for stored in tables.messages.values())]
    rows += [letter.envelope for letter in tables.dead]
    for row in rows:
        if row.sender_seq > 0:
            numbers[row.sender].add(row.sender_seq)
    for actor in tables.actors.values():
        found = len(numbers[actor.address])
        if actor.sent != found:
            yield f"I1 {actor.address} sent {actor.sent}, {found} of them found"


def _versions(tables: Tables) -> Iterator[str]:
    actors = {row.address: row for row in tables.actors.values()}
    for address, rows in tables.turns.items():
        made = [turn for turn in rows if turn.version > 0 and turn.outcome in _TURNS]
        # The system lane left out: what an actor only takes note of makes no version.
        for version, count in Counter(turn.version for turn in made if turn.lane != Lane.SYSTEM).items():
            if count > 1:
                yield f"I2 version {version} of {address} was made by {count} turns"
        row = actors.get(address)
        last, version = max((turn.version for turn in made), default=0), 0 if row is None else row.version
        if last > version:
            number = "I10" if row is not None and row.status in ENDED else "I2"
            yield f"{number} {address} has version {version}, and a turn that made {last}"


def _order(tables: Tables) -> Iterator[str]:
    for address, rows in tables.turns.items():
        last: dict[tuple[str, int], int] = {}
        met: set[int] = set()
        for turn in sorted(rows, key=lambda turn: (turn.version, turn.id)):
            if turn.version <= 0 or turn.sender_seq <= 0 or turn.outcome not in _TURNS or turn.id in met:
                continue
            met.add(turn.id)
            previous = last.get((turn.sender, turn.lane), 0)
            if turn.sender_seq <= previous:
                yield f"I3 {address} handled {turn.sender_seq} of {turn.sender} in lane {turn.lane} after {previous}"
            last[turn.sender, turn.lane] = turn.sender_seq


def _epochs(cluster: Cluster, turns: list[TurnRow]) -> Iterator[str]:
    for turn in turns:
        node = cluster.nodes.get(turn.node)
        if node is None:
            continue  # written by a test, or by hand
        since = node.joined_at if node.serves else node.ended_at
        late = turn.at > since and (0 < turn.epoch < node.epoch if node.serves else True)
        if late or turn.epoch > node.epoch:
            yield (
                f"I4 message {turn.id} was handled by node {turn.node} under epoch {turn.epoch} at {turn.at:.3f}; "
                f"{node.epoch} is current, {node.status} since {since:.3f}"
            )


def _causes(tables: Tables, turns: list[TurnRow]) -> Iterator[str]:
    known = {turn.id for turn in turns}
    known.update(identifier for _, identifier in tables.messages)
    known.update(letter.envelope.id for letter in tables.dead)
    rows: list[TurnRow | Envelope] = [*turns, *(stored.envelope for stored in tables.messages.values())]
    for row in rows:
        if row.causation and row.causation not in known:
            yield f"I5 message {row.id} ({row.type}) for {row.recipient} was caused by {row.causation}, which never was"


def _asks(tables: Tables, turns: list[TurnRow]) -> Iterator[str]:
    announced: set[tuple[str, int]] = set()
    envelopes = [stored.envelope for stored in tables.messages.values()]
    for envelope in (*envelopes, *(letter.envelope for letter in tables.dead)):
        if envelope.type == "sys.ask_timed_out":
            announced.add((envelope.recipient, msgspec.json.decode(envelope.body, type=_TimedOut).ask))
    for row, bonds in _tied(tables):
        for ask in bonds.asks:
            timed = (row.shard, row.address, f"sys:ask:{ask}") in tables.timers
            if not timed and (row.address, ask) not in announced:
                yield f"I6 {row.address} waits for the outcome of ask {ask}, and no time-out comes"
    asked = {turn.id: turn for turn in turns if turn.version > 0 and turn.outcome == "done"}
    answers = Counter(
        (turn.recipient, turn.causation)
        for turn in turns
        if turn.outcome == "done"
        and turn.lane == Lane.REPLY
        and (cause := asked.get(turn.causation)) is not None
        and (cause.recipient, cause.sender) == (turn.sender, turn.recipient)
    )
    for (address, ask), count in answers.items():
        if count > 1:
            yield f"I6 {address} handled {count} answers to {ask}"


def _tied(tables: Tables) -> Iterator[tuple[ActorRow, _Bonds]]:
    for row in tables.actors.values():
        if row.bonds and row.status == "active":
            yield row, msgspec.json.decode(row.bonds, type=_Bonds)


def _gates(tables: Tables, turns: list[TurnRow]) -> Iterator[str]:
    done = {turn.id for turn in turns if turn.outcome == "done"}
    free = {identifier for (_, identifier), stored in tables.messages.items() if not stored.held}
    for decision in tables.decisions.values():
        if decision.kind == "approval" and decision.status != "released" and decision.message_id in done | free:
            what = "was handled" if decision.message_id in done else "may be handled"
            yield f"I7 {decision.tool} of {decision.run} {what}, and decision {decision.id} is {decision.status}"


def _calls(turns: list[TurnRow]) -> Iterator[str]:
    done = Counter(turn.id for turn in turns if turn.version == 0 and turn.outcome == "done")
    for identifier, count in done.items():
        if count > 1:
            yield f"I8 call {identifier} was done {count} times"


def _families(tables: Tables) -> Iterator[str]:
    over = {row.address: row for row in tables.actors.values() if row.kind == "supervisor" and row.status in _OVER}
    for row in tables.actors.values():
        parent = over.get(parent_of(row.address)) if row.status == "active" else None
        if parent is not None and ":" not in row.address.rpartition("/")[2]:
            yield f"I9 {row.address} is active, and its supervisor is {parent.status}"


def _tickers(tables: Tables) -> Iterator[str]:
    for row, bonds in _tied(tables):
        for key, generation in bonds.tickers.items():
            stored = tables.timers.get((row.shard, row.address, key))
            if stored is None or stored.timer.generation != generation or stored.timer.period_seconds <= 0:
                yield f"I11 timer {key!r} of {row.address} is not set in generation {generation}"


def _reasons(tables: Tables) -> Iterator[str]:
    for row in tables.actors.values():
        if row.status not in ("active", "completed") and not row.reason:
            yield f"I13 {row.address} is {row.status} without a reason"


def _unserved(tables: Tables, cluster: Cluster, now: float) -> Iterator[str]:
    serving = {node.number for node in cluster.nodes.values() if node.serves}
    for (shard, identifier), stored in tables.messages.items():
        owned = cluster.owners.get(shard) in serving or (shard, stored.envelope.recipient) not in tables.actors
        if serving and not owned and not stored.held and stored.due <= now:
            yield f"I13 message {identifier} for {stored.envelope.recipient} waits, and nobody serves shard {shard}"


def _starts(tables: Tables) -> Iterator[str]:
    for address, events in tables.events.items():
        up: set[str] = set()
        highest: dict[str, int] = {}
        for event in events:
            if event.type == "sys.supervision.ended":
                up.clear()  # its children were down with it
            elif event.type == "sys.supervision.child_started":
                told = msgspec.json.decode(event.body, type=_Lived)
                was = highest.get(told.child, -1)
                # Told again of the same one is no second start: a program came back that knows this child.
                if told.incarnation != was if told.child in up else told.incarnation <= was:
                    yield f"I14 {address} started {told.child} as incarnation {told.incarnation}, which was up as {was}"
                up.add(told.child)
                highest[told.child] = max(told.incarnation, was)
            elif event.type in _DOWN:
                up.discard(msgspec.json.decode(event.body, type=_Lived).child)


def _events(tables: Tables) -> Iterator[str]:
    for row in tables.actors.values():
        events = tables.events.get(row.address, [])
        if [event.seq for event in events] != list(range(1, row.events + 1)):
            yield f"S9 {row.address} counted {row.events} events, and {len(events)} are in its journal"
