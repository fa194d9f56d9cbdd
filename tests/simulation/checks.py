"""What must hold when a healed world has come to rest, and what "at rest" means. Named by guarantee (DESIGN section 2)
and invariant (SEMANTICS 4.17).
"""

from collections import Counter
from math import floor
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from callboard.actors.agent.run import RunSnapshot
from callboard.actors.agent.state import fold
from callboard.actors.supervisor_state import SupervisorState
from callboard.mailbox.address import CLIENT_SHARD, parent_of, shard_of
from callboard.mailbox.envelope import DeadLetter
from callboard.mailbox.message import decode_tagged
from callboard.persistence.memory.invariants import violations as broken_rows
from callboard.persistence.rows import ActorRow

from . import buyers, peers, talkers, tickers
from .outside import WORLD

if TYPE_CHECKING:
    from .simulation import Simulation

T = TypeVar("T")

EPS = 1e-6


def state_of(run: "Simulation", address: str, kind: type[T]) -> T | None:
    """An actor's state as it is on disk."""
    row = run.store.tables.actors.get((shard_of(address), address))
    return None if row is None or not row.state else msgspec.msgpack.decode(row.state, type=kind)


def _stays(type: str, recipient: str) -> bool:
    """Messages that wait for ever, as they should: nobody can read them, or their actor is parked by its poison."""
    return type == "sim.of_the_future" or ("/victim:" in recipient and "-client" in recipient)


def unrest(run: "Simulation") -> list[str]:
    """What still moves, or should."""
    tables = run.store.tables
    if not run.workload.plan.finished:
        return ["clients are still at work"]
    if frozen := [process for process in run.living if process.frozen]:
        return [f"{process} is frozen" for process in frozen]
    still = [
        f"{stored.envelope.type} {identifier} for {stored.envelope.recipient} "
        f"from {stored.envelope.sender or 'outside'} waits "
        f"(due in {stored.due - run.store.clock():.3f} s, {stored.envelope.deliveries} deliveries)"
        for (shard, identifier), stored in tables.messages.items()
        if not stored.held and shard != CLIENT_SHARD and not _stays(stored.envelope.type, stored.envelope.recipient)
    ]
    still += [f"timer {key!r} of {address} is set" for _, address, key in tables.timers]
    still += [
        f"decision {decision.id} is pending" for decision in tables.decisions.values() if decision.status == "pending"
    ]
    for number in range(buyers.BUYERS):
        state = state_of(run, buyers.buyer(number), buyers.BuyerState)
        still += [f"call {key} has no outcome" for key in state.open] if state is not None else []
    for row in tables.actors.values():
        if row.kind == "run" and not msgspec.msgpack.decode(row.state, type=RunSnapshot).run.finished:
            still.append(f"run {row.address} is {row.status} and has not ended: {row.summary}")
        elif row.kind == "supervisor":
            supervisor = msgspec.msgpack.decode(row.state, type=SupervisorState)
            if supervisor.job is not None or supervisor.waiting:
                still.append(f"supervisor {row.address} is at {supervisor.job}, and then {supervisor.waiting}")
    return still


def violations(run: "Simulation") -> list[str]:
    """Everything that is wrong."""
    return [
        *run.store.history.wrong,
        *WORLD.wrong,
        *_rows(run),
        *_states(run),
        *_messages(run),
        *_versions(run),
        *_sent(run),
        *_dead_letters(run),
        *_tokens(run),
        *_calls(run),
        *_decisions(run),
        *_talks(run),
        *_timers(run),
        *_families(run),
        *_standing(run),
        *_runs(run),
    ]


def _rows(run: "Simulation") -> list[str]:
    """The invariants that every store's rows must keep."""
    found = broken_rows(run.store.tables, run.store.cluster, run.store.clock())
    # Peers send each other more than one message in the lane of replies, which rows cannot tell from answers.
    # What interrupts a child overtakes what it was doing.
    return [what for what in found if not what.startswith(("I6 /w/peers/", "I3 /w/all/", "I3 /w/rest/", "I3 /w/one/"))]


def _states(run: "Simulation") -> list[str]:
    """What the actors themselves have noticed."""
    kinds: dict[str, Any] = {
        "sim-peer": peers.PeerState,
        "sim-buyer": buyers.BuyerState,
        "sim-ticker": tickers.TickerState,
        "sim-asker": talkers.AskerState,
        "sim-helper": talkers.HelperState,
        "sim-mayfly": talkers.MayflyState,
    }
    wrong: list[str] = []
    for row in run.store.tables.actors.values():
        if row.kind in kinds and row.state:
            wrong += msgspec.msgpack.decode(row.state, type=kinds[row.kind]).wrong
    return wrong


