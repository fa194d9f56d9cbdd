"""The list of actors as it is held: pages without a gap and without doubles, whatever comes and goes between them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from callboard.persistence.store import Session, Store
from callboard.service.operations.filters import Filter, parse
from callboard.service.operations.principal import Principal
from callboard.service.operations.runs import Operations
from callboard.service.operations.watching import Watching
from callboard.tui.panes.actors import listing as module
from callboard.tui.panes.actors.listing import Listing, Wish
from callboard.tui.panes.actors.rows import FIELDS
from tests.contract.test_s20_windows import made, turned
from tests.contract.world import MemoryWorld

pytestmark = pytest.mark.anyio
POOL = "/desk/agent"


def agent(number: int) -> str:
    return f"{POOL}:{number:04d}"


@asynccontextmanager
async def desk_of(count: int) -> AsyncIterator[tuple[Store, Session]]:
    """A store with so many agents that have nothing to do, and no node at work."""
    world = MemoryWorld()
    async with world.join("boot-1", label="first") as node:
        await node.claim()
        await made(node, "/desk", kind="supervisor")
        for start in range(0, count, 1_000):
            await made(node, *(agent(number) for number in range(start, min(start + 1_000, count))))
        yield world.store, node


def held(store: Store, wish: Wish | None = None) -> Listing:
    return Listing(Watching(Operations(store, Principal("mara"))), wish or Wish())


def wish(text: str = "", **more: object) -> Wish:
    return Wish(filter=parse(text, FIELDS) if text else Filter(fields=FIELDS), **more)  # type: ignore[arg-type]


def keys(listing: Listing) -> list[str]:
    return [one.address for one in listing.items]


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PAGE", 10)
    monkeypatch.setattr(module, "ENOUGH", 5)


def begins(listing: Listing) -> bool:
    """Whether it holds the beginning of the list."""
    return listing.start


def ends(listing: Listing) -> bool:
    """Whether it holds the end of the list."""
    return listing.end


async def all_below(listing: Listing) -> None:
    while not ends(listing):
        before = len(listing.items)
        await listing.more(0.0, below=True)
        assert ends(listing) or len(listing.items) > before


async def test_pages_below_make_the_whole_list_without_gap_or_double() -> None:
    async with desk_of(57) as (store, node):
        await turned(node, agent(30), 1, status="failed", reason="a bug")
        listing = held(store)
        await listing.first(0.0)
        assert begins(listing) and not ends(listing) and keys(listing)[0] == agent(30)
        await all_below(listing)
        rest = ["/desk", *(agent(number) for number in range(57) if number != 30)]
        assert keys(listing) == [agent(30), *rest] and listing.whole


async def test_from_the_far_end_pages_above_make_the_same_list() -> None:
    async with desk_of(57) as (store, node):
        await turned(node, agent(30), 1, status="parked", reason="look")
        listing, whole = held(store), held(store)
        await whole.first(0.0)
        await all_below(whole)
        await listing.first(0.0)
        await listing.last(0.0)
        assert ends(listing) and not begins(listing) and keys(listing)[-1] == agent(56)
        while not begins(listing):
            await listing.more(0.0, below=False)
        assert keys(listing) == keys(whole)


async def test_more_than_is_held_goes_at_the_other_end_and_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CAP", 25)
    async with desk_of(80) as (store, _):
        listing = held(store)
        await listing.first(0.0)
        seen = keys(listing)
        while not ends(listing):
            await listing.more(0.0, below=True)
            assert len(listing.items) <= 25
            fresh = [key for key in keys(listing) if key > seen[-1]]
            assert keys(listing)[-len(fresh) - 1] == seen[-1], "no gap"
            seen += fresh
        assert seen == ["/desk", *map(agent, range(80))] and not begins(listing)
        while not begins(listing):
            await listing.more(0.0, below=False)
        assert keys(listing)[0] == "/desk" and not ends(listing)


async def test_reading_the_beginning_again_keeps_what_is_held_beyond_it() -> None:
    async with desk_of(40) as (store, node):
        listing = held(store)
        await listing.first(0.0)
        await listing.more(0.0, below=True)
        before = keys(listing)
        await turned(node, agent(12), 1, status="failed", reason="a bug")
        await made(node, f"{POOL}:0003b")
        await listing.first(0.0)
        assert keys(listing) == [agent(12), *sorted([*(key for key in before if key != agent(12)), f"{POOL}:0003b"])]
        await turned(node, agent(12), 2)
        await listing.first(0.0)
        assert keys(listing) == sorted([*before, f"{POOL}:0003b"]), "it is back in its place"


async def test_backwards_is_the_same_list_from_its_end() -> None:
    async with desk_of(35) as (store, _):
        listing = held(store, wish(by_address=True, turned=True))
        await listing.first(0.0)
        assert keys(listing)[0] == agent(34)
        await all_below(listing)
        assert keys(listing) == ["/desk", *map(agent, range(35))][::-1]


async def test_a_search_goes_on_where_it_stopped_and_looks_at_no_more_than_so_much_each_time() -> None:
    async with desk_of(400) as (store, _):
        listing = held(store, wish("address:*39*"))
        await listing.first(0.0)
        looks = 0
        while not listing.whole:
            looks += 1
            before = listing._high
            await listing.enough(0.0) if len(listing.items) < module.ENOUGH else await listing.more(0.0, below=True)
            assert before < listing._high <= agent(min(399, int(before[-4:] or 0) + module.WINDOWS * 10 + 10))
            await listing.first(0.0)
            assert listing._high > before, "looking at the beginning again does not begin the search again"
        assert looks > 3
        assert keys(listing) == [agent(39), *(agent(number) for number in range(139, 400) if "39" in f"{number:04d}")]


async def test_what_cannot_be_is_not_looked_for() -> None:
    async with desk_of(3) as (store, _):
        listing = held(store, wish("address:/other/*", place="/desk", prefix="/desk"))
        await listing.first(0.0)
        assert listing.whole and not listing.items


async def test_those_that_are_gone_leave_the_list() -> None:
    async with desk_of(5) as (store, _):
        listing = held(store)
        await listing.first(0.0)
        shown = keys(listing)
        fresh = await listing.watching.glances(shown[2:])
        listing.update(fresh, shown)
        assert keys(listing) == shown[2:]


async def test_the_rows_around_an_actor_far_down_are_held_at_once() -> None:
    async with desk_of(300) as (store, _):
        listing = held(store)
        await listing.around(agent(200), 0.0)
        assert agent(200) in keys(listing) and not begins(listing) and not ends(listing)
        assert keys(listing) == [agent(number) for number in range(195, 195 + len(listing.items))]
        await listing.more(0.0, below=False)
        assert keys(listing)[0] < agent(195)
