"""Agents with typed requests: the struct's fields are what models give, its JSON is what the child is told (W-39)."""

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec
import pytest

from callboard import AgentSpec, Budget, FunctionLLM, LLMClient, LLMResponse, tool
from callboard.actors.agent.agents import BadAgents, agent_tool, check_agents
from callboard.actors.agent.boundary import Boundary
from callboard.actors.agent.events import ApprovalRequested, ChildStarted, RunStarted, ToolCallFailed, ToolCallRequested
from callboard.actors.agent.policies import PolicyCall, policy
from callboard.actors.agent.policy import Terms
from callboard.actors.agent.request import goal_of, values_in
from callboard.actors.agent.schema import BadTool
from callboard.actors.guard.profiles import get_profile
from callboard.actors.llm.client import ChatMessage, ToolSpec

from .stage import Stage, asks, results, says, script

pytestmark = pytest.mark.anyio


class Refund(msgspec.Struct, kw_only=True):
    order_id: Annotated[str, msgspec.Meta(pattern="^#", description="As the customer writes it.")]
    wish: Literal["refund", "exchange"]
    positions: Annotated[list[int], msgspec.Meta(max_length=3)] = []
    note: str = ""


class Words(msgspec.Struct):
    text: str

    def __post_init__(self) -> None:
        self.text = self.text.strip()
        if not self.text:
            raise ValueError("say something")


class Growing(msgspec.Struct):
    text: str

    def __post_init__(self) -> None:
        self.text += "!"


class Listed(msgspec.Struct, array_like=True):
    text: str


class Tagged(msgspec.Struct, tag=True):
    text: str


class Keyed(msgspec.Struct):
    idempotency_key: str


class Approved(msgspec.Struct):
    approval: str = ""


class Disguised(msgspec.Struct, rename={"mine": "approval"}):
    mine: str


class Odd(msgspec.Struct):
    anything: complex


class Empty(msgspec.Struct):
    pass


GIVEN = {"wish": "refund", "order_id": "#1", "positions": [2, 1]}
GOAL = '{"note":"","order_id":"#1","positions":[2,1],"wish":"refund"}'


def billing(llm: LLMClient | None = None, request: Any = Refund, **options: Any) -> AgentSpec:
    return AgentSpec(
        "billing", "Sees to money.", "You pay.", llm=llm or script(says("done")), request=request, **options
    )


def parent(*answers: LLMResponse) -> LLMClient:
    return script(*answers, lambda messages: says(" | ".join(results(messages))))


# --- declared -------------------------------------------------------------------------------------------------------


def test_models_see_the_struct_s_fields_as_a_tool_s_parameters() -> None:
    @tool
    async def same(
        order_id: Annotated[str, msgspec.Meta(pattern="^#", description="As the customer writes it.")],
        wish: Literal["refund", "exchange"],
        positions: Annotated[list[int], msgspec.Meta(max_length=3)] = [],  # noqa: B006 - as in the struct
        note: str = "",
    ) -> str:
        """Sees to money."""
        return order_id + wish + note + str(positions)

    made = agent_tool(billing())
    assert (made.name, made.description, made.effect) == ("billing", "Sees to money.", "read")
    assert made.parameters == same.parameters


@pytest.mark.parametrize(
    ("request_type", "said"),
    [
        (dict, "must be a class made of msgspec.Struct"),
        (Refund(order_id="#1", wish="refund"), "must be a class made of msgspec.Struct"),
        (Listed, "neither array_like nor a tag"),
        (Tagged, "neither array_like nor a tag"),
        (Keyed, "field 'idempotency_key': the runtime fills"),
        (Approved, "field 'approval': the runtime fills"),
        (Disguised, "field 'mine': the runtime fills"),
        (Odd, "field 'anything': .*cannot be read from JSON"),
        (Empty, "it has no fields"),
    ],
)
def test_a_request_that_cannot_be_asked_for_is_refused_when_it_is_declared(request_type: Any, said: str) -> None:
    with pytest.raises(BadTool, match=f"agent 'billing', request.*{said}"):
        check_agents([billing(request=request_type)], {})


def test_names_that_nobody_can_resolve_are_refused_when_it_is_declared() -> None:
    lost = type("Lost", (msgspec.Struct,), {"__annotations__": {"it": "Nowhere"}, "__module__": __name__})
    with pytest.raises(BadTool, match="annotations cannot be resolved"):
        check_agents([billing(request=lost)], {})


