"""The client: how everything that is not an actor talks to actors. Any process, node or not, may have one.

What a client sends is accepted once it is in the mailbox; a `client_id` makes a repeated send the same send. An ask
puts a reply address with it, `/sys/client:…`, a mailbox that only this client reads and that expires with it.
"""

import logging
import typing
from typing import Any, Generic, TypeVar

import anyio
import msgspec

from ..mailbox.address import CLIENT_PREFIX, parse, shard_of
from ..mailbox.envelope import Envelope, Headers, seal, write_headers
from ..mailbox.errors import NotFound, SignaturesMoved, UsageError
from ..mailbox.ids import IdClock
from ..mailbox.lane import Lane
from ..mailbox.message import Message
from ..mailbox.request import Request
from ..persistence.operating import AuditEntry
from ..persistence.port import Port, RealPort
from ..persistence.rows import Decision, TakeBack, Verdict, signatures_of
from ..persistence.store import Store
from ..persistence.verdicts import names_of
from .approval import Decided, EditWanted, TakenBack
from .context import Ref
from .system import AskFailed, Cancel
from .tracing import AMBIENT

log = logging.getLogger(__name__)

M = TypeVar("M", bound=Message)
R = TypeVar("R", bound=Message)

NUMBER_SECONDS = 86_400.0
"""For how long a client leases its number; it renews after half of that when it sends."""

RECEIVE_SECONDS = 30.0
"""How long one look into the own mailbox lasts at most."""


class Asked(Generic[R]):
    """A request that was sent, and its answer."""

    def __init__(self, store: Store, port: Port, envelope: Envelope) -> None:
        self._store = store
        self._port = port
        self._id = envelope.id
        self._mine = envelope.reply_to
        self._fresh = True
        self.recipient = envelope.recipient
        """Who is asked."""

    async def answer(self, seconds: float) -> R | AskFailed | None:
        """The answer; None where there is none within `seconds`: it may be waited for again. Given once."""
        end = self._port.monotonic() + seconds
        while (left := end - self._port.monotonic()) > 0:
            fresh, self._fresh, left = self._fresh, False, min(left, RECEIVE_SECONDS)
            for answer in await self._store.receive(self._mine, seconds=left, port=self._port, fresh=fresh):
                if answer.correlation == self._id:
                    return typing.cast("R | AskFailed", answer.message())
        return None


