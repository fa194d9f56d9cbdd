"""Several requests decided together: all of them in a list, the total typed, and what became of each.

Which can be decided together, and what their total is, is `service.operations.together`'s to say. Each is decided, held
and written down on its own; one that somebody else took is skipped and named.
"""

from collections.abc import Sequence
from decimal import Decimal
from typing import ClassVar

import anyio
from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Input, Static

from callboard.mailbox.errors import CallboardError, StoreUnavailable
from callboard.service.operations.decisions import Answer, Outcomes
from callboard.service.operations.demands import Asked
from callboard.service.operations.together import LeftOut, refusals, together
from callboard.service.operations.views import ApprovalView

from ..dialog import Dialog
from ..frame_keys import KeysLine
from ..table import LineTable
from ..table_rows import Column, Row
from ..text import Line, Piece, block, content, duration, line, money, piece, wrapped
from .fields import Fields
from .sheet import sums_line
from .subject import whom

COLUMNS = [
    Column("amount", "amount", 11, right=True, whole=True),
    Column("tool", "tool", 13),
    Column("for", "for", 10, grow=1),
    Column("asked", "asked by", 15, drop=2),
    Column("checks", "checks", 10),
    Column("became", "", 0),
]
AFTER = [
    *COLUMNS[:3],
    COLUMNS[3],
    Column("checks", "checks", 10, drop=1),
    Column("became", "what became of it", 20, grow=3),
]
MOST_SUSPECTS = 3
"""Of those that are left out for a text that is not what it looks like, how many are named."""
WAYS = {"approved": "Approve together", "denied": "Deny together"}


