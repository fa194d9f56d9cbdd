"""Budgets: a limit of N allows N, what was paid for is kept, and the end is a sentence with the amounts (W-09)."""

from decimal import Decimal
from typing import Any

import pytest

from callboard import AgentSpec, Budget, FunctionLLM, tool
from callboard.actors.agent.budget import check, overcalled, overdue, overrun
from callboard.actors.agent.events import RunFailed, ToolCallRequested
from callboard.actors.agent.state import RunState
from callboard.mailbox.errors import UsageError

from .stage import Stage, asks, budget, says, script

pytestmark = pytest.mark.anyio


@tool
async def look(n: int) -> int:
    """Look."""
    return n


@tool(requires_approval=True, side_effect=True)
async def pay(amount: int, idempotency_key: str) -> str:
    """Pay."""
    return "paid"


def loop(times: int, **usage: Any) -> Any:
    """A model that looks so often and then answers."""
    return script(*[asks(("look", {"n": n}), **usage) for n in range(times)], says("ok", **usage))


async def failure(stage: Stage, run: str) -> tuple[str, str]:
    state = await stage.state(run)
    assert (state.status, state.final_answer) == ("failed", None)
    event = (await stage.events(run))[-1]
    assert isinstance(event, RunFailed)
    assert (event.reason, event.detail) == (state.failure_reason, state.failure_detail)
    return event.reason, event.detail


async def test_w09_a_limit_of_one_step_answers() -> None:
    async with Stage(loop(0)) as stage:
        run = await stage.begin(max_steps=1)
        assert (await stage.state(run)).final_answer == "ok"


async def test_w09_the_answer_of_the_last_step_counts_and_there_is_no_further_step() -> None:
    async with Stage(loop(3), [look]) as stage:
        assert (await stage.state(await stage.begin(max_steps=4))).final_answer == "ok"
        llm_calls = await failure(stage, await stage.begin(max_steps=3))
        assert llm_calls == ("max_steps_exceeded", "3 of 3 iterations are used")


async def test_w09_the_last_step_s_calls_are_made_before_the_end() -> None:
    made: list[int] = []

    @tool(name="look")
    async def watched(n: int) -> int:
        """Look."""
        made.append(n)
        return n

    async with Stage(loop(3), [watched]) as stage:
        await failure(stage, await stage.begin(max_steps=2))
        assert made == [0, 1]


async def test_tokens_may_be_overshot_by_the_last_answer_and_not_by_another() -> None:
    async with Stage(loop(1, input_tokens=60, output_tokens=40), [look]) as stage:
        assert (await stage.state(await stage.begin(budget=budget(max_tokens=101)))).final_answer == "ok"
        for limit in (100, 1):
            run = await stage.begin(budget=budget(max_tokens=limit))
            assert await failure(stage, run) == ("max_tokens_exceeded", f"100 of {limit} tokens are used")


async def test_w09_cost_may_be_overshot_by_the_last_answer_and_not_by_another() -> None:
    async with Stage(loop(1, cost_usd="0.60"), [look]) as stage:
        assert (await stage.state(await stage.begin(max_cost_usd=Decimal("0.61")))).final_answer == "ok"
        assert (await stage.state(await stage.begin(max_cost_usd=Decimal(1000)))).final_answer == "ok"
        run = await stage.begin(max_cost_usd=Decimal("0.60"))
        assert await failure(stage, run) == ("max_cost_exceeded", "0.60 of 0.60 USD are spent")
    async with Stage(loop(0, cost_usd="99")) as stage:
        assert (await stage.state(await stage.begin(max_cost_usd=Decimal("0.01")))).final_answer == "ok"


async def test_a_budget_of_nothing_buys_only_what_is_free() -> None:
    async with Stage(loop(3), [look]) as stage:
        assert (await stage.state(await stage.begin(max_cost_usd=Decimal(0)))).final_answer == "ok"
    async with Stage(loop(3, cost_usd="0.01"), [look]) as stage:
        run = await stage.begin(max_cost_usd=Decimal(0))
        assert await failure(stage, run) == ("max_cost_exceeded", "0.01 of 0 USD are spent")
        assert (await stage.state(run)).step == 1


