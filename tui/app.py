"""The frame around all screens: masthead, row of screens, attention line, the screen, hold line, keys that work now.

It is the one place that knows whether anything may be changed (`off`), what time it is in the store (`now`), and what
is shown where; panes and dialogs ask it (see `pane`). It holds no rules: what may be done is asked of the operations.
"""

import contextlib
import time
from collections.abc import Iterator, Sequence
from typing import ClassVar

from textual import events, work
from textual.actions import parse
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.dom import DOMNode
from textual.filter import LineFilter
from textual.reactive import reactive
from textual.screen import Screen
from textual.widget import AwaitMount
from textual.widgets import ContentSwitcher, Static
from textual.worker import WorkerFailed

from callboard.mailbox.errors import CallboardError, StoreUnavailable
from callboard.persistence.port import Signal
from callboard.service.operations.views import ApprovalView
from callboard.service.operations.watching import AttentionLine
from callboard.service.safe import safe

from . import frame_lines as lines
from .frame_ascii import AsciiFilter
from .frame_bars import Bar, Tabs
from .frame_dialogs import dialog_of
from .frame_hold import Holds, sums_text, take_back_dialog
from .frame_keys import KeysLine, changes
from .frame_screen import FrameScreen
from .frame_style import CSS
from .frame_terminal import Title
from .gateway import Gateway
from .live import Live
from .pane import Pane
from .panes import PANES, Shown, load_in_turn
from .text import Line, Piece, content, line, piece, spell_currencies
from .themes import THEMES
from .times import AFTER, TimeStyle, when

SCREENS = ("actors", "approvals", "mailboxes", "dead", "runs", "audit", "system")
"""Names of the screens for `open_screen`, in the order of their numbers."""
TICK_SECONDS = 0.5
HELD_SHOWN = 100
QUIT_AGAIN_SECONDS = 5.0  # at most, between the two keys that quit where a text is half typed
TOO_LATE_SECONDS = 30.0  # for so long after a release `u` still says that it was too late


