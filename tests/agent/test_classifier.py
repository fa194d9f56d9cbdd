"""The classifier: what it says is in the journal before the first model call, and it only ever lowers (AF-12)."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pytest

from callboard import AgentSpec, Budget, RuleClassifier, tool
from callboard.actors.agent.budget import topped_up
from callboard.actors.agent.classifier import Classifier, Verdict, lowered
from callboard.actors.agent.events import BudgetRaised, BudgetSet, LLMCallRequested, ToolCallFailed
from callboard.mailbox.errors import UsageError

from .stage import Stage, asks, budget, says, script

pytestmark = pytest.mark.anyio

SIMPLE = "What is the status of order A-8891?"
COMPLEX = (
    "Migrate all 40 accounts of the list below: first create the new mailbox for each, then transfer the rights and "
    "notify the owner, and if an owner has left, escalate and close the account, then write a report; after that "
    "compare the totals, refund what was charged twice, and schedule a check for #1001, #1002, #1003 and #1004."
)


@tool
async def look(n: int) -> int:
    """Look."""
    return n


class Says:
    """A classifier that always says the same, and remembers what it was asked."""

    def __init__(self, verdict: Any) -> None:
        self.verdict = verdict
        self.asked: list[tuple[str, Sequence[str], str]] = []

    def classify(self, goal: str, tools: Sequence[str], agent: str) -> Verdict:
        self.asked.append((goal, tools, agent))
        if isinstance(self.verdict, Exception):
            raise self.verdict
        found: Verdict = self.verdict
        return found


class OfTheDesk(Says):
    """The same, and of agents that they are big."""

    def classify(self, goal: str, tools: Sequence[str], agent: str) -> Verdict:
        return Verdict("big") if agent else super().classify(goal, tools, agent)


def loop(times: int) -> Any:
    """A model that looks so often and then answers."""
    return script(*[asks(("look", {"n": n})) for n in range(times)], says("ok"))


async def test_af12_a_simple_question_gets_a_smaller_budget_recorded_before_the_first_model_call() -> None:
    async with Stage(loop(0), [look], classifier=RuleClassifier()) as stage:
        run = await stage.begin(SIMPLE, budget=Budget(max_iterations=50, max_tokens=150_000))
        assert (await stage.kinds(run))[:3] == ["RunStarted", "BudgetSet", "LLMCallRequested"]
        (said,) = await stage.of(run, BudgetSet)
        assert (said.label, said.budget.max_iterations, said.budget.max_tokens) == ("simple", 12, 40_000)
        assert "1 tools" in said.reason and "words" in said.reason
        state = await stage.state(run)
        assert (state.budget.max_iterations, state.label) == (12, "simple")


async def test_af12_a_complex_task_keeps_the_run_s_own_budget() -> None:
    async with Stage(loop(0), [look], classifier=RuleClassifier()) as stage:
        run = await stage.begin(COMPLEX, budget=Budget())
        (said,) = await stage.of(run, BudgetSet)
        assert (said.label, said.budget) == ("complex", Budget())
        assert (await stage.state(run)).own_budget is None


async def test_af12_a_verdict_never_raises_a_limit() -> None:
    generous = Verdict("generous", "why not", Budget(max_iterations=500, max_tokens=None, max_cost_usd=Decimal(9)))
    async with Stage(loop(0), [look], classifier=Says(generous)) as stage:
        own = budget(max_iterations=3, max_tokens=100, max_cost_usd=Decimal(1), max_tool_calls=2)
        run = await stage.begin(budget=own)
        assert (await stage.of(run, BudgetSet))[0].budget == own


async def test_the_classifier_is_told_goal_tools_and_agent_once_a_run() -> None:
    classifier = Says(Verdict("half", "as a test", factor=0.5))
    async with Stage(loop(2), [look], classifier=classifier) as stage:
        run = await stage.begin("do it", max_steps=25)
        assert classifier.asked == [("do it", ("look",), "")]
        assert (await stage.of(run, BudgetSet))[0].budget.max_iterations == 13


async def test_a_lowered_limit_that_does_not_do_is_raised_once_and_said() -> None:
    """EVALS 3.1: one recorded top-up; it is by half, and to no more than the run's own budget."""
    classifier = Says(Verdict("tiny", "", budget(max_iterations=2)))
    async with Stage(loop(2), [look], classifier=classifier) as stage:
        run = await stage.begin(max_steps=50)
        state = await stage.state(run)
        assert (state.status, state.final_answer, state.budget.max_iterations) == ("completed", "ok", 3)
        (raised,) = await stage.of(run, BudgetRaised)
        assert raised.reason == "2 of 2 iterations are used"
        kinds = await stage.kinds(run)
        assert kinds.index("BudgetRaised") < kinds.index("LLMCallRequested", kinds.index("BudgetRaised"))

    async with Stage(loop(9), [look], classifier=classifier) as stage:
        for own in (3, 50):
            run = await stage.begin(max_steps=own)
            state = await stage.state(run)
            assert (state.status, state.failure_detail) == ("failed", "3 of 3 iterations are used")
            assert len(await stage.of(run, BudgetRaised)) == 1


