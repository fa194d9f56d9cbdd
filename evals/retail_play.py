"""One retail task through the real runtime: the task's calls are the model's, and people answer or do not.

Everything between the model and the desk is what runs in production: the run's actor, its workers, the guardrails, the
gate and the approvals, on the memory store with time driven by hand. `replayed` is the same without any of it.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

import msgspec

from callboard.actors.agent.budget import Budget
from callboard.actors.agent.events import ApprovalRequested, LLMCallCompleted, Trust
from callboard.actors.agent.runtime import Runtime
from callboard.actors.guard.profiles import GuardrailProfile
from callboard.actors.llm.client import ChatMessage, LLMResponse, ToolSpec
from callboard.actors.llm.scripted import FunctionLLM
from callboard.actors.spec import Supervisor
from callboard.actors.testing import CALM, TestKit
from callboard.evals.retail_desk import RetailDesk, Tables
from callboard.evals.retail_reward import said_in
from callboard.evals.retail_rows import Records
from callboard.evals.retail_tools import EFFECTS, retail_tools
from callboard.evals.worst_case import Call

APPROVER: Final = "an approver"
APPROVAL_SECONDS: Final = 10.0
"""How long a question waits where nobody answers; then the run is told so and goes on. Short, as the node's beats are
driven by hand as well; how long makes no difference to what happens."""
UNBOUNDED: Final = Budget(max_iterations=None, max_tokens=None, max_cost_usd=None)


class RunStuck(AssertionError):
    """A run of a task neither ends nor asks."""


class Played(msgspec.Struct, frozen=True):
    """A whole run of one task."""

    tables: Tables
    asked: tuple[tuple[str, str], ...]
    """For each question: the tool, and the rules that asked."""
    writes: int
    """Calls with an effect that the model asked for."""
    said: tuple[str, ...] = ()
    """What the model said to the customer."""


async def play_task(
    goal: str,
    calls: Sequence[Call],
    records: Records,
    profile: GuardrailProfile,
    *,
    trust: Trust = "trusted",
    plan: Sequence[Call] | None = None,
    answered: bool = True,
    desk: RetailDesk | None = None,
    told: Sequence[str] = (),
) -> Played:
    """Run a task to its end. `plan`: the calls whose tools are the run's plan; None: it has none.

    `answered`: somebody approves every question; else each expires. `desk`: one of `records`, if not an ordinary one.
    `told`: what the model tells the customer in the end.

    Raises:
        RunStuck: the run neither ends well nor waits for people.
    """
    desk = desk or RetailDesk(records)
    kit = TestKit(Supervisor("nothing", ()), nodes=0, settings=CALM)
    runtime = Runtime(
        kit.store,
        scripted(calls, told),
        retail_tools(desk),
        budget=UNBOUNDED,
        approval_seconds=APPROVAL_SECONDS,
        guardrail_profile=profile,
        compaction=None,
        settings=CALM,
        port=kit.port,
    )
    tools = None if plan is None else dict(Counter(name for name, _ in plan if name in EFFECTS))
    async with kit:
        await kit.join(tree=runtime.tree)
        run = await runtime.create(goal, trust=trust, plan=tools, requested_by="a customer")
        await kit.settle()
        for _ in range(len(calls) + 1):
            if (await runtime.state(run)).status != "awaiting_approval":
                break
            await _decide(kit, runtime, run, answered=answered)
        state, recorded = await runtime.state(run), await runtime.events(run)
    if state.status != "completed":
        raise RunStuck(f"a run of {len(calls)} calls is {state.status} ({state.failure_detail or 'no reason'})")
    events = [one.event for one in recorded]
    asked = tuple((one.tool, one.policy) for one in events if isinstance(one, ApprovalRequested))
    wanted = [call.name for one in events if isinstance(one, LLMCallCompleted) for call in one.tool_calls]
    return Played(desk.tables(), asked, sum(name in EFFECTS for name in wanted), said_in(recorded))


async def replayed(calls: Sequence[Call], records: Records) -> Tables:
    """What the desk holds when its functions are simply called, one after the other."""
    desk = RetailDesk(records)
    functions = {tool.name: tool.function for tool in retail_tools(desk)}
    for name, arguments in calls:
        await functions[name](**arguments)
    return desk.tables()


async def _decide(kit: TestKit, runtime: Runtime, run: str, *, answered: bool) -> None:
    if answered:
        await runtime.approve(run, APPROVER)
        await kit.settle()
    else:
        await kit.advance(seconds=APPROVAL_SECONDS + 1)


Noted = Callable[[int], Awaitable[None]]
"""Is told of each call of the model: how many answers came before it."""


def scripted(calls: Sequence[Call], told: Sequence[str] = (), noted: Noted | None = None) -> FunctionLLM:
    """A model that asks for the calls, one a turn, whatever it is answered, and then says what the customer is told."""

    async def answer(messages: Sequence[ChatMessage], tools: Sequence[ToolSpec], system: str) -> LLMResponse:
        del tools, system
        turn = sum(message.role == "assistant" for message in messages)
        if noted is not None:
            await noted(turn)
        if turn >= len(calls):
            return LLMResponse(" ".join(["Done.", *told]))
        name, arguments = calls[turn]
        wanted: list[dict[str, Any]] = [{"id": f"c{turn + 1}", "name": name, "arguments": arguments}]
        return LLMResponse("", wanted)

    return FunctionLLM(answer)
