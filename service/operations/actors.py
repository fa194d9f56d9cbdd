"""Looking at actors and mailboxes without touching them, and the few things an operator may ask of an actor.

Everything here is a read of the store or one system message; none of it needs a node in this process, and nothing that
is looked at is consumed.
"""

from collections.abc import Sequence

import msgspec

from ...actors.system import Cancel, Kill, Pause, Resume
from ...mailbox.address import CLIENT_PREFIX, parse, shard_of
from ...mailbox.errors import NotFound, StoreUnavailable
from ...mailbox.lane import Lane
from ...mailbox.message import Message
from ...persistence.operating import MailboxSummary
from ...persistence.rows import ActorStatus, MessageView
from .facts import LOOKED_AT, Holder, facts_of, holder_of, state_of
from .flow import Flow, flow_of
from .redaction import redacted_text
from .runs import Operations
from .views import moment
from .why import Facts, Why, actor_why, call_why, message_why

SCANNED = 10_000
"""Actors of one kind that are looked through for those that stand still."""
OVER_AGE_SECONDS = 60.0
"""What waits longer than that and could be handled is told of as stuck."""
_STANDING = ("failed", "parked", "paused", "escalated")


class ActorLine(msgspec.Struct, frozen=True):
    """An actor in a list."""

    address: str
    kind: str
    status: ActorStatus | None
    """None: nothing was handled yet, there are only messages."""
    incarnation: int
    version: int
    waiting: int
    """Messages in its mailbox, `facts.LOOKED_AT` at most."""
    why: Why
    oldest_at: float = 0.0
    """When the oldest of those was sent; 0.0 where there is none."""
    holder: Holder | None = None
    """The node that serves it."""


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
    due_at: float = 0.0
    """Not before; 0.0: at once."""
    deliveries: int = 0
    """How often a handler may have begun."""
    losses: int = 0
    """How often a process died while a handler of it ran."""
    started: bool = False
    """A call whose effect was about to begin."""


class MailboxView(msgspec.Struct, frozen=True):
    """A mailbox, and what its actor waits for."""

    actor: ActorLine
    messages: list[MessageLine]
    calls: list[MessageLine]
    complete: bool
    """False where there are more messages than are shown."""
    flow: Flow | None = None
    """What went in and out lately; None for a worker's, whose calls lie with those who asked."""