def _messages(run: "Simulation") -> list[str]:
    """I1: each message ends once, or is still there; I5: whoever is said to have caused it was handled."""
    tables = run.store.tables
    ends: Counter[int] = Counter(
        turn.id for turns in tables.turns.values() for turn in turns if turn.outcome != "stashed"
    )
    here = {identifier for _, identifier in tables.messages}
    wrong = [f"I1: message {identifier} was handled {count} times" for identifier, count in ends.items() if count > 1]
    for identifier, accepted in run.store.history.accepted.items():
        if accepted.shard == CLIENT_SHARD:
            continue
        if identifier not in here and identifier not in ends:
            wrong.append(f"G6: message {identifier} ({accepted.type} for {accepted.recipient}) is lost")
        if identifier in here and identifier in ends:
            wrong.append(f"I1: message {identifier} ({accepted.type} for {accepted.recipient}) was handled and waits")
        # Its cause may also be a call that is to be tried again, which tells of the attempt that failed.
        if accepted.causation and accepted.causation not in ends and accepted.causation not in here:
            wrong.append(f"I5: message {identifier} ({accepted.type}) comes from a turn that never was")
    return wrong


def _versions(run: "Simulation") -> list[str]:
    """I2: each version of an actor was made by one commit, and its turns come in their order."""
    wrong: list[str] = []
    for address, turns in run.store.tables.turns.items():
        row = run.store.tables.actors.get((shard_of(address), address))
        # What the runtime says to an actor that has ended changes nothing, and makes no version.
        made = [turn for turn in turns if turn.version and turn.outcome == "done"]
        versions = [turn.version for turn in made if not (turn.type.startswith("sys.") and "/mayfly:" in address)]
        if versions != sorted(set(versions)):
            wrong.append(f"I2: turns of {address} made versions {versions}")
        if versions and (row is None or row.version < versions[-1]):
            wrong.append(f"I2: {address} has version {row and row.version} after turn {versions[-1]}")
    for address, events in run.store.tables.events.items():
        if [event.seq for event in events] != list(range(1, len(events) + 1)):
            wrong.append(f"S9: events of {address} are numbered {[event.seq for event in events]}")
    return wrong


def _sent(run: "Simulation") -> list[str]:
    """I3: what an actor sent is numbered without gaps, and handled in that order by each receiver, lane by lane."""
    numbers: dict[str, list[int]] = {}
    for accepted in run.store.history.accepted.values():
        if accepted.sender_seq:
            numbers.setdefault(accepted.sender, []).append(accepted.sender_seq)
    wrong = []
    for sender, seqs in numbers.items():
        row = run.store.tables.actors.get((shard_of(sender), sender))
        if row is not None and sorted(seqs) != list(range(1, row.sent + 1)):
            wrong.append(f"I3: {sender} sent {row.sent}, and there were {len(seqs)}, {len(set(seqs))} different ones")
    for address, turns in run.store.tables.turns.items():
        if address in (buyers.TILL, "/w/agents/model", "/w/agents/tool"):
            continue  # workers keep no order
        if parent_of(address) in ("/w/all", "/w/rest", "/w/one"):
            continue  # what interrupts a child overtakes what it was doing
        last: dict[tuple[str, int], int] = {}
        aside: set[int] = set()
        for turn in turns:
            place = (turn.sender, turn.lane)
            # What was put aside counts where that was.
            if turn.sender_seq and turn.outcome != "cancelled" and turn.id not in aside:
                aside |= {turn.id} if turn.outcome == "stashed" else set()
                if turn.sender_seq <= last.get(place, 0):
                    wrong.append(
                        f"G2: {address} handled {turn.sender_seq} of {place} after {last[place]} ({turn.type})"
                    )
                last[place] = turn.sender_seq
    return wrong


def _may_die(letter: DeadLetter) -> bool:
    """What is meant to crash a child, and what comes to a mayfly after its end or before its beginning."""
    late = letter.reason in ("recipient-ended", "no-such-actor") and "/mayfly:" in letter.envelope.recipient
    return late or letter.envelope.type in ("sim.order", "sys.kill")


def _dead_letters(run: "Simulation") -> list[str]:
    """G8: nothing is dead but what was poison, and each of that once."""
    dead = Counter(letter.reason for letter in run.store.tables.dead if "/victim:" in letter.envelope.recipient)
    wrong = [
        f"G8: {letter.envelope.type} for {letter.envelope.recipient} is a dead letter: {letter.reason}: {letter.detail}"
        for letter in run.store.tables.dead
        if "/victim:" not in letter.envelope.recipient and not _may_die(letter)
    ]
    asked = Counter(run.workload.plan.bad)
    expected = {
        "failed": asked["bug"] + asked["fatal"],
        "rejected": asked["reject"],
        "unreadable": asked["unreadable"],
    }
    wrong += [
        f"G6: {count} poison messages {why}, {dead[why]} dead letters"
        for why, count in expected.items()
        if dead[why] != count
    ]
    for stored in run.store.tables.messages.values():
        if stored.envelope.type == "sim.of_the_future" and stored.envelope.failures:
            wrong.append(f"G8: an unknown message was charged with {stored.envelope.failures} failures")
    return wrong


