"""The inbox: what is in the list and how, what moves and what does not, and what was decided."""

import re

import pytest

from callboard.service.operations.decisions import Answer
from callboard.tui.filter_bar import FilterBar
from callboard.tui.panes.approvals import rows

from .desk import desk
from .seat import SMALL, seat

pytestmark = pytest.mark.anyio


async def test_s2_the_list_says_amount_tool_for_whom_how_long_and_how_risky(monkeypatch: pytest.MonkeyPatch) -> None:
    async with seat(monkeypatch) as s:
        s.desk.delivered_days["A-2"] = 41
        await s.desk.refund("480.00")
        await s.desk.refund("24.00", order="A-2")
        await s.desk.payout(by="dana")
        await s.desk.mail()
        await s.desk.forbidden()
        pane = await s.inbox()
        await s.until(lambda: len(pane.views) == 5 and "5 waiting" in s.text())
        await s.until(lambda: s.text().count("issue_refund") >= 2 and s.text().count("send_") >= 2)
        text = {one.split()[1 if one.split()[0].startswith(("▐", "·", "■")) else 0]: one for one in [
            line[1:75].strip() for line in s.text().splitlines() if "issue_refund" in line or "send_" in line
        ] if one}  # fmt: skip
        assert "▲ check" in text["€24.00"] and "· medium" in text["€480.00"] and "▲ high ×2" in text["$670.10"]
        assert "Nordlicht" in text["$670.10"] and re.search("5[0-9]m", text["€480.00"])
        await s.shows("■ never")
        await s.until(lambda: re.search("▲2[0-7]m", s.text()))
        edges = {line.index(one) + len(one) for line in s.text().splitlines()[4:10]
                 for one in ("€480.00", "€24.00", "$670.10") if one in line[:20]}  # fmt: skip
        assert len(edges) == 1, "sums stand under each other, at the right"
        await s.shows("€504.00 + $670.10 in 3 money requests")


async def test_d7_r4_the_cursor_stays_on_its_row_while_requests_come_and_go(monkeypatch: pytest.MonkeyPatch) -> None:
    async with seat(monkeypatch) as s:
        first = await s.desk.refund("480.00", order="A-1")
        second = await s.desk.refund("300.00", order="A-2")
        pane = await s.inbox()
        await s.until(lambda: len(pane.views) == 2)
        pane.sort = "amount"
        pane.show_list()
        await s.press("j")
        await s.until(lambda: pane.table.cursor_key == second)
        await s.desk.refund("400.00", order="A-3")
        await s.until(lambda: len(pane.views) == 3)
        assert list(pane.views)[2] == second and pane.table.cursor_key == second
        await s.desk.decisions("ana").decide(first, Answer("denied", note="no"))
        await s.until(lambda: len(pane.views) == 2)
        assert pane.table.cursor_key == second


async def test_r3_nothing_pops_up_and_nothing_takes_the_focus(monkeypatch: pytest.MonkeyPatch) -> None:
    async with seat(monkeypatch) as s:
        await s.desk.refund(order="A-1")
        pane = await s.inbox()
        await s.until(lambda: len(pane.views) == 1)
        focused, screens = s.app.focused, len(s.app.screen_stack)
        await s.desk.refund(order="A-2")
        await s.until(lambda: len(pane.views) == 2)
        assert s.app.focused is focused and len(s.app.screen_stack) == screens


async def test_enter_and_a_open_the_dialog_and_decide_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async with seat(monkeypatch) as s:
        approval = await s.desk.refund()
        pane = await s.inbox()
        await s.until(lambda: pane.views)
        for key in ("enter", "a"):
            await s.press(key)
            await s.until(lambda: s.is_open and s.dialog.body.shown_to)
            assert s.dialog.subject.view.id == approval and await s.status(approval) == "pending"
            await s.press("escape")
            await s.until(lambda: not s.is_open)


async def test_s_sorts_and_shift_s_turns_around(monkeypatch: pytest.MonkeyPatch) -> None:
    async with seat(monkeypatch) as s:
        for amount in ("30.00", "480.00", "24.00"):
            await s.desk.refund(amount)
            await s.desk.pass_time(60)
        pane = await s.inbox()
        await s.until(lambda: len(pane.views) == 3)

        def amounts() -> list[str]:
            return [one.money[0].shown for one in pane.views.values()]

        assert amounts() == ["30.00", "480.00", "24.00"]
        key = pane.table.cursor_key
        await s.press("S")
        await s.until(lambda: amounts() == ["24.00", "480.00", "30.00"] and "newest first" in s.text())
        await s.shows("€24.00", "€480.00", "€30.00")  # none is out of sight for the sake of the cursor's line
        assert pane.table.cursor_key == key
        await s.press("s", "s")
        await s.until(lambda: amounts() == ["480.00", "30.00", "24.00"] and "largest first" in s.text())
        await s.press("s", "s", "s")
        await s.until(lambda: amounts() == ["30.00", "480.00", "24.00"] and "oldest first" in s.text())


