"""S5: mailboxes are read in (lane, id) order and in windows; nothing accepted stays invisible, nothing held is seen."""

import pytest

from callboard.mailbox.envelope import Envelope
from callboard.mailbox.lane import Lane
from callboard.persistence.store import Session
from tests.contract.build import AGENT, OTHER, SHARD, ids, message, next_id, retry, unit, waiting, work, write
from tests.contract.world import World

pytestmark = pytest.mark.anyio

ALL = range(256)


async def read_all(node: Session, *, per_actor: int, limit: int) -> list[list[Envelope]]:
    pages, cursor = [], ""
    while True:
        page, cursor = await node.ready(ALL, per_actor=per_actor, limit=limit, beyond=cursor)
        pages.append(page)
        assert len(page) <= limit
        if not cursor:
            return pages


async def test_s5_lanes_go_first_then_ids(node: Session) -> None:
    normal, reply, system, normal_2, reply_2 = (
        message(lane=int(lane)) for lane in (Lane.NORMAL, Lane.REPLY, Lane.SYSTEM, Lane.NORMAL, Lane.REPLY)
    )
    await write(node, work(sends=[normal_2, reply_2, normal, system, reply]))
    expected = [system.id, reply.id, reply_2.id, normal.id, normal_2.id]
    assert await waiting(node) == expected
    found, cursor = await node.ready([SHARD], per_actor=10, limit=10)
    assert (ids(found), cursor) == (expected, "")


async def test_s5_a_message_with_a_smaller_id_that_commits_late_is_seen(node: Session) -> None:
    late, early = message(), message()
    await write(node, work(sends=[early]))
    assert await waiting(node) == [early.id]
    await write(node, work(sends=[late]))
    assert await waiting(node) == [late.id, early.id]
    found, _ = await node.ready([SHARD], per_actor=10, limit=10)
    assert ids(found) == [late.id, early.id]


async def test_s5_each_mailbox_shows_at_most_its_window(node: Session) -> None:
    many = [message(AGENT) for _ in range(20)]
    few = [message(OTHER) for _ in range(2)]
    await write(node, work(sends=many + few))
    found, _ = await node.ready(ALL, per_actor=5, limit=100)
    assert [e.id for e in found if e.recipient == AGENT] == ids(many[:5])
    assert [e.id for e in found if e.recipient == OTHER] == ids(few)
    assert await waiting(node, AGENT, limit=3) == ids(many[:3])


async def test_s5_the_window_moves_on_as_messages_are_acknowledged(node: Session) -> None:
    many = [message() for _ in range(20)]
    await write(node, work(sends=many))
    for start in range(0, 20, 5):
        found, _ = await node.ready([SHARD], per_actor=5, limit=100)
        assert ids(found) == ids(many[start : start + 5])
        await write(node, work(acks=ids(found)))
    assert await node.ready([SHARD], per_actor=5, limit=100) == ([], "")


async def test_s5_a_mailbox_that_was_empty_is_read_once(node: Session) -> None:
    for _ in range(3):
        first, other = message(AGENT), message(f"{AGENT}/child:1")
        await write(node, work(sends=[first, other]))
        assert [ids(page) for page in await read_all(node, per_actor=5, limit=1)] == [[first.id], [other.id]]
        await write(node, work(acks=[first.id, other.id]))
        assert await node.ready(ALL, per_actor=5, limit=1) == ([], "")


async def test_s5_pages_go_through_all_recipients_and_cut_no_window(node: Session) -> None:
    sent: dict[str, list[int]] = {}
    envelopes = []
    for n in range(60):
        for _ in range(n % 4 + 1):
            envelopes.append(message(f"/desk/agent:{n}"))
            sent.setdefault(f"/desk/agent:{n}", []).append(envelopes[-1].id)
    await write(node, work(sends=envelopes))
    seen: dict[str, list[int]] = {}
    for page in await read_all(node, per_actor=3, limit=7):
        here: dict[str, list[int]] = {}
        for envelope in page:
            here.setdefault(envelope.recipient, []).append(envelope.id)
        for recipient, found in here.items():
            assert recipient not in seen, "a mailbox is in one page only"
            # Whoever reads concludes from a window that is not full that there is nothing more on disk.
            assert found == sent[recipient][:3]
            seen[recipient] = found
    assert seen.keys() == sent.keys()


