"""One mailbox, looked into: its head, its messages, and the message under the cursor on a page beside them.

Nothing that is done here consumes, locks or changes a message. The page may walk away from the list, along what caused
what; moving the cursor brings it back. What was read stays until the next look, and only ages go on by themselves.
"""

from collections.abc import Sequence

from textual import on, work
from textual.app import ComposeResult
from textual.containers import Container, Vertical
from textual.widgets import Static

from callboard.mailbox.errors import NotFound
from callboard.service.operations.actors import MailboxView, MessageLine
from callboard.service.operations.filters import Filter
from callboard.service.operations.message_filter import messages_that_fit
from callboard.service.operations.message_views import MessageDetail
from callboard.tui.filter_bar import filter_title
from callboard.tui.pane import frame_of
from callboard.tui.table import LineTable
from callboard.tui.text import Line, block, content, line, piece

from .find_bar import FindBar
from .message import message_paras
from .reader import Para, Reader
from .rows import CALLS, MESSAGE_COLUMNS, head_lines, message_rows
from .states import short

FIRST_ROWS, MOST_ROWS = 200, 1_000


class Inside(Container):
    """One mailbox; `address` is "" where none is looked into."""

    SCOPED_CSS = False  # how wide the screen is, is told by classes of the screen; by ids, see `DeadPane`
    DEFAULT_CSS = """
    Inside { layout: horizontal; display: none; }
    #mailbox-box, #message-box {
        border: round $cb-line; border-title-color: $foreground; border-subtitle-color: $cb-dim;
    }
    #mailbox-box:focus-within, #message-box:focus-within { border: round $cb-info; }
    #mailbox-box { width: 2fr; }
    #message-box { width: 1fr; min-width: 38; }
    Inside #head { height: auto; max-height: 6; padding: 0 1; margin-bottom: 1; }
    .-short Inside #head { margin-bottom: 0; max-height: 5; }
    .-tiny #message-box, .-narrow #message-box { display: none; width: 1fr; }
    .-tiny Inside.-reading > #message-box, .-narrow Inside.-reading > #message-box { display: block; }
    .-tiny Inside.-reading > #mailbox-box, .-narrow Inside.-reading > #mailbox-box { display: none; }
    """

    def __init__(self) -> None:
        super().__init__(id="inside")
        self.address = ""
        self.view: MailboxView | None = None
        self.detail: MessageDetail | None = None
        self.raw = False
        self._found: tuple[list[MessageLine], bool] | None = None
        self._walk: list[tuple[int, str]] = []
        self._limit = FIRST_ROWS
        self._gone = ""
        self._wanted = ""

    def compose(self) -> ComposeResult:
        with Vertical(id="mailbox-box"):
            yield Static(id="head")
            yield LineTable(MESSAGE_COLUMNS, id="messages")
        with Vertical(id="message-box"):
            reader = Reader(id="message")
            yield reader
            yield FindBar(reader)

    @property
    def table(self) -> LineTable:
        """The messages."""
        return self.query_one("#messages", LineTable)

    @property
    def reader(self) -> Reader:
        """The page."""
        return self.query_one(Reader)

    @property
    def message_id(self) -> int:
        """Of the message on the page; 0 for none."""
        if self._walk:
            return self._walk[-1][0]
        return int(self.table.cursor_key) if self.table.cursor_key.isdigit() else 0

    @property
    def walking(self) -> bool:
        """Whether the page is away from the list."""
        return bool(self._walk)

    # -- what is looked into

    def open(self, address: str, message: str = "") -> None:
        """Look into another mailbox, at this message of it; `look` has to come next."""
        if address != self.address:
            self.view = self.detail = self._found = None
            self._limit = FIRST_ROWS
            self.table.show((), fresh=True)
            self.table.say_when_empty(line(piece("Reading…", "dim")))
            self.query_one("#head", Static).update(content(""))
            box = self.query_one("#mailbox-box")
            box.border_title = content(piece(f"Mailbox {address}", "title"), piece(" · peek, never consumes", "dim"))
            self._show_text(0, "")
        self.address, self._walk, self._gone = address, [], ""
        self._wanted = message
        self.remove_class("-reading")

    async def look(self, wish: Filter) -> None:
        """Read what is shown and show it."""
        frame = frame_of(self)
        try:
            self.view = await frame.gateway.inspection.mailbox(self.address, limit=self._limit)
            self._gone = ""
        except NotFound:
            self.view, self._gone = None, f"Nothing waits here, and there is no actor {self.address}."
        self._found = await messages_that_fit(frame.gateway.mailboxes, self.address, wish) if wish else None
        self._show(wish)
        await self.read()

    def _show(self, wish: Filter) -> None:
        now = frame_of(self).now()
        rows = (
            [] if self.view is None else message_rows(self.view, None if self._found is None else self._found[0], now)
        )
        whole = self._found is not None or self.view is None or self.view.complete or self._limit >= MOST_ROWS
        self.table.say_when_empty(*self._when_empty(wish))
        self.table.show(rows, end=whole)
        if self._wanted and self.table.select(self._wanted):
            self._wanted = ""
        self.show_head()
        box = self.query_one("#mailbox-box")
        box.border_title = filter_title(f"Mailbox {self.address}", wish, piece("peek, never consumes", "dim"))
        box.border_subtitle = content(*self._counts())

    def _when_empty(self, wish: Filter) -> Sequence[Line]:
        if self._gone:
            return (line(piece(self._gone)), line(piece("esc goes back", "dim")))
        if wish:
            return (line(piece(f"No message here fits {wish.text}", "dim")), line(piece("esc clears", "dim")))
        return (line(piece("Nothing waits here. What is sent here shows by itself, until it is handled.", "dim")),)

    def _counts(self) -> Sequence[str]:
        if self.view is None:
            return ("",)
        in_turn = sum(one.state == "in turn" for one in self.view.messages)
        waiting = self.view.actor.waiting
        least = "" if waiting < MOST_ROWS else "at least "
        parts = [f"{least}{waiting:,} waiting", f"{in_turn} in turn"]
        if self._found is not None:
            parts.insert(0, f"{len(self._found[0]):,} of" + ("" if self._found[1] else " at least"))
        elif not self.view.complete:
            parts.append(f"the first {len(self.view.messages):,} shown")
        return (" · ".join(parts),)

    def show_head(self) -> None:
        """The head, with ages as they are now."""
        head = self.query_one("#head", Static)
        if self.view is not None:
            lines = head_lines(self.view, frame_of(self).now(), max(self.query_one("#mailbox-box").size.width - 2, 20))
            head.update(block(lines))
        else:
            head.update(content(""))

    def tick(self) -> None:
        """Ages and countdowns go on."""
        if self.view is None:
            return
        self.show_head()
        found = None if self._found is None else self._found[0]
        rows = message_rows(self.view, found, frame_of(self).now(), sight=set(self.table.shown))
        self.table.update_rows(rows)
        self.show_page()

    # -- the page

    async def read(self) -> None:
        """Read the message that is on the page, and show it."""
        message, recipient = self._walk[-1] if self._walk else (self.message_id, "")
        if not message:
            self.detail = None
            self.show_page()
            return
        try:
            self.detail = await frame_of(self).gateway.mailboxes.message(message, recipient=recipient or self.address)
        except NotFound as error:
            self.detail = None
            self._show_text(message, str(error))
            return
        self.show_page()

    def show_page(self) -> None:
        """The page, with ages as they are now."""
        detail = self.detail
        if detail is None:
            if not self.message_id:
                self._show_text(0, "")
            return
        self.reader.show(list(message_paras(detail, frame_of(self).when, raw=self.raw)), page=str(detail.id))
        self._name_page(f"{detail.type} · {short(detail.recipient)}" if self.walking else detail.type)

    def _show_text(self, message: int, text: str) -> None:
        self.reader.show([Para(line(piece(text, "dim")))] if text else [], page=str(message))
        self._name_page(str(message or ""))

    def _name_page(self, name: str) -> None:
        page = self.query_one("#message-box")
        steps = f" · {len(self._walk)} away, esc goes back" if self._walk else ""
        page.border_title = content(piece("Message ", "title"), piece(name), piece(steps, "needs"))
        page.border_subtitle = content(
            piece("w pretty" if self.raw else "w raw", "dim"), piece(" · / find · c copy", "dim")
        )

    async def walk_to(self, message: int, recipient: str) -> None:
        """Have another message on the page."""
        self._walk.append((message, recipient))
        await self.read()

    async def step_back(self) -> None:
        """To the message before on the walk."""
        self._walk.pop()
        await self.read()

    def step(self, by: int) -> None:
        """To the message before in the list, or after, from wherever the page is."""
        self._walk.clear()
        self.table.action_move(by)

    def read_on(self) -> None:
        """The keys go to the page; where there is room for one of both only, it is shown."""
        self.add_class("-reading")
        self.reader.focus()

    def open_find(self) -> None:
        """Look for a text in what the page says."""
        self.query_one(FindBar).open()

    def leave_page(self) -> None:
        """The keys go back to the list."""
        self.remove_class("-reading")
        self.table.focus()

    @on(LineTable.Highlighted, "#messages")
    def _moved(self, event: LineTable.Highlighted) -> None:
        event.stop()
        if self.walking and not self.table.has_focus:
            return  # rows come and go; who walks is not called back by that
        if event.key != CALLS and self.view is not None:
            self._walk.clear()
            self._read_soon()

    @work(group="message", exclusive=True)
    async def _read_soon(self) -> None:
        with frame_of(self).complaining():
            await self.read()

    @on(LineTable.Opened, "#messages")
    def _opened(self, event: LineTable.Opened) -> None:
        event.stop()
        self.read_on()

    @on(LineTable.Wanted, "#messages")
    def _want(self, event: LineTable.Wanted) -> None:
        event.stop()
        if event.below and self._limit < MOST_ROWS:
            self._limit = MOST_ROWS if event.far else min(self._limit * 2, MOST_ROWS)
            frame_of(self).action_look_now()
