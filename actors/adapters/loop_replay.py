"""What a hosted run has done so far, by the keys of its code: the fold of its journal that replay is answered from.

Pure. Fed with events in order; an attempt reads all that there is when it begins, and then what comes after.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

from ...mailbox.message import Message
from ..agent.events import (
    ApprovalDenied,
    ApprovalExpired,
    ApprovalGranted,
    CodeCalled,
    MessageTold,
    OpaqueKept,
    RunStarted,
    StepCompleted,
    StepFailed,
    ToolCallCompleted,
    ToolCallFailed,
    ToolCallSettled,
)

Came = Literal["answered", "failed", "denied", "expired", "settled"]


@dataclass
class Outcome:
    """What became of a step or a call."""

    name: str
    digest: str
    came: Came
    value: Any = None
    form: str = "plain"
    error_type: str = ""
    error: str = ""
    by: str = ""
    """Who decided."""
    note: str = ""


@dataclass
class CalledOnce:
    """A call as the code asked for it."""

    key: str
    call: int
    name: str
    digest: str
    by: str = ""
    note: str = ""


@dataclass
class Replay:
    """Everything that the code of a run has on record."""

    goal: str = ""
    run_id: str = ""
    requested_by: str = ""
    seq: int = 0
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    """Finished steps and calls, by key."""
    called: dict[str, CalledOnce] = field(default_factory=dict)
    """Calls that were asked for, finished or not, by key."""
    told: list[str] = field(default_factory=list)
    opaque: list[tuple[str, str]] = field(default_factory=list)
    """Whole records of a library's own state, in order: their names and texts."""
    _numbers: dict[int, CalledOnce] = field(default_factory=dict)
    _parts: dict[str, list[str]] = field(default_factory=dict)

    def feed(self, events: Iterable[Message]) -> None:
        """Take in what happened next."""
        for event in events:
            self.seq += 1
            self._feed(event)

    def _feed(self, event: Message) -> None:
        match event:
            case RunStarted():
                self.goal, self.run_id, self.requested_by = event.goal, event.run_id, event.requested_by
            case StepCompleted():
                self.outcomes[event.key] = Outcome(event.name, event.digest, "answered", event.value, event.form)
            case StepFailed():
                self.outcomes[event.key] = Outcome(
                    event.name, event.digest, "failed", error_type=event.error_type, error=event.error
                )
            case CodeCalled():
                called = CalledOnce(event.key, event.call, event.name, event.digest)
                self.called[event.key] = self._numbers[event.call] = called
            case OpaqueKept():
                self._keep(event)
            case MessageTold():
                self.told.append(event.text)
            case _:
                self._of_call(event)

    def _of_call(self, event: Message) -> None:
        number = getattr(event, "call", 0)
        called = self._numbers.get(number) if isinstance(number, int) else None
        if called is None:
            return
        match event:
            case ApprovalGranted():
                called.by, called.note = event.approver, event.note
            case ToolCallCompleted() if not _is_step(event):
                self._end(called, "answered", value=event.result, by=called.by, note=called.note)
            case ToolCallFailed() if event.final and not _is_step(event):
                self._end(called, "failed", error=event.error)
            case ApprovalDenied():
                self._end(called, "denied", error=event.reason, by=event.approver)
            case ApprovalExpired():
                self._end(called, "expired", error="nobody decided in time")
            case ToolCallSettled() if event.happened:
                said = {"confirmed": f"{event.tool} did happen", "by": event.by, "note": event.note}
                self._end(called, "settled", value=said, by=event.by)

    def _end(self, called: CalledOnce, came: Came, **rest: Any) -> None:
        self.outcomes[called.key] = Outcome(called.name, called.digest, came, **rest)

    def _keep(self, event: OpaqueKept) -> None:
        parts = self._parts.setdefault(event.record, [])
        if event.part == len(parts) + 1:  # what an attempt left unfinished stays so: its record has a name of its own
            parts.append(event.text)
        if len(parts) == event.parts:
            self.opaque.append((event.record, "".join(self._parts.pop(event.record))))


def _is_step(event: ToolCallCompleted | ToolCallFailed) -> bool:
    """Whether it closes a step with a side effect, whose outcome is an event of its own."""
    return event.idempotency_key.startswith(STEP_KEY)


STEP_KEY = "step-"
"""How the keys of steps begin."""
