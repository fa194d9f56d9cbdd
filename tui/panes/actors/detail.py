"""The panel with one actor closely: tabs, of which only the one that is shown is read.

It reads when it is told to, and again when the list looks again; what costs more (a conversation, a state) less often.
"""

from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.message import Message
from textual.widgets import Static

from callboard.mailbox.errors import NotFound
from callboard.service.operations.lookup import KIND
from callboard.service.operations.watching import ActorGlance
from callboard.tui.frame_box import Box
from callboard.tui.look import state
from callboard.tui.pane import frame_of
from callboard.tui.table import Column, LineTable, Row
from callboard.tui.text import Line, content, line, piece

from . import detail_lines as told

TABS = {
    "Events": "the newest first",
    "Mailbox": "what waits, in order",
    "Transcript": "what was said, the latest last",
    "State": "after its last turn, read only",
    "Why": "why it does not move, and what to do",
}
"""Tabs, and what they tell."""
NOT_YET = "not there yet"
"""In place of the kind of an actor that has no row: only messages, or dead letters of them."""
SELDOM_SECONDS = 5.0
"""Between two reads of a conversation or a state."""
_SELDOM = ("Transcript", "State")


class TabName(Static):
    """A tab's name; a click shows it."""

    class Wanted(Message):
        """This tab is to be shown."""

        def __init__(self, name: str) -> None:
            super().__init__()
            self.tab = name

    def __init__(self, tab: str) -> None:
        super().__init__(content(tab))
        self.tab = tab

    def on_click(self, event: events.Click) -> None:
        event.stop()
        self.post_message(self.Wanted(self.tab))


class ActorText(LineTable):
    """What the tab shows, line by line: to lay out the screen anew for each step of the cursor would take too long."""

    DEFAULT_CSS = "ActorText .cb--rest { background: $background; }"

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__([Column("text", "", 10, grow=1)], id=id)

    @property
    def room(self) -> int:
        """Cells of a line: all but the cursor's bar, the gap after a column, and the bar at the side with its gap."""
        return max(20, self.size.width - 4)

    def fill(self, title: str, found: list[Line], *, fresh: bool) -> None:
        """Show these lines; `fresh`: they are about something else than those before."""
        self.columns = (Column("text", title, 10, grow=1),)
        self.show([Row(str(number), [one]) for number, one in enumerate(found)], fresh=fresh)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """A line opens nothing."""
        return False if action in ("open", "mark") else super().check_action(action, parameters)


class ActorDetail(Box):
    """One actor closely."""

    DEFAULT_CSS = """
    ActorDetail { height: 13; border: round $cb-line; border-title-color: $foreground; padding: 0 1; }
    ActorDetail:focus-within { border: round $cb-info; }
    ActorDetail #detail-tabs { height: 1; }
    ActorDetail TabName { width: auto; margin-right: 2; color: $cb-dim; }
    ActorDetail TabName.-on { color: $foreground; text-style: bold underline; }
    """

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.address = ""
        self.tab = "Events"
        self._kind = ""
        self._waiting = 0
        self._told = ""
        self._read: tuple[str, str] = ("", "")
        self._read_at = 0.0
        self._shown = ("", "")

    def compose(self) -> ComposeResult:
        with Horizontal(id="detail-tabs"):
            for name in TABS:
                yield TabName(name)
        yield ActorText(id="detail-text")

    def on_mount(self) -> None:
        self._show_tabs()
        self.hint(zoomed=False)

    def on_resize(self) -> None:
        """What is shown was wrapped for another width."""
        self._read = ("", "")

    def hint(self, *, zoomed: bool) -> None:
        """Say its keys; `zoomed`: it has the whole pane."""
        keys = "esc back · [ ] other actors · ← → tabs" if zoomed else "enter opens · ← → tabs"
        self.border_subtitle = content(piece(keys, "dim"))

    @property
    def tabs(self) -> list[str]:
        """Those that this actor has: only a run has a conversation."""
        return [name for name in TABS if name != "Transcript" or self._kind == KIND]

    def choose(self, glance: ActorGlance | None) -> None:
        """Show this actor from now on; what is known of it at once, the rest when it is read."""
        address = "" if glance is None else glance.address
        self._kind = "" if glance is None else glance.kind
        self._waiting = 0 if glance is None else glance.waiting
        if address != self.address:
            self.address = address
            self._fill([])
        if glance is None:
            self.border_title = content(piece("no actor", "dim"))
        else:
            parts = line(piece(address, "strong"), piece(f" · {glance.kind or NOT_YET} · ", "dim"), state(glance.word))
            self.border_title = content(parts)
        if self.tab not in self.tabs:
            self.tab = self.tabs[0]
        self._show_tabs()

    def turn(self, by: int) -> None:
        """Show the next tab, or the one before."""
        self.show_tab(self.tabs[(self.tabs.index(self.tab) + by) % len(self.tabs)])

    def show_tab(self, name: str) -> None:
        """Show this tab; `read` fills it."""
        if name in self.tabs and name != self.tab:
            self.tab = name
            self._fill([])
            self._show_tabs()

    def _show_tabs(self) -> None:
        for one in self.query(TabName):
            one.display = one.tab in self.tabs
            one.set_class(one.tab == self.tab, "-on")
            told = f"Mailbox {self._waiting or ''}".rstrip()
            if one.tab == "Mailbox" and self._told != told:
                moves = len(self._told) != len(told)  # else nothing on the screen is laid out anew for it
                self._told = told
                one.update(content(told), layout=moves)

    # -- reading

    async def read(self, glance: ActorGlance | None) -> None:
        """Read what is shown, and show it.

        Raises:
            StoreUnavailable.
        """
        if not self.address or not self.display:
            return
        asked = (self.address, self.tab)
        now = frame_of(self).gateway.port.monotonic()
        if asked == self._read and self.tab in _SELDOM and now - self._read_at < SELDOM_SECONDS:
            return
        try:
            found = await self._lines(glance)
        except NotFound as error:
            found = [line(piece(str(error), "dim"))]
        if asked == (self.address, self.tab):  # the cursor may have gone on meanwhile
            self._read, self._read_at = asked, now
            self._fill(found)

    async def _lines(self, glance: ActorGlance | None) -> list[Line]:
        frame = frame_of(self)
        from callboard.service.operations.closeup import Closeup

        closeup, inspection = Closeup(frame.gateway.operations), frame.gateway.inspection
        width = self.query_one(ActorText).room
        match self.tab:
            case "Events":
                events = told.event_lines(await closeup.happenings(self.address), width, frame.when)
                return [*told.doing_lines(glance, width), *events]
            case "Mailbox":
                return told.mailbox_lines(await inspection.mailbox(self.address), width, frame.when)
            case "Transcript":
                return told.said_lines(await closeup.conversation(self.address), width)
            case "State":
                return told.state_lines(await closeup.state(self.address), width)
        return told.why_lines(await inspection.actor(self.address), glance, width, frame.when)

    def _fill(self, found: list[Line]) -> None:
        fresh = self._shown != (self.address, self.tab)
        self._shown = (self.address, self.tab)
        self.query_one(ActorText).fill(TABS[self.tab], found, fresh=fresh)
