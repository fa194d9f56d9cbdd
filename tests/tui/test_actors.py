"""The screen of actors on real nodes: what is shown, each of its keys, and that nothing moves under the cursor."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from textual.content import Content
from textual.pilot import Pilot

from callboard.persistence.memory import MemoryStore
from callboard.persistence.store import Store
from callboard.service.operations.principal import ALL_SCOPES, Principal, Scope
from callboard.tui.app import CallboardApp
from callboard.tui.dialog import Dialog, TypedWord
from callboard.tui.gateway import Gateway
from callboard.tui.panes.actors import ActorsPane
from callboard.tui.panes.actors.detail import ActorText

from .conftest import screen_text, until, until_shown
from .desk import desk
from .trouble import CLERK, Trouble, trouble

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Dialog, "settle_seconds", 0.0)


class Stage:
    """A person in front of the screen."""

    def __init__(self, app: CallboardApp, pilot: Pilot[None]) -> None:
        self.app, self.pilot = app, pilot
        pane = app.pane
        assert isinstance(pane, ActorsPane)
        self.pane = pane

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)

    async def until(self, condition: Callable[[], object]) -> None:
        await until(self.pilot, condition)

    @property
    def text(self) -> str:
        return screen_text(self.app)

    @property
    def title(self) -> str:
        return Content.from_markup(str(self.app.query_one("#actors-list-box").border_title)).plain

    @property
    def keys(self) -> list[str]:
        return [row.key for row in self.pane.table.rows]

    @property
    def detail(self) -> str:
        rows = self.pane.query_one(ActorText).rows
        return "\n".join("".join(part.text for part in row.cells[0]) for row in rows)

    async def at(self, key: str) -> None:
        """With the cursor on this actor."""
        await self.until(lambda: key in self.keys)
        assert self.pane.table.select(key)
        await self.until(lambda: self.pane.current is not None and self.pane.current.address == key)


@asynccontextmanager
async def looking(
    store: Store,
    size: tuple[int, int] = (120, 36),
    *,
    scopes: frozenset[Scope] = ALL_SCOPES,
    chaos: bool = True,
) -> AsyncIterator[Stage]:
    app = CallboardApp(Gateway(store, Principal("mara", "tui", "desk", scopes, chaos=chaos)))
    async with app.run_test(size=size, notifications=True) as pilot:
        stage = Stage(app, pilot)
        await stage.until(lambda: stage.pane._listing is not None and stage.pane._listing.known)
        yield stage


@asynccontextmanager
async def office(size: tuple[int, int] = (120, 36), **who: object) -> AsyncIterator[tuple[Trouble, Stage]]:
    async with MemoryStore() as store, trouble(store) as it:
        await it.paused()
        await it.parked()
        for key in ("1", "2", "3"):
            await it.send(key, "ok")
            await it.row(key)
        async with looking(store, size, **who) as stage:  # type: ignore[arg-type]
            await stage.until(lambda: len(stage.keys) == 6)
            yield it, stage


# -- what is shown


async def test_what_needs_attention_is_first_and_the_rest_in_order_of_address() -> None:
    async with office() as (_, stage):
        assert stage.keys == [
            f"{CLERK}:parked", f"{CLERK}:paused", "/office", f"{CLERK}:1", f"{CLERK}:2", f"{CLERK}:3"
        ]  # fmt: skip
        await stage.until(lambda: "all 6 · attention first" in stage.title)


async def test_r9_states_are_told_by_glyph_and_word_before_any_colour() -> None:
    async with office() as (_, stage):
        await until_shown(stage.pilot, "‖ PARKED", "‖ PAUSED", "○ IDLE", "the sum is odd", "by ann")


@pytest.mark.parametrize("size", [(120, 36), (80, 24), (60, 15)])
async def test_a14_states_and_names_are_readable_at_each_size(size: tuple[int, int]) -> None:
    async with office(size) as (_, stage):
        await until_shown(stage.pilot, "clerk:parked", "‖ PARKED")
        assert ("Supervision" in stage.text) == (size[0] >= 100)


async def test_the_tree_counts_what_is_below_and_hides_by_t() -> None:
    async with office() as (_, stage):
        await until_shown(stage.pilot, "clerk 5", "‖2")
        await stage.press("t")
        await stage.until(lambda: "Supervision" not in stage.text)
        await stage.press("t")
        await stage.until(lambda: "Supervision" in stage.text)


async def test_on_a_narrow_screen_t_brings_the_tree_and_takes_the_keys_there() -> None:
    async with office((80, 24)) as (_, stage):
        await stage.press("t")
        await stage.until(lambda: "Supervision" in stage.text and stage.pane.supervision.has_focus)
        await stage.press("j", "j", "enter")
        await stage.until(lambda: "Supervision" not in stage.text and len(stage.keys) == 5)
        await stage.press("t", "t")
        await stage.until(lambda: "Supervision" not in stage.text and stage.pane.table.has_focus)


async def test_a_node_of_the_tree_restricts_the_list_to_its_subtree() -> None:
    async with office() as (_, stage):
        await stage.until(lambda: len(stage.pane.supervision.rows) == 3)
        stage.pane.supervision.focus()
        await stage.press("j", "j", "enter")
        await stage.until(lambda: len(stage.keys) == 5)
        assert "/office" not in stage.keys and CLERK in stage.title
        await stage.press("g", "enter")
        await stage.until(lambda: len(stage.keys) == 6)


async def test_nodes_of_the_tree_open_and_close_by_right_and_left() -> None:
    async with office() as (_, stage):
        tree = stage.pane.supervision
        await stage.until(lambda: len(tree.rows) == 3)
        tree.focus()
        await stage.press("j", "left")
        await stage.until(lambda: len(tree.rows) == 2)
        await stage.press("right")
        await stage.until(lambda: len(tree.rows) == 3)
        await stage.press("j", "left")
        assert tree.cursor_key == "/office"


async def test_no_actors_yet_says_how_to_start_one() -> None:
    async with MemoryStore() as store, looking(store) as stage:
        await stage.until(lambda: "No actors yet" in stage.text)
        assert "callboard run" in stage.text


# -- the cursor, and what comes by itself


async def test_r4_the_cursor_stays_on_its_actor_when_others_come_before_it() -> None:
    async with office() as (it, stage):
        await stage.at(f"{CLERK}:2")
        await it.parked("0")
        await it.send("00", "ok")
        await stage.until(lambda: f"{CLERK}:0" in stage.keys[:3] and f"{CLERK}:00" in stage.keys)
        assert stage.pane.table.cursor_key == f"{CLERK}:2"


async def test_r3_a_new_request_takes_neither_the_focus_nor_the_cursor() -> None:
    async with desk() as d:
        await d.refund("480.00")
        async with looking(d.store) as stage:
            await stage.until(lambda: "◆ NEEDS YOU" in stage.text)
            before = (stage.app.focused, stage.pane.table.cursor_key, len(stage.app.screen_stack))
            await d.refund("89.90", order="A-20932")
            await stage.until(lambda: sum(one.word == "NEEDS YOU" for one in stage.pane.listing.items) == 2)
            assert (stage.app.focused, stage.pane.table.cursor_key, len(stage.app.screen_stack)) == before


async def test_what_an_actor_is_at_is_looked_at_again_each_second() -> None:
    async with office() as (it, stage):
        await stage.at(f"{CLERK}:1")
        await it.send("1", "wait", "ok", "ok")
        await stage.until(lambda: stage.pane.current is not None and stage.pane.current.waiting >= 2)
        await until_shown(stage.pilot, "● RUNNING")


# -- filters


async def test_a_filter_shows_what_fits_and_its_chips_and_esc_takes_it_away() -> None:
    async with office() as (_, stage):
        await stage.press("slash", *"state:parked,paused", "enter")
        await stage.until(lambda: stage.keys == [f"{CLERK}:parked", f"{CLERK}:paused"])
        await stage.until(lambda: "state:parked,paused · 2 of 6" in stage.title)
        await stage.press("escape")
        await stage.until(lambda: len(stage.keys) == 6 and "state:" not in stage.title)


FOUND = {
    "address:/office/clerk:p": ["parked", "paused"],
    "kind:clerk mbox>2": ["paused"],
    "state:idle -address:*:1 kind:clerk": ["2", "3"],
    "odd": ["parked"],
    "oldest>1h": [],
}


async def test_a_filter_goes_by_each_of_its_fields() -> None:
    async with office() as (_, stage):
        for typed, found in FOUND.items():
            stage.pane.bar.put(typed)
            wanted = [f"{CLERK}:{key}" for key in found]
            await stage.until(lambda wanted=wanted: stage.keys == wanted)  # type: ignore[misc]


async def test_a_filter_that_fits_nothing_says_so_and_how_to_clear_it() -> None:
    async with office() as (_, stage):
        stage.pane.bar.put("state:dead kind:clerk")
        await stage.until(lambda: "0 of 6 actors match state:dead kind:clerk" in stage.text)
        assert "esc clears" in stage.text


async def test_a_filter_is_kept_while_another_screen_is_shown() -> None:
    async with office() as (_, stage):
        stage.pane.bar.put("state:parked")
        await stage.until(lambda: len(stage.keys) == 1)
        await stage.press("7")
        await stage.until(lambda: stage.app.pane is not stage.pane)
        await stage.press("1")
        await stage.until(lambda: stage.app.pane is stage.pane)
        assert stage.pane.filter.text == "state:parked" and len(stage.keys) == 1


# -- order


async def test_s_sorts_by_address_and_shift_s_turns_it_around() -> None:
    async with office() as (_, stage):
        await stage.press("s")
        await stage.until(lambda: stage.keys == sorted(stage.keys) and "by address" in stage.title)
        await stage.press("S")
        await stage.until(lambda: stage.keys == sorted(stage.keys, reverse=True) and "backwards" in stage.title)
        await stage.press("s")
        await stage.until(lambda: stage.keys[0] == f"{CLERK}:parked")


# -- one actor closely


async def test_the_tabs_tell_events_mailbox_state_and_why() -> None:
    async with office() as (_, stage):
        await stage.at(f"{CLERK}:paused")
        await stage.until(lambda: "by ann" in stage.detail and "sys.pause" in stage.detail)
        await stage.press("right")
        await stage.until(lambda: "ticket.update" in stage.detail)
        await stage.press("right")
        await stage.until(lambda: '"tasks"' in stage.detail)
        await stage.press("right")
        await stage.until(lambda: "paused by ann: the customer is on the phone" in stage.detail)
        assert f"callboard actors resume {CLERK}:paused" in stage.detail
        await stage.at("/office")
        await stage.press("right")
        await stage.until(lambda: "sys.supervision.started" in stage.detail)


async def test_enter_opens_one_actor_on_the_whole_pane_and_esc_comes_back() -> None:
    async with office((80, 24)) as (_, stage):
        await stage.at(f"{CLERK}:paused")
        await stage.press("enter")
        await stage.until(lambda: stage.pane.detail.display and "sys.pause" in stage.detail)
        assert not stage.pane.table.is_on_screen
        await stage.press("left_square_bracket")
        await stage.until(lambda: stage.pane.detail.address == f"{CLERK}:parked")
        await stage.press("escape")
        await stage.until(lambda: stage.pane.table.has_focus)


async def test_a_run_has_a_transcript_and_its_words_are_behind_a_bar() -> None:
    async with desk() as d:
        await d.refund("480.00")
        async with looking(d.store) as stage:
            await stage.until(lambda: stage.pane.current is not None and stage.pane.current.run_id)
            await stage.press("right", "right")
            await stage.until(lambda: "│ Let me check the order." in stage.detail)


# -- to other screens


async def test_m_r_and_a_open_its_mailbox_its_run_and_what_it_asks_for() -> None:
    async with desk() as d:
        view = await d.row(await d.refund("480.00"))
        async with looking(d.store) as stage:
            opened: list[tuple[str, str]] = []
            stage.app.open_screen = lambda name, key="": opened.append((name, key))  # type: ignore[method-assign]
            await stage.until(lambda: stage.pane.current is not None and stage.pane.current.decision)
            await stage.press("m", "r")
            await stage.until(lambda: len(opened) == 2)
            assert opened == [("mailboxes", view.run_address), ("runs", view.run_id)]
            await stage.press("a")
            await stage.until(lambda: len(stage.app.screen_stack) == 2)
            await stage.press("enter", "enter", "escape")
            await stage.until(lambda: len(stage.app.screen_stack) == 1)
            assert (await d.row(view.id)).status == "pending"


async def test_o_goes_to_the_supervisor_of_an_actor() -> None:
    async with office() as (_, stage):
        await stage.at(f"{CLERK}:3")
        await stage.press("o")
        await stage.until(lambda: stage.pane.table.cursor_key == "/office")


async def test_another_screen_can_go_to_an_actor_whatever_is_filtered() -> None:
    async with office() as (_, stage):
        stage.pane.bar.put("state:parked")
        await stage.until(lambda: len(stage.keys) == 1)
        stage.app.open_screen("actors", f"{CLERK}:3")
        await stage.until(lambda: stage.pane.table.cursor_key == f"{CLERK}:3")
        assert not stage.pane.filter


async def test_c_copies_the_address() -> None:
    async with office() as (_, stage):
        await stage.at(f"{CLERK}:3")
        await stage.press("c")
        await stage.until(lambda: stage.app.clipboard == f"{CLERK}:3")


# -- asking something of actors


async def test_p_pauses_an_actor_and_lets_it_go_on() -> None:
    async with office() as (it, stage):
        await stage.at(f"{CLERK}:2")
        await stage.press("p")
        assert (await it.row("2", "paused")).reason == "paused by mara"
        await stage.until(lambda: stage.pane.current is not None and stage.pane.current.word == "PAUSED")
        await stage.press("p")
        await it.row("2", "active")
        rows = [(row.action, row.who, row.channel) for row in await it.store.audit(object=f"{CLERK}:2")]
        assert sorted(rows) == [("pause", "mara", "tui"), ("resume", "mara", "tui")]


async def test_shift_p_pauses_a_subtree_by_a_typed_word_and_resumes_it_by_another() -> None:
    async with office() as (it, stage):
        await stage.until(lambda: len(stage.pane.supervision.rows) == 3)
        stage.pane.supervision.focus()
        await stage.press("G", "P")
        await stage.until(lambda: isinstance(stage.app.screen, TypedWord))
        await stage.press("enter", *"paus", "enter")
        assert isinstance(stage.app.screen, TypedWord), "neither enter alone nor half a word does anything"
        await stage.press("e", "enter")
        for key in ("1", "2", "3"):
            await it.row(key, "paused")
        assert [row.object for row in await it.store.audit() if row.action == "pause below"] == [CLERK]
        await stage.until(lambda: not isinstance(stage.app.screen, TypedWord))
        await stage.press("P")
        await stage.until(lambda: isinstance(stage.app.screen, TypedWord))
        await stage.press(*"resume", "enter")
        for key in ("1", "2", "3", "paused"):
            await it.row(key, "active")


async def test_r2_shift_k_kills_by_the_actors_own_key_and_esc_leaves_it() -> None:
    async with office() as (it, stage):
        await stage.at(f"{CLERK}:2")
        before = await it.row("2")
        await stage.press("K")
        await stage.until(lambda: isinstance(stage.app.screen, TypedWord))
        assert "its supervisor /office decides" in stage.text
        await stage.press("enter", "enter", "escape")
        await stage.until(lambda: not isinstance(stage.app.screen, TypedWord))
        assert not [row for row in await it.store.audit() if row.action == "kill"]
        await stage.press("K")
        await stage.until(lambda: isinstance(stage.app.screen, TypedWord))
        await stage.press("2", "enter")
        await it.until(lambda: _born_again(it, "2", before.incarnation))
        assert [row.who for row in await it.store.audit() if row.action == "kill"] == ["mara"]


async def _born_again(it: Trouble, key: str, before: int) -> bool:
    row = await it.store.actor(f"{CLERK}:{key}")
    return row is not None and row.incarnation > before


async def test_shift_k_is_no_key_where_chaos_is_not_allowed() -> None:
    async with office(chaos=False) as (it, stage):
        await stage.at(f"{CLERK}:2")
        await stage.press("K", "2", "enter")
        assert not any(isinstance(one, TypedWord) for one in stage.app.screen_stack)
        assert not [row for row in await it.store.audit() if row.action == "kill"]


async def test_readonly_changes_nothing_and_says_why() -> None:
    async with office(scopes=frozenset({"read"})) as (it, stage):
        await stage.at(f"{CLERK}:2")
        for key in ("p", "P", "K"):
            await stage.press(key)
            await stage.until(lambda: "may only look here" in stage.text)
            stage.app.clear_notifications()
            await stage.until(lambda: "may only look here" not in stage.text)
            assert len(stage.app.screen_stack) == 1
        assert await it.store.audit() == []


async def test_what_the_operations_refuse_is_said_in_their_words() -> None:
    async with office(scopes=frozenset({"read", "approve"})) as (it, stage):
        await stage.at(f"{CLERK}:2")
        await stage.press("p")
        await stage.until(lambda: "takes the scope 'operate'" in stage.text.replace("\n", " "))
        assert await it.store.audit() == []


async def test_hostile_text_in_a_reason_reaches_no_terminal() -> None:
    async with MemoryStore() as store, trouble(store) as it:
        await it.send("x", "park \x1b]52;c;aGk=\x07 [red]stop[/red] \u202e480")
        await it.row("x", "parked")
        async with looking(store, (160, 40)) as stage:
            await stage.until(lambda: "‖ PARKED" in stage.text)
            await stage.until(lambda: "[red]stop[/red]" in stage.text)
            assert not {"\x1b", "\x07", "\u202e"} & set(stage.text)
