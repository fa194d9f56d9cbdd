"""A commit: each unit is checked against the tables, the ones that pass are written, in one step.

Everything that can go wrong goes wrong before the first write; that is what makes a batch all or nothing here.
"""

from collections.abc import Hashable, Iterator, Sequence
from copy import copy
from typing import NamedTuple

from ...mailbox.errors import BadRow
from ..rows import turn_row
from ..unit import CommitResult, Unit
from .tables import Tables
from .values import check_unit

FIRE_SLACK_SECONDS = 0.001
"""How early a fire may come: what rounding can take from a delay, and far less than a period."""


class _Writer(NamedTuple):
    node: int
    epoch: int


def write(tables: Tables, units: Sequence[Unit], now: float, node: int, epoch: int = 0) -> CommitResult:
    """Write a batch of `node` under its `epoch`.

    Raises:
        BadRow: a value cannot be stored or a key is taken; nothing was written.
    """
    for unit in units:
        check_unit(unit)
    by = _Writer(node, epoch)
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
            tables.fire_timer(unit.shard, fire.address, fire.key, fire.periods)
        for identifier in unit.charges:
            tables.charge(unit.shard, identifier)
    put_aside = [key for unit in admitted if unit.unstash for key in _stash_of(tables, unit)]
    for unit in admitted:
        _apply(tables, unit, now, by)
    _apply_stashes(tables, admitted, put_aside)
    for unit in admitted:
        # Last: what another unit of the batch has acknowledged is not taken back any more.
        for identifier in unit.withdraws:
            if (unit.shard, identifier) in tables.messages:
                _take_back(tables, unit.shard, identifier, now, by)
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
    for identifier in unit.stashes:
        name = "" if unit.actor is None else unit.actor.address
        stored = tables.messages.get((unit.shard, identifier))
        if stored is None or stored.held or stored.envelope.recipient != name:
            return f"message {identifier} of shard {unit.shard} is not waiting for {name} there"
    return _timer_or_decision_refusal(tables, unit, now) if unit.fires or unit.moves else ""


def _timer_or_decision_refusal(tables: Tables, unit: Unit, now: float) -> str:
    for fire in unit.fires:
        timer = tables.timers.get((unit.shard, fire.address, fire.key))
        if timer is None or timer.timer.generation != fire.generation:
            return f"timer {fire.key!r} of {fire.address} was cancelled or set anew"
        period = timer.timer.period_seconds
        if fire.periods < 1 or (fire.periods > 1 and period <= 0):
            return f"timer {fire.key!r} of {fire.address} cannot fire {fire.periods} periods of {period} s"
        if timer.due + (fire.periods - 1) * period > now + FIRE_SLACK_SECONDS:
            due_seconds = timer.due - now
            return f"timer {fire.key!r} of {fire.address} is due in {due_seconds:.3f} s, not yet {fire.periods} times"
    for move in unit.moves:
        decision = tables.decisions.get(move.decision)
        if move.must and (decision is None or decision.status != move.before):
            status = "not there" if decision is None else decision.status
            return f"decision {move.decision} is {status}, not {move.before}"
        if move.must and decision is not None and move.hold_id not in (0, decision.hold_id):
            return f"decision {move.decision} is not in the release hold {move.hold_id}"
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
    for identifiers in (unit.acks, unit.releases, unit.drops, unit.stashes):
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


def _apply(tables: Tables, unit: Unit, now: float, by: _Writer) -> None:
    shard = unit.shard
    if unit.actor is not None:
        tables.actors[unit.actor.shard, unit.actor.address] = copy(unit.actor)
        tables.created.setdefault((unit.actor.shard, unit.actor.address), now)
    for identifier in unit.acks:
        tables.delete(shard, identifier)
    for turn in unit.turns:
        turn = copy(turn)  # noqa: PLW2901 - the caller's row stays as it is
        turn.epoch, turn.at = by.epoch, now
        tables.turns.setdefault(turn.recipient, []).append(turn)
    for envelope in unit.sends:
        tables.put(envelope, now)
    for event in unit.events:
        event = copy(event)  # noqa: PLW2901
        event.at = now
        tables.events.setdefault(event.address, []).append(event)
        tables.feed.append(event)
    _apply_moves_of_messages(tables, unit, now, by)
    _apply_timers(tables, unit, now)
    if unit.decisions or unit.moves:
        _apply_decisions(tables, unit, now)


