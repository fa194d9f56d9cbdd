"""Renewal notices: a mail before a subscription renews, and a second one where nothing happened since.

    every day:   which subscriptions renew within `AHEAD_DAYS` of their next notice?  ──▶ a durable timer for each
    a timer:     is it still so? (active, the same date, not told yet, nothing heard)  ──▶ a mail in the outbox, or none

How long before, the policy page says. A timer knows nothing: what counts is what the rows say when it fires
(`notices.py`), so one that was set for a subscription that was paused, cancelled or moved since writes to nobody. There
is one notice of each number for a subscription and a date, under a key, however often anything is said or set again.
"""

from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

from callboard.actors.actor import Actor, Worker, on
from callboard.actors.context import Context, WorkerContext
from callboard.mailbox.message import Message

FIRST_LOOK_SECONDS = 60.0
LOOK_SECONDS = 86_400.0
"""Bounds how late a notice is for a subscription that began, or was moved, when its notice was due already. One node at
a time has the timer; the timers of the subscriptions are rows, and cost nothing until they are due."""
AHEAD_DAYS = 31
"""Timers are set so long before they are due, at most."""
PAGE = 200


class Due(msgspec.Struct, frozen=True):
    """A notice that is to be written at its time."""

    subscription: str
    renews_on: str
    """The day, as in 2027-01-31."""
    number: int
    """1: the first notice of this renewal, 2: the second."""
    seconds: float
    """How long from now."""


class Notices(Protocol):
    """What is done at the desk."""

    async def due(self, ahead_days: int, after: str, limit: int) -> list[Due]:
        """The next notice of each subscription that has one within so many days, in the order of their ids."""
        ...

    async def write(self, subscription: str, renews_on: str, number: int) -> bool:
        """Put the notice into the outbox, if it is still to be written; whether it was, now or before."""
        ...


class Look(Message, tag="crm.renewals.look"):
    """Timer: which notices come next?"""


class FindDue(Message, tag="crm.renewals.find"):
    """Actor to worker: those beyond the subscription `after`."""

    after: str = ""


class FoundDue(Message, tag="crm.renewals.found"):
    """Worker to actor."""

    found: list[Due]
    more: bool = False


class NoticeDue(Message, tag="crm.renewals.due"):
    """Timer of one subscription; then actor to worker."""

    subscription: str
    renews_on: str
    number: int


class NoticeWritten(Message, tag="crm.renewals.written"):
    """Worker to actor: whether there is a mail now."""

    subscription: str
    ok: bool


class RenewalsState(msgspec.Struct):
    """How many mails there are, and how many were not wanted any more when they were due."""

    written: int = 0
    skipped: int = 0


class Renewals(Actor[RenewalsState], kind="crm.renewals"):
    """Sets the timers of the notices, and has each written when it is due."""

    def __init__(self, notifier: str, look_seconds: float = LOOK_SECONDS) -> None:
        self.notifier = notifier
        self.look_seconds = look_seconds

    def summary(self) -> Mapping[str, Any]:
        return {"written": self.state.written, "skipped": self.state.skipped}

    def on_start(self, ctx: Context) -> None:
        first = min(FIRST_LOOK_SECONDS, self.look_seconds)
        ctx.schedule("look", first, Look(), every=self.look_seconds)

    @on
    def look(self, message: Look, ctx: Context) -> None:
        ctx.send(self.notifier, FindDue())

    @on
    def found(self, message: FoundDue, ctx: Context) -> None:
        for due in message.found:
            # Loose: there may be any number of them, and one that fires twice finds its mail written.
            key = f"{due.subscription} {due.renews_on} {due.number}"
            notice = NoticeDue(due.subscription, due.renews_on, due.number)
            ctx.schedule(key, due.seconds, notice, loose=True)
        if message.more:
            ctx.send(self.notifier, FindDue(message.found[-1].subscription))

    @on
    def due(self, message: NoticeDue, ctx: Context) -> None:
        ctx.send(self.notifier, message)

    @on
    def written(self, message: NoticeWritten, ctx: Context) -> None:
        self.state.written += message.ok
        self.state.skipped += not message.ok


class Notifier(Worker, kind="crm.notifier"):
    """Finds which notices are due and writes them into the outbox; who sends them is the outbox."""

    concurrency = 4

    def __init__(self, notices: Notices) -> None:
        self.notices = notices

    @on
    async def find(self, message: FindDue, ctx: WorkerContext) -> Message:
        found = await self.notices.due(AHEAD_DAYS, message.after, PAGE)
        return FoundDue(found, more=len(found) == PAGE)

    @on
    async def write(self, message: NoticeDue, ctx: WorkerContext) -> Message:
        ok = await self.notices.write(message.subscription, message.renews_on, message.number)
        return NoticeWritten(message.subscription, ok)

    def given_up(self, message: Message, error: str, ctx: WorkerContext) -> Message | None:
        # Both are done again by the next look, a day later.
        match message:
            case FindDue():
                return FoundDue([])
            case NoticeDue():
                return NoticeWritten(message.subscription, ok=False)
        return None
