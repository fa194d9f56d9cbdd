"""Dead letters: what was given up, what it died of, and sending it again or leaving it for good, once.

The list is read by windows, by the numbers of the letters, so it stays quick however many there are. Marks are kept by
number, whatever comes and goes. Nothing is settled by one key: what will happen is told, and a word is typed.
"""

from typing import ClassVar

import anyio
from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical

from callboard.mailbox.errors import NotFound
from callboard.service.operations.dead import DeadLine
from callboard.service.operations.dead_window import FIELDS, DeadWindow, DeadWindows
from callboard.service.operations.filters import Filter
from callboard.service.operations.settling import Autopsy, Outcome, Settling
from callboard.tui.filter_bar import FilterBar, FilteredPane, filter_title
from callboard.tui.panes.mailboxes.find_bar import FindBar
from callboard.tui.panes.mailboxes.message import target_of
from callboard.tui.panes.mailboxes.reader import Para, Reader
from callboard.tui.table import LineTable
from callboard.tui.text import Line, content, line, piece

from .letter import letter_paras
from .rows import columns, row
from .settle import Outcomes, settle, summary

PAGE = 200
TICK_SECONDS = 1.0


class DeadPane(FilteredPane):
    """The screen of dead letters."""

    heading: ClassVar[str] = "Dead letters"
    short: ClassVar[str] = "Dead"
    CHANGES: ClassVar[frozenset[str]] = frozenset({"requeue", "discard"})
    # Not scoped: how wide the screen is, is told by classes of the screen. By ids: `Vertical:focus-within` would have
    # all of the screen styled anew whenever the focus moves, as the frame is one.
    SCOPED_CSS = False
    DEFAULT_CSS = """
    #letters-box, #letter-box {
        border: round $cb-line; border-title-color: $foreground; border-subtitle-color: $cb-dim;
    }
    #letters-box:focus-within, #letter-box:focus-within { border: round $cb-info; }
    #letters-box { width: 2fr; }
    #letter-box { width: 1fr; min-width: 38; }
    .-tiny #letter-box, .-narrow #letter-box { display: none; }
    .-tiny DeadPane.-reading > #letter-box, .-narrow DeadPane.-reading > #letter-box { display: block; }
    .-tiny DeadPane.-reading > #letters-box, .-narrow DeadPane.-reading > #letters-box { display: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "back", show=False),
        Binding("asterisk", "mark_all", "mark all that match", key_display="*", show=False),
        Binding("R", "requeue", "requeue…"),
        Binding("D", "discard", "discard…"),
        Binding("s,S", "turn", "newest or oldest first", show=False),
        Binding("m", "mailbox", "its mailbox"),
        Binding("r", "run", "its run"),
        Binding("o", "owner", "its actor", show=False),
        Binding("w", "raw", "raw/pretty", show=False),
        Binding("left_square_bracket", "step(-1)", "letter before", key_display="[", show=False),
        Binding("right_square_bracket", "step(1)", "letter after", key_display="]", show=False),
    ]

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._letters: dict[str, DeadLine] = {}
        self._start = self._end = True
        self._newest = True
        self._short = 0
        self._raw = False
        self._shown_for: tuple[Filter, bool] | None = None
        self._found: Autopsy | None = None
        self._lock = anyio.Lock()
        self._progress = ""
        self._settling = self._stopping = False
        self._wanted = 0
        self._with_settled = False

    def compose(self) -> ComposeResult:
        with Vertical(id="letters-box"):
            yield LineTable(columns(settled=False), id="letters")
        with Vertical(id="letter-box"):
            reader = Reader(id="letter")
            yield reader
            yield FindBar(reader)
        yield FilterBar(FIELDS)

    def on_mount(self) -> None:
        self.query_one("#letter-box").border_title = content(piece("Why it died", "title"))
        self.set_interval(TICK_SECONDS, self._tick)

    @property
    def table(self) -> LineTable:
        """The letters."""
        return self.query_one("#letters", LineTable)

    @property
    def reader(self) -> Reader:
        """The page."""
        return self.query_one(Reader)

    @property
    def letter(self) -> DeadLine | None:
        """The one under the cursor."""
        return self._letters.get(self.table.cursor_key)

    @property
    def selected(self) -> str:
        """What `c` copies: the letter's number, or from the page all that it says."""
        return self.reader.text if self.reader.has_focus else self.table.cursor_key

    @property
    def all_states(self) -> bool:
        """Whether those are shown, too, that somebody has settled."""
        return any(term.field == "state" for term in self.filter.terms) and self.filter.pick("state") != ("open",)

    # -- looking

    async def look(self) -> None:
        async with self._lock:
            windows, wish = DeadWindows(self.gateway.operations), self.filter
            fresh = self._shown_for != (wish, self._newest)
            if self._wanted:
                found = await self._around(windows, wish)
            elif fresh or self._start or not self._letters:
                limit = PAGE if fresh else max(PAGE, len(self._letters))
                found = await windows.window(wish, newest=self._newest, limit=limit)
            else:
                first = next(iter(self._letters.values())).number
                before = first + 1 if self._newest else first - 1
                limit = max(PAGE, len(self._letters))
                found = await windows.window(wish, after=before, newest=self._newest, limit=limit)
                found = DeadWindow(found.items, False, found.end, found.short)
            self._hold(found)
            self._show(wish, fresh=fresh)
        await self._read()

    async def _around(self, windows: DeadWindows, wish: Filter) -> DeadWindow:
        """A window that begins at the letter that is wanted; those before it are read when the cursor goes there."""
        before = self._wanted + 1 if self._newest else self._wanted - 1
        found = await windows.window(wish, after=before, newest=self._newest, limit=PAGE)
        earlier = await windows.window(wish, before=self._wanted, newest=self._newest, limit=PAGE // 2)
        return DeadWindow([*earlier.items, *found.items], earlier.start, found.end, found.short)

    def _hold(self, found: DeadWindow) -> None:
        self._letters = {str(one.number): one for one in found.items}
        self._start, self._end, self._short = found.start, found.end, found.short

    def _show(self, wish: Filter, *, fresh: bool) -> None:
        self._shown_for = (wish, self._newest)
        self.table.say_when_empty(*self._when_empty(wish))
        # Kept until the next look: rows with another number of cells would not fit the columns.
        now, self._with_settled = self.frame.now(), self.all_states
        rows = [row(one, now, settled=self._with_settled) for one in self._letters.values()]
        self.table.columns = columns(settled=self._with_settled)
        self.table.show(rows, start=self._start, end=self._end, fresh=fresh and not self._wanted)
        if self._wanted:
            self.table.select(str(self._wanted))
            self._wanted = 0
        self._entitle()

    def _when_empty(self, wish: Filter) -> list[Line]:
        if not wish:
            return [line("No dead letters. Messages land here after their last try.")]
        total = 0 if self.frame.attention is None else self.frame.attention.dead
        looked = " of those that were looked at" if self._short else ""
        return [
            line(
                piece(f"0 of {total:,} open ones match{looked} "),
                piece(wish.text, "needs"),
                piece(". esc clears", "dim"),
            )
        ]

    def _entitle(self) -> None:
        box = self.query_one("#letters-box")
        total = 0 if self.frame.attention is None else self.frame.attention.dead
        whole = self._start and self._end
        count = f"{len(self._letters):,}" if whole else f"{len(self._letters):,} of {max(total, len(self._letters)):,}"
        order = line(piece("newest first" if self._newest else "oldest first", "dim"))
        box.border_title = filter_title(self.heading, self.filter, count, order)
        marked = len(self.table.marked)
        parts = [piece(f"{marked:,} marked · ", "needs")] if marked else []
        told = self._progress or "R requeue… · D discard… · space mark"
        box.border_subtitle = content(*parts, piece(told, "needs" if self._progress else "dim"))

    def _tick(self) -> None:
        if self.frame.pane is not self:
            return
        sight, now, settled = set(self.table.shown), self.frame.now(), self._with_settled
        self.table.update_rows(row(one, now, settled=settled) for key, one in self._letters.items() if key in sight)
        self._show_page()

    @on(LineTable.Wanted)
    def _want(self, event: LineTable.Wanted) -> None:
        event.stop()
        self._more(event.below, far=event.far)

    @work(group="more")
    async def _more(self, below: bool, *, far: bool) -> None:
        """Read on, where the cursor goes."""
        with self.frame.complaining():
            async with self._lock:
                windows, wish, newest = DeadWindows(self.gateway.operations), self.filter, self._newest
                if far:
                    self._hold(await windows.window(wish, last=below, newest=newest, limit=PAGE))
                    self._show(wish, fresh=False)
                    return
                if not self._letters or (self._end if below else self._start):
                    return
                edge = list(self._letters.values())[-1 if below else 0].number
                page = await windows.window(
                    wish, after=edge if below else 0, before=0 if below else edge, newest=newest, limit=PAGE
                )
                self._extend(page, below=below)

    def _extend(self, page: DeadWindow, *, below: bool) -> None:
        fresh = {str(one.number): one for one in page.items}
        self._letters = {**self._letters, **fresh} if below else {**fresh, **self._letters}
        now, settled = self.frame.now(), self._with_settled
        rows = [row(one, now, settled=settled) for one in page.items]
        self.table.extend(rows, below=below, more=not (page.end if below else page.start))
        held = [one.key for one in self.table.rows]  # it lets go of those that are farthest away
        first, last = next(iter(self._letters)), next(reversed(self._letters))
        self._start = (page.start if not below else self._start) and held[:1] == [first]
        self._end = (page.end if below else self._end) and held[-1:] == [last]
        self._letters = {key: self._letters[key] for key in held}
        self._entitle()

    # -- the page

    @on(LineTable.Highlighted, "#letters")
    def _moved(self) -> None:
        self.refresh_bindings()
        self._read_soon()

    @work(group="letter", exclusive=True)
    async def _read_soon(self) -> None:
        with self.frame.complaining():
            await self._read()

    async def _read(self) -> None:
        key = self.table.cursor_key
        try:
            self._found = await Settling(self.gateway.operations).autopsy(int(key)) if key else None
        except NotFound:
            self._found = None
        self.refresh_bindings()
        self._show_page()

    def _show_page(self) -> None:
        found = self._found
        paras: list[Para] = [] if found is None else list(letter_paras(found, self.frame.when, raw=self._raw))
        self.reader.show(paras, page="" if found is None else str(found.detail.letter.number))
        box = self.query_one("#letter-box")
        name = "" if found is None else f" · dead letter {found.detail.letter.number}"
        box.border_title = content(piece("Why it died", "title"), piece(name, "dim"))
        box.border_subtitle = content(piece("w pretty · / find" if self._raw else "w raw · / find", "dim"))

    @on(LineTable.Opened, "#letters")
    def _opened(self) -> None:
        self.add_class("-reading")
        self.reader.focus()

    @on(Reader.Followed)
    async def _follow(self, event: Reader.Followed) -> None:
        event.stop()
        target = target_of(event.target)
        if target.what == "dead":
            with self.frame.complaining():
                await self.go_to(target.key)
                await self.look()
        elif target.what in ("mailbox", "message"):
            self.frame.open_screen("mailboxes", target.key)
        else:
            self.frame.open_screen("runs" if target.what == "run" else "approvals", target.key)

    async def go_to(self, key: str) -> None:
        """The number of a dead letter, settled or not."""
        letter = (await self.gateway.dead.show(int(key))).letter
        if letter.settled and not self.all_states:
            self.bar.put("state:open,requeued,discarded")
        elif self.filter and not self._letters.get(key):
            self.bar.put("")
        self._wanted = letter.number

    # -- marks

    @on(LineTable.Marked, "#letters")
    def _marked(self) -> None:
        self._entitle()
        self.refresh_bindings()

    def action_mark_all(self) -> None:
        """Mark all that match, in sight or not; where all are marked, none."""
        self._mark_all()

    @work(group="marks", exclusive=True)
    async def _mark_all(self) -> None:
        with self.frame.complaining():
            found, whole = await DeadWindows(self.gateway.operations).matching(self.filter)
            keys = {str(one.number) for one in found if not one.settled}
            if keys and keys <= self.table.marked:
                self.table.mark(())
                return
            self.table.mark(keys)
            self.frame.say(f"{len(keys):,} marked: all that match" if whole else f"the newest {len(keys):,} marked")

    # -- settling

    def action_requeue(self) -> None:
        """Send those that are marked, or the one under the cursor, again."""
        self._ask(requeue=True)

    def action_discard(self) -> None:
        """Leave those that are marked, or the one under the cursor, for good."""
        self._ask(requeue=False)

    def _ask(self, *, requeue: bool) -> None:
        numbers = sorted(int(key) for key in self.table.marked or {self.table.cursor_key} if key)
        if numbers and not self._settling:  # one after the other: a second one would cut the first one short
            self._settling = True
            self._settle(numbers, requeue=requeue)

    @work(group="settle")
    async def _settle(self, numbers: list[int], *, requeue: bool) -> None:
        others = 0 if self.frame.attention is None else self.frame.attention.dead
        self._stopping = False
        outcomes = None
        try:
            with self.frame.complaining():
                outcomes = await settle(self.frame, numbers, requeue=requeue, others=others, progress=self._settled)
        finally:
            self._progress, self._settling = "", False
        self._entitle()
        if outcomes is None:
            return
        await self.frame.look()
        refused = [one for one in outcomes if one.done is None]
        if len(outcomes) == 1 and refused:
            self.frame.say(piece(refused[0].refusal, "bad"), bad=True)
            return
        self.frame.say(summary(outcomes))
        if refused:
            await self.frame.push_screen_wait(Outcomes(outcomes))

    def _settled(self, outcome: Outcome, done: int, count: int) -> bool:
        self.table.mark(self.table.marked - {str(outcome.number)})
        if count > 1:
            self._progress = f"{done:,} of {count:,} settled · esc stops"
            self._entitle()
            self.refresh_bindings()
        return not self._stopping

    # -- keys

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """What works on what is in front."""
        if not self.is_mounted:
            return False
        letter = self.letter
        match action:
            case "leave":
                page = self.reader.has_focus or self.has_class("-reading")
                return bool(self.filter or self.table.marked or self._progress or page)
            case "requeue" | "discard":
                return bool(self.table.marked) or (letter is not None and not letter.settled)
            case "mailbox" | "owner" | "raw" | "step":
                return letter is not None
            case "run":
                return self._found is not None and bool(self._found.run)
            case _:
                return super().check_action(action, parameters)

    def action_leave(self) -> None:
        """A step back; it never settles anything."""
        if self._progress:
            self._stopping = True
        elif self.reader.has_focus or self.has_class("-reading"):
            self.remove_class("-reading")
            self.table.focus()
        elif self.table.marked:
            self.table.mark(())
        else:
            self.action_clear_filter()

    def action_filter(self) -> None:
        """Of the list its filter; on the page a text is looked for."""
        if self.reader.has_focus:
            self.query_one(FindBar).open()
        else:
            super().action_filter()

    def action_turn(self) -> None:
        """The newest, or the oldest, first."""
        self._newest = not self._newest
        self.frame.action_look_now()

    def action_raw(self) -> None:
        """The body pretty, or on one line."""
        self._raw = not self._raw
        self._show_page()

    def action_step(self, by: int) -> None:
        """To the letter before, or after."""
        self.table.action_move(by)

    def action_mailbox(self) -> None:
        """Where it was to go."""
        if self.letter is not None:
            self.frame.open_screen("mailboxes", self.letter.recipient)

    def action_run(self) -> None:
        """The run that it is of."""
        if self._found is not None and self._found.run:
            self.frame.open_screen("runs", self._found.run)

    def action_owner(self) -> None:
        """The actor that it was for."""
        if self.letter is not None:
            self.frame.open_screen("actors", self.letter.recipient)
