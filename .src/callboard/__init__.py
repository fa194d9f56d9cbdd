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
    from callboard.actors.adapters.loop import Loop as Loop
    from callboard.actors.adapters.loop import durable_loop as durable_loop
    from callboard.actors.adapters.loop_errors import CallDenied as CallDenied
    from callboard.actors.adapters.loop_errors import CallFailed as CallFailed
    from callboard.actors.adapters.loop_errors import StepError as StepError
    from callboard.actors.adapters.loop_runtime import LoopRuntime as LoopRuntime
    from callboard.actors.adapters.loop_runtime import loop_children as loop_children
    from callboard.actors.agent.agents import AgentSpec as AgentSpec
    from callboard.actors.agent.budget import Budget as Budget
    from callboard.actors.agent.classifier import Classifier as Classifier
    from callboard.actors.agent.classifier import RuleClassifier as RuleClassifier
    from callboard.actors.agent.classifier import Verdict as Verdict
    from callboard.actors.agent.compaction import Compaction as Compaction
    from callboard.actors.agent.desk import agent_children as agent_children
    from callboard.actors.agent.desk import agent_tree as agent_tree
    from callboard.actors.agent.digest import idempotency_key as idempotency_key
    from callboard.actors.agent.faults import NeedsApproval as NeedsApproval
    from callboard.actors.agent.faults import NotBegun as NotBegun
    from callboard.actors.agent.options import Retries as Retries
    from callboard.actors.agent.policies import Policy as Policy
    from callboard.actors.agent.policies import PolicyCall as PolicyCall
    from callboard.actors.agent.policies import policy as policy
    from callboard.actors.agent.policy import Terms as Terms
    from callboard.actors.agent.policy_data import policies_from as policies_from
    from callboard.actors.agent.recorded import RecordedLLM as RecordedLLM
    from callboard.actors.agent.recorded import write_recording as write_recording
    from callboard.actors.agent.runs import Runs as Runs
    from callboard.actors.agent.runs import StateSnapshot as StateSnapshot
    from callboard.actors.agent.runtime import RunHandle as RunHandle
    from callboard.actors.agent.runtime import Runtime as Runtime
    from callboard.actors.agent.state import RunState as RunState
    from callboard.actors.agent.state import fold as fold
    from callboard.actors.agent.streaming import Delta as Delta
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
    from callboard.actors.guard.profiles import PROFILES as PROFILES
    from callboard.actors.guard.profiles import GuardrailProfile as GuardrailProfile
    from callboard.actors.guard.profiles import get_profile as get_profile
    from callboard.actors.llm.choice import client_from as client_from
    from callboard.actors.llm.client import (
        ChatMessage as ChatMessage,
    )
    from callboard.actors.llm.client import (
        LLMClient as LLMClient,
    )
    from callboard.actors.llm.client import (
        LLMResponse as LLMResponse,
    )
    from callboard.actors.llm.client import PermanentModelError as PermanentModelError
    from callboard.actors.llm.client import (
        ToolCall as ToolCall,
    )
    from callboard.actors.llm.client import ToolSpec as ToolSpec
    from callboard.actors.llm.client import TransientModelError as TransientModelError
    from callboard.actors.llm.google import GoogleClient as GoogleClient
    from callboard.actors.llm.ollama import OllamaClient as OllamaClient
    from callboard.actors.llm.openai import OpenAICompatibleClient as OpenAICompatibleClient
    from callboard.actors.llm.prices import Price as Price
    from callboard.actors.llm.prices import Prices as Prices
    from callboard.actors.llm.prices import prices_from as prices_from
    from callboard.actors.llm.provider import Breaker as Breaker
    from callboard.actors.llm.provider import Provider as Provider
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
    "PROFILES",
    "Actor",
    "AgentSpec",
    "App",
    "Approvals",
    "AskFailed",
    "Breaker",
    "Budget",
    "CallDenied",
    "CallFailed",
    "CallboardError",
    "ChatMessage",
    "Child",
    "Classifier",
    "Client",
    "Compaction",
    "Context",
    "Delta",
    "Event",
    "Fatal",
    "FunctionLLM",
    "GoogleClient",
    "GuardrailProfile",
    "InMemoryStore",
    "LLMClient",
    "LLMResponse",
    "Lane",
    "Loop",
    "LoopRuntime",
    "Message",
    "NeedsApproval",
    "Node",
    "NodeSettings",
    "NotBegun",
    "OllamaClient",
    "OpenAICompatibleClient",
    "Park",
    "PermanentModelError",
    "Policy",
    "PolicyCall",
    "PostgresStore",
    "Price",
    "Prices",
    "Provider",
    "RecordedLLM",
    "Ref",
    "Reject",
    "Request",
    "RestartBackoff",
    "Retries",
    "RetryPolicy",
    "RuleClassifier",
    "RunHandle",
    "RunState",
    "Runs",
    "Runtime",
    "ScriptedLLM",
    "StateSnapshot",
    "StepError",
    "Supervisor",
    "Surroundings",
    "Terminated",
    "Terms",
    "Tool",
    "ToolCall",
    "ToolSpec",
    "Transient",
    "TransientModelError",
    "Tree",
    "Verdict",
    "Worker",
    "WorkerContext",
    "__version__",
    "agent_children",
    "agent_tree",
    "client_from",
    "create_schema",
    "durable_loop",
    "fold",
    "get_profile",
    "idempotency_key",
    "loop_children",
    "on",
    "policies_from",
    "policy",
    "prices_from",
    "schema_sql",
    "tool",
    "upcast",
    "upcast_state",
    "write_recording",
]