def test_the_request_is_part_of_what_makes_an_agent() -> None:
    wider = msgspec.defstruct("Refund", [("order_id", str), ("wish", str)], module=__name__)
    versions = {agent_tool(billing(request=one)).version for one in (None, Refund, Words, wider)}
    assert len(versions) == 4
    assert agent_tool(billing()).version == agent_tool(billing()).version


def test_what_is_no_request_stays_an_agent_that_is_told_its_goal() -> None:
    assert list(agent_tool(billing(request=None)).parameters["properties"]) == ["goal"]
    with pytest.raises(BadAgents):
        check_agents([billing(), billing()], {})


# --- called ---------------------------------------------------------------------------------------------------------


async def test_the_goal_is_the_canonical_text_of_the_checked_request() -> None:
    shown: list[str] = []

    def answer(messages: Sequence[ChatMessage], tools: Sequence[ToolSpec], system: str) -> LLMResponse:
        shown.append(messages[0].content)
        return says("done")

    offered: list[Mapping[str, Any]] = []

    def ask(messages: Sequence[ChatMessage], tools: Sequence[ToolSpec], system: str) -> LLMResponse:
        offered.extend(one.parameters for one in tools)
        return asks(("billing", GIVEN)) if len(messages) == 1 else says(results(messages)[0])

    async with Stage(FunctionLLM(ask), agents=[billing(FunctionLLM(answer), goal_trust="trusted")]) as stage:
        run = await stage.begin(run_id="r")
        assert (await stage.state(run)).final_answer == '{"answer":"done"}'
        child = await stage.state("r.1")
        assert (child.goal, child.goal_trust, child.agent) == (GOAL, "trusted", "billing")
        assert shown == [GOAL]
        assert list(offered[0]["properties"]) == ["order_id", "wish", "positions", "note"]
        (asked,) = await stage.of(run, ToolCallRequested)
        assert asked.arguments == json.loads(GOAL)


async def test_the_goal_of_a_request_is_untrusted_unless_the_agent_says_otherwise() -> None:
    async with Stage(parent(asks(("billing", GIVEN))), agents=[billing()]) as stage:
        await stage.begin(run_id="r")
        (started,) = await stage.of("r.1", RunStarted)
        assert started.goal_trust == "untrusted"


@pytest.mark.parametrize(
    ("request_type", "given", "said"),
    [
        (Refund, {**GIVEN, "order_id": "1"}, "argument 'order_id'"),
        (Refund, {**GIVEN, "wish": "money"}, "argument 'wish'"),
        (Refund, {**GIVEN, "positions": [1, 2, 3, 4]}, "argument 'positions'"),
        (Refund, {"wish": "refund"}, "argument 'order_id' is missing"),
        (Refund, {**GIVEN, "goal": "pay"}, "unknown argument 'goal'"),
        (Refund, {**GIVEN, "approval": "r.1"}, "unknown argument 'approval'"),
        (Words, {"text": "  "}, "say something"),
        (Growing, {"text": "a"}, "does not keep its own value"),
        (Words, {"text": "x" * 201_000}, "say in 1 to 200,000 characters"),
    ],
)
async def test_what_does_not_fit_is_an_error_for_the_model_and_starts_no_child(
    request_type: Any, given: dict[str, Any], said: str
) -> None:
    async with Stage(parent(asks(("billing", given))), agents=[billing(request=request_type)]) as stage:
        run = await stage.begin()
        (failed,) = await stage.of(run, ToolCallFailed)
        assert said in failed.error
        assert await stage.of(run, ChildStarted) == []
        assert (await stage.state(run)).status == "completed"


async def test_the_struct_s_own_word_counts_and_what_it_makes_of_a_value_is_what_is_recorded() -> None:
    async with Stage(parent(asks(("billing", {"text": " hello "}))), agents=[billing(request=Words)]) as stage:
        run = await stage.begin(run_id="r")
        (asked,) = await stage.of(run, ToolCallRequested)
        assert asked.arguments == {"text": "hello"}
        assert (await stage.state("r.1")).goal == '{"text":"hello"}'


# --- held, killed, forked -------------------------------------------------------------------------------------------


@policy
def careful(call: PolicyCall) -> Terms | None:
    return Terms("money is careful", "careful") if call.tool == "billing" else None


