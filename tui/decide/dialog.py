"""The dialog in which one request is decided: looking, typing, sending, and hearing nothing.

    look ──y──▶ approve ──Enter, armed──▶ sending ──▶ decided: the dialog is left
      │ └──n──▶ deny ──Enter, a reason──▶ │  ├──▶ over: somebody else, or time, was first
      │         Esc: back to look         │  └──▶ unknown: the database went away; it is asked by the answer's own key
      └◀── the request changed: disarmed, the difference is shown

No key that opens something also finishes it; Enter alone, Space and Esc decide nothing. What is sent is bound to the
digest of what was shown; the operations refuse whatever this screen forgets to ask.
"""

from collections.abc import Sequence
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Input, Static

from callboard.mailbox.errors import CallboardError
from callboard.service.operations.views import ApprovalView

from ..frame_keys import KeysLine
from ..text import Line, block, content, line, piece, wrapped
from . import strip
from .body import Body
from .fields import Fields
from .sending import Sending, Stage
from .sheet import Sheet, head, narrow, wide
from .subject import Subject, differences, read_subject
from .warnings import warnings_of

WIDE_CELLS = 92


class DecideDialog(Sending):
    """Decide on one request. `items`: ids of those that `[` and `]` go to. What comes back is how it was decided."""

    look_seconds: ClassVar[float] = 0.5
    """Between two looks whether the request is still what is shown."""
    CHANGES: ClassVar[frozenset[str]] = frozenset({"approve", "deny", "second_key", "ask", "edit"})
    DEFAULT_CSS = """
    DecideDialog { align: center middle; background: $background 60%; }
    #decide {
        width: 100%; height: 100%; background: $panel; border: round $cb-needs; border-title-color: $cb-needs;
        border-title-style: bold; border-subtitle-color: $cb-dim;
    }
    DecideDialog.-wide #decide { width: 108; height: 94%; }
    DecideDialog.-broad #decide { width: 108; height: 94%; }
    #decide > Static { height: auto; }
    #decide > #decide-head { padding: 0 1; height: 1; }
    #decide > #decide-rule { height: 1; color: $cb-line; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "approve", "approve…", show=False),
        Binding("n", "deny", "deny…", show=False),
        Binding("Y", "second_key", "approve", show=False),
        Binding("e", "ask", "ask the agent"),
        Binding("E", "edit", "edit…"),
        Binding("t", "transcript", "transcript"),
        Binding("o", "open_run", "run"),
        Binding("c", "copy", "copy"),
        Binding("right_square_bracket", "step(1)", "next", key_display="]"),
        Binding("left_square_bracket", "step(-1)", "prev", key_display="["),
        Binding("down", "reason(1)", "next reason", show=False),
        Binding("up", "reason(-1)", "previous reason", show=False),
        Binding("pagedown", "scroll_body(1)", "a page down", show=False),
        Binding("pageup", "scroll_body(-1)", "a page up", show=False),
        Binding("escape", "back", "back, nothing decided"),
        Binding("escape", "leave", "leave undecided"),
    ]

    def __init__(self, subject: Subject, items: Sequence[str] = ()) -> None:
        super().__init__()
        self.subject = subject
        self.items = list(items) or [subject.view.id]
        self.stage: Stage = "look"
        self.note: list[Line] = []
        """What is told above the keys, until something else is."""
        self.seen: set[str] = set()
        """Digests whose arguments were all in view."""
        self.reasons: Sequence[str] = ()
        self.reason_at = -1
        self.draft = ""
        """A note that was begun and left."""
        self._sheet = Sheet([], 0)
        self.key = ""
        self._foot_due = False
        self._looking = False
        self._news: list[Line] = []
        """What changed the arguments; it stays beside later news until somebody begins to answer."""
        self._unsent = False
        """Whether something was typed when it was over: that is said until the next one is shown."""

    # -- what is shown

    def compose(self) -> ComposeResult:
        with Vertical(id="decide"):
            yield Static(id="decide-head")
            yield Body(id="decide-body")
            yield Static(id="decide-rule")
            yield Static(id="decide-question")
            yield Fields()
            yield Static(id="decide-answer")
            yield KeysLine()

    def on_mount(self) -> None:
        self.body.focus()
        self.set_interval(self.look_seconds, self.look)
        self.show_request(top=True)
        if self.subject.view.status != "pending":
            self.look()

    @property
    def body(self) -> Body:
        """What scrolls."""
        return self.query_one(Body)

    @property
    def missing(self) -> str:
        """What is still to be done before Enter (or Y) approves; "" when it is armed."""
        if self.unseen:
            return "see all arguments first (pgdn)"
        return self.subject.demand.missing(self.fields.amounts, self.fields.note)

    @property
    def unseen(self) -> int:
        """Lines of the arguments that were not in view yet."""
        return 0 if self.subject.view.digest in self.seen else max(self._sheet.end - self.body.shown_to, 1)

    def show_request(self, *, top: bool = False) -> None:
        """Lay the request out."""
        box = self.query_one("#decide", Vertical)
        box.border_title = content(line(piece("Decide · ", ""), piece(self.subject.view.id)))
        if self.subject.view.id in self.items and len(self.items) > 1:
            place = self.items.index(self.subject.view.id) + 1
            box.border_subtitle = content(f"request {place} of {len(self.items)}")
        self.body.show(self._lay_out, top=top)
        self.show_foot()

    def _lay_out(self, width: int) -> list[Line]:
        arrange = wide if width >= WIDE_CELLS else narrow
        self._sheet = arrange(self.subject, width, self.clock)
        return self._sheet.lines

    @on(Body.Moved)
    def see(self) -> None:
        """Remember what was in view."""
        if self._sheet.end and self.body.shown_to >= self._sheet.end:
            self.seen.add(self.subject.view.digest)
        self.show_foot()

    def show_foot(self) -> None:
        """Say what keys do now."""
        if not self.is_there:
            return
        self._foot_due = False
        width = max(self.size.width - 6 if self.size.width < 100 else 102, 10)
        room = self.query_one("#decide", Vertical).size.width
        width = room - 2 if room else width
        self.query_one("#decide-head", Static).update(content(head(self.subject, self.frame.now(), width)))
        self.query_one("#decide-rule", Static).update(content(piece("─" * (width + 2), "dim")))
        told = [part for one in [*self._told(), *self._question()] for part in wrapped(one, width, hang=1)]
        self.query_one("#decide-question", Static).update(block(told))
        answer = [part for one in self._answer() for part in wrapped(one, width, hang=1)]
        self.query_one("#decide-answer", Static).update(block(answer))
        self.query_one("#decide-answer", Static).display = bool(answer)
        self.refresh_bindings()

    def _told(self) -> list[Line]:
        warned = strip.unsafe(warnings_of(self.subject.view)) if self.stage in ("look", "approve") else []
        return [*warned, *self.note]

    def _question(self) -> list[Line]:
        match self.stage:
            case "look":
                return strip.looking(self.subject, self.unseen, self.frame.off)
            case "approve":
                return [strip.approving(self.subject)]
            case "deny":
                return [strip.denying(self.reasons, self.reason_at, self.subject.view.kind)]
            case "sending":
                return strip.sending(self.key)
            case "unknown":
                return strip.unknown(self.key)
        return []

    def _answer(self) -> list[Line]:
        if self.stage == "approve":
            return [strip.armed(self.subject, self.missing, self.gateway.principal.name)]
        if self.stage == "deny":
            return [strip.denial_armed(self.missing_denial)]
        return []

    @property
    def missing_denial(self) -> str:
        """What is still to be typed before Enter denies; "" when nothing is."""
        if self.subject.view.kind == "in-doubt":  # a no makes the call, so its sums are repeated
            for one, text in zip(self.subject.demand.repeat, self.fields.amounts, strict=False):
                if not one.word and not one.is_met(text):
                    return f"type {one.field}"
        return "" if self.fields.note.strip() else "say why: the agent reads it"

    # -- keys

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Which keys work now."""
        match action:
            case "approve" | "deny" | "ask" | "edit":
                return self.stage == "look" and self.subject.view.status == "pending" and not self.stepping
            case "second_key":
                return self.stage == "approve" and not self.fields.has_class("-open")
            case "transcript" | "open_run" | "copy":
                return self.stage in ("look", "over")
            case "step":
                return self.stage in ("look", "over") and len(self.items) > 1
            case "reason":
                return self.stage == "deny"
            case "back":
                return self.stage in ("approve", "deny")
            case "leave":
                return self.stage in ("look", "over", "unknown")
        return True

    async def action_approve(self) -> None:
        """Ask what is asked before an approval."""
        self.see()
        demand = self.subject.demand
        if demand.refused or self.unseen or len(demand.repeat) > strip.MOST_TYPED:
            return
        self.stage, self.note, self._news = "approve", [], []
        hint = "why it may go, goes to the audit log" if demand.note else "optional, goes to the audit log"
        if demand.repeat or demand.note:
            await self.fields.ask(demand.repeat, "note", hint=hint, text=self.draft)
        self.show_foot()

    async def action_deny(self) -> None:
        """Ask for the reason of a refusal."""
        if self.subject.demand.refused == "rights":
            return
        self.stage, self.note, self._news, self.reason_at = "deny", [], [], -1
        repeat = [one for one in self.subject.demand.repeat if not one.word][: strip.MOST_TYPED]
        await self.fields.ask(repeat if self.subject.view.kind == "in-doubt" else [], "reason", text=self.draft)
        self.show_foot()
        self._read_reasons()

    @work(group="reasons", exclusive=True)
    async def _read_reasons(self) -> None:
        # Not in the action: keys wait for an action to end, and a database that hangs would take Esc with it.
        with self.frame.complaining():
            self.reasons = (await self.gateway.decisions.common_reasons(self.subject.view.tool))[:4]
        self.show_foot()

    def action_reason(self, by: int) -> None:
        """The next of what people often say."""
        if self.reasons:
            self.reason_at = (self.reason_at + by) % len(self.reasons)
            self.fields.put_note(self.reasons[self.reason_at])
        self.show_foot()

    def action_scroll_body(self, by: int) -> None:
        """Read on while typing."""
        self.body.scroll_relative(y=by * max(self.body.size.height - 1, 1), animate=False)

    async def action_back(self) -> None:
        """Back to looking: disarmed, and nothing is decided. A note that was begun is kept."""
        self.draft = self.fields.note
        await self.back_to_look()

    async def back_to_look(self, note: Sequence[Line] = ()) -> None:
        """Nothing is being typed any more: disarmed."""
        self.stage, self.note = "look", list(note)
        self._unsent = False
        self.fields.disabled = False
        await self.fields.close()
        self.body.focus()
        self.show_foot()

    @on(Input.Changed)
    def _typed(self) -> None:
        if self.stage in ("approve", "deny"):
            self.note = []
            if not self._foot_due:  # once for all keys that came together
                self._foot_due = True
                self.call_later(self.show_foot)

    @on(Input.Submitted)
    def _submitted(self) -> None:
        if self.frame.refuse_change():
            return
        if self.stage == "approve" and not self.missing:
            self.send("approved")
        elif self.stage == "deny" and not self.missing_denial:
            self.send("denied")

    def action_second_key(self) -> None:
        """The second of the two keys that approve what is of low risk."""
        if self.stage == "approve" and not self.missing:
            self.send("approved")

    # -- what others do meanwhile

    @work(group="look")
    async def look(self) -> None:
        """See whether the request is still what is shown."""
        self.show_foot()
        if self._looking or self.is_under_way:
            return
        # Not a worker that ends the one before: that one may be taking fields away, which must not be left half done.
        self._looking = True
        try:
            view, _ = await self.gateway.decisions.now_of(self.subject.view.id)
            if not self.is_under_way:
                await self._compare(view)
        except CallboardError:
            return  # the frame says that the database is away; what is shown and typed stays
        finally:
            self._looking = False

    @property
    def is_under_way(self) -> bool:
        """Whether an answer was sent, and what came of it is not known: until then nothing else is shown or asked."""
        return self.stage in ("sending", "unknown")

    @property
    def _more(self) -> bool:
        return len(self.items) > 1

    async def _compare(self, view: ApprovalView) -> None:
        if not self.is_there:
            return
        old, typed = self.subject.view, self.stage in ("approve", "deny") or self._unsent
        now = self.frame.now()
        overdue = view.status == "pending" and 0 < view.expires_at <= now
        if view.status == "expired" or overdue:
            await self._over(view, strip.expired(view, self.clock(view.expires_at), typed, self._more), typed)
        elif view.status == "superseded":
            await self._superseded(view, typed)
        elif view.status != "pending" and self.stage != "over" and await self.is_own(view):
            await self.decided(view)
        elif view.status != "pending":
            await self._over(view, strip.stale(view, now, typed, self._more), typed)
        elif self.stage == "over" and not self._is_signed(view):
            await self._anew(view, strip.gone_back())
        elif view != old:
            told = self._difference(old, view, now, typed)
            if view.arguments != old.arguments:
                await self._changed(view, told, old)
            else:
                await self._anew(view, [*self._news, *told], self.subject.before)

    def _is_signed(self, view: ApprovalView) -> bool:
        return any(one.by == self.gateway.principal.name for one in view.approved_by)

    @staticmethod
    def _difference(old: ApprovalView, view: ApprovalView, now: float, typed: bool) -> list[Line]:
        if view.checks != old.checks:
            return strip.changed([], "what they found", "The runtime's checks", 1.0, typed)
        last = view.approved_by[-1] if len(view.approved_by) > len(old.approved_by) else None
        if last is not None:
            return strip.one_more(last.by, len(view.approved_by), view.needed, now - last.at, typed)
        return strip.changed([], "the request", "Somebody", 1.0, typed)

    async def _superseded(self, view: ApprovalView, typed: bool) -> None:
        new = await self.gateway.decisions.replacement(view.id)
        by = view.decided_by or "The runtime"
        if new is None:
            if self.subject.view.status != view.status:
                why = f"{by} changed this request; it is about to be asked anew"
                await self._over(view, strip.gone(why, self._more), typed)
            return
        if self.subject.view.id in self.items:
            self.items[self.items.index(self.subject.view.id)] = new.id
        told = differences(view, new)
        ago = self.frame.now() - new.requested_at
        await self._changed(new, strip.changed(told, "the request", by, ago, typed), view)

    async def _changed(self, view: ApprovalView, note: list[Line], before: ApprovalView) -> None:
        self._news = note
        await self._anew(view, note, before, top=True)

    async def _anew(
        self, view: ApprovalView, note: Sequence[Line], before: ApprovalView | None = None, *, top: bool = False
    ) -> None:
        subject = await self._read(view, before)
        if not self.is_there or self.is_under_way:
            return
        self.subject = subject
        await self.back_to_look(note)
        self.show_request(top=top)

    async def _over(self, view: ApprovalView, note: Sequence[Line], unsent: bool) -> None:
        if self.stage == "over" and view.status == self.subject.view.status:
            return
        subject = await self._read(view)
        if not self.is_there or self.is_under_way:
            return
        self.subject = subject
        await self.end(note)
        self._unsent = unsent
        self.show_request()

    def look_again(self) -> None:
        """See `Sending`."""
        self.look()

    async def signed(self, view: ApprovalView) -> None:
        """See `Sending`."""
        subject = await self._read(view)
        if not self.is_there:
            return
        self.subject = subject
        at = self.clock(view.expires_at) if view.expires_at else ""
        await self.end(strip.signed(view, at, self._more))
        self.show_request()

    async def show_another(self, subject: Subject) -> None:
        """See `Doing`."""
        self.subject, self.draft, self._news = subject, "", []
        await self.back_to_look()
        self.show_request(top=True)
        if subject.view.status != "pending":
            self.look()

    async def end(self, note: Sequence[Line]) -> None:
        """Nothing can be decided here any more."""
        await self.back_to_look(note)
        self.stage = "over"
        self.show_foot()

    async def _read(self, view: ApprovalView, before: ApprovalView | None = None) -> Subject:
        return await read_subject(self.gateway, view, before)
