"""A run's journal as a text that a person understands: who did what, when, on which node, and how long it waited.

Nothing is left out and nothing is shortened. What comes from models, tools and people stands behind a bar (`│`), line
by line, so that no text in it can pass for a line of ours. Pure: the lines carry a style's name and no colour, and have
not been through `safe`, which is the printer's business.

Neighbours: `trace_marks` finds the waits and the changes of node, which stand between the lines of the events.
"""

import json
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from ..actors.agent.approval_events import (
    ApprovalChecked,
    ApprovalCheckRequested,
    ApprovalEdited,
    ApprovalEditRefused,
    ApprovalSuperseded,
    ApprovalTakenBack,
)
from ..actors.agent.budget import Budget
from ..actors.agent.code_events import OpaqueKept
from ..actors.agent.events import (
    ApprovalDenied,
    ApprovalExpired,
    ApprovalGranted,
    ApprovalRequested,
    BudgetRaised,
    BudgetSet,
    CancelRequested,
    ChildEnded,
    ChildStarted,
    LLMCallCompleted,
    LLMCallFailed,
    LLMCallRequested,
    MessageTold,
    RunCancelled,
    RunCompleted,
    RunFailed,
    RunForked,
    RunStarted,
    ToolCallCompleted,
    ToolCallFailed,
    ToolCallInDoubt,
    ToolCallRequested,
    ToolCallSettled,
)
from ..actors.agent.forking import AT_WORK
from ..actors.agent.guard_events import GuardrailTriggered, PlanCommitted
from ..actors.agent.runs import Recorded
from .operations.views import Trace, moment
from .trace_marks import Marks, Move
from .trace_summary import account_lines, moved_lines, spending_lines, waited_lines
from .trace_text import Line as Line  # noqa: PLC0414 - whoever prints a trace imports this module
from .trace_text import Style as Style  # noqa: PLC0414 - whoever prints a trace imports this module
from .trace_text import block as block  # noqa: PLC0414 - whoever prints a trace imports this module
from .trace_text import duration as duration  # noqa: PLC0414 - whoever prints a trace imports this module
from .trace_text import json_block


def trace_lines(trace: Trace, *, from_seq: int = 1, until: int | None = None) -> Iterator[Line]:
    """The whole trace; events outside `from_seq`..`until` (both included) are read, for waits, but not shown."""
    yield from header(trace)
    teller = Teller()
    for recorded in trace.events:
        lines = list(teller.tell(recorded))
        if recorded.seq >= from_seq and (until is None or recorded.seq <= until):
            yield from lines
    yield from footer(trace, teller.marks)


def event_lines(events: Iterable[Recorded]) -> Iterator[Line]:
    """A few events of a run told by themselves, in order: without when and where, and without what lies between."""
    teller = Teller()
    for recorded in events:
        teller._node = recorded.node
        yield from teller._told(recorded.event, recorded.at)


def footer(trace: Trace, marks: Marks) -> Iterator[Line]:
    """What waits now, where the time went, and what it cost, by model."""
    yield Line("")
    if trace.run.why_still:
        yield Line(f"now: {trace.run.why_still}", "waits")
    for wait in marks.open_waits(trace.now) if trace.now else ():
        yield Line(f"  call {wait.call} has waited {duration(wait.seconds)} so far: approval {wait.decision}", "waits")
    for fork in trace.forks:
        yield Line(f"fork  run {fork.run_id}, made by {fork.who} at {moment(fork.at)}", "section")
    yield from account_lines(marks.account(trace.now))
    yield from spending_lines(trace.spending)


def header(trace: Trace) -> Iterator[Line]:
    """What a run is, and what it has cost so far."""
    run, state = trace.run, trace.run.state
    yield Line(f"run {run.run_id}  {state.status}", "title")
    yield Line(f"  address       {run.address}")
    yield Line(f"  requested by  {state.requested_by or 'unknown'}, model {state.model or 'unspecified'}")
    if trace.events:
        took = trace.events[-1].at - trace.events[0].at
        yield Line(f"  started       {moment(trace.events[0].at)}, {duration(took)} to its last event")
    tokens = f"{state.input_tokens:,} tokens in, {state.output_tokens:,} out"
    calls = f"{state.step} iteration(s), {state.tool_calls} tool call(s)"
    yield Line(f"  spent         {calls}, {tokens}, {state.total_cost_usd:f} USD")
    yield Line(f"  budget        {_limits(state.budget)}")
    yield Line("  goal")
    yield from block(state.goal)