async def test_s5_a_limit_below_the_window_still_gets_through(node: Session) -> None:
    await write(node, work(sends=[message(address) for address in (AGENT, OTHER) for _ in range(5)]))
    pages = await read_all(node, per_actor=10, limit=2)
    assert {e.recipient for page in pages for e in page} == {AGENT, OTHER}


async def test_s5_recipients_are_in_order_within_a_shard(node: Session) -> None:
    # One family, so one shard; characters that a locale would sort differently.
    names = [f"/desk/agent:1/{name}" for name in ("zeta", "a-b", "a_b", "ab:Z", "ab:a", "ab")]
    await write(node, work(sends=[message(name) for name in names]))
    found, _ = await node.ready([SHARD], per_actor=1, limit=100)
    assert [e.recipient for e in found] == sorted(names)
    pages = await read_all(node, per_actor=1, limit=1)
    assert [e.recipient for page in pages for e in page] == sorted(names)


async def test_s5_only_the_asked_shards_are_read(node: Session) -> None:
    here, far = message(AGENT), message("/crm/ticket:77")
    assert here.shard != far.shard
    await write(node, work(sends=[here, far]))
    assert ids((await node.ready([here.shard], per_actor=5, limit=5))[0]) == [here.id]
    assert ids((await node.ready([far.shard], per_actor=5, limit=5))[0]) == [far.id]
    assert await node.ready([], per_actor=5, limit=5) == ([], "")


async def test_s5_held_messages_are_not_ready(node: Session) -> None:
    first, held, last = message(), message(), message()
    await write(node, work(sends=[first, last], holds=[held]))
    found, _ = await node.ready([SHARD], per_actor=2, limit=10)
    assert ids(found) == [first.id, last.id]
    await write(node, work(acks=[first.id, last.id]))
    assert await node.ready([SHARD], per_actor=2, limit=10) == ([], "")


async def test_s5_a_message_in_back_off_keeps_its_place_and_shows_its_delay(world: World, node: Session) -> None:
    failing, behind = message(), message()
    await write(node, work(sends=[failing, behind]))
    await write(node, work(retries=[retry(failing, 1_000.0)]))
    found, _ = await node.ready([SHARD], per_actor=10, limit=10)
    assert ids(found) == [failing.id, behind.id]
    assert 900 < found[0].delay_seconds <= 1_000
    assert found[1].delay_seconds == 0
    await world.pass_time(600)
    found, _ = await node.ready([SHARD], per_actor=10, limit=10)
    assert 300 < found[0].delay_seconds <= 400
    await world.pass_time(600)
    found, _ = await node.ready([SHARD], per_actor=10, limit=10)
    assert [(e.id, e.delay_seconds) for e in found] == [(failing.id, 0), (behind.id, 0)]


async def test_s5_a_message_may_be_sent_with_a_delay(node: Session) -> None:
    await write(node, work(sends=[message(delay_seconds=500.0)]))
    (found,) = await node.mailbox(SHARD, AGENT, limit=1)
    assert 400 < found.delay_seconds <= 500


async def test_s5_a_workers_message_is_read_in_the_shard_of_its_sender(node: Session) -> None:
    call = message("/sys/tool", shard=SHARD)
    other = message("/sys/tool", shard=(SHARD + 1) % 256)
    await write(node, work(sends=[call, other]))
    assert ids(await node.mailbox(SHARD, "/sys/tool", limit=10)) == [call.id]
    assert ids((await node.ready([SHARD], per_actor=10, limit=10))[0]) == [call.id]


async def test_s5_the_same_id_in_two_shards_are_two_messages(node: Session) -> None:
    same = next_id()
    one, two = message("/sys/tool", id=same, shard=3), message("/sys/tool", id=same, shard=4)
    await write(node, work(sends=[one, two]))
    await write(node, work(shard=3, acks=[same]))
    assert ids((await node.ready([3, 4], per_actor=10, limit=10))[0]) == [same]
    assert (await node.ready([3], per_actor=10, limit=10))[0] == []


async def test_s5_deliveries_are_as_on_disk(node: Session) -> None:
    await write(node, work(sends=[message(deliveries=1)]))
    for _ in range(2):
        (found,), _ = await node.ready([SHARD], per_actor=10, limit=10)
        assert found.deliveries == 1


async def test_s5_another_node_sees_what_was_committed(world: World, node: Session) -> None:
    sent = message()
    async with world.join("boot-2") as other:
        await write(node, unit(sends=[sent]))
        assert await waiting(other) == [sent.id]
