"""The memory store as the simulated processes see it: slow, deaf, away, and never telling the same story twice.

Everything that can go wrong between a process and its store goes wrong here, by the seed. What was really written is
noted in the same step (`History`), before the process that wrote it can hear of it, so that the checks afterwards know
more than any process did. `unfenced` and `split_acks` break the protocol on purpose: the negative controls.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import anyio
import anyio.lowlevel

from callboard.mailbox.envelope import Envelope
from callboard.mailbox.errors import StoreUnavailable
from callboard.persistence.memory import MemorySession, MemoryStore, batch
from callboard.persistence.operating import AuditEntry
from callboard.persistence.port import Port
from callboard.persistence.store import NodeInfo, Wake
from callboard.persistence.unit import CommitResult, Unit

from .history import History
from .loop import OUTSIDE, PROCESS, Process, SeededLoop
from .port import SimulatedPort
from .profile import HEALED, Profile

Method = Callable[..., Coroutine[Any, Any, Any]]
ANSWERED = (
    "ready", "mailbox", "load", "journal", "due", "owned", "claim", "give", "members", "take_over", "notify",
)  # fmt: skip
"""Calls of a session whose answers may be late or lost; those of commits are looked after by themselves."""


class SimulatedStore(MemoryStore):
    """`note` is told what happens, for the trace; `kill` ends a process, `freeze` stops it for a while."""

    def __init__(
        self,
        loop: SeededLoop,
        chance: random.Random,
        profile: Profile,
        *,
        note: Callable[[str], None],
        tracing: bool = False,
        kill: Callable[[Process, str], None],
        freeze: Callable[[Process, str], None],
        unfenced: bool = False,
        split_acks: bool = False,
    ) -> None:
        super().__init__(SimulatedPort(loop, chance))
        self.loop = loop
        self.chance = chance
        self.profile = profile
        self.remark = note
        self.tracing = tracing
        self.kill = kill
        self.freeze = freeze
        self.unfenced = unfenced
        self.split_acks = split_acks
        self.history = History(self)

    def heal(self) -> None:
        """From now on nothing goes wrong."""
        self.profile = HEALED

    # --- sessions ----------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def join(self, info: NodeInfo, port: Port) -> AsyncIterator[MemorySession]:
        process = PROCESS.get()
        async with super().join(info, port) as session:
            process.session = session
            self.remark(f"{process}: joined as node {session.number}, epoch {session.epoch}")
            honest = session.commit

            async def commit(units: Sequence[Unit]) -> CommitResult:
                return await self._commit(process, session, honest, units)

            session.commit = commit  # type: ignore[method-assign]
            session._reach = partial(self._reach_for, session)  # type: ignore[method-assign]
            for name in ANSWERED:
                setattr(session, name, self._late(process, name, getattr(session, name)))
            yield session

    async def _reach_for(self, session: MemorySession, operation: str) -> None:
        """What `MemorySession._reach` does, without anyio's detours: nothing is called more often."""
        await asyncio.sleep(0)
        await self._before(session.number, operation)
        session._check()

    async def _reach(self) -> None:
        await asyncio.sleep(0)
        if self._down:
            raise StoreUnavailable("simulated: the store is down")

    def _late(self, process: Process, name: str, method: Method) -> Method:
        """An answer that takes its time, or gets lost: what was done or read is not what is true when it arrives."""

        async def call(*arguments: Any, **options: Any) -> Any:
            answer = await method(*arguments, **options)
            if self.chance.random() < self.profile.slow:
                await asyncio.sleep(self.chance.random() * self.profile.slow_seconds)
            if process.dead:
                raise StoreUnavailable("simulated: this process is dead")
            if self.chance.random() < self.profile.lost_answer:
                self.remark(f"{process}: the answer to {name} is lost")
                raise StoreUnavailable(f"simulated: the answer to {name} was lost")
            return answer

        return call

    async def _before(self, number: int, operation: str) -> None:
        process, profile = PROCESS.get(), self.profile
        if self.chance.random() < profile.slow:
            await asyncio.sleep(self.chance.random() * profile.slow_seconds)
        if process.dead:
            raise StoreUnavailable("simulated: this process is dead")
        if operation != "commit" and self.chance.random() < profile.crash_in_call:
            await self._die(process, f"before {operation}")

    def members_changed(self, by: int) -> None:
        if self.tracing:
            counts = {number: len(self.cluster.owned(number)) for number in self.cluster.nodes}
            self.remark(f"members: node {by} changed something; shards {counts}")
        super().members_changed(by)

    async def _die(self, process: Process, when: str) -> None:
        self.kill(process, when)
        await anyio.sleep_forever()

    async def _commit(
        self,
        process: Process,
        session: MemorySession,
        honest: Callable[[Sequence[Unit]], object],
        units: Sequence[Unit],
    ) -> CommitResult:
        profile, chance = self.profile, self.chance
        if chance.random() < profile.crash_before_commit:
            self._die_shielded(process, f"before a commit of {len(units)}")
        if chance.random() < profile.freeze_before_commit:
            self.freeze(process, f"before a commit of {len(units)}")
            await asyncio.sleep(0)  # goes on when it wakes
        if chance.random() < profile.lost_unlanded:
            await anyio.lowlevel.checkpoint()
            self.remark(f"{process}: a commit of {len(units)} is lost on its way")
            raise StoreUnavailable("simulated: a commit never arrived")
        result = await self._write(session, honest, units)
        self.remark(f"{process}: committed {len(units)} units, {len(result.rejected)} rejected")
        if chance.random() < profile.crash_after_commit:
            self._die_shielded(process, f"after a commit of {len(units)} landed")
        if chance.random() < profile.lost_landed:
            self.remark(f"{process}: the answer to a commit is lost")
            raise StoreUnavailable("simulated: the answer to a commit was lost")
        if chance.random() < profile.slow:
            await asyncio.sleep(chance.random() * profile.slow_seconds)
            if process.dead:
                raise StoreUnavailable("simulated: this process is dead")
        return result

    def _die_shielded(self, process: Process, when: str) -> None:
        # The committer shields its commits from cancellation, so what waits for ever here would never be cleared away.
        self.kill(process, when)
        raise StoreUnavailable("simulated: this process is dead")

    async def _write(self, session: MemorySession, honest: object, units: Sequence[Unit]) -> CommitResult:
        if self.split_acks:
            return await self._write_in_two(session, honest, units)
        if self.unfenced:
            await session._reach("commit")
            result = batch.write(self.tables, units, self.clock(), session.number)
        else:
            result = await honest(units)  # type: ignore[operator]
        self._landed(session, units, result)
        return result

    def _landed(self, session: MemorySession, units: Sequence[Unit], result: CommitResult) -> None:
        known = len(self.history.wrong)
        self.history.landed(session, units, result)
        if self.tracing:
            for index, unit in enumerate(units):
                self.remark(f"{PROCESS.get()}:   {describe(unit)} {result.rejected.get(index, '')}")
            for wrong in self.history.wrong[known:]:
                self.remark(f"WRONG {wrong}")

    async def _write_in_two(self, session: MemorySession, honest: object, units: Sequence[Unit]) -> CommitResult:
        """The second negative control: what a turn did is written first, and its acknowledgement afterwards."""
        acks = [Unit(unit.shard, acks=unit.acks) for unit in units if unit.acks]
        rest = [_without_acks(unit) for unit in units]
        result: CommitResult = await honest(rest)  # type: ignore[operator]
        self._landed(session, units, result)
        process = PROCESS.get()
        if self.chance.random() < self.profile.crash_after_commit:
            self._die_shielded(process, "between a commit and its acknowledgements")
        await honest(acks)  # type: ignore[operator]
        return result

    # --- wake-ups ----------------------------------------------------------------------------------------------

    def wake_node(self, number: int, wake: Wake) -> None:
        session = self._sessions.get(number)
        if session is None:
            return
        profile, chance = self.profile, self.chance.random()
        if chance < profile.wake_lost:
            return
        late = chance < profile.wake_lost + profile.wake_late
        if not late:
            session.node.poke(wake)
        if late or chance > 1 - profile.wake_twice:
            # In nobody's process: the network does not stop where a node does.
            self.loop.call_later(self.chance.random() * 0.5, session.node.poke, wake, context=OUTSIDE.context)

    # --- outside -----------------------------------------------------------------------------------------------

    async def send(
        self, envelopes: Sequence[Envelope], client_ids: Sequence[str] = (), audits: Sequence[AuditEntry] = ()
    ) -> list[bool]:
        accepted = await super().send(envelopes, client_ids, audits)
        if self.chance.random() < self.profile.lost_answer_outside and PROCESS.get() is OUTSIDE:
            raise StoreUnavailable("simulated: the answer to a send was lost")
        return accepted


