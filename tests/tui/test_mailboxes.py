"""The mailbox inspector on real nodes: what it shows, each of its keys, and that looking changes nothing."""

import json
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
from textual.content import Content
from textual.pilot import Pilot

from callboard.actors.system import Pause
from callboard.mailbox.lane import Lane
from callboard.persistence.memory import MemoryStore
from callboard.service.operations.principal import ALL_SCOPES, Scope
from callboard.tui.app import CallboardApp
from callboard.tui.dialog import Dialog, TypedWord
from callboard.tui.panes.actors import ActorsPane
from callboard.tui.panes.approvals import ApprovalsPane
from callboard.tui.panes.mailboxes import MailboxesPane
from callboard.tui.panes.mailboxes.inside import Inside
from callboard.tui.panes.runs import RunsPane

from .conftest import Line, gateway_on, until, until_shown
from .desk import desk
from .looker import HOSTILE, RAW, Looker
from .trouble import CLERK, LONG, Mail, Task, Trouble, trouble

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Dialog, "settle_seconds", 0.0)


class Inspector(Looker):
    """A person in front of the mailboxes."""

    def __init__(self, app: CallboardApp, pilot: Pilot[None]) -> None:
        super().__init__(app, pilot)
        pane = app.pane
        assert isinstance(pane, MailboxesPane)
        self.pane = pane

    def shows(self, *words: str) -> bool:
        return all(one in self.text for one in words)

    def counts(self, count: int) -> bool:
        """Whether the mailbox says that so many of its messages fit."""
        return f"{count} of" in str(self.app.query_one("#mailbox-box").border_subtitle)

    @property
    def inside(self) -> Inside:
        return self.pane.inside

    @property
    def page(self) -> str:
        return self.inside.reader.text

    @property
    def boxes(self) -> list[str]:
        return [row.key for row in self.pane.table.rows]

    def title(self, id: str) -> str:
        title = self.app.query_one(f"#{id}").border_title
        return Content.from_markup(str(title)).plain

    async def look_into(self, key: str, pool: str = CLERK) -> None:
        """Open the mailbox of an actor from the list."""
        address = f"{pool}:{key}"
        await self.until(lambda: address in self.boxes)
        assert self.pane.table.select(address)
        await self.press("enter")
        await self.until(lambda: self.inside.view is not None and self.inside.view.actor.address == address)
        await self.until(lambda: self.inside.detail is not None or not self.inside.table.rows)

    async def at(self, message: int) -> None:
        """With the cursor on this message."""
        await self.until(lambda: str(message) in [row.key for row in self.inside.table.rows])
        assert self.inside.table.select(str(message))
        await self.until(lambda: self.inside.detail is not None and self.inside.detail.id == message)

    async def on_line(self, text: str) -> None:
        """With the page in focus, on the line that says this."""
        self.inside.read_on()
        reader = self.inside.reader
        await self.until(lambda: reader.has_focus and text in self.page)
        for number, (line, _) in enumerate(reader._lines):
            if text in "".join(piece.text for piece in line):
                reader._go(number)
                return
        raise AssertionError(self.page)


@asynccontextmanager
async def looking(
    store: object, size: tuple[int, int] = (120, 36), *, scopes: frozenset[Scope] = ALL_SCOPES, key: str = "3"
) -> AsyncIterator[Inspector]:
    app = CallboardApp(gateway_on(store, scopes=scopes))  # type: ignore[arg-type]
    async with app.run_test(size=size) as pilot:
        await pilot.press(key)
        await until(pilot, lambda: isinstance(app.pane, MailboxesPane) and app.pane.table._shown)
        yield Inspector(app, pilot)


def everything_in(store: MemoryStore) -> dict[str, str]:
    """All rows, as text."""
    tables = store.tables
    names = ("actors", "messages", "events", "turns", "timers", "dead", "decisions", "audit")
    return {name: repr(getattr(tables, name)) for name in names}


async def standing(it: Trouble) -> list[int]:
    """A stage on which nothing moves by itself."""
    await it.paused()
    await it.parked()
    await it.stashed()
    await it.held()
    await it.scheduled()
    await it.retrying()
    await it.rejected()
    return await it.send("paused", Task("the parcel was late", "A-8891", "hunter2"), client_id="ticket-1")