async def test_time_counts_from_the_start_and_while_a_person_is_waited_for() -> None:
    @tool(requires_approval=True, name="look")
    async def gated(n: int) -> int:
        """Look."""
        return n

    async with Stage(loop(1), [gated]) as stage:
        for waits, ends in ((19.0, "completed"), (20.5, "failed")):
            run = await stage.begin(budget=budget(max_duration_seconds=20.0))
            await stage.advance(waits)
            await stage.approve(run)
            assert (await stage.state(run)).status == ends
        assert await failure(stage, run) == ("max_duration_exceeded", "20.5 of 20 seconds have passed")


@pytest.mark.parametrize(
    ("limit", "status", "made"),
    [(4, "completed", 4), (3, "failed", 2), (2, "failed", 2), (1, "failed", 0), (0, "failed", 0)],
)
async def test_no_more_tool_calls_are_made_than_allowed(limit: int, status: str, made: int) -> None:
    calls: list[int] = []

    @tool(name="look")
    async def watched(n: int) -> int:
        """Look."""
        calls.append(n)
        return n

    pair = asks(("look", {"n": 1}), ("look", {"n": 2}), ("nonsense", {}))
    async with Stage(script(pair, pair, says("ok")), [watched]) as stage:
        run = await stage.begin(budget=budget(max_tool_calls=limit))
        assert ((await stage.state(run)).status, len(calls)) == (status, made)
        if status == "failed":
            detail = f"{made} of {limit} tool calls are made, and 2 more were asked for"
            assert await failure(stage, run) == ("max_tool_calls_exceeded", detail)


async def test_no_gate_is_asked_about_a_call_beyond_the_budget() -> None:
    @tool(requires_approval=True, name="look")
    async def gated(n: int) -> int:
        """Look."""
        return n

    async with Stage(loop(2), [gated]) as stage:
        run = await stage.begin(budget=budget(max_tool_calls=1))
        await stage.approve(run)
        detail = "1 of 1 tool calls are made, and 1 more was asked for"
        assert await failure(stage, run) == ("max_tool_calls_exceeded", detail)
        assert [row.status for row in await stage.decisions(run)] == ["released"]


def test_no_limit_is_no_limit() -> None:
    much = RunState(step=10**6, input_tokens=10**9, total_cost_usd=Decimal(10**6), tool_calls=10**6)
    assert overrun(budget(), much, 1e9) is None
    assert overcalled(budget(), much, 99) is None


def test_each_limit_speaks_for_itself() -> None:
    state = RunState(step=2, input_tokens=1_500, total_cost_usd=Decimal("2.50"), tool_calls=3, started_at=100.0)
    named = {
        "2 of 2 iterations are used": budget(max_iterations=2),
        "1,500 of 1,000 tokens are used": budget(max_tokens=1_000),
        "2.50 of 2 USD are spent": budget(max_cost_usd=Decimal(2)),
        "60.0 of 60 seconds have passed": budget(max_duration_seconds=60),
    }
    for sentence, limits in named.items():
        found = overrun(limits, state, 160.0)
        assert found is not None and found.detail == sentence
    assert overdue(budget(max_duration_seconds=60), state, 159.9) is None
    assert overcalled(budget(max_tool_calls=3), state, 0) is None


@pytest.mark.parametrize("limits", [{}, {"max_iterations": 1}, {"max_cost_usd": Decimal(0)}, {"max_tool_calls": 0}])
def test_budgets_that_can_be_kept(limits: dict[str, Any]) -> None:
    check(Budget(**limits))


@pytest.mark.parametrize("name", ["max_iterations", "max_tokens", "max_duration_seconds", "max_tool_calls"])
def test_budgets_that_cannot(name: str) -> None:
    with pytest.raises(UsageError, match=name):
        check(budget(**{name: -1}))


