"""The screen of runs: which there are, and what happened in one of them, while it happens.

List and waterfall stand side by side where there is room; enter gives the waterfall all of it, esc takes it back. The
journal of the run that is shown is read on for as long as it is in sight and the run has not ended: what was folded is
never folded again, and only lines in sight are drawn, so that a run of any length costs a screen.
"""

from typing import ClassVar

from textual import events, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.geometry import Size

from callboard.mailbox.errors import CallboardError, NotFound, StoreUnavailable
from callboard.service.following import CAP_LOOK_SECONDS, Journal
from callboard.service.operations.filters import Field
from callboard.service.operations.lookup import find_run, run_id_of
from callboard.service.operations.views import RunView
from callboard.tui.decide import decide
from callboard.tui.filter_bar import FilterBar, FilteredPane, filter_title
from callboard.tui.look import state
from callboard.tui.table import LineTable
from callboard.tui.text import Line, content, line, piece
from callboard.tui.times import clock
from callboard.tui.trace_detail import details
from callboard.tui.trace_event import EventBox, EventDialog, Tell, title_of
from callboard.tui.trace_fold import Timeline
from callboard.tui.trace_view import TraceView

from . import acts, rows
from .listing import Listing

TRACE_FIELDS = (Field("line", "text", "its name"), Field("event", "text", "types of its events"), Field("text", "text"))
LOOK_SECONDS = 0.1
"""Between two looks at a journal that grows: nobody reads faster."""
PAGE = 1_000
"""Events that are read at once: the first of a long run are shown while the others are read."""
SHARE = 4
"""Drawing a run that grows takes one part of the time in so many."""
PREVIEW_SECONDS = 0.12
"""So long the cursor rests on a run before its journal is read for the preview."""