async def paused_by_ann(it: Trouble, key: str) -> None:
    """Pause a clerk that was sent one message, once it has handled it: a pause overtakes what waits."""
    await it.row(key)
    await it.client.send(f"{CLERK}:{key}", Pause("ann", "the customer is on the phone"), lane=Lane.SYSTEM)
    await it.row(key, "paused")


def files(folder: Path) -> list[Path]:
    """What is in a folder."""
    return list(folder.iterdir())


# -- looking


async def test_r1_peeking_at_everything_changes_nothing_and_asks_for_nothing_that_could() -> None:
    async with MemoryStore() as store, trouble(store) as it:
        await standing(it)
        before = everything_in(store)
        wire = Line(store)
        async with looking(wire) as who:
            for address in list(who.boxes):
                await who.pane.go_to(address)
                await who.until(lambda: who.inside.view is not None and who.inside.detail is not None)
            await who.press("G", "w", "right_square_bracket", "enter", "escape", "escape", "s", "S")
            await who.press("4", "enter", "w", "3")
        assert everything_in(store) == before
        told = {
            name for name in wire.asked if name in ("note", "send", "requeue", "discard", "decide", "join", "whisper")
        }
        assert told == set()


async def test_the_list_says_how_many_in_which_state_who_serves_them_and_why_they_wait() -> None:
    async with MemoryStore() as store, trouble(store) as it:
        await standing(it)
        async with looking(store) as who:
            await who.until(lambda: who.shows("paused by ann", "peek, never consumes"))
            rows = {row.key: ["".join(text for text, _ in cell) for cell in row.cells] for row in who.pane.table.rows}
            assert who.boxes[0] == f"{CLERK}:paused", "the deepest first"
            assert rows[f"{CLERK}:paused"][1] == "4" and "stuck paused by ann" in rows[f"{CLERK}:paused"][-1]
            assert rows[f"{CLERK}:scheduled"][4] == "1" and rows[f"{CLERK}:retrying"][5] == "1"
            assert rows[f"{CLERK}:stashed"][7] == "1" and rows["/office/press"][6] == "1"
            assert rows["/office/press"][0].endswith("worker")
            assert rows[f"{CLERK}:paused"][9] == "node 1"
            # The way out of the one under the cursor.
            await who.until(lambda: "mend the cause, then: callboard actors resume" in who.text)


async def test_s_sorts_by_depth_age_and_address_and_capital_s_turns_around() -> None:
    async with MemoryStore() as store, trouble(store) as it:
        await standing(it)
        async with looking(store) as who:
            who.pane.table.select(f"{CLERK}:scheduled")
            await who.press("s")
            await who.until(lambda: "oldest first" in who.title("boxes-box"))
            oldest = [box.oldest_at for box in who.pane._boxes]
            assert oldest == sorted(oldest)
            await who.press("s")
            await who.until(lambda: who.boxes == sorted(who.boxes))
            await who.press("S")
            await who.until(lambda: who.boxes == sorted(who.boxes, reverse=True))
            assert who.pane.table.cursor_key == f"{CLERK}:scheduled", "the cursor stays on its key (R4)"


async def test_a_filter_narrows_the_list_and_esc_clears_it() -> None:
    async with MemoryStore() as store, trouble(store) as it:
        await standing(it)
        async with looking(store) as who:
            total = len(who.boxes)
            await who.press("slash")
            await who.type("depth>3")
            await who.press("enter")
            await who.until(lambda: who.boxes == [f"{CLERK}:paused"])
            assert f"1 of {total}" in who.title("boxes-box") and "depth>3" in who.title("boxes-box")
            await who.press("slash")
            await who.type("nowhere")
            await who.press("enter")
            await who.until(lambda: f"0 of {total} match nowhere. esc clears" in who.text)
            await who.press("escape")
            await who.until(lambda: len(who.boxes) == total)


async def test_where_nothing_waits_it_says_so() -> None:
    async with MemoryStore() as store, looking(store) as who:
        await who.until(lambda: "No messages wait." in who.text)


