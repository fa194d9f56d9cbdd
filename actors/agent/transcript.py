"""A run's conversation, rebuilt from its journal, event by event.

Tool calls of one turn run side by side and end in any order; models want their answers in the order of the calls. So an
answer waits here until all of its turn are there, which is exactly when the run asks the model again.
"""

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

from ...mailbox import codec
from ...mailbox.message import Message, tag
from ..llm.client import ChatMessage, ToolCall
from .approval_events import ApprovalEdited
from .boundary import Boundary
from .compaction import GOAL, Cut, Place, Placed, bytes_of, shortened, size_of
from .events import (
    ApprovalDenied,
    ApprovalExpired,
    LLMCallCompleted,
    LLMCallRequested,
    MessageTold,
    RunStarted,
    ToolCallCompleted,
    ToolCallFailed,
    ToolCallRequested,
    ToolCallSettled,
    TranscriptCompacted,
)

EDITED = "Before this was done, a person changed the arguments of the call to:"
MAX_EDIT_CHARS = 4_000


_ASKED = tag(LLMCallRequested)
_UNREAD = frozenset({_ASKED, tag(ToolCallRequested)})
"""What changes nothing here, or only says that all answers are there."""


class Transcript:
    """The messages so far; feed it events in order."""

    def __init__(self, boundary: Boundary | None = None) -> None:
        self.boundary = boundary
        """Looks at the same events, where the run's guardrails do; None: nothing is to be looked at."""
        self.messages: list[ChatMessage] = []
        self.system_prompt = ""
        self.prompt_bytes = 0
        """Of the system prompt."""
        self.seq = 0
        """How many events were fed."""
        self.size = 0
        """Bytes of system prompt and messages, about."""
        self.dearest_usd = Decimal(0)
        """What the dearest answer so far cost."""
        self._places: list[Place] = []
        self._calls = 0
        self._turn = GOAL
        self._open: dict[int, tuple[ToolCall, str]] = {}
        """Calls of the latest turn by number, with their answer; "" while there is none."""
        self._told: list[Placed] = []
        self._edits: dict[int, dict[str, Any]] = {}
        """What people changed in an open call, one after the other: the values that it has now, by their path."""

    @property
    def held_bytes(self) -> int:
        """Bytes of memory that it takes, about."""
        return self.size + (0 if self.boundary is None else self.boundary.size)

    @property
    def placed(self) -> list[Placed]:
        """The messages, and where each comes from."""
        return list(zip(self.messages, self._places, strict=True))

    def feed(self, events: Iterable[Message]) -> None:
        """Take in what happened next."""
        for event in events:
            self.take(event)

    def take(self, event: Message) -> None:
        """Take in the next event."""
        self.seq += 1
        self._take(event)
        if self.boundary is not None:
            self.boundary.feed(event)

    def take_unread(self, kind: str) -> bool:
        """Take in the next event, where its kind, as journals have it, is all that matters of it; else False.

        So two of the four events of a step need not even be decoded.
        """
        if self.boundary is not None or kind not in _UNREAD:
            return False
        self.seq += 1
        if kind == _ASKED:
            self._flush()
        return True

    def _take(self, event: Message) -> None:
        match event:
            case ToolCallCompleted():
                self._answer(event.call, codec.encode(event.result))
            case LLMCallRequested():
                self._flush()
            case RunStarted():
                self.system_prompt = event.system_prompt
                self.prompt_bytes = bytes_of(event.system_prompt)
                self.size += self.prompt_bytes
                self._add(ChatMessage("user", event.goal), Place(GOAL))
            case LLMCallCompleted():
                calls = tuple([ToolCall(c.id, c.name, c.arguments, c.problem, c.opaque) for c in event.tool_calls])
                self._turn += 1
                self.dearest_usd = max(self.dearest_usd, event.cost_usd)
                self._add(ChatMessage("assistant", event.content, calls), Place(self._turn))
                for call in calls:
                    self._calls += 1
                    self._open[self._calls] = (call, "")
            case ApprovalEdited():
                self._edits.setdefault(event.call, {}).update({one.path: one.after for one in event.diff})
            case ToolCallFailed():
                if event.final:
                    self._answer(event.call, f"Error: {event.error}")
            case ApprovalDenied():
                self._answer(event.call, f"Error: approval denied: {event.reason or 'no reason given'}")
            case ApprovalExpired():
                self._answer(event.call, "Error: approval expired: nobody decided in time")
            case ToolCallSettled():
                if event.happened:
                    said = {"confirmed": f"{event.tool} did happen", "by": event.by, "note": event.note}
                    self._answer(event.call, codec.encode(said))
            case MessageTold():
                # Never of the goal's turn, which stays for ever: anybody may say any amount.
                self._told.append((ChatMessage("user", event.text), Place(max(1, self._turn))))
            case TranscriptCompacted():
                self._shorten(event.cut)
            case _:
                return

    def _answer(self, number: int, text: str) -> None:
        if number in self._open:
            # What ran is not what the model asked for, and it has to know that before it says what it did.
            edits = self._edits.pop(number, None)
            self._open[number] = (self._open[number][0], f"{told_of_edits(edits)}\n{text}" if edits else text)

    def _flush(self) -> None:
        for number, (call, text) in self._open.items():
            answer = ChatMessage("tool", text, tool_name=call.name, tool_call_id=call.id)
            self._add(answer, Place(self._turn, number))
        self._open.clear()
        for message, place in self._told:
            self._add(message, place)
        self._told.clear()

    def _add(self, message: ChatMessage, place: Place) -> None:
        self.messages.append(message)
        self._places.append(place)
        self.size += size_of(message)

    def _shorten(self, cut: Cut) -> None:
        kept = shortened(self.placed, cut)
        self.messages = [message for message, _ in kept]
        self._places = [place for _, place in kept]
        self.size = self.prompt_bytes + sum(size_of(message) for message in self.messages)


def told_of_edits(changed: Mapping[str, Any]) -> str:
    """What the model is told of changes by people, before the result of what they let go instead."""
    return f"{EDITED} {codec.encode(changed)[:MAX_EDIT_CHARS]}"
