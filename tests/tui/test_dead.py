"""Dead letters on real nodes: what is shown, each key, settling once, and that nothing is settled by one key."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import pytest
from textual.content import Content
from textual.pilot import Pilot
from textual.widgets import Input, Static

from callboard.persistence.memory import MemoryStore
from callboard.service.operations.dead import DeadLetters
from callboard.service.operations.principal import ALL_SCOPES, Principal, Scope
from callboard.service.operations.runs import Operations
from callboard.service.operations.settling import Settling
from callboard.tui.app import CallboardApp
from callboard.tui.dialog import Dialog, TypedWord
from callboard.tui.panes.actors import ActorsPane
from callboard.tui.panes.dead import DeadPane
from callboard.tui.panes.dead.settle import Outcomes
from callboard.tui.panes.mailboxes import MailboxesPane

from .conftest import Line, gateway_on, until
from .looker import HOSTILE, RAW, Looker
from .trouble import CLERK, MAILER, Trouble, trouble

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Dialog, "settle_seconds", 0.0)


class Undertaker(Looker):
    """A person in front of the dead letters."""

    def __init__(self, app: CallboardApp, pilot: Pilot[None]) -> None:
        super().__init__(app, pilot)
        pane = app.pane
        assert isinstance(pane, DeadPane)
        self.pane = pane

    async def asked(self, key: str) -> TypedWord:
        """Press this, and wait for the dialog."""
        await self.press(key)
        await self.until(lambda: isinstance(self.app.screen, TypedWord))
        dialog = self.app.screen
        assert isinstance(dialog, TypedWord)
        return dialog

    async def closed(self) -> None:
        await self.until(lambda: not isinstance(self.app.screen, TypedWord))

    @property
    def told(self) -> str:
        """What the dialog says."""
        shown = [one.visual for one in self.app.screen.query(Static)]
        return " ".join(one.plain for one in shown if isinstance(one, Content))

    def lists(self, count: int, wish: str) -> bool:
        """Whether so many are listed by this filter."""
        return wish in self.title().replace(" · ", " ") and len(self.keys) == count

    @property
    def counted(self) -> int:
        """How many the line above counts, which is read on its own."""
        return 0 if self.app.attention is None else self.app.attention.dead

    @property
    def page(self) -> str:
        return self.pane.reader.text

    @property
    def keys(self) -> list[str]:
        return [row.key for row in self.pane.table.rows]

    def title(self, id: str = "letters-box") -> str:
        return Content.from_markup(str(self.app.query_one(f"#{id}").border_title)).plain

    async def at(self, number: int) -> None:
        await self.until(lambda: str(number) in self.keys)
        assert self.pane.table.select(str(number))
        await self.until(lambda: self.pane._found is not None and self.pane._found.detail.letter.number == number)


@asynccontextmanager
async def looking(
    store: object, size: tuple[int, int] = (120, 36), *, name: str = "mara", scopes: frozenset[Scope] = ALL_SCOPES
) -> AsyncIterator[Undertaker]:
    app = CallboardApp(gateway_on(store, name, scopes))  # type: ignore[arg-type]
    async with app.run_test(size=size) as pilot:
        await pilot.press("4")
        await until(pilot, lambda: isinstance(app.pane, DeadPane) and app.pane.table._shown)
        yield Undertaker(app, pilot)


async def rejected(it: Trouble, count: int) -> list[int]:
    """So many dead letters of as many actors; their numbers, oldest first."""
    for number in range(count):
        await it.rejected(f"actor-{number}", f"reason {number}")
    return sorted(letter.number for letter in await it.letters(count))


# -- looking


async def test_where_nothing_has_died_it_says_so() -> None:
    async with MemoryStore() as store, looking(store) as who:
        await who.until(lambda: "No dead letters. Messages land here after their last try." in who.text)


async def test_the_list_and_the_page_say_what_it_died_of_and_whether_anything_came_of_it() -> None:
    async with MemoryStore() as store, trouble(store) as it:
        letter = await it.failed()
        async with looking(store) as who:
            await who.at(letter.number)
            text = who.text
            assert "Dead letters · 1" in who.title() and "mailer:3" in text and "email.send" in text
            page = who.page
            for words in (
                "died of    ConnectionError: 550 5.1.1 mailbox unavailable",
                "tries      3 in ",
                "reason     failed · its tries are used up",
                "effects    none committed: whatever its turns did was undone with them",
                "again      may go to the end of its mailbox (0 waiting): R",
                f"to         {MAILER}:3",
                "cause      outside",
                '"to": "press@chronicle.example"',
            ):
                assert words in page, page
            await who.press("w")
            await who.until(lambda: '"to": "press@chronicle.example"}' in who.page)


async def test_a_workers_call_is_of_unknown_effect_and_not_sent_again_by_hand() -> None:
    async with MemoryStore() as store, trouble(store) as it:
        letter = await it.refused_call()
        async with looking(store) as who:
            await who.at(letter.number)
            assert "▲ unknown: it was a call to a worker that had begun" in who.page
            assert "✗ not by hand:" in who.page
            await who.press("R")
            await who.until(lambda: who.has_said("through its gate"))
            assert not isinstance(who.app.screen, TypedWord)


async def test_a_cause_a_mailbox_and_the_letter_before_are_a_key_away() -> None:
    async with MemoryStore() as store, trouble(store) as it:
        first = await it.rejected()
        await DeadLetters(Operations(store, "ann")).requeue(first.number)
        second = (await it.letters(2))[0]
        async with looking(store) as who:
            await who.at(second.number)
            assert f"before     dead letter {first.number}, sent again" in who.page
            await who.press("enter")
            lines = ["".join(piece.text for piece in line) for line, _ in who.pane.reader._lines]
            who.pane.reader._go(next(n for n, line in enumerate(lines) if line.startswith("before")))
            await who.press("enter")
            await who.until(
                lambda: who.pane._found is not None and who.pane._found.detail.letter.number == first.number
            )
            assert "settled    ↻ requeued by ann" in who.page, who.page
            await who.press("escape", "m")
            await who.until(lambda: isinstance(who.app.pane, MailboxesPane))
            await who.until(lambda: who.app.pane.address == f"{CLERK}:rejected")  # type: ignore[attr-defined]


async def test_a_filter_narrows_the_list_and_a_word_for_state_shows_what_was_done() -> None:
    async with MemoryStore() as store, trouble(store) as it:
        numbers = await rejected(it, 3)
        await it.failed()
        await DeadLetters(Operations(store, "ann")).discard(numbers[0])
        async with looking(store) as who:
            for wish, count in (
                ("tries>2", 1),
                ("reason:rejected", 2),
                ("state:discarded by:ann", 1),
                ("error:nowhere", 0),
            ):
                await who.press("slash")
                await who.type(wish)
                await who.press("enter")
                await who.until(partial(who.lists, count, wish))
            await who.until(lambda: "0 of 3 open ones match error:nowhere. esc clears" in who.text)
            await who.press("escape")
            await who.until(lambda: len(who.keys) == 3)


async def test_brackets_step_through_the_letters_and_o_opens_the_actor() -> None:
    async with MemoryStore() as store, trouble(store) as it:
        numbers = await rejected(it, 3)
        async with looking(store) as who:
            await who.at(numbers[2])
            await who.press("enter", "right_square_bracket", "right_square_bracket", "left_square_bracket")
            await who.until(lambda: who.pane._found is not None and who.pane._found.detail.letter.number == numbers[1])
            assert who.pane.reader.has_focus and who.pane.selected.startswith("died of    Reject: reason 1")
            await who.press("escape", "o")
            await who.until(lambda: isinstance(who.app.pane, ActorsPane))
            await who.press("escape")
            await who.until(lambda: who.app.pane is who.pane)


async def test_what_is_looked_for_in_a_letter_is_found() -> None:
    async with MemoryStore() as store, trouble(store) as it:
        letter = await it.failed()
        async with looking(store) as who:
            await who.at(letter.number)
            await who.press("enter", "slash")
            await who.type("chronicle")
            await who.until(lambda: "1 found" in who.text)
            await who.press("escape")
            assert who.pane.reader.has_focus


async def test_s_shows_the_oldest_first() -> None:
    async with MemoryStore() as store, trouble(store) as it:
        numbers = await rejected(it, 3)
        async with looking(store) as who:
            await who.until(lambda: who.keys == [str(number) for number in reversed(numbers)])
            await who.press("s")
            await who.until(lambda: who.keys == [str(number) for number in numbers])


# -- settling


async def test_r2_neither_enter_nor_esc_nor_another_word_settles_anything() -> None:
    async with MemoryStore() as store, trouble(store) as it:
        letter = await it.rejected()
        async with looking(store) as who:
            await who.at(letter.number)
            for key, wrong in (("R", "requeu"), ("D", "requeue")):
                await who.asked(key)
                await who.press(*["enter"] * 5)
                await who.type(wrong)
                await who.press("enter")
                assert isinstance(who.app.screen, TypedWord)
                await who.press("escape")
                await who.closed()
            await who.press("enter", "enter", "escape")
        found = await store.dead_letter(letter.number)
        assert found is not None and found.settled == "" and await store.audit() == []


async def test_a18_requeueing_says_what_will_happen_and_leaves_the_audit_row_that_the_command_leaves() -> None:
    async with MemoryStore() as store, trouble(store) as it:
        mine, theirs = await it.rejected("mine", "no"), await it.rejected("theirs", "no")
        await it.paused("mine", waiting=2)
        async with looking(store) as who:
            await who.at(mine.number)
            await who.until(lambda: who.counted == 2)
            await who.asked("R")
            assert "it died of Reject: no" in who.told and "none committed" in who.told
            assert f"then goes to the end of {CLERK}:mine (2 waiting), with no tries spent" in who.told
            assert "other 1 stays here" in who.told
            await who.type("requeue")
            await who.press("down")
            await who.type("mended")
            await who.press("enter")
            await who.closed()
            await who.until(lambda: str(mine.number) not in who.keys)
        again = (await store.peek(f"{CLERK}:mine"))[-1].envelope
        assert (again.failures, again.causation) == (0, mine.envelope.id)
        cli = Operations(store, Principal("mara", "cli", "desk"))
        await DeadLetters(cli).requeue(theirs.number, note="mended")
        by_cli, by_tui = await store.audit()
        assert (by_tui.channel, by_cli.channel) == ("tui", "cli")
        for field in ("who", "label", "host", "action", "before"):
            assert getattr(by_tui, field) == getattr(by_cli, field)
        assert by_tui.note == by_cli.note.replace("theirs", "mine") == f"ticket.update for {CLERK}:mine: mended"
        assert by_tui.object == f"dead-letter:{mine.number}" and by_tui.after.startswith("message:")


async def test_s14_two_people_requeue_at_once_and_the_second_learns_who_was_first() -> None:
    async with MemoryStore() as store, trouble(store) as it:
        letter = await it.rejected()
        async with looking(store) as mara, looking(store, name="jo") as jo:
            for who in (mara, jo):
                await who.at(letter.number)
                await who.asked("R")
                await who.type("requeue")
            await mara.press("enter")
            await mara.closed()
            await it.letters(2)
            await jo.press("enter")
            await jo.until(lambda: jo.has_said("was requeued by mara"))
        assert len([row for row in await store.audit() if row.action == "requeue"]) == 1
        assert len(await store.dead_letters(recipient=f"{CLERK}:rejected")) == 2, "sent again once"


async def test_discarding_wants_a_reason_and_the_letter_stays_readable() -> None:
    async with MemoryStore() as store, trouble(store) as it:
        letter = await it.rejected()
        async with looking(store) as who:
            await who.at(letter.number)
            dialog = await who.asked("D")
            await who.type("discard")
            await who.press("enter")
            assert who.app.screen is dialog, "no reason, no discard"
            await who.type("spam")
            await who.press("enter")
            await who.until(lambda: "No dead letters" in who.text)
            await who.pane.go_to(str(letter.number))
            await who.until(lambda: "settled    ■ discarded by mara" in who.page)
        [row] = await store.audit()
        assert (row.action, row.after, row.note) == (
            "discard",
            "discarded",
            f"ticket.update for {CLERK}:rejected: spam",
        )


async def test_marks_survive_live_updates_and_several_are_settled_each_with_its_outcome() -> None:
    async with MemoryStore() as store, trouble(store) as it:
        numbers = await rejected(it, 4)
        async with looking(store) as who:
            await who.until(lambda: len(who.keys) == 4)
            await who.press("space", "space", "space")
            marked = {str(number) for number in numbers[1:]}
            assert who.pane.table.marked == marked
            await it.rejected("late")
            who.app.action_look_now()
            await who.until(lambda: len(who.keys) == 5 and who.counted == 5)
            assert who.pane.table.marked == marked, "marks stay, and what is new is not marked"
            await who.asked("D")
            assert "Discard 3 dead letters" in who.text and "other 2" in who.told
            await DeadLetters(Operations(store, "ann")).discard(numbers[2])
            await who.type("discard")
            await who.press("down")
            await who.type("old")
            await who.press("enter")
            await who.until(lambda: isinstance(who.app.screen, Outcomes))
            text = who.text
            assert "2 discarded, 1 not" in text and "was discarded by ann" in text
            await who.press("escape")
            await who.until(lambda: len(who.keys) == 2)
            assert who.pane.table.marked == set()


async def test_star_marks_all_that_match_and_what_may_not_be_sent_again_is_left_out_and_told() -> None:
    async with MemoryStore() as store, trouble(store) as it:
        await rejected(it, 2)
        await it.refused_call()
        count = len(await it.letters(4))  # the caller hears of it, and does not take it either
        async with looking(store) as who:
            await who.until(lambda: len(who.keys) == count)
            await who.press("asterisk")
            await who.until(lambda: len(who.pane.table.marked) == count)
            assert who.has_said(f"{count} marked: all that match")
            await who.asked("R")
            prospects = await Settling(who.app.gateway.operations).prospects(range(1, count + 1), requeue=True)
            fitting = [one for one in prospects if not one.refusal]
            assert 2 <= len(fitting) < count
            assert f"Requeue {len(fitting)} dead letters" in who.text and "left out" in who.told
            assert "through its gate" in who.told
            await who.press("escape")
            await who.closed()
            await who.press("asterisk")
            await who.until(lambda: not who.pane.table.marked)
            await who.press("slash")
            await who.type("error:reason")
            await who.press("enter")
            await who.until(lambda: len(who.keys) == 2)
            await who.press("asterisk")
            await who.until(lambda: len(who.pane.table.marked) == 2)


async def test_several_are_sent_again_one_after_the_other_and_esc_stops_in_between(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with MemoryStore() as store, trouble(store) as it:
        await rejected(it, 3)
        await it.paused("x", waiting=0)
        async with looking(store) as who:
            waits: list[float] = []

            async def wait(seconds: float) -> None:
                waits.append(seconds)
                if seconds == 0.1:  # the frame sleeps too, and has nothing to leave
                    await who.pane.run_action("leave")

            monkeypatch.setattr(who.app.gateway.port, "sleep", wait)
            await who.until(lambda: len(who.keys) == 3)
            await who.press("asterisk")
            await who.until(lambda: len(who.pane.table.marked) == 3)
            await who.asked("R")
            await who.type("requeue")
            await who.press("enter")
            await who.closed()
            await who.until(lambda: len([1 for letter in store.tables.dead if letter.settled]) >= 2)
        assert 0.1 in waits, "a tenth of a second apart"
        assert len([letter for letter in store.tables.dead if letter.settled]) == 2, "it stopped before the third"


# -- the rest


async def test_r4_what_comes_in_does_not_move_the_cursor_and_is_counted_above() -> None:
    async with MemoryStore() as store, trouble(store) as it:
        await rejected(it, 3)
        async with looking(store) as who:
            await who.until(lambda: len(who.keys) == 3)
            here = who.pane.table.cursor_key
            await it.rejected("late")
            who.app.action_look_now()
            await who.until(lambda: len(who.keys) == 4)
            assert who.pane.table.cursor_key == here and "1 new ↑" in who.text


async def test_r7_hostile_text_reaches_the_screen_only_as_escapes() -> None:
    async with MemoryStore() as store, trouble(store) as it:
        letter = await it.failed("bad", HOSTILE)
        async with looking(store) as who:
            await who.at(letter.number)
            assert "[red]X[/red]" in who.page and "\\x1b" in who.page
            assert not [one for one in RAW if one in who.text]
            await who.asked("R")
            assert not [one for one in RAW if one in who.text] and "[red]X" in who.told
            assert not [one for one in RAW if one in who.page + who.told]


async def test_who_may_only_look_settles_nothing() -> None:
    async with MemoryStore() as store, trouble(store) as it:
        letter = await it.rejected()
        async with looking(store, scopes=frozenset({"read"})) as who:
            await who.at(letter.number)
            for key in ("R", "D"):
                await who.press(key)
                assert not isinstance(who.app.screen, Dialog)
            await who.until(lambda: who.has_said("may only look"))


async def test_r10_what_was_typed_stays_while_the_database_is_away_and_is_sent_when_it_is_back() -> None:
    async with MemoryStore() as store, trouble(store) as it:
        letter = await it.rejected()
        wire = Line(store)
        async with looking(wire) as who:
            await who.at(letter.number)
            dialog = await who.asked("R")
            await who.type("requeue")
            wire.cut()
            await who.until(lambda: who.app.off)
            await who.press("enter")
            assert who.app.screen is dialog and dialog.query(Input).first().value == "requeue"
            wire.mend()
            who.app.action_look_now()
            for _ in range(50):  # a store that takes a second to answer is away, which a busy machine may be
                await who.until(lambda: not who.app.off)
                await who.press("enter")
                if who.app.screen is not dialog:
                    break
            await it.letters(2)
        assert len([row for row in await store.audit() if row.action == "requeue"]) == 1


@pytest.mark.parametrize("size", [(80, 24), (60, 15)])
async def test_it_is_usable_where_there_is_little_room(size: tuple[int, int]) -> None:
    async with MemoryStore() as store, trouble(store) as it:
        letter = await it.rejected()
        async with looking(store, size) as who:
            await who.at(letter.number)
            assert "Reject: nobody" in who.text
            await who.press("enter")
            await who.until(lambda: "died of" in who.text and "effects" in who.text)
            await who.press("escape")
            await who.asked("R")
            assert "type requeue" in who.text and "it died of" in who.told


async def test_ten_thousand_are_walked_by_pages_to_the_very_end_and_back() -> None:
    async with MemoryStore() as store, trouble(store) as it:
        for part in range(10):
            await it.send(f"many-{part}", *(f"reject number {number}" for number in range(1_000)))

        async def all_dead() -> bool:
            return len(store.tables.dead) == 10_000

        await it.until(all_dead)
        wire = Line(store)
        async with looking(wire) as who:
            await who.until(lambda: who.keys[:1] == ["10000"])
            assert len(who.keys) <= 400
            wire.asked.clear()
            await who.press("G")
            await who.until(lambda: who.pane.table.cursor_key == "1")
            assert wire.asked.count("dead_letters") <= 40 and len(who.keys) <= 400
            await who.press("g")
            await who.until(lambda: who.pane.table.cursor_key == "10000")
            await who.pane.go_to("5000")
            who.app.action_look_now()
            await who.until(lambda: who.pane.table.cursor_key == "5000")
