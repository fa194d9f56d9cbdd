"""The runtime's own border and gate for one run, without the runtime: the same events in the same order.

`Boundary` and `judge_all` are what a node uses; here they are fed by a `play` instead of a mailbox. A test plays the
same runs through a whole `Runtime` and compares.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from callboard.actors.agent import record
from callboard.actors.agent.boundary import Boundary
from callboard.actors.agent.budget import Budget
from callboard.actors.agent.counting import Counted
from callboard.actors.agent.events import (
    ApprovalDenied,
    ApprovalRequested,
    LLMCallCompleted,
    MessageTold,
    PlanCommitted,
    RequestedCall,
    RunStarted,
    ToolCallCompleted,
    ToolCallFailed,
    ToolCallRequested,
)
from callboard.actors.agent.facts import Facts
from callboard.actors.agent.gate import Go, Hold, Verdict, judge_all
from callboard.actors.agent.messages import ModelAnswered
from callboard.actors.agent.tool import Tool
from callboard.actors.guard.profiles import GuardrailProfile
from callboard.evals.worst_case import Call, Outcome
from callboard.mailbox.message import Message

RUN = "eval"
DENIED = "nobody approves"


class RealGate:
    """One run. `plan`: tools with counts, which a profile that knows plans goes by."""

    def __init__(
        self,
        profile: GuardrailProfile,
        tools: Mapping[str, Tool],
        goal: str,
        *,
        plan: Mapping[str, int] | None = None,
        system_prompt: str = "",
    ) -> None:
        self._profile = profile
        self._tools = tools
        self._boundary = Boundary(profile, RUN, tools)
        self._counted = Counted()
        self._steps = 0
        self._calls = 0
        self._turn: list[tuple[int, Call, Verdict]] = []
        self.signals = 0
        """Texts in which the border saw signs of an attack."""
        self.reasons: list[str] = []
        """Which policies asked, a line for each held call."""
        self._note(RunStarted(RUN, goal, 0.0, Budget(), system_prompt=system_prompt, guardrails=profile.name))
        if plan is not None:
            self._note(PlanCommitted(dict(plan), "caller"))

    def told(self, text: str) -> None:
        """Somebody who is not trusted says something to the run."""
        self._note(MessageTold(text, "stranger", "untrusted"))

    def judge(self, turn: Sequence[Call]) -> list[Outcome]:
        """As `worst_case.Gate`."""
        self._steps += 1
        asked = [RequestedCall(f"c{self._calls + number}", *call) for number, call in enumerate(turn, 1)]
        answer = self._boundary.explained(ModelAnswered(self._steps, "", asked))
        self._note(LLMCallCompleted(self._steps, "", answer.tool_calls, untrusted=answer.untrusted))
        for finding in answer.findings:
            self.signals += finding.rule.startswith("injection:")
            self._note(record.guarded(finding, self._steps))
        verdicts = judge_all(answer.tool_calls, self._tools, Facts(self._profile, RUN, counted=self._copied()))
        self._turn = []
        for call, verdict in zip(turn, verdicts, strict=True):
            self._calls += 1
            self._turn.append((self._calls, call, verdict))
            self._let(self._calls, call, verdict)
        return [_outcome(verdict) for verdict in verdicts]

    def answered(self, position: int, result: dict[str, Any]) -> None:
        """As `worst_case.Gate`."""
        number, (name, _), verdict = self._turn[position]
        match verdict:
            case Go():
                self._note(ToolCallCompleted(self._steps, number, name, result))
            case Hold():
                self._note(ApprovalDenied(self._steps, number, name, f"{RUN}.{number}", "nobody", DENIED))
            case _:
                self._note(ToolCallFailed(self._steps, number, name, verdict.error, attempt=0))

    def _let(self, number: int, call: Call, verdict: Verdict) -> None:
        name, arguments = call
        match verdict:
            case Go():
                self._note(ToolCallRequested(self._steps, number, name, arguments, "", 0, tally=verdict.tally))
            case Hold():
                self.reasons.append(verdict.terms.policy)
                decision = f"{RUN}.{number}"
                asked = ApprovalRequested(
                    self._steps, number, name, arguments, verdict.reason, decision, "", 0, tally=verdict.tally
                )
                self._note(asked)

    def _copied(self) -> Counted:
        counted = self._counted
        copies = {"calls": dict(counted.calls), "same": dict(counted.same), "amounts": dict(counted.amounts)}
        return msgspec.structs.replace(counted, **copies)

    def _note(self, event: Message) -> None:
        self._boundary.feed(event)
        self._counted.note(event)


def _outcome(verdict: Verdict) -> Outcome:
    return "went" if isinstance(verdict, Go) else "held" if isinstance(verdict, Hold) else "refused"
