"""The hooks of the memory store do what the simulator believes they do."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest

from callboard.mailbox.errors import Conflict, StaleEpoch, StoreUnavailable
from callboard.persistence.memory import MemorySession, MemoryStore
from callboard.persistence.rows import Member
from callboard.persistence.store import NodeInfo, Store, Wake
from tests.contract.build import AGENT, SHARD, message, unit, waiting, write
from tests.contract.world import LEASE_SECONDS, MovedPort

pytestmark = pytest.mark.anyio

ALL = set(range(256))


class Bench:
    """A memory store whose clock only moves by hand."""

    def __init__(self) -> None:
        self.port = MovedPort()
        self.store = MemoryStore(self.port)

    @asynccontextmanager
    async def join(self, boot: str) -> AsyncIterator[MemorySession]:
        info = NodeInfo(boot, lease_seconds=LEASE_SECONDS, beat_seconds=0.01)
        async with self.store.join(info, self.port) as session:
            yield session


@pytest.fixture
def bench() -> Bench:
    return Bench()


async def test_hooks_a_lost_answer_comes_after_the_commit_landed(bench: Bench) -> None:
    async with bench.join("a") as node:
        bench.store.lost_answer = lambda number: number == node.number
        with pytest.raises(StoreUnavailable):
            await node.commit([unit(sends=[message()])])
        bench.store.lost_answer = lambda _number: False
        assert len(await waiting(node)) == 1
        assert set((await node.commit([unit()])).rejected) == {0}, "the version tells that it landed"


async def test_hooks_while_down_everything_is_unavailable_and_nothing_is_lost(bench: Bench) -> None:
    store: Store = bench.store
    async with bench.join("a") as node:
        await node.claim()
        await write(node, unit(sends=[message()]))
        bench.store.down = True
        for call in (
            node.commit([]),
            node.ready([SHARD], per_actor=1, limit=1),
            node.members(),
            node.wake(1.0),
            store.send([message()]),
            store.now(),
            store.actor(AGENT),
        ):
            with pytest.raises(StoreUnavailable):
                await call
        assert await node.reconnect() is False
        bench.store.down = False
        assert await node.reconnect() is True
        assert await node.owned() == ALL
        assert len(await waiting(node)) == 1


async def test_hooks_numbers_are_used_again_when_none_is_left(bench: Bench) -> None:
    first = await bench.store.lease_number("first", seconds=1.0)
    for n in range(3_071):
        await bench.store.lease_number(f"client-{n}", seconds=1e6)
    with pytest.raises(Conflict):
        await bench.store.lease_number("late", seconds=1.0)
    bench.port.moved_seconds += 700
    assert await bench.store.lease_number("late", seconds=1.0) == first
    assert await bench.store.lease_number("client-7", seconds=1.0) not in (first, None)
    with pytest.raises(Conflict):
        await bench.store.lease_number("first", seconds=1.0)


async def test_hooks_a_node_number_used_again_has_another_epoch(bench: Bench) -> None:
    seen = set()
    former: list[Member] = []
    for n in range(1_023):
        async with bench.join(f"boot-{n}") as node:
            seen.add((node.number, node.epoch))
            former = former or await node.members()
    bench.port.moved_seconds += 700
    async with bench.join("one more") as node, bench.join("and one") as other:
        assert (node.number, node.epoch) not in seen
        assert node.number == 1
        await node.claim()
        bench.port.moved_seconds += LEASE_SECONDS + 1
        assert await other.take_over(former[0], by="lease") == set(), "not taken for who had its number before"
        assert await node.owned() == ALL
    assert len(seen) == 1_023


async def test_hooks_going_down_ends_what_waits(bench: Bench) -> None:
    async with bench.join("a") as node, bench.join("b") as other:
        member = (await other.members())[0]
        failed: list[str] = []

        async def wait_to_be_woken() -> None:
            try:
                while True:
                    await node.wake(60.0)
            except StoreUnavailable:
                failed.append("wake")

        async def watch() -> None:
            try:
                await other.watch(member, seconds=60.0)
            except StoreUnavailable:
                failed.append("watch")

        with anyio.fail_after(60):
            async with anyio.create_task_group() as group:
                group.start_soon(wait_to_be_woken)
                group.start_soon(watch)
                await anyio.wait_all_tasks_blocked()
                bench.store.down = True
        assert sorted(failed) == ["wake", "watch"]
        bench.store.down = False


async def test_hooks_a_server_restart_frees_every_lock_and_is_no_evidence(bench: Bench) -> None:
    async with bench.join("a") as node, bench.join("b") as other:
        await node.claim()
        member = next(m for m in await other.members() if m.number == node.number)
        assert await other.watch(member, seconds=0.01) is False
        bench.store.restart()
        with pytest.raises(StoreUnavailable):
            await node.commit([unit()])
        assert await other.reconnect() is True
        assert await other.watch(member, seconds=0.01) is False
        assert await node.reconnect() is True
        assert await node.owned() == ALL
        await write(node, unit())


async def test_hooks_a_crashed_node_is_found_by_its_lock_and_never_answers(bench: Bench) -> None:
    async with bench.join("a") as node, bench.join("b") as heir:
        await node.claim()
        await node.start_heart(lambda: True)
        member = next(m for m in await heir.members() if m.number == node.number)
        assert await heir.take_over(member, by="lock") == set(), "its lock is held"
        node.crash()
        with pytest.raises(StoreUnavailable):
            await node.commit([unit()])
        assert await heir.take_over(member, by="lock") == ALL
        with pytest.raises(StaleEpoch):
            await node.commit([unit()])


async def test_hooks_a_frozen_node_keeps_its_lock_and_wakes_as_a_zombie(bench: Bench) -> None:
    async with bench.join("a") as node, bench.join("b") as heir:
        await node.claim()
        await node.start_heart(lambda: True)
        node.freeze()
        bench.port.moved_seconds += LEASE_SECONDS + 1
        member = next(m for m in await heir.members() if m.number == node.number)
        assert member.beat_age_seconds > LEASE_SECONDS
        assert await heir.take_over(member, by="lock") == set()
        assert await heir.take_over(member, by="lease") == ALL
        node.thaw()
        with pytest.raises(StaleEpoch):
            await node.commit([unit()])
        with pytest.raises(StaleEpoch):
            await node.reconnect()


async def test_hooks_wake_ups_can_be_lost_repeated_and_late(bench: Bench) -> None:
    async with bench.join("a") as node:
        await node.claim()
        bench.store.wakes = lambda _number, _wake: ()
        await bench.store.send([message()])
        assert await node.wake(0.01) is None
        bench.store.wakes = lambda _number, _wake: (0.0, 0.2)
        await bench.store.send([message()])
        expected = Wake(frozenset({SHARD}))
        assert await node.wake(60.0) == expected
        assert await node.wake(60.0) == expected


async def test_hooks_what_runs_before_a_call_can_delay_it_past_a_take_over(bench: Bench) -> None:
    async with bench.join("a") as node, bench.join("b") as heir:
        await node.claim()
        member = next(m for m in await heir.members() if m.number == node.number)

        async def before(number: int, operation: str) -> None:
            if (number, operation) == (node.number, "commit"):
                bench.port.moved_seconds += LEASE_SECONDS + 1
                assert await heir.take_over(member, by="lease") == ALL

        bench.store.before = before
        with pytest.raises(StaleEpoch):
            await node.commit([unit(sends=[message()])])
        bench.store.before = None
        assert await waiting(heir) == []
