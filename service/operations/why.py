"""Why does this actor, or this message, not move? Pure sentences over what the store has (G6).

The order of the questions is the order in which an engineer would ask them: is anybody there to serve it, was it
stopped, does the message wait for itself, does it wait for another one, does the actor wait for somebody else. Each
answer names the thing that is waited for and the way out of it, where there is one.
"""

from collections.abc import Sequence
from typing import Literal

import msgspec

from ...actors import bonds
from ...mailbox.address import parent_of
from ...mailbox.envelope import DeadLetter
from ...persistence.rows import ENDED, ActorRow, Decision, Member, MessageView, Timer, signatures_of
from ..trace_text import duration
from .redaction import redacted_text
from .views import barred

Kind = Literal["moves", "waits", "stuck", "ended"]
"""moves: it is being handled or is next. waits: something that will come by itself, or a person's everyday decision.
stuck: nothing goes on before somebody does something. ended: there is nothing more to come."""

_LANES = ("system", "reply", "normal")
_IN_LINE = ("ready", "scheduled", "retrying")
"""States in which a message keeps back what is behind it in its lane."""
_FULL = "MailboxIsFull"
SILENT_SECONDS = 10.0
"""A node that was not heard of for so long is not at work."""


class Why(msgspec.Struct, frozen=True):
    """An answer: what it waits for, and the way out where somebody has to do something."""

    kind: Kind
    text: str
    way_out: str = ""


class Facts(msgspec.Struct):
    """All that the store knows of one actor and of what it waits for."""

    address: str
    shard: int
    now: float
    """Seconds since 1970 by the store's clock."""
    row: ActorRow | None = None
    supervisor: ActorRow | None = None
    owner: Member | None = None
    """The node that serves its shard; None: nobody."""
    waiting: Sequence[MessageView] = ()
    """What is in its mailbox, in (lane, id) order."""
    calls: Sequence[MessageView] = ()
    """Its calls to workers that have not ended, held ones included."""
    timers: Sequence[Timer] = ()
    """Soonest first."""
    decisions: Sequence[Decision] = ()
    """Of its held calls, those that wait for a person."""
    dead: Sequence[DeadLetter] = ()
    """Where there is no actor: the newest of the open dead letters to it."""


def actor_why(facts: Facts) -> Why:
    """Why this actor does not move, or that it does."""
    row = facts.row
    ready = [view for view in facts.waiting if view.state != "stashed"]
    if row is not None and row.status in ENDED:
        return Why("ended", _said(row) if row.reason else row.status)
    unserved = None
    if ready or facts.calls or (row is not None and row.status == "active" and facts.timers):
        unserved = _unserved(facts)
    if row is not None and row.status != "active":
        standing = _standing(row, facts)
        return standing if unserved is None else _both(standing, unserved)
    if unserved is not None:
        return unserved
    if ready:
        return _head(ready[0], facts)
    if facts.calls:
        return _call(facts.calls, facts)
    if row is None and facts.dead:
        letter = facts.dead[0]
        return Why(
            "stuck",
            f"there is no actor here yet; {letter.envelope.type} was given up ({letter.reason}): "
            f"{redacted_text(letter.detail)}",
            f"callboard dead show {letter.number}",
        )
    if row is None:
        return Why("waits", "there is no actor here yet; its first message makes it")
    return _idle(row, facts)


def _both(first: Why, then: Why) -> Why:
    """Of two things that are in the way the one that was meant to be, and that the other is there, too."""
    return Why("stuck", f"{first.text}; besides, {then.text}", first.way_out or then.way_out)


def message_why(view: MessageView, facts: Facts) -> Why:
    """Why a message in the mailbox of `facts.address` was not handled yet."""
    if view.state == "stashed":
        return Why("waits", f"put aside by {facts.address} itself, until it takes all of those back")
    if view.state == "held":
        return _held(view, facts)
    unserved = _unserved(facts)
    if unserved is not None:
        return unserved
    row = facts.row
    if row is not None and row.status in ENDED:
        return Why("moves", f"{facts.address} is {row.status}: this becomes a dead letter")
    if row is not None and row.status != "active" and view.envelope.lane > 0:
        standing = _standing(row, facts)
        return Why(standing.kind, f"its actor is {standing.text}", standing.way_out)
    return _in_line(view, facts)


def call_why(view: MessageView, facts: Facts) -> Why:
    """Why a call of this actor to a worker has not ended."""
    if view.state == "held":
        return _held(view, facts)
    return _unserved(facts) or _call([view], facts)


