"""The inbox: what waits for a person, a preview of it, and what was decided today.

The list never moves under the cursor: rows are keyed, what comes in is counted out of sight, and nothing takes the
focus. All that waits is filtered and sorted (`operations.inbox` holds it); rows are made of the stretch around the
cursor. Opening a request is reading it; deciding is the dialog's (`tui.decide`).
"""

from datetime import UTC, datetime
from itertools import islice
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.widgets import Static

from callboard.mailbox.errors import CallboardError
from callboard.service.operations.decided import Decided, decided, decided_since
from callboard.service.operations.inbox import Inbox
from callboard.service.operations.views import ApprovalView

from ...decide import decide
from ...decide.body import Body
from ...decide.paper import rule
from ...decide.subject import Subject, read_subject
from ...decide.together import DenyTogether, TogetherDialog
from ...filter_bar import FilterBar, FilteredPane, filter_title
from ...table import LineTable
from ...text import content, line, piece
from ...times import clock
from . import rows
from .aside import Aside
from .preview import preview

HALF = 150
"""Rows that are made on either side of the cursor, at least; and three screens."""
DECIDED_SHOWN = 12
UNFINISHED = ("held until", "let go; not made yet", "under way", "asked for again", "failed at attempt")
"""What came of a decision as long as something more may come of it."""


