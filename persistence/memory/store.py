"""`MemoryStore`: what everybody may ask, and the hooks by which tests and the simulator bend it.

Hooks are plain attributes: `before` (runs ahead of every session call, may wait or raise), `wakes` (when and how often
a wake-up arrives), `lost_answer` (whether a commit's answer gets lost after it landed), `down` (nothing answers) and
`restart()` (the server went away and came back). None of them can break a guarantee.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from copy import copy

import anyio
import anyio.lowlevel

from ...mailbox.address import CLIENT_SHARD, shard_of
from ...mailbox.envelope import Envelope
from ...mailbox.errors import BadRow, StoreUnavailable
from ..operating import AuditEntry, require_named
from ..port import Port, RealPort, Signal
from ..rows import (
    ActorRow,
    Decision,
    DecisionStatus,
    EventRow,
    Member,
    MessageView,
    TakeBack,
    Timer,
    TurnRow,
    Verdict,
    turn_row,
)
from ..store import NodeInfo, Wake
from ..verdicts import missing, names_of, outcome_of, refusal, require_somebody, sign, take_back_refusal
from ..watching import changed
from ..whispers import Ear, Whispers
from .auditing import MemoryAuditing
from .cluster import Cluster
from .inspecting import MemoryInspecting
from .intake import Intake
from .retention import MemoryRetention
from .session import MemorySession
from .tables import Tables
from .values import check
from .watching import MemoryWatching

RECEIVE_POLL_SECONDS = 0.25
"""How long an outside asker trusts that it would be woken (S11)."""


class MemoryStore(MemoryAuditing, MemoryWatching, MemoryInspecting, MemoryRetention):
    """Implements `Store` without persistence."""

    def __init__(self, port: Port | None = None, *, mailbox_limit: int = 10_000) -> None:
        super().__init__()
        self.tables = Tables()
        self.cluster = Cluster()
        self.before: Callable[[int, str], Awaitable[None]] | None = None
        """Called with the node's number and the name of the session method, before it has any effect."""
        self.wakes: Callable[[int, Wake], Iterable[float]] = _at_once
        """Given a node's number and a wake-up for it: after how many seconds it arrives, once for each value."""
        self.lost_answer: Callable[[int], bool] = _never
        """Given a node's number, after its commit landed: whether the answer gets lost."""
        self._port = port if port is not None else RealPort()
        self._down = False
        self._sessions: dict[int, MemorySession] = {}
        self._intake = Intake(self.tables, mailbox_limit)
        self._receivers: dict[str, list[Signal]] = {}
        self._whispers = Whispers()

    async def __aenter__(self) -> "MemoryStore":
        return self

    async def __aexit__(self, *_: object) -> None:
        return None

    # -- hooks

    @property
    def down(self) -> bool:
        """True: every call raises StoreUnavailable; then False: every lock is free, every session must reconnect."""
        return self._down

    @down.setter
    def down(self, value: bool) -> None:
        self._down = value
        if value:
            self.restart()

    def restart(self) -> None:
        """The server goes away and is back at once: every lock is free, every session must reconnect."""
        for session in self._sessions.values():
            session.disconnect()
        for node in self.cluster.nodes.values():
            node.woken.set()
            for signal in node.lock_changed:
                signal.set()
        for signals in self._receivers.values():
            for signal in signals:
                signal.set()

    # -- whispers

    async def whisper(self, topic: str, text: str) -> None:
        """See `Store.whisper`."""
        if not self._down:
            self._whispers.whisper(topic, text)

    @asynccontextmanager
    async def overhear(self, topic: str) -> AsyncIterator[Ear]:
        """See `Store.overhear`."""
        await self._reach()
        ear = self._whispers.listen(topic)
        try:
            yield ear
        finally:
            self._whispers.leave(topic, ear)

    # -- nodes

    def clock(self) -> float:
        """The store's clock, at once."""
        return self._port.wall()

    async def now(self) -> float:
        """See `Store.now`."""
        await self._reach()
        return self.clock()

    def join(self, info: NodeInfo, port: Port) -> AbstractAsyncContextManager[MemorySession]:
        """See `Store.join`. The session's tasks (its heart, late wake-ups) live inside the context."""
        return self._join(info, port)

    @asynccontextmanager
    async def _join(self, info: NodeInfo, port: Port) -> AsyncIterator[MemorySession]:
        await self._reach()
        failure: Exception | None = None
        async with anyio.create_task_group() as group:
            node = self.cluster.join(info, self.clock())
            session = self._sessions[node.number] = MemorySession(self, node, port, group)
            self.members_changed(node.number)
            self.tell(changed("node", node.number))
            try:
                yield session
            except Exception as error:  # noqa: BLE001 - raised again below, outside of the group that would wrap it
                failure = error
            finally:
                group.cancel_scope.cancel()
                await self._part(session)
        if failure is not None:
            raise failure

    async def _part(self, session: MemorySession) -> None:
        with anyio.CancelScope(shield=True):
            try:
                await session.leave()
            except StoreUnavailable:
                session.crash()  # the end of a process frees its lock, whatever it could still say
        if self._sessions.get(session.number) is session:
            del self._sessions[session.number]

    def members_changed(self, by: int) -> None:
        """Tell all other nodes to look at the members."""
        for number in list(self._sessions):
            if number != by:
                self.wake_node(number, Wake(frozenset(), members_changed=True))

    def wake_node(self, number: int, wake: Wake) -> None:
        """Wake a node as the `wakes` hook says."""
        session = self._sessions.get(number)
        if session is not None:
            for delay in self.wakes(number, wake):
                session.deliver(delay, wake)

    def wake_owners(self, recipients: Iterable[tuple[int, str]], *, but: int | None = None) -> None:
        """Wake whoever serves these mailboxes."""
        shards: dict[int, set[int]] = {}
        for shard, address in recipients:
            if shard == CLIENT_SHARD:
                for signal in self._receivers.get(address, ()):
                    signal.set()
            owner = self.cluster.owners.get(shard)
            if owner is not None and owner != but:
                shards.setdefault(owner, set()).add(shard)
        for number, news in shards.items():
            self.wake_node(number, Wake(frozenset(news)))

    # -- messages from outside

    async def lease_number(self, holder: str, *, seconds: float) -> int:
        """See `Store.lease_number`."""
        await self._reach()
        return self._intake.lease_number(holder, seconds, self.clock())

    async def send(
        self, envelopes: Sequence[Envelope], client_ids: Sequence[str] = (), audits: Sequence[AuditEntry] = ()
    ) -> list[bool]:
        """See `Store.send`. The bound counts all of a mailbox's messages and holds for the normal lane only."""
        await self._reach()
        require_named(audits)
        for entry in audits:
            check(entry)
        accepted = self._intake.accept(envelopes, client_ids, self.clock())
        if any(accepted):
            for entry in audits:
                self.tables.note(entry, self.clock())
        self.wake_owners((e.shard, e.recipient) for e, new in zip(envelopes, accepted, strict=True) if new)
        return accepted

    async def receive(self, address: str, *, seconds: float, port: Port, fresh: bool = False) -> list[Envelope]:
        """See `Store.receive`. Looking costs nothing here, so `fresh` changes nothing."""
        await self._reach()
        shard = shard_of(address)
        deadline = port.monotonic() + seconds
        came = Signal()
        self._receivers.setdefault(address, []).append(came)
        try:
            while True:
                found = self.tables.waiting(shard, address, self.tables.count(shard, address), self.clock())
                left = deadline - port.monotonic()
                if found or left <= 0:
                    break
                await port.wait(came, min(left, RECEIVE_POLL_SECONDS))
                await self._reach()
        finally:
            self._receivers[address].remove(came)
            if not self._receivers[address]:
                del self._receivers[address]
        now = self.clock()
        for envelope in found:
            self.tables.delete(shard, envelope.id)
            # What was taken leaves its row, like all that was handled.
            self.tables.turns.setdefault(address, []).append(turn_row(envelope, 0, "done", now=now))
        return found

    # -- looking

    async def actor(self, address: str) -> ActorRow | None:
        """See `Store.actor`."""
        await self._reach()
        return next(iter(self.tables.load([(shard_of(address), address)])), None)

    async def actors(self, *, kind: str = "", prefix: str = "", limit: int = 100, after: str = "") -> list[ActorRow]:
        """See `Store.actors`."""
        await self._reach()
        return self.tables.list_actors(kind, prefix, max(0, limit), after)

    async def journal(self, address: str, *, after: int = 0, limit: int = 10_000) -> list[EventRow]:
        """See `Store.journal`."""
        await self._reach()
        return self.tables.journal(address, after, max(0, limit))

    async def turns(self, address: str, *, limit: int = 1_000) -> list[TurnRow]:
        """See `Store.turns`."""
        await self._reach()
        return [copy(turn) for turn in self.tables.turns.get(address, ())[: max(0, limit)]]

    async def peek(self, address: str, *, limit: int = 100) -> list[MessageView]:
        """See `Store.peek`."""
        await self._reach()
        return self.tables.peek(address, max(0, limit), self.clock())

    async def waiting(self, type: str, *, limit: int = 100) -> list[MessageView]:
        """See `Store.waiting`."""
        await self._reach()
        return self.tables.waiting_of_type(type, max(0, limit), self.clock())

    async def calls(self, address: str, *, limit: int = 100) -> list[MessageView]:
        """See `Store.calls`."""
        await self._reach()
        return self.tables.calls_of(address, max(0, limit), self.clock())

    async def timers(self, address: str, *, limit: int = 100) -> list[Timer]:
        """See `Store.timers`."""
        await self._reach()
        shard, now = shard_of(address), self.clock()
        due = self.tables.due([shard], float("inf"), len(self.tables.timers), now)
        return [timer for timer in due if timer.address == address][: max(0, limit)]

    async def owner(self, shard: int) -> Member | None:
        """See `Store.owner`."""
        await self._reach()
        number = self.cluster.owners.get(shard)
        return next((member for member in self.cluster.members(self.clock()) if member.number == number), None)

    # -- decisions

    async def decision(self, id: str) -> Decision | None:
        """See `Store.decision`."""
        await self._reach()
        found = self.tables.decisions.get(id)
        return None if found is None else copy(found)

    async def decisions(
        self, *, status: DecisionStatus | None = None, run: str = "", limit: int = 100
    ) -> list[Decision]:
        """See `Store.decisions`."""
        await self._reach()
        return self.tables.list_decisions(status, run, max(0, limit))

    async def decide(self, verdict: Verdict, notice: Envelope) -> Decision:
        """See `Store.decide`."""
        await self._reach()
        require_somebody(verdict.by)
        now = self.clock()
        check(verdict)
        decision = self._decision_of(verdict.decision, notice)
        outcome = outcome_of(decision, verdict, now)
        if outcome not in ("decided", "signed"):
            raise refusal(outcome, decision, verdict)
        decided_by = names_of(decision, verdict.by) if verdict.status == "approved" else verdict.by
        if verdict.status == "approved":
            decision.signatures = sign(decision, verdict, now)
        if outcome == "signed":
            self._note(verdict, now, "sign", "pending", "pending")
            self.tell(changed("decision", decision.id))
            return copy(decision)
        decision.status = verdict.status
        decision.decided_by, decision.decided_at, decision.note = decided_by, now, verdict.note
        if verdict.status == "approved":
            hold_seconds = max(verdict.hold_seconds, decision.hold_seconds)
            decision.release_at, decision.hold_id = now + hold_seconds, notice.id if hold_seconds > 0 else 0
        self._note(verdict, now, "decide", "pending", verdict.status)
        self._tell(notice, now, decision.id)
        return copy(decision)

    async def take_back(self, wish: TakeBack, notice: Envelope) -> Decision:
        """See `Store.take_back`."""
        await self._reach()
        require_somebody(wish.by)
        now = self.clock()
        check(wish)
        decision = self._decision_of(wish.decision, notice)
        if decision.status != "approved" or not decision.hold_id:
            raise take_back_refusal("closed", decision, wish)
        if decision.hold_id != wish.hold_id:
            raise take_back_refusal("moved", decision, wish)
        decision.status, decision.decided_by, decision.decided_at = "pending", "", 0.0
        decision.note, decision.signatures, decision.release_at, decision.hold_id = "", "", 0.0, 0
        self._note(wish, now, "take back", "approved", "pending")
        self._tell(notice, now, decision.id)
        return copy(decision)

    def _decision_of(self, name: str, notice: Envelope) -> Decision:
        check(notice)
        decision = self.tables.decisions.get(name)
        if decision is None:
            raise missing(name)
        if (notice.shard, notice.id) in self.tables.messages:
            raise BadRow(f"message {notice.id} of shard {notice.shard} is there already; ids are used once")
        return decision

    def _note(self, word: Verdict | TakeBack, now: float, action: str, before: str, after: str) -> None:
        entry = AuditEntry(
            word.by, action, word.decision, word.label, word.channel, word.host, before, after, word.note
        )
        self.tables.note(entry, now)

    def _tell(self, notice: Envelope, now: float, name: str) -> None:
        self.tables.put(notice, now)
        self.wake_owners([(notice.shard, notice.recipient)])
        self.tell(changed("decision", name))

    async def _reach(self) -> None:
        await anyio.lowlevel.checkpoint()
        if self._down:
            raise StoreUnavailable("the memory store does not answer: it is switched off")


def _at_once(_number: int, _wake: Wake) -> tuple[float, ...]:
    return (0.0,)


def _never(_number: int) -> bool:
    return False
