"""S11: wake-ups may be late, lost or repeated; reading is the truth."""

import anyio
import pytest

from callboard.mailbox.address import shard_of
from callboard.persistence.store import Session, Store, Wake
from tests.contract.build import AGENT, SHARD, decision, message, unit, verdict, waiting, write
from tests.contract.world import World

pytestmark = pytest.mark.anyio

SOON = 60.0


async def settle(session: Session) -> None:
    """Take the wake-ups that joining and claiming caused."""
    while await session.wake(0.25) is not None:  # the server may be slow to tell
        pass


async def woken_for(session: Session, shard: int) -> Wake:
    """Wait until a wake-up mentions the shard (or says "look at everything")."""
    with anyio.fail_after(SOON):
        while True:
            wake = await session.wake(SOON)
            if wake is not None and (wake.shards is None or shard in wake.shards):
                return wake


async def test_s11_nothing_new_wakes_nobody(store: Store, node: Session) -> None:
    await settle(node)
    await store.send([message()])
    with anyio.fail_after(SOON):  # what was said before has come by then, too
        while not ((wake := await node.wake(SOON)) and wake.shards and SHARD in wake.shards):
            pass
    assert await node.wake(0.02) is None


async def test_s11_sending_from_outside_wakes_the_owner(store: Store, node: Session) -> None:
    await settle(node)
    async with anyio.create_task_group() as group:
        group.start_soon(woken_for, node, SHARD)
        await store.send([message()])


async def test_s11_deciding_wakes_the_owner_of_the_approval_actor(store: Store, node: Session) -> None:
    await write(node, unit(decisions=[decision()]))
    await settle(node)
    notice = message("/desk/approvals")
    await store.decide(verdict(), notice)
    await woken_for(node, notice.shard)


async def test_s11_a_node_wakes_the_owner_of_a_recipient_elsewhere(world: World, node: Session) -> None:
    async with world.join("boot-2") as other:
        await settle(node)
        await settle(other)
        await write(other, unit("/crm/ticket:77", sends=[message()]))
        await other.notify([(SHARD, AGENT)])
        await woken_for(node, SHARD)
        assert len(await waiting(node)) == 1


async def test_s11_a_wake_up_before_the_waiting_is_not_lost(store: Store, node: Session) -> None:
    await settle(node)
    await store.send([message()])
    await woken_for(node, SHARD)


async def test_s11_notifying_nobody_is_harmless(node: Session) -> None:
    await node.notify([])
    await node.notify([(256, "/sys/client:gone"), (SHARD, "/desk/nobody:1")])


async def test_s11_a_new_member_and_given_shards_wake_the_others(world: World, node: Session) -> None:
    await settle(node)
    async with world.join("boot-2") as other:
        with anyio.fail_after(SOON):
            while not ((wake := await node.wake(SOON)) and wake.members_changed):
                pass
        await settle(other)
        await node.give([7], other.number)
        with anyio.fail_after(SOON):
            while not ((wake := await other.wake(SOON)) and (wake.members_changed or wake.shards is None)):
                pass
        assert await other.owned() == {7}


async def test_s11_without_any_wake_up_reading_finds_everything(store: Store, node: Session) -> None:
    sent = [message(f"/desk/agent:{n}") for n in range(10)]
    await store.send(sent)
    found, _ = await node.ready([shard_of(e.recipient) for e in sent], per_actor=5, limit=100)
    assert {e.id for e in found} == {e.id for e in sent}
