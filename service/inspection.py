"""Looking at actors and mailboxes without touching them, and the few things an operator may ask of an actor.

Everything here is a read of the store or one system message; none of it needs a node in this process, and nothing that
is looked at is consumed.
"""

from collections.abc import Sequence

import msgspec

from ..actors.system import Cancel, Kill, Pause, Resume
from ..mailbox.address import parent_of, parse, shard_of
from ..mailbox.errors import NotFound
from ..mailbox.lane import Lane
from ..mailbox.message import Message
from ..persistence.rows import ActorRow, ActorStatus, MessageView
from .operations import Operations
from .why import Facts, Why, actor_why, call_why, message_why

LOOKED_AT = 1_000
"""Messages of one mailbox, and calls of one actor, that are looked at: enough to say what is in the way."""


class ActorLine(msgspec.Struct, frozen=True):
    """An actor in a list."""

    address: str
    kind: str
    status: ActorStatus | None
    """None: nothing was handled yet, there are only messages."""
    incarnation: int
    version: int
    waiting: int
    """Messages in its mailbox, LOOKED_AT at most."""
    why: Why


class MessageLine(msgspec.Struct, frozen=True):
    """A message in a mailbox, or a call of an actor that has not ended."""

    id: int
    type: str
    version: int
    lane: str
    state: str
    recipient: str
    sender: str
    attempt: int
    """How often it failed, plus one."""
    sent_at: float
    last_error: str
    why: Why


class MailboxView(msgspec.Struct, frozen=True):
    """A mailbox, and what its actor waits for."""

    actor: ActorLine
    messages: list[MessageLine]
    calls: list[MessageLine]
    complete: bool
    """False where there are more messages than are shown."""


class Inspection:
    """The inspector on one store, as one principal."""

    def __init__(self, operations: Operations) -> None:
        self.operations = operations
        self.store = operations.store

    async def actors(self, *, prefix: str = "", kind: str = "", limit: int = 50) -> list[ActorLine]:
        """Actors in order of address, each with why it does not move."""
        rows = await self.store.actors(kind=kind, prefix=prefix, limit=limit)
        return [_line(await self._facts(row.address, row)) for row in rows]

    async def actor(self, address: str) -> ActorLine:
        """One actor, whether it exists yet or has only messages.

        Raises:
            NotFound: neither. BadAddress.
        """
        return _line(await self._known(address))

    async def mailbox(self, address: str, *, limit: int = 100) -> MailboxView:
        """A mailbox without touching it. Raises as `actor`."""
        facts = await self._known(address)
        lines = [_message(view, message_why(view, facts)) for view in facts.waiting[:limit]]
        calls = [_message(view, call_why(view, facts)) for view in facts.calls[:limit]]
        return MailboxView(_line(facts), lines, calls, complete=len(facts.waiting) <= limit)

    async def _known(self, address: str) -> Facts:
        row = await self.store.actor(parse(address))
        facts = await self._facts(address, row)
        if row is None and not facts.waiting:
            raise NotFound(
                f"no actor at {address} and nothing in its mailbox; `callboard actors` lists those there are"
            )
        return facts

    async def _facts(self, address: str, row: ActorRow | None) -> Facts:
        store, shard = self.store, shard_of(address)
        parent = parent_of(address)
        return Facts(
            address=address,
            shard=shard,
            now=await store.now(),
            row=row,
            supervisor=await store.actor(parent) if parent else None,
            owner=await store.owner(shard),
            waiting=await store.peek(address, limit=LOOKED_AT),
            calls=await store.calls(address, limit=LOOKED_AT),
            timers=await store.timers(address),
            decisions=[
                *await store.decisions(status="pending", run=address, limit=LOOKED_AT),
                *await store.decisions(status="approved", run=address, limit=LOOKED_AT),
            ],
        )

    # --- asking something of an actor --------------------------------------------------------------------------

    async def resume(self, address: str) -> None:
        """Let a parked, paused or failed actor take messages again. Raises as `actor`."""
        await self._tell(address, Resume(by=self.operations.principal))

    async def pause(self, address: str, reason: str) -> None:
        """Let an actor take no more messages until it is resumed. Raises as `actor`."""
        await self._tell(address, Pause(by=self.operations.principal, reason=reason))

    async def cancel(self, address: str, reason: str) -> None:
        """End an actor for good; what it is doing is undone. Raises as `actor`."""
        await self._tell(address, Cancel(by=self.operations.principal, reason=reason))

    async def kill(self, address: str) -> None:
        """End this incarnation of an actor now, as a crash would; its supervisor decides. Raises as `actor`."""
        await self._tell(address, Kill(by=self.operations.principal))

    async def _tell(self, address: str, message: Message) -> None:
        if await self.store.actor(parse(address)) is None:
            raise NotFound(f"no actor at {address}; `callboard actors` lists those there are")
        await self.operations.client.send(address, message, lane=Lane.SYSTEM)


def _line(facts: Facts) -> ActorLine:
    row = facts.row
    return ActorLine(
        facts.address,
        "" if row is None else row.kind,
        None if row is None else row.status,
        0 if row is None else row.incarnation,
        0 if row is None else row.version,
        len(facts.waiting),
        actor_why(facts),
    )


def _message(view: MessageView, why: Why) -> MessageLine:
    envelope = view.envelope
    return MessageLine(
        envelope.id,
        envelope.type,
        envelope.version,
        Lane(envelope.lane).name.lower(),
        view.state,
        envelope.recipient,
        envelope.sender,
        envelope.failures + 1,
        view.sent_at,
        envelope.last_error,
        why,
    )


def actors_document(lines: Sequence[ActorLine], *, complete: bool) -> dict[str, object]:
    """`callboard.actors/1`."""
    return {"schema": "callboard.actors/1", "complete": complete, "items": [msgspec.to_builtins(x) for x in lines]}


def mailbox_document(view: MailboxView) -> dict[str, object]:
    """`callboard.mailbox/1`."""
    from .views import moment

    document: dict[str, object] = {"schema": "callboard.mailbox/1", **msgspec.to_builtins(view)}
    for key, lines in (("messages", view.messages), ("calls", view.calls)):
        document[key] = [{**msgspec.to_builtins(line), "sent_at": moment(line.sent_at)} for line in lines]
    return document