@pytest.mark.parametrize(
    ("lowered", "own", "raised"),
    [
        (Budget(12, 40_000), Budget(50, 150_000), Budget(18, 60_000)),
        (Budget(25, 80_000), Budget(30, 100_000), Budget(30, 100_000)),
        (
            budget(max_iterations=1),
            budget(max_iterations=9, max_tool_calls=4),
            budget(max_iterations=2, max_tool_calls=4),
        ),
    ],
)
def test_a_top_up_is_half_of_the_lowered_limit_and_never_beyond_the_own(
    lowered: Budget, own: Budget, raised: Budget
) -> None:
    assert topped_up(lowered, own) == raised


async def test_a_lowered_number_of_tool_calls_is_raised_when_more_are_asked_for() -> None:
    classifier = Says(Verdict("tiny", "", budget(max_tool_calls=1)))
    async with Stage(
        script(asks(("look", {"n": 1}), ("look", {"n": 2})), says("ok")), [look], classifier=classifier
    ) as s:
        run = await s.begin(budget=budget(max_tool_calls=2))
        assert (await s.state(run)).final_answer == "ok"
        assert len(await s.of(run, BudgetRaised)) == 1
        run = await s.begin(budget=budget(max_tool_calls=1))
        assert (await s.state(run)).failure_reason == "max_tool_calls_exceeded"
        assert await s.of(run, BudgetRaised) == []


@pytest.mark.parametrize(
    "verdict",
    [
        RuntimeError("no idea"),
        None,
        Verdict("x", "", factor=0.0),
        Verdict("x", "", factor=float("nan")),
        Verdict("x", "", factor=2.0),
        Verdict("x", "", Budget(max_iterations=0)),
        Verdict("x", "", Budget(max_iterations=1.5)),  # type: ignore[arg-type]
        Verdict("x", "", Budget(max_tool_calls=True)),
        Verdict("x", "", Budget(max_cost_usd=Decimal("NaN"))),
        Verdict("x", "", {"max_iterations": 1}),  # type: ignore[arg-type]
        Verdict(5, ""),  # type: ignore[arg-type]
        "simple",
    ],
)
async def test_a_classifier_that_fails_costs_no_run_its_budget_and_the_journal_says_so(verdict: Any) -> None:
    async with Stage(loop(1), [look], classifier=Says(verdict)) as stage:
        run = await stage.begin(max_steps=2)
        (said,) = await stage.of(run, BudgetSet)
        assert said.label == "unclassified" and said.reason.startswith("the classifier failed: ")
        state = await stage.state(run)
        assert (state.status, state.budget.max_iterations, state.own_budget) == ("completed", 2, None)


@pytest.mark.parametrize(
    "verdict",
    [
        Verdict("\ud800\x00", "\ud800" * 5_000, factor=1e-300),
        Verdict("x", "", Budget(max_duration_seconds=float("inf"))),
        Verdict("x", "", Budget(max_cost_usd=0.25)),  # type: ignore[arg-type]
    ],
)
async def test_whatever_a_classifier_says_the_journal_can_hold_and_the_run_verifies(verdict: Verdict) -> None:
    async with Stage(loop(1), [look], classifier=Says(verdict)) as stage:
        run = await stage.begin()
        (said,) = await stage.of(run, BudgetSet)
        assert said.label != "unclassified"
        assert (await stage.state(run)).status == "completed"


async def test_a_limit_that_was_lowered_wrongly_costs_no_agent_its_call() -> None:
    classifier = OfTheDesk(Verdict("tiny", "", budget(max_tool_calls=1)))
    expert = AgentSpec("expert", "Knows.", tools=(look,), llm=script(asks(("look", {"n": 1})), says("42")))
    ask = asks(("expert", {"goal": "how many?"}))
    async with Stage(script(ask, says("ok")), [], agents=[expert], classifier=classifier) as stage:
        run = await stage.begin(budget=budget(max_iterations=9, max_tool_calls=9))
        assert await stage.of(run, ToolCallFailed) == []
        assert len(await stage.of(run, BudgetRaised)) == 1
        assert (await stage.state(run)).iterations == 4


async def test_without_a_classifier_nothing_is_said() -> None:
    async with Stage(loop(0), [look]) as stage:
        run = await stage.begin()
        assert await stage.of(run, BudgetSet) == [] and len(await stage.of(run, LLMCallRequested)) == 1


def test_the_rules_are_a_pure_function_and_order_tasks_by_size() -> None:
    rules: Classifier = RuleClassifier()
    middle = "Return order #123 and exchange the shoes in #456 for size 9, then send me the label."
    labels = [rules.classify(goal, ["a"], "").label for goal in (SIMPLE, middle, COMPLEX)]
    assert labels == ["simple", "normal", "complex"]
    assert rules.classify(middle, ["a"], "") == rules.classify(middle, ["a"], "")
    assert rules.classify("", [], "").label == "simple"
    assert rules.classify("x " * 1000, [], "").label == "complex"


def test_a_factor_lowers_every_limit_and_leaves_at_least_one() -> None:
    own = Budget(
        max_iterations=3, max_tokens=10, max_duration_seconds=8, max_cost_usd=Decimal("1.00"), max_tool_calls=1
    )
    assert lowered(own, Verdict("", "", factor=0.1)) == Budget(1, 1, 0.8, Decimal("0.10"), 1)
    assert lowered(Budget(None, None), Verdict("", "", factor=0.5)) == Budget(None, None)
    with pytest.raises(UsageError, match=r"factor must be above 0 and at most 1, not 1\.5"):
        lowered(own, Verdict("", "", factor=1.5))
