"""S4: what an actor puts aside is of its own mailbox, waits for nobody's decision, and comes back in its old place."""

import pytest

from callboard.mailbox.envelope import Envelope
from callboard.persistence.store import Session, Store
from callboard.persistence.unit import Unit
from tests.contract.build import (
    AGENT,
    SHARD,
    actor,
    call,
    dead,
    message,
    refused,
    retry,
    turn,
    unit,
    verdict,
    waiting,
    work,
    write,
)
from tests.contract.world import World

pytestmark = pytest.mark.anyio

CHILD = "/desk/agent:1/child:1"
"""Of the same shard as the agent."""


async def states(store: Store, address: str = AGENT) -> dict[int, str]:
    return {view.envelope.id: view.state for view in await store.peek(address)}


async def put(node: Session, count: int = 3, to: str = AGENT) -> list[Envelope]:
    sent = [message(to) for _ in range(count)]
    await write(node, work(sends=sent))
    return sent


async def test_s4_what_was_stashed_does_not_wait_and_shows_as_stashed(store: Store, node: Session) -> None:
    first, second, third = await put(node)
    await write(node, unit(stashes=[first.id, third.id]))
    assert await waiting(node) == [second.id]
    page, _ = await node.ready([SHARD], per_actor=10, limit=10)
    assert [envelope.id for envelope in page] == [second.id]
    assert await states(store) == {first.id: "stashed", second.id: "ready", third.id: "stashed"}


async def test_s4_unstashing_brings_all_back_in_its_old_place(store: Store, node: Session) -> None:
    first, second, third = await put(node)
    await write(node, unit(stashes=[first.id, third.id]))
    later = message()
    await write(node, unit(expected=1, unstash=True, acks=[second.id], sends=[later]))
    assert await waiting(node) == [first.id, third.id, later.id]
    assert set((await states(store)).values()) == {"ready"}


async def test_s4_unstashing_comes_before_the_units_own_stashing(store: Store, node: Session) -> None:
    first, second, _ = await put(node)
    await write(node, unit(stashes=[first.id]))
    await write(node, unit(expected=1, unstash=True, stashes=[second.id]))
    assert (await states(store))[first.id] == "ready"
    assert (await states(store))[second.id] == "stashed"


async def test_s4_unstashing_nothing_is_harmless(node: Session) -> None:
    (only,) = await put(node, 1)
    await write(node, unit(unstash=True))
    assert await waiting(node) == [only.id]


async def test_s4_unstashing_touches_neither_gated_calls_nor_other_actors(store: Store, node: Session) -> None:
    (mine,), (childs,) = await put(node, 1), await put(node, 1, CHILD)
    gated = call()
    await write(node, unit(stashes=[mine.id], holds=[gated]), unit(CHILD, stashes=[childs.id]))
    await write(node, unit(expected=1, unstash=True))
    assert await states(store) == {mine.id: "ready"}
    assert await states(store, CHILD) == {childs.id: "stashed"}
    assert await states(store, gated.recipient) == {gated.id: "held"}


async def test_s4_stashing_a_missing_message_fails_the_unit(store: Store, node: Session) -> None:
    (there,) = await put(node, 1)
    assert await refused(node, unit(stashes=[there.id, 404]), work(sends=[message()])) == {0}
    assert await store.actor(AGENT) is None
    assert (await states(store))[there.id] == "ready"


async def test_s4_a_message_is_stashed_once(node: Session) -> None:
    (only,) = await put(node, 1)
    await write(node, unit(stashes=[only.id]))
    assert await refused(node, unit(expected=1, stashes=[only.id])) == {0}
    assert await refused(node, unit(expected=1, unstash=True, stashes=[only.id])) == {0}, "it was held before the unit"


async def test_s4_only_its_own_mailbox_can_be_stashed(node: Session) -> None:
    (childs,) = await put(node, 1, CHILD)
    assert await refused(node, unit(stashes=[childs.id]), work(stashes=[childs.id])) == {0, 1}
    assert await waiting(node, CHILD) == [childs.id]


async def test_s4_a_stashed_message_is_neither_acknowledged_nor_retried(node: Session) -> None:
    (only,) = await put(node, 1)
    await write(node, unit(stashes=[only.id]))
    batch = [unit(expected=1, acks=[only.id]), work(retries=[retry(only)])]
    assert await refused(node, *batch) == {0, 1}


@pytest.mark.parametrize("kind", ["acks", "retries"])
async def test_s4_a_message_is_not_stashed_and_handled_in_one_batch(node: Session, kind: str) -> None:
    (only,) = await put(node, 1)
    beside = work(acks=[only.id]) if kind == "acks" else work(retries=[retry(only)])
    assert len(await refused(node, unit(stashes=[only.id]), beside)) == 1


async def test_s4_an_ended_actor_drops_what_it_had_stashed(store: Store, node: Session) -> None:
    first, second, _ = await put(node)
    await write(node, unit(stashes=[first.id, second.id]))
    await write(node, unit(expected=1, drops=[first.id], unstash=True, dead=[dead(first, "recipient-ended")]))
    assert first.id not in await states(store)
    assert (await states(store))[second.id] == "ready"
    assert [(row.id, row.outcome) for row in await store.turns(AGENT)] == [(first.id, "cancelled")]


async def test_s4_a_stash_has_its_turn_row_and_the_handling_another(store: Store, node: Session) -> None:
    (only,) = await put(node, 1)
    await write(node, unit(stashes=[only.id], turns=[turn(only, 1, "stashed")]))
    await write(node, unit(expected=1, unstash=True))
    await write(node, unit(expected=2, stashes=[only.id], turns=[turn(only, 3, "stashed")]))
    await write(node, unit(expected=3, unstash=True))
    await write(node, unit(expected=4, acks=[only.id], turns=[turn(only, 5)]))
    rows = [(row.version, row.outcome) for row in await store.turns(AGENT) if row.id == only.id]
    assert rows == [(1, "stashed"), (3, "stashed"), (5, "done")]


async def test_s4_a_late_reply_has_a_turn_row_that_says_so(store: Store, node: Session) -> None:
    (reply,) = await put(node, 1)
    await write(node, unit(acks=[reply.id], turns=[turn(reply, 1, "late")]))
    assert [row.outcome for row in await store.turns(AGENT)] == ["late"]


async def test_s4_a_stash_outlives_its_node(world: World, store: Store, node: Session) -> None:
    (only,) = await put(node, 1)
    await write(node, unit(stashes=[only.id]))
    await node.leave()
    async with world.join("boot-2") as heir:
        await heir.claim()
        assert await waiting(heir) == []
        await write(heir, unit(expected=1, unstash=True))
        assert await waiting(heir) == [only.id]


async def test_s4_a_stash_in_back_off_keeps_its_due_time(store: Store, node: Session) -> None:
    (only,) = await put(node, 1)
    await write(node, work(retries=[retry(only, 60.0)]))
    await write(node, unit(stashes=[only.id]))
    await write(node, unit(expected=1, unstash=True))
    assert await states(store) == {only.id: "retrying"}


async def test_s4_a_decision_does_not_touch_a_stash(store: Store, node: Session) -> None:
    (only,) = await put(node, 1)
    await write(node, Unit(shard=SHARD, actor=actor(), stashes=[only.id]))
    with pytest.raises(Exception, match="no decision"):
        await store.decide(verdict("d9"), message("/desk/approvals"))
    assert await states(store) == {only.id: "stashed"}
