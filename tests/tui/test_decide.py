"""The decision dialog: what it takes to approve, what never decides, and what is sent. Driven as a person drives it."""

import random
from decimal import Decimal

import pytest
from textual.widgets import Input, Static

from callboard.service.operations.decisions import Answer
from callboard.tui.app import CallboardApp
from callboard.tui.decide import DecideDialog, decide
from callboard.tui.decide.subject import leaves

from .desk import desk
from .seat import SMALL, seat

pytestmark = pytest.mark.anyio

# --- what never decides ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["enter", "space", "escape"])
async def test_a2_r2_enter_space_and_esc_twenty_times_decide_nothing(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with seat(monkeypatch) as s:
        for approval in (await s.desk.refund(), await s.desk.mail(), await s.desk.close()):
            for first in ("", "y", "n"):
                await s.open(approval)
                if first:
                    await s.ask(first)
                for _ in range(20):
                    s.key(key)
                await s.pilot.pause()
                assert await s.status(approval) == "pending"
                if s.is_open:
                    if s.dialog.stage != "look":
                        await s.press("escape")
                    await s.press("escape")
                await s.until(lambda: not s.is_open)


ANY_KEY = [*"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPRSTUVWXZ", "enter", "space", "tab", "up", "down", "backspace",
           "pagedown", "pageup", "home", "end", "left", "right", "comma", "full_stop", "minus", *"1235679"]  # fmt: skip
"""Every key but those that, together, could type the amount of 480.00."""


async def test_a1_d1_ten_thousand_random_keys_without_the_amount_never_approve(monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(20_261_130)
    sent: list[str] = []
    for action in ("open_run", "ask", "edit", "transcript", "leave", "copy"):  # they lead elsewhere
        monkeypatch.setattr(DecideDialog, f"action_{action}", lambda self: None)
    monkeypatch.setattr(DecideDialog, "send", lambda self, status: sent.append(status))
    async with seat(monkeypatch, size=SMALL) as s:
        approval = await s.desk.refund(to="card_4242", memo="x")
        await s.open(approval)
        opened = armed = 0
        with s.app.batch_update():  # nobody looks
            for _ in range(100):
                if s.dialog.stage == "look":
                    await s.dialog.run_action("approve")
                opened += s.dialog.stage == "approve"
                for key in chance.choices(ANY_KEY, k=100):
                    s.key(key)
                await s.pilot.pause(0)
                armed += s.dialog.stage == "approve" and not s.dialog.missing
                if s.dialog.stage == "deny":
                    await s.dialog.back_to_look()
        assert opened > 90 and not armed and "approved" not in sent
        assert await s.status(approval) == "pending"


async def test_a3_d7_keys_in_the_first_moments_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    assert DecideDialog.settle_seconds == 0.4
    async with seat(monkeypatch, settle=1_000.0) as s:
        approval = await s.desk.refund()
        s.app.run_worker(decide(s.app, approval), group="test")
        await s.until(lambda: s.is_open and s.dialog.body.shown_to)
        await s.press("y", "n", "escape", "E")
        await s.pilot.pause()
        assert s.is_open and s.dialog.stage == "look"
        monkeypatch.setattr(DecideDialog, "settle_seconds", 0.0)
        await s.ask("y")


async def test_r1_the_mouse_never_decides_by_one_click(monkeypatch: pytest.MonkeyPatch) -> None:
    async with seat(monkeypatch, size=SMALL) as s:
        approval = await s.desk.mail()
        await s.open(approval)
        await s.ask("y")
        for y in range(14, 24):  # the foot, where everything is that can be done
            for x in (3, 12, 24, 40):
                if s.is_open:
                    await s.pilot.click(offset=(x, y))
        assert await s.status(approval) == "pending"


# --- what it takes --------------------------------------------------------------------------------------------


WRONG = ("48", "480,0", "4800", "480.00 USD", "", "480.01", "EUR480.00", "4 80", "1,900", "480.00.00")


async def test_a4_a_wrong_amount_does_not_arm(monkeypatch: pytest.MonkeyPatch) -> None:
    async with seat(monkeypatch) as s:
        approval = await s.desk.refund("480.00")
        await s.open(approval)
        await s.ask("y")
        field = s.dialog.query_one(".amount", Input)
        for typed in WRONG:
            field.value = typed
            await s.press("enter")
            await s.until(lambda: "not armed" in s.text())
            assert s.dialog.missing and s.dialog.stage == "approve"
        for typed in ("480.00", "480,00", "480"):
            field.value = typed
            await s.until(lambda: "● armed: Enter approves" in s.text())
            field.value = "4"
            await s.until(lambda: "not armed: that is not the amount" in s.text())
        assert await s.status(approval) == "pending"


@pytest.mark.parametrize("typed", ["480.00", "480,00"])
async def test_a4_the_amount_arms_and_enter_approves(typed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with seat(monkeypatch, size=SMALL, hold=600.0) as s:
        approval = await s.desk.refund("480.00")
        await s.open(approval)
        await s.ask("y")
        await s.shows("not armed: type the amount")
        await s.type(typed)
        await s.until(lambda: "● armed: Enter approves" in s.text())
        assert await s.status(approval) == "pending"
        await s.press("enter")
        await s.until(lambda: not s.is_open)
        view = await s.desk.row(approval)
        assert (view.status, view.decided_by, view.can_take_back) == ("approved", "mara", True)
        await s.until(lambda: "released in" in s.text())


async def test_low_risk_takes_y_and_then_shift_y(monkeypatch: pytest.MonkeyPatch) -> None:
    async with seat(monkeypatch) as s:
        approval = await s.desk.mail()
        await s.open(approval)
        await s.press("Y", "Y")
        assert s.dialog.stage == "look"
        await s.press("y")
        await s.until(lambda: "Y approves" in s.text())
        await s.press("y", "enter", "space")
        await s.pilot.pause()
        assert await s.status(approval) == "pending"
        await s.press("Y")
        await s.until(lambda: not s.is_open)
        await s.desk.until_done()
        assert s.desk.done == [
            ("send_mail", {"to": "press@chronicle.example", "subject": "Your question", "body": "Thank you."})
        ]


async def test_high_risk_needs_the_amount_and_a_note_and_is_held_six_times_as_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with seat(monkeypatch, hold=100.0) as s:
        approval = await s.desk.refund("900.00")
        await s.open(approval)
        await s.ask("y")
        await s.type("900.00")
        await s.until(lambda: "say why in the note" in s.text())
        await s.press("enter")
        assert await s.status(approval) == "pending"
        await s.press("tab")
        await s.type("seen the photos")
        await s.press("enter")
        await s.until(lambda: not s.is_open)
        view = await s.desk.row(approval)
        assert (view.status, view.note) == ("approved", "seen the photos")
        assert view.release_at - view.decided_at == pytest.approx(600.0, abs=0.01)


async def test_high_risk_without_a_sum_has_the_tool_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    async with seat(monkeypatch) as s:
        approval = await s.desk.close()
        await s.open(approval)
        await s.ask("y")
        await s.type("close")
        assert s.dialog.missing == "that is not close_account"
        await s.type("_account")
        await s.press("tab")
        await s.type("in writing")
        await s.until(lambda: not s.dialog.missing)
        await s.press("enter")
        await s.until(lambda: not s.is_open)
        assert await s.status(approval) == "approved"


async def test_a_failed_check_makes_it_high_risk(monkeypatch: pytest.MonkeyPatch) -> None:
    async with seat(monkeypatch) as s:
        s.desk.delivered_days["A-20931"] = 41
        approval = await s.desk.refund("480.00")
        await s.open(approval)
        await s.shows("▲ 1 of 4 checks failed", "▲ delivered 41 days ago; the window is 30")
        assert s.dialog.subject.demand.note


async def test_what_policy_forbids_cannot_be_approved_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    async with seat(monkeypatch) as s:
        approval = await s.desk.forbidden()
        await s.open(approval)
        await s.shows("Policy accounts.root lets nobody approve this: nobody closes the root account")
        await s.press("y", "Y", "enter")
        assert s.dialog.stage == "look"
        await s.ask("n")


async def test_a7_who_asked_for_the_run_cannot_approve_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async with seat(monkeypatch, name="mara") as s:
        approval = await s.desk.payout(by="mara")
        await s.open(approval)
        await s.shows("‖ You started this run; policy payouts.four_eyes wants another person to decide.")
        await s.press("y", "enter", "Y")
        assert s.dialog.stage == "look" and await s.status(approval) == "pending"


async def test_the_first_of_two_people_hears_that_another_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    async with seat(monkeypatch) as s:
        approval = await s.desk.payout(by="dana")
        await s.open(approval)
        await s.ask("y")
        await s.type("670.10")
        await s.press("tab")
        await s.type("invoice seen")
        await s.press("enter")
        await s.until(lambda: "Your yes is 1 of 2" in s.text())
        await s.shows("not you, not dana")
        assert s.dialog.stage == "over"
        view = await s.desk.row(approval)
        assert (view.status, [one.by for one in view.approved_by]) == ("pending", ["mara"])


async def test_deny_needs_a_reason_which_the_agent_gets(monkeypatch: pytest.MonkeyPatch) -> None:
    async with seat(monkeypatch) as s:
        approval = await s.desk.refund()
        await s.open(approval)
        await s.press("n")
        await s.until(lambda: "common reasons" in s.text() and s.dialog.reasons)
        await s.press("enter")
        assert await s.status(approval) == "pending"
        await s.press("down", "down")
        assert s.dialog.fields.note == "needs proof first"
        await s.press("end")
        await s.type(" please")
        await s.press("enter")
        await s.until(lambda: not s.is_open)
        view = await s.desk.row(approval)
        assert (view.status, view.note) == ("denied", "needs proof first please")


async def test_a_common_reason_is_what_people_said_before(monkeypatch: pytest.MonkeyPatch) -> None:
    async with seat(monkeypatch) as s:
        before = await s.desk.refund(order="A-1")
        await s.desk.decisions().decide(before, Answer("denied", note="ask for photos first"))
        await s.open(await s.desk.refund())
        await s.press("n")
        await s.until(lambda: s.dialog.reasons)
        await s.press("down")
        assert s.dialog.fields.note == "ask for photos first"


# --- what is shown --------------------------------------------------------------------------------------------


async def test_d5_r5_every_argument_is_on_the_first_page_at_80x24(monkeypatch: pytest.MonkeyPatch) -> None:
    async with seat(monkeypatch, size=SMALL) as s:
        await s.open(await s.desk.refund())
        text = s.text()
        for one in leaves(s.dialog.subject.view.arguments):
            assert one.text in text and one.path in text
        assert "written by the agent" in text and "from look_up_order" in text and "from the request" in text
        assert "denied by itself at" in text and "held 10s, u takes it back" in text
        assert s.dialog.body.scroll_offset.y == 0 and not s.dialog.unseen


async def test_d5_r5_approve_stays_off_until_all_arguments_were_in_view(monkeypatch: pytest.MonkeyPatch) -> None:
    memo = "\n".join(f"line {number} of a long memo " + "x" * 60 for number in range(60)) + " THE END"
    async with seat(monkeypatch, size=SMALL) as s:
        await s.open(await s.desk.refund(memo=memo))
        await s.shows("lines below not seen yet")
        assert s.dialog.unseen > 0
        await s.press("y")
        await s.pilot.pause()
        assert s.dialog.stage == "look"
        await s.press("pagedown", "y")
        await s.pilot.pause()
        assert s.dialog.stage == "look"
        await s.press("G")
        await s.until(lambda: not s.dialog.unseen)
        await s.ask("y")


async def test_r5_nothing_of_an_argument_is_left_out_at_any_width() -> None:
    from callboard.tui.decide.sheet import narrow, wide
    from callboard.tui.decide.subject import Subject

    async with desk() as d:
        memo = "ab cd " * 50 + "y" * 300 + " «漢字漢字漢字» end"
        view = await d.row(await d.refund(memo=memo))
        demand = d.decisions().demand(view)
        for arrange, widths in ((narrow, range(40, 92, 7)), (wide, range(92, 140, 9))):
            for width in widths:
                sheet = arrange(Subject(view, demand), width, lambda at: "12:00:00")
                shown = ["".join(piece.text for piece in one) for one in sheet.lines[: sheet.end]]
                heading = next(place for place, one in enumerate(shown) if "Arguments" in one)
                bare = "".join(one for one in "".join(shown[heading + 1 :]) if one not in " │╭╮╰╯─")
                for part in ("ab cd ".replace(" ", "") * 5, "«漢字漢字漢字»"):
                    assert part[:4] in bare
                assert bare.count("y") >= 300 and "…" not in bare.split("sha256")[0]


async def test_d6_what_the_runtime_checked_stands_apart_from_what_was_said(monkeypatch: pytest.MonkeyPatch) -> None:
    async with seat(monkeypatch, size=(120, 50)) as s:
        await s.open(await s.desk.refund())
        text = s.text()
        assert "Checked by the runtime, not by the agent" in text and "Transcript · said, not checked" in text
        assert text.index("nothing refunded on it so far") < text.index("Transcript")


async def test_r7_text_that_hides_or_looks_alike_is_written_out_and_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    async with seat(monkeypatch) as s:
        await s.open(await s.desk.payout(payee="N\u043erdlicht \u202eGmbH"))
        text = s.text()
        assert "\u202e" not in text and "\\u202e" in text
        assert "payee holds 1 hidden character" in text and "mixes alphabets" in text


@pytest.mark.parametrize("size", [(60, 15), (80, 24), (120, 36), (160, 48)])
async def test_it_can_be_read_and_decided_at_every_size(size: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    async with seat(monkeypatch, size=size, hold=600.0) as s:
        approval = await s.desk.refund()
        await s.open(approval)
        await s.shows("issue_refund", "€480.00")
        drawn = s.dialog.body.query_one(Static).size.height
        assert drawn == len(s.dialog._sheet.lines), "each line on one line, or it is not known what was seen"
        await s.press("G")
        await s.until(lambda: not s.dialog.unseen)
        await s.ask("y")
        await s.type("480.00")
        await s.until(lambda: "● armed" in s.text())
        await s.press("enter")
        await s.until(lambda: not s.is_open)
        assert await s.status(approval) == "approved"


async def test_r8_money_is_shown_with_its_currency_and_every_digit(monkeypatch: pytest.MonkeyPatch) -> None:
    async with seat(monkeypatch) as s:
        await s.open(await s.desk.payout(cents=123_456_789, by="dana"))
        await s.shows("$1,234,567.89")


# --- other keys -----------------------------------------------------------------------------------------------


async def test_brackets_go_through_the_requests_and_the_guard_is_on_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async with seat(monkeypatch) as s:
        one, two = await s.desk.refund(order="A-1"), await s.desk.refund(order="A-2")
        await s.open(one, [one, two])
        await s.shows("request 1 of 2")
        await s.press("right_square_bracket")
        await s.until(lambda: s.dialog.subject.view.id == two and "request 2 of 2" in s.text())
        await s.until(lambda: not s.dialog.stepping)
        monkeypatch.setattr(DecideDialog, "settle_seconds", 1_000.0)
        s.dialog._seen_at = -10_000.0  # it has been in sight for long
        await s.press("left_square_bracket")
        await s.until(lambda: s.dialog.subject.view.id == one)
        await s.press("y")
        await s.pilot.pause()
        assert s.dialog.stage == "look"


async def test_e_asks_the_agent_and_the_request_stays_open(monkeypatch: pytest.MonkeyPatch) -> None:
    from callboard.tui.dialog import TypedWord

    monkeypatch.setattr(TypedWord, "settle_seconds", 0.0)
    async with seat(monkeypatch) as s:
        approval = await s.desk.refund()
        await s.open(approval)
        await s.press("e")
        await s.until(lambda: isinstance(s.app.screen, TypedWord))
        await s.type("how old is it?")
        await s.press("enter")
        await s.until(lambda: s.is_open)
        assert await s.status(approval) == "pending"
        rows = await s.desk.store.audit(action="tell", limit=5)
        assert [(row.who, row.note) for row in rows] == [("mara", "how old is it?")]


async def test_c_copies_the_arguments_and_the_whole_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    copied: list[str] = []
    monkeypatch.setattr(CallboardApp, "copy_to_clipboard", lambda self, text: copied.append(text))
    async with seat(monkeypatch) as s:
        await s.open(await s.desk.refund(memo="a\u202eb"))
        await s.press("c")
        await s.until(lambda: copied)
        assert s.dialog.subject.view.digest in copied[0] and "card_1NxQ8vKeL0aZt4242" in copied[0]
        assert copied[0].isascii()


async def test_t_shows_all_that_was_said(monkeypatch: pytest.MonkeyPatch) -> None:
    from callboard.tui.decide.doing import TranscriptDialog

    monkeypatch.setattr(TranscriptDialog, "settle_seconds", 0.0)
    async with seat(monkeypatch, size=SMALL) as s:
        await s.open(await s.desk.refund())
        await s.press("t")
        await s.until(lambda: "Let me check the order." in s.text())
        await s.press("escape")
        await s.until(lambda: s.is_open)


async def test_shift_e_changes_arguments_and_what_comes_is_another_request(monkeypatch: pytest.MonkeyPatch) -> None:
    from callboard.tui.decide.edit import EditDialog

    monkeypatch.setattr(EditDialog, "settle_seconds", 0.0)
    async with seat(monkeypatch) as s:
        approval = await s.desk.refund()
        await s.open(approval)
        digest = s.dialog.subject.view.digest
        await s.press("E")
        await s.until(lambda: isinstance(s.app.screen, EditDialog))
        field = next(one for one in s.app.screen.query(Input) if one.value == "480.00")
        field.focus()
        field.value = "400.00"
        await s.until(lambda: '"480.00" → "400.00"' in s.text())
        await s.press("enter")
        await s.until(lambda: s.is_open and s.dialog.subject.view.id != approval)
        new = s.dialog.subject.view
        assert new.arguments["amount"] == "400.00" and new.digest != digest and new.replaces == approval
        assert new.edited_by == ["mara"] and new.money[0].value == Decimal("400.00")
        assert await s.status(approval) == "superseded" and not s.desk.done
