"""Dialogs over the screen: they take keys only once they have been seen, and Esc leaves everything as it was.

`Dialog` is the base of all; `TypedWord` is the one that asks for a word before something is done (requeue, discard,
kill, pause a subtree). Neither has a default: the focus is on a text, and Enter does nothing until the text is right.
Keys and pastes reach the focused widget past its screen, so the guard is asked for by the frame too
(`CallboardApp.on_event`); both places are needed, as clicks do not go that way.
"""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Grid, Horizontal, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Input, Static, TextArea

from .frame_keys import KeysLine
from .text import Line, Piece, content, line, piece

if TYPE_CHECKING:
    from .app import CallboardApp
    from .gateway import Gateway

T = TypeVar("T")
MAX_TYPED_CHARS = 4_000


class Dialog(ModalScreen[T | None], Generic[T]):
    """A modal screen; None: it was left and nothing was decided."""

    settle_seconds: ClassVar[float] = 0.4
    """Keys that come sooner after it came to sight were meant for something else, and are dropped."""
    CHANGES: ClassVar[frozenset[str]] = frozenset()
    """As `Pane.CHANGES`."""
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "leave")]

    _seen_at: float | None = None
    _finished: tuple[T | None] | None = None
    _ended = False

    @property
    def frame(self) -> "CallboardApp":
        """The app around it."""
        from .app import CallboardApp

        app = self.app
        assert isinstance(app, CallboardApp)
        return app

    @property
    def gateway(self) -> "Gateway":
        """What it asks."""
        return self.frame.gateway

    @property
    def settled(self) -> bool:
        """Whether it has been in sight long enough to be answered."""
        return self._seen_at is not None and time.monotonic() - self._seen_at >= self.settle_seconds

    @property
    def half_typed(self) -> bool:
        """Whether somebody's text would be lost with it."""
        return any(one.value for one in self.query(Input)) or any(one.text for one in self.query(TextArea))

    @on(events.ScreenResume)
    def _come_to_sight(self) -> None:
        self._seen_at = time.monotonic()
        if self._finished is not None:
            self.call_after_refresh(self.finish, *self._finished)

    def guards(self, event: events.Event) -> bool:
        """Whether it comes too soon for what could answer a dialog."""
        is_answer = isinstance(event, events.Key | events.MouseDown | events.MouseUp | events.Click | events.Paste)
        return is_answer and not self.settled

    async def on_event(self, event: events.Event) -> None:
        """Keys and clicks that come too soon go nowhere."""
        if self.guards(event):
            event.stop()
            return
        await super().on_event(event)

    def finish(self, result: T | None) -> None:
        """Leave with what an operation came to, as soon as no other dialog is above: one may have been opened while
        the operation was under way."""
        if self._ended:
            return
        if self.is_active:
            self._ended = True
            self.dismiss(result)
        elif self.is_attached:
            self._finished = (result,)

    def action_leave(self) -> None:
        """Decide nothing."""
        self.dismiss(None)


Fact = tuple[str, str | Piece | Line]
"""What it is about, and what is to be known: ("then", "goes to the end of the mailbox")."""


class TypedWord(Dialog[str]):
    """Type this word, then Enter. The answer is the reason that was given ("" where none is asked for).

        reason = await self.frame.push_screen_wait(
            TypedWord("Requeue dead letter · email.send → /mail/sender", [("then", "goes to the end")],
                      word="requeue", verb="requeues it", reason="note", reason_needed=False))
        if reason is None:
            return  # left: nothing was decided

    Args:
        title: of the dialog.
        facts: what is done, what comes after, what stays: shown wrapped, never cut.
        word: what has to be typed; "": no word, and then a reason is needed.
        verb: what Enter does, as the armed line says it.
        reason: label of a field for a reason; None: there is none.
    """

    DEFAULT_CSS = """
    TypedWord { align: center middle; background: $background 60%; }
    TypedWord > VerticalScroll {
        width: 90; max-width: 96%; height: auto; max-height: 96%;
        background: $panel; border: round $cb-bad; padding: 1 2 0 2;
        border-title-color: $cb-bad; border-title-style: bold;
    }
    TypedWord .facts { grid-size: 2; grid-columns: auto 1fr; grid-rows: auto; height: auto; grid-gutter: 0 2; }
    TypedWord .about { width: auto; color: $cb-dim; }
    TypedWord .fact { width: 1fr; height: auto; }
    TypedWord .field { height: 1; margin-top: 1; }
    TypedWord .field.reason { margin-top: 0; }
    TypedWord .field Static { width: auto; color: $cb-dim; padding-right: 1; }
    TypedWord .field Input { width: 1fr; }
    TypedWord .armed { height: auto; margin-top: 1; }
    TypedWord KeysLine { padding: 0; }
    TypedWord.-short > VerticalScroll { padding: 0 2; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "leave it"),
        Binding("up,down", "next_field", "next field", show=False),
    ]

    def __init__(
        self,
        title: str | Piece | Line,
        facts: Sequence[Fact],
        *,
        word: str = "",
        verb: str = "does it",
        reason: str | None = None,
        reason_needed: bool = False,
    ) -> None:
        if not word and not (reason is not None and reason_needed):
            raise ValueError("Enter alone never decides: ask for a word, or for a reason")
        super().__init__()
        self._heading, self._facts = title, facts
        self._word, self._verb = word, verb
        self._reason, self._reason_needed = reason, reason_needed

    def compose(self) -> ComposeResult:
        box = VerticalScroll(can_focus=False)
        box.border_title = content(self._heading)
        with box:
            with Grid(classes="facts"):
                for about, fact in self._facts:
                    yield Static(content(about), classes="about")
                    yield Static(content(fact), classes="fact")
            if self._word:
                with Horizontal(classes="field"):
                    yield Static(content(line("type ", piece(self._word, "strong"))))
                    yield Input(id="word", compact=True, max_length=max(200, len(self._word)))
            if self._reason is not None:
                with Horizontal(classes="field reason" if self._word else "field"):
                    yield Static(content(self._reason, "" if self._reason_needed else " (optional)"))
                    yield Input(id="reason", compact=True, max_length=MAX_TYPED_CHARS)
            yield Static(id="armed", classes="armed")
            yield KeysLine()

    def on_mount(self) -> None:
        self.query(Input).first().focus()
        self._show_armed()

    @property
    def missing(self) -> str:
        """What is still to be typed; "" where Enter works."""
        if self._word and self._typed("word") != self._word:
            return f"type {self._word}, then Enter"
        if self._reason_needed and not self._typed("reason"):
            return f"say the {self._reason}, then Enter"
        return ""

    def _typed(self, field: str) -> str:
        return next((one.value.strip() for one in self.query(f"#{field}").results(Input)), "")

    @on(Input.Changed)
    def _show_armed(self) -> None:
        missing = self.missing
        said = line(piece(f"○ {missing}", "dim")) if missing else line(piece(f"● armed: Enter {self._verb}", "bad"))
        self.query_one("#armed", Static).update(content(said))

    @on(Input.Submitted)
    def _finish(self) -> None:
        if self.frame.refuse_change():
            return
        if not self.missing:
            self.dismiss(self._typed("reason"))
        elif self._word and self._typed("word") == self._word:
            self.query_one("#reason", Input).focus()

    def action_next_field(self) -> None:
        """Between the word and the reason."""
        self.focus_next(Input)
