"""Runs that ended without an answer: their tickets are left to a person, with what was done so far.

A run whose budget is spent, that met what it cannot recover from, or that somebody has cancelled says so to the actor
`Unfinished`, in the same commit that ends it. That lets the worker `Caretaker` read the run's journal and those of the
agents that it has called, and hand the ticket over (`handover`), once for each run. Nothing polls here. The only timer
bounds how long a ticket is left alone after the worker has given up on it.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec

from callboard.actors.actor import Actor, Worker, on
from callboard.actors.agent.events import (
    ApprovalDenied,
    ApprovalExpired,
    ToolCallCompleted,
    ToolCallFailed,
    ToolCallRequested,
)
from callboard.actors.agent.lineage_events import ChildStarted
from callboard.actors.agent.messages import RunUnfinished
from callboard.actors.context import Context, WorkerContext
from callboard.crm.handover import hand_over
from callboard.crm.transcript import ticket_named
from callboard.mailbox.address import key_of
from callboard.mailbox.message import Message, decode_tagged
from callboard.persistence.postgres.database import Database

AGAIN_SECONDS = 60.0
MAX_DEPTH = 4
"""Agents that called agents that … are looked into so deep."""
MAX_LINES = 30
ADDRESS = "/crm/unfinished:runs"
MAX_CHARS = 160
"""Of one call in the note."""


class HandOver(Message, tag="crm.unfinished.hand_over"):
    """Actor to worker: leave this run's ticket to a person."""

    run: RunUnfinished


class HandedOver(Message, tag="crm.unfinished.handed_over"):
    """Worker to actor: it is done; `ticket` is "" where the run was about none."""

    run: str
    ticket: str
    ok: bool = True
    """False: it was given up, to be tried again."""


class Again(Message, tag="crm.unfinished.again"):
    """Timer: try those again that were given up."""


class UnfinishedState(msgspec.Struct):
    """Runs whose tickets are being handed over, by address."""

    open: dict[str, RunUnfinished] = msgspec.field(default_factory=dict)
    handed: int = 0


class Unfinished(Actor[UnfinishedState], kind="crm.unfinished"):
    """Is told of runs that ended without an answer, and sees that their tickets are handed over.

    Of a pool, though there is one: the first run may fail before the desk's single actors have been started.
    """

    def __init__(self, caretaker: str) -> None:
        self.caretaker = caretaker

    def summary(self) -> Mapping[str, Any]:
        return {"handed_over": self.state.handed, "open": len(self.state.open)}

    @on(creates=True)
    def ended(self, message: RunUnfinished, ctx: Context) -> None:
        self.state.open[message.run] = message
        ctx.send(self.caretaker, HandOver(message))

    @on
    def handed(self, message: HandedOver, ctx: Context) -> None:
        if not message.ok:
            ctx.schedule("again", AGAIN_SECONDS, Again())
        elif self.state.open.pop(message.run, None) is not None:
            self.state.handed += bool(message.ticket)

    @on
    def again(self, message: Again, ctx: Context) -> None:
        # What is still under way is asked for twice then: it is done once, under its key.
        for run in self.state.open.values():
            ctx.send(self.caretaker, HandOver(run))


class Caretaker(Worker, kind="crm.caretaker"):
    """Reads what a run did and leaves its ticket to a person. `reads`: names of the tools that change nothing."""

    concurrency = 4

    def __init__(self, database: Database, reads: Collection[str]) -> None:
        self.database = database
        self.reads = frozenset(reads)

    @on
    async def hand_over(self, message: HandOver, ctx: WorkerContext) -> Message:
        run = message.run
        ticket = ticket_named(run.goal)
        if ticket is None:
            return HandedOver(run.run, "")
        events = await _events(run.run, ctx)
        if _has_set_ticket(events):
            return HandedOver(run.run, "")  # it had decided about the ticket; only its last words are missing
        done = await self._calls(events, ctx)
        name = key_of(run.run) or run.run
        why = f"The run {name} has {_ended(run)}."
        note = "\n".join([why, *(done[:MAX_LINES] or ["It had changed nothing."]), *_more(done)])
        async with self.database.transaction() as session:
            first = await hand_over(session, ticket, why, f"unfinished {run.run}", note=note)
        return HandedOver(run.run, ticket if first else "")

    async def _calls(self, events: Sequence[Message], ctx: WorkerContext, depth: int = 0, who: str = "") -> list[str]:
        """A line for each call that changes something, and what became of it, oldest first."""
        asked = {event.call: event for event in events if isinstance(event, ToolCallRequested)}
        lines: list[str] = []
        for event in events:
            if isinstance(event, ChildStarted) and depth < MAX_DEPTH:
                inner = await _events(event.child, ctx)
                lines += await self._calls(inner, ctx, depth + 1, f"{event.agent}: ")
                asked.pop(event.call, None)  # its own calls tell what it did
            elif (told := _told(event, asked)) is not None and told[0] not in self.reads:
                lines.append(f"{who}{told[1]}")
        return lines

    def given_up(self, message: Message, error: str, ctx: WorkerContext) -> Message | None:
        return HandedOver(message.run.run, "", ok=False) if isinstance(message, HandOver) else None


async def _events(run: str, ctx: WorkerContext) -> list[Message]:
    return [decode_tagged(event.type, event.body) for event in await ctx.journal(run)]


def _has_set_ticket(events: Sequence[Message]) -> bool:
    done = [event for event in events if isinstance(event, ToolCallCompleted) and event.tool == "set_ticket"]
    return any("error" not in event.result for event in done)


def _ended(run: RunUnfinished) -> str:
    if run.status == "cancelled":
        return f"been cancelled: {run.detail}" if run.detail else "been cancelled"
    return f"failed, {run.reason.replace('_', ' ')}: {run.detail}" if run.detail else f"failed, {run.reason}"


def _told(event: Message, asked: Mapping[int, ToolCallRequested]) -> tuple[str, str] | None:
    """(tool, line) of an event that ends a call; None of others."""
    match event:
        case ToolCallCompleted():
            if event.call not in asked:
                return None
            refusal = event.result.get("error")
            word = f"refused ({refusal})" if refusal else "done"
            return event.tool, f"{word}: {_call(asked[event.call])}"
        case ToolCallFailed() if event.final:
            return event.tool, f"not done: {event.tool}: {_cut(event.error)}"
        case ApprovalDenied() | ApprovalExpired():
            return event.tool, f"not approved: {event.tool}"
    return None


def _call(request: ToolCallRequested) -> str:
    arguments = ", ".join(f"{name}={value!r}" for name, value in request.arguments.items())
    return _cut(f"{request.tool}({arguments})")


def _more(lines: Sequence[str]) -> list[str]:
    return [f"… and {len(lines) - MAX_LINES} more"] if len(lines) > MAX_LINES else []


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= MAX_CHARS else f"{line[:MAX_CHARS]}…"
