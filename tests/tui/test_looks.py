"""What was unclear, cut off or wrong when every screen was looked at on a desk at work; each of these was seen once."""

import msgspec
import pytest

from callboard.mailbox.errors import SchemaMismatch
from callboard.persistence.memory import MemoryStore
from callboard.service.operations.actors import Inspection
from callboard.tui.app import CallboardApp
from callboard.tui.frame_keys import KeysLine
from callboard.tui.panes.actors.detail import ActorText
from callboard.tui.panes.actors.rows import address_piece
from callboard.tui.panes.approvals.rows import summary
from callboard.tui.text import cells, cut_start, line, piece, wrapped

from .conftest import BareApp, gateway_on, screen_text, until
from .desk import desk

pytestmark = pytest.mark.anyio
LONG = "Hello,\\n\\ninside the parcel the smart watch was cracked. " * 20


def _text(parts: object) -> str:
    return "".join(one.text for one in parts)  # type: ignore[attr-defined]


async def test_what_an_actor_was_told_is_never_cut_off_in_its_panel() -> None:
    async with MemoryStore() as store:
        app = CallboardApp(gateway_on(store))
        async with app.run_test(size=(120, 36)) as pilot:
            text = app.query_one(ActorText)
            await until(pilot, lambda: text.size.width > 60)
            text.fill("told", wrapped(line("│ ", piece(LONG.replace(" ", "_"))), text.room), fresh=True)
            drawn = ["".join(one.text for one in text.render_line(y)) for y in range(1, text.size.height)]
            assert any(drawn) and not any("…" in one for one in drawn), drawn


async def test_a_held_call_in_a_workers_mailbox_says_which_decision_it_waits_for() -> None:
    async with desk() as d:
        await d.refund("480.00")
        gateway = gateway_on(d.store)
        calls = [one.address for one in await d.store.mailboxes(order="depth", limit=50) if one.held]
        view = await Inspection(gateway.operations).mailbox(calls[0])
        told = [one.why.text for one in view.messages if one.state == "held"]
        assert told and not any("was made" in one for one in told), told
        assert "waits for a person" in view.actor.why.text


async def test_what_is_marked_is_called_low_risk_only_where_it_is() -> None:
    async with desk() as d:
        row = await d.row(await d.refund("89.90"))
        for risk, words in (("low", "all low risk"), ("medium", "none of high risk")):
            one = msgspec.structs.replace(row, risk=risk, checks=[])
            assert words in _text(summary([one], [one]))


@pytest.mark.parametrize("size", [(80, 24), (60, 15)])
async def test_the_way_out_is_shown_however_little_room_there_is(size: tuple[int, int]) -> None:
    async with desk() as d:
        for amount in ("480.00", "89.90"):
            await d.refund(amount)
        app = CallboardApp(gateway_on(d.store))
        async with app.run_test(size=size) as pilot:
            await pilot.press("2")
            await until(pilot, lambda: "480.00" in screen_text(app))
            await pilot.press("enter")
            await until(pilot, lambda: "esc leave undecided" in screen_text(app))


async def test_a_screen_whose_reads_are_refused_says_why_as_long_as_they_are() -> None:
    async with MemoryStore() as store:
        app = BareApp(gateway_on(store))
        async with app.run_test(size=(120, 36)) as pilot:
            await until(pilot, lambda: app.bare.looks)

            async def refused() -> None:
                raise SchemaMismatch("the database lacks what this program needs")

            look, app.bare.look = app.bare.look, refused
            app.action_look_now()
            await until(pilot, lambda: "✗ Not shown: the database lacks" in screen_text(app))
            app.bare.look = look
            app.action_look_now()
            app.live.look_at_pane()
            await until(pilot, lambda: "Not shown" not in screen_text(app))


@pytest.mark.parametrize(
    ("address", "width", "shown"),
    [
        ("/crm/desk/agent:T-0004", 17, "desk/agent:T-0004"),
        ("/crm/desk/agent:T-0004", 16, "…/agent:T-0004"),
        ("/crm/office/labels/printer", 16, "…/labels/printer"),
        ("/crm/desk/agent:a-very-long-key-0004", 10, "…-key-0004"),
    ],
)
def test_an_address_that_is_too_long_keeps_what_tells_it_from_others(address: str, width: int, shown: str) -> None:
    assert address_piece(address, "/crm/", width).text == shown


@pytest.mark.parametrize("width", [1, 2, 7, 30])
def test_the_end_of_a_line_fits(width: int) -> None:
    assert cells(cut_start(line("/crm/", piece("日本/agent:T-1", "dim"), piece(" worker")), width)) <= width


async def test_keys_are_looked_at_while_a_screen_is_being_made() -> None:
    async with MemoryStore() as store:
        app = CallboardApp(gateway_on(store))
        async with app.run_test(size=(80, 24)) as pilot:
            await until(pilot, lambda: app.attention)
            for number in range(1, 8):
                app._show(number)
                assert app.check_action("copy", ()) is False
                app.query_one(KeysLine).show_now()
                await until(pilot, lambda: app.pane.is_mounted)


@pytest.mark.parametrize(("number", "classes"), [("5", {"-short", "-single"}), ("6", {"-low"}), ("7", {"-short"})])
async def test_a_screen_is_arranged_for_its_room_before_it_is_first_drawn(number: str, classes: set[str]) -> None:
    async with MemoryStore() as store:
        app = CallboardApp(gateway_on(store))
        async with app.run_test(size=(80, 24)) as pilot:
            await until(pilot, lambda: app.attention)
            await pilot.press(number)
            assert classes <= app.pane.classes
