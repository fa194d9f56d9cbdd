"""Who owns which shard: claiming, giving, leaving, and taking over from the dead and the silent."""

import anyio
import anyio.lowlevel
import pytest

from callboard.mailbox.errors import StoreUnavailable
from callboard.persistence.rows import Member
from callboard.persistence.store import Session
from tests.contract.build import unit, write
from tests.contract.world import LEASE_SECONDS, World

pytestmark = pytest.mark.anyio

ALL = set(range(256))
SOON = 60.0


async def member_of(watcher: Session, session: Session) -> Member:
    return next(member for member in await watcher.members() if member.number == session.number)


async def test_ownership_a_claim_takes_what_nobody_owns(world: World) -> None:
    async with world.join("a") as first, world.join("b") as second:
        assert await first.claim([1, 2, 3]) == {1, 2, 3}
        assert await second.claim([2, 3, 4]) == {4}
        assert await second.claim() == ALL - {1, 2, 3, 4}
        assert await first.claim() == set()
        assert await first.owned() == {1, 2, 3}
        assert await second.owned() == ALL - {1, 2, 3}


async def test_ownership_the_shard_of_outside_askers_is_nobodys(world: World) -> None:
    async with world.join("a") as session:
        assert await session.claim() == ALL
        assert await session.claim([256]) == set()


async def test_ownership_of_claims_at_once_each_shard_goes_to_one(world: World) -> None:
    async with world.join("a") as first, world.join("b") as second:
        taken: dict[int, set[int]] = {}

        async def claim(session: Session) -> None:
            taken[session.number] = await session.claim()

        async with anyio.create_task_group() as group:
            group.start_soon(claim, first)
            group.start_soon(claim, second)
        assert taken[first.number] | taken[second.number] == ALL
        assert not taken[first.number] & taken[second.number]
        assert await first.owned() == taken[first.number]


async def test_ownership_shards_are_given_to_a_node_or_to_nobody(world: World, node: Session) -> None:
    async with world.join("boot-2") as other:
        await node.give([1, 2], other.number)
        await node.give([3], None)
        assert await other.owned() == {1, 2}
        assert await node.owned() == ALL - {1, 2, 3}
        assert await other.claim() == {3}


async def test_ownership_only_the_owner_gives(world: World, node: Session) -> None:
    async with world.join("boot-2") as other:
        await other.give([1, 2], None)
        assert await node.owned() == ALL
        await other.give([1, 2], other.number)
        assert await node.owned() == ALL


async def test_ownership_what_is_given_to_a_node_that_left_can_be_claimed(world: World, node: Session) -> None:
    async with world.join("boot-2") as gone:
        await gone.leave()
        await node.give([5], gone.number)
    async with world.join("boot-3") as other:
        assert await other.claim() == {5}


async def test_ownership_leaving_frees_all_shards(world: World, node: Session) -> None:
    async with world.join("boot-2") as other:
        await node.leave()
        assert node.number not in [member.number for member in await other.members()]
        assert await other.claim() == ALL


async def test_ownership_the_end_of_the_context_leaves(world: World) -> None:
    async with world.join("a") as first:
        await first.claim()
    async with world.join("b") as second:
        assert await second.claim() == ALL


async def test_ownership_an_error_in_the_context_leaves_and_comes_out_as_it_was(world: World) -> None:
    class OddError(Exception):
        pass

    async def fail_as_a_node() -> None:
        async with world.join("a") as first:
            await first.claim()
            raise OddError

    with pytest.raises(OddError):
        await fail_as_a_node()
    async with world.join("b") as second:
        assert await second.claim() == ALL


async def test_ownership_members_say_what_the_others_need_to_know(world: World, node: Session) -> None:
    async with world.join("boot-2", guest=True, label="second") as guest:
        await guest.draining()
        first, second = await node.members()
        assert (first.number, first.epoch, first.boot) == (node.number, node.epoch, "boot-1")
        assert (first.label, first.guest) == ("first", False)
        assert (first.status, first.shards) == ("up", 256)
        assert (second.number, second.boot, second.status) == (guest.number, "boot-2", "draining")
        assert (second.shards, second.guest, second.label) == (0, True, "second")
        assert 0 <= first.beat_age_seconds < 60
        assert [member.number for member in await guest.members()] == [node.number, guest.number]


async def test_ownership_a_node_that_drains_still_commits(node: Session) -> None:
    await node.draining()
    await write(node, unit())
    await node.give([1], None)


async def test_ownership_the_heart_beats_while_its_node_is_alive(world: World, node: Session) -> None:
    alive = True
    async with world.join("boot-2") as watcher:
        await world.pass_time(LEASE_SECONDS * 2)
        assert (await member_of(watcher, node)).beat_age_seconds >= LEASE_SECONDS
        await node.start_heart(lambda: alive)
        with anyio.fail_after(SOON):
            while (await member_of(watcher, node)).beat_age_seconds > LEASE_SECONDS:
                await anyio.lowlevel.checkpoint()
        assert await watcher.take_over(await member_of(watcher, node), by="lease") == set()