async def test_one_mailbox_shows_depth_flow_age_and_why_it_is_not_delivered() -> None:
    async with MemoryStore() as store, trouble(store) as it:
        await it.paused()
        async with looking(store) as who:
            await who.look_into("paused")
            await until_shown(
                who.pilot,
                "not delivered because:",
                *("depth 3", "max 3 · last 10 min", "█", "in 5   out 2", "served by node 1 (office/1)"),
                "stuck: paused by ann: the customer is on the phone",
                "→ mend the cause, then: callboard actors resume /office/clerk:paused",
                "3 waiting · 0 in turn",
            )
            await who.press("escape")
            await who.until(lambda: not who.pane.looks_inside)


async def test_each_state_has_its_glyph_its_word_and_what_it_waits_for() -> None:
    async with MemoryStore() as store, trouble(store) as it:
        await standing(it)
        await it.long()
        wanted = {
            "scheduled": ("◷ scheduled", "due in 23h 5"),
            "retrying": ("↻ retrying", "RuntimeError: upstream answered 503"),
            "stashed": ("‖ stashed", "put aside by"),
            "held": ("◆ held", "held for a decision"),
            "long": ("● in turn", "in a handler of node 1"),
            "paused": ("○ ready", "its actor is paused by ann"),
        }
        async with looking(store, (160, 36)) as who:
            for key, (state, note) in wanted.items():
                await who.pane.go_to(f"{CLERK}:{key}")
                await who.until(partial(who.shows, state, note))


async def test_a_page_shows_who_when_key_tries_cause_and_the_body_without_secrets() -> None:
    async with MemoryStore() as store, trouble(store) as it:
        [message] = await standing(it)
        async with looking(store) as who:
            await who.look_into("paused")
            await who.at(message)
            await who.until(lambda: "ticket-1" in who.page)
            page = who.page
            for words in (
                "from       outside",
                f"to         {CLERK}:paused",
                "try        1",
                f"id         {message}",
                "lane       normal",
            ):
                assert words in page, page
            assert '"text": "the parcel was late",' in page and "[redacted]" in page and "hunter2" not in page
            assert "1 value(s) not shown, as they look like secrets: password" in page
            await who.press("w")
            await who.until(lambda: '"text": "the parcel was late", "order": "A-8891"' in who.page)
            await who.until(lambda: "w pretty" in who.text)


async def test_what_is_looked_for_in_a_message_is_found_and_marked() -> None:
    async with MemoryStore() as store, trouble(store) as it:
        [message] = await standing(it)
        async with looking(store) as who:
            await who.look_into("paused")
            await who.at(message)
            await who.press("enter", "slash")
            await who.type("PARCEL")
            await who.until(lambda: "1 found" in who.text)
            assert "parcel" in "".join(piece.text for piece in who.inside.reader._lines[who.inside.reader.at][0])
            await who.type("nothing of the kind")
            await who.until(lambda: "nowhere" in who.text)
            await who.press("escape")
            assert who.inside.reader.has_focus


async def test_messages_are_filtered_by_state_type_and_what_is_in_their_bodies() -> None:
    async with MemoryStore() as store, trouble(store) as it:
        [message] = await standing(it)
        async with looking(store) as who:
            await who.look_into("paused")
            for wish, count in (
                ('body:"parcel was"', 1),
                ("state:ready", 4),
                ("state:held", 0),
                ("type:ticket tries<1", 4),
            ):
                await who.press("slash")
                await who.type(wish)
                await who.press("enter")
                await who.until(partial(who.counts, count))
                assert len(who.inside.table.rows) == count
            await who.press("escape")
            await who.until(lambda: len(who.inside.table.rows) == 4)
            assert str(message) in [row.key for row in who.inside.table.rows]