def _tokens(run: "Simulation") -> list[str]:
    """G1: each token was at each place of its path exactly as often as it must."""
    wrong = []
    for number, must in peers.expected(run.workload.plan.tokens, run.workload.plan.relays).items():
        state = state_of(run, peers.peer(number), peers.PeerState)
        seen = Counter(state.seen if state is not None else [])
        if seen != must:
            wrong.append(f"G1: {peers.peer(number)} missed {dict(must - seen)} and saw {dict(seen - must)} too much")
    return wrong


def _calls(run: "Simulation") -> list[str]:
    """G4 and G5: what the buyers believe and what really happened."""
    wrong: list[str] = []
    calm = run.profile.is_calm
    for number in range(buyers.BUYERS):
        address = buyers.buyer(number)
        state = state_of(run, address, buyers.BuyerState) or buyers.BuyerState()
        if state.calls != run.workload.plan.buys.get(address, 0):
            wrong.append(f"G1: {address} made {state.calls} calls of {run.workload.plan.buys.get(address, 0)}")
        for key, outcome in state.outcomes.items():
            effects, attempts = WORLD.effects.get(key, 0), WORLD.attempts.get(key, 0)
            recorded = run.store.history.is_recorded(key)
            if outcome == "paid" and not effects:
                wrong.append(f"G4: {key} counts as paid, and was not")
            if recorded and effects > 1:
                wrong.append(f"G4: {key} was paid {effects} times, {outcome}")
            if outcome in ("denied", "expired") and attempts:
                wrong.append(f"G5: {key} was {outcome}, and attempted {attempts} times")
            if outcome not in ("paid", "doubtful", "denied", "expired", "withdrawn"):
                wrong.append(f"G8: {key} is {outcome}")
            if calm and (effects > 1 or outcome == "doubtful"):
                wrong.append(f"G7: nothing died, and {key} was paid {effects} times, {outcome}")
    return wrong


def _decisions(run: "Simulation") -> list[str]:
    """S7 and G5: one verdict each, and the row tells it."""
    wrong = []
    tables = run.store.tables
    for decision in tables.decisions.values():
        told = run.workload.plan.verdicts.get(decision.id, [])
        audits = [audit for audit in tables.audit if audit.object == decision.id]
        if len(told) > 1 or len(audits) > 1:
            wrong.append(f"S7: decision {decision.id} was made by {told}, audited {len(audits)} times")
        if decision.status in ("released", "denied", "approved") and len(audits) != 1:
            wrong.append(f"G5: decision {decision.id} is {decision.status} without a verdict")
        if decision.status == "approved":
            wrong.append(f"G5: decision {decision.id} was approved and not released")
        denied = bool(audits) and audits[0].after == "denied"
        if audits and decision.status != "superseded" and denied != (decision.status == "denied"):
            wrong.append(f"S7: decision {decision.id} is {decision.status}, the verdict was {audits[0].after}")
    return wrong


def _talks(run: "Simulation") -> list[str]:
    """I6: each ask has its outcome; each watch its end; what was put aside was handled."""
    wrong: list[str] = []
    outcomes: dict[str, str] = {}
    for number in range(talkers.ASKERS):
        state = state_of(run, talkers.asker(number), talkers.AskerState) or talkers.AskerState()
        outcomes.update(state.outcomes)
        wrong += [f"I6: {name} has no outcome" for name in state.open.values()]
        for mayfly, count in state.follows.items():
            if len(ends := state.ends.get(mayfly, [])) != count:
                wrong.append(f"{talkers.asker(number)} watched {mayfly} {count} times and was told {ends}")
    wrong += [f"I6: {name} was never asked" for name in run.workload.plan.questions if name not in outcomes]
    for number, notes in run.workload.plan.notes.items():
        helper = state_of(run, talkers.helper(number), talkers.HelperState)
        if helper is None or helper.got != notes or helper.back:
            wrong.append(f"G1: {talkers.helper(number)} has {helper}, of notes {notes}")
    return wrong


