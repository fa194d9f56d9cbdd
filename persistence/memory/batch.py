"""A commit: each unit is checked against the tables, the ones that pass are written, in one step.

Everything that can go wrong goes wrong before the first write; that is what makes a batch all or nothing here.
"""

from collections.abc import Hashable, Iterator, Sequence
from copy import copy

from ...mailbox.errors import BadRow
from ..rows import TurnRow
from ..unit import CommitResult, Unit
from .tables import Tables
from .values import check_unit

FIRE_SLACK_SECONDS = 0.001
"""How early a fire may come: what rounding can take from a delay, and far less than a period."""


def write(tables: Tables, units: Sequence[Unit], now: float, node: int) -> CommitResult:
    """Write a batch of `node`.

    Raises:
        BadRow: a value cannot be stored or a key is taken; nothing was written.
    """
    for unit in units:
        check_unit(unit)
    result = CommitResult(rejected={})
    admitted: list[Unit] = []
    touched: set[Hashable] = set()
    for index, unit in enumerate(units):
        refusal = _refusal(tables, unit, now) or _overlap(unit, touched)
        if refusal:
            result.rejected[index] = refusal
        else:
            admitted.append(unit)
    _check_keys(tables, admitted)
    for unit in admitted:
        # Before all else: a timer that one unit fires and another one sets anew has fired.
        for fire in unit.fires:
            tables.fire_timer(unit.shard, fire.address, fire.key, now)
    for unit in admitted:
        _apply(tables, unit, now, node)
    for unit in admitted:
        # Last: what another unit of the batch has acknowledged is not taken back any more.
        for identifier in unit.withdraws:
            if (unit.shard, identifier) in tables.messages:
                _take_back(tables, unit.shard, identifier, now, node)
    return result


def _refusal(tables: Tables, unit: Unit, now: float) -> str:
    """Why this unit does not fit what is stored; "" when it does."""
    if unit.actor is not None:
        row = tables.actors.get((unit.actor.shard, unit.actor.address))
        found = None if row is None else row.version
        if found != (unit.expected or None):
            return f"{unit.actor.address}: version {unit.expected} was expected, {found or 'none'} is there"
    for held, identifiers in (
        (False, unit.acks),
        (False, [retry.id for retry in unit.retries]),
        (True, unit.releases),
        (True, unit.drops),
    ):
        for identifier in identifiers:
            stored = tables.messages.get((unit.shard, identifier))
            if stored is None or stored.held is not held:
                return f"message {identifier} of shard {unit.shard} is not {'held' if held else 'waiting'} there"
    return _timer_or_decision_refusal(tables, unit, now) if unit.fires or unit.moves else ""


def _timer_or_decision_refusal(tables: Tables, unit: Unit, now: float) -> str:
    for fire in unit.fires:
        timer = tables.timers.get((unit.shard, fire.address, fire.key))
        if timer is None or timer.timer.generation != fire.generation:
            return f"timer {fire.key!r} of {fire.address} was cancelled or set anew"
        if timer.due > now + FIRE_SLACK_SECONDS:
            return f"timer {fire.key!r} of {fire.address} is due in {timer.due - now:.3f} s, not yet"
    for move in unit.moves:
        decision = tables.decisions.get(move.decision)
        if move.must and (decision is None or decision.status != move.before):
            status = "not there" if decision is None else decision.status
            return f"decision {move.decision} is {status}, not {move.before}"
    return ""


def _overlap(unit: Unit, touched: set[Hashable]) -> str:
    """Whether an earlier unit of the batch, or this one twice, touches the same row; notes the rows if not."""
    rows = list(_rows_touched(unit))
    distinct = set(rows)
    if len(distinct) < len(rows) or not touched.isdisjoint(distinct):
        return "a row of it is touched twice in this batch"
    touched |= distinct
    return ""


def _rows_touched(unit: Unit) -> Iterator[Hashable]:
    shard = unit.shard
    if unit.actor is not None:
        yield unit.actor.address
    for identifiers in (unit.acks, unit.releases, unit.drops):
        for identifier in identifiers:
            yield shard, identifier
    for retry in unit.retries:
        yield shard, retry.id
    for fire in unit.fires:
        yield "timer", shard, fire.address, fire.key
    for move in unit.moves:
        if move.must:
            yield "decision", move.decision


