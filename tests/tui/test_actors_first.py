"""G6 on the screen of actors: whom the line counts is found there, also whose first message did not get through."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from callboard.persistence.memory import MemoryStore
from callboard.tui.panes.mailboxes import MailboxesPane

from .still import desk_life
from .test_actors import Stage, looking

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("at_once")]

OFFICE = "/crm/office"
LOST, LOST_MAIL, TRIED = f"{OFFICE}/clerk:crm-5", f"{OFFICE}/mailer:3", f"{OFFICE}/clerk:eu-1"
WORDS = {LOST: "DEAD", LOST_MAIL: "DEAD", TRIED: "RETRY"}


@pytest.fixture
def life() -> MemoryStore:
    return desk_life()


@asynccontextmanager
async def desk_day(life: MemoryStore) -> AsyncIterator[Stage]:
    async with looking(life) as stage:
        await stage.until(lambda: set(WORDS) <= set(stage.keys) and len(stage.pane.supervision.rows) > 1)
        yield stage


async def told(stage: Stage, *words: str) -> None:
    await stage.until(lambda: all(word in stage.detail for word in words))


async def test_g6_all_that_the_line_counts_is_in_the_list_and_in_the_tree(life: MemoryStore) -> None:
    async with desk_day(life) as stage:
        held = {one.address: one for one in stage.pane.listing.items}
        assert {address: held[address].word for address in WORDS} == WORDS
        await stage.until(lambda: "✗ 2 dead" in stage.text and "↻ 1 retrying" in stage.text)
        assert stage.text.count("✗ DEAD") == 2 and stage.text.count("↻ RETRY") == 1
        assert all(address not in [one.address for one in stage.pane.listing.rest] for address in WORDS)
        await stage.until(lambda: stage.pane.supervision.node(OFFICE) is not None)
        office = stage.pane.supervision.node(OFFICE)
        assert office is not None and (office.words["DEAD"], office.words["RETRY"]) == (2, 1)
        await stage.until(lambda: f"all {len(stage.keys)} · attention first" in stage.title)
        assert "550" in held[LOST_MAIL].doing and "503" in held[TRIED].doing and "attempt 2" in held[TRIED].doing


async def test_g6_by_address_they_are_found_by_their_words(life: MemoryStore) -> None:
    async with desk_day(life) as stage:
        everyone = set(stage.keys)
        await stage.press("s")
        await stage.until(lambda: stage.keys == sorted(everyone - set(WORDS)))
        stage.pane.bar.put("state:dead,retry")
        await stage.until(lambda: stage.keys == sorted(WORDS))


async def test_g6_one_that_is_not_there_yet_is_told_closely(life: MemoryStore) -> None:
    async with desk_day(life) as stage:
        await stage.at(LOST)
        await stage.until(lambda: "not there yet · ✗ DEAD" in stage.text)
        await told(stage, "rejected: Reject: there is no account 77120", "ticket.update  from outside · dead")
        await stage.press("left")
        await told(stage, "ticket.update was given up (rejected)", "callboard dead show", "not yet there")
        await stage.at(TRIED)
        await told(stage, "attempt 2 in", "upstream answered 503", "1 message")
        await stage.press("left", "left")
        await told(stage, "retrying", "ticket.update")


@pytest.mark.parametrize(("address", "said"), [(LOST, "Nothing waits here"), (TRIED, "ticket.update")])
async def test_g6_m_opens_its_mailbox(life: MemoryStore, address: str, said: str) -> None:
    async with desk_day(life) as stage:
        await stage.at(address)
        await stage.press("m")
        await stage.until(lambda: isinstance(stage.app.pane, MailboxesPane))
        await stage.until(lambda: address.rpartition("/")[2] in stage.text and said in stage.text)


@pytest.mark.parametrize(("key", "said"), [("p", "nothing to pause"), ("K", "nothing to kill")])
async def test_g6_what_is_not_there_is_neither_paused_nor_killed(life: MemoryStore, key: str, said: str) -> None:
    async with desk_day(life) as stage:
        for address in WORDS:
            await stage.at(address)
            await stage.press(key)
            await stage.until(lambda address=address: f"{address} is not there yet" in noted(stage))  # type: ignore[misc]
            assert said in noted(stage) and len(stage.app.screen_stack) == 1


def noted(stage: Stage) -> str:
    return " ".join(str(one.message) for one in stage.app._notifications)