@pytest.mark.parametrize(
    "limits",
    [
        {"max_iterations": 2.5},
        {"max_tokens": 1e5},
        {"max_tokens": "150000"},
        {"max_tool_calls": True},
        {"max_iterations": 10**30},
        {"max_duration_seconds": "60"},
        {"max_duration_seconds": float("nan")},
        {"max_cost_usd": Decimal("NaN")},
        {"max_cost_usd": Decimal("sNaN")},
        {"max_cost_usd": "0.50"},
    ],
)
async def test_a_budget_that_no_journal_can_hold_is_refused_before_there_is_a_run(limits: dict[str, Any]) -> None:
    async with Stage(script(says("ok")), []) as stage:
        with pytest.raises(UsageError, match=next(iter(limits))):
            await stage.begin(budget=Budget(**limits))
        assert await stage.runs.list() == []


@pytest.mark.parametrize(
    "limits",
    [{"max_duration_seconds": float("inf")}, {"max_cost_usd": Decimal("Infinity")}, {"max_cost_usd": 0.5}],
)
async def test_a_budget_that_a_journal_writes_otherwise_holds_all_the_same(limits: dict[str, Any]) -> None:
    async with Stage(script(says("ok")), []) as stage:
        assert (await stage.state(await stage.begin(budget=Budget(**limits)))).status == "completed"


AGENT, LOOK = ("expert", {"goal": "all of it"}), ("look", {"n": 1})


@pytest.mark.parametrize("turn", [(AGENT,), (AGENT, LOOK, LOOK), (LOOK, LOOK, AGENT), (AGENT, LOOK, AGENT)])
@pytest.mark.parametrize("limit", range(1, 8))
async def test_w11_a_limit_of_tool_calls_is_that_of_the_whole_tree_and_is_used_to_the_last(
    limit: int, turn: tuple[tuple[str, dict[str, Any]], ...]
) -> None:
    endless = FunctionLLM(lambda messages, tools, system: asks(("look", {"n": len(messages)})))
    expert = AgentSpec("expert", "Looks for ever.", tools=(look,), llm=endless)
    async with Stage(script(asks(*turn), says("ok")), [look], agents=[expert]) as stage:
        run = await stage.begin(budget=budget(max_tool_calls=limit))
        made = 0
        for name, _ in await stage.runs.list():
            made += len(await stage.of(name, ToolCallRequested))
        if len(turn) > limit:
            assert (made, await failure(stage, run)) == (0, ("max_tool_calls_exceeded", made_none(limit, len(turn))))
        else:
            assert made == (await stage.state(run)).tool_calls
            assert 0 <= limit - made < turn.count(AGENT)  # what cannot be shared evenly stays


def made_none(limit: int, wanted: int) -> str:
    more = f"{wanted} more {'was' if wanted == 1 else 'were'} asked for"
    return f"0 of {limit} tool calls are made, and {more}"


async def test_w11_a_call_that_waits_for_a_person_is_kept_room_for() -> None:
    endless = FunctionLLM(lambda messages, tools, system: asks(("look", {"n": len(messages)})))
    expert = AgentSpec("expert", "Looks for ever.", tools=(look,), llm=endless)
    turn = asks(("pay", {"amount": 1}), AGENT)
    async with Stage(script(turn, says("ok")), [pay], agents=[expert]) as stage:
        run = await stage.begin(budget=budget(max_tool_calls=4), run_id="r")
        assert (await stage.state("r.2")).tool_calls == 2
        await stage.approve(run)
        state = await stage.state(run)
        assert (state.status, state.tool_calls) == ("completed", 4)


def test_a_cost_beyond_all_reckoning_is_no_answer() -> None:
    for cost in ("9e999999", 1e308, Decimal("1e16")):
        with pytest.raises(ValueError, match="cost_usd"):
            says("ok", cost_usd=cost)
