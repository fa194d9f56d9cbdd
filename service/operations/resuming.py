"""Letting what stands still go on: a run or any actor that is parked or paused, or has failed.

What resuming will do is said before it is done, and what cannot be resumed is refused with what can be done instead: a
held call wants a decision, a run that has ended a fork, one that nobody serves a node.
"""

from typing import Literal

import msgspec

from ...actors.system import Pause, Resume
from ...mailbox.address import parent_of, parse
from ...mailbox.errors import Conflict, NotFound
from ...mailbox.lane import Lane
from ...persistence.rows import ENDED, ActorRow
from .actors import ActorLine, Inspection
from .lookup import KIND, find_run, run_id_of
from .runs import Operations
from .views import RunView

Act = Literal["resume", "pause"]


class Standing(msgspec.Struct, frozen=True):
    """An actor that stands still, or is about to, and what happens to it now."""

    address: str
    run_id: str
    """"" where it is no run."""
    status: str
    """Before this."""
    reason: str
    """Why it stands; "" for one that moves."""
    will: str
    """What becomes of it, in a sentence."""
    served: bool
    """Whether a node is there to do it now."""


async def resume(operations: Operations, given: str, *, reason: str = "") -> Standing:
    """Let a run or an actor go on; how it stood, and what it will do.

    Raises:
        RunNotFound, NotFound, BadAddress. UsageError: several runs begin like that. NotAllowed: without `operate`.
        Conflict: it does not stand, or something else makes it go on; the message says what.
    """
    operations.require("operate")
    row = await _row(operations, given)
    line = await Inspection(operations).actor(row.address)
    will = _will(row)
    if will is None:
        raise Conflict(await _instead(operations, row, line))
    entry = operations.entry("resume", row.address, before=row.status, after="active", note=reason)
    await operations.client.audited(entry).send(row.address, Resume(by=operations.principal), lane=Lane.SYSTEM)
    return await _standing(operations, row, will)


async def pause(operations: Operations, given: str, *, reason: str = "") -> Standing:
    """Let a run or an actor take no more messages until it is resumed.

    Raises:
        as `resume`; Conflict: it stands already, or has ended.
    """
    operations.require("operate")
    row = await _row(operations, given)
    if row.status in ENDED:
        raise Conflict(f"{_name(row)} has ended ({row.status}); there is nothing to pause")
    if row.status != "active":
        said = row.reason or "no reason was given"
        raise Conflict(f"{_name(row)} takes no messages anyway, it is {row.status}: {said}")
    entry = operations.entry("pause", row.address, before=row.status, after="paused", note=reason)
    message = Pause(by=operations.principal, reason=reason)
    await operations.client.audited(entry).send(row.address, message, lane=Lane.SYSTEM)
    will = "it takes no messages until somebody resumes it; calls that are under way end, and their answers wait"
    return await _standing(operations, row, will)


async def _row(operations: Operations, given: str) -> ActorRow:
    """The actor that `given` names: an address, or a run as `find_run` finds it."""
    store = operations.store
    address = parse(given) if given.startswith("/") else await find_run(store, given)
    row = await store.actor(address)
    if row is not None:
        return row
    if await store.peek(address, limit=1):
        raise Conflict(f"{address} has not begun; it does when a node serves it: callboard daemon APP")
    raise NotFound(f"no actor at {address}; `callboard actors` lists those there are")


def _will(row: ActorRow) -> str | None:
    """What resuming does; None where it does nothing."""
    match row.status:
        case "paused":
            return "it takes its messages again, oldest first"
        case "parked":
            return "it tries the message again that it was parked on, and parks again if the cause is still there"
        case "failed":
            return "it goes on with its next message, in the state it had; the one it failed on is a dead letter"
        case "escalated" if not parent_of(row.address):
            return "the root starts its children again"
        case _:
            return None


async def _instead(operations: Operations, row: ActorRow, line: ActorLine) -> str:
    """Why it cannot be resumed, and what can be done."""
    name = _name(row)
    if row.kind == KIND and row.status in ("active", *ENDED):
        view = await operations.run(row.address)
        if view.state.finished:
            return f"{name} has ended ({view.state.status}); go on from its end: callboard fork {_id(row)} --say TEXT"
        return _active_run(name, view, line)
    if row.status in ENDED:
        return f"{name} has ended ({row.status}) and cannot be resumed"
    if row.status == "active":
        return _way_out(f"{name} was not stopped: {line.why.text}", line)
    return _way_out(f"{name} is {row.status}, which resuming it does not change: {line.why.text}", line)


def _active_run(name: str, view: RunView, line: ActorLine) -> str:
    if view.approvals:
        first = view.approvals[0]
        more = f" (and {len(view.approvals) - 1} more)" if len(view.approvals) > 1 else ""
        what = "in doubt" if first.kind == "in-doubt" else "held"
        return (
            f"{name} waits for a decision, not to be resumed: call {first.call} {first.tool} is {what}{more}; "
            f"look: callboard approvals show {first.id}, then approve or deny it"
        )
    if view.state.status == "provider_down":
        return f"{name} goes on by itself when its model's provider is back: {line.why.text}"
    return _way_out(f"{name} was not stopped: {line.why.text}", line)


def _way_out(text: str, line: ActorLine) -> str:
    return f"{text}; {line.why.way_out}" if line.why.way_out else text


async def _standing(operations: Operations, row: ActorRow, will: str) -> Standing:
    owner = await operations.store.owner(row.shard)
    served = owner is not None and owner.status != "dead" and owner.beat_age_seconds < 10.0
    run_id = _id(row) if row.kind == KIND else ""
    return Standing(row.address, run_id, row.status, row.reason, will, served)


def _name(row: ActorRow) -> str:
    return f"run {_id(row)}" if row.kind == KIND else row.address


def _id(row: ActorRow) -> str:
    return run_id_of(row.address)