class Several(Dialog[bool]):
    """Decide several; True: something was sent."""

    answer_seconds: ClassVar[float] = 30.0
    status: ClassVar[str] = "approved"
    SCOPED_CSS: ClassVar[bool] = False
    DEFAULT_CSS = """
    Several { align: center middle; }
    #several {
        width: 100%; height: auto; max-height: 100%; background: $panel; border: round $cb-needs;
        border-title-color: $cb-needs; border-title-style: bold;
    }
    Several.-wide #several { width: 108; max-height: 94%; }
    Several.-broad #several { width: 108; max-height: 94%; }
    #several > Static { height: auto; padding: 0 1; }
    #several > .gap { margin-top: 1; }
    Several.-short #several > .gap { margin-top: 0; }
    #several LineTable { height: auto; min-height: 3; max-height: 12; background: $panel; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "leave undecided"),
        Binding("down", "rows(1)", "down", show=False),
        Binding("up", "rows(-1)", "up", show=False),
    ]

    def __init__(self, chosen: Sequence[ApprovalView], left_out: Sequence[LeftOut]) -> None:
        super().__init__()
        self.chosen, self.left_out = list(chosen), list(left_out)
        self.outcomes: Outcomes | None = None
        self.sent = False
        self.skipped: dict[str, str] = {}
        """Why those were skipped that were."""
        self.said: list[Line] = []
        self._key = ""

    def compose(self) -> ComposeResult:
        count = len(self.chosen)
        with Vertical(id="several") as box:
            box.border_title = content(f"{WAYS[self.status]} · {count} request{'s' if count != 1 else ''}")
            yield Static(block(self.heading()), id="several-head")
            table = LineTable(COLUMNS, id="several-rows")
            table.can_focus = False  # the keys belong to the fields
            yield table
            yield Static(block(self._about_left_out()), classes="gap")
            yield Fields()
            yield Static(id="several-foot")
            yield KeysLine()

    async def on_mount(self) -> None:
        table = self.query_one(LineTable)
        table.styles.height = min(len(self.chosen) + 1, 12)
        table.show([_row(one) for one in self.chosen])
        table.say_when_empty(line(piece("none of them", "dim")))
        if self.chosen:
            await self.ask()
        self.show_foot()

    def on_resize(self) -> None:
        """What is said below is wrapped for the box, which has its size only now."""
        self.call_after_refresh(self.show_foot)

    # -- what differs between a yes and a no

    def heading(self) -> list[Line]:
        """What all of them come to."""
        raise AttributeError("see TogetherDialog")

    async def ask(self) -> None:
        """Open the fields."""
        raise AttributeError("see TogetherDialog")

    @property
    def missing(self) -> str:
        """What is still to be typed."""
        raise AttributeError("see TogetherDialog")

    def armed(self) -> Line:
        """What Enter does."""
        raise AttributeError("see TogetherDialog")

    def answers(self, key: str) -> list[tuple[str, Answer]]:
        """What is sent."""
        raise AttributeError("see TogetherDialog")

    # -- what is shown

    def _about_left_out(self) -> list[Line]:
        each = line(
            piece(
                "Each is decided, logged and held on its own; one that somebody else took is skipped and named.", "dim"
            )
        )
        if not self.left_out:
            return [each]
        reasons = list(dict.fromkeys(one.why for one in self.left_out))
        count, of = len(self.left_out), len(self.left_out) + len(self.chosen)
        parts: list[Piece] = [piece(f"Left out: {count} of {of} need a look of their own ", "needs")]
        parts.append(piece(f"({', '.join(reasons)}).", "dim"))
        odd = [one for one in self.left_out if one.suspects]
        told = [
            line(piece(f"  ▲ {one.view.tool} {whom(one.view)}: ", "bad"), piece(one.suspects[0], "needs"))
            for one in odd[:MOST_SUSPECTS]
        ]
        if len(odd) > MOST_SUSPECTS:
            told.append(line(piece(f"  ▲ and {len(odd) - MOST_SUSPECTS} more with such a text", "bad")))
        return [tuple(parts), *told, each]

    def show_foot(self) -> None:
        """Say what Enter does."""
        room = max(self.query_one("#several").size.width - 2, 20)
        foot = [part for one in self._foot() for part in wrapped(one, room, hang=3)]
        self.query_one("#several-foot", Static).update(block(foot))

    def _foot(self) -> list[Line]:
        if self.said:
            return self.said
        if self.outcomes is not None:
            why = [line(piece(f"   skipped {given}: {text}", "needs")) for given, text in self.skipped.items()]
            return [
                line(piece(f" {told_of(self.outcomes, self.status)}", "strong")),
                *why[:6],
                line(piece(" Esc back", "dim")),
            ]
        if self.sent:
            return [line(piece(" … sending", "dim"))]
        if not self.chosen:
            return [line(piece(" ○ nothing can be decided together here: open them one by one", "needs"))]
        return [line(piece(f" ○ not armed: {self.missing}", "dim")) if self.missing else self.armed()]

    def action_rows(self, by: int) -> None:
        """Through the list, while typing."""
        self.query_one(LineTable).action_move(by)

    @on(Input.Changed)
    def _typed(self) -> None:
        if not self.sent:
            self.said = []
            self.show_foot()

    @on(Input.Submitted)
    def _submitted(self) -> None:
        if self.sent or self.missing or not self.chosen or self.frame.refuse_change():
            return
        self.sent, self.said = True, []
        self._key = f"dec_{self.gateway.port.token()[:8]}"
        self.show_foot()
        self._send(self.answers(self._key))

    def action_leave(self) -> None:
        """Out; what was sent is sent."""
        self.dismiss(self.sent)

    # -- sending

    @work(group="send")
    async def _send(self, answers: list[tuple[str, Answer]]) -> None:
        outcomes: Outcomes = []
        try:
            with anyio.fail_after(self.answer_seconds):
                outcomes = await self.gateway.decisions.decide_many(answers)
        except (StoreUnavailable, TimeoutError):
            outcomes = await self._find_out(answers)
        for one in outcomes:
            if one.view is not None and one.view.can_take_back:
                self.frame.held(one.view)
        for one in outcomes:
            if one.error is not None:
                self.skipped[one.given] = await self._why(one.given, one.error)
        self.outcomes = outcomes
        await self.query_one(Fields).close()
        table = self.query_one(LineTable)
        table.columns = AFTER
        became = {one.given: _became(one.view, self.skipped.get(one.given, "")) for one in outcomes}
        table.show([_row(one, became.get(one.id, ())) for one in self.chosen])
        self.show_foot()

    async def _why(self, given: str, error: CallboardError) -> str:
        """Why one was skipped: who was first and when, where somebody was; else what the operations say."""
        try:
            view, now = await self.gateway.decisions.now_of(given)
        except CallboardError:
            return str(error)
        if view.status == "pending" or not view.decided_by:
            return str(error) if view.status == "pending" else f"{view.status} meanwhile"
        did = "approved" if view.status == "released" else "changed" if view.status == "superseded" else view.status
        return f"{view.decided_by} {did} it {duration(max(now - view.decided_at, 1))} ago"

    async def _find_out(self, answers: list[tuple[str, Answer]]) -> Outcomes:
        """Ask of each whether it arrived, until that is known; none is sent again."""
        from callboard.service.operations.decisions import Outcome

        self.said = [
            line(
                piece(" ? The database went away while sending. ", "bad"),
                piece(f"Checking with key {self._key}.", "needs"),
            )
        ]
        self.show_foot()
        pause, outcomes = 0.5, Outcomes()
        while len(outcomes) < len(answers) and self.is_attached:
            await self.gateway.port.sleep(pause)
            pause, outcomes = min(2 * pause, 15.0), []
            try:
                for given, answer in answers:
                    arrived = await self.gateway.decisions.arrived(given, answer.key)
                    view, _ = await self.gateway.decisions.now_of(given)
                    outcomes.append(Outcome(given, view if arrived else None, None if arrived else NotSent()))
            except (StoreUnavailable, TimeoutError):
                continue
        self.said = []
        return outcomes


class NotSent(CallboardError):
    """An answer that never arrived."""

    def __str__(self) -> str:
        return "did not arrive; nothing was decided"


class TogetherDialog(Several):
    """Approve several. `waiting`: how many wait in all; `filter`: what the list was narrowed by meanwhile."""

    def __init__(self, marked: Sequence[ApprovalView], waiting: int, filter: str = "") -> None:
        self._marked, self._waiting, self._filter = list(marked), waiting, filter
        super().__init__((), ())

    def compose(self) -> ComposeResult:
        self.plan = together(self._marked, self.gateway.principal)
        self.chosen, self.left_out = self.plan.chosen, self.plan.left_out
        yield from super().compose()

    def heading(self) -> list[Line]:
        """See `Several`."""
        plan = self.plan
        tools = sorted({one.tool for one in plan.chosen})
        parts = [f"{len(plan.chosen)} × {tools[0]}" if len(tools) == 1 else f"{len(plan.chosen)} requests"]
        parts += [_sums(plan.totals), f"largest {_sums(plan.largest)}"] if plan.totals else []
        parts.append("same policy" if len(plan.policies) == 1 else f"{len(plan.policies)} policies")
        said = f"{' · '.join(parts)}, {'all checks passed' if plan.all_checked else 'not all were checked'}"
        rows = [line(piece(f" {said}", "strong"))] if plan.chosen else []
        if self._filter:
            rows.append(line(piece(f" marked in: {self._filter} · {self._waiting:,} wait in all", "dim")))
        return rows

    async def ask(self) -> None:
        """See `Several`."""
        totals = [Asked("total", one.text, one.currency) for one in self.plan.totals]
        await self.query_one(Fields).ask(totals, "note", hint="one note for all, optional")

    @property
    def missing(self) -> str:
        """See `Several`."""
        return self.plan.missing(self.query_one(Fields).amounts)

    def armed(self) -> Line:
        """See `Several`."""
        hold = self.plan.hold_seconds
        held = f"held {duration(hold)}, u takes them back" if hold else "they go at once"
        count = len(self.chosen)
        return line(
            piece(" ● armed: ", "ok"),
            piece(f"Enter approves {count} request{'s' if count != 1 else ''}", "strong"),
            piece(f" · {held} · recorded as {self.gateway.principal.name}", "dim"),
        )

    def answers(self, key: str) -> list[tuple[str, Answer]]:
        """See `Several`."""
        return self.plan.approvals(self.query_one(Fields).note.strip(), key)


class DenyTogether(Several):
    """Refuse several, with one reason."""

    status = "denied"

    def __init__(self, marked: Sequence[ApprovalView]) -> None:
        answers, left_out = refusals(marked, "", "")
        going = {given for given, _ in answers}
        super().__init__([one for one in marked if one.id in going], left_out)

    def heading(self) -> list[Line]:
        """See `Several`."""
        return [line(piece(" None of these calls is made; each agent reads your reason and goes on.", "strong"))]

    async def ask(self) -> None:
        """See `Several`."""
        await self.query_one(Fields).ask([], "reason", hint="for all of them; the agents read it")

    @property
    def missing(self) -> str:
        """See `Several`."""
        return "" if self.query_one(Fields).note.strip() else "say why: the agents read it"

    def armed(self) -> Line:
        """See `Several`."""
        return line(piece(f" ● Enter denies {len(self.chosen)}", "bad"), piece(" · Esc back, nothing decided", "dim"))

    def answers(self, key: str) -> list[tuple[str, Answer]]:
        """See `Several`."""
        return refusals(self.chosen, self.query_one(Fields).note.strip(), key)[0]


def told_of(outcomes: Outcomes, status: str) -> str:
    """`2 approved, 1 skipped`."""
    done = sum(one.view is not None for one in outcomes)
    skipped = len(outcomes) - done
    return f"{done} {status}" + (f", {skipped} skipped" if skipped else "")


def _sums(asked: Sequence[Asked]) -> str:
    return " + ".join(money(Decimal(one.text), one.currency) for one in asked)


def _row(view: ApprovalView, became: Line = ()) -> Row:
    passed = sum(bool(one.get("ok")) for one in view.checks)
    good = passed == len(view.checks)
    checks = piece(f"{'✓' if good else '▲'} {passed} of {len(view.checks)}", "ok" if good else "bad")
    return Row(
        view.id,
        [
            sums_line(view) or line(piece("—", "dim")),
            line(view.tool),
            line(piece(whom(view))),
            line(piece(view.run_address.rpartition("/")[2], "dim")),
            line(checks if view.checks else piece("· none", "dim")),
            became,
        ],
    )


def _became(view: ApprovalView | None, skipped: str) -> Line:
    if view is None:
        return line(piece("skipped: ", "needs"), piece(skipped))
    good = view.status != "denied"
    word = "approved" if good else "denied"
    if view.status == "pending":
        return line(piece(f"● {len(view.approved_by)} of {view.needed} approved", "ok"))
    return line(piece(f"✓ {word}" if good else f"✗ {word}", "ok" if good else "bad"))
