"""The screen of actors: the supervision tree, the long list with what needs attention first, and one actor closely.

The list is read in windows and put together by `Listing`; rows in sight are looked at again each second, in one round
trip, the beginning of the list when something was heard and every few seconds. One read at a time, whoever asks.
"""

import contextlib
from typing import ClassVar

import anyio
from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Vertical
from textual.events import Resize

from callboard.mailbox.address import parent_of
from callboard.mailbox.errors import CallboardError
from callboard.service.operations.filters import Filter
from callboard.service.operations.watching import ActorGlance
from callboard.tui.filter_bar import FilterBar, filter_title
from callboard.tui.frame_box import Box
from callboard.tui.table import LineTable, Row
from callboard.tui.text import content, count, line, piece

from .asks import AskingPane
from .detail import ActorDetail, ActorText, TabName
from .listing import Listing, Wish
from .rows import FIELDS, columns, row
from .said import nothing, position
from .tree import SupervisionTree

GLANCE_SECONDS = 1.0
"""Between two looks at the rows in sight."""
WINDOW_SECONDS = 5.0
"""Between two looks at the beginning of the list, at the tree and at the trends, where nothing is heard."""


class ActorsPane(AskingPane):
    """The screen of actors."""

    heading: ClassVar[str] = "Actors"
    short: ClassVar[str] = "Actors"
    SCOPED_CSS: ClassVar[bool] = False
    """Its rules ask for the size of the screen around it."""
    DEFAULT_CSS = """
    ActorsPane #actors-tree-box { width: 27; border: round $cb-line; border-title-color: $foreground; }
    ActorsPane #actors-list-box { height: 1fr; border: round $cb-line; border-title-color: $foreground; }
    ActorsPane #actors-tree-box:focus-within, ActorsPane #actors-list-box:focus-within { border: round $cb-info; }
    ActorsPane #actors-right { width: 1fr; }
    .-narrow ActorsPane #actors-tree-box { display: none; }
    .-narrow ActorsPane.-tree #actors-tree-box { display: block; width: 1fr; }
    .-narrow ActorsPane.-tree #actors-right { display: none; }
    .-wide ActorsPane.-no-tree #actors-tree-box, .-broad ActorsPane.-no-tree #actors-tree-box { display: none; }
    .-narrow ActorsPane ActorDetail, .-short ActorsPane ActorDetail { display: none; }
    .-broad.-tall ActorsPane #actors-tree-box { width: 32; }
    ActorsPane.-zoom #actors-tree-box, ActorsPane.-zoom #actors-list-box { display: none; }
    ActorsPane.-zoom ActorDetail { display: block; height: 1fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", "back to the list; clear the filter", show=False),
        Binding("s", "sort", "sort"),
        Binding("S", "turn", "turn the order around", show=False),
        Binding("t", "tree", "tree", show=False),
        Binding("left,h", "tab(-1)", "tab before", show=False),
        Binding("right,l", "tab(1)", "next tab", show=False),
        Binding("left_square_bracket", "step(-1)", "actor before", show=False),
        Binding("right_square_bracket", "step(1)", "next actor", show=False),
    ]

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._wish = Wish(filter=Filter(fields=FIELDS))
        self._listing: Listing | None = None
        self._trends: dict[str, list[int]] = {}
        self._turn = anyio.Lock()
        self._window_at = self._slow_at = -WINDOW_SECONDS
        self._by_clock = self._detail_is_due = False
        self._wanted = ""
        """An actor to be selected as soon as it is held."""

    def compose(self) -> ComposeResult:
        with Container(id="actors-tree-box"):
            yield SupervisionTree(id="actors-tree")
        with Vertical(id="actors-right"):
            with Box(id="actors-list-box"):
                yield LineTable(columns(90), id="actors-list")
            yield ActorDetail(id="actors-detail")
        yield FilterBar(FIELDS)

    def on_mount(self) -> None:
        tree = self.query_one("#actors-tree-box")
        tree.border_title = content(piece("Supervision", "strong"))
        tree.border_subtitle = content(piece("t hides", "dim"))
        self._say_titles()
        self.set_interval(GLANCE_SECONDS, self._glance_soon)

    # -- what is where

    @property
    def table(self) -> LineTable:
        """The list."""
        return self.query_one("#actors-list", LineTable)

    @property
    def supervision(self) -> SupervisionTree:
        """The tree."""
        return self.query_one(SupervisionTree)

    @property
    def detail(self) -> ActorDetail:
        """The panel."""
        return self.query_one(ActorDetail)

    @property
    def listing(self) -> Listing:
        """What is held of the list."""
        if self._listing is None or self._listing.wish != self._wish:
            self._listing = Listing(self.gateway.watching, self._wish)
        return self._listing

    @property
    def current(self) -> ActorGlance | None:
        """The actor under the cursor."""
        held = self._listing
        key = self.table.cursor_key
        return None if held is None or not key else next((one for one in held.items if one.address == key), None)

    @property
    def decisions(self) -> list[str]:
        """Ids of what the actors of the list ask people for."""
        return [] if self._listing is None else [one.decision for one in self._listing.items if one.decision]

    @property
    def selected(self) -> str:
        """The address under the cursor."""
        return self.supervision.cursor_key if self.supervision.has_focus else self.table.cursor_key

    def take_focus(self) -> None:
        """To the list."""
        (self.query_one(ActorText) if self.has_class("-zoom") else self.table).focus()

    def on_resize(self, event: Resize) -> None:
        self.call_after_refresh(self._lay_out)

    def _lay_out(self) -> None:
        width = self.table.size.width
        if width and columns(width) != self.table.columns:
            self.table.columns = columns(width)
            self._show()

    # -- reading

    def _glance_soon(self) -> None:
        if self.display and self.frame.pane is self:
            self._by_clock = True
            self.frame.live.look_at_pane()

    async def look(self) -> None:
        """Read what is due, and show it."""
        by_clock, self._by_clock = self._by_clock, False
        async with self._turn:
            at, now = self.gateway.port.monotonic(), self.frame.now()
            listing = self.listing
            due = at - self._window_at
            reads = not listing.known or due >= WINDOW_SECONDS or (not by_clock and due >= GLANCE_SECONDS)
            if reads:
                await listing.first(now)
                self._window_at = at
                if due >= WINDOW_SECONDS:
                    await listing.again(now)
            shown = self.table.shown
            fresh = await self.gateway.watching.glances(shown)
            reads = listing.update(fresh, shown, now) or reads
            reads = await listing.search(now) or reads or len(fresh) < len(shown)
            if reads and self._slow_at < 0.0:
                self._show()  # at first, the list does not wait for the tree: counting takes long where there is much
            await self._read_slowly(at)
        if reads:
            self._show()
        else:
            self._show_sight()
        await self.detail.read(self.current)

    async def _read_slowly(self, at: float) -> None:
        fresh = [key for key in self.table.shown if key not in self._trends]
        if at - self._slow_at >= WINDOW_SECONDS:
            self._slow_at = at
            fresh = self.table.shown
            self.supervision.put(await self.gateway.watching.tree())
        if fresh:
            shown = set(self.table.shown)
            kept = {key: trend for key, trend in self._trends.items() if key in shown}
            self._trends = {**kept, **{key: [] for key in fresh}, **await self.gateway.watching.trends(fresh)}

    @work(group="actors-page")
    async def _page(self, *, below: bool, far: bool) -> None:
        with contextlib.suppress(CallboardError):  # the next look has it too, and the frame tells
            async with self._turn:
                listing, now = self.listing, self.frame.now()
                before = (len(listing.items), listing.start, listing.end)
                if far:
                    await (listing.last(now) if below else listing.beginning(now))
                else:
                    await listing.more(now, below=below)
            if before != (len(listing.items), listing.start, listing.end):
                self._show()
            else:
                self._say_titles()

    def _read_detail(self) -> None:
        """Read one actor closely, soon; whoever asks meanwhile is served by the same read."""
        if self.detail.display and not self._detail_is_due:
            self._detail_is_due = True
            self._read_detail_now()

    @work(group="actors-detail")
    async def _read_detail_now(self) -> None:
        with contextlib.suppress(CallboardError):
            async with self._turn:
                self._detail_is_due = False
                await self.detail.read(self.current)

    # -- showing

    def _show(self, *, fresh: bool = False) -> None:
        listing = self._listing
        if listing is None or not listing.known:
            return
        self.table.say_when_empty(*nothing(listing, self._total))
        self.table.show(self._rows(listing.items), start=listing.start, end=listing.end, fresh=fresh)
        if self._wanted and self.table.select(self._wanted):
            self._wanted = ""
        self._say_titles()
        self.detail.choose(self.current)
        self.refresh_bindings()

    def _show_sight(self) -> None:
        """Show the rows in sight as they are now; no others have come or gone."""
        if self._listing is not None:
            shown = set(self.table.shown)
            self.table.update_rows(self._rows([one for one in self._listing.items if one.address in shown]))
            self._say_titles()
            self.detail.choose(self.current)
            self.refresh_bindings()

    def _rows(self, items: list[ActorGlance]) -> list[Row]:
        now, base = self.frame.now(), self._base
        width = next(one.width for one in self.table.columns if one.key == "actor")
        return [row(one, now=now, base=base, width=width, trend=self._trends.get(one.address, ())) for one in items]

    @property
    def _base(self) -> str:
        """What need not be said of an address: the chosen place, or the one root there is."""
        place = self._wish.place
        node = self.supervision.node(place)
        if place == "/":
            tops = self.supervision.root.children
            return f"{tops[0].address}/" if len(tops) == 1 else "/"
        return f"{place}/" if node is not None and node.children else f"{parent_of(place)}/"

    @property
    def _total(self) -> int:
        node = self.supervision.node(self._wish.place)
        if self._wish.place == "/":
            # The tree has also those that do not exist yet; the line is the newer of both.
            return max(self.frame.attention.total if self.frame.attention else 0, self.supervision.root.total)
        return node.total if node is not None else 0

    def _say_titles(self) -> None:
        box, listing, wish = self.query_one("#actors-list-box"), self._listing, self._wish
        total = count(self._total) if self._total else "0"
        where = [] if wish.place == "/" else [piece(wish.place, "strong")]
        if wish.filter and listing is not None:
            known = f"{len(listing.items):,}{'' if listing.whole else '+'}"
            counts = f"{known} of {total}"
        else:
            counts = total if where else f"all {total}"
        order = "by address" if wish.by_address else "attention first"
        if wish.turned:
            order += ", backwards"
        box.border_title = filter_title("Actors", wish.filter, *where, counts, piece(order, "dim"))
        told = line(piece("enter opens · / filters", "dim"))
        if listing is not None and listing.known:
            told = position(listing, self.table.sight, self._total)
        box.border_subtitle = content(told)

    # -- what the widgets say

    def on_line_table_highlighted(self, event: LineTable.Highlighted) -> None:
        if event.table is self.table:
            self.detail.choose(self.current)
            self._say_titles()
            self.refresh_bindings()
            self._read_detail()

    def on_line_table_opened(self, event: LineTable.Opened) -> None:
        if event.table is self.table:
            self.action_open()

    def on_line_table_wanted(self, event: LineTable.Wanted) -> None:
        if event.table is self.table:
            self._page(below=event.below, far=event.far)

    def on_supervision_tree_chosen(self, event: SupervisionTree.Chosen) -> None:
        self._ask_for(place=event.node.address, prefix=self.supervision.prefix(event.node.address))
        self.supervision.choose(event.node.address)
        if self.frame.base.has_class("-narrow"):
            self.remove_class("-tree")
            self.table.focus()

    def on_tab_name_wanted(self, event: TabName.Wanted) -> None:
        self.detail.show_tab(event.tab)
        self._read_detail()

    def filter_changed(self) -> None:
        """Show what fits now."""
        self._ask_for(filter=self.filter)

    @work(group="actors-list")
    async def _read_list(self) -> None:
        with contextlib.suppress(CallboardError):
            async with self._turn:
                if not self.listing.known:
                    await self.listing.first(self.frame.now())
                    await self.listing.enough(self.frame.now())
            self._show(fresh=not self._wanted)
            self.frame.live.look_at_pane()

    def _ask_for(self, **what: object) -> None:
        """Show another list."""
        now = self._wish
        known = {"place": now.place, "prefix": now.prefix, "filter": now.filter,
                 "by_address": now.by_address, "turned": now.turned}  # fmt: skip
        wish = Wish(**{**known, **what})  # type: ignore[arg-type]
        if wish != now:
            self._wish = wish
            self._read_list()

    # -- keys

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Keys that have something to work on."""
        match action:
            case "step":
                return self.has_class("-zoom")
            case "back":
                return bool(self.has_class("-zoom") or (self.is_mounted and self.filter))
            case "turn":
                return self._wish.by_address
            case "tab":
                return self.is_mounted and self.detail.display
        return super().check_action(action, parameters)

    def action_open(self) -> None:
        """One actor closely, on the whole pane."""
        if self.current is not None:
            self.add_class("-zoom")
            self.detail.hint(zoomed=True)
            self.query_one(ActorText).focus()
            self.refresh_bindings()
            self.call_after_refresh(self._read_detail)

    def action_back(self) -> None:
        """Back to the list, or to all of it."""
        if self.has_class("-zoom"):
            self.close()
        else:
            self.action_clear_filter()

    def close(self) -> None:
        """Show the list again."""
        self.remove_class("-zoom")
        self.detail.hint(zoomed=False)
        self.table.focus()
        self.refresh_bindings()

    def action_step(self, by: int) -> None:
        """The next actor of the list, or the one before."""
        self.table.action_move(by)

    def action_tab(self, by: int) -> None:
        """The next tab, or the one before."""
        self.detail.turn(by)
        self._read_detail()

    @property
    def place(self) -> str:
        """Of the tree: what the list shows."""
        return self._wish.place

    def action_tree(self) -> None:
        """Hide the tree, or show it."""
        narrow = self.frame.base.has_class("-narrow")
        self.toggle_class("-tree" if narrow else "-no-tree")
        if not self.query_one("#actors-tree-box").display and self.supervision.has_focus:
            self.table.focus()
        elif narrow and self.has_class("-tree"):
            self.supervision.focus()

    def action_sort(self) -> None:
        """By attention, or by address."""
        self._ask_for(by_address=not self._wish.by_address, turned=False)

    def action_turn(self) -> None:
        """Addresses backwards, or forwards again."""
        self._ask_for(turned=not self._wish.turned)

    async def go_to(self, key: str) -> None:
        """Select the actor at this address, whatever was shown before."""
        if self.has_class("-zoom"):
            self.close()
        if self.table.select(key):
            return
        self.bar.put("")
        async with self._turn:
            self._wish = Wish(filter=self.filter, by_address=self._wish.by_address)
            self.supervision.choose("/")
            await self.listing.first(self.frame.now())
            if all(one.address != key for one in self.listing.items):
                await self.listing.around(key, self.frame.now())
        self._wanted = key
        self._show()
        if self._wanted:
            self._wanted = ""
            self.frame.say(piece(f"there is no actor at {key}", "bad"), bad=True)
