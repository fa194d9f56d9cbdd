"""S3: an actor's unit commits only if its row has the expected version; creation only if there is no row."""

import anyio
import pytest

from callboard.mailbox.address import shard_of
from callboard.persistence.store import Session, Store
from callboard.persistence.unit import Unit
from tests.contract.build import AGENT, SHARD, actor, message, refused, unit, waiting, write
from tests.contract.world import World

pytestmark = pytest.mark.anyio


async def test_s3_versions_go_up_turn_by_turn(store: Store, node: Session) -> None:
    for version in range(5):
        await write(node, unit(expected=version))
    row = await store.actor(AGENT)
    assert row is not None
    assert row.version == 5


@pytest.mark.parametrize("expected", [0, 1, 3, 99])
async def test_s3_another_version_than_the_one_on_disk_is_refused(store: Store, node: Session, expected: int) -> None:
    await write(node, unit(), unit("/desk/agent:2"))
    await write(node, unit(expected=1))
    assert await refused(node, unit(expected=expected, sends=[message()])) == {0}
    row = await store.actor(AGENT)
    assert row is not None
    assert row.version == 2
    assert await waiting(node) == []


async def test_s3_a_row_that_is_not_there_has_no_version_to_go_on_from(store: Store, node: Session) -> None:
    assert await refused(node, unit(expected=1)) == {0}
    assert await store.actor(AGENT) is None


async def test_s3_a_batch_may_raise_a_version_by_several_turns(store: Store, node: Session) -> None:
    await write(node, Unit(shard=SHARD, actor=actor(version=7), expected=0))
    await write(node, Unit(shard=SHARD, actor=actor(version=12), expected=7))
    assert await refused(node, Unit(shard=SHARD, actor=actor(version=13), expected=11)) == {0}


async def test_s3_of_two_turns_on_the_same_version_one_commits(world: World, store: Store, node: Session) -> None:
    async with world.join("boot-2") as rival:
        refusals: list[int] = []

        async def attempt(session: Session, address: str) -> None:
            result = await session.commit([unit(address, sends=[message(address)])])
            refusals.extend(result.rejected)

        for n in range(10):
            async with anyio.create_task_group() as group:
                for session in (node, rival):
                    group.start_soon(attempt, session, f"/desk/agent:{n}")
        assert len(refusals) == 10
        for n in range(10):
            assert len(await waiting(node, f"/desk/agent:{n}")) == 1


async def test_s3_every_field_of_the_row_is_replaced(store: Store, node: Session) -> None:
    await write(node, unit())
    row = actor(
        version=2,
        incarnation=3,
        status="parked",
        reason="the model is gone",
        state=b"\x00\xff state",
        state_version=4,
        last_id=1 << 60,
        sent=5,
        events=6,
        summary='{"goal":"refund"}',
    )
    await write(node, Unit(shard=SHARD, actor=row, expected=1))
    assert await store.actor(AGENT) == row
    assert await node.load([(SHARD, AGENT)]) == [row]


async def test_s3_loading_leaves_out_what_does_not_exist(node: Session) -> None:
    await write(node, unit(), unit("/desk/agent:2"))
    wanted = [(shard_of(a), a) for a in ("/desk/agent:2", "/desk/nobody:1", AGENT)]
    assert {row.address for row in await node.load(wanted)} == {AGENT, "/desk/agent:2"}
    assert await node.load([]) == []