class Client:
    """Sends, asks and decides from outside."""

    def __init__(self, store: Store, port: Port | None = None, *, number_seconds: float = NUMBER_SECONDS) -> None:
        """`number_seconds`: how long it leases its number; a program that ends at once takes a short one, as there are
        only some thousands."""
        self.store = store
        self._number_seconds = number_seconds
        self.port: Port = port or RealPort()
        self._holder = self.port.token()
        self._number = -1
        self._renew_at = 0.0
        self._ids: IdClock | None = None
        self._leasing = anyio.Lock()

    def audited(self, entry: AuditEntry) -> "Client":
        """This client, but what it sends carries an audit row, in the same transaction."""
        return _Audited(self, entry)

    @property
    def _audits(self) -> tuple[AuditEntry, ...]:
        return ()

    async def _clock(self) -> IdClock:
        if self._ids is not None and self.port.monotonic() < self._renew_at:
            return self._ids
        async with self._leasing:  # many tasks may begin at once: one asks for all
            if self._ids is None or self.port.monotonic() >= self._renew_at:
                number = await self.store.lease_number(self._holder, seconds=self._number_seconds)
                self._renew_at = self.port.monotonic() + self._number_seconds / 2
                if self._ids is None or number != self._number:
                    self._ids, self._number = IdClock(number, self.port.wall), number
            return self._ids

    async def new_id(self) -> int:
        """An id for a message that is made elsewhere."""
        return (await self._clock()).next()

    async def envelope(self, to: Ref[M] | str, message: M, *, lane: Lane = Lane.NORMAL, reply_to: str = "") -> Envelope:
        """A message, sealed but not sent.

        Raises:
            BadAddress, BadMessage.
        """
        address = to.address if isinstance(to, Ref) else parse(to)
        ids = await self._clock()
        shard, traceparent = shard_of(address), AMBIENT.traceparent()
        envelope = seal(message, id=ids.next(), shard=shard, recipient=address, lane=lane, reply_to=reply_to)
        if traceparent:
            envelope.headers = write_headers(Headers(traceparent=traceparent))
        return envelope

    async def send(self, to: Ref[M] | str, message: M, *, client_id: str = "", lane: Lane = Lane.NORMAL) -> bool:
        """Send; False when this `client_id` was accepted before (and so nothing was done now).

        Raises:
            Conflict: `client_id` was used for another message. MailboxFull: try later.
        """
        envelope = await self.envelope(to, message, lane=lane)
        accepted = await self.store.send([envelope], [client_id] if client_id else (), self._audits)
        return accepted[0]

    async def cancel(self, address: str, *, by: str = "", reason: str = "") -> None:
        """End an actor as cancelled, whatever it is doing. Harmless where it has ended already.

        It is done when its row says so, which is soon; a supervisor refuses (its dead letter says how else).
        """
        await self.send(address, Cancel(by, reason), lane=Lane.SYSTEM)

    async def ask(
        self,
        to: Ref[Any] | str,
        message: Request[R],
        *,
        seconds: float,
        lane: Lane = Lane.REPLY,
        after: tuple[Envelope, str] | None = None,
    ) -> R | AskFailed:
        """Send a request, and wait for its answer (an `AskFailed` where there will be none).

        `after`: a message (with its client id) that is sent in the same breath, before this one.

        Raises:
            TimeoutError: no answer within `seconds`; the message may still be handled later.
        """
        asked = await self.begin(to, message, lane=lane, after=after)
        answer = await asked.answer(seconds)
        if answer is None:
            raise TimeoutError(f"no answer from {asked.recipient} within {seconds:g} s")
        return answer

    async def begin(
        self,
        to: Ref[Any] | str,
        message: Request[R],
        *,
        lane: Lane = Lane.REPLY,
        after: tuple[Envelope, str] | None = None,
    ) -> "Asked[R]":
        """Send a request as `ask` does, and give back what its answer can be waited for with, again and again."""
        await self._clock()
        mine = f"{CLIENT_PREFIX}{self._number}-{self.port.token()[:16]}"
        envelope = await self.envelope(to, message, lane=lane, reply_to=mine)
        if after is None:
            await self.store.send([envelope], (), self._audits)
        else:
            await self.store.send([after[0], envelope], [after[1], ""], self._audits)
        return Asked(self.store, self.port, envelope)

    async def decide(self, verdict: Verdict) -> Decision:
        """Record a decision; the approval actor is told in the same transaction.

        Raises:
            NotFound, AlreadyDecided, NotAllowed, Conflict: as `Store.decide`.
        """
        while True:
            decision = await self._decision(verdict.decision)
            seen = len(signatures_of(decision))
            approves = verdict.status == "approved"
            told = Decided(
                decision.id,
                decision.run,
                decision.call,
                verdict.digest,
                verdict.status,  # type: ignore[arg-type]  # an edit has a message of its own
                names_of(decision, verdict.by) if approves else verdict.by,
                verdict.note,
                max(verdict.hold_seconds, decision.hold_seconds) if approves else 0.0,
            )
            notice = await self.envelope(decision.approvals, told, lane=Lane.REPLY)
            try:
                return await self.store.decide(msgspec.structs.replace(verdict, seen=seen), notice)
            except SignaturesMoved:
                # Somebody else approved in between, and the notice has to name them. Each time one more has, of a few.
                continue

    async def take_back(
        self, decision_id: str, by: str, *, note: str = "", label: str = "", channel: str = "", host: str = ""
    ) -> Decision:
        """Make an approval that is in its release hold pending again, with nobody's approval.

        Raises:
            NotFound, AlreadyDecided, Conflict: as `Store.take_back`.
        """
        decision = await self._decision(decision_id)
        left = 0.0
        if decision.expires_at:
            left = max(0.001, decision.expires_at - await self.store.now())  # 0 would mean for ever
        told = TakenBack(decision.id, decision.run, decision.call, decision.digest, decision.hold_id, by, note, left)
        notice = await self.envelope(decision.approvals, told, lane=Lane.REPLY)
        wish = TakeBack(decision.id, decision.hold_id, by, note, label, channel, host)
        return await self.store.take_back(wish, notice)

    async def edit(
        self,
        decision_id: str,
        arguments: dict[str, Any],
        by: str,
        *,
        digest: str = "",
        note: str = "",
        label: str = "",
        channel: str = "",
        host: str = "",
    ) -> Decision:
        """Ask for a held call with other arguments: this decision is superseded at once, and the run asks anew, as
        another decision whose `replaces` is this one's id.

        `digest` is of the arguments that the editor saw; "": of those on record.

        Raises:
            UsageError: it is no held call. BadMessage: arguments that are too large, or no JSON.
            NotFound, AlreadyDecided, Conflict: as `Store.decide`.
        """
        decision = await self._decision(decision_id)
        if decision.kind != "approval":
            raise UsageError(f"decision {decision.id} asks whether {decision.tool} happened; there is nothing to edit")
        shown = digest or decision.digest
        told = EditWanted(decision.id, decision.run, decision.call, shown, arguments, by, note)
        notice = await self.envelope(decision.approvals, told, lane=Lane.REPLY)
        verdict = Verdict(decision.id, "superseded", shown, by, note, label=label, channel=channel, host=host)
        return await self.store.decide(verdict, notice)

    async def _decision(self, decision_id: str) -> Decision:
        decision = await self.store.decision(decision_id)
        if decision is None:
            raise NotFound(f"no approval {decision_id!r}; `callboard approvals` lists those that wait")
        return decision


class _Audited(Client):
    """Another client's sends with an audit row; ids are that client's, which must not be made twice."""

    def __init__(self, client: Client, entry: AuditEntry) -> None:
        super().__init__(client.store, client.port)
        self._client, self._entry = client, entry

    @property
    def _audits(self) -> tuple[AuditEntry, ...]:
        return (self._entry,)

    async def _clock(self) -> IdClock:
        clock = await self._client._clock()
        self._number = self._client._number
        return clock
