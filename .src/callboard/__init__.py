"""Callboard runs LLM agents as actors with durable mailboxes in PostgreSQL.

This is the public face: it only re-exports. Names are resolved on first use, so that `import callboard` loads nothing
and a program that only reads a mailbox never imports a model's SDK. A name stands in three places, which
tests/test_packaging.py holds together: under `if TYPE_CHECKING` (what type checkers see), in `__all__`, and in
`_HOME` (where it is found at run time).
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from callboard.actors.actor import Actor as Actor
    from callboard.actors.actor import Worker as Worker
    from callboard.actors.actor import on as on
    from callboard.actors.agent.budget import Budget as Budget
    from callboard.actors.agent.desk import agent_children as agent_children
    from callboard.actors.agent.desk import agent_tree as agent_tree
    from callboard.actors.agent.digest import idempotency_key as idempotency_key
    from callboard.actors.agent.runs import Runs as Runs
    from callboard.actors.agent.runs import StateSnapshot as StateSnapshot
    from callboard.actors.agent.runtime import RunHandle as RunHandle
    from callboard.actors.agent.runtime import Runtime as Runtime
    from callboard.actors.agent.state import RunState as RunState
    from callboard.actors.agent.state import fold as fold
    from callboard.actors.agent.tool import Tool as Tool
    from callboard.actors.agent.tool import tool as tool
    from callboard.actors.app import App as App
    from callboard.actors.app import Surroundings as Surroundings
    from callboard.actors.approval import Approvals as Approvals
    from callboard.actors.backoff import RestartBackoff as RestartBackoff
    from callboard.actors.client import Client as Client
    from callboard.actors.context import Context as Context
    from callboard.actors.context import Event as Event
    from callboard.actors.context import Ref as Ref
    from callboard.actors.context import WorkerContext as WorkerContext
    from callboard.actors.directives import Fatal as Fatal
    from callboard.actors.directives import Park as Park
    from callboard.actors.directives import Reject as Reject
    from callboard.actors.directives import Transient as Transient
    from callboard.actors.llm.client import (
        ChatMessage as ChatMessage,
    )
    from callboard.actors.llm.client import (
        LLMClient as LLMClient,
    )
    from callboard.actors.llm.client import (
        LLMResponse as LLMResponse,
    )
    from callboard.actors.llm.client import (
        ToolCall as ToolCall,
    )
    from callboard.actors.llm.scripted import FunctionLLM as FunctionLLM
    from callboard.actors.llm.scripted import ScriptedLLM as ScriptedLLM
    from callboard.actors.node import Node as Node
    from callboard.actors.node import NodeSettings as NodeSettings
    from callboard.actors.retry import RetryPolicy as RetryPolicy
    from callboard.actors.snapshot import upcast_state as upcast_state
    from callboard.actors.spec import Child as Child
    from callboard.actors.spec import Supervisor as Supervisor
    from callboard.actors.spec import Tree as Tree
    from callboard.actors.system import AskFailed as AskFailed
    from callboard.actors.system import Terminated as Terminated
    from callboard.mailbox.errors import CallboardError as CallboardError
    from callboard.mailbox.lane import Lane as Lane
    from callboard.mailbox.message import Message as Message
    from callboard.mailbox.message import upcast as upcast
    from callboard.mailbox.request import Request as Request
    from callboard.persistence.memory import MemoryStore as InMemoryStore
    from callboard.persistence.postgres import (
        PostgresStore as PostgresStore,
    )
    from callboard.persistence.postgres import (
        create_schema as create_schema,
    )
    from callboard.persistence.postgres import (
        schema_sql as schema_sql,
    )

__all__ = [
    "Actor",
    "App",
    "Approvals",
    "AskFailed",
    "Budget",
    "CallboardError",
    "ChatMessage",
    "Child",
    "Client",
    "Context",
    "Event",
    "Fatal",
    "FunctionLLM",
    "InMemoryStore",
    "LLMClient",
    "LLMResponse",
    "Lane",
    "Message",
    "Node",
    "NodeSettings",
    "Park",
    "PostgresStore",
    "Ref",
    "Reject",
    "Request",
    "RestartBackoff",
    "RetryPolicy",
    "RunHandle",
    "RunState",
    "Runs",
    "Runtime",
    "ScriptedLLM",
    "StateSnapshot",
    "Supervisor",
    "Surroundings",
    "Terminated",
    "Tool",
    "ToolCall",
    "Transient",
    "Tree",
    "Worker",
    "WorkerContext",
    "__version__",
    "agent_children",
    "agent_tree",
    "create_schema",
    "fold",
    "idempotency_key",
    "on",
    "schema_sql",
    "tool",
    "upcast",
    "upcast_state",
]

__version__ = "0.1.0"

# public name -> module that defines it
_HOME: Final[dict[str, str]] = {
    "Actor": "callboard.actors.actor",
    "App": "callboard.actors.app",
    "Approvals": "callboard.actors.approval",
    "AskFailed": "callboard.actors.system",
    "Budget": "callboard.actors.agent.budget",
    "CallboardError": "callboard.mailbox.errors",
    "ChatMessage": "callboard.actors.llm.client",
    "Child": "callboard.actors.spec",
    "Client": "callboard.actors.client",
    "Context": "callboard.actors.context",
    "Event": "callboard.actors.context",
    "Fatal": "callboard.actors.directives",
    "FunctionLLM": "callboard.actors.llm.scripted",
    "InMemoryStore": "callboard.persistence.memory",
    "LLMClient": "callboard.actors.llm.client",
    "LLMResponse": "callboard.actors.llm.client",
    "Lane": "callboard.mailbox.lane",
    "Message": "callboard.mailbox.message",
    "Node": "callboard.actors.node",
    "NodeSettings": "callboard.actors.node",
    "Park": "callboard.actors.directives",
    "PostgresStore": "callboard.persistence.postgres",
    "Ref": "callboard.actors.context",
    "Reject": "callboard.actors.directives",
    "Request": "callboard.mailbox.request",
    "RestartBackoff": "callboard.actors.backoff",
    "RetryPolicy": "callboard.actors.retry",
    "RunHandle": "callboard.actors.agent.runtime",
    "RunState": "callboard.actors.agent.state",
    "Runs": "callboard.actors.agent.runs",
    "Runtime": "callboard.actors.agent.runtime",
    "ScriptedLLM": "callboard.actors.llm.scripted",
    "StateSnapshot": "callboard.actors.agent.runs",
    "Supervisor": "callboard.actors.spec",
    "Surroundings": "callboard.actors.app",
    "Terminated": "callboard.actors.system",
    "Tool": "callboard.actors.agent.tool",
    "ToolCall": "callboard.actors.llm.client",
    "Transient": "callboard.actors.directives",
    "Tree": "callboard.actors.spec",
    "Worker": "callboard.actors.actor",
    "WorkerContext": "callboard.actors.context",
    "agent_children": "callboard.actors.agent.desk",
    "agent_tree": "callboard.actors.agent.desk",
    "create_schema": "callboard.persistence.postgres",
    "fold": "callboard.actors.agent.state",
    "idempotency_key": "callboard.actors.agent.digest",
    "on": "callboard.actors.actor",
    "schema_sql": "callboard.persistence.postgres",
    "tool": "callboard.actors.agent.tool",
    "upcast": "callboard.mailbox.message",
    "upcast_state": "callboard.actors.snapshot",
}
_RENAMED: Final = {"InMemoryStore": "MemoryStore"}

if not TYPE_CHECKING:  # a visible __getattr__ would make type checkers accept every name

    def __getattr__(name: str) -> object:
        """Import the public name from the module that defines it (PEP 562)."""
        try:
            home = _HOME[name]
        except KeyError:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
        value = getattr(import_module(home), _RENAMED.get(name, name))
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
