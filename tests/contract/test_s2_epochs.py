"""S2: a superseded epoch writes nothing; a take-over waits for the commit in flight and then sees all of it."""

import anyio
import anyio.lowlevel
import pytest

from callboard.mailbox.errors import StaleEpoch, StoreUnavailable
from callboard.persistence.rows import Member
from callboard.persistence.store import Session, Store
from tests.contract.build import AGENT, SHARD, event, message, unit, waiting, write
from tests.contract.world import World

pytestmark = pytest.mark.anyio


async def member_of(watcher: Session, session: Session) -> Member:
    return next(member for member in await watcher.members() if member.number == session.number)


async def assert_superseded(session: Session) -> None:
    """Its next commit raises StaleEpoch, at once or (where its connections were ended) when it has reconnected."""

    async def attempt() -> None:
        try:
            await session.commit([unit("/desk/zombie:1", sends=[message("/desk/zombie:1")])])
        except StoreUnavailable:
            await session.reconnect()

    with pytest.raises(StaleEpoch):
        await attempt()


async def test_s2_a_superseded_node_commits_nothing(world: World, store: Store, node: Session) -> None:
    async with world.join("boot-2") as heir:
        await world.outlast_leases()
        shards = await heir.take_over(await member_of(heir, node), by="lease")
        assert shards == set(range(256))
        await assert_superseded(node)
        assert await store.actor("/desk/zombie:1") is None
        assert await waiting(heir, "/desk/zombie:1") == []
        await write(heir, unit("/desk/zombie:1"))


async def test_s2_a_superseded_node_takes_and_gives_no_shards(world: World, node: Session) -> None:
    async with world.join("boot-2") as heir:
        await world.outlast_leases()
        await heir.take_over(await member_of(heir, node), by="lease")
        await assert_superseded(node)
        for attempt in (lambda: node.claim([1]), lambda: node.give([1], None), node.draining):
            with pytest.raises((StaleEpoch, StoreUnavailable)):
                await attempt()
        assert await heir.owned() == set(range(256))


async def test_s2_leaving_after_being_superseded_is_harmless(world: World, node: Session) -> None:
    async with world.join("boot-2") as heir:
        await world.outlast_leases()
        await heir.take_over(await member_of(heir, node), by="lease")
        await assert_superseded(node)
        await node.leave()
        assert await heir.owned() == set(range(256))


async def test_s2_a_node_that_left_commits_nothing(world: World, store: Store) -> None:
    async with world.join() as session:
        await session.claim()
        await session.leave()
        await assert_superseded(session)
    assert await store.actor("/desk/zombie:1") is None


async def test_s2_what_is_read_after_a_take_over_includes_the_commit_in_flight(world: World, store: Store) -> None:
    """The fence: for each of many interleavings a commit either is seen by the heir's first read or never lands."""
    for attempt in range(8):
        address = f"/desk/agent:{attempt}"
        async with world.join(f"old-{attempt}") as old, world.join(f"new-{attempt}") as heir:
            await old.claim()
            await world.outlast_leases()
            member = await member_of(heir, old)
            outcome: list[str] = []

            async def work(old: Session = old, address: str = address, outcome: list[str] = outcome) -> None:
                sends = [message(address) for _ in range(50)]
                try:
                    await old.commit([unit(address, sends=sends, events=[event(1, address)])])
                    outcome.append("landed")
                except StaleEpoch:
                    outcome.append("refused")
                except StoreUnavailable:
                    outcome.append("unknown")

            async with anyio.create_task_group() as group:
                group.start_soon(work)
                for _ in range(attempt % 4):
                    await anyio.lowlevel.checkpoint()
                await heir.take_over(member, by="lease")
                first_read = await waiting(heir, address)
            assert len(first_read) in (0, 50)
            assert await waiting(heir, address) == first_read
            if outcome != ["unknown"]:
                assert len(first_read) == (50 if outcome == ["landed"] else 0)
            await heir.leave()


async def test_s2_no_two_nodes_have_the_same_number_and_epoch(world: World) -> None:
    seen: list[tuple[int, int]] = []
    async with world.join("a") as first, world.join("b") as second:
        seen += [(first.number, first.epoch), (second.number, second.epoch)]
        assert first.number != second.number
    async with world.join("a") as third:
        seen.append((third.number, third.epoch))
    assert len(set(seen)) == 3
    assert all(0 <= number < 1024 for number, _ in seen)


async def test_s2_one_epoch_never_speaks_for_another_node(world: World, store: Store, node: Session) -> None:
    async with world.join("boot-2") as heir:
        await world.outlast_leases()
        await heir.take_over(await member_of(heir, node), by="lease")
        await write(heir, unit(AGENT, sends=[message()]))
        await assert_superseded(node)
        (row,) = await heir.load([(SHARD, AGENT)])
        assert row.version == 1
