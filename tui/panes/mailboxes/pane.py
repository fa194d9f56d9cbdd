"""Mailboxes: what waits where, since when and why; one of them looked into; one message of it on a page.

Looking never consumes. What can be done here beside looking (pausing an actor, giving a message up, exporting) asks
first, and is the operations' to allow.
"""

from functools import partial
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Static

from callboard.persistence.operating import MailboxOrder, MailboxSummary
from callboard.service.operations.message_filter import MAILBOX_FIELDS, MESSAGE_FIELDS, mailbox_value
from callboard.service.operations.message_views import MailboxLine
from callboard.tui.filter_bar import FilterBar, FilteredPane, filter_title
from callboard.tui.table import LineTable
from callboard.tui.text import block, content, line, piece

from . import doing
from .inside import Inside
from .message import Target, target_of
from .reader import Reader
from .rows import BOX_COLUMNS, box_row, why_lines

ORDERS: tuple[tuple[MailboxOrder, str, str], ...] = (
    ("depth", "deepest first", "shallowest first"),
    ("age", "oldest first", "youngest first"),
    ("address", "by address", "by address, backwards"),
)
TICK_SECONDS = 1.0
SPARE = 10
"""Rows beyond those in sight of which it is read, too, why they wait."""


class MailboxesPane(FilteredPane):
    """The screen of mailboxes."""

    heading: ClassVar[str] = "Mailboxes"
    short: ClassVar[str] = "Mail"
    CHANGES: ClassVar[frozenset[str]] = frozenset({"pause", "give_up", "export"})
    SCOPED_CSS = False
    DEFAULT_CSS = """
    MailboxesPane #boxes-box {
        border: round $cb-line; border-title-color: $foreground; border-subtitle-color: $cb-dim;
    }
    MailboxesPane #boxes-box:focus-within { border: round $cb-info; }
    MailboxesPane #boxes-why { height: auto; max-height: 5; padding: 0 1; border-top: solid $cb-line; }
    .-short MailboxesPane #boxes-why { max-height: 3; }
    MailboxesPane.-inside #boxes-box { display: none; }
    MailboxesPane.-inside Inside { display: block; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "back"),
        Binding("s", "sort", "sort"),
        Binding("S", "turn", "turn the order around", show=False),
        Binding("w", "raw", "raw/pretty"),
        Binding("left_square_bracket", "step(-1)", "previous message", key_display="[", show=False),
        Binding("right_square_bracket", "step(1)", "next message", key_display="]", show=False),
        Binding("r", "run", "its run"),
        Binding("o", "owner", "its actor", show=False),
        Binding("p", "pause", "pause/resume…"),
        Binding("D", "give_up", "give up…"),
        Binding("E", "export", "export"),
    ]

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._order, self._turned = 0, False
        self._boxes: list[MailboxSummary] = []
        self._all = (0, True)
        self._known: dict[str, MailboxLine] = {}
        self._came_from: list[str] = []
        self._guest = False
        """Whether another screen has opened what is looked into, so that esc goes back there."""

    def compose(self) -> ComposeResult:
        with Vertical(id="boxes-box"):
            yield LineTable(BOX_COLUMNS, id="boxes")
            yield Static(id="boxes-why")
        yield Inside()
        yield FilterBar(MAILBOX_FIELDS, id="boxes-filter")
        yield FilterBar(MESSAGE_FIELDS, id="messages-filter")

    def on_mount(self) -> None:
        self.set_interval(TICK_SECONDS, self._tick)

    @property
    def table(self) -> LineTable:
        """The mailboxes."""
        return self.query_one("#boxes", LineTable)

    @property
    def inside(self) -> Inside:
        """The one that is looked into."""
        return self.query_one(Inside)

    @property
    def looks_inside(self) -> bool:
        """Whether one is looked into."""
        return self.has_class("-inside")

    @property
    def bar(self) -> FilterBar:
        """Of what is in front."""
        return self.query_one("#messages-filter" if self.looks_inside else "#boxes-filter", FilterBar)

    @property
    def address(self) -> str:
        """The mailbox that is looked into, or under the cursor; "" for none."""
        return self.inside.address if self.looks_inside else self.table.cursor_key

    @property
    def selected(self) -> str:
        """What `c` copies: an address, the id of a message, or from the page all that it says."""
        if not self.looks_inside:
            return self.table.cursor_key
        if self.inside.reader.has_focus:
            return self.inside.reader.text
        return str(self.inside.message_id or "")

    def take_focus(self) -> None:
        """The table that is in front."""
        (self.inside.table if self.looks_inside else self.table).focus()

    # -- looking

    async def look(self) -> None:
        if self.looks_inside:
            await self.inside.look(self.filter)
        else:
            await self._look_at_list()

    async def _look_at_list(self) -> None:
        now, wish = self.frame.now(), self.filter
        order = ORDERS[self._order][0]
        boxes, complete = await self.gateway.mailboxes.summaries(prefix=wish.prefix("address"), order=order)
        fitting = [box for box in boxes if wish.fits(partial(mailbox_value, box, now=now))]
        self._boxes = fitting[::-1] if self._turned else fitting
        self._all = (len(boxes), complete)
        self._known = {box.address: self._known[box.address] for box in fitting if box.address in self._known}
        self._show_list()
        await self._read_lines(all_=True)

    def _show_list(self, *, fresh: bool = False) -> None:
        now, wish = self.frame.now(), self.filter
        total, complete = self._all
        told = f"{total:,}" if complete else f"the first {total:,}"
        if wish:
            empty = [line(piece(f"0 of {told} match "), piece(wish.text, "needs"), piece(". esc clears", "dim"))]
        else:
            empty = [line("No messages wait. What is sent to an actor shows here by itself, until it is handled.")]
        self.table.say_when_empty(*empty)
        self.table.show([box_row(box, self._known.get(box.address), now) for box in self._boxes], fresh=fresh)
        count = f"{len(self._boxes):,} of {told}" if wish else f"{told} with messages"
        box = self.query_one("#boxes-box")
        box.border_title = filter_title(
            self.heading, wish, count, ORDERS[self._order][1 + self._turned], piece("peek, never consumes", "dim")
        )
        first, last = self.table.sight
        where = f"{first:,}–{last:,} of {len(self._boxes):,}" if last else ""
        box.border_subtitle = content(piece(where, "dim"))
        self._show_why()

    async def _read_lines(self, *, all_: bool = False) -> None:
        """Read why those in sight wait; `all_`: also those of which that is known, for it changes."""
        boxes = {box.address: box for box in self._boxes}
        for address in self._near():
            if address in boxes and (all_ or address not in self._known):
                self._known[address] = await self.gateway.mailboxes.line(boxes[address])
        if self.query("#boxes"):  # else the screen was taken down around the read, and its lists went first
            self._refresh_rows()

    def _near(self) -> list[str]:
        first, last = self.table.sight
        return [row.key for row in self.table.rows[max(first - 1, 0) : last + SPARE]]

    def _refresh_rows(self) -> None:
        boxes, now = {box.address: box for box in self._boxes}, self.frame.now()
        near = [key for key in self._near() if key in boxes]
        self.table.update_rows(box_row(boxes[key], self._known.get(key), now) for key in near)
        self._show_why()

    def _show_why(self) -> None:
        why = self.query_one("#boxes-why", Static)
        lines = why_lines(self._known.get(self.table.cursor_key))
        why.display = bool(lines)
        why.update(block(lines))

    def _tick(self) -> None:
        if self.frame.pane is not self:
            return
        if self.looks_inside:
            self.inside.tick()
        else:
            self._refresh_rows()

    # -- going

    async def go_to(self, key: str) -> None:
        """An address: look into that mailbox. The id of a message: at that message, wherever it is."""
        self._guest = True
        if not key.isdigit():
            self.go_inside(key)
            return
        detail = await self.gateway.mailboxes.message(int(key))
        self.go_inside(detail.recipient, key)
        if detail.line is None:  # it waits no more: it is on no list
            self.inside.read_on()
            await self.inside.walk_to(detail.id, detail.recipient)

    def go_inside(self, address: str, message: str = "") -> None:
        """Look into a mailbox."""
        if self.looks_inside and self.inside.address not in ("", address):
            self._came_from.append(self.inside.address)
        self.add_class("-inside")
        self.inside.open(address, message)
        self.take_focus()
        self.refresh_bindings()
        self.frame.action_look_now()

    def _go_outside(self) -> None:
        self.query_one("#messages-filter", FilterBar).put("")
        self._guest = False
        if self._came_from:
            self.inside.open(self._came_from.pop())
        else:
            self.remove_class("-inside")
        self.take_focus()
        self.refresh_bindings()
        self.frame.action_look_now()

    @on(LineTable.Opened, "#boxes")
    def _open_box(self, event: LineTable.Opened) -> None:
        self._guest = False
        self.go_inside(event.key)

    @on(LineTable.Highlighted, "#boxes")
    def _moved(self) -> None:
        self._show_why()
        self.refresh_bindings()
        self._read_soon()

    @work(group="boxes", exclusive=True)
    async def _read_soon(self) -> None:
        with self.frame.complaining():
            await self._read_lines()

    @on(Reader.Followed)
    async def _follow(self, event: Reader.Followed) -> None:
        event.stop()
        await self._go(target_of(event.target))

    async def _go(self, target: Target) -> None:
        match target.what:
            case "mailbox":
                self.go_inside(target.key)
            case "message":
                with self.frame.complaining():
                    await self.inside.walk_to(int(target.key), target.recipient)
            case "run":
                self.frame.open_screen("runs", target.key)
            case "decision":
                self.frame.open_screen("approvals", target.key)
            case _:
                self.frame.open_screen("dead", target.key)

    # -- keys

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """What works on what is in front."""
        if not self.is_mounted:
            return False
        match action:
            case "leave":
                return not self._leads_back if self.looks_inside else bool(self.filter)
            case "sort" | "turn":
                return not self.looks_inside
            case "raw" | "give_up" | "step":
                return self.looks_inside
            case "run":
                return self.looks_inside and self.inside.detail is not None and bool(self.inside.detail.run)
            case "pause" | "export" | "owner":
                return bool(self.address)
            case _:
                return super().check_action(action, parameters)

    @property
    def _leads_back(self) -> bool:
        """Whether the next step back is the frame's: to the screen that opened this mailbox."""
        inner = self.inside.walking or self.inside.reader.has_focus or bool(self.filter) or bool(self._came_from)
        return self._guest and not inner and self.frame.check_action("come_back", ()) is True

    async def action_leave(self) -> None:
        """A step back; it never decides anything."""
        if not self.looks_inside:
            self.action_clear_filter()
        elif self.inside.walking:
            await self.inside.step_back()
        elif self.inside.reader.has_focus:
            self.inside.leave_page()
        elif self.filter:
            self.action_clear_filter()
        else:
            self._go_outside()

    def action_filter(self) -> None:
        """Of a list its filter; on the page a text is looked for."""
        if self.looks_inside and self.inside.reader.has_focus:
            self.inside.open_find()
        else:
            super().action_filter()

    def action_sort(self) -> None:
        """By depth, by age, by address."""
        self._order = (self._order + 1) % len(ORDERS)
        self._sort_anew()

    def action_turn(self) -> None:
        """The other way round."""
        self._turned = not self._turned
        self._sort_anew()

    def _sort_anew(self) -> None:
        self._sorted()

    @work(group="sort", exclusive=True)
    async def _sorted(self) -> None:
        with self.frame.complaining():
            await self._look_at_list()

    def action_raw(self) -> None:
        """The body pretty, or on one line."""
        self.inside.raw = not self.inside.raw
        self.inside.show_page()

    def action_step(self, by: int) -> None:
        """To the message before, or after."""
        self.inside.step(by)

    def action_run(self) -> None:
        """The run that the message is of."""
        if self.inside.detail is not None and self.inside.detail.run:
            self.frame.open_screen("runs", self.inside.detail.run)

    def action_owner(self) -> None:
        """The actor whose mailbox it is."""
        self.frame.open_screen("actors", self.address)

    def action_pause(self) -> None:
        """Pause the actor, or let it go on."""
        self._pause()

    def action_give_up(self) -> None:
        """Discard the message, or put it among the dead letters."""
        if self.inside.message_id:
            self._give_up()

    def action_export(self) -> None:
        """All of the mailbox into a file."""
        self._export()

    @work(group="doing", exclusive=True)
    async def _pause(self) -> None:
        await doing.pause(self.frame, self.address)

    @work(group="doing", exclusive=True)
    async def _give_up(self) -> None:
        await doing.give_up(self.frame, self.inside.message_id)

    @work(group="doing", exclusive=True)
    async def _export(self) -> None:
        await doing.export(self.frame, self.address)