class Inspection:
    """The inspector on one store, as one principal."""

    def __init__(self, operations: Operations) -> None:
        self.operations = operations
        self.store = operations.store

    async def actors(self, *, prefix: str = "", kind: str = "", limit: int = 50) -> list[ActorLine]:
        """Actors in order of address, each with why it does not move."""
        self.operations.require("read")
        rows = await self.store.actors(kind=kind, prefix=prefix, limit=limit)
        return [_line(await facts_of(self.store, row.address, row)) for row in rows]

    async def actor(self, address: str) -> ActorLine:
        """One actor, whether it exists yet or has only messages, or dead letters of them.

        Raises:
            NotFound: neither. BadAddress.
        """
        return _line(await self._known(address))

    async def stuck(
        self, *, prefix: str = "", over_age_seconds: float = OVER_AGE_SECONDS, limit: int = 100
    ) -> tuple[list[ActorLine], bool]:
        """Actors that stand still, or whose mailbox does not move, those first that wait longest; whether these are
        all. One that only waits for people's decisions is none: `callboard approvals` has it."""
        self.operations.require("read")
        found, complete = await self._standing(prefix)
        boxes = await self.store.mailboxes(order="age", limit=LOOKED_AT)
        complete = complete and len(boxes) < LOOKED_AT
        now = await self.store.now()
        seen = set(found)
        for box in boxes:
            if not (box.ready or box.retrying or box.scheduled):
                continue
            for address in await self._served_by(box):
                if address in seen or not address.startswith(prefix) or address.startswith(CLIENT_PREFIX):
                    continue
                seen.add(address)
                line = _line(await facts_of(self.store, address, await self.store.actor(address)))
                old = box.ready and now - box.oldest_at >= over_age_seconds and line.why.kind in ("waits", "moves")
                if old or line.why.kind == "stuck":
                    found[address] = line
        lines = sorted(found.values(), key=lambda line: (line.oldest_at or now, line.address))
        return lines[:limit], complete and len(lines) <= limit

    async def _served_by(self, box: MailboxSummary) -> list[str]:
        """The actors that wait for a mailbox to move: its own; a worker's has none, but those who called it."""
        if box.shard == shard_of(box.address) and await self.store.actor(box.address) is not None:
            return [box.address]
        views = await self.store.peek(box.address, limit=LOOKED_AT)
        callers = {
            v.envelope.sender for v in views if v.envelope.reply_to == v.envelope.sender != "" and v.state != "held"
        }
        return sorted(callers) or [box.address]

    async def _standing(self, prefix: str) -> tuple[dict[str, ActorLine], bool]:
        """Actors that are not active and have not ended; whether these are all."""
        found: dict[str, ActorLine] = {}
        complete = True
        try:
            kinds = (await self.store.census()).actors
        except StoreUnavailable:
            kinds = {"": dict.fromkeys(_STANDING, SCANNED)}  # too many to be counted in time: those that are met
        for kind, statuses in sorted(kinds.items()):
            left = sum(statuses.get(status, 0) for status in _STANDING)
            after, seen = "", 0
            while left > 0 and seen < SCANNED and len(found) < LOOKED_AT:
                page = await self.store.actors(kind=kind, prefix=prefix, limit=1_000, after=after)
                for row in page:
                    if row.status in _STANDING:
                        left -= 1
                        found[row.address] = _line(await facts_of(self.store, row.address, row, limit=100))
                seen += len(page)
                if len(page) < 1_000:
                    left = 0
                    break
                after = page[-1].address
            complete = complete and left <= 0
        return found, complete

    async def mailbox(self, address: str, *, limit: int = 100) -> MailboxView:
        """A mailbox without touching it. Raises as `actor`."""
        self.operations.require("read")
        facts = await self._known(address)
        lines = [message_line(view, message_why(view, facts), facts) for view in facts.waiting[:limit]]
        calls = [message_line(view, call_why(view, facts), facts) for view in facts.calls[:limit]]
        flow = None if facts.row is None else await flow_of(self.store, address, facts.waiting)
        return MailboxView(_line(facts), lines, calls, complete=len(facts.waiting) <= limit, flow=flow)

    async def _known(self, address: str) -> Facts:
        row = await self.store.actor(parse(address))
        facts = await facts_of(self.store, address, row)
        if row is None and not facts.waiting and not facts.dead:
            raise NotFound(
                f"no actor at {address} and nothing in its mailbox; `callboard actors` lists those there are"
            )
        return facts

    # --- asking something of an actor --------------------------------------------------------------------------

    async def resume(self, address: str) -> None:
        """Let a parked, paused or failed actor take messages again. Raises as `actor`."""
        await self._tell(address, Resume(by=self.operations.principal), "resume")

    async def pause(self, address: str, reason: str) -> None:
        """Let an actor take no more messages until it is resumed. Raises as `actor`."""
        await self._tell(address, Pause(by=self.operations.principal, reason=reason), "pause", reason)

    async def cancel(self, address: str, reason: str) -> None:
        """End an actor for good; what it is doing is undone. Raises as `actor`."""
        await self._tell(address, Cancel(by=self.operations.principal, reason=reason), "cancel", reason)

    async def kill(self, address: str) -> None:
        """End this incarnation of an actor now, as a crash would; its supervisor decides.

        Raises:
            NotAllowed: also where nothing may be killed (`Principal.chaos`). As `actor`.
        """
        self.operations.who.require_chaos()
        await self._tell(address, Kill(by=self.operations.principal), "kill")

    async def _tell(self, address: str, message: Message, action: str, note: str = "") -> None:
        self.operations.require("operate")
        row = await self.store.actor(parse(address))
        if row is None:
            raise NotFound(f"no actor at {address}; `callboard actors` lists those there are")
        entry = self.operations.entry(action, address, before=row.status, note=note)
        await self.operations.client.audited(entry).send(address, message, lane=Lane.SYSTEM)


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
        min((view.sent_at for view in facts.waiting), default=0.0),
        holder_of(facts.shard, facts.owner),
    )


def message_line(view: MessageView, why: Why, facts: Facts) -> MessageLine:
    """A message as it is listed."""
    envelope = view.envelope
    return MessageLine(
        envelope.id,
        envelope.type,
        envelope.version,
        Lane(envelope.lane).name.lower(),
        state_of(view, facts),
        envelope.recipient,
        envelope.sender,
        envelope.failures + 1,
        view.sent_at,
        redacted_text(envelope.last_error),
        why,
        facts.now + envelope.delay_seconds if envelope.delay_seconds > 0 else 0.0,
        envelope.deliveries,
        envelope.losses,
        envelope.started,
    )


def actors_document(lines: Sequence[ActorLine], *, complete: bool) -> dict[str, object]:
    """`callboard.actors/1`."""
    return {"schema": "callboard.actors/1", "complete": complete, "items": [actor_item(line) for line in lines]}


def actor_item(line: ActorLine) -> dict[str, object]:
    """An actor in a document."""
    return {**msgspec.to_builtins(line), "oldest_at": moment(line.oldest_at)}


def message_item(line: MessageLine) -> dict[str, object]:
    """A message in a document. Ids are numbers of 63 bits; `id_text` is for readers that keep fewer."""
    times = {"sent_at": moment(line.sent_at), "due_at": moment(line.due_at)}
    return {**msgspec.to_builtins(line), "id_text": str(line.id), **times}


def mailbox_document(view: MailboxView) -> dict[str, object]:
    """`callboard.mailbox/1`."""
    document: dict[str, object] = {"schema": "callboard.mailbox/1", **msgspec.to_builtins(view)}
    document["actor"] = actor_item(view.actor)
    for key, lines in (("messages", view.messages), ("calls", view.calls)):
        document[key] = [message_item(line) for line in lines]
    return document
