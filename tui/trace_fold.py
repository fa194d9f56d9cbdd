"""A run's journal as lines on a time axis: one for each attempt, wait, decision and change of node. Pure.

Fed with events one by one, so a run that is at work grows at its end: a line is never taken away, moved or given
another key, which is what lets a cursor stay where it is. Waits for people, changes of node, and what the run's time
went on are `trace_marks`' to find; here they get a place. Neighbours: `trace_calls` keeps what is under way,
`trace_scale` says where a moment lies on a screen, `trace_bars` draws, `trace_detail` tells a line's events whole.
"""

from typing import Any

from callboard.actors.agent import events as ev
from callboard.actors.agent.approval_events import (
    ApprovalChecked,
    ApprovalCheckRequested,
    ApprovalTakenBack,
)
from callboard.actors.agent.runs import Recorded
from callboard.service.trace_marks import Marks, Move, doing

from .trace_calls import Calls, Stretch

WORK = frozenset({"models", "agents", "tools"})
LEAST_GAP_SECONDS = 1.0
"""Nothing shorter is worth folding."""


class Timeline:
    """The lines of one run."""

    def __init__(self) -> None:
        self.marks = Marks()
        self.calls = Calls()
        self.gaps: list[tuple[float, float]] = []
        """Times between two events in which nobody worked: what may be folded."""
        self.lost_at: list[float] = []
        """When a node was last heard of that had work in hand and did not end it."""
        self.moves: list[Move] = []
        self._decided = False
        """Whether the event at hand has ended a wait for people, and is told with that."""

    @property
    def lines(self) -> list[Stretch]:
        """In the order in which they began to be known."""
        return self.calls.lines

    @property
    def began(self) -> float:
        """Of the first event; 0.0 where there is none."""
        return self.lines[0].began if self.lines else 0.0

    @property
    def last_at(self) -> float:
        """Of the last event."""
        return self.marks.last.at if self.marks.last is not None else 0.0

    def ends(self, now: float) -> float:
        """Up to where there is something to show."""
        return self.last_at if self.marks.state.finished else max(now, self.last_at)

    def all_gaps(self, now: float) -> list[tuple[float, float]]:
        """The gaps, and the one that goes on."""
        open_gap = (self.last_at, self.ends(now))
        idle = not self.marks.state.finished and doing(self.marks.state) not in WORK
        return [*self.gaps, open_gap] if idle and _long(open_gap) else self.gaps

    def feed(self, recorded: Recorded) -> None:
        """One more event; all of a run's, in order."""
        last = self.marks.last
        if last is not None:
            gap = (last.at, recorded.at)
            moved = last.node != recorded.node
            if _long(gap) and (moved or doing(self.marks.state) not in WORK):
                self.gaps.append(gap)
        self._decided = False
        for mark in self.marks.feed(recorded):
            if isinstance(mark, Move):
                self._moved(mark, last, recorded)
            elif mark.kind in ("decision", "in-doubt"):
                self._decided = self.calls.decided(mark.decision, recorded, mark.outcome, mark.kind)
        self._told(recorded)

    def _moved(self, move: Move, last: Recorded | None, recorded: Recorded) -> None:
        self.moves.append(move)
        before = last.at if last is not None else recorded.at
        cut = self.calls.cut(before)
        if cut:
            self.lost_at.append(before)
            self.calls.point(
                before, f"node {move.before} lost", "✗", "bad", recorded, kind="lost", failed=True, move=move
            )
        took = self.calls.point(before, f"node {move.after} goes on", "⇡", "retry", recorded, kind="taken", move=move)
        took.ended, took.fill = recorded.at, "taken"
        for key, label in cut:
            self.calls.go_on(key, label, recorded.at, since=before)

    def _told(self, recorded: Recorded) -> None:
        event: Any = recorded.event
        match event:
            case ev.RunStarted() | ev.RunForked():
                self.calls.begin_run(event.run_id, recorded)
            case ev.LLMCallRequested():
                self.calls.open("model", f"model {event.step}", recorded)
            case ev.LLMCallFailed():
                self.calls.failed("model", recorded, event.attempt, event.error, final=event.final)
            case ev.LLMCallCompleted():
                took = event.latency_ms / 1000
                self.calls.completed("model", recorded, event.attempt, took, recovered=event.recovered)
            case ev.ProviderWaited() | ev.ProviderDown():
                self.calls.away("model", recorded, event.error, down=isinstance(event, ev.ProviderDown))
            case ev.SummaryRequested():
                self.calls.open("summary", "sum up", recorded)
            case ev.TranscriptCompacted():
                self.calls.completed("summary", recorded, 1, 0.0)
            case ev.CodeRequested():
                self.calls.open("code", "code", recorded)
            case ev.CodeSuspended():
                self.calls.completed("code", recorded, event.attempt, 0.0)
            case ev.RunCompleted() | ev.RunFailed() | ev.RunCancelled():
                self._ended(event, recorded)
            case _:
                self._of_a_call(event, recorded)

    def _of_a_call(self, event: Any, recorded: Recorded) -> None:
        key = f"call {getattr(event, 'call', 0)}"
        match event:
            case ev.ToolCallRequested():
                self.calls.open(key, event.tool, recorded)
            case ev.ToolCallFailed():
                self.calls.failed(key, recorded, event.attempt, event.error, final=event.final, label=event.tool)
            case ev.ToolCallCompleted():
                took = event.duration_ms / 1000
                said = "the provider knew the key" if event.provider_dedup_hit else ""
                self.calls.completed(key, recorded, event.attempt, took, recovered=event.recovered, said=said)
            case ev.ToolCallInDoubt():
                self.calls.doubted(key, recorded, event)
            case ev.ToolCallSettled():
                if not event.happened:
                    self.calls.open(key, f"{event.tool} again", recorded)
            case ev.ChildStarted():
                self.calls.note(key, recorded, label=f"agent {event.agent}")
            case ev.ChildEnded() | ev.CodeCalled():
                self.calls.note(key, recorded)
            case ev.ApprovalRequested():
                if event.by_tool is not None and not event.replaces:
                    self.calls.completed(key, recorded, 1, 0.0, said="the tool asks people first")
                self.calls.held(event.decision, event.tool, recorded)
            case ApprovalCheckRequested() | ApprovalChecked():
                self._checked(event, recorded)
            case _ if not self._decided:
                self._beside(event, recorded)

    def _checked(self, event: ApprovalCheckRequested | ApprovalChecked, recorded: Recorded) -> None:
        if isinstance(event, ApprovalChecked) and event.at_release and not all(one.ok for one in event.findings):
            self.calls.point(recorded.at, "check fails", "▲", "bad", recorded, failed=True)
        else:
            self.calls.attach(event.decision, recorded)

    def _beside(self, event: Any, recorded: Recorded) -> None:
        """What happens to a run without being a call of it."""
        at = recorded.at
        match event:
            case ev.MessageTold():
                self.calls.point(at, f"{event.by or 'somebody'} says", "»", "info", recorded)
            case ApprovalTakenBack():
                self.calls.point(at, f"{event.by} takes it back", "↶", "needs", recorded)
            case ev.GuardrailTriggered():
                stops = event.action in ("BLOCK", "ESCALATE")
                glyph = "▲" if stops else "·"
                self.calls.point(
                    at,
                    f"guard {event.rule}",
                    glyph,
                    "bad" if stops else "dim",
                    recorded,
                    failed=event.action == "BLOCK",
                )
            case ev.CancelRequested():
                self.calls.point(at, f"{event.by or 'somebody'} cancels", "■", "bad", recorded)
            case ev.StepFailed():
                self.calls.point(at, event.name, "✗", "bad", recorded, failed=True)
            case ev.StepCompleted():
                done = self.calls.point(at - event.duration_ms / 1000, event.name, "", "", recorded)
                done.ended, done.fill = at, "done"
            case _:
                self.calls.point(at, _words(recorded.type), "·", "dim", recorded)

    def _ended(self, event: Any, recorded: Recorded) -> None:
        self.calls.cut(recorded.at, ended=True)
        match event:
            case ev.RunCompleted():
                self.calls.point(recorded.at, "completed", "✓", "ok", recorded)
            case ev.RunFailed():
                self.calls.point(recorded.at, f"failed: {event.reason}", "✗", "bad", recorded, failed=True)
            case _:
                self.calls.point(recorded.at, "cancelled", "■", "bad", recorded)
        if self.calls.run is not None:
            self.calls.run.ended = recorded.at


def _long(gap: tuple[float, float]) -> bool:
    return gap[1] - gap[0] >= LEAST_GAP_SECONDS


def _words(type_: str) -> str:
    """`run.tools_changed` in words."""
    return type_.partition(".")[2].replace("_", " ").removesuffix(" event") or type_


def fold(events: list[Recorded]) -> Timeline:
    """A whole journal."""
    timeline = Timeline()
    for recorded in events:
        timeline.feed(recorded)
    return timeline