class CallboardApp(App[None]):
    """The terminal UI on one gateway.

    Args:
        environment: where this is ("prod-eu"), for the masthead.
        bell: ring, and count in the terminal's title, when something new waits.
    """

    ENABLE_COMMAND_PALETTE = False
    CSS = CSS
    CHANGES: ClassVar[frozenset[str]] = frozenset({"take_back"})
    SHOWN: ClassVar[Sequence[Shown]] = PANES
    """The seven screens."""
    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(str(number), f"screen({number})", pane.heading, show=False) for number, pane in enumerate(PANES, 1)),
        Binding("colon,ctrl+p", "palette", "every command by name", show=False),
        Binding("u", "take_back", "take back", show=False),
        Binding("c", "copy", "copy", show=False),
        Binding("F", "freeze", "freeze the view", show=False),
        Binding("ctrl+t", "times", "times: relative, local, UTC", show=False),
        Binding("ctrl+r", "look_now", "look now", show=False),
        Binding("escape", "come_back", "back, never decides", show=False),
        Binding("question_mark", "help", "help"),
        Binding("q", "quit", "quit"),
    ]
    # The base class has these as attributes of instances, so they cannot be said to be the class's.
    HORIZONTAL_BREAKPOINTS = [(0, "-tiny"), (60, "-narrow"), (100, "-wide"), (140, "-broad")]  # noqa: RUF012
    VERTICAL_BREAKPOINTS = [(0, "-short"), (30, "-tall")]  # noqa: RUF012

    style_of_times: reactive[TimeStyle] = reactive("relative", init=False)

    def __init__(
        self, gateway: Gateway, *, theme: str = "", ascii: bool = False, environment: str = "", bell: bool = True
    ) -> None:
        super().__init__()
        self.animation_level = "none"  # nothing here moves by itself
        self.gateway = gateway
        self.ascii_only = ascii
        self._ascii = AsciiFilter(ascii)
        self.environment = environment
        for one in THEMES:
            self.register_theme(one)
        self.theme = theme or THEMES[0].name
        self.attention: AttentionLine | None = None
        self.holds = Holds(gateway.principal.name)
        self.live = Live(
            gateway, line=self._read_line, pane=self._read_pane, changed=self._link_changed, trouble=self._trouble
        )
        self._title = Title(self, rings=bell)
        self._frozen_at: float | None = None
        self._look_once = True
        self._last_trouble = ""
        self.troubled = ""  # why what is shown is not all, or not new
        self._came_from: list[int] = []
        self._filled = Signal()
        self._asked_to_quit_at = -QUIT_AGAIN_SECONDS

    # -- what is where

    def get_default_screen(self) -> FrameScreen:
        """The screen that all this is on."""
        return FrameScreen(self.size, self.HORIZONTAL_BREAKPOINTS, self.VERTICAL_BREAKPOINTS)

    def compose(self) -> ComposeResult:
        with Vertical(id="frame"):
            yield Bar(id="masthead")
            yield Tabs(id="screens")
            yield Bar(id="banner")
            yield Bar(id="attention")
            with ContentSwitcher(initial="pane-1"):
                yield self.SHOWN[0].load()(id="pane-1")
            yield Bar(id="hold")
            yield KeysLine()
        yield Static(content("make me wider: 60 columns at least"), id="tiny")

    @property
    def base(self) -> Screen[object]:
        """The screen below all dialogs."""
        return self.screen_stack[0]

    @property
    def pane(self) -> Pane:
        """The screen that is shown."""
        switcher = self.base.query_one(ContentSwitcher)
        return switcher.query_one(f"#{switcher.current}", Pane)

    def _pane_there(self) -> Pane | None:
        # Screens are made when they are first shown, and the app is taken down screen by screen: it may not be whole.
        switcher = self.base.query_one_optional(ContentSwitcher) if self.screen_stack else None
        pane = switcher.query_one_optional(f"#{switcher.current}", Pane) if switcher and switcher.current else None
        return pane if pane is not None and pane.is_mounted else None

    def on_load(self) -> None:
        """Before there is any widget: each has its task from here."""
        spell_currencies(self.ascii_only)

    def on_mount(self) -> None:
        self.pane.take_focus()
        self._title.begin()
        self.show_frame()
        self.set_interval(TICK_SECONDS, self.show_frame)
        self.run_worker(self.live.run(), exclusive=True, group="live")

    def on_ready(self) -> None:
        """The first frame is drawn: load the other screens soon, so that none is waited for when it is asked for."""
        self.run_worker(load_in_turn(self.SHOWN, self.gateway.port, self._filled), group="load")

    def on_unmount(self) -> None:
        self._title.end()

    def on_resize(self) -> None:
        self.call_after_refresh(self.show_frame)

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Textual's, and the one that replaces signs."""
        return [*super().get_line_filters(), *([self._ascii] if self._ascii.enabled else [])]

    # -- for panes and dialogs

    @property
    def off(self) -> str:
        """Why nothing may be changed now; "" where it may."""
        if self.live.lost:
            return "the database is away, so nothing can be decided or changed; it goes on by itself when it is back"
        if self.gateway.readonly:
            return f"{self.gateway.principal.name} may only look here; start without --readonly to decide"
        return ""

    def refuse_change(self) -> bool:
        """Whether nothing may be changed now; it is said why."""
        if why := self.off:
            self.say(piece(why, "bad"), bad=True)
        return bool(why)

    def now(self) -> float:
        """The store's clock, in seconds since 1970."""
        return self.live.now()

    def when(self, at: float) -> str:
        """A moment as all moments are said now: relative, local or UTC; "" for 0."""
        return when(at, self.style_of_times, self.now())

    def open_screen(self, name: str, key: str = "") -> None:
        """Show another screen (one of `SCREENS`), with what `key` names selected there; esc comes back."""
        way = [*self._came_from, self._number]
        self._go_to(self._show(SCREENS.index(name) + 1), key)
        self._came_from = way
        self.refresh_bindings()

    @work(group="go", exclusive=True)
    async def _go_to(self, mounted: AwaitMount, key: str) -> None:
        pane = self.pane
        await self._take_up(mounted)
        if key:
            with self.complaining():
                await pane.go_to(key)
                self.live.look_at_pane()

    def held(self, view: ApprovalView) -> None:
        """Show an approval that can be taken back; `u` does it. Approvals made elsewhere are found at each beat."""
        self.holds.add(view)
        self.show_frame()

    def say(self, *parts: str | Piece | Line, bad: bool = False) -> None:
        """A word to the person in front, for a few seconds, at the lower edge."""
        self.notify(content(*parts).plain, markup=False, severity="error" if bad else "information")

    @contextlib.contextmanager
    def complaining(self) -> Iterator[None]:
        """Say what the operations refuse, in their own words, and go on."""
        try:
            yield
        except StoreUnavailable as error:
            self.say(piece(f"the database is away: {error}", "bad"), bad=True)
        except CallboardError as error:
            self.say(piece(str(error), "bad"), bad=True)

    async def look(self) -> None:
        """Let the pane that is shown look, soon; for those that have changed something themselves."""
        self._look_once = True
        self.live.look_now()

    # -- reading

    async def _read_line(self) -> None:
        self.attention = await self.gateway.watching.attention()
        held = self.attention.held
        self.holds.look(await self.gateway.decisions.list(status="approved", limit=HELD_SHOWN) if held else [])
        self.live.state.looked_at = self.gateway.port.monotonic()
        self._title.count(self.attention.to_decide, self.attention.dead + self.attention.escalated)
        self.show_frame()

    async def _read_pane(self) -> None:
        if self._frozen_at is not None and not self._look_once:
            return
        if (pane := self._pane_there()) is None:
            return  # it is looked at as soon as it is there
        self._look_once = False
        try:
            await pane.look()
            self.troubled = ""
            self._filled.set()
        except Exception:
            if self.is_running:  # else the screen was taken down around a read: what it would be shown on is gone
                raise

    def _handle_exception(self, error: Exception) -> None:
        if self.is_running or not isinstance(error, WorkerFailed):  # else it read on, as in `_read_pane`
            super()._handle_exception(error)

    def _link_changed(self) -> None:
        self.base.set_class(self.live.lost, "lost")
        self.show_frame()
        for screen in self.screen_stack:
            for keys in screen.query(KeysLine):
                keys.show_now()

    def _trouble(self, error: CallboardError) -> None:
        """What a read is refused: said once, as it is asked for again and again, and kept in sight until it works."""
        self.troubled = str(error)
        if str(error) != self._last_trouble:
            self._last_trouble = str(error)
            self.say(piece(f"not shown: {error}", "bad"), bad=True)

    # -- showing

    def show_frame(self) -> None:
        """Show all lines as they are now."""
        if not self.is_running or self.base.query_one_optional("#masthead") is None:
            return
        state, monotonic, now = self.live.state, self.gateway.port.monotonic(), self.now()
        masthead = self.base.query_one("#masthead", Bar)
        frozen = None if self._frozen_at is None else monotonic - self._frozen_at
        masthead.shown = lines.masthead(
            lines.Masthead(
                self.environment, self.attention, state, monotonic, now, self.style_of_times, self.gateway.principal,
                frozen,
            ),
            masthead.room,
        )  # fmt: skip
        badges = [lines.badge(name, self.attention) for name in SCREENS]
        tabs = lines.tabs([(one.heading, one.short) for one in self.SHOWN], badges, self._number)
        self.base.query_one(Tabs).show(lines.screens(tabs, masthead.room))
        self.base.query_one("#attention", Bar).shown = lines.attention(self.attention, now, masthead.room)
        banner = self.base.query_one("#banner", Bar)
        banner.shown = lines.warning(state, monotonic, self.style_of_times, self.troubled, masthead.room)
        self.base.set_class(bool(self.troubled) and not self.live.lost, "troubled")
        hold = self.base.query_one("#hold", Bar)
        hold.shown = self.holds.line(now, masthead.room, why_off=self.off)
        hold.display = bool(hold.shown)

    @property
    def _number(self) -> int:
        return int((self.base.query_one(ContentSwitcher).current or "pane-1").removeprefix("pane-"))

    # -- keys

    async def on_event(self, event: events.Event) -> None:
        """Keys that come too soon after a dialog opened are dropped here: they reach its fields past the dialog."""
        dialog = dialog_of(self._top)
        quits = isinstance(event, events.Key) and event.key == "ctrl+q"
        if dialog is not None and dialog.guards(event) and not quits:
            event.stop()
            return
        await super().on_event(event)

    @property
    def _top(self) -> Screen[object] | None:
        return self.screen_stack[-1] if self._screen_stacks.get(self._current_mode) else None

    async def run_action(
        self, action: object, default_namespace: DOMNode | None = None, namespaces: object = None
    ) -> bool:
        """As Textual does; but what changes something is refused, and said why, while nothing may be changed."""
        node = self if default_namespace is None else default_namespace
        if isinstance(action, str) and changes(node, action) and self.off:
            _, name, parameters = parse(action)
            if node.check_action(name, parameters):
                return self.refuse_change()
        return await super().run_action(action, default_namespace, namespaces)  # type: ignore[arg-type]

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Which of the frame's keys work now."""
        if action == "take_back":
            return bool(self.holds.at(self.now()) or self.holds.gone(self.now(), TOO_LATE_SECONDS))
        if action == "copy":
            return bool((pane := self._pane_there()) and pane.selected)
        if action == "come_back":
            return bool(self._came_from)
        return True

    async def on_tabs_wanted(self, wanted: Tabs.Wanted) -> None:
        await self.action_screen(wanted.number)

    async def action_screen(self, number: int) -> None:
        """Show another screen. The next key is taken when it is there, so that it gets it."""
        await self._take_up(self._show(number))

    def _show(self, number: int) -> AwaitMount:
        """Put a screen in sight; what is returned is awaited before it is used."""
        switcher, place = self.base.query_one(ContentSwitcher), f"pane-{number}"
        new = [] if switcher.query(f"#{place}") else [self.SHOWN[number - 1].load()(id=place)]
        mounted = switcher.mount(*new)
        switcher.current = place
        self._came_from.clear()
        self._look_once = True
        self.show_frame()
        return mounted

    async def _take_up(self, mounted: AwaitMount) -> None:
        await mounted
        self.pane.take_focus()
        self.call_after_refresh(self.live.look_at_pane)  # not before it has a width, for which rows are made
        self.refresh_bindings()

    async def action_come_back(self) -> None:
        """To the screen from which this one was opened."""
        before = self._came_from[:-1]
        await self.action_screen(self._came_from[-1])
        self._came_from = before
        self.refresh_bindings()

    def action_look_now(self) -> None:
        """Look at once, and try the database at once."""
        self._look_once = True
        self.live.look_now()

    def action_freeze(self) -> None:
        """Let the screen stay as it is; the world goes on. Again: go on looking."""
        self._frozen_at = self.gateway.port.monotonic() if self._frozen_at is None else None
        self._look_once = self._frozen_at is None
        self.live.look_at_pane()
        self.show_frame()

    def action_times(self) -> None:
        """Say times in the next of the three ways."""
        self.style_of_times = AFTER[self.style_of_times]
        self.say(f"times: {self.style_of_times.replace('utc', 'UTC')}")
        self.action_look_now()
        self.show_frame()

    def action_copy(self) -> None:
        """Put what is selected into the terminal's clipboard."""
        text = safe(self.pane.selected)
        self.copy_to_clipboard(text)
        self.say(f"copied {text}")

    def action_help(self) -> None:
        """The keys of this screen."""
        from .help import Help

        self.push_screen(Help(self.screen, self.pane.heading))

    def action_palette(self) -> None:
        """Every command by name."""
        from .palette import Palette

        self.push_screen(Palette(self.screen))

    @work(group="take_back", exclusive=True)
    async def action_take_back(self) -> None:
        """Take back the approval that the hold line shows."""
        view, note = self.holds.wanted(self.now()), ""
        if view is None:
            gone = self.holds.gone(self.now(), TOO_LATE_SECONDS)
            if gone is not None:
                self.say(piece(f"too late: {gone.tool} was let go {self.when(gone.release_at)}", "bad"), bad=True)
            return
        what = f"{view.tool} {sums_text(view)}".rstrip()
        if not self.holds.is_mine(view):
            said = await self.push_screen_wait(take_back_dialog(view, what))
            if said is None:
                return
            note = said
        with self.complaining():
            await self.gateway.decisions.take_back(view.id, note=note)
            self.holds.drop(view.id)
            self.say(f"taken back: {what} waits for a decision again")
            await self.look()
        self.show_frame()

    # -- leaving

    async def action_quit(self) -> None:
        """Leave; where a text is half typed, say so once."""
        typed = [one for one in map(dialog_of, self.screen_stack) if one is not None and one.half_typed]
        if typed and time.monotonic() - self._asked_to_quit_at > QUIT_AGAIN_SECONDS:
            self._asked_to_quit_at = time.monotonic()
            self.say(piece("a text is half typed here and would be lost; the same key again quits", "needs"), bad=True)
            return
        self.exit()

    def action_help_quit(self) -> None:
        """ctrl+c, which in a terminal UI ends nothing."""
        self.say(line("q quits (ctrl+q from anywhere); nothing was decided"))
