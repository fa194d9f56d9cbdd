"""How a run's events are told as they come: as lines, or each as a line of JSON; and a model's words with them.

Words are a piece of a line each time, behind a bar like all foreign text; what the model said in full is told once,
either by its words or by the event.
"""

from typing import TYPE_CHECKING, Any

import msgspec

from ...actors.agent.events import LLMCallCompleted
from ..operations.views import event_document
from ..trace import Teller
from .terminal import print_json_line, print_lines, print_piece

if TYPE_CHECKING:
    from ...actors.agent.runs import Recorded
    from ...actors.agent.streaming import Delta
    from ..settings import Color

_BAR = "      │ "


class Telling:
    """Tells one run's events, in order."""

    def __init__(self, color: "Color", *, to_stderr: bool = True, as_json: bool = False, silent_until: int = 0) -> None:
        """`silent_until`: events up to that number are read, and not told."""
        self.teller = Teller()
        self._color: Color = color
        self._to_stderr = to_stderr
        self._as_json = as_json
        self._silent_until = silent_until
        self._words = Words(to_stderr=to_stderr)

    def event(self, recorded: "Recorded") -> None:
        """One more event."""
        if self._as_json:
            if recorded.seq > self._silent_until:
                print_json_line(event_document(recorded))
            return
        lines = list(self.teller.tell(self._words.before(recorded)))
        if recorded.seq > self._silent_until:
            print_lines(lines, self._color, to_stderr=self._to_stderr)

    def heard(self, delta: "Delta") -> None:
        """A piece of an answer, before its event."""
        if not self._as_json:
            self._words.hear(delta)


class Words:
    """The words of answers on their way to a terminal."""

    def __init__(self, *, to_stderr: bool) -> None:
        self._to_stderr = to_stderr
        self._attempt = (0, 0)
        self._number = 0
        self._told: list[str] = []
        self._whole = True
        self._open = False
        """Whether a line has been begun and not ended."""

    def hear(self, delta: "Delta") -> None:
        """Print a piece; a new attempt begins on a line of its own."""
        attempt = (delta.step, delta.attempt)
        if attempt < self._attempt:
            return
        if attempt != self._attempt:
            self._end()
            self._attempt, self._number, self._told, self._whole = attempt, 0, [], True
        self._whole &= delta.number == self._number + 1
        self._number = delta.number
        self._told.append(delta.text)
        self._print(delta.text)

    def before(self, recorded: "Recorded") -> "Recorded":
        """The event as it is still to be told: without what was printed word by word."""
        self._end()
        event: Any = recorded.event
        if not isinstance(event, LLMCallCompleted) or self._attempt[0] != event.step:
            return recorded
        heard = self._whole and "".join(self._told) == event.content
        self._attempt, self._told = (event.step + 1, 0), []  # words of it that come late are not told again
        if not heard:
            return recorded
        return msgspec.structs.replace(recorded, event=msgspec.structs.replace(event, content=""))

    def _print(self, text: str) -> None:
        for number, part in enumerate(text.split("\n")):
            if number:
                self._end()
            if part or number:
                print_piece(part if self._open else _BAR + part, to_stderr=self._to_stderr)
                self._open = True

    def _end(self) -> None:
        if self._open:
            print_piece("\n", to_stderr=self._to_stderr)
        self._open = False
