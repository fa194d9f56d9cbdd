"""What the inspector asks of a store: who serves a shard, what an actor waits for. Looking changes nothing."""

import pytest

from callboard.persistence.store import Session, Store
from tests.contract.build import AGENT, OTHER, SHARD, event, message, timer, unit, write
from tests.contract.world import World

pytestmark = pytest.mark.anyio

WORKER = "/desk/tools"


async def test_g6_the_owner_of_a_shard_is_named_and_nobody_where_there_is_none(world: World, store: Store) -> None:
    assert await store.owner(SHARD) is None
    async with world.join("boot-1", label="here") as session:
        assert await store.owner(SHARD) is None, "it has claimed nothing yet"
        await session.claim()
        owner = await store.owner(SHARD)
        assert owner is not None
        assert (owner.number, owner.label, owner.status, owner.shards) == (session.number, "here", "up", 256)
    assert await store.owner(SHARD) is None, "it has left"


async def test_g6_what_an_actor_has_asked_of_workers_is_listed_until_it_has_an_outcome(
    store: Store, node: Session
) -> None:
    asked = message(WORKER, shard=SHARD, sender=AGENT, reply_to=AGENT)
    held = message(WORKER, shard=SHARD, sender=AGENT, reply_to=AGENT)
    other = message(WORKER, shard=SHARD, sender=OTHER, reply_to=OTHER)
    plain = message(AGENT, sender=AGENT)
    await write(node, unit(AGENT, sends=[asked, other, plain], holds=[held]))
    found = await store.calls(AGENT)
    assert [(view.envelope.id, view.state) for view in found] == [(asked.id, "ready"), (held.id, "held")]
    assert [view.envelope.id for view in await store.calls(AGENT, limit=1)] == [asked.id]
    assert await store.calls("/desk/nobody:1") == []
    assert [view.envelope.id for view in await store.calls(AGENT)] == [asked.id, held.id], "looking changes nothing"


async def test_g6_the_timers_of_an_actor_are_listed_soonest_first(store: Store, node: Session) -> None:
    await write(node, unit(AGENT, timers=[timer("late", 500.0), timer("soon", 50.0)]))
    found = await store.timers(AGENT)
    assert [one.key for one in found] == ["soon", "late"]
    assert 0 < found[0].delay_seconds <= 50.0 < found[1].delay_seconds <= 500.0
    assert [one.key for one in await store.timers(AGENT, limit=1)] == ["soon"]
    assert await store.timers(OTHER) == []


@pytest.mark.parametrize("limit", [0, -1])
async def test_da024_a_limit_below_one_finds_nothing_and_is_no_error(store: Store, node: Session, limit: int) -> None:
    asked = message(WORKER, shard=SHARD, sender=AGENT, reply_to=AGENT)
    more = [message(AGENT, sender=OTHER), message(AGENT, sender=OTHER)]
    await write(node, unit(AGENT, sends=[asked, *more], timers=[timer("a", 5.0), timer("b", 6.0)]))
    await write(node, unit(OTHER, events=[event(n, OTHER) for n in (1, 2, 3)]))
    for found in (
        await store.actors(limit=limit),
        await store.journal(OTHER, limit=limit),
        await store.turns(AGENT, limit=limit),
        await store.peek(AGENT, limit=limit),
        await store.waiting(more[0].type, limit=limit),
        await store.calls(AGENT, limit=limit),
        await store.timers(AGENT, limit=limit),
        await store.dead_letters(limit=limit),
        await store.dead_letters(recipient=AGENT, limit=limit),
        await store.decisions(limit=limit),
        await store.decisions(run=AGENT, limit=limit),
        await store.decisions(status="pending", limit=limit),
    ):
        assert found == []
    assert len(await store.timers(AGENT)) == 2
