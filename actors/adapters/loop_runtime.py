"""The runtime of hosted runs: a `Runtime` whose runs follow somebody else's code.

    async with LoopRuntime(store, my_agent) as runtime:
        run = await runtime.start("Refund order A-8891, item arrived damaged.")
        run.state.status, run.state.final_answer

A hosted run is a run: `state`, `events`, `approve`, `deny`, `resume`, `cancel`, `verify`, lists and traces are as ever.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec

from ...persistence.store import Store
from ..agent.budget import Budget
from ..agent.desk import RUN, agent_children
from ..agent.events import StepCompleted
from ..agent.model_worker import ModelWorker
from ..agent.run import Run
from ..agent.runs import Runs, StateSnapshot
from ..agent.runtime import Runtime
from ..agent.tool import Tool
from ..llm.client import ChatMessage, LLMClient, LLMResponse, ToolSpec
from ..spec import Child, Supervisor, Tree
from .loop import SNAPSHOT, Code
from .loop_run import LoopRun
from .loop_worker import CodeWorker

CODE = "code"
NO_LIMITS = Budget(max_iterations=None, max_tokens=None, max_cost_usd=None)


class NoModel(LLMClient):
    """Where hosted code has a model, it calls it itself."""

    async def call(
        self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpec], system_prompt: str = ""
    ) -> LLMResponse:
        raise RuntimeError("a hosted run calls its model in a step")


def loop_children(parent: str, code: Code, tools: Sequence[Tool] = (), **options: Any) -> tuple[Child, ...]:
    """Children of the supervisor at `parent` that host `code`, which may call its own tools and these.

    Options as `agent_children`.
    """
    children = agent_children(parent, NoModel(), (*code.tools, *tools), **options)
    return tuple(_hosting(child, parent, code) for child in children)


def _hosting(child: Child, parent: str, code: Code) -> Child:
    if child.actor is ModelWorker:
        return Child(CodeWorker, CODE, args=(code,))
    if child.actor is Run:
        parts, *rest = child.args
        return replace(child, actor=LoopRun, args=(msgspec.structs.replace(parts, model=f"{parent}/{CODE}"), *rest))
    return child


class LoopRuns(Runs):
    """Hosted runs from outside."""

    async def snapshot(self, run_id: str) -> StateSnapshot:
        """A run as one document, with what its code said to remember (`Loop.remember`). Raises as `Runs.snapshot`."""
        found = await super().snapshot(run_id)
        for recorded in reversed(await self.events(run_id)):
            event = recorded.event
            if isinstance(event, StepCompleted) and event.name == SNAPSHOT:
                kept = event.value
                return msgspec.structs.replace(
                    found, messages=kept.get("messages") or [], sdk_state=kept.get("sdk_state") or {}
                )
        return found


class LoopRuntime(Runtime):
    """Hosts one code over a store.

    `tools` are those that the code may call besides its own; `name` is the root of its tree ("": the code's name), so
    that two codes over one store do not meet. Without `budget` nothing limits a run. Further options as `Runtime`.
    """

    def __init__(
        self,
        store: Store,
        code: Code,
        *,
        tools: Sequence[Tool] = (),
        budget: Budget | None = None,
        approval_seconds: float = 0.0,
        name: str = "",
        retry_base_delay_seconds: float = 1.0,
        **options: Any,
    ) -> None:
        name = name or code.name.lower().replace("_", "-").strip("-")
        every = (*code.tools, *tools)
        super().__init__(
            store, NoModel(), every, budget=budget or NO_LIMITS, model=f"code {code.name}", name=name, **options
        )
        self.code = code
        children = loop_children(
            f"/{name}",
            code,
            tools,
            rules=self.rules,
            approval_seconds=approval_seconds,
            tool_first_seconds=retry_base_delay_seconds,
        )
        self.tree = Tree(Supervisor(name, children))
        self.runs = LoopRuns(self.client, f"/{name}/{RUN}")
