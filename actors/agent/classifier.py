"""How big is this task? Asked once, before the first model call; the answer may lower a run's budget, never raise it.

The verdict is in the journal (`BudgetSet`). When a lowered limit is reached, it is raised by half, once, to no more
than the run's own (`BudgetRaised`): a guess that is somewhat wrong costs no run. A classifier is a plain function of
what it is given and must be quick: it runs within the turn that starts the run.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from ...mailbox import codec
from ...mailbox.errors import UsageError
from .budget import Budget, least, scaled


@dataclass(frozen=True)
class Verdict:
    """What a classifier says."""

    label: str
    """Of the class, such as `simple`."""
    reason: str = ""
    """A sentence for the journal."""
    budget: Budget | None = None
    """What such a task may spend; None: no less than the run's own budget."""
    factor: float | None = None
    """Or the part of the run's own budget, above 0 and up to 1."""


@runtime_checkable
class Classifier(Protocol):
    """Anything with this method."""

    def classify(self, goal: str, tools: Sequence[str], agent: str) -> Verdict:
        """How big the task `goal` is, for a run of `agent` ("" for the desk's own) with tools of these names."""
        ...


def lowered(own: Budget, verdict: Verdict) -> Budget:
    """The budget of a run whose own is `own`: in no limit above it, and as its journal will read it.

    Raises:
        UsageError: a factor that is not above 0 and at most 1.
        BadMessage: limits that a journal cannot hold, such as half an iteration.
    """
    found = own
    if verdict.factor is not None:
        if not 0 < verdict.factor <= 1:
            raise UsageError(f"a verdict's factor must be above 0 and at most 1, not {verdict.factor}")
        found = scaled(found, verdict.factor)
    least_of_both = found if verdict.budget is None else least(found, verdict.budget)
    return codec.decode(codec.encode(least_of_both), Budget)


SIMPLE = Budget(max_iterations=12, max_tokens=40_000)
NORMAL = Budget(max_iterations=25, max_tokens=80_000)

_VERBS = re.compile(
    r"\b(add|approve|book|buy|calculate|cancel|change|charge|check|close|compare|create|delete|escalate|exchange|"
    r"explain|file|find|fix|grant|invite|list|migrate|modify|move|notify|offboard|onboard|pay|plan|refund|remove|"
    r"replace|report|reset|resolve|return|revoke|schedule|send|ship|summari[sz]e|transfer|update|upgrade|write)\b",
    re.IGNORECASE,
)
_JOINS = re.compile(r"\b(and|then|also|after|before|if|unless|otherwise|both|each|every|all)\b|;", re.IGNORECASE)
_ITEMS = re.compile(r"#\w+|\b[A-Z]{1,5}-?\d{2,}\b|\b\d{4,}\b")


@dataclass(frozen=True)
class RuleClassifier:
    """Simple, normal or complex, by a linear rule over what the goal says.

    The score is the sum of: one for each 40 words; one for each different verb of a list beyond the first; a half for
    each joining word (and, then, if, …); a half for each thing named by a number beyond the first; a half for each
    question beyond the first; and a half where there are more than ten tools. Below `normal_from` a task is simple,
    from `complex_from` on it is complex and keeps the run's own budget.

    The two budgets are floors, not estimates: 12 iterations are the 95th percentile of what tasks of a retail desk
    take, and 25 iterations with 80,000 tokens are that of the longer tasks of an airline desk.
    """

    simple: Budget = SIMPLE
    normal: Budget = NORMAL
    normal_from: float = 2.0
    complex_from: float = 6.0

    def classify(self, goal: str, tools: Sequence[str], agent: str) -> Verdict:
        """See the class."""
        words = len(goal.split())
        verbs = len({found.lower() for found in _VERBS.findall(goal)})
        joins = len(_JOINS.findall(goal))
        items = len(set(_ITEMS.findall(goal)))
        questions = goal.count("?")
        extra = max(0, verbs - 1) + 0.5 * (joins + max(0, items - 1) + max(0, questions - 1) + (len(tools) > 10))
        score = words / 40 + extra
        counted = f"{words} words, {verbs} verbs, {joins} joining words, {items} things, {questions} questions"
        reason = f"score {score:.1f}: {counted}, {len(tools)} tools"
        if score < self.normal_from:
            return Verdict("simple", reason, self.simple)
        if score < self.complex_from:
            return Verdict("normal", reason, self.normal)
        return Verdict("complex", reason)