class RunsPane(FilteredPane):
    """The screen of runs."""

    heading: ClassVar[str] = "Runs"
    short: ClassVar[str] = "Runs"
    CHANGES: ClassVar[frozenset[str]] = frozenset({"replay", "tell", "cancel", "pause"})
    DEFAULT_CSS = """
    RunsPane { layout: vertical; }
    RunsPane.-beside { layout: horizontal; }
    RunsPane #runs-side { width: 1fr; height: 2fr; border: round $cb-line; border-title-color: $cb-info; }
    RunsPane #runs-side:focus-within { border: round $cb-info; }
    RunsPane #trace-side { width: 1fr; height: 3fr; }
    RunsPane.-beside #runs-side, RunsPane.-beside #trace-side { height: 1fr; }
    RunsPane EventBox { display: none; }
    RunsPane.-reading EventBox, RunsPane.-beside EventBox { display: block; }
    RunsPane #trace-box { height: 1fr; border: round $cb-line; border-title-color: $cb-info; }
    RunsPane #trace-box:focus-within { border: round $cb-info; }
    RunsPane.-reading #runs-side { display: none; }
    RunsPane.-single #trace-side { display: none; }
    RunsPane.-single.-reading #trace-side { display: block; }
    RunsPane.-short EventBox { height: 7; }
    RunsPane.-low #event-box { display: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        # Both: what a class binds to a key takes the place of what its base bound to it.
        Binding("escape", "clear_filter", "clear the filter", show=False),
        Binding("escape", "leave_run", "all runs", key_display="esc"),
        Binding("a", "decide", "decide"),
        Binding("x", "replay", "replay from here…"),
        Binding("e", "tell", "say something…", show=False),
        Binding("v", "verify", "verify", show=False),
        Binding("p", "pause", "pause or resume", show=False),
        Binding("X", "cancel", "cancel the run…", show=False),
        Binding("m", "mailbox", "its mailbox", show=False),
        Binding("o", "actor", "its actor", show=False),
        Binding("w", "raw", "as stored", show=False),
    ]

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.listing: Listing | None = None
        self.address = ""
        """Of the run whose trace is shown."""
        self.view: RunView | None = None
        self.wrong = ""
        """Why its trace cannot be shown; "" where it can."""
        self.trace = TraceView(self._clock)
        self.table = LineTable(rows.columns(80), id="runs")

    def compose(self) -> ComposeResult:
        with Vertical(id="runs-side"):
            yield self.table
            yield FilterBar(rows.FIELDS, id="filter-bar")
        with Vertical(id="trace-side"):
            with Vertical(id="trace-box"):
                yield self.trace
                yield FilterBar(TRACE_FIELDS, id="trace-bar")
            yield EventBox(hint="x replay from here", id="event-box")

    # --- what is shown -----------------------------------------------------------------------------------------

    @property
    def bar(self) -> FilterBar:
        return self.query_one("#filter-bar", FilterBar)

    @property
    def reading(self) -> bool:
        """Whether one run has all the room."""
        return self.has_class("-reading")

    @property
    def run_id(self) -> str:
        """Of the run whose trace is shown."""
        return run_id_of(self.address) if self.address else ""

    @property
    def selected(self) -> str:
        key = self.address if self.reading else self.table.cursor_key
        return run_id_of(key) if key else ""

    def _clock(self, at: float) -> str:
        return clock(at, self.frame.style_of_times, now=at)

    async def look(self) -> None:
        """Read the list again, and the trace's heading."""
        if self.listing is None:
            self.listing = Listing(self.gateway.watching, self.filter)
        now = self.frame.now()
        if not self.reading or not self.listing.known:
            await self.listing.look(now)
            self._show_list()
        if self.address:
            await self._look_at_run()

    async def _look_at_run(self) -> None:
        try:
            self.view = await self.gateway.operations.run(self.address)
        except NotFound:
            self.view = None
        self._show_trace()
        self.refresh_bindings()

    def _show_list(self, *, fresh: bool = False) -> None:
        listing = self.listing
        if listing is None or not listing.known:
            return
        self.table.columns = rows.columns(self.table.size.width)
        shown = [rows.row(one, self.frame.when) for one in listing.items]
        self.table.show(shown, start=listing.start, end=listing.end, fresh=fresh)
        if self.filter:
            self.table.say_when_empty(line("No run fits. ", piece("esc", "key"), " shows all of them."))
        else:
            self.table.say_when_empty(
                line("No runs yet. They appear here by themselves."),
                line(piece("start one: callboard run APP GOAL", "dim")),
            )
        box = self.query_one("#runs-side")
        first, last = self.table.sight
        more = "" if listing.end else "+"
        box.border_title = filter_title("Runs", self.filter, piece("newest first", "dim"))
        subtitle = f"{first}–{last} of {len(listing.items):,}{more}" if listing.items else ""
        box.border_subtitle = content(piece(subtitle, "dim"))

    def _show_trace(self) -> None:
        self.trace.show(self.frame.now())
        box = self.query_one("#trace-box")
        box.border_title = content(*self._trace_title())
        keys = "z unfold · " if self.trace.folded else "z fold · "
        zoom = f"zoom ×{self.trace.zoomed} · " if self.trace.zoom else ""
        box.border_subtitle = content(piece(f"{keys}{zoom}+/- zoom · [ ] step · f failed only", "dim"))
        self._show_event()

    def _trace_title(self) -> list[Line]:
        if not self.address:
            return [line(piece("Trace", "title"))]
        parts = [line(piece("Run ", "title"), piece(self.run_id, "title"))]
        if self.wrong:
            return [*parts, line(piece(f" · {self.wrong}", "bad"))]
        if self.view is not None:
            run = self.view.state
            stands = self.view.actor_status not in (None, "active", "completed", "cancelled")
            word = rows.word_of(str(self.view.actor_status) if stands else run.status)
            if self.view.actor_status is None:
                word = rows.word_of("recorded")
            parts.append(line(piece(" · ", "dim"), state(word)))
            parts.append(line(piece(f" · {self.view.why_still or run.goal}", "dim")))
        if self.trace.failed:
            parts.insert(1, line(piece(" · failed only", "needs")))
        parts[1:1] = [line(piece(f" · {chip}", "needs")) for chip in self.trace.filter.chips]
        return parts

    def _tell(self, by: int = 0) -> Tell | None:
        """What is to be told of the line under the cursor, after so many steps."""
        if by:
            self.trace.action_step(by)
        stretch = self.trace.at
        if stretch is None:
            return None

        def tell(width: int, raw: bool) -> tuple[Line, list[Line]]:
            told = details(stretch, self.trace.timeline, width, self._moment, now=self.trace.now, raw=raw)
            return title_of(*self.trace.place(stretch), stretch.label), told

        return tell

    def _moment(self, at: float) -> str:
        style = self.frame.style_of_times
        return clock(at, style, now=self.frame.now(), millis=True)

    def _show_event(self) -> None:
        box = self.query_one(EventBox)
        if box.display:
            box.show(self._tell())

    # --- reading a run -----------------------------------------------------------------------------------------

    @work(group="trace", exclusive=True)
    async def _open(self, address: str, *, pause: float = 0.0) -> None:
        """Show this run's trace and read on in its journal, until another one is shown."""
        port = self.gateway.port
        if pause:
            await port.sleep(pause)
        timeline = Timeline()
        self.address, self.view, self.wrong = address, None, ""
        self.query_one("#trace-bar", FilterBar).put("")
        self.trace.open(timeline)
        journal = Journal(self.gateway.store, address, timeline.feed, page=PAGE)
        wait = 0.0
        while not timeline.marks.state.finished:
            await port.sleep(wait)
            if not self._in_sight:
                wait = CAP_LOOK_SECONDS
                continue
            before = journal.seen
            try:
                await journal.look()
                if self.view is None:
                    await self._look_at_run()
            except StoreUnavailable:
                wait = CAP_LOOK_SECONDS
                continue
            except CallboardError as error:
                self.wrong = str(error)
                self._show_trace()
                return
            grown = journal.seen - before
            if grown:
                began = port.monotonic()
                self._show_trace()
                wait = 0.0 if grown >= PAGE else max(LOOK_SECONDS, SHARE * (port.monotonic() - began))
            else:
                wait = min(max(2 * wait, LOOK_SECONDS), CAP_LOOK_SECONDS)
        await self._last_look()

    async def _last_look(self) -> None:
        """How it has ended."""
        try:
            await self._look_at_run()
        except StoreUnavailable:
            self._show_trace()

    @property
    def _in_sight(self) -> bool:
        return self.is_attached and self.frame.pane is self

    def read(self, address: str) -> None:
        """Give this run all the room."""
        self.add_class("-reading")
        if address != self.address:
            self._open(address)
        self.trace.table.focus()
        self.refresh_bindings()

    async def go_to(self, key: str) -> None:
        self.read(await find_run(self.gateway.store, key))

    def take_focus(self) -> None:
        (self.trace.table if self.reading else self.table).focus()

    # --- what is heard -----------------------------------------------------------------------------------------

    async def on_line_table_wanted(self, event: LineTable.Wanted) -> None:
        if event.table is self.table and self.listing is not None:
            with self.frame.complaining():
                now = self.frame.now()
                if event.far:
                    await self.listing.far(now, below=event.below)
                else:
                    await self.listing.more(now, below=event.below)
            self._show_list()

    def on_line_table_highlighted(self, event: LineTable.Highlighted) -> None:
        if event.table is self.trace.table:
            self._show_event()
        elif event.key and not self.reading and not self.has_class("-single") and event.key != self.address:
            self._open(event.key, pause=PREVIEW_SECONDS)

    def on_line_table_opened(self, event: LineTable.Opened) -> None:
        if event.table is self.table:
            self.read(event.key)
        else:
            self.frame.push_screen(EventDialog(self._tell))

    def on_trace_view_asked(self) -> None:
        self._show_trace()

    def on_filter_bar_changed(self, event: FilterBar.Changed) -> None:
        event.stop()
        if event.filter.fields == rows.FIELDS:
            self.listing = Listing(self.gateway.watching, self.filter)
            self.filter_changed()
        else:
            self.trace.look_for(event.filter)

    def lay_out_for(self, size: Size) -> None:
        """See `Pane`."""
        self.set_class(size.width < 100, "-single")
        self.set_class(size.width >= 140, "-beside")
        self.set_class(size.height < 26, "-short")
        self.set_class(size.height < 18, "-low")

    def on_resize(self, event: events.Resize) -> None:
        self.lay_out_for(event.size)
        self.call_after_refresh(self._resized)

    def _resized(self) -> None:
        self._show_list()
        self._show_trace()

    # --- keys --------------------------------------------------------------------------------------------------

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        match action:
            case "leave_run":
                return self.reading and not self.trace.filter
            case "replay" | "raw":
                return self.is_mounted and bool(self.address and self.trace.timeline.lines)
            case "tell" | "cancel" | "pause" | "verify" | "mailbox" | "actor":
                return self.is_mounted and bool(self.selected)
            case "decide":
                return self.is_mounted and bool(self.view is not None and self.view.approvals)
            case "clear_filter":
                return self.is_mounted and bool(self.trace.filter if self.reading else self.filter)
        return super().check_action(action, parameters)

    def action_filter(self) -> None:
        """Type a filter: of the list, or of the trace where that is read."""
        (self.query_one("#trace-bar", FilterBar) if self.reading else self.bar).open()

    def action_clear_filter(self) -> None:
        """Show everything again."""
        (self.query_one("#trace-bar", FilterBar) if self.reading else self.bar).put("")

    def action_leave_run(self) -> None:
        """Back to the list."""
        self.remove_class("-reading")
        self.table.select(self.address)
        self.table.focus()
        self.frame.action_look_now()
        self.refresh_bindings()

    def action_raw(self) -> None:
        """The event as it is stored."""
        dialog = EventDialog(self._tell)
        dialog.raw = True
        self.frame.push_screen(dialog)

    def action_mailbox(self) -> None:
        """Its mailbox."""
        self.frame.open_screen("mailboxes", self._target)

    def action_actor(self) -> None:
        """Its actor."""
        self.frame.open_screen("actors", self._target)

    @work(group="act")
    async def action_decide(self) -> None:
        """Look at what it waits for; deciding takes more keys there."""
        if self.view is not None and self.view.approvals:
            ids = [one.id for one in self.view.approvals]
            await decide(self.frame, ids[0], ids)
            await self.frame.look()

    @property
    def _target(self) -> str:
        return self.address if self.reading else self.table.cursor_key

    @work(group="act")
    async def action_replay(self) -> None:
        """Make a run that goes on from the event under the cursor."""
        stretch = self.trace.at
        recorded = [one for shown in self.trace.timeline.lines for one in shown.events]
        before = [one.seq for one in recorded if stretch is None or one.at <= stretch.began]
        seq = stretch.events[-1].seq if stretch is not None and stretch.events else max(before, default=1)
        if await acts.replay_from(self.frame, self.run_id, sorted(recorded, key=lambda one: one.seq), seq):
            await self.frame.look()

    @work(group="act")
    async def action_tell(self) -> None:
        """Say something to the run."""
        await acts.tell(self.frame, self.selected)

    @work(group="act")
    async def action_cancel(self) -> None:
        """Ask the run to end."""
        await acts.cancel(self.frame, self.selected)

    @work(group="act")
    async def action_pause(self) -> None:
        """Let the run stand, or go on."""
        await acts.pause_or_resume(self.frame, self.selected, self._target)
        await self.frame.look()

    @work(group="act")
    async def action_verify(self) -> None:
        """Prove that what is shown is what happened."""
        await acts.verify(self.frame, self.selected)