def _check_keys(tables: Tables, units: Sequence[Unit]) -> None:
    messages: set[tuple[int, int]] = set()
    decisions: set[str] = set()
    numbers: dict[str, int] = {}
    for unit in units:
        for envelope in (*unit.sends, *unit.holds):
            key = (envelope.shard, envelope.id)
            if key in messages or key in tables.messages:
                raise BadRow(f"message {envelope.id} of shard {envelope.shard} is there already; ids are used once")
            messages.add(key)
        for event in unit.events:
            last = numbers.get(event.address)
            last = len(tables.events.get(event.address, ())) if last is None else last
            if event.seq != last + 1:
                raise BadRow(f"event {event.seq} of {event.address}: the next one is number {last + 1}")
            numbers[event.address] = event.seq
        for decision in unit.decisions:
            if decision.id in decisions or decision.id in tables.decisions:
                raise BadRow(f"decision {decision.id} is there already; ids are used once")
            decisions.add(decision.id)


def _apply(tables: Tables, unit: Unit, now: float, node: int) -> None:
    shard = unit.shard
    if unit.actor is not None:
        tables.actors[unit.actor.shard, unit.actor.address] = copy(unit.actor)
    for identifier in unit.acks:
        tables.delete(shard, identifier)
    for turn in unit.turns:
        turn = copy(turn)  # noqa: PLW2901 - the caller's row stays as it is
        turn.at = now
        tables.turns.setdefault(turn.recipient, []).append(turn)
    for envelope in unit.sends:
        tables.put(envelope, now)
    for event in unit.events:
        event = copy(event)  # noqa: PLW2901
        event.at = now
        tables.events.setdefault(event.address, []).append(event)
    _apply_moves_of_messages(tables, unit, now, node)
    _apply_timers(tables, unit, now)
    if unit.decisions or unit.moves:
        _apply_decisions(tables, unit, now)


def _apply_moves_of_messages(tables: Tables, unit: Unit, now: float, node: int) -> None:
    shard = unit.shard
    for retry in unit.retries:
        stored = tables.messages[shard, retry.id]
        stored.due = now + retry.delay_seconds
        envelope = stored.envelope
        envelope.deliveries, envelope.failures = retry.deliveries, retry.failures
        envelope.last_error, envelope.started = retry.last_error, retry.started
    for envelope in unit.holds:
        tables.put(envelope, now, held=True)
    for identifier in unit.releases:
        tables.release(shard, identifier)
    for identifier in unit.drops:
        _take_back(tables, shard, identifier, now, node)
    for letter in unit.dead:
        letter = copy(letter)  # noqa: PLW2901
        letter.envelope, letter.at = copy(letter.envelope), now
        letter.envelope.delay_seconds = 0.0
        tables.dead.append(letter)


def _take_back(tables: Tables, shard: int, identifier: int, now: float, node: int) -> None:
    """Delete a message that is not handled any more; its turn row says so, for every message's end is on record."""
    e = tables.messages[shard, identifier].envelope
    tables.delete(shard, identifier)
    turn = TurnRow(
        shard, e.id, e.recipient, e.sender, e.type, e.lane, e.sender_seq, 0, "cancelled", e.causation, e.deliveries
    )
    turn.node, turn.at = node, now
    tables.turns.setdefault(turn.recipient, []).append(turn)


def _apply_timers(tables: Tables, unit: Unit, now: float) -> None:
    if unit.actor is not None:
        for key in unit.timers_cancelled:
            tables.cancel_timer(unit.actor.shard, unit.actor.address, key)
    for timer in unit.timers:
        tables.set_timer(timer, now + timer.delay_seconds)


def _apply_decisions(tables: Tables, unit: Unit, now: float) -> None:
    for decision in unit.decisions:
        decision = copy(decision)  # noqa: PLW2901
        decision.requested_at = now
        decision.expires_at = now + decision.expires_seconds if decision.expires_seconds > 0 else 0.0
        tables.decisions[decision.id] = decision
    for move in unit.moves:
        known = tables.decisions.get(move.decision)
        if known is not None and known.status == move.before:
            known.status = move.after
            known.note = move.note or known.note
