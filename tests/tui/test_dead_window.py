"""Windows of dead letters: whichever way they are walked, each letter comes once, and a window costs what it shows."""

from collections.abc import AsyncIterator

import pytest

from callboard.persistence.memory import MemoryStore
from callboard.persistence.postgres import PostgresStore, create_schema
from callboard.service.operations.dead import DeadLetters
from callboard.service.operations.dead_window import FIELDS, PAGE, DeadWindow, DeadWindows
from callboard.service.operations.filters import Filter, parse
from callboard.service.operations.mailboxes import Mailboxes
from callboard.service.operations.message_filter import MESSAGE_FIELDS, messages_that_fit
from callboard.service.operations.runs import Operations
from callboard.service.operations.settling import Settling

from .trouble import CLERK, Trouble, trouble

pytestmark = pytest.mark.anyio
COUNT = 700


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def stage() -> AsyncIterator[tuple[Trouble, list[int]]]:
    """Seven hundred dead letters; a stretch of them, longer than a page, is settled."""
    async with MemoryStore() as store, trouble(store) as it:
        await it.send("many", *(f"reject number {number}" for number in range(COUNT)))
        await it.letters(COUNT)
        dead = DeadLetters(Operations(store, "mara"))
        for number in range(60, 60 + PAGE + 20):
            await dead.discard(number)
        yield it, [number for number in range(1, COUNT + 1) if not 60 <= number < 60 + PAGE + 20]


def windows(it: Trouble) -> DeadWindows:
    return DeadWindows(Operations(it.store, "mara"))


def numbers(window: DeadWindow) -> list[int]:
    return [one.number for one in window.items]


@pytest.mark.parametrize("newest", [True, False])
@pytest.mark.parametrize("limit", [7, 60, 400])
async def test_walked_from_the_start_each_comes_once_in_order(
    stage: tuple[Trouble, list[int]], newest: bool, limit: int
) -> None:
    it, open_ones = stage
    found: list[int] = []
    page = await windows(it).window(newest=newest, limit=limit)
    assert page.start
    while True:
        assert len(page.items) <= limit
        found += numbers(page)
        if page.end:
            break
        page = await windows(it).window(after=found[-1], newest=newest, limit=limit)
        assert not page.start
    assert found == (open_ones[::-1] if newest else open_ones)


@pytest.mark.parametrize("newest", [True, False])
@pytest.mark.parametrize("limit", [7, 60, 400])
async def test_walked_back_from_the_end_each_comes_once_in_order(
    stage: tuple[Trouble, list[int]], newest: bool, limit: int
) -> None:
    it, open_ones = stage
    page = await windows(it).window(last=True, newest=newest, limit=limit)
    assert page.end
    found = numbers(page)
    while not page.start:
        page = await windows(it).window(before=found[0], newest=newest, limit=limit)
        found = numbers(page) + found
    assert found == (open_ones[::-1] if newest else open_ones)


async def test_a_filter_judges_and_a_word_for_state_shows_the_settled(stage: tuple[Trouble, list[int]]) -> None:
    it, _ = stage
    wish = parse("state:discarded error:7 by:mara", FIELDS)
    page = await windows(it).window(wish, limit=500)
    assert page.items and all(one.settled == "discarded" and "7" in one.detail for one in page.items)
    assert numbers(await windows(it).window(parse("error:nowhere", FIELDS))) == []
    both, whole = await windows(it).matching(parse("state:open,discarded", FIELDS))
    assert (len(both), whole) == (COUNT, True)
    few = await windows(it).window(parse("dead>9d", FIELDS))
    assert (few.items, few.start, few.end) == ([], True, True)


async def test_a_window_reads_no_more_than_it_shows(
    stage: tuple[Trouble, list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    it, _ = stage
    asked: list[int] = []
    plain = it.store.dead_letters

    async def counted(**wanted: object) -> object:
        found = await plain(**wanted)  # type: ignore[arg-type]
        asked.append(len(found))
        return found

    monkeypatch.setattr(it.store, "dead_letters", counted)
    await windows(it).window(Filter(), limit=20)
    assert sum(asked) <= 50
    asked.clear()
    await windows(it).window(Filter(), last=True, limit=20)
    assert len(asked) <= 30 and sum(asked) <= PAGE + 30


async def test_on_postgresql_the_windows_are_the_same_and_so_is_what_settling_would_do(dsn: str) -> None:
    await create_schema(dsn)
    async with PostgresStore(dsn) as store, trouble(store) as it:
        await it.send("many", *(f"reject number {number}" for number in range(30)))
        await it.letters(30)
        await it.paused("busy", waiting=2)
        await it.rejected("other")
        newest = (await it.letters(31))[0].number
        there = DeadWindows(Operations(store, "mara"))
        everything = numbers(await there.window(limit=100))
        assert everything == sorted(everything, reverse=True) and len(everything) == 31
        page = await there.window(last=True, limit=10)
        assert numbers(page) == everything[-10:]
        assert numbers(await there.window(before=page.items[0].number, limit=10)) == everything[-20:-10]
        assert numbers(await there.window(newest=False, limit=5)) == everything[:-6:-1]
        assert len(numbers(await there.window(parse(f"to={CLERK}:many", FIELDS), limit=100))) == 30
        [prospect] = await Settling(Operations(store, "mara")).prospects([newest], requeue=True)
        assert (prospect.effects, prospect.refusal, prospect.waiting) == ("none", "", 0)
        found, whole = await messages_that_fit(
            Mailboxes(Operations(store, "mara")), f"{CLERK}:busy", parse("body:A-1 state:ready", MESSAGE_FIELDS)
        )
        assert (len(found), whole) == (1, True)