def describe(unit: Unit) -> str:
    """A unit in a line."""
    who = f"{unit.actor.address} v{unit.actor.version} {unit.actor.status}" if unit.actor else "-"
    handled = ", ".join(f"{turn.type} {turn.id} of {turn.recipient} {turn.outcome}" for turn in unit.turns)
    sent = ", ".join(f"{e.type} {e.id} to {e.recipient} #{e.sender_seq}" for e in (*unit.sends, *unit.holds))
    again = ", ".join(f"{retry.id} in {retry.delay_seconds:.3f}" for retry in unit.retries)
    rest = ", ".join(
        f"{field} {value}"
        for field in ("releases", "drops", "withdraws", "timers_cancelled", "fires", "moves")
        if (value := getattr(unit, field))
    )
    timers = ", ".join(f"{timer.key} {timer.generation} in {timer.delay_seconds:.3f}" for timer in unit.timers)
    parts = {"handled": handled, "sent": sent, "again": again, "timers": timers, "and": rest}
    return f"[{unit.shard}] {who}: " + "; ".join(f"{name} {text}" for name, text in parts.items() if text)


def _without_acks(unit: Unit) -> Unit:
    bare = Unit(**{field: getattr(unit, field) for field in unit.__struct_fields__})
    bare.acks = []
    return bare