async def test_ordering_by_each_of_the_five() -> None:
    async with desk() as d:
        await d.refund("480.00")
        await d.pass_time(10)
        await d.mail()
        await d.payout(by="dana")
        views = list(await d.decisions().list())
        tools = {sort: [one.tool for one in rows.ordered(views, sort, turned=False)] for sort in rows.SORTS}
        assert tools["oldest"] == ["issue_refund", "send_mail", "send_payout"]
        assert tools["expiry"] == ["send_mail", "issue_refund", "send_payout"]
        assert tools["amount"] == ["send_payout", "issue_refund", "send_mail"]
        assert tools["risk"] == ["send_payout", "issue_refund", "send_mail"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("amount>100", {"issue_refund", "send_payout"}),
        ("risk:high", {"send_payout", "close_account"}),
        ("tool:send_*", {"send_payout", "send_mail"}),
        ("left<30m", {"send_mail"}),
        ("check:failed", {"issue_refund"}),
        ("-tool:send_* risk:medium", {"issue_refund"}),
        ("nordlicht", {"send_payout"}),
        ("amount<1", set()),
    ],
)
async def test_the_list_is_filtered_by_its_fields(text: str, found: set[str]) -> None:
    from callboard.service.operations.filters import parse

    async with desk() as d:
        d.delivered_days["A-20931"] = 41
        await d.refund("480.00")
        await d.payout(by="dana")
        await d.mail()
        await d.close()
        now = await d.store.now()
        filter_ = parse(text, rows.FIELDS)
        assert {one.tool for one in await d.decisions().list() if filter_.fits(rows.value_of(one, now))} == found


async def test_a_filter_is_typed_and_star_marks_all_that_match(monkeypatch: pytest.MonkeyPatch) -> None:
    async with seat(monkeypatch) as s:
        await s.desk.refund("480.00")
        await s.desk.refund("24.00", order="A-2")
        await s.desk.mail()
        pane = await s.inbox()
        await s.until(lambda: len(pane.views) == 3)
        await s.press("slash")
        await s.until(lambda: pane.query_one(FilterBar).opened)
        pane.bar.put("tool:issue_refund")
        await s.press("escape")
        await s.until(lambda: len(pane.views) == 2 and "2 of 3" in s.text())
        await s.press("asterisk")
        await s.until(lambda: len(pane.table.marked) == 2 and "2 marked · €504.00" in s.text())
        await s.press("asterisk")
        await s.until(lambda: not pane.table.marked)


async def test_the_preview_shows_what_is_under_the_cursor_where_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    async with seat(monkeypatch) as s:
        await s.desk.refund()
        await s.desk.payout(by="mara")
        pane = await s.inbox()
        await s.until(lambda: "nothing refunded on it so far" in s.text() and "refunds.over_25" in s.text())
        await s.shows("last words")
        await s.press("j")
        await s.until(lambda: "payouts.four_eyes" in s.text() and "you started this run" in s.text())
        await s.pilot.resize_terminal(*SMALL)
        await s.until(lambda: not pane.query_one("#preview").display)
        s.app.action_look_now()
        await s.until(lambda: "Preview" not in s.text() and "waits" in s.text())


async def test_what_was_decided_today_is_told_with_what_came_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async with seat(monkeypatch) as s:
        denied = await s.desk.refund(order="A-1")
        done = await s.desk.mail()
        await s.desk.decisions("ana").decide(denied, Answer("denied", note="ask for photos"))
        await s.desk.decisions("jo").decide(done, Answer("approved"))
        await s.desk.until_done()
        await s.inbox()
        await s.until(lambda: "Decided today · 2" in s.text() and "ran once" in s.text())
        line = next(one for one in s.text().splitlines() if "✗ denied" in one)
        assert "€480.00" in line and "ana" in line and "“ask for photos”" in line
        await s.until(lambda: "Nothing waits for you." in s.text())


async def test_u_takes_back_what_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    async with seat(monkeypatch, hold=600.0) as s:
        approval = await s.desk.refund()
        pane = await s.inbox()
        await s.until(lambda: pane.views)
        await s.press("a")
        await s.until(lambda: s.is_open and s.dialog.body.shown_to)
        await s.ask("y")
        await s.type("480.00")
        await s.press("enter")
        await s.until(lambda: not s.is_open and "released in" in s.text())
        await s.press("u")
        await s.until(lambda: "taken back" in s.text())
        assert await s.status(approval) == "pending" and not s.desk.done


@pytest.mark.parametrize("size", [(60, 15), (80, 24), (120, 36), (160, 48)])
async def test_the_inbox_is_usable_at_every_size(size: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    async with seat(monkeypatch, size=size) as s:
        await s.desk.refund("480.00")
        await s.desk.payout(cents=123_456_789, by="dana")
        await s.inbox()
        await s.until(lambda: "€480.00" in s.text() and "$1,234,567.89" in s.text())
        await s.shows("issue_refund")
        await s.until(lambda: re.search("5[0-9]m", s.text()))
