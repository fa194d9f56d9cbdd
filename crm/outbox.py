"""The outbox: the only part of the desk that sends.

Agents write mail into `crm.outbox` under an idempotency key. The `Outbox` actor looks for waiting mail on a durable
timer and lets the `Mailer` worker send it: at least once, each under its key, so that a mail server which knows keys
sends it once.

    waiting ──▶ sent
       │  ╲──▶ bounced    refused for good (`Bounce`), or MAX_TRIES tries: its ticket is left to a person, once
       ▼
    tried again, after a wait that doubles up to LONGEST_SECONDS (`not_before`)

Mails are sent side by side, each for SEND_SECONDS at most: one that hangs or fails holds up no other.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

import anyio
import msgspec

from callboard.actors.actor import Actor, Worker, on
from callboard.actors.context import Context, WorkerContext
from callboard.crm.handover import hand_over, kept
from callboard.mailbox.message import Message
from callboard.persistence.postgres.database import Database

log = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
"""Bounds how long a mail waits that is due. One node at a time has the timer: the one that has the actor."""
BATCH = 100
AT_ONCE = 10
SEND_SECONDS = 30.0
FIRST_SECONDS = 30.0
"""The first wait after a try that failed."""
LONGEST_SECONDS = 3_600.0
MAX_TRIES = 100
"""About four days; then a mail counts as bounced."""

Send: TypeAlias = Callable[[str, str, str], Awaitable[None]]
"""(idempotency key, recipient, body): hand a mail to whatever sends it. It raises `Bounce` where the mail can never be
delivered; anything else that it raises is for the moment."""

_WAITING = """
SELECT idempotency_key, ticket_id, recipient, body, tries FROM crm.outbox
WHERE sent_at IS NULL AND bounced_at IS NULL AND not_before <= crm.clock() ORDER BY not_before, outbox_id LIMIT %s
"""
_SENT = """
UPDATE crm.outbox SET sent_at = crm.clock() WHERE idempotency_key = %s AND sent_at IS NULL AND bounced_at IS NULL
"""
_AGAIN = """
UPDATE crm.outbox SET tries = %(tries)s, trouble = %(why)s, not_before = crm.clock() + %(wait)s * interval '1 second'
WHERE idempotency_key = %(key)s AND sent_at IS NULL AND bounced_at IS NULL
"""
_BOUNCED = """
UPDATE crm.outbox SET bounced_at = crm.clock(), tries = %(tries)s, trouble = %(why)s
WHERE idempotency_key = %(key)s AND sent_at IS NULL AND bounced_at IS NULL
"""


class Bounce(Exception):
    """The mail can never be delivered, and trying again does not help; the text says why, as the mail server does."""


class Look(Message, tag="crm.outbox.look"):
    """Timer: is there mail to send?"""


class SendWaiting(Message, tag="crm.outbox.send"):
    """Outbox to mailer: send what is due."""


class SentSome(Message, tag="crm.outbox.sent"):
    """Mailer to outbox."""

    count: int
    bounced: int = 0


class OutboxState(msgspec.Struct):
    """How much it sent, and whether the mailer is at work."""

    sent: int = 0
    sending: bool = False
    bounced: int = 0


class Outbox(Actor[OutboxState], kind="crm.outbox"):
    """Sees that waiting mail is sent; one look at a time."""

    def __init__(self, mailer: str) -> None:
        self.mailer = mailer

    def summary(self) -> Mapping[str, Any]:
        return {"sent": self.state.sent, "bounced": self.state.bounced}

    def on_start(self, ctx: Context) -> None:
        self.state.sending = False
        ctx.schedule("look", LOOK_SECONDS, Look(), every=LOOK_SECONDS)

    @on
    def look(self, message: Look, ctx: Context) -> None:
        if not self.state.sending:
            self.state.sending = True
            ctx.send(self.mailer, SendWaiting())

    @on
    def sent(self, message: SentSome, ctx: Context) -> None:
        self.state.sending = False
        self.state.sent += message.count
        self.state.bounced += message.bounced


class Mailer(Worker, kind="crm.mailer"):
    """Sends what is due. Without a `send` of its own it only marks the mail as sent, as the demo does."""

    concurrency = 1

    def __init__(self, database: Database, send: Send | None = None) -> None:
        self.database = database
        self.deliver = send

    @on
    async def send(self, message: SendWaiting, ctx: WorkerContext) -> Message:
        ends: list[str] = []
        seats = anyio.CapacityLimiter(AT_ONCE)

        async def send_one(mail: Mapping[str, Any]) -> None:
            async with seats:
                ends.append(await self._send_one(mail, ctx))

        async with anyio.create_task_group() as group:
            for mail in await self.database.rows(_WAITING, [BATCH]):
                ctx.port.spawn(group, send_one, mail, name="mail")
        return SentSome(ends.count("sent"), ends.count("bounced"))

    async def _send_one(self, mail: Mapping[str, Any], ctx: WorkerContext) -> str:
        """Try once; what became of it: `sent`, `bounced` or `again`."""
        key, tries = mail["idempotency_key"], mail["tries"] + 1
        try:
            if self.deliver is not None:
                with ctx.port.deadline(SEND_SECONDS):
                    await self.deliver(key, mail["recipient"], mail["body"])
        except Bounce as bounce:
            return await self._bounced(mail, tries, str(bounce))
        except Exception as error:  # noqa: BLE001 - somebody else's function; whatever it raises holds up one mail only
            why = f"{type(error).__name__}: {error}"
            log.info("a mail was not sent at try %d, and will be tried again: %s", tries, type(error).__name__)
            if tries >= MAX_TRIES:
                return await self._bounced(mail, tries, f"given up after {tries} tries: {why}")
            tried = {"key": key, "tries": tries, "why": kept(why), "wait": wait_seconds(tries)}
            await self.database.execute(_AGAIN, tried)
            return "again"
        await self.database.execute(_SENT, [key])
        return "sent"

    async def _bounced(self, mail: Mapping[str, Any], tries: int, why: str) -> str:
        key, ticket = mail["idempotency_key"], mail["ticket_id"]
        async with self.database.transaction() as session:
            await session.execute(_BOUNCED, {"key": key, "tries": tries, "why": kept(why)})
            if ticket is not None:
                said = f"The mail to {mail['recipient']} came back: {why}"
                await hand_over(session, ticket, said, f"bounced {key}")
        return "bounced"

    def given_up(self, message: Message, error: str, ctx: WorkerContext) -> Message | None:
        return SentSome(0)


def wait_seconds(tries: int) -> float:
    """How long a mail waits after so many tries (from 1)."""
    return min(FIRST_SECONDS * 2.0 ** min(tries - 1, 32), LONGEST_SECONDS)
