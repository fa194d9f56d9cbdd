"""Sums on the screens: with the currency that their tool declares, right-aligned and whole; what cannot be read as one;
and what a look-alike keeps out of a batch."""

from typing import Any

import pytest

from callboard import FunctionLLM, LLMResponse, Runtime, tool
from callboard.persistence.memory import MemoryStore
from callboard.tui.app import CallboardApp
from callboard.tui.decide.together import TogetherDialog
from callboard.tui.panes.approvals import ApprovalsPane

from .conftest import gateway_on, until, until_shown
from .seat import seat

pytestmark = pytest.mark.anyio
SIZES = [(120, 36), (80, 24), (60, 15)]


@tool(effect="money", requires_approval=True, sums={"amount_cents": "USD cents"})
async def issue_refund(order_id: str, amount_cents: int, *, idempotency_key: str) -> dict[str, int]:
    """Refund."""
    return {"refunded": amount_cents}


@tool(effect="money", requires_approval=True, sums={"total": "EUR"})
async def pay_invoice(order_id: str, total: str, *, idempotency_key: str) -> dict[str, str]:
    """Pay."""
    return {"paid": total}


CALLS: list[tuple[str, dict[str, Any]]] = [
    ("issue_refund", {"order_id": "A-1", "amount_cents": 48_000}),
    ("issue_refund", {"order_id": "A-2", "amount_cents": 126_114}),
    ("pay_invoice", {"order_id": "A-3", "total": "89.90"}),
    ("pay_invoice", {"order_id": "A-4", "total": "480,00"}),
]


class Waiting:
    """A desk where each of these calls waits for a person."""

    def __init__(self, store: MemoryStore) -> None:
        goals = {f"go {number}": call for number, call in enumerate(CALLS)}

        def answer(messages: Any, tools: Any, system: str) -> LLMResponse:
            name, arguments = goals[messages[0].content if messages[0].content in goals else messages[1].content]
            return LLMResponse("", [{"id": "c1", "name": name, "arguments": arguments}])

        self.goals = list(goals)
        self.runtime = Runtime(store, FunctionLLM(answer), [issue_refund, pay_invoice], name="crm")


async def shown(app: CallboardApp, pilot: Any) -> str:
    """The inbox, once all of them are in it."""
    await pilot.press("2")
    await until(pilot, lambda: isinstance(app.pane, ApprovalsPane))
    await until_shown(pilot, "A-1", "A-2", "A-3", "A-4")
    strips = app.screen._compositor.render_strips()
    return "\n".join("".join(segment.text for segment in strip) for strip in strips)


async def on_screen(size: tuple[int, int], *, ascii: bool = False) -> str:
    async with MemoryStore() as store:
        desk = Waiting(store)
        async with desk.runtime:
            for goal in desk.goals:  # one after the other, as the list is in the order of asking
                await desk.runtime.runs.rest(await desk.runtime.create(goal))
            app = CallboardApp(gateway_on(store), ascii=ascii)
            async with app.run_test(size=size) as pilot:
                return await shown(app, pilot)


def row_of(screen: str, order: str) -> str:
    return next(one for one in screen.splitlines() if order in one)


@pytest.mark.parametrize("size", SIZES)
async def test_r8_declared_sums_stand_right_aligned_with_their_currency(size: tuple[int, int]) -> None:
    screen = await on_screen(size)
    ends = {row_of(screen, order).index(shown) + len(shown) for order, shown in SHOWN.items()}
    assert len(ends) == 1, screen
    assert "▲ “480,00”" in row_of(screen, "A-4"), "what cannot be read as a sum is not taken for none"


SHOWN = {"A-1": "$480.00", "A-2": "$1,261.14", "A-3": "€89.90"}


async def test_r8_in_ascii_a_currency_is_a_code_and_no_letter() -> None:
    screen = await on_screen((80, 24), ascii=True)
    assert "EUR 89.90" in row_of(screen, "A-3") and "$480.00" in row_of(screen, "A-1")
    assert screen.isascii(), screen


async def test_in_other_terminals_it_is_a_sign_whatever_another_screen_of_this_process_has() -> None:
    assert "EUR 89.90" in await on_screen((80, 24), ascii=True)
    assert "€89.90" in row_of(await on_screen((80, 24)), "A-3")


async def test_s3b_a_row_with_a_lookalike_is_left_out_of_the_batch_and_named_with_what_is_odd(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with seat(monkeypatch) as s:
        await s.desk.refund("20.00", order="A-1")
        odd = await s.desk.refund("30.00", order="A-2", memo="Nоrdlicht")
        pane = await s.inbox()
        await s.until(lambda: len(pane.views) == 2)
        await until_shown(s.pilot, "▲ card_")
        await s.press("asterisk")
        await s.until(lambda: len(pane.table.marked) == 2)
        await s.press("A")
        await s.until(lambda: isinstance(s.app.screen, TogetherDialog))
        await until_shown(
            s.pilot, "Approve together · 1 request", "a suspect text", "memo mixes alphabets in “Nоrdlicht”"
        )
        await s.press("escape")
        await s.until(lambda: not isinstance(s.app.screen, TogetherDialog))
        await s.open(odd)
        await until_shown(s.pilot, "memo mixes alphabets")


async def test_a_sum_that_cannot_be_read_takes_a_note_and_its_very_letters(monkeypatch: pytest.MonkeyPatch) -> None:
    async with seat(monkeypatch) as s:
        approval = await s.desk.mail(body="480,00 EUR")
        await s.open(approval)
        await until_shown(s.pilot, "no sum that can be read")
        await s.ask("y")
        await until_shown(s.pilot, "body letter by letter")
        await s.type("480.00")
        await s.until(lambda: s.dialog.missing == "that is not the amount")
        await s.press("ctrl+u")
        await s.type("480,00 EUR")
        await s.until(lambda: s.dialog.missing == "say why in the note")