async def test_a_request_that_is_held_and_edited_starts_the_child_with_what_was_approved() -> None:
    async with Stage(parent(asks(("billing", GIVEN))), agents=[billing()], policies=[careful]) as stage:
        run = await stage.begin(run_id="r")
        await stage.runs.edit(run, {**GIVEN, "note": "gently", "positions": ["7"]}, "ann")
        await stage.settle()
        assert [one.arguments["positions"] for one in await stage.of(run, ApprovalRequested)] == [[2, 1], [7]]
        await stage.approve(run, "bob")
        assert (await stage.state("r.1")).goal == '{"note":"gently","order_id":"#1","positions":[7],"wish":"refund"}'


async def test_an_approval_is_not_used_for_an_agent_with_another_request() -> None:
    narrower = msgspec.defstruct(
        "Refund", [("order_id", str), ("wish", str), ("positions", list[int]), ("note", str)], module=__name__
    )
    async with Stage(parent(asks(("billing", GIVEN))), agents=[billing()], policies=[careful]) as stage:
        run = await stage.begin(run_id="r")
        await stage.kill()
        later = stage.beside(parent(asks(("billing", GIVEN))), agents=[billing(request=narrower)], policies=[careful])
        await stage.add_node(later)
        await stage.approve(run)
        await stage.advance(60)
        (failed,) = await stage.of(run, ToolCallFailed)
        assert "superseded" in failed.error
        assert await stage.of(run, ChildStarted) == []


async def test_whatever_dies_there_is_one_child_with_one_goal() -> None:
    goals: list[str] = []

    def answer(messages: Sequence[ChatMessage], tools: Sequence[ToolSpec], system: str) -> LLMResponse:
        goals.append(messages[0].content)
        return says("done")

    async with Stage(
        parent(asks(("billing", GIVEN))), agents=[billing(FunctionLLM(answer))], policies=[careful]
    ) as stage:
        run = await stage.begin(run_id="r")
        await stage.kill()
        await stage.runtime.approve(run, "ann")
        await stage.add_node()
        await stage.advance(60)
        assert (await stage.state(run)).status == "completed"
        assert set(goals) == {GOAL}
        assert len(await stage.of(run, ChildStarted)) == 1


async def test_a_fork_asks_with_the_same_goal() -> None:
    twice = parent(asks(("billing", GIVEN)), asks(("billing", GIVEN)))
    async with Stage(twice, agents=[billing()]) as stage:
        await stage.begin(run_id="r")
        answered = (await stage.kinds("r")).index("ToolCallCompleted") + 1
        await stage.runtime.fork("r", answered, new_id="f")
        await stage.settle()
        assert [one.child.rpartition(":")[2] for one in await stage.of("f", ChildStarted)] == ["f.2"]
        assert (await stage.state("f.2")).goal == (await stage.state("r.2")).goal == GOAL


# --- explained ------------------------------------------------------------------------------------------------------


@tool(effect="money")
async def pay(to: str, cents: int, position: int, idempotency_key: str) -> str:
    """Pay."""
    return f"{to}{cents}{position}{idempotency_key}"


def test_each_value_of_a_request_explains_what_the_child_asks_for() -> None:
    boundary = Boundary(get_profile("standard", {}), "r", {"pay": pay})
    goal = goal_of({"positions": [1, 234], "to": 'Zoë "Z"\nMüller', "cents": 12900})
    assert "\\n" in goal and "Zoë" in goal
    boundary.feed(RunStarted("r", goal, 0.0, Budget(), goal_trust="untrusted"))
    assert set(values_in(goal)) == {"1", "234", 'Zoë "Z"\nMüller', "12900"}
    sources = boundary._sources
    assert sources is not None
    found = sources.explain({"to": "Zoë Z Müller", "cents": 12900, "position": 234}, pay.parameters)
    assert [(one.path[0], one.source.kind, one.source.trust) for one in found] == [
        ("to", "goal", "untrusted"),
        ("cents", "goal", "untrusted"),
        ("position", "goal", "untrusted"),
    ]


@pytest.mark.parametrize("goal", ["look it up", "{no json", '["a"]', "{" * 5_000, '{"a":' * 5_000])
def test_a_goal_in_words_has_no_values(goal: str) -> None:
    assert values_in(goal) == ()


def test_values_without_words_are_none() -> None:
    assert values_in(goal_of({"a": True, "b": None, "c": {}, "d": [["x", 1.5]]})) == ("x", "1.5")
