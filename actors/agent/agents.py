"""Agents of a desk besides its own: what each is made of, and which tools a run of each sees.

To a model, an agent that it may call is a tool with one argument, `goal`, or with the fields of the agent's `request`.
To the run, a call of it is a child run (`run_children`). So everything that holds for tools (names, schemas, policies,
gates) holds for agents as it stands.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec

from ...mailbox.errors import UsageError
from ..llm.client import LLMClient, ToolSpec
from .budget import Budget
from .events import Trust
from .request import RequestTool, fields_of
from .schema import object_schema
from .tool import Tool, tool
from .version import tool_version, version_of

if TYPE_CHECKING:
    from .rules import Rules

MAX_DEPTH = 4
"""How deep agents may call agents, unless `Rules.max_depth` says otherwise; a run that people start is at depth 0."""


class BadAgents(UsageError, ValueError):
    """Agents that cannot work together; the message says which and why."""


@dataclass(frozen=True, eq=False)
class AgentSpec:
    """One agent that others may call."""

    name: str
    """What models call it by; letters, digits, `_` and `-`."""
    description: str
    """What models read: what it is for, and what to put in the goal."""
    system_prompt: str = ""
    tools: tuple[Tool, ...] = ()
    budget: Budget = field(default_factory=Budget)
    """Its own limits; a run of it gets no more than its parent has left."""
    llm: LLMClient | None = None
    """None: the desk's own model."""
    model: str = ""
    """Name of the model, for the journal; "": as the parent's."""
    goal_trust: Trust = "untrusted"
    """Its goal is written by a model, out of whatever that has read; `trusted` where that can be nothing bad."""
    agents: tuple[str, ...] = ()
    """Names of the agents that it may call in turn."""
    request: type[msgspec.Struct] | None = None
    """What it is asked for, as fields; its goal is then their JSON. None: it is told its goal in words."""


@lru_cache(maxsize=1_024)
def agent_tool(spec: AgentSpec) -> Tool:
    """The agent as models see it.

    Raises:
        BadTool: a name that providers do not take, or a request that cannot be asked for (`fields_of`).
    """

    async def ask(goal: str) -> str:
        raise UsageError(f"{spec.name} is an agent: a run calls it, not the tool worker")

    ask.__doc__ = spec.description
    made = tool(ask, name=spec.name)
    if spec.request is not None:
        made = _with_request(made, spec.request)
    # As of a tool: an approval is of this agent with what makes it one, and not of whatever has its name later.
    parts = (made.version, spec.description, spec.system_prompt, spec.model, *(one.version for one in spec.tools))
    return replace(made, version=version_of(*parts))


def _with_request(made: Tool, request: type[msgspec.Struct]) -> RequestTool:
    inputs = fields_of(request, made.name)
    schema = object_schema(inputs)
    own: dict[str, Any] = {one.name: getattr(made, one.name) for one in fields(made)}
    own.update(inputs=inputs, parameters=schema, version=tool_version(request, made.name, schema))
    return RequestTool(**own, request=request)


def check_agents(agents: Iterable[AgentSpec], tools: Mapping[str, Tool]) -> dict[str, AgentSpec]:
    """Agents by name.

    Raises:
        BadAgents: two of one name, a name that a tool has, one that may call somebody unknown, or no description.
        BadTool: a name or a request that models cannot be told of.
    """
    found: dict[str, AgentSpec] = {}
    for spec in agents:
        if spec.name in found or spec.name in everything(tools, [spec]):
            raise BadAgents(f"agent {spec.name!r}: there is another agent or a tool of that name; give it its own")
        if not spec.description.strip():
            raise BadAgents(f"agent {spec.name!r} has no description; say what it is for, models go by that")
        agent_tool(spec)
        found[spec.name] = spec
    for spec in found.values():
        for name in spec.agents:
            if name not in found:
                raise BadAgents(f"agent {spec.name!r} may call {name!r}, which is none of {', '.join(found)}")
    return found


def everything(tools: Mapping[str, Tool], agents: Iterable[AgentSpec]) -> dict[str, Tool]:
    """All tools of a desk and its agents, by name: what the tool worker has to know.

    Raises:
        BadAgents: two different tools of one name.
    """
    found = dict(tools)
    for spec in agents:
        for one in spec.tools:
            if found.setdefault(one.name, one) is not one:
                raise BadAgents(f"agent {spec.name!r}: another tool is called {one.name!r} too; rename one of them")
    return found


def tools_for(agent: str, tools: Mapping[str, Tool], rules: "Rules") -> Mapping[str, Tool]:
    """What a run of `agent` may call, by name: its tools, and the agents that it may call. `tools` are the desk's own.

    The desk's own agent ("") may call every agent. One that this program does not know may call nothing.
    """
    if not rules.agents:
        return tools if not agent else {}
    if not agent:
        return {**tools, **{name: agent_tool(spec) for name, spec in rules.agents.items()}}
    spec = rules.agents.get(agent)
    if spec is None:
        return {}
    called = {name: agent_tool(rules.agents[name]) for name in spec.agents if name in rules.agents}
    return {**{one.name: one for one in spec.tools}, **called}


def specs_for(agent: str, own: tuple[ToolSpec, ...], rules: "Rules") -> tuple[ToolSpec, ...]:
    """`tools_for`, as a model is told of them; `own` are those of the desk."""
    if not rules.agents:
        return own if not agent else ()
    named = tools_for(agent, {}, rules)
    return (*(own if not agent else ()), *(one.spec() for one in named.values()))
