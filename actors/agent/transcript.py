"""A run's conversation, rebuilt from its journal, event by event.

Tool calls of one turn run side by side and end in any order; models want their answers in the order of the calls. So an
answer waits here until all of its turn are there, which is exactly when the run asks the model again.
"""

from collections.abc import Iterable

from ...mailbox import codec
from ...mailbox.message import Message
from ..llm.client import ChatMessage, ToolCall
from .events import (
    ApprovalDenied,
    ApprovalExpired,
    LLMCallCompleted,
    LLMCallRequested,
    MessageTold,
    RunStarted,
    ToolCallCompleted,
    ToolCallFailed,
    ToolCallSettled,
)


class Transcript:
    """The messages so far; feed it events in order."""

    def __init__(self) -> None:
        self.messages: list[ChatMessage] = []
        self.system_prompt = ""
        self.seq = 0
        """How many events were fed."""
        self._calls = 0
        self._open: dict[int, tuple[ToolCall, str | None]] = {}
        self._told: list[ChatMessage] = []

    def feed(self, events: Iterable[Message]) -> None:
        """Take in what happened next."""
        for event in events:
            self.seq += 1
            self._feed(event)

    def _feed(self, event: Message) -> None:
        match event:
            case RunStarted():
                self.system_prompt = event.system_prompt
                self.messages.append(ChatMessage("user", event.goal))
            case LLMCallCompleted():
                calls = tuple(ToolCall(c.id, c.name, c.arguments, c.problem, c.opaque) for c in event.tool_calls)
                self.messages.append(ChatMessage("assistant", event.content, calls))
                for call in calls:
                    self._calls += 1
                    self._open[self._calls] = (call, None)
            case ToolCallCompleted():
                self._answer(event.call, codec.encode(event.result))
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
                self._told.append(ChatMessage("user", event.text))
            case LLMCallRequested():
                self._flush()
            case _:
                return

    def _answer(self, number: int, text: str) -> None:
        if number in self._open:
            self._open[number] = (self._open[number][0], text)

    def _flush(self) -> None:
        for call, text in self._open.values():
            self.messages.append(ChatMessage("tool", text or "", tool_name=call.name, tool_call_id=call.id))
        self._open.clear()
        self.messages.extend(self._told)
        self._told.clear()
