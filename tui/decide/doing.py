"""What can be done with a request beside deciding on it: ask the agent, read what was said, go to its run, copy it."""

import json
import time
from collections.abc import Sequence
from typing import ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical

from callboard.service.operations.views import ApprovalView

from ..dialog import Dialog, TypedWord
from ..frame_keys import KeysLine
from ..text import Line, content, line, piece
from ..times import clock
from .body import Body
from .edit import EditDialog
from .sheet import words_lines
from .subject import Subject, read_subject


class Doing(Dialog[ApprovalView]):
    """A dialog about one request of several."""

    subject: Subject
    items: list[str]

    async def show_another(self, subject: Subject) -> None:
        """Show this one instead."""
        raise AttributeError("see DecideDialog")

    def clock(self, at: float) -> str:
        """A time of day, as the frame says times; never only how long ago."""
        style = self.frame.style_of_times
        return clock(at, "local" if style == "relative" else style, now=self.frame.now())

    @work(group="ask", exclusive=True)
    async def action_ask(self) -> None:
        """Ask the agent something; the request stays open."""
        view = self.subject.view
        question = await self.frame.push_screen_wait(
            TypedWord(
                line(piece("Ask the agent · "), piece(view.run_id)),
                [
                    ("about", line(piece(view.tool), piece(f" · {view.id}", "dim"))),
                    ("then", "the request stays open for everyone, and nothing is decided"),
                    (
                        "read",
                        "by the agent when it goes on, which is after the decision; it is in the run's journal now",
                    ),
                ],
                verb="asks the agent",
                reason="question",
                reason_needed=True,
            )
        )
        if question is None:
            return
        with self.frame.complaining():
            await self.gateway.operations.tell(view.run_address, question)
            self.frame.say("asked; the request stays open")

    @work(group="edit", exclusive=True)
    async def action_edit(self) -> None:
        """Have it asked for with other arguments."""
        await self.frame.push_screen_wait(EditDialog(self.subject))

    def action_transcript(self) -> None:
        """Everything that was said in the run."""
        self.frame.push_screen(TranscriptDialog(self.subject))

    def action_open_run(self) -> None:
        """Leave this undecided and look at the run."""
        address = self.subject.view.run_address
        self.dismiss(None)
        self.frame.open_screen("runs", address)

    def action_copy(self) -> None:
        """The id, the whole digest and the arguments, into the terminal's clipboard."""
        view = self.subject.view
        text = json.dumps(
            {"id": view.id, "sha256": view.digest, "tool": view.tool, "arguments": view.arguments}, indent=2
        )
        self.frame.copy_to_clipboard(text)  # ASCII only, so nothing in it can be obeyed
        self.frame.say(f"copied {view.id}, sha256 {view.digest}")

    stepping = False
    """Whether another request is being read; until it is there, nothing can be done to this one."""

    @work(group="step")
    async def action_step(self, by: int) -> None:
        """The next request of the list, or the one before."""
        if self.stepping:
            return
        self.stepping = True
        try:
            await self._step(by)
        finally:
            self.stepping = False
            self.refresh_bindings()

    async def _step(self, by: int) -> None:
        here = self.items.index(self.subject.view.id) if self.subject.view.id in self.items else -1
        with self.frame.complaining():
            view, _ = await self.gateway.decisions.now_of(self.items[(here + by) % len(self.items)])
            subject = await read_subject(self.gateway, view)
            if not self.is_active:
                return  # it was left meanwhile, or something else is being read
            self._seen_at = time.monotonic()  # keys that were meant for the one before are dropped
            await self.show_another(subject)


class TranscriptDialog(Dialog[None]):
    """What was said in a run, from the beginning."""

    DEFAULT_CSS = """
    TranscriptDialog { align: center middle; }
    TranscriptDialog > Vertical {
        width: 100%; height: 100%; background: $panel; border: round $cb-info; border-title-color: $cb-info;
    }
    TranscriptDialog.-wide > Vertical { width: 108; height: 94%; }
    TranscriptDialog.-broad > Vertical { width: 108; height: 94%; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,t", "leave", "back")]

    def __init__(self, subject: Subject) -> None:
        super().__init__()
        self._subject = subject

    def compose(self) -> ComposeResult:
        box = Vertical()
        words = self._subject.words
        title = line(piece("Transcript · said, not checked · "), piece(self._subject.view.run_id))
        box.border_title = content(title)
        box.border_subtitle = content(f"{len(words)} sayings")
        with box:
            yield Body()
            yield KeysLine()

    def on_mount(self) -> None:
        style = self.frame.style_of_times
        now = self.frame.now()

        def lay_out(width: int) -> Sequence[Line]:
            words = self._subject.words
            return words_lines(
                words, width, lambda at: clock(at, "local" if style == "relative" else style, now=now)
            ) or [line(piece("nothing was said yet", "dim"))]

        self.query_one(Body).show(lambda width: list(lay_out(width)))
        self.query_one(Body).focus()
