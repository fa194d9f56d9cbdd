"""The outbox: the only part of the desk that sends.

Agents write mail into `crm.outbox` under an idempotency key. The `Outbox` actor looks for waiting mail on a durable
timer and lets the `Mailer` worker send it: at least once, each under its key, so that a mail server which knows keys
sends it once. `not_before` lets a mail wait, or be tried again later.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

import msgspec

from callboard.actors.actor import Actor, Worker, on
from callboard.actors.context import Context, WorkerContext
from callboard.mailbox.message import Message
from callboard.persistence.postgres.database import Database

LOOK_SECONDS = 1.0
"""Bounds how long a mail waits that is due."""
BATCH = 100

Send: TypeAlias = Callable[[str, str, str], Awaitable[None]]
"""(idempotency key, recipient, body): hand a mail to whatever sends it."""


class Look(Message, tag="crm.outbox.look"):
    """Timer: is there mail to send?"""


class SendWaiting(Message, tag="crm.outbox.send"):
    """Outbox to mailer: send what is due."""


class SentSome(Message, tag="crm.outbox.sent"):
    """Mailer to outbox."""

    count: int


class OutboxState(msgspec.Struct):
    """How much it sent, and whether the mailer is at work."""

    sent: int = 0
    sending: bool = False


class Outbox(Actor[OutboxState], kind="crm.outbox"):
    """Sees that waiting mail is sent; one look at a time."""

    def __init__(self, mailer: str) -> None:
        self.mailer = mailer

    def summary(self) -> Mapping[str, Any]:
        return {"sent": self.state.sent}

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


class Mailer(Worker, kind="crm.mailer"):
    """Sends what is due. Without a `send` of its own it only marks the mail as sent, as the demo does."""

    concurrency = 1

    def __init__(self, database: Database, send: Send | None = None) -> None:
        self.database = database
        self.deliver = send

    @on
    async def send(self, message: SendWaiting, ctx: WorkerContext) -> Message:
        waiting = await self.database.rows(
            "SELECT idempotency_key, recipient, body FROM crm.outbox"
            " WHERE sent_at IS NULL AND not_before <= crm.clock() ORDER BY outbox_id LIMIT %s",
            [BATCH],
        )
        for mail in waiting:
            if self.deliver is not None:
                await self.deliver(mail["idempotency_key"], mail["recipient"], mail["body"])
            await self.database.execute(
                "UPDATE crm.outbox SET sent_at = crm.clock() WHERE idempotency_key = %s AND sent_at IS NULL",
                [mail["idempotency_key"]],
            )
        return SentSome(len(waiting))

    def given_up(self, message: Message, error: str, ctx: WorkerContext) -> Message | None:
        return SentSome(0)
