"""Several requests together: what can be, the total that is typed, and what became of each."""

import pytest

from callboard.service.operations.decisions import Answer
from callboard.service.operations.principal import Principal
from callboard.service.operations.together import together
from callboard.tui.decide.together import DenyTogether, TogetherDialog

from .desk import desk
from .seat import Seat, seat

pytestmark = pytest.mark.anyio


async def review(s: Seat, key: str, count: int) -> TogetherDialog | DenyTogether:
    """Mark everything, and open the review."""
    pane = await s.inbox()
    await s.until(lambda: len(pane.views) == count)
    await s.press("asterisk")
    await s.until(lambda: len(pane.table.marked) == count)
    await s.press(key)
    await s.until(lambda: isinstance(s.app.screen, TogetherDialog | DenyTogether))
    found = s.app.screen
    assert isinstance(found, TogetherDialog | DenyTogether)
    await s.until(lambda: found.settled)
    await s.pilot.pause()
    return found


async def test_what_needs_a_look_of_its_own_is_left_out_and_it_is_said_why() -> None:
    async with desk() as d:
        d.delivered_days["A-9"] = 41
        await d.refund("89.90", order="A-1")
        await d.refund("12.40", order="A-2")
        await d.payout(by="dana")
        await d.payout(by="mara")
        await d.mail()
        await d.refund("30.00", order="A-9")
        plan = together(await d.decisions().list(), Principal("mara", "tui", "desk"))
        assert [(one.text, one.currency) for one in plan.totals] == [("102.30", "EUR")]
        assert [one.text for one in plan.largest] == ["89.90"] and plan.all_checked and len(plan.policies) == 2
        assert [one.why for one in plan.left_out] == [
            "high risk",
            "not for you to approve",
            "no amount",
            "failed check",
        ]
        assert plan.missing(["102.30"]) == "" and plan.missing(["102,30"]) == ""
        assert plan.missing([""]) == "type the total" and plan.missing(["102.3 EUR"]) == "that is not the total"


async def test_each_currency_has_a_total_of_its_own() -> None:
    async with desk() as d:
        await d.refund("10.00", order="A-1")
        await d.refund("20.00", order="A-2", currency="USD")
        plan = together(await d.decisions().list(), Principal("mara", "tui", "desk"))
        assert [(one.text, one.currency) for one in plan.totals] == [("10.00", "EUR"), ("20.00", "USD")]
        assert plan.missing(["10.00", ""]) == "type the USD total" and plan.missing(["10.00", "20.00"]) == ""


async def test_s3b_the_typed_total_approves_each_and_what_another_took_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with seat(monkeypatch, hold=600.0) as s:
        ids = [await s.desk.refund(amount, order=f"A-{amount}") for amount in ("12.40", "24.00", "89.90")]
        await s.desk.mail()
        dialog = await review(s, "A", 4)
        await s.shows("Approve together · 3 requests", "€126.30 · largest €89.90")
        await s.shows("Left out: 1 of 4 need a look of their own (no amount).")
        await s.press("enter", "enter", "space")
        await s.type("126.3")
        assert not dialog.sent
        await s.press("escape")
        await s.until(lambda: not isinstance(s.app.screen, TogetherDialog))
        assert {(await s.desk.row(one)).status for one in ids} == {"pending"}
        await s.press("asterisk")  # the marks were kept; take them away, so that the next review marks everything
        dialog = await review(s, "A", 4)
        await s.type("126.30")
        await s.until(lambda: "● armed: Enter approves 3 requests" in s.text())
        await s.desk.decisions("ana").decide(ids[0], Answer("denied", note="ask for photos"))
        await s.press("enter")
        await s.until(lambda: "2 approved, 1 skipped" in s.text())
        await s.until(lambda: f"skipped {ids[0]}: ana denied it 1s ago" in s.text() or "ana denied it" in s.text())
        assert [(await s.desk.row(one)).status for one in ids] == ["denied", "approved", "approved"]
        rows = await s.desk.store.audit(who="mara", action="decide", limit=10)
        assert len(rows) == 2 and len({row.object for row in rows}) == 2


async def test_several_are_refused_together_with_one_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    async with seat(monkeypatch) as s:
        ids = [await s.desk.refund("12.40", order="A-1"), await s.desk.payout(by="mara"), await s.desk.mail()]
        await review(s, "N", 3)
        await s.press("enter", "enter")
        assert {(await s.desk.row(one)).status for one in ids} == {"pending"}
        await s.type("shop is closed")
        await s.until(lambda: "● Enter denies 3" in s.text())
        await s.press("enter")
        await s.until(lambda: "3 denied" in s.text())
        views = [await s.desk.row(one) for one in ids]
        assert {(one.status, one.note) for one in views} == {("denied", "shop is closed")}


async def test_a2_enter_space_and_esc_decide_nothing_together(monkeypatch: pytest.MonkeyPatch) -> None:
    async with seat(monkeypatch) as s:
        approval = await s.desk.refund("12.40")
        await review(s, "A", 1)
        for key in ("enter", "space"):
            for _ in range(20):
                s.key(key)
        await s.pilot.pause()
        assert await s.status(approval) == "pending"
        await s.press("escape")
        assert await s.status(approval) == "pending"
