"""S18: what the census says of nodes, and of messages that only a person lets go on."""

import pytest

from callboard.mailbox.lane import Lane
from callboard.persistence.store import Session, Store
from tests.contract.build import AGENT, OTHER, message, next_id, unit, write

pytestmark = pytest.mark.anyio


async def test_s18_the_census_names_the_nodes_with_their_shards(store: Store, node: Session) -> None:
    [found] = (await store.census()).members
    assert (found.number, found.status, found.shards) == (node.number, "up", 256)
    assert 0 <= found.beat_age_seconds < 60


async def test_s18_what_waits_for_one_that_stands_still_is_not_what_waits_to_be_handled(
    store: Store, node: Session
) -> None:
    parked = unit(AGENT)
    assert parked.actor is not None
    parked.actor.status, parked.actor.reason = "parked", "a fix is needed"
    await write(node, parked)
    await store.send([message()])
    counted = await store.census()
    assert (counted.messages, counted.oldest_ready_at) == ({"ready": 1}, 0.0)
    await store.send([message(id=next_id(), lane=int(Lane.SYSTEM))])  # it takes these
    assert (await store.census()).oldest_ready_at > 0.0


async def test_s18_what_waits_for_one_that_is_not_there_yet_waits_to_be_handled(store: Store, node: Session) -> None:
    await store.send([message(OTHER)])
    assert (await store.census()).oldest_ready_at > 0.0