async def test_causes_are_walked_by_enter_and_esc_comes_back() -> None:
    async with MemoryStore() as store, trouble(store) as it:
        [root] = await it.send("first", "send second")
        await paused_by_ann(it, "second")
        [again] = await it.send("first", "send second")
        effect = await it.view("second", "ready")
        assert effect.envelope.causation == again
        async with looking(store) as who:
            await who.look_into("second")
            await who.at(effect.envelope.id)
            await who.on_line("↑")
            await who.press("enter")
            await who.until(lambda: who.inside.detail is not None and who.inside.detail.id == again)
            assert who.inside.walking and "✓ done" in who.page and "1 away, esc goes back" in who.title("message-box")
            await who.on_line("↓")
            assert "clerk:first → clerk:second" in who.page
            await who.press("enter")
            await who.until(lambda: who.inside.detail is not None and who.inside.detail.id == effect.envelope.id)
            assert "2 away" in who.title("message-box")
            await who.press("escape")
            await who.until(lambda: who.inside.detail is not None and who.inside.detail.id == again)
            await who.press("escape")
            await who.until(lambda: not who.inside.walking)
            await who.on_line(f"{CLERK}:first")
            await who.press("enter")
            await who.until(lambda: who.inside.address == f"{CLERK}:first")
            await who.press("escape")
            await who.until(lambda: who.inside.address == f"{CLERK}:second")
        assert root != again


async def test_brackets_go_to_the_next_message_and_back_also_from_the_page() -> None:
    async with MemoryStore() as store, trouble(store) as it:
        await it.paused(waiting=3)
        async with looking(store) as who:
            await who.look_into("paused")
            first = who.inside.message_id
            await who.press("enter", "right_square_bracket")
            await who.until(lambda: who.inside.detail is not None and who.inside.detail.id != first)
            await who.press("left_square_bracket")
            await who.until(lambda: who.inside.detail is not None and who.inside.detail.id == first)
            assert who.inside.reader.has_focus


async def test_a_held_call_leads_to_its_decision_and_to_its_run() -> None:
    async with desk() as d:
        approval = await d.refund("480.00", order="A-20931")
        decision = await d.store.decision(approval)
        assert decision is not None
        async with looking(d.store) as who:
            await who.pane.go_to(str(decision.message_id))
            await who.until(lambda: who.inside.detail is not None and who.inside.detail.id == decision.message_id)
            assert "◆ held" in who.page
            await who.on_line("held for")
            await who.press("enter")
            await who.until(lambda: isinstance(who.app.pane, ApprovalsPane))
            await who.press("escape", "3")
            await who.until(lambda: isinstance(who.app.pane, MailboxesPane))
            await who.press("r")
            await who.until(lambda: isinstance(who.app.pane, RunsPane))


async def test_a_long_mailbox_is_read_on_as_the_cursor_goes_and_says_what_is_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("callboard.tui.panes.mailboxes.inside.FIRST_ROWS", 25)
    async with MemoryStore() as store, trouble(store) as it:
        await it.long()
        async with looking(store) as who:
            await who.look_into("long")
            await who.until(lambda: "the first 25 shown" in who.text or "the first 50 shown" in who.text)
            await who.press("G")
            await who.until(lambda: len(who.inside.table.rows) == LONG + 1)
            await who.until(lambda: who.inside.table.cursor_key == who.inside.table.rows[-1].key)


async def test_the_cursor_stays_on_its_message_while_others_come_and_go() -> None:
    async with MemoryStore() as store, trouble(store) as it:
        await it.long()
        async with looking(store) as who:
            await who.look_into("long")
            await who.press("j", "j", "j")
            here = who.inside.table.cursor_key
            await it.send("long", *(f"ok later {number}" for number in range(5)))
            who.app.action_look_now()
            await who.until(lambda: len(who.inside.table.rows) == LONG + 6)
            assert who.inside.table.cursor_key == here


# -- text that must not be obeyed