def _unserved(facts: Facts) -> Why | None:
    owner = facts.owner
    if owner is None:
        return Why(
            "stuck",
            f"no node serves shard {facts.shard}, where {facts.address} lives",
            "start one: callboard daemon APP",
        )
    if owner.status == "dead" or owner.beat_age_seconds > SILENT_SECONDS:
        return Why(
            "stuck",
            f"{_node(owner)} serves shard {facts.shard} and was last heard {duration(owner.beat_age_seconds)} ago",
            "another node takes over within its lease; start one where there is none: callboard daemon APP",
        )
    return None


def _standing(row: ActorRow, facts: Facts) -> Why:
    reason = row.reason or "no reason was given"
    if row.status in ("parked", "paused"):
        return Why("stuck", _said(row), f"mend the cause, then: callboard actors resume {row.address}")
    if row.status == "failed":
        boss = facts.supervisor
        if boss is not None and boss.status != "active":
            return Why(
                "stuck",
                f"failed: {reason}; its supervisor {boss.address} is {boss.status}: {boss.reason}",
                f"mend the cause, then: callboard actors resume {boss.address}",
            )
        parent = boss.address if boss is not None else parent_of(row.address)
        return Why("waits", f"failed: {reason}; {parent or 'nobody'} decides whether it is started again")
    if row.status == "stopped":
        return Why("waits", f"stopped by its supervisor ({reason}); it is started again with it")
    return Why("stuck", _said(row), f"callboard actors resume {row.address}")


def _said(row: ActorRow) -> str:
    """Status and reason, where the reason does not begin with it anyway: `paused by ann: …`."""
    if row.reason.startswith(row.status):
        return row.reason
    return f"{row.status}: {row.reason or 'no reason was given'}"


def _head(view: MessageView, facts: Facts) -> Why:
    told = message_why(view, facts)
    return Why(told.kind, f"{len(facts.waiting)} in its mailbox; first {_name(view)}: {told.text}", told.way_out)


def _in_line(view: MessageView, facts: Facts) -> Why:
    envelope = view.envelope
    if envelope.losses >= 2:
        return Why("waits", f"a process died {envelope.losses} times while it was handled: it is tried alone")
    before = [
        other
        for other in facts.waiting
        if other.state in _IN_LINE and other.envelope.lane == envelope.lane and _older(other, view)
    ]
    if before:
        first = before[0]
        behind = f"behind {len(before)} older of the {_LANES[envelope.lane]} lane; first {_name(first)}"
        told = _in_line(first, facts)
        return Why(told.kind, f"{behind}: {told.text}", told.way_out)
    if view.state == "scheduled":
        return Why(
            "waits", f"scheduled: not before {duration(envelope.delay_seconds)} from now; its lane waits with it"
        )
    if view.state == "retrying":
        return _again(view)
    if facts.owner is not None and not _readable(view, facts.owner):
        return Why(
            "stuck",
            f"{_node(facts.owner)} does not know {envelope.type} in version {envelope.version}",
            "deploy a version that does",
        )
    higher = [o for o in facts.waiting if o.state in _IN_LINE and o.envelope.lane < envelope.lane]
    if higher:
        lanes = {other.envelope.lane for other in higher}
        return Why("moves", f"after {len(higher)} of the {' and '.join(_LANES[lane] for lane in sorted(lanes))} lane")
    waited = facts.now - view.sent_at
    where = "" if facts.owner is None else f" of {_node(facts.owner)}"
    return Why("moves", f"next, or in a handler{where} right now; it came {duration(waited)} ago")


def _again(view: MessageView) -> Why:
    """Of a message that failed and is tried again."""
    envelope = view.envelope
    text = f"attempt {envelope.failures + 1} in {duration(envelope.delay_seconds)}, after "
    if envelope.last_error.startswith(_FULL):
        return Why(
            "waits",
            f"held back: it sends to a mailbox that is full; {text}{envelope.last_error}",
            "callboard mailbox --order depth, to see what fills it",
        )
    return Why("waits", f"{text}{envelope.last_error or 'a failure'}")


def in_turn(view: MessageView, facts: Facts) -> bool:
    """Whether a message is being handled, as far as rows can tell: a call that is noted as begun; or what is next in a
    mailbox whose actor works, on a node that is there, and that is no sooner than it can begin."""
    if view.state != "ready" or _unserved(facts) is not None or facts.owner is None:
        return False
    if view.envelope.started:
        return True
    row = facts.row
    if view.envelope.recipient != facts.address or (row is not None and row.status != "active"):
        return False
    if view.envelope.losses >= 2 or not _readable(view, facts.owner):
        return False
    first = next((other for other in facts.waiting if other.state in _IN_LINE), None)
    return first is not None and first.envelope.id == view.envelope.id


