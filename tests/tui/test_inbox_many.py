"""d9: five thousand requests that wait are all in the inbox: counted, sorted, filtered, gone through, on both stores.

What is asserted of cost is how many rows are made and read, never how long it takes.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from textual.content import Content
from textual.pilot import Pilot

from callboard.persistence.rows import Decision
from callboard.persistence.store import Session
from callboard.service.operations.inbox import READ_AT_ONCE, Inbox
from callboard.service.operations.principal import Principal
from callboard.service.operations.runs import Operations
from callboard.tui.app import CallboardApp
from callboard.tui.panes.approvals import ApprovalsPane
from callboard.tui.panes.approvals import pane as module
from tests.contract.build import decision, message, unit, verdict, write
from tests.contract.conftest import contract_dsn, world
from tests.contract.world import MemoryWorld, World

from .conftest import gateway_on, until, until_shown

__all__ = ["contract_dsn", "world"]  # fixtures: the test runs once on each store
pytestmark = pytest.mark.anyio
MANY = 5_000
BATCH = 1_000


def name(number: int) -> str:
    return f"apr_{number:05d}"


def request(number: int) -> Decision:
    """The one of which the number is the amount; each hundredth is risky."""
    return decision(
        name(number),
        message().id,
        run=f"/desk/agent:{number:05d}",
        arguments=f'{{"amount":"{number}.00","currency":"EUR"}}',
        risk="high" if number % 100 == 0 else "low",
        needed=2 if number == 50 else 1,
    )


async def asked(node: Session, numbers: range, *, version: int = 0) -> None:
    """So many requests, written by a few turns of one actor: quickly made."""
    for turn, start in enumerate(range(numbers.start, numbers.stop, BATCH), start=version):
        rows = [request(number) for number in range(start, min(start + BATCH, numbers.stop))]
        await write(node, unit(expected=turn, decisions=rows))


class Inside:
    """Somebody in front of the inbox."""

    def __init__(self, app: CallboardApp, pilot: Pilot[None], pane: ApprovalsPane) -> None:
        self.app, self.pilot, self.pane = app, pilot, pane

    @property
    def title(self) -> str:
        return Content.from_markup(str(self.app.query_one("#inbox").border_title)).plain

    @property
    def foot(self) -> str:
        return Content.from_markup(str(self.app.query_one("#inbox").border_subtitle)).plain

    @property
    def cursor(self) -> str:
        return self.pane.table.cursor_key


@asynccontextmanager
async def inside(world: World, size: tuple[int, int] = (120, 36)) -> AsyncIterator[Inside]:
    app = CallboardApp(gateway_on(world.store))
    async with app.run_test(size=size) as pilot:
        await pilot.press("2")
        await until(pilot, lambda: isinstance(app.pane, ApprovalsPane))
        pane = app.pane
        assert isinstance(pane, ApprovalsPane)
        await until(pilot, lambda: pane.inbox.whole)
        yield Inside(app, pilot, pane)


async def test_s2_d9_five_thousand_requests_are_counted_sorted_and_gone_through_to_the_last(world: World) -> None:
    async with world.join() as node:
        await node.claim()
        await asked(node, range(MANY))
        async with inside(world) as it:
            pane, table = it.pane, it.pane.table
            await until(it.pilot, lambda: len(pane.views) == MANY)
            await until(it.pilot, lambda: "Waiting for a decision · 5,000" in it.title and "+" not in it.title)
            await until_shown(it.pilot, "≥ €124,750.00")  # the line above sums up the 500 oldest, and says so
            await until_shown(it.pilot, "5,000 waiting", "50 high risk", " of 5,000 · oldest first")
            assert len(table.rows) <= 2 * module.HALF, "rows are made of a stretch, not of what there is"
            await it.pilot.press("G")
            await until(it.pilot, lambda: it.cursor == name(MANY - 1))
            await until_shown(it.pilot, "–5,000 of 5,000")
            await it.pilot.press("k", "k")
            await until(it.pilot, lambda: it.cursor == name(MANY - 3))

            await it.pilot.press("s", "s")  # by amount: the one under the cursor is the third now, and stays under it
            await until(it.pilot, lambda: pane.sort == "amount" and next(iter(pane.views)) == name(MANY - 1))
            assert it.cursor == name(MANY - 3) and len(table.rows) <= 2 * module.HALF
            await it.pilot.press("S")
            await until(it.pilot, lambda: next(iter(pane.views)) == name(0))
            assert it.cursor == name(MANY - 3)
            await it.pilot.press("g")
            await until(it.pilot, lambda: it.cursor == name(0) and table.shown[0] == name(0))
            await until_shown(it.pilot, "1–", "of 5,000 · smallest first")

            pane.bar.put("risk:high amount>4000")
            found = [name(number) for number in range(4_100, MANY, 100)]
            await until(it.pilot, lambda: list(pane.views) == found and "9 of 5,000" in it.title)
            await it.pilot.press("asterisk")
            await until_shown(it.pilot, "9 marked · €40,500.00")


async def test_s2_every_request_is_met_once_when_a_key_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HALF", 60)
    world = MemoryWorld()
    async with world.join() as node:
        await node.claim()
        await asked(node, range(300))
        async with inside(world) as it:
            table = it.pane.table
            await until(it.pilot, lambda: len(it.pane.views) == 300)
            seen: list[str] = []
            while not seen or seen[-1] != name(299):
                seen += [key for key in table.shown if not seen or key > seen[-1]]
                await it.pilot.press("ctrl+d")
            assert seen == [name(number) for number in range(300)]


async def test_r4_decided_far_away_it_is_not_counted_and_the_cursor_stays(world: World) -> None:
    async with world.join() as node:
        await node.claim()
        await asked(node, range(MANY))
        async with inside(world) as it:
            await until(it.pilot, lambda: len(it.pane.views) == MANY)
            await it.pane.go_to(name(2_500))
            await until(it.pilot, lambda: it.cursor == name(2_500))
            for number in (3, 4_300):
                await world.store.decide(verdict(name(number), status="denied"), message("/desk/approvals"))
            it.app.action_look_now()
            await until(it.pilot, lambda: it.pane.inbox.total == MANY - 2 and "4,998" in it.title)
            assert it.cursor == name(2_500)
            await world.store.decide(verdict(name(2_500), status="denied"), message("/desk/approvals"))
            it.app.action_look_now()
            await until(it.pilot, lambda: it.cursor == name(2_501))  # the one after it
            await asked(node, range(MANY, MANY + 3), version=5)
            it.app.action_look_now()
            await until(it.pilot, lambda: it.pane.inbox.total == MANY and list(it.pane.views)[-1] == name(5_002))
            assert it.cursor == name(2_501)


def is_whole(inbox: Inbox) -> bool:
    """Whether all that waits was read."""
    return inbox.whole


async def test_a_look_reads_what_is_new_and_what_somebody_signed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async with world.join() as node:
        await node.claim()
        await asked(node, range(2_600))
        inbox = Inbox(Operations(world.store, Principal("mara")))
        assert await inbox.look([name(2_599)])
        assert inbox.total == 2_600 and len(inbox.views) == READ_AT_ONCE + 1 and not is_whole(inbox)
        assert inbox.views[-1].id == name(2_599), "what is in sight is read at once"
        await inbox.everything()
        assert is_whole(inbox) and [one.id for one in inbox.views] == [name(number) for number in range(2_600)]
        read: list[str] = []
        of = world.store.decisions_of

        async def counted(ids: list[str]) -> list[Decision]:
            read.extend(ids)
            return await of(ids)

        monkeypatch.setattr(world.store, "decisions_of", counted)
        assert not await inbox.look() and not read, "nothing has changed, nothing is read"
        await world.store.decide(verdict(name(50), by="ann"), message("/desk/approvals"))
        assert await inbox.look() and read == [name(50)]
        assert next(one for one in inbox.views if one.id == name(50)).approved_by


async def test_what_is_not_read_yet_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    from callboard.service.operations import inbox

    monkeypatch.setattr(inbox, "READ_AT_ONCE", 100)
    monkeypatch.setattr(inbox, "PAGE", 100)
    world = MemoryWorld()
    async with world.join() as node:
        await node.claim()
        await asked(node, range(450))
        app = CallboardApp(gateway_on(world.store))
        async with app.run_test(size=(120, 36)) as pilot:
            said: list[str] = []
            show = ApprovalsPane.show_list

            def shown(self: ApprovalsPane, **more: object) -> None:
                show(self, **more)  # type: ignore[arg-type]
                said.append(str(self.query_one("#summary").render()))

            monkeypatch.setattr(ApprovalsPane, "show_list", shown)
            await pilot.press("2")
            await until_shown(pilot, "450 waiting", "decision · 450")
            assert any("100 of 450 read so far" in one for one in said)
            assert "read so far" not in said[-1], "it goes on by itself"


async def test_more_than_are_held_are_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    from callboard.service.operations import inbox

    monkeypatch.setattr(inbox, "MOST", 40)
    monkeypatch.setattr(inbox, "IDS_PAGE", 20)
    world = MemoryWorld()
    async with world.join() as node:
        await node.claim()
        await asked(node, range(60))
        async with inside(world) as it:
            await until_shown(it.pilot, "Waiting for a decision · 40+")