async def test_r7_hostile_text_in_bodies_errors_reasons_and_keys_reaches_the_screen_only_as_escapes() -> None:
    async with MemoryStore() as store, trouble(store) as it:
        await it.retrying("bad", HOSTILE)
        await it.paused("bad2", waiting=0)
        await it.send("bad2", Task(HOSTILE, HOSTILE), client_id=HOSTILE)
        await it.failed("bad3", HOSTILE)
        async with looking(store) as who:
            for key in ("bad", "bad2"):
                await who.pane.go_to(f"{CLERK}:{key}")
                await who.until(lambda: who.inside.detail is not None and "[red]X[/red]" in who.page)
                for keys in (("enter",), ("w",), ("w",), ("escape",)):
                    await who.press(*keys)
                    assert not [one for one in RAW if one in who.text], who.text
                assert "\\x1b" in who.page and "\\u202e" in who.page
                await who.press("escape")
            assert not [one for one in RAW if one in who.page or one in who.pane.selected]


# -- doing


async def test_p_pauses_with_a_reason_and_resumes_by_a_word() -> None:
    async with MemoryStore() as store, trouble(store) as it:
        await it.scheduled()
        await it.send("busy", "ok")
        await it.row("busy")
        await it.send("busy", Task("ok"), delay_seconds=500)
        async with looking(store) as who:
            await who.look_into("busy")
            await who.press("p")
            await who.until(lambda: isinstance(who.app.screen, TypedWord))
            await who.press("enter", "escape")
            assert (await store.actor(f"{CLERK}:busy")).status == "active", "neither Enter nor Esc does it"  # type: ignore[union-attr]
            await who.press("p")
            await who.until(lambda: isinstance(who.app.screen, TypedWord))
            await who.type("the parcel is lost")
            await who.press("enter")
            assert (await it.row("busy", "paused")).reason == "paused by mara: the parcel is lost"
            await who.until(lambda: "the parcel is lost" in who.text)
            await who.press("p")
            await who.until(lambda: isinstance(who.app.screen, TypedWord))
            await who.type("resume")
            await who.press("enter")
            await it.row("busy")
        told = [(row.action, row.object, row.channel, row.note) for row in await store.audit()]
        assert told == [
            ("resume", f"{CLERK}:busy", "tui", ""),
            ("pause", f"{CLERK}:busy", "tui", "the parcel is lost"),
        ]


@pytest.mark.parametrize(("word", "settled"), [("discard", "discarded"), ("quarantine", "")])
async def test_capital_d_gives_a_message_up_by_the_word_that_was_typed(word: str, settled: str) -> None:
    async with MemoryStore() as store, trouble(store) as it:
        view = await it.scheduled()
        async with looking(store) as who:
            await who.look_into("scheduled")
            await who.press("D")
            await who.until(lambda: isinstance(who.app.screen, TypedWord))
            await who.press(*["enter"] * 5)
            assert isinstance(who.app.screen, TypedWord), "Enter alone gives nothing up"
            await who.type(word)
            await who.press("enter")
            [letter] = await it.letters(1)
            assert (letter.envelope.id, letter.settled) == (view.envelope.id, settled)
            await who.until(lambda: "Nothing waits here" in who.text)


async def test_a_held_message_is_not_given_up_and_the_way_out_is_told() -> None:
    async with MemoryStore() as store, trouble(store) as it:
        view = await it.held()
        async with looking(store) as who:
            await who.pane.go_to(f"{CLERK}:held")
            await who.at(view.envelope.id)
            await who.press("D")
            await who.until(lambda: who.has_said("only a decision"))
            assert not isinstance(who.app.screen, TypedWord)
        assert await store.message(view.envelope.id) is not None


async def test_an_export_is_for_its_owner_only_and_never_over_an_existing_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with MemoryStore() as store, trouble(store) as it:
        await it.paused(waiting=3)
        async with looking(store) as who:
            now = who.app.now()
            monkeypatch.setattr(who.app, "now", lambda: now)
            await who.look_into("paused")
            await who.press("E")
            await who.until(lambda: who.has_said("written to"))
            [path] = files(tmp_path)
            assert path.name.startswith("mailbox-office_clerk_paused-") and stat.S_IMODE(path.stat().st_mode) == 0o600
            lines = [json.loads(one) for one in path.read_text().splitlines()]
            assert len(lines) == 3 and {one["schema"] for one in lines} == {"callboard.message/1"}
            assert "hunter2" not in path.read_text()
            kept = path.read_bytes()
            await who.press("E")
            await who.until(lambda: who.has_said("is a file"))
            assert path.read_bytes() == kept and files(tmp_path) == [path]
        assert [(row.action, row.channel) for row in await store.audit()] == [("export", "tui")]