def _older(one: MessageView, other: MessageView) -> bool:
    return one.envelope.id < other.envelope.id


def _held(view: MessageView, facts: Facts) -> Why:
    decision = next((d for d in facts.decisions if d.message_id == view.envelope.id), None)
    if decision is None:
        return Why("waits", "held for a decision that was made; its actor is about to act on it")
    if decision.kind == "in-doubt":
        return Why(
            "waits",
            f"in doubt: whether {decision.tool} happened is not known ({decision.reason})",
            f"callboard approvals show {decision.id}",
        )
    if decision.status == "approved":
        if not decision.hold_id:
            return Why("waits", f"approved by {decision.decided_by}; its actor is about to act on it")
        left = duration(max(0.0, decision.release_at - facts.now))
        text = f"{decision.tool} was approved by {decision.decided_by} and goes in {left}"
        return Why("waits", text, f"callboard take-back {decision.id}, to stop it")
    text = f"{decision.tool} waits for {_people(decision)}: {decision.reason}"
    # Not "stuck": `actors --stuck` leaves out what only waits for people, which `approvals` lists.
    return Why("waits", text, f"callboard approvals show {decision.id}")


def _people(decision: Decision) -> str:
    """Whose word is still missing."""
    signed = [one.by for one in signatures_of(decision)]
    no = barred(decision)
    but = f", not {' or '.join(no)}" if no else ""
    if decision.needed < 2:
        return f"a person{but}"
    so_far = f" ({', '.join(signed)} approved)" if signed else ""
    return f"{decision.needed - len(signed)} of {decision.needed} people{but}{so_far}"


def _call(calls: Sequence[MessageView], facts: Facts) -> Why:
    held = [view for view in calls if view.state == "held"]
    running = [view for view in calls if view.state != "held"]
    if not running:
        told = _held(held[0], facts)
        more = f", and {len(held) - 1} more" if len(held) > 1 else ""
        return Why(told.kind, f"{told.text}{more}", told.way_out)
    first = running[0]
    envelope = first.envelope
    more = f", and {len(running) - 1} more" if len(running) > 1 else ""
    if first.state == "retrying" and _provider_is_down(facts.row):
        return Why(
            "waits",
            f"provider_down: its model has not answered for long; it is asked again in "
            f"{duration(envelope.delay_seconds)}, and the run goes on by itself when it does; "
            f"last: {envelope.last_error or 'a failure'}",
        )
    if first.state == "retrying":
        return Why(
            "waits",
            f"waits for {envelope.recipient}, attempt {envelope.deliveries} in {duration(envelope.delay_seconds)}, "
            f"after {envelope.last_error or 'a failure'}{more}",
        )
    began = ", begun" if envelope.started else ""
    return Why("waits", f"waits for {envelope.recipient}{began}, asked {duration(facts.now - first.sent_at)} ago{more}")


def _provider_is_down(row: ActorRow | None) -> bool:
    """Whether a run says so of itself."""
    if row is None or '"provider_down"' not in row.summary:
        return False
    try:
        return bool(msgspec.json.decode(row.summary)["status"] == "provider_down")
    except (msgspec.MsgspecError, LookupError, TypeError):
        return False  # some actor's summary is anything


def _idle(row: ActorRow, facts: Facts) -> Why:
    ties = bonds.read(row)
    parts = [
        f"waits for the answer of {ask.target}, for {duration(ask.deadline - facts.now)} at most"
        for ask in ties.asks.values()
    ]
    if ties.stashed:
        parts.append(f"put {ties.stashed} message(s) aside")
    mine = [timer for timer in facts.timers if not timer.key.startswith(bonds.RESERVED)]
    if mine:
        parts.append(f"its timer {mine[0].key!r} is due in {duration(mine[0].delay_seconds)}")
    return Why("waits", "; ".join(parts) if parts else "idle: its mailbox is empty, it waits for a message")


def _readable(view: MessageView, owner: Member) -> bool:
    from ...actors.schemas import can  # brings the whole runtime with it

    return not owner.capabilities or can(owner.capabilities, view.envelope.type, view.envelope.version)


def _name(view: MessageView) -> str:
    return f"{view.envelope.type} (id {view.envelope.id})"


def _node(owner: Member) -> str:
    return f"node {owner.number} ({owner.label})" if owner.label else f"node {owner.number}"
