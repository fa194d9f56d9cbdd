"""S9: events of an actor are numbered from 1 without gaps, and are never changed."""

import pytest

from callboard.mailbox.errors import BadRow
from callboard.persistence.store import Session, Store
from tests.contract.build import AGENT, OTHER, event, message, turn, unit, work, write
from tests.contract.world import World

pytestmark = pytest.mark.anyio


async def test_s9_events_are_read_in_order_with_time_and_body(store: Store, node: Session) -> None:
    await write(node, unit(events=[event(1, node=node.number), event(2, body='{"a":"é"}')]))
    await write(node, unit(expected=1, events=[event(3)]), unit(OTHER, events=[event(1, OTHER)]))
    found = await store.journal(AGENT)
    assert [(e.seq, e.type, e.body) for e in found] == [
        (1, "noted", '{"n":1}'),
        (2, "noted", '{"a":"é"}'),
        (3, "noted", '{"n":3}'),
    ]
    assert (found[0].node, found[0].address) == (node.number, AGENT)
    now = await store.now()
    assert all(abs(e.at - now) < 60 for e in found)
    assert await node.journal(AGENT) == found


async def test_s9_the_journal_is_read_in_pages(store: Store, node: Session) -> None:
    await write(node, unit(events=[event(n) for n in range(1, 101)]))
    for reader in (store, node):
        assert [e.seq for e in await reader.journal(AGENT, limit=3)] == [1, 2, 3]
        assert [e.seq for e in await reader.journal(AGENT, after=97)] == [98, 99, 100]
        assert [e.seq for e in await reader.journal(AGENT, after=50, limit=2)] == [51, 52]
        assert await reader.journal(AGENT, after=100) == []
        assert await reader.journal("/desk/nobody:1") == []


async def test_s9_a_number_is_given_once_and_its_event_stays(store: Store, node: Session) -> None:
    await write(node, unit(events=[event(1)]))
    with pytest.raises(BadRow):
        await node.commit([unit(expected=1, events=[event(1, type="forged")])])
    assert [(e.seq, e.type) for e in await store.journal(AGENT)] == [(1, "noted")]
    row = await store.actor(AGENT)
    assert row is not None
    assert row.version == 1


@pytest.mark.parametrize("numbers", [[0], [2], [1, 3], [1, 1]], ids=str)
async def test_s9_numbers_that_do_not_follow_are_refused(store: Store, node: Session, numbers: list[int]) -> None:
    with pytest.raises(BadRow):
        await node.commit([unit(OTHER), unit(events=[event(n) for n in numbers])])
    assert await store.journal(AGENT) == []
    assert await store.actor(OTHER) is None
    await write(node, unit(events=[event(1), event(2)]))


async def test_s9_turns_are_kept_oldest_first(world: World, store: Store, node: Session) -> None:
    handled = [message() for _ in range(3)]
    await write(node, work(sends=handled))
    for version, envelope in enumerate(handled):
        row = turn(envelope, version + 1, ("done", "refused", "cancelled")[version])
        row.node, row.epoch, row.deliveries, row.causation = node.number, node.epoch, 2, 17
        await write(node, unit(expected=version, acks=[envelope.id], turns=[row]))
        await world.pass_time(1)
    found = await store.turns(AGENT)
    assert [(t.id, t.version, t.outcome) for t in found] == [
        (handled[0].id, 1, "done"),
        (handled[1].id, 2, "refused"),
        (handled[2].id, 3, "cancelled"),
    ]
    first = found[0]
    assert (first.sender, first.type, first.lane) == ("/desk/sender:1", "note", 2)
    assert (first.node, first.epoch, first.deliveries, first.causation) == (node.number, node.epoch, 2, 17)
    assert 0 < first.at < found[1].at < found[2].at
    assert await store.turns(OTHER) == []
