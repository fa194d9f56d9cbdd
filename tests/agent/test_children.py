"""Agents called by agents: a child run with its own budget, one answer whatever dies, one limit for all (W-39)."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import anyio
import pytest

from callboard import AgentSpec, Budget, FunctionLLM, LLMClient, LLMResponse, tool
from callboard.actors.agent.agents import BadAgents, check_agents
from callboard.actors.agent.events import ChildEnded, ChildStarted, LLMCallRequested, ToolCallFailed
from callboard.actors.agent.messages import StartRun
from callboard.actors.agent.policies import PolicyCall, policy
from callboard.actors.agent.policy import Terms
from callboard.actors.llm.client import ChatMessage, ToolSpec, TransientModelError
from callboard.actors.system import Cancel
from callboard.actors.testing import CALM

from .stage import Stage, asks, budget, results, says, script

pytestmark = pytest.mark.anyio


@tool
async def look(n: int) -> int:
    """Look."""
    return n


@tool(requires_approval=True, side_effect=True)
async def pay(amount: int, idempotency_key: str) -> str:
    """Pay."""
    PAID.append(idempotency_key)
    return "paid"


PAID: list[str] = []


def expert(llm: LLMClient, *tools: Any, **options: Any) -> AgentSpec:
    return AgentSpec("expert", "Knows everything. Goal: the question.", "You know.", tuple(tools), llm=llm, **options)


ASK = asks(("expert", {"goal": "how many?"}))


def echo(answers: Sequence[LLMResponse]) -> LLMClient:
    """A parent that gives these answers and at last repeats the tool messages."""
    return script(*answers, says_all)


def says_all(messages: Sequence[ChatMessage]) -> LLMResponse:
    """What the tools said."""
    return says(" | ".join(results(messages)))


async def test_w39_an_agent_is_a_tool_to_the_model_and_a_child_run_to_everybody_else() -> None:
    seen: list[tuple[list[str], str, str]] = []

    def answer(messages: Sequence[ChatMessage], tools: Sequence[ToolSpec], system: str) -> LLMResponse:
        seen.append(([one.name for one in tools], system, messages[0].content))
        return says("42") if len(messages) > 1 else asks(("look", {"n": 1}))

    offered: list[Mapping[str, Any]] = []

    def parent(messages: Sequence[ChatMessage], tools: Sequence[ToolSpec], system: str) -> LLMResponse:
        offered.extend(one.parameters for one in tools if one.name == "expert")
        return ASK if len(messages) == 1 else says(results(messages)[0])

    async with Stage(FunctionLLM(parent), [], agents=[expert(FunctionLLM(answer), look)]) as stage:
        run = await stage.begin("go", run_id="r")
        assert (await stage.state(run)).final_answer == '{"answer":"42"}'
        child = await stage.state("r.1")
        assert (child.status, child.goal, child.agent, child.depth) == ("completed", "how many?", "expert", 1)
        assert (child.parent, child.parent_call) == (stage.runs.address("r"), 1)
        assert seen[0] == (["look"], "You know.", "how many?")
        assert offered[0]["required"] == ["goal"] and list(offered[0]["properties"]) == ["goal"]
        kinds = await stage.kinds(run)
        assert kinds[3:7] == ["ToolCallRequested", "ChildStarted", "ChildEnded", "ToolCallCompleted"]


async def test_what_children_spend_counts_for_the_parent() -> None:
    usage = {"input_tokens": 10, "output_tokens": 5, "cost_usd": "0.10"}
    child = script(asks(("look", {"n": 1}), **usage), says("42", **usage))
    async with Stage(echo([ASK]), [], agents=[expert(child, look)]) as stage:
        run = await stage.begin()
        state = await stage.state(run)
        assert (state.input_tokens, state.output_tokens, state.total_cost_usd) == (20, 10, Decimal("0.20"))
        assert (state.step, state.iterations, state.tool_calls) == (2, 4, 2)
        (ended,) = await stage.of(run, ChildEnded)
        assert (ended.status, ended.iterations, ended.tool_calls) == ("completed", 2, 1)


async def test_a_child_gets_its_own_budget_but_no_more_than_the_parent_has_left() -> None:
    agent = expert(script(says("42")), budget=Budget(max_iterations=3, max_tokens=1_000))
    cases = (
        (budget(max_iterations=50), Budget(max_iterations=3, max_tokens=1_000)),
        (budget(max_iterations=3, max_tokens=500), Budget(max_iterations=2, max_tokens=500)),
        (
            budget(max_cost_usd=Decimal(2), max_duration_seconds=60.0, max_tool_calls=5),
            Budget(3, 1_000, 60.0, Decimal(2), 4),  # the agent's own call is one of the five
        ),
    )
    async with Stage(echo([ASK]), [], agents=[agent]) as stage:
        for own, expected in cases:
            (started,) = await stage.of(await stage.begin(budget=own), ChildStarted)
            assert started.budget == expected


async def test_children_side_by_side_share_what_is_left() -> None:
    both = asks(("expert", {"goal": "a"}), ("expert", {"goal": "b"}))
    async with Stage(echo([both]), [], agents=[expert(script(says("42")))]) as stage:
        run = await stage.begin(budget=budget(max_iterations=8, max_tokens=100))
        given = [(one.budget.max_iterations, one.budget.max_tokens) for one in await stage.of(run, ChildStarted)]
        assert given == [(3, 50), (4, 50)]


async def test_a_limit_of_the_parent_holds_for_the_whole_tree() -> None:
    endless = FunctionLLM(lambda messages, tools, system: asks(("look", {"n": 1})))
    async with Stage(echo([ASK, ASK]), [], agents=[expert(endless, look)]) as stage:
        run = await stage.begin(budget=budget(max_iterations=5))
        state = await stage.state(run)
        assert (state.status, state.failure_detail) == ("failed", "5 of 5 iterations are used")
        asked = [len(await stage.of(name, LLMCallRequested)) for name, _ in await stage.runs.list()]
        assert sum(asked) == 5


async def test_a_parent_with_nothing_left_starts_no_child() -> None:
    async with Stage(echo([ASK]), [], agents=[expert(script(says("42")))]) as stage:
        run = await stage.begin(budget=budget(max_iterations=1))
        assert await stage.of(run, ChildStarted) == []
        (failed,) = await stage.of(run, ToolCallFailed)
        assert failed.error == "expert: nothing is left of the budget for it: 0 of 1 iterations are left"


async def test_a_child_that_fails_is_an_error_for_the_parent_s_model() -> None:
    endless = FunctionLLM(lambda messages, tools, system: asks(("look", {"n": 1})))
    agent = expert(endless, look, budget=Budget(max_iterations=1))
    async with Stage(echo([ASK]), [], agents=[agent]) as stage:
        run = await stage.begin()
        assert (await stage.state(run)).final_answer == "Error: expert failed: 1 of 1 iterations are used"
        assert (await stage.of(run, ChildEnded))[0].status == "failed"


async def test_a_child_that_is_cancelled_is_an_error_for_the_parent_s_model() -> None:
    async with Stage(echo([ASK]), [], agents=[expert(script(asks(("pay", {"amount": 1}))), pay)]) as stage:
        run = await stage.begin(run_id="r")
        await stage.runtime.cancel("r.1", by="ann", reason="too dear")
        await stage.settle()
        assert (await stage.state(run)).final_answer == "Error: expert cancelled: too dear"


async def test_cancel_of_the_parent_cancels_its_children() -> None:
    async with Stage(echo([ASK]), [], agents=[expert(script(asks(("pay", {"amount": 1}))), pay)]) as stage:
        run = await stage.begin(run_id="r")
        await stage.runtime.cancel(run, by="ann", reason="never mind")
        await stage.settle()
        assert [(await stage.state(one)).status for one in ("r", "r.1")] == ["cancelled", "cancelled"]
        assert (await stage.state("r.1")).cancelled_by == "ann"


async def test_a_hard_cancel_of_the_parent_cancels_its_children_too() -> None:
    async with Stage(echo([ASK]), [], agents=[expert(script(asks(("pay", {"amount": 1}))), pay)]) as stage:
        run = await stage.begin(run_id="r")
        await stage.runtime.client.send(stage.runs.address(run), Cancel(by="ann", reason="now"))
        await stage.settle()
        assert [(await stage.state(one)).status for one in ("r", "r.1")] == ["cancelled", "cancelled"]


async def test_an_approval_in_a_child_is_asked_as_usual_and_the_parent_shows_whom_it_waits_for() -> None:
    PAID.clear()
    child = script(asks(("pay", {"amount": 1})), says("done"))
    async with Stage(echo([ASK]), [], agents=[expert(child, pay)]) as stage:
        run = await stage.begin(run_id="r")
        assert (await stage.state(run)).status == "running"
        assert dict(await stage.runs.list())["r"]["waits_for"] == "expert: run r.1"
        assert (await stage.runs.rest(run, seconds=1)).status == "running"
        with pytest.raises(ValueError, match=r"not awaiting approval.*r\.1"):
            await stage.runtime.approve(run, "ann")
        await stage.approve("r.1")
        assert (await stage.state(run)).final_answer == '{"answer":"done"}'
        assert len(PAID) == 1


async def test_kill_9_anywhere_leaves_one_child_and_one_answer() -> None:
    """The node dies before its n-th commit of this run and its child, for every n, and another goes on."""
    cut, asked = 0, True
    while asked:
        cut += 1
        child = script(asks(("look", {"n": 1})), says("42"))
        async with Stage(echo([ASK]), [], agents=[expert(child, look)]) as stage:
            asked = await _killed_before_commit(cut, stage)
            assert (await stage.state("r")).final_answer == '{"answer":"42"}'
            assert len(await stage.of("r", ChildStarted)) == len(await stage.of("r", ChildEnded)) == 1
            assert [name for name, _ in await stage.runs.list()] == ["r", "r.1"]
    assert cut > 8


async def _killed_before_commit(cut: int, stage: Stage) -> bool:
    """Whether there was such a commit."""
    reached, gone = anyio.Event(), anyio.Event()
    commits: list[None] = []

    async def before(number: int, operation: str) -> None:
        if operation == "commit" and number == 1:
            commits.append(None)
            if len(commits) >= cut:
                reached.set()
                await gone.wait()

    stage.store.before = before
    await stage.runtime.create("go", run_id="r")
    await stage.settle()
    if reached.is_set():
        life = stage.nodes[0].life
        assert life is not None
        life.session.crash()  # type: ignore[attr-defined]
        gone.set()
        await stage.kill()
        await stage.add_node()
        await stage.advance(30.0)
    return reached.is_set()


async def test_an_agent_calls_only_those_it_may_and_only_so_deep() -> None:
    again = asks(("again", {"goal": "deeper"}))
    agent = AgentSpec("again", "Calls itself.", llm=echo([again]), agents=("again",))
    async with Stage(echo([again, asks(("again", {"goal": " "}))]), [], agents=[agent]) as stage:
        run = await stage.begin(run_id="r")
        assert [name for name, _ in await stage.runs.list()] == ["r", "r.1", "r.1.1", "r.1.1.1", "r.1.1.1.1"]
        deepest = await stage.state("r.1.1.1.1")
        assert "agents are called 4 deep already" in str(deepest.final_answer)
        assert "say in 1 to" in str((await stage.state(run)).final_answer)
    lonely = AgentSpec("lonely", "Calls nobody.", llm=echo([again]))
    async with Stage(echo([asks(("lonely", {"goal": "x"}))]), [look], agents=[agent, lonely]) as stage:
        await stage.begin(run_id="r")
        assert (await stage.state("r.1")).final_answer == "Error: unknown tool: again; known are none"


async def test_a_child_s_tools_are_its_own_and_not_its_parent_s() -> None:
    child, own = echo([asks(("look", {"n": 1}), ("pay", {"amount": 1}))]), asks(("pay", {"amount": 2}))
    async with Stage(echo([ASK, own]), [look], agents=[expert(child, pay)]) as stage:
        run = await stage.begin(run_id="r")
        await stage.approve("r.1")
        assert "unknown tool: look" in str((await stage.state("r.1")).final_answer)
        assert "unknown tool: pay" in str((await stage.state(run)).final_answer)


async def test_a_run_of_that_name_that_is_no_child_answers_for_nothing() -> None:
    llm = script(lambda messages: ASK if messages[0].content == "go" else asks(("pay", {"amount": 1})), says_all)
    async with Stage(llm, [pay], agents=[expert(script(says("42")))]) as stage:
        await stage.begin("something else", run_id="r.1")
        run = await stage.begin(run_id="r")
        assert "there is another run at" in str((await stage.state(run)).final_answer)


async def test_a_run_can_be_begun_as_one_of_the_agents() -> None:
    async with Stage(script(says("me")), [], agents=[expert(script(says("42")), budget=Budget(7, 70))]) as stage:
        run = await stage.begin(agent="expert")
        state = await stage.state(run)
        assert (state.final_answer, state.system_prompt, state.budget) == ("42", "You know.", Budget(7, 70))
        with pytest.raises(BadAgents, match="there is no agent 'nobody' here; known are: expert"):
            await stage.begin(agent="nobody")
        await stage.runs.create(StartRun("go", agent="gone"), "g")
        await stage.settle()
        assert (await stage.state("g")).failure_detail == "there is no agent 'gone' here; known are: expert"


async def test_a_held_call_of_an_agent_starts_it_when_released() -> None:
    from callboard.actors.agent.policies import policy

    @policy
    def ask_first(call: Any) -> str | None:
        return "agents are dear" if call.tool == "expert" else None

    async with Stage(echo([ASK]), [], agents=[expert(script(says("42")))], policies=[ask_first]) as stage:
        run = await stage.begin(run_id="r")
        assert (await stage.state("r.1")).status == "not_started"
        await stage.approve(run)
        assert (await stage.state(run)).final_answer == '{"answer":"42"}'


@pytest.mark.parametrize(
    ("agents", "said"),
    [
        ([AgentSpec("a", "x"), AgentSpec("a", "y")], "another agent or a tool of that name"),
        ([AgentSpec("look", "x")], "another agent or a tool of that name"),
        ([AgentSpec("a", " ")], "has no description"),
        ([AgentSpec("a", "x", agents=("b",))], "may call 'b', which is none of a"),
        ([AgentSpec("a b", "x")], "providers take names"),
    ],
)
def test_agents_that_cannot_work_together_are_refused_at_once(agents: list[AgentSpec], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        check_agents(agents, {"look": look})


@pytest.mark.parametrize("kind", ["another agent", "an agent instead of a tool"])
async def test_g5_an_approval_of_an_agent_s_call_is_of_that_agent_and_of_no_other(kind: str) -> None:
    @tool(requires_approval=True, side_effect=True)
    async def expert(goal: str) -> str:
        """Knows."""
        return goal

    @policy
    def all_of_them(call: PolicyCall) -> Terms:
        return Terms("agents need a person")

    model, child = echo([ASK]), script(says("42"))
    before: dict[str, Any] = {"agents": [AgentSpec("expert", "Knows.", "Be careful.", llm=child)]}
    if kind != "another agent":
        before = {"tools": [expert]}
    async with Stage(model, policies=[all_of_them], **before) as stage:
        run = await stage.begin(run_id="r")
        await stage.kill()
        reckless = AgentSpec("expert", "Knows.", "Be quick.", llm=child)
        await stage.add_node(stage.beside(model, agents=[reckless], policies=[all_of_them]))
        await stage.advance(20)
        await stage.approve(run)
        assert (await stage.state(run)).final_answer == (
            "Error: superseded: the agent has changed since this call was approved"
        )
        assert await stage.of(run, ChildStarted) == []


async def test_a_run_whose_agent_waits_for_a_provider_that_is_down_is_at_rest() -> None:
    away = script(TransientModelError("503 away"))
    options: dict[str, Any] = {"max_llm_attempts": 0, "settings": CALM, "provider_down_seconds": 300.0}
    async with Stage(echo([ASK]), agents=[expert(away)], **options) as stage:
        run = await stage.begin(run_id="r")
        await stage.advance(400)
        assert (await stage.state("r.1")).status == "provider_down"
        assert (await stage.runs.rest(run, seconds=1.0)).status == "running"