__version__ = "0.1.0"

# public name -> module that defines it
_HOME: Final[dict[str, str]] = {
    "Actor": "callboard.actors.actor",
    "AgentSpec": "callboard.actors.agent.agents",
    "App": "callboard.actors.app",
    "Approvals": "callboard.actors.approval",
    "AskFailed": "callboard.actors.system",
    "Breaker": "callboard.actors.llm.provider",
    "Budget": "callboard.actors.agent.budget",
    "CallDenied": "callboard.actors.adapters.loop_errors",
    "CallFailed": "callboard.actors.adapters.loop_errors",
    "CallboardError": "callboard.mailbox.errors",
    "ChatMessage": "callboard.actors.llm.client",
    "Child": "callboard.actors.spec",
    "Classifier": "callboard.actors.agent.classifier",
    "Client": "callboard.actors.client",
    "Compaction": "callboard.actors.agent.compaction",
    "Context": "callboard.actors.context",
    "Delta": "callboard.actors.agent.streaming",
    "Event": "callboard.actors.context",
    "Fatal": "callboard.actors.directives",
    "FunctionLLM": "callboard.actors.llm.scripted",
    "GoogleClient": "callboard.actors.llm.google",
    "GuardrailProfile": "callboard.actors.guard.profiles",
    "InMemoryStore": "callboard.persistence.memory",
    "LLMClient": "callboard.actors.llm.client",
    "LLMResponse": "callboard.actors.llm.client",
    "Lane": "callboard.mailbox.lane",
    "Loop": "callboard.actors.adapters.loop",
    "LoopRuntime": "callboard.actors.adapters.loop_runtime",
    "Message": "callboard.mailbox.message",
    "NeedsApproval": "callboard.actors.agent.faults",
    "Node": "callboard.actors.node",
    "NodeSettings": "callboard.actors.node",
    "NotBegun": "callboard.actors.agent.faults",
    "OllamaClient": "callboard.actors.llm.ollama",
    "OpenAICompatibleClient": "callboard.actors.llm.openai",
    "PROFILES": "callboard.actors.guard.profiles",
    "Park": "callboard.actors.directives",
    "PermanentModelError": "callboard.actors.llm.client",
    "Policy": "callboard.actors.agent.policies",
    "PolicyCall": "callboard.actors.agent.policies",
    "PostgresStore": "callboard.persistence.postgres",
    "Price": "callboard.actors.llm.prices",
    "Prices": "callboard.actors.llm.prices",
    "Provider": "callboard.actors.llm.provider",
    "RecordedLLM": "callboard.actors.agent.recorded",
    "Ref": "callboard.actors.context",
    "Reject": "callboard.actors.directives",
    "Request": "callboard.mailbox.request",
    "RestartBackoff": "callboard.actors.backoff",
    "Retries": "callboard.actors.agent.options",
    "RetryPolicy": "callboard.actors.retry",
    "RuleClassifier": "callboard.actors.agent.classifier",
    "RunHandle": "callboard.actors.agent.runtime",
    "RunState": "callboard.actors.agent.state",
    "Runs": "callboard.actors.agent.runs",
    "Runtime": "callboard.actors.agent.runtime",
    "ScriptedLLM": "callboard.actors.llm.scripted",
    "StateSnapshot": "callboard.actors.agent.runs",
    "StepError": "callboard.actors.adapters.loop_errors",
    "Supervisor": "callboard.actors.spec",
    "Surroundings": "callboard.actors.app",
    "Terminated": "callboard.actors.system",
    "Terms": "callboard.actors.agent.policy",
    "Tool": "callboard.actors.agent.tool",
    "ToolCall": "callboard.actors.llm.client",
    "ToolSpec": "callboard.actors.llm.client",
    "Transient": "callboard.actors.directives",
    "TransientModelError": "callboard.actors.llm.client",
    "Tree": "callboard.actors.spec",
    "Verdict": "callboard.actors.agent.classifier",
    "Worker": "callboard.actors.actor",
    "WorkerContext": "callboard.actors.context",
    "agent_children": "callboard.actors.agent.desk",
    "agent_tree": "callboard.actors.agent.desk",
    "client_from": "callboard.actors.llm.choice",
    "create_schema": "callboard.persistence.postgres",
    "durable_loop": "callboard.actors.adapters.loop",
    "fold": "callboard.actors.agent.state",
    "get_profile": "callboard.actors.guard.profiles",
    "idempotency_key": "callboard.actors.agent.digest",
    "loop_children": "callboard.actors.adapters.loop_runtime",
    "on": "callboard.actors.actor",
    "policies_from": "callboard.actors.agent.policy_data",
    "policy": "callboard.actors.agent.policies",
    "prices_from": "callboard.actors.llm.prices",
    "schema_sql": "callboard.persistence.postgres",
    "tool": "callboard.actors.agent.tool",
    "upcast": "callboard.mailbox.message",
    "upcast_state": "callboard.actors.snapshot",
    "write_recording": "callboard.actors.agent.recorded",
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