class ApprovalsPane(FilteredPane):
    """The screen of approvals."""

    heading: ClassVar[str] = "Approvals"
    short: ClassVar[str] = "Approve"
    CHANGES: ClassVar[frozenset[str]] = frozenset({"approve_together", "deny_together"})
    SCOPED_CSS: ClassVar[bool] = False
    preview_seconds: ClassVar[float] = 0.15
    """The cursor rests so long before what is under it is read."""
    DEFAULT_CSS = """
    ApprovalsPane .box { border: round $cb-line; border-title-color: $foreground; border-subtitle-color: $cb-dim; }
    ApprovalsPane .box:focus-within { border: round $cb-info; }
    ApprovalsPane #inbox { width: 5fr; }
    ApprovalsPane #preview { width: 3fr; display: none; }
    ApprovalsPane #summary { height: 1; }
    ApprovalsPane #decided-title { height: 1; display: none; color: $cb-dim; }
    ApprovalsPane #decided { height: 8; display: none; }
    .-wide ApprovalsPane #preview { display: block; }
    .-broad ApprovalsPane #preview { display: block; }
    .-tall ApprovalsPane #decided-title { display: block; }
    .-tall ApprovalsPane #decided { display: block; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("a", "decide", "decide"),
        Binding("s", "sort", "sort"),
        Binding("S", "turn", "turn the order around", show=False),
        Binding("Z", "aside", "aside for 15m, here only; back", show=False),
        Binding("asterisk", "mark_all", "mark all that match", show=False),
        Binding("A", "approve_together", "together"),
        Binding("N", "deny_together", "deny together", show=False),
        Binding("o", "open_run", "its run", show=False),
        Binding("r", "open_run", "its run", show=False),
        Binding("m", "open_mailbox", "its mailbox", show=False),
    ]

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.views: dict[str, ApprovalView] = {}
        """Those that are in the list, in its order."""
        self._inbox: Inbox | None = None
        self._aside = Aside()
        self._above = 0
        """So many are before the first of the rows that are made."""
        self._sorted_for: tuple[object, ...] = ()
        self._sorted_times = self._hidden = 0
        self._summed_for: tuple[object, ...] = ()
        self.sort = "oldest"
        self.turned = False
        self._decided: list[Decided] = []
        self._newest = -1
        self._subject: Subject | None = None
        self._shown_for: tuple[object, ...] = ()

    def compose(self) -> ComposeResult:
        with Horizontal():
            with Vertical(id="inbox", classes="box"):
                yield LineTable(rows.columns(asked=True), id="waiting")
                yield Static(id="summary")
                yield FilterBar(rows.FIELDS)
                yield Static(id="decided-title")
                yield LineTable(rows.DECIDED, id="decided")
            with Vertical(id="preview", classes="box"):
                yield Body(id="preview-body")

    @property
    def table(self) -> LineTable:
        """The list of those that wait."""
        return self.query_one("#waiting", LineTable)

    # -- reading and showing

    @property
    def inbox(self) -> Inbox:
        """What waits."""
        if self._inbox is None:
            self._inbox = Inbox(self.gateway.operations)
        return self._inbox

    @property
    def waiting(self) -> list[ApprovalView]:
        """Those that wait, as far as they were read: all, soon after many have come."""
        return self.inbox.views

    async def look(self) -> None:
        """Read what waits and what was decided, and show it."""
        await self.inbox.look(self.table.shown, newest_first=self.turned and self.sort == "oldest")
        self.show_list()
        await self._look_at_decided()
        self.read_preview()
        if not self.inbox.whole:
            self.call_later(self.frame.live.look_at_pane)

    def show_list(self, *, fresh: bool = False, at: int | None = None) -> None:
        """Show those that wait, filtered and in order: the stretch around the cursor, or around the one numbered
        `at`."""
        now = self.frame.now()
        self._sort(now)
        half = max(HALF, 3 * self.table.size.height)
        at = at if at is not None else 0 if fresh else self._at
        self._above, below = max(0, at - half), at + half
        self.table.columns = rows.columns(asked=not self.query_one("#preview").display)
        shown = [rows.row(one, now) for one in islice(self.views.values(), self._above, below)]
        self.table.show(shown, start=self._above == 0, end=below >= len(self.views), fresh=fresh)
        if gone := self.table.marked - self.views.keys():
            self.table.mark(self.table.marked - gone)
        self._say_when_empty()
        self._show_words()

    def _sort(self, now: float) -> None:
        """Put those that fit the filter in order, where anything has changed."""
        wanted = (self.inbox.changes, self.filter.text, self.sort, self.turned, self._aside.ids(now))
        if wanted == self._sorted_for and not any(term.field in rows.BY_TIME for term in self.filter.terms):
            return
        aside = {one.id for one in self.waiting if self._aside.has(one, now)}
        hidden = set[str]() if any(term.field == "aside" for term in self.filter.terms) else aside
        fits = [
            one
            for one in self.waiting
            if one.id not in hidden and self.filter.fits(rows.value_of(one, now, aside=one.id in aside))
        ]
        self._hidden = len(hidden)
        self.views = {one.id: one for one in rows.ordered(fits, self.sort, turned=self.turned)}
        self._sorted_for = wanted
        self._sorted_times += 1

    @property
    def _at(self) -> int:
        """Where the one under the cursor stands among all; where it is gone, the next one of those that were shown."""
        key, held = self.table.cursor_key, [one.key for one in self.table.rows]
        begin = held.index(key) if key else 0
        heir = next((one for one in (*held[begin:], *held[:begin][::-1]) if one in self.views), "")
        return next((number for number, one in enumerate(self.views) if one == heir), 0)

    def _say_when_empty(self) -> None:
        if self._hidden and not self.filter:
            said = f"All that waits is put aside here ({self._hidden:,}). / aside:yes shows it"
            self.table.say_when_empty(line(piece(said, "dim")))
        elif self.filter:
            among = f"{self.inbox.total:,}" if self.inbox.whole else f"the {len(self.waiting):,} read so far"
            said = f"0 of {among} match {self.filter.text}. esc clears"
            self.table.say_when_empty(line(piece(said, "dim")))
        else:
            self.table.say_when_empty(
                line(piece("Nothing waits for you. New requests appear here by themselves.", "dim")),
                line(piece(f"Decided today: {self._today}", "dim")) if self._today else (),
            )

    _today = 0

    def _show_words(self) -> None:
        box = self.query_one("#inbox", Vertical)
        total = f"{self.inbox.total:,}{'+' if self.inbox.cut else ''}"
        so_far = "" if self.inbox.whole else "+"
        count = (
            f"{len(self.views):,}{so_far} of {total}" if self.filter and len(self.views) < self.inbox.total else total
        )
        aside = [piece(f"{self._hidden:,} aside: / aside:yes", "needs")] if self._hidden else []
        box.border_title = filter_title("Waiting for a decision", self.filter, count, *aside)
        box.border_subtitle = content(f"{self._position}{rows.SORTED[self.sort, self.turned]} · s sort")
        summed = (self._sorted_times, self.inbox.whole, frozenset(self.table.marked))
        if summed != self._summed_for:  # of thousands it takes longer than all else that is shown
            self._summed_for = summed
            told = rows.summary(list(self.views.values()), self.marked)
            begun = "" if self.inbox.whole else f" {len(self.waiting):,} of {total} read so far:"
            self.query_one("#summary", Static).update(content(line(piece(begun, "needs")), told))

    @property
    def _position(self) -> str:
        """Which of them are in sight, where that are not all."""
        first, last = self.table.sight
        if last - first + 1 >= len(self.views) or not last:
            return ""
        return f"{self._above + first:,}–{self._above + last:,} of {len(self.views):,} · "

    @property
    def marked(self) -> list[ApprovalView]:
        """Those that are marked, in the order of the list."""
        return [view for key, view in self.views.items() if key in self.table.marked]

    async def _look_at_decided(self) -> None:
        operations = self.gateway.operations
        self._today, newest = await decided_since(operations, self._midnight())
        open_still = any(one.outcome.startswith(UNFINISHED) for one in self._decided)
        if newest != self._newest or open_still:
            self._decided = await decided(operations, limit=DECIDED_SHOWN)
            self._newest = newest
        table = self.query_one("#decided", LineTable)
        shown = [rows.decided_row(one, self._short) for one in self._decided]
        table.show(shown, fresh=not table.has_focus)  # the newest on top, unless somebody is reading there
        table.say_when_empty(line(piece("Nothing was decided yet.", "dim")))
        title = rule(f"Decided today · {self._today}", max(self.query_one("#inbox").size.width, 20))
        self.query_one("#decided-title", Static).update(content(title))

    def _midnight(self) -> float:
        moment = datetime.fromtimestamp(self.frame.now(), UTC)
        here = moment if self.frame.style_of_times == "utc" else moment.astimezone()
        return here.replace(hour=0, minute=0, second=0, microsecond=0).timestamp()

    def _clock(self, at: float) -> str:
        style = self.frame.style_of_times
        return clock(at, "local" if style == "relative" else style, now=self.frame.now())

    def _short(self, at: float) -> str:
        return self._clock(at).removesuffix("Z").rpartition(" ")[2][:5]

    @on(LineTable.Wanted, "#waiting")
    def _more(self, event: LineTable.Wanted) -> None:
        self.show_list(at=None if not event.far else len(self.views) - 1 if event.below else 0)

    @on(LineTable.Highlighted, "#waiting")
    def _rest(self) -> None:
        self._show_words()
        self.refresh_bindings()
        self.set_timer(self.preview_seconds, self.read_preview)

    def read_preview(self) -> None:
        """Read the request under the cursor, where there is room to show it."""
        view = self.views.get(self.table.cursor_key)
        if not self.query_one("#preview").display:
            return
        if view is None:
            self._subject, self._shown_for = None, ()
            self._show_preview()
        elif self._shown_for == (view.id, view.digest, view.status, len(view.approved_by), str(view.checks)):
            self._show_preview()
        else:
            self._read_subject(view)

    @work(group="preview", exclusive=True)
    async def _read_subject(self, view: ApprovalView) -> None:
        try:
            subject = await read_subject(self.gateway, view)
        except CallboardError:
            return  # the frame says that the database is away; what was shown stays
        self._subject = subject
        self._shown_for = (view.id, view.digest, view.status, len(view.approved_by), str(view.checks))
        self._show_preview()

    def _show_preview(self) -> None:
        box = self.query_one("#preview", Vertical)
        box.border_title = content("Preview")
        box.border_subtitle = content("enter decide" if self._subject else "")
        subject, now = self._subject, self.frame.now()
        if subject is None:
            self.query_one("#preview-body", Body).show(lambda width: [])
        else:
            self.query_one("#preview-body", Body).show(lambda width: preview(subject, now, width, self._clock))

    # -- keys

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Which keys work now."""
        match action:
            case "decide" | "open_run" | "open_mailbox":
                return bool(self.selected)
            case "aside":
                return self.selected in self.views
            case "approve_together" | "deny_together":
                return bool(self.is_mounted and self.table.marked)
        return super().check_action(action, parameters)

    @property
    def selected(self) -> str:
        """Id of the approval under the cursor."""
        if not self.is_mounted:
            return ""
        if self.app.focused is self.query_one("#decided", LineTable):
            return self.query_one("#decided", LineTable).cursor_key.partition(" ")[0]
        return self.table.cursor_key

    @on(LineTable.Marked, "#waiting")
    def _marked(self) -> None:
        self._show_words()
        self.refresh_bindings()

    @on(LineTable.Opened)
    def _opened(self, event: LineTable.Opened) -> None:
        event.stop()
        self.open(self.selected)

    def action_decide(self) -> None:
        """Read the request under the cursor, and decide on it."""
        self.open(self.selected)

    @work(group="decide", exclusive=True)
    async def open(self, approval: str) -> None:
        """Open the dialog on one."""
        items = list(self.views) if approval in self.views else [approval]
        await decide(self.frame, approval, items)
        self.frame.action_look_now()

    def action_sort(self) -> None:
        """Sort by the next of oldest, expiry, amount, risk, agent."""
        self.sort, self.turned = rows.SORTS[(rows.SORTS.index(self.sort) + 1) % len(rows.SORTS)], False
        self.show_list()
        self.table.fill_lines()

    def action_turn(self) -> None:
        """The other way around."""
        self.turned = not self.turned
        self.show_list()
        self.table.fill_lines()

    def action_aside(self) -> None:
        """Put the marked ones, or the one under the cursor, out of sight for a while, in this terminal; or back."""
        view = self.views.get(self.table.cursor_key)
        now, wanted = self.frame.now(), self.marked or ([view] if view else [])
        refused = 0
        for one in wanted:
            if self._aside.has(one, now):
                self._aside.take(one)
            elif not self._aside.put(one, now):
                refused += 1
        if refused:
            self.frame.say(
                piece(f"{refused} would expire meanwhile, and stay{'s' * (refused == 1)} in the list", "bad")
            )
        self.table.mark(())
        self.show_list()

    def action_mark_all(self) -> None:
        """Mark all that match the filter; again: none."""
        everything = set(self.views)
        self.table.mark(set() if self.table.marked >= everything else everything)

    @work(group="decide", exclusive=True)
    async def action_approve_together(self) -> None:
        """Review those that are marked, and approve what can be approved together."""
        if await self.frame.push_screen_wait(TogetherDialog(self.marked, self.inbox.total, self.filter.text)):
            self.table.mark(())
        self.frame.action_look_now()

    @work(group="decide", exclusive=True)
    async def action_deny_together(self) -> None:
        """Refuse those that are marked, with one reason."""
        if await self.frame.push_screen_wait(DenyTogether(self.marked)):
            self.table.mark(())
        self.frame.action_look_now()

    def _run_address(self) -> str:
        view = self.views.get(self.selected)
        found = [one.approval.run_address for one in self._decided if one.approval.id == self.selected]
        return view.run_address if view else found[0] if found else ""

    def action_open_run(self) -> None:
        """Its run."""
        if address := self._run_address():
            self.frame.open_screen("runs", address)

    def action_open_mailbox(self) -> None:
        """The mailbox of its run."""
        if address := self._run_address():
            self.frame.open_screen("mailboxes", address)

    async def go_to(self, key: str) -> None:
        """Select an approval by its id, or the one that a run waits for; one that is decided already is opened."""
        await self.look()
        if not self.inbox.whole:
            await self.inbox.everything()
        view = next((one for one in self.waiting if key in (one.id, one.run_address, one.run_id)), None)
        found = view.id if view else ""
        if view and found not in self.views:
            self.bar.put("")
            self._aside.take(view)
        if not found:
            self.open(key)
            return
        self.show_list()
        self.show_list(at=list(self.views).index(found))
        self.table.select(found)
