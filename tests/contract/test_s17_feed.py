"""S17: the feed gives every event of every journal exactly once, however late a commit shows."""

import pytest

from callboard.mailbox.errors import NotFound, UsageError
from callboard.persistence.feed_cursor import FeedPlace, write_place
from callboard.persistence.rows import EventRow
from callboard.persistence.store import Session, Store
from tests.contract.build import AGENT, OTHER, event, unit, write
from tests.contract.world import World

pytestmark = pytest.mark.anyio


def _names(events: list[EventRow]) -> list[tuple[str, int]]:
    return [(one.address, one.seq) for one in events]


async def _all(store: Store, cursor: str | None = "", *, limit: int = 2) -> tuple[list[tuple[str, int]], str]:
    found: list[tuple[str, int]] = []
    after = "" if cursor is None else cursor
    while True:
        page = await store.feed(after, limit=limit)
        if not page.events:
            return found, after
        assert len(page.events) == len(page.cursors) <= limit
        assert page.cursor == page.cursors[-1]
        found += _names(page.events)
        after = page.cursor


async def test_s17_pages_give_every_event_once_and_in_each_actors_order(world: World, node: Session) -> None:
    for turn in range(5):
        for address in (AGENT, OTHER):
            first = 2 * turn + 1
            events = [event(first, address), event(first + 1, address)]
            await write(node, unit(address, expected=turn, events=events))
    found, cursor = await _all(world.store)
    assert len(found) == len(set(found)) == 20
    for address in (AGENT, OTHER):
        assert [seq for name, seq in found if name == address] == list(range(1, 11))
    await write(node, unit(expected=5, events=[event(11)]))
    assert (await _all(world.store, cursor))[0] == [(AGENT, 11)]


async def test_s17_from_any_event_it_goes_on_with_the_next(world: World, node: Session) -> None:
    await write(node, unit(events=[event(1), event(2), event(3)]))
    page = await world.store.feed("")
    assert _names(page.events) == [(AGENT, 1), (AGENT, 2), (AGENT, 3)]
    for place, cursor in enumerate(page.cursors):
        assert _names((await world.store.feed(cursor)).events) == _names(page.events)[place + 1 :]


async def test_s17_from_now_on_there_is_only_what_comes(world: World, node: Session) -> None:
    await write(node, unit(events=[event(1)]))
    page = await world.store.feed(None)
    assert page.events == []
    assert (await world.store.feed(page.cursor)).events == []
    await write(node, unit(expected=1, events=[event(2)]))
    assert _names((await world.store.feed(page.cursor)).events) == [(AGENT, 2)]


async def test_s17_events_far_apart_in_time_are_found(world: World, node: Session) -> None:
    await write(node, unit(events=[event(1)]))
    await world.pass_time(40 * 86_400)
    await write(node, unit(expected=1, events=[event(2)]))
    assert (await _all(world.store, limit=1))[0] == [(AGENT, 1), (AGENT, 2)]


@pytest.mark.parametrize("cursor", ["nonsense", "AAAA", "[0]", "\0", "ä", write_place(FeedPlace(-1))])
async def test_s17_a_cursor_that_is_none_is_refused(world: World, cursor: str) -> None:
    with pytest.raises(UsageError, match="no cursor"):
        await world.store.feed(cursor)


async def test_s17_a_cursor_of_an_event_that_is_not_kept_says_so(world: World, node: Session) -> None:
    await write(node, unit(events=[event(1)]))
    gone = FeedPlace(1_700_000_000_000_000, 7, "/desk/clerk:9", 3)
    with pytest.raises(NotFound, match="not kept"):
        await world.store.feed(write_place(gone))


async def test_s17_no_limit_finds_nothing_and_keeps_the_place(world: World, node: Session) -> None:
    await write(node, unit(events=[event(1)]))
    page = await world.store.feed("", limit=0)
    assert (page.events, page.cursor) == ([], "")