def _apply_moves_of_messages(tables: Tables, unit: Unit, now: float, by: _Writer) -> None:
    shard = unit.shard
    for retry in unit.retries:
        stored = tables.messages[shard, retry.id]
        stored.due = now + retry.delay_seconds
        envelope = stored.envelope
        # A call that is noted as begun has not failed.
        if retry.failures > envelope.failures or (retry.deliveries > envelope.deliveries and not retry.started):
            stored.failing_since = now if stored.failing_since is None else stored.failing_since
        envelope.losses, envelope.timeouts = retry.losses, retry.timeouts
        envelope.deliveries, envelope.failures = retry.deliveries, retry.failures
        envelope.last_error, envelope.started = retry.last_error, retry.started
    for envelope in unit.holds:
        tables.put(envelope, now, held=True)
    for identifier in unit.releases:
        tables.release(shard, identifier)
    for identifier in unit.drops:
        _take_back(tables, shard, identifier, now, by)
    for letter in unit.dead:
        letter = copy(letter)  # noqa: PLW2901
        letter.envelope, letter.at = copy(letter.envelope), now
        letter.envelope.delay_seconds = letter.envelope.failing_seconds = 0.0
        tables.buried += 1
        letter.number, letter.settled_at = tables.buried, now if letter.settled else 0.0
        tables.dead.append(letter)


def _stash_of(tables: Tables, unit: Unit) -> list[tuple[int, int]]:
    """What a unit's actor has put aside so far."""
    if unit.actor is None:
        return []
    return [(unit.shard, identifier) for identifier in tables.held(unit.shard, unit.actor.address)]


def _apply_stashes(tables: Tables, units: Sequence[Unit], put_aside: Sequence[tuple[int, int]]) -> None:
    for key in put_aside:
        stored = tables.messages.get(key)
        if stored is not None and stored.held:  # else this batch dropped or released it
            tables.release(*key)
    for unit in units:
        for identifier in unit.stashes:
            tables.stash(unit.shard, identifier)


def _take_back(tables: Tables, shard: int, identifier: int, now: float, by: _Writer) -> None:
    """Delete a message that is not handled any more; its turn row says so, for every message's end is on record."""
    envelope = tables.messages[shard, identifier].envelope
    tables.delete(shard, identifier)
    turn = turn_row(envelope, 0, "cancelled", by.node, now)
    turn.epoch = by.epoch
    tables.turns.setdefault(turn.recipient, []).append(turn)


def _apply_timers(tables: Tables, unit: Unit, now: float) -> None:
    if unit.actor is not None:
        for key in unit.timers_cancelled:
            tables.cancel_timer(unit.actor.shard, unit.actor.address, key)
    for timer in unit.timers:
        tables.set_timer(timer, now + timer.delay_seconds)


def _apply_decisions(tables: Tables, unit: Unit, now: float) -> None:
    for move in unit.moves:
        known = tables.decisions.get(move.decision)
        if known is not None and known.status == move.before and move.hold_id in (0, known.hold_id):
            known.status = move.after
            known.note, known.checks = move.note or known.note, move.checks or known.checks
            known.hold_id = known.hold_id if move.after == "approved" and not move.hold_id else 0
    for decision in unit.decisions:
        decision = copy(decision)  # noqa: PLW2901
        decision.requested_at = now
        decision.expires_at = now + decision.expires_seconds if decision.expires_seconds > 0 else 0.0
        tables.decisions[decision.id] = decision