def _timers(run: "Simulation") -> list[str]:
    """I11: fires and folded ones together are the elapsed periods; nothing fires early or twice."""
    wrong: list[str] = []
    history = run.store.history
    for number in range(tickers.TICKERS):
        address = tickers.ticker(number)
        state = state_of(run, address, tickers.TickerState)
        if state is None:
            continue
        for name, rings in state.rings.items():
            if name not in state.cleared and rings != 1:
                wrong.append(f"I11: timer {name} of {address} rang {rings} times")
        totals: Counter[int] = Counter()
        # In the order in which they fired: two owners' clocks differ, and so does the order of what they put in.
        for tick in sorted(state.ticks, key=lambda tick: history.accepted[tick.message].at):
            totals[tick.run] += tick.periods
            set_at, period = history.fires[tick.message]
            elapsed = (history.accepted[tick.message].at - set_at) / period
            if totals[tick.run] > floor(elapsed + 0.02):
                wrong.append(f"I11: {address} ticked {totals[tick.run]} times in {elapsed:.3f} periods")
            if run.folds and totals[tick.run] < floor(elapsed - 0.02):
                wrong.append(f"I11: {address} ticked only {totals[tick.run]} times in {elapsed:.3f} periods")
    return wrong


def _families(run: "Simulation") -> list[str]:
    """I9 and I14: at rest every child is as its supervisor believes, and starts and stops came in order."""
    wrong = []
    for name in run.workload.families:
        supervisor = state_of(run, f"/w/{name}", SupervisorState)
        if supervisor is None:
            wrong.append(f"I9: /w/{name} is not there")
            continue
        for child in supervisor.children:
            address = f"/w/{name}/{child.name}"
            row = run.store.tables.actors.get((shard_of(address), address))
            if child.status == "running" and (
                row is None or row.status != "active" or row.incarnation != child.incarnation
            ):
                wrong.append(f"I9: {address} is running for its supervisor, {child.incarnation}; it is {_said(row)}")
            if child.status not in ("running", "ended"):
                wrong.append(f"I9: {address} is {child.status} for its supervisor; it is {_said(row)}")
        wrong += _order(run, name)
    return wrong


def _order(run: "Simulation", name: str) -> list[str]:
    """Incarnations go up. In a group that stops and starts as one, children start from left to right, and a child is
    stopped only when no later one is up."""
    wrong: list[str] = []
    last: Counter[str] = Counter()
    up: dict[str, str] = dict.fromkeys("abc", "")
    for address, what, incarnation in run.store.history.lives:
        parent, _, child = address.rpartition("/")
        if parent != f"/w/{name}":
            continue
        if what == "began":
            if incarnation <= last[child]:
                wrong.append(f"I14: {address} began incarnation {incarnation} after {last[child]}")
            last[child] = incarnation
            if name != "one" and any(other > child and up[other] == "began" for other in up):
                wrong.append(f"I14: {address} began while {up} of its group")
            if name != "one" and any(other < child and up[other] == "over" for other in "ac"):
                wrong.append(f"I14: {address} began while {up} of its group")
        up[child] = what
    return wrong


def _said(row: ActorRow | None) -> str:
    return "not there" if row is None else f"{row.status} {row.incarnation} {row.reason}"


def _standing(run: "Simulation") -> list[str]:
    """I13: whoever does not move has a reason."""
    wrong = []
    for row in run.store.tables.actors.values():
        if row.status not in ("active", "completed") and not row.reason:
            wrong.append(f"I13: {row.address} is {row.status} without a reason")
        innocent = not any(part in row.address for part in ("/victim:", "/mayfly:", "/w/all/", "/w/rest/", "/w/one/"))
        if innocent and row.status not in ("active", "completed"):
            wrong.append(f"G8: {row.address} is {row.status}: {row.reason}")
    return wrong


def _runs(run: "Simulation") -> list[str]:
    """G9: the state of a run is the fold of its journal; G4 and G5 for its tools."""
    wrong: list[str] = []
    tables = run.store.tables
    found = {row.address: row for row in tables.actors.values() if row.kind == "run"}
    wrong += [f"G6: run {name} is not there" for name in run.workload.plan.runs if f"/w/agents/run:{name}" not in found]
    for address, row in found.items():
        events = [decode_tagged(event.type, event.body) for event in tables.events.get(address, [])]
        kept, folded = msgspec.msgpack.decode(row.state, type=RunSnapshot).run, fold(events)
        if kept != folded or len(events) != row.events:
            wrong.append(f"G9: the state of {address} is not the fold of its journal")
        if kept.status != "completed":
            wrong.append(f"G8: run {address} is {kept.status}: {kept.failure_detail}")
    wrong += [
        f"G4: {key} happened {count} times"
        for key, count in WORLD.effects.items()
        if key.startswith("post ") and count > 1
    ]
    return wrong
