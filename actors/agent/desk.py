"""The part of a supervision tree that runs agents: approvals, a model worker, a tool worker, and a pool of runs."""

from dataclasses import replace

from ..approval import Approvals
from ..llm.client import LLMClient
from ..spec import Child, Supervisor
from .agents import check_agents, everything
from .model_worker import FIRST_SECONDS as MODEL_FIRST_SECONDS
from .model_worker import ModelWorker
from .policy_data import require_known
from .rules import NO_RULES, Rules
from .run import Parts, Run
from .tool import Tool
from .tool_worker import FIRST_SECONDS as TOOL_FIRST_SECONDS
from .tool_worker import ToolWorker, toolbox

APPROVALS = "approvals"
MODEL = "model"
TOOL = "tool"
RUN = "run"


def agent_children(
    parent: str,
    llm: LLMClient,
    tools: "list[Tool] | tuple[Tool, ...]",
    *,
    approvals: str = "",
    approval_seconds: float = 0.0,
    model_first_seconds: float = MODEL_FIRST_SECONDS,
    tool_first_seconds: float = TOOL_FIRST_SECONDS,
    run: str = RUN,
    rules: Rules = NO_RULES,
) -> tuple[Child, ...]:
    """Children of the supervisor at `parent` that run agents with this model and these tools.

    `approvals` is the address of the approval actor; "" makes one here. `run` names the pool of runs.

    Raises:
        ToolboxError: two tools of one name. BadAgents: agents that cannot work together. PolicyError: a policy about a
        tool that there is not.
    """
    box = toolbox(tools)
    every = everything(box, check_agents(rules.agents.values(), box).values())
    rules = replace(rules, tools=every)
    require_known(rules.policies, every)
    specs = tuple(tool.spec() for tool in box.values())
    parts = Parts(f"{parent}/{MODEL}", f"{parent}/{TOOL}", approvals or f"{parent}/{APPROVALS}", approval_seconds)
    mine = () if approvals else (Child(Approvals, APPROVALS),)
    return (
        *mine,
        Child(ModelWorker, MODEL, args=(llm, specs, model_first_seconds, rules)),
        Child(ToolWorker, TOOL, args=(every, tool_first_seconds, rules)),
        # Temporary: a run that failed at a message would not do better when started anew, the message is a dead letter
        # by then. It stands still with its reason until somebody resumes it, and takes no other run down with it.
        Child(Run, run, restart="temporary", pool=True, args=(parts, box, rules)),
    )


def agent_tree(
    name: str,
    llm: LLMClient,
    tools: "list[Tool] | tuple[Tool, ...]",
    *,
    approval_seconds: float = 0.0,
    model_first_seconds: float = MODEL_FIRST_SECONDS,
    tool_first_seconds: float = TOOL_FIRST_SECONDS,
    rules: Rules = NO_RULES,
) -> Supervisor:
    """A whole tree of one supervisor that runs agents."""
    children = agent_children(
        f"/{name}",
        llm,
        tools,
        approval_seconds=approval_seconds,
        model_first_seconds=model_first_seconds,
        tool_first_seconds=tool_first_seconds,
        rules=rules,
    )
    return Supervisor(name, children)