async def test_c_copies_the_address_the_id_and_the_page() -> None:
    async with MemoryStore() as store, trouble(store) as it:
        [message] = await standing(it)
        async with looking(store) as who:
            await who.until(lambda: bool(who.boxes))
            assert who.pane.selected == f"{CLERK}:paused"
            await who.look_into("paused")
            await who.at(message)
            assert who.pane.selected == str(message)
            await who.press("enter", "c")
            await who.until(lambda: "the parcel was late" in who.app.clipboard)


async def test_who_may_only_look_changes_nothing_here_and_is_told_so() -> None:
    async with MemoryStore() as store, trouble(store) as it:
        await it.scheduled()
        async with looking(store, scopes=frozenset({"read"})) as who:
            await who.look_into("scheduled")
            before = everything_in(store)
            for key in ("p", "D", "E"):
                await who.press(key)
                assert not isinstance(who.app.screen, Dialog)
            await who.until(lambda: who.has_said("may only look"))
            assert everything_in(store) == before


async def test_r10_with_the_database_away_what_was_read_stays_and_it_comes_back_by_itself() -> None:
    async with MemoryStore() as store, trouble(store) as it:
        await standing(it)
        wire = Line(store)
        async with looking(wire) as who:
            await who.look_into("paused")
            rows = [row.key for row in who.inside.table.rows]
            wire.cut()
            await who.until(lambda: who.app.off)
            await who.press("j", "G", "D", "p")
            assert not isinstance(who.app.screen, Dialog)
            assert [row.key for row in who.inside.table.rows] == rows and '"order"' in who.page
            wire.mend()
            await it.send("paused", "ok")
            who.app.action_look_now()
            await who.until(lambda: not who.app.off and len(who.inside.table.rows) == len(rows) + 1)


@pytest.mark.parametrize("size", [(120, 36), (80, 24), (60, 15)])
async def test_it_is_usable_at_each_size(size: tuple[int, int]) -> None:
    async with MemoryStore() as store, trouble(store) as it:
        await standing(it)
        async with looking(store, size) as who:
            await who.look_into("paused")
            await who.until(lambda: "not delivered because" in who.text and "ready" in who.text)
            await who.press("enter")
            await who.until(lambda: "state      ○ ready" in who.text)
            if size[0] < 100:
                assert "depth 4" not in who.text, "one of both at a time"
            await who.press("escape", "escape")
            await who.until(lambda: not who.pane.looks_inside)


async def test_another_screen_opens_a_mailbox_and_esc_goes_back_to_it() -> None:
    async with MemoryStore() as store, trouble(store) as it:
        await standing(it)
        await it.send("3", Mail("550"), pool="/office/mailer")
        async with looking(store) as who:
            await who.press("1")
            who.app.open_screen("mailboxes", f"{CLERK}:scheduled")
            await who.until(lambda: who.inside.view is not None and "due in" in who.text)
            await who.press("escape")
            await who.until(lambda: isinstance(who.app.pane, ActorsPane))
            await who.press("3")
            await who.until(lambda: who.inside.table.has_focus)
            await who.press("escape")
            await who.until(lambda: not who.pane.looks_inside)


async def test_a_message_that_was_handled_opens_on_its_page_and_stays_there_while_rows_come_and_go() -> None:
    async with MemoryStore() as store, trouble(store) as it:
        [done] = await it.send("paused", "ok")
        await paused_by_ann(it, "paused")
        await it.send("paused", "ok")
        async with looking(store) as who:
            await who.press("1")
            who.app.open_screen("mailboxes", str(done))
            await who.until(lambda: who.inside.detail is not None and who.inside.detail.id == done)
            await it.send("paused", "ok")
            who.app.action_look_now()
            await who.until(lambda: len(who.inside.table.rows) == 2)
            assert who.inside.message_id == done and "✓ done" in who.page
            await who.press("escape")
            await who.until(lambda: who.inside.detail is not None and who.inside.detail.id != done)
