"""`Z` puts a request aside, for whoever sits at this terminal and for a while: counted, to be seen, and never lost."""

import pytest

from callboard.service.operations.decisions import Answer
from callboard.tui.panes.approvals.aside import ASIDE_SECONDS, MARGIN_SECONDS, Aside

from .conftest import said, until_shown
from .desk import desk
from .seat import seat

pytestmark = pytest.mark.anyio


async def test_what_is_put_aside_is_out_of_sight_counted_and_shown_by_its_word(monkeypatch: pytest.MonkeyPatch) -> None:
    async with seat(monkeypatch) as s:
        first = await s.desk.refund("480.00", order="A-1")
        second = await s.desk.refund("300.00", order="A-2")
        pane = await s.inbox()
        await s.until(lambda: list(pane.views) == [first, second])
        await s.press("Z")
        await s.until(lambda: list(pane.views) == [second] and pane.table.cursor_key == second)
        await until_shown(s.pilot, "Waiting for a decision · 2 · 1 aside", gone=["€480.00 issue"])
        assert await s.status(first) == "pending", "nothing was decided"
        assert not [row for row in await s.desk.store.audit(object=first) if row.who == "mara"]
        pane.bar.put("aside:yes")
        await s.until(lambda: list(pane.views) == [first])
        await s.press("Z")  # and back
        await s.until(lambda: not pane.views)
        await s.press("escape")
        await s.until(lambda: list(pane.views) == [first, second])


async def test_it_comes_back_when_its_time_is_over_and_when_it_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    async with seat(monkeypatch) as s:
        paid = await s.desk.payout(by="dana")
        refund = await s.desk.refund("300.00")
        pane = await s.inbox()
        await s.until(lambda: list(pane.views) == [paid, refund])
        await s.press("asterisk", "Z")
        await s.until(lambda: not pane.views)
        await until_shown(s.pilot, "All that waits is put aside here (2)")
        await s.desk.decisions("ana").decide(paid, Answer("approved", ("670.10",), note="seen"))  # one of two
        await s.until(lambda: list(pane.views) == [paid])
        clock = s.app.live.now
        monkeypatch.setattr(s.app.live, "now", lambda: clock() + ASIDE_SECONDS + 1)
        s.app.action_look_now()
        await s.until(lambda: list(pane.views) == [paid, refund])


async def test_nothing_is_put_aside_that_would_expire_meanwhile() -> None:
    async with desk() as d:
        view = await d.row(await d.refund("300.00"))
        aside, latest = Aside(), view.expires_at - ASIDE_SECONDS - MARGIN_SECONDS
        assert not aside.put(view, latest + 1) and not aside.has(view, latest + 1)
        assert aside.put(view, latest) and aside.has(view, latest)
        assert not aside.has(view, latest + ASIDE_SECONDS), "it is back with time left to decide"


async def test_one_that_stays_is_told_of_and_who_asks_for_one_has_it_back(monkeypatch: pytest.MonkeyPatch) -> None:
    async with seat(monkeypatch) as s:
        letter = await s.desk.mail()  # 28 minutes
        refund = await s.desk.refund("300.00")
        pane = await s.inbox()
        await s.until(lambda: list(pane.views) == [letter, refund])
        clock = s.app.live.now
        monkeypatch.setattr(s.app.live, "now", lambda: clock() + 300.0)
        await s.press("asterisk", "Z")
        await s.until(lambda: list(pane.views) == [letter])
        await s.until(lambda: "1 would expire meanwhile, and stays in the list" in said(s.app))
        await pane.go_to(refund)
        await s.until(lambda: list(pane.views) == [letter, refund] and pane.table.cursor_key == refund)


async def test_somebody_else_sees_it_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    async with seat(monkeypatch) as s:
        refund = await s.desk.refund("300.00")
        pane = await s.inbox()
        await s.until(lambda: pane.views)
        await s.press("Z")
        await s.until(lambda: not pane.views)
        assert [one.id for one in await s.desk.decisions("ana").list()] == [refund]
        await until_shown(s.pilot, "1 to decide")
