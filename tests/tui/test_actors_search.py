"""Filters on RUNNING, WAITING, IDLE, which no index knows: it is said how far it looked, and it goes on by itself."""

from collections.abc import Callable, Sequence

import pytest

from callboard.persistence.store import Session
from callboard.service.operations import watching
from callboard.tui.panes.actors import listing as module
from callboard.tui.panes.actors import pane as pane_module
from callboard.tui.panes.actors import said as said_module
from callboard.tui.panes.actors.listing import Listing
from callboard.tui.panes.actors.said import nothing
from tests.contract.test_s20_windows import turned

from .conftest import until_shown
from .test_actors import looking
from .test_actors_listing import agent, desk_of, held, keys, wish

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A window looks at 100 actors, and a look of the screen at as many again."""
    for of, name, amount in (
        (watching, "PAGE", 50), (watching, "LOOKED_AT", 100), (module, "PAGE", 10), (module, "ENOUGH", 5),
        (module, "WINDOWS", 1), (module, "LOOKED_AT", 100), (pane_module, "GLANCE_SECONDS", 0.1),
    ):  # fmt: skip
        monkeypatch.setattr(of, name, amount)


async def busy(node: Session, numbers: Sequence[int]) -> None:
    """These say that they ask a model: they are RUNNING, whether a node is heard of or not."""
    for number in numbers:
        await turned(node, agent(number), 1, summary='{"asks_model":true}')


def whole(listing: Listing) -> bool:
    """Whether it holds all that there is."""
    return listing.whole


def searching(listing: Listing) -> bool:
    """Whether it goes on."""
    return listing.searching


async def test_a_search_that_found_nothing_more_goes_on_until_the_end_is_reached() -> None:
    async with desk_of(900) as (store, node):
        await busy(node, [*range(10), 850])
        listing = held(store, wish("state:running"))
        await listing.first(0.0)
        assert keys(listing) == [agent(number) for number in range(10)] and not whole(listing)
        assert not searching(listing), "a screen full is enough, until somebody asks for more"
        await listing.more(0.0, below=True)
        assert searching(listing) and listing.looked < 900 and len(listing.items) == 10
        looks = 0
        while searching(listing):
            before, looks = listing.looked, looks + 1
            assert await listing.enough(0.0) and listing.looked > before
            await listing.first(0.0)
        assert looks > 3 and keys(listing)[-1] == agent(850)
        while not whole(listing):
            await listing.more(0.0, below=True)
        assert listing.looked >= 900 and len(listing.items) == 11


async def test_a_search_backwards_goes_on_as_well() -> None:
    async with desk_of(600) as (store, node):
        await busy(node, [5])
        listing = held(store, wish("state:running", by_address=True, turned=True))
        await listing.first(0.0)
        assert not listing.items and searching(listing)
        while await listing.search(0.0):
            pass
        assert keys(listing) == [agent(5)] and listing.whole


async def test_what_fits_no_more_leaves_and_what_has_come_to_fit_is_found_though_nobody_looks_there() -> None:
    async with desk_of(500) as (store, node):
        await busy(node, [3, 480])
        listing = held(store, wish("state:idle"))
        await listing.first(0.0)
        while not whole(listing):
            await listing.more(0.0, below=True)
        assert len(listing.items) == 499 and agent(480) not in keys(listing)
        await busy(node, [7])
        shown = [agent(6), agent(7)]
        assert listing.update(await listing.watching.glances(shown), shown)
        assert agent(6) in keys(listing) and agent(7) not in keys(listing), "it is IDLE no more"
        await busy(node, [450])
        running = held(store, wish("state:running"))
        await running.first(0.0)
        while not running.whole:
            await running.more(0.0, below=True)
        await busy(node, [400])
        for _ in range(20):
            await running.first(0.0)
            await running.again(0.0)
        assert keys(running) == [agent(number) for number in (3, 7, 400, 450, 480)]


@pytest.mark.parametrize("size", [(120, 36), (80, 24)])
async def test_the_footer_says_how_far_it_looked_and_the_last_is_found_by_itself(
    size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    position: Callable[..., object] = said_module.position

    def noted(*of: object) -> object:
        told = position(*of)
        said.append("".join(part.text for part in told))  # type: ignore[attr-defined]
        return told

    monkeypatch.setattr(pane_module, "position", noted)
    async with desk_of(2_000) as (store, node):
        await busy(node, [1_990])
        async with looking(store, size) as stage:
            stage.pane.bar.put("state:running")
            await stage.until(lambda: stage.keys == [agent(1_990)])
            await until_shown(stage.pilot, "1 of 2,001", "● RUNNING")
            assert any("looking, " in one and " of 2,001 so far" in one for one in said)


async def test_nothing_found_yet_is_not_told_as_nothing_there() -> None:
    async with desk_of(300) as (store, _):
        listing = held(store, wish("state:running"))
        await listing.first(0.0)
        told = "".join(part.text for part in nothing(listing, 301)[0])
        assert told == "0 of 100 actors looked at so far match state:running"
        while not whole(listing):
            await listing.enough(0.0)
        assert "".join(part.text for part in nothing(listing, 301)[0]) == "0 of 301 actors match state:running"
