"""The screen of the system: is it healthy, which nodes serve, what was spent today, and what may be done here."""

from datetime import UTC, datetime
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.geometry import Size
from textual.widgets import Static

from callboard.mailbox.errors import StoreUnavailable
from callboard.service.operations.health import HealthReport, status
from callboard.service.operations.spent import Spent, spent_since
from callboard.tui.pane import Pane
from callboard.tui.table import LineTable
from callboard.tui.text import Line, block, content, line, piece
from callboard.tui.trace_event import EventBox, EventDialog, Tell

from . import rows

CHECK_SECONDS = 5.0
"""Between two looks at everything, at least."""


class SystemPane(Pane):
    """The screen of the system."""

    heading: ClassVar[str] = "System"
    short: ClassVar[str] = "System"
    DEFAULT_CSS = """
    SystemPane { layout: vertical; }
    SystemPane.-beside { layout: horizontal; }
    SystemPane Vertical { height: 1fr; width: 1fr; }
    SystemPane .box { border: round $cb-line; border-title-color: $cb-info; }
    SystemPane .box:focus-within { border: round $cb-info; }
    SystemPane #health-side { height: 3fr; }
    SystemPane #nodes-side { height: 2fr; }
    SystemPane.-beside #health-side { height: 1fr; width: 1fr; }
    SystemPane.-beside #nodes-side { height: 1fr; width: 54; }
    SystemPane EventBox { height: 8; }
    SystemPane #others { height: auto; padding: 0 1; border: round $cb-line; }
    SystemPane.-short EventBox { display: none; }
    SystemPane.-short #others { border: none; height: 1; }
    SystemPane.-short #health-side { height: 1fr; }
    SystemPane.-short #nodes-side { height: 7; }
    SystemPane.-low #nodes-side { height: 5; }
    SystemPane.-beside.-short #nodes-side { height: 1fr; }
    """

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.report: HealthReport | None = None
        self.spent: Spent | None = None
        self.looked = 0
        """How often everything was looked at."""
        self._looked_at = -CHECK_SECONDS
        self.checks = LineTable(rows.CHECKS, id="checks")
        self.nodes = LineTable(rows.NODES, id="nodes")

    def compose(self) -> ComposeResult:
        with Vertical(id="health-side"):
            with Vertical(id="health-box", classes="box"):
                yield self.checks
            yield EventBox(id="check-box")
        with Vertical(id="nodes-side"):
            with Vertical(id="nodes-box", classes="box"):
                yield self.nodes
            yield Static(id="others")

    async def look(self) -> None:
        """Look at everything, at most every CHECK_SECONDS; the nodes each time."""
        port = self.gateway.port
        if port.monotonic() - self._looked_at >= CHECK_SECONDS:
            self._looked_at = port.monotonic()
            self.report = await status(self.gateway.store, port)
            self.looked += 1
            today = datetime.fromtimestamp(self.frame.now(), UTC).replace(hour=0, minute=0, second=0, microsecond=0)
            try:
                self.spent = await spent_since(self.gateway.operations, today.timestamp())
            except StoreUnavailable:
                self.spent = None
        self._show()

    def _show(self) -> None:
        report = self.report
        self.checks.say_when_empty(line("Looking…"))
        self.checks.show([rows.check_row(one) for one in report.checks] if report is not None else [])
        health = self.query_one("#health-box")
        health.border_title = content(piece("Health", "title"), piece(" · ", "dim"), rows.summary(report))
        line_ = self.frame.attention
        members = line_.nodes if line_ is not None else []
        now = self.frame.now()
        self.nodes.say_when_empty(line("No node serves. ", piece("callboard daemon APP", "key"), " starts some."))
        self.nodes.show([rows.node_row(one, now) for one in sorted(members, key=lambda one: one.number)])
        nodes = self.query_one("#nodes-box")
        serving = sum(rows.node_word(one) in ("RUNNING", "DRAINING") for one in members)
        nodes.border_title = content(piece("Nodes", "title"), piece(f" · {serving} of {len(members)} serve", "dim"))
        others = self.query_one("#others", Static)
        chaos = self.gateway.principal.chaos and "admin" in self.gateway.principal.scopes
        told = rows.other_lines(self.spent, chaos=chaos, width=max(others.size.width, 20))
        others.update(block(told[:1] if self.has_class("-short") else told))
        self._show_check()

    def _show_check(self) -> None:
        box = self.query_one(EventBox)
        if box.display:
            box.show(self._tell(0))

    def _tell(self, by: int) -> Tell | None:
        if by:
            self.checks.action_move(by)
        found = self.report.checks if self.report is not None else []
        check = next((one for one in found if one.name == self.checks.cursor_key), None)
        if check is None:
            return None

        def tell(width: int, raw: bool) -> tuple[Line, list[Line]]:
            del raw
            return line(piece(check.name, "strong")), rows.check_told(check, width)

        return tell

    @property
    def selected(self) -> str:
        return self.checks.cursor_key

    # --- what is heard -----------------------------------------------------------------------------------------

    def on_line_table_highlighted(self, event: LineTable.Highlighted) -> None:
        if event.table is self.checks:
            self._show_check()

    def on_line_table_opened(self, event: LineTable.Opened) -> None:
        if event.table is self.checks:
            self.frame.push_screen(EventDialog(self._tell))

    def lay_out_for(self, size: Size) -> None:
        """See `Pane`."""
        self.set_class(size.width >= 100, "-beside")
        self.set_class(size.height < 26, "-short")
        self.set_class(size.height < 16, "-low")

    def on_resize(self, event: events.Resize) -> None:
        self.lay_out_for(event.size)
        self.call_after_refresh(self._show)
