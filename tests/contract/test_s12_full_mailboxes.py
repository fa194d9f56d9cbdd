"""S12: which mailboxes are full is told by their owners only, and seen by all; it is a hint and bounds nothing."""

import pytest

from callboard.mailbox.address import shard_of
from callboard.mailbox.errors import StaleEpoch, StoreUnavailable
from callboard.persistence.store import Session, Store
from tests.contract.build import AGENT, OTHER, SHARD, message, retry, unit, waiting, work, write
from tests.contract.world import World

pytestmark = pytest.mark.anyio

PLACE = (SHARD, AGENT)
FAR = (shard_of(OTHER), OTHER)


async def test_s12_a_backlog_counts_all_messages_but_no_further_than_asked(node: Session) -> None:
    ready, retrying, stashed = message(), message(), message()
    await write(node, work(sends=[ready, retrying, stashed, message(OTHER)]))
    await write(node, work(retries=[retry(retrying, 60.0)]), unit(stashes=[stashed.id]))
    assert await node.backlog(*PLACE, limit=100) == 3
    assert [await node.backlog(*PLACE, limit=n) for n in (0, 1, 2, 3)] == [0, 1, 2, 3]
    assert await node.backlog(SHARD, "/desk/agent:404", limit=5) == 0


async def test_s12_what_an_owner_tells_is_seen_by_all(world: World, node: Session) -> None:
    async with world.join("boot-2") as other:
        assert await other.full() == set()
        await node.publish_full([PLACE, FAR], [])
        assert await other.full() == await node.full() == {AGENT, OTHER}
        await node.publish_full([PLACE], [FAR])
        assert await other.full() == {AGENT}
        await node.publish_full([], [PLACE, FAR])
        assert await other.full() == set()


async def test_s12_only_the_owner_tells(world: World, node: Session) -> None:
    async with world.join("boot-2") as other:
        await node.give([SHARD], other.number)
        await node.publish_full([PLACE], [])
        assert await node.full() == set()
        await other.publish_full([PLACE], [])
        await node.publish_full([], [PLACE])
        assert await node.full() == {AGENT}


async def test_s12_a_successor_clears_what_its_predecessor_told(world: World, node: Session) -> None:
    await node.publish_full([PLACE], [])
    await node.leave()
    async with world.join("boot-2") as heir:
        await heir.claim()
        assert await heir.full() == {AGENT}
        await heir.publish_full([], [PLACE])
        assert await heir.full() == set()


async def test_s12_a_superseded_node_tells_nothing(world: World, node: Session) -> None:
    async with world.join("boot-2") as heir:
        victim = next(member for member in await heir.members() if member.number == node.number)
        await world.outlast_leases()
        assert await heir.take_over(victim, by="lease")
        with pytest.raises((StaleEpoch, StoreUnavailable)):
            await node.publish_full([PLACE], [])
        assert await heir.full() == set()


async def test_s12_a_full_mailbox_still_takes_messages(store: Store, node: Session) -> None:
    await node.publish_full([PLACE], [])
    sent = message()
    assert await store.send([sent]) == [True]
    await write(node, work(sends=[message()]))
    assert (await waiting(node))[0] == sent.id
    assert len(await waiting(node)) == 2