async def test_ownership_a_beating_node_is_not_taken_over(world: World, node: Session) -> None:
    async with world.join("boot-2") as rival:
        member = await member_of(rival, node)
        assert await rival.take_over(member, by="lease") == set()
        assert await node.owned() == ALL
        await write(node, unit())


async def test_ownership_a_silent_node_is_taken_over_although_its_lock_is_held(world: World, node: Session) -> None:
    async with world.join("boot-2") as heir:
        member = await member_of(heir, node)
        assert await heir.take_over(member, by="lease") == set(), "it has beaten when it joined"
        await world.outlast_leases()
        assert await heir.take_over(member, by="lease") == ALL
        assert await heir.owned() == ALL
        assert node.number not in [m.number for m in await heir.members()]


async def test_ownership_a_crash_shows_at_once_to_who_watches(world: World, node: Session) -> None:
    async with world.join("boot-2") as heir:
        member = await member_of(heir, node)
        seen: list[bool] = []

        async def watch() -> None:
            seen.append(await heir.watch(member, seconds=SOON))

        assert await heir.watch(member, seconds=0.05) is False
        with anyio.fail_after(SOON):
            async with anyio.create_task_group() as group:
                group.start_soon(watch)
                await anyio.lowlevel.checkpoint()
                await world.crash(node)
        assert seen == [True]
        assert await heir.take_over(member, by="lock") == ALL
        assert await heir.owned() == ALL


async def test_ownership_a_crash_between_two_looks_shows(world: World, node: Session) -> None:
    async with world.join("boot-2") as heir:
        member = await member_of(heir, node)
        assert await heir.watch(member, seconds=0.05) is False
        await world.crash(node)
        with anyio.fail_after(SOON):
            while not await heir.watch(member, seconds=1.0):
                pass


async def test_ownership_a_lock_that_was_never_seen_held_is_no_evidence(world: World, node: Session) -> None:
    await world.crash(node)
    async with world.join("boot-2") as late:
        member = await member_of(late, node)
        assert await late.watch(member, seconds=0.1) is False
        assert await late.watch(member, seconds=0.1) is False


async def test_ownership_who_watches_in_vain_waits_no_longer_than_asked(world: World, node: Session) -> None:
    async with world.join("boot-2") as other:
        member = await member_of(other, node)
        with anyio.fail_after(SOON):
            assert await other.watch(member, seconds=0.05) is False


async def test_ownership_a_held_lock_is_not_taken_over_by_lock(world: World, node: Session) -> None:
    async with world.join("boot-2") as other:
        assert await other.take_over(await member_of(other, node), by="lock") == set()
        await write(node, unit())


async def test_ownership_cut_connections_are_no_death(world: World, node: Session) -> None:
    """A restart of the server frees every lock at once: who comes back with its epoch keeps its shards."""
    async with world.join("boot-2") as other:
        member = await member_of(other, node)
        assert await other.watch(member, seconds=0.05) is False
        await world.cut()
        with pytest.raises(StoreUnavailable):
            await node.commit([unit()])
        with anyio.fail_after(SOON):
            while not await other.reconnect():
                await anyio.lowlevel.checkpoint()
            assert await other.watch(member, seconds=0.05) is False, (
                "the lock that it saw held is not evidence any more"
            )
            while not await node.reconnect():
                await anyio.lowlevel.checkpoint()
            while not ((wake := await node.wake(SOON)) and wake.shards is None):
                pass
        assert await node.owned() == ALL
        await write(node, unit())


async def test_ownership_after_an_outage_nobody_is_taken_for_silent(world: World, node: Session) -> None:
    async with world.join("boot-2") as other:
        member = await member_of(other, node)
        await world.cut()
        await world.pass_time(LEASE_SECONDS * 10)
        with anyio.fail_after(SOON):
            while not await other.reconnect():
                await anyio.lowlevel.checkpoint()
        assert await other.take_over(member, by="lease") == set()
        assert await node.reconnect() is True
        await write(node, unit())


async def test_ownership_of_two_heirs_one_gets_the_shards(world: World, node: Session) -> None:
    async with world.join("boot-2") as first, world.join("boot-3") as second:
        member = await member_of(first, node)
        await world.outlast_leases()
        got: list[set[int]] = []

        async def take(session: Session) -> None:
            got.append(await session.take_over(member, by="lease"))

        # Neither heir beats in this test, but neither has shards that the other could want.
        async with anyio.create_task_group() as group:
            group.start_soon(take, first)
            group.start_soon(take, second)
        assert sorted(map(len, got)) == [0, 256]
        assert await first.owned() | await second.owned() == ALL


async def test_ownership_a_restarted_node_is_not_taken_for_its_former_self(world: World, node: Session) -> None:
    async with world.join("boot-2") as heir:
        stale = await member_of(heir, node)
        await world.outlast_leases()
        assert await heir.take_over(stale, by="lease") == ALL
        async with world.join("boot-1-again") as reborn:
            await heir.give([1, 2], reborn.number)
            await world.outlast_leases()
            assert await heir.take_over(stale, by="lease") == set()
            assert await reborn.owned() == {1, 2}
