"""The screen of the audit trail: who did what to what, from where, and what came of it. It is only ever added to."""

import json
from pathlib import Path
from typing import ClassVar

from textual import events, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.geometry import Size

from callboard.persistence.operating import AuditRow
from callboard.service.operations.audit import MAX_ROWS
from callboard.service.operations.audit_records import about_a_call, audit_item
from callboard.service.operations.lookup import KIND
from callboard.tui.filter_bar import FilterBar, FilteredPane, filter_title
from callboard.tui.table import LineTable
from callboard.tui.text import Line, content, line, piece, wrapped
from callboard.tui.times import clock
from callboard.tui.trace_event import EventBox, EventDialog, Tell

from . import rows
from .export import write
from .listing import Listing


class AuditPane(FilteredPane):
    """The screen of the audit trail."""

    heading: ClassVar[str] = "Audit"
    short: ClassVar[str] = "Audit"
    DEFAULT_CSS = """
    AuditPane { layout: vertical; }
    AuditPane #audit-side { height: 1fr; border: round $cb-line; border-title-color: $cb-info; }
    AuditPane #audit-side:focus-within { border: round $cb-info; }
    AuditPane EventBox { height: 11; }
    AuditPane.-low EventBox { display: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("o", "object", "open what it was done to"),
        Binding("r", "run", "its run", show=False),
        Binding("E", "export", "export"),
    ]

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.listing: Listing | None = None
        self.table = LineTable(rows.columns(80), id="audit")

    def compose(self) -> ComposeResult:
        with Vertical(id="audit-side"):
            yield self.table
            yield FilterBar(rows.FIELDS)
        yield EventBox(hint="o open what it was done to", id="audit-row")

    # --- what is shown -----------------------------------------------------------------------------------------

    async def look(self) -> None:
        """Read what was added, and what the rows in sight are about."""
        if self.listing is None:
            self.listing = Listing(self.gateway.audit, self.filter)
        await self.listing.look()
        self._show()
        await self._read_about()

    async def _read_about(self) -> None:
        listing = self.listing
        if listing is None:
            return
        sight = set(self.table.shown)
        if await listing.read_about([row for row in listing.items if str(row.number) in sight]):
            self._show()

    def _when(self, at: float) -> str:
        # Of an audit trail the time of day is wanted, whatever the style: "12 minutes ago" is nothing to quote.
        return clock(at, self.frame.style_of_times, now=self.frame.now())

    def _show(self, *, fresh: bool = False) -> None:
        listing = self.listing
        if listing is None or not listing.known:
            return
        self.table.columns = rows.columns(self.table.size.width)
        shown = [rows.row(listing.record(row), self._when) for row in listing.items]
        self.table.show(shown, start=listing.start, end=listing.end, fresh=fresh)
        if self.filter:
            self.table.say_when_empty(line("Nothing of that kind was done. ", piece("esc", "key"), " shows all."))
        else:
            self.table.say_when_empty(line("Nothing was done yet. Every decision and every change is written here."))
        box = self.query_one("#audit-side")
        box.border_title = filter_title("Audit", self.filter, piece("newest first", "dim"))
        first, last = self.table.sight
        more = "" if listing.end else "+"
        place = f"{first}–{last} of {len(listing.items):,}{more} · append-only" if listing.items else "append-only"
        box.border_subtitle = content(piece(place, "dim"))
        self._show_row()

    def _show_row(self) -> None:
        box = self.query_one(EventBox)
        if box.display:
            box.show(self._tell(0))

    @property
    def row(self) -> AuditRow | None:
        """The row under the cursor."""
        key = self.table.cursor_key
        items = self.listing.items if self.listing is not None else []
        return next((row for row in items if str(row.number) == key), None)

    @property
    def selected(self) -> str:
        return self.row.object if self.row is not None else ""

    def _tell(self, by: int) -> Tell | None:
        if by:
            self.table.action_move(by)
        row, listing = self.row, self.listing
        if row is None or listing is None:
            return None

        def tell(width: int, raw: bool) -> tuple[Line, list[Line]]:
            record = listing.record(row)
            title = line(piece(f"Row {row.number:,}", "strong"), piece(f" · {record.did} · {rows.what(record)}", "dim"))
            if not raw:
                return title, rows.told(record, width, self._when)
            text = json.dumps(audit_item(row), ensure_ascii=False, indent=2)
            return title, [one for part in text.split("\n") for one in wrapped(line(part), width, hang=4)]

        return tell

    # --- what is heard -----------------------------------------------------------------------------------------

    async def on_line_table_wanted(self, event: LineTable.Wanted) -> None:
        if self.listing is not None:
            with self.frame.complaining():
                if event.far:
                    await self.listing.far(below=event.below)
                else:
                    await self.listing.more(below=event.below)
            self._show()

    def on_line_table_highlighted(self) -> None:
        self._show_row()
        self._about_what_is_in_sight()

    @work(group="about", exclusive=True)
    async def _about_what_is_in_sight(self) -> None:
        with self.frame.complaining():
            await self._read_about()

    def on_line_table_opened(self) -> None:
        self.frame.push_screen(EventDialog(self._tell))

    def filter_changed(self) -> None:
        self.listing = Listing(self.gateway.audit, self.filter)
        self.frame.action_look_now()

    def lay_out_for(self, size: Size) -> None:
        """See `Pane`."""
        self.set_class(size.height < 26, "-low")

    def on_resize(self, event: events.Resize) -> None:
        self.lay_out_for(event.size)
        self.call_after_refresh(self._show)

    async def go_to(self, key: str) -> None:
        self.bar.put(f'object="{key}"' if '"' not in key else "")

    # --- keys --------------------------------------------------------------------------------------------------

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        match action:
            case "object":
                return self.is_mounted and self.row is not None and bool(self._place(self.row.object))
            case "run":
                return self.is_mounted and self.row is not None and about_a_call(self.row)
            case "export":
                return self.is_mounted and bool(self.table.rows)
        return super().check_action(action, parameters)

    def _place(self, object: str) -> str:
        """The screen on which an object is; "" for none."""
        if object.startswith("dead-letter:"):
            return "dead"
        if object.startswith("/"):
            return "actors"
        return "approvals" if self.row is not None and about_a_call(self.row) else ""

    @work(group="go", exclusive=True)
    async def action_object(self) -> None:
        """Open what the row was done to, where it is at home."""
        row = self.row
        if row is None:
            return
        place, key = self._place(row.object), row.object.removeprefix("dead-letter:")
        with self.frame.complaining():
            if place == "actors":
                actor = await self.gateway.store.actor(row.object)
                place = "runs" if actor is not None and actor.kind == KIND else place
            elif place == "approvals":
                decision = await self.gateway.store.decision(row.object)
                if decision is None or decision.status != "pending":
                    place, key = "runs", decision.run if decision is not None else ""
            if key:
                self.frame.open_screen(place, key)

    @work(group="go", exclusive=True)
    async def action_run(self) -> None:
        """The run of the call that was decided."""
        if self.row is not None:
            with self.frame.complaining():
                decision = await self.gateway.store.decision(self.row.object)
                if decision is not None:
                    self.frame.open_screen("runs", decision.run)

    @work(group="export", exclusive=True)
    async def action_export(self) -> None:
        """Write the rows that fit into a file in the working directory."""
        with self.frame.complaining():
            found = await self.gateway.audit.list(limit=MAX_ROWS)
            fitting = [row for row in found if self.filter.fits(lambda name, row=row: rows.value_of(row, name))]  # type: ignore[misc]
            try:
                path = write(fitting, Path.cwd(), self.frame.now())
            except OSError as error:
                self.frame.say(piece(f"not written: {error}", "bad"), bad=True)
                return
            more = f", of the newest {MAX_ROWS:,}" if len(found) == MAX_ROWS else ""
            self.frame.say(f"{len(fitting):,} row(s){more} written to {path.name}")