def _limits(budget: Budget) -> str:
    limits = {name: value for name, value in msgspec.to_builtins(budget).items() if value is not None}
    return ", ".join(f"{name} {value}" for name, value in limits.items()) or "none"


class Teller:
    """Tells events one by one; remembers when waits began."""

    def __init__(self) -> None:
        self.marks = Marks()
        self._began: float | None = None
        self._since: dict[str, float] = {}
        self._node = 0

    def tell(self, recorded: Recorded) -> Iterator[Line]:
        """The lines of one event; feed all of a run's events in order."""
        at, event = recorded.at, recorded.event
        self._began = at if self._began is None else self._began
        lead = f"  {'+' + duration(at - self._began):>13}  node {recorded.node:<3} #{recorded.seq:<4} "
        if isinstance(event, LLMCallRequested):
            yield Line("")
            yield Line(f"iteration {event.step}", "section")
        for mark in self.marks.feed(recorded):
            yield from moved_lines(mark) if isinstance(mark, Move) else waited_lines(mark)
        self._node = recorded.node
        lines = iter(self._told(event, at))
        first = next(lines, Line(f"{recorded.type}"))
        yield Line(lead + first.text, first.style)
        yield from lines

    def brief(self, type: str, event: Any, at: float) -> str:
        """One event in one line, without when and where; feed the events in order."""
        told = next(iter(self._told(event, at)), Line(type)).text
        return told.replace(" after ,", ",").removesuffix(" after ")  # it began before the first that was fed

    def _told(self, event: Any, at: float) -> Iterable[Line]:
        match event:
            case RunStarted():
                return self._started(event)
            case LLMCallRequested() | LLMCallFailed() | LLMCallCompleted():
                return self._model(event, at)
            case ToolCallRequested() | ToolCallFailed() | ToolCallCompleted():
                return self._tool(event, at)
            case ToolCallInDoubt() | ToolCallSettled():
                return self._doubt(event, at)
            case ApprovalRequested() | ApprovalGranted() | ApprovalDenied() | ApprovalExpired():
                return self._approval(event, at)
            case ApprovalCheckRequested() | ApprovalChecked():
                return self._checks(event)
            case ApprovalEdited() | ApprovalEditRefused() | ApprovalTakenBack() | ApprovalSuperseded():
                return self._second_thoughts(event)
            case MessageTold() | RunForked() | BudgetSet() | BudgetRaised() | ChildStarted() | ChildEnded():
                return self._from_outside(event)
            case CancelRequested() | RunCompleted() | RunFailed() | RunCancelled():
                return self._ended(event)
            case _:
                return self._others(event)

    def _others(self, event: Any) -> Iterable[Line]:
        match event:
            case GuardrailTriggered() | PlanCommitted():
                return self._guarded(event)
            case OpaqueKept():
                part = f", part {event.part} of {event.parts}" if event.parts > 1 else ""
                return [Line(f"kept {len(event.text):,} characters of a library's own state{part}")]
            case _:
                told = msgspec.to_builtins(event, str_keys=True)
                return [Line(str(told.pop("type", "")).replace(".", " ").replace("_", " ")), *json_block(told)]

    @staticmethod
    def _guarded(event: GuardrailTriggered | PlanCommitted) -> Iterator[Line]:
        if isinstance(event, PlanCommitted):
            planned = (f"{name} ×{count}" if count else name for name, count in event.tools.items())
            yield Line(f"plan by {event.by}: {', '.join(planned) or 'no tool without asking'}")
            return
        about = f" call {event.call}" if event.call else ""
        sure = f", confidence {event.confidence:g}" if event.confidence else ""
        stops = event.action in ("BLOCK", "ESCALATE")
        yield Line(f"guardrail {event.rule}{about}: {event.action}{sure}", "waits" if stops else "event")
        yield from block(event.detail)

    @staticmethod
    def _from_outside(
        event: MessageTold | RunForked | BudgetSet | BudgetRaised | ChildStarted | ChildEnded,
    ) -> Iterator[Line]:
        match event:
            case MessageTold():
                yield Line(f"told by {event.by or 'unknown'}")
                yield from block(event.text)
            case RunForked():
                yield Line(f"forked from {event.origin} at its event {event.origin_seq}, by {event.requested_by}")
                yield from block(event.note) if event.note else ()
                for fingerprint, what in event.elsewhere.items():
                    at_work = f"every call with a side effect is held: {what} was still at work"
                    yield Line(f"      {at_work if fingerprint == AT_WORK else f'held if asked for again: {what}'}")
            case BudgetSet():
                yield Line(f"classified as {event.label}: budget {_limits(event.budget)}")
                yield from block(event.reason)
            case BudgetRaised():
                yield Line(f"budget raised once, as {event.reason}: {_limits(event.budget)}")
            case ChildStarted():
                yield Line(f"call {event.call}: run {event.child} of agent {event.agent}, {_limits(event.budget)}")
            case ChildEnded():
                spent = f"{event.iterations} iteration(s), {event.tool_calls} tool call(s), {event.cost_usd:f} USD"
                yield Line(f"call {event.call}: run {event.child} {event.status}; it spent {spent}")

    def _waited(self, key: str, at: float) -> str:
        since = self._since.get(key)
        return "" if since is None else duration(at - since)

    def _started(self, event: RunStarted) -> Iterator[Line]:
        tools = ", ".join(f"{tool.name}@{tool.version}" for tool in event.tools) or "none"
        yield Line(f"run started; tools: {tools}")
        if event.system_prompt:
            yield Line("      system prompt")
            yield from block(event.system_prompt)

    def _model(self, event: LLMCallRequested | LLMCallFailed | LLMCallCompleted, at: float) -> Iterator[Line]:
        key = f"model {event.step}"
        if isinstance(event, LLMCallRequested):
            self._since[key] = at
            yield Line("model asked")
        elif isinstance(event, LLMCallFailed):
            end = "no other is made" if event.final else "tried again"
            yield Line(f"model attempt {event.attempt} failed; {end}", "bad")
            yield from block(event.error)
        else:
            mark = f" [recovered by node {self._node}]" if event.recovered else ""
            spent = f"{event.input_tokens:,} in, {event.output_tokens:,} out, {event.cost_usd:f} USD"
            name = f"model {event.model}" if event.model else "model"
            yield Line(f"{name} answered after {self._waited(key, at)}, attempt {event.attempt} ({spent}){mark}")
            if event.content:
                yield from block(event.content)
            for asked in event.tool_calls:
                yield Line(f"      asks for {asked.name}")
                yield from json_block(asked.arguments)
                if asked.problem:
                    yield Line(f"      arguments unreadable: {asked.problem}", "bad")

    def _tool(self, event: ToolCallRequested | ToolCallFailed | ToolCallCompleted, at: float) -> Iterator[Line]:
        key, name = f"call {event.call}", f"call {event.call} {event.tool}"
        if isinstance(event, ToolCallRequested):
            self._since[key] = at
            leave = f", let go by approval {event.decision}" if event.decision else ""
            yield Line(f"{name} sent{leave}; key {event.idempotency_key}")
            yield from json_block(event.arguments)
        elif isinstance(event, ToolCallFailed):
            what = f"{name} attempt {event.attempt} failed" if event.attempt else f"{name} refused"
            yield Line(f"{what}; {'the model is told' if event.final else 'tried again'}", "bad")
            yield from block(event.error)
        else:
            marks = f" [recovered by node {self._node}]" if event.recovered else ""
            marks += " [had happened before: the provider knew the key]" if event.provider_dedup_hit else ""
            took = f"after {self._waited(key, at)}, attempt {event.attempt}"
            took += f" ({duration(event.duration_ms / 1000)})" if event.duration_ms else ""
            yield Line(f"{name} completed {took}{marks}", "good")
            yield from json_block(event.result)

    def _doubt(self, event: ToolCallInDoubt | ToolCallSettled, at: float) -> Iterator[Line]:
        key, name = f"doubt {event.call}", f"call {event.call} {event.tool}"
        if isinstance(event, ToolCallInDoubt):
            self._since[key] = at
            yield Line(f"{name} IN DOUBT, asks people as {event.decision}", "waits")
            yield from block(event.reason)
        else:
            said = "it did happen" if event.happened else "it did not happen, it is made again"
            yield Line(f"{name} settled by {event.by} after {self._waited(key, at)}: {said}", "good")
            if event.note:
                yield from block(event.note)

    def _approval(
        self, event: ApprovalRequested | ApprovalGranted | ApprovalDenied | ApprovalExpired, at: float
    ) -> Iterator[Line]:
        key = f"approval {event.decision}"
        waited = self._waited(key, at)
        match event:
            case ApprovalRequested():
                self._since[key] = at
                ends = f", expires after {duration(event.expires_seconds)}" if event.expires_seconds else ""
                who = " by the tool itself" if event.by_tool is not None and not event.replaces else ""
                held = f"call {event.call} {event.tool} HELD{who}, approval {event.decision} asked for{ends}"
                yield Line(held, "waits")
                yield from block(event.reason)
                yield from json_block(event.arguments)
                yield Line(f"      digest {event.digest}")
            case ApprovalGranted():
                yield Line(f"call {event.call} APPROVED by {event.approver} after {waited}", "good")
                if event.note:
                    yield from block(event.note)
            case ApprovalDenied():
                yield Line(f"call {event.call} {event.tool} DENIED by {event.approver} after {waited}", "bad")
                yield from block(event.reason or "no reason given")
            case ApprovalExpired():
                yield Line(f"call {event.call} {event.tool} EXPIRED: nobody decided in {waited}", "bad")

    def _checks(self, event: ApprovalCheckRequested | ApprovalChecked) -> Iterator[Line]:
        when = " once more, before it goes" if event.at_release else ""
        if isinstance(event, ApprovalCheckRequested):
            yield Line(f"call {event.call} is checked{when}")
            return
        fine = all(one.ok for one in event.findings)
        yield Line(f"call {event.call} was checked{when}", "good" if fine else "bad")
        for one in event.findings:
            yield from block(f"{'ok ' if one.ok else 'NOT'} {one.check} {one.detail}".rstrip())

    def _second_thoughts(
        self, event: ApprovalEdited | ApprovalEditRefused | ApprovalTakenBack | ApprovalSuperseded
    ) -> Iterator[Line]:
        name = f"call {event.call}"
        match event:
            case ApprovalEdited():
                yield Line(f"{name} CHANGED by {event.by}, asked for anew as {event.replaced_by}", "waits")
                for one in event.diff:
                    before, after = (json.dumps(value, ensure_ascii=False) for value in (one.before, one.after))
                    yield from block(f"{one.path}: {before} -> {after}")
            case ApprovalEditRefused():
                yield Line(
                    f"{name}: a change by {event.by} does not fit, asked for again as {event.replaced_by}", "bad"
                )
                yield from block(event.error)
            case ApprovalTakenBack():
                yield Line(f"{name}: the approval was TAKEN BACK by {event.by}", "bad")
            case ApprovalSuperseded():
                yield Line(f"{name}: the approval by {event.approver} is not used, as the world has changed", "bad")
                yield from block(event.reason)
        if isinstance(event, ApprovalEdited | ApprovalTakenBack) and event.note:
            yield from block(event.note)

    def _ended(self, event: CancelRequested | RunCompleted | RunFailed | RunCancelled) -> Iterator[Line]:
        match event:
            case CancelRequested():
                yield Line(f"cancel asked for by {event.by or 'unknown'}: nothing new begins", "bad")
                if event.reason:
                    yield from block(event.reason)
            case RunCompleted():
                yield Line("run completed", "good")
                yield from block(event.final_answer)
            case RunFailed():
                yield Line(f"run failed: {event.reason}", "bad")
                yield from block(event.detail)
            case RunCancelled():
                yield Line("run cancelled", "bad")
