"""What is counted of a run's calls and of what it has read, for its guardrails. A part of the run's state, so a fold.

Kept small: nothing is counted that no rule asks for, and of identical calls only the latest different ones.
"""

from decimal import Decimal

import msgspec

from ...mailbox.message import Message
from .events import ApprovalDenied, ApprovalExpired, ApprovalRequested, LLMCallCompleted, ToolCallRequested
from .guard_events import GuardrailTriggered, PlanCommitted, Tally

MAX_SAME = 64
"""Different calls of which it is remembered how often each was made; the one made longest ago is forgotten."""
MAX_WAITING = 64
"""Held calls whose amounts are remembered, to be taken back should they be denied."""

COUNTED = frozenset(
    {
        ToolCallRequested,
        ApprovalRequested,
        ApprovalDenied,
        ApprovalExpired,
        GuardrailTriggered,
        LLMCallCompleted,
        PlanCommitted,
    }
)
"""Events that there is something to count in."""


class Counted(msgspec.Struct, omit_defaults=True):
    """The counts."""

    plan: dict[str, int] | None = None
    """Tools that may be called without asking, each at most so many times (0: any number); None: there is no plan."""
    calls: dict[str, int] = {}
    """Calls of each tool that went or were held; only where there is a plan."""
    same: dict[str, int] = {}
    """How often a call with an effect was made or held, by `Tally.same`."""
    amounts: dict[str, Decimal] = {}
    """Sums of limited arguments: `issue_refund.amount`."""
    waiting: dict[str, dict[str, Decimal]] = {}
    """What of these belongs to calls that nobody has decided yet, by decision."""
    hits: int = 0
    """Texts that looked like an attack."""
    untrusted: bool = False
    """The model has read untrusted text."""

    def note(self, event: Message) -> None:
        """Count what the event says."""
        match event:
            case ToolCallRequested() if not event.decision:
                self.add(event.tool, event.tally)
            case ApprovalRequested() if event.replaces:
                self._ask_again(event)
            case ApprovalRequested() if event.by_tool is not None:
                self._wait(event.decision, event.tally)  # it was counted when it went
            case ApprovalRequested():
                self.add(event.tool, event.tally)
                self._wait(event.decision, event.tally)
            case ToolCallRequested():
                self.waiting.pop(event.decision, None)
            case ApprovalDenied() | ApprovalExpired():
                self.never_made(event.tool, event.decision)
            case GuardrailTriggered() if event.rule.startswith("injection:") and event.action == "ESCALATE":
                self.hits += 1
            case LLMCallCompleted() if event.untrusted:
                self.untrusted = True
            case PlanCommitted():
                self.plan = dict(event.tools)

    def _ask_again(self, event: ApprovalRequested) -> None:
        """The same call under another question: as it was, or (then it has a tally) with other arguments."""
        if event.tally is None:
            held = self.waiting.pop(event.replaces, None)
            if held is not None:
                self.waiting[event.decision] = held
            return
        self.take_back(event.tool, event.replaces)
        self._sum(event.tool, event.tally)
        self._wait(event.decision, event.tally)

    def _wait(self, decision: str, tally: Tally | None) -> None:
        if tally is not None and tally.amounts and len(self.waiting) < MAX_WAITING:
            self.waiting[decision] = dict(tally.amounts)

    def take_back(self, tool: str, decision: str) -> None:
        """The call that was held under a decision is not made."""
        for name, amount in self.waiting.pop(decision, {}).items():
            self.amounts[f"{tool}.{name}"] -= amount

    def never_made(self, tool: str, decision: str) -> None:
        """The call that was held under a decision will never be made, nor another one in its place."""
        self.take_back(tool, decision)
        if self.calls.get(tool):
            self.calls[tool] -= 1  # or an attack could use up the plan, with calls that nobody lets go

    def add(self, tool: str, tally: Tally | None) -> None:
        """A call goes, or is held."""
        if self.plan is not None:
            self.calls[tool] = self.calls.get(tool, 0) + 1
        if tally is None:
            return
        if tally.same:
            # Taken out and put in again: the order is that of the latest time.
            self.same[tally.same] = self.same.pop(tally.same, 0) + 1
            if len(self.same) > MAX_SAME:
                del self.same[next(iter(self.same))]
        self._sum(tool, tally)

    def _sum(self, tool: str, tally: Tally) -> None:
        for name, amount in tally.amounts.items():
            key = f"{tool}.{name}"
            self.amounts[key] = self.amounts.get(key, Decimal(0)) + amount
