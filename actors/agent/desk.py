"""The part of a supervision tree that runs agents: approvals, a model worker, a tool worker, and a pool of runs."""

from ..approval import Approvals
from ..llm.client import LLMClient
from ..spec import Child, Supervisor
from .model_worker import FIRST_SECONDS as MODEL_FIRST_SECONDS
from .model_worker import ModelWorker
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
) -> tuple[Child, ...]:
    """Children of the supervisor at `parent` that run agents with this model and these tools.

    `approvals` is the address of the approval actor; "" makes one here. `run` names the pool of runs.

    Raises:
        ToolboxError: two tools of one name.
    """
    box = toolbox(tools)
    specs = tuple(tool.spec() for tool in box.values())
    parts = Parts(f"{parent}/{MODEL}", f"{parent}/{TOOL}", approvals or f"{parent}/{APPROVALS}", approval_seconds)
    mine = () if approvals else (Child(Approvals, APPROVALS),)
    return (
        *mine,
        Child(ModelWorker, MODEL, args=(llm, specs, model_first_seconds)),
        Child(ToolWorker, TOOL, args=(box, tool_first_seconds)),
        # Temporary: a run that failed at a message would not do better when started anew, the message is a dead letter
        # by then. It stands still with its reason until somebody resumes it, and takes no other run down with it.
        Child(Run, run, restart="temporary", pool=True, args=(parts, box)),
    )


def agent_tree(
    name: str,
    llm: LLMClient,
    tools: "list[Tool] | tuple[Tool, ...]",
    *,
    approval_seconds: float = 0.0,
    model_first_seconds: float = MODEL_FIRST_SECONDS,
    tool_first_seconds: float = TOOL_FIRST_SECONDS,
) -> Supervisor:
    """A whole tree of one supervisor that runs agents."""
    children = agent_children(
        f"/{name}",
        llm,
        tools,
        approval_seconds=approval_seconds,
        model_first_seconds=model_first_seconds,
        tool_first_seconds=tool_first_seconds,
    )
    return Supervisor(name, children)
