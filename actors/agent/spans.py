"""What a trace says of a run, a model call and a tool call: names and attributes of OpenTelemetry's GenAI conventions.

    invoke_agent {agent}    the run, from its start to its end; its turns are its children
    chat {model}            one attempt at a model call
    execute_tool {tool}     one attempt at a tool call

`callboard.*` is what the conventions have no name for. Never in here: what was said, to whom a call was made with which
arguments, what came back, the words of an error. So a trace may go where the customers' data may not.
"""

from ...mailbox.address import key_of
from ...mailbox.message import Message
from ..context import WorkerContext
from ..llm.client import LLMClient, LLMResponse
from ..tracing import Ended, Span, Value, Work
from .digest import decision_id
from .messages import CallModel, CallTool, CheckCall, ToolAsks, ToolDoubted, ToolErred
from .state import RunState
from .text import row_text

MAX_CHARS = 200
"""Of a name that a provider or a user gave."""


def chat(ctx: WorkerContext, llm: LLMClient, message: CallModel) -> None:
    """An attempt at a model call begins."""
    if not ctx.span.on:
        return
    model = row_text(llm.model_name, MAX_CHARS)
    said: dict[str, Value] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": llm.vendor or "_OTHER",
        "gen_ai.conversation.id": key_of(ctx.caller) or ctx.caller,
        "callboard.run.step": message.step,
    }
    if model:
        said["gen_ai.request.model"] = model
    if message.agent:
        said["gen_ai.agent.name"] = message.agent
    if message.summary_of is not None:
        said["callboard.call.purpose"] = "summary"
    ctx.span.name(f"chat {model}".rstrip(), said)


def answered(span: Span, answer: LLMResponse) -> None:
    """The model has answered."""
    if not span.on:
        return
    said: dict[str, Value] = {
        "gen_ai.usage.input_tokens": answer.input_tokens,
        "gen_ai.usage.output_tokens": answer.output_tokens,
        "gen_ai.response.finish_reasons": [row_text(answer.stop_reason, MAX_CHARS)],
    }
    if answer.cost_usd:
        said["callboard.cost_usd"] = float(answer.cost_usd)
    if answer.provider_request_id:
        said["gen_ai.response.id"] = row_text(answer.provider_request_id, MAX_CHARS)
    if answer.cached_tokens:
        said["gen_ai.usage.cache_read.input_tokens"] = answer.cached_tokens
    if answer.thought_tokens:
        said["gen_ai.usage.reasoning.output_tokens"] = answer.thought_tokens
    span.note(said)


def tool(ctx: WorkerContext, message: CallTool) -> None:
    """An attempt at a tool call begins."""
    if ctx.span.on:
        said = _of_tool(ctx, message.tool, decision_id(message.run_id, message.call))
        if message.digest:
            said["callboard.call.approved"] = True
        ctx.span.name(f"execute_tool {said['gen_ai.tool.name']}", {"gen_ai.operation.name": "execute_tool", **said})


def checks(ctx: WorkerContext, message: CheckCall) -> None:
    """The checks of a call that waits for a person begin."""
    if ctx.span.on:
        said = _of_tool(ctx, message.tool, message.decision)
        ctx.span.name(f"check_tool {said['gen_ai.tool.name']}", said)


def _of_tool(ctx: WorkerContext, name: str, call: str) -> dict[str, Value]:
    # The call's own id: a model's may be empty, or be given twice.
    said: dict[str, Value] = {
        "gen_ai.tool.name": row_text(name, MAX_CHARS),
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": call,
        "gen_ai.conversation.id": key_of(ctx.caller) or ctx.caller,
    }
    if ctx.in_doubt:
        said["callboard.call.in_doubt"] = True
    return said


def tool_ended(span: Span, outcome: Message) -> None:
    """What became of an attempt that has an outcome."""
    if isinstance(outcome, ToolErred):
        span.fail("tool_error")
    elif isinstance(outcome, ToolDoubted):
        span.fail("in_doubt")
    elif isinstance(outcome, ToolAsks):
        span.note({"callboard.call.asks": True})


def run_ended(span: Span, work: Work | None, run: RunState) -> None:
    """The turn in hand is a run's last."""
    if not span.on:
        return
    said: dict[str, Value] = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.conversation.id": run.run_id,
        "callboard.run.status": run.status,
        "callboard.run.steps": run.step,
        "callboard.run.tool_calls": run.tool_calls,
        "callboard.run.tokens": run.total_tokens,
        "callboard.run.cost_usd": float(run.total_cost_usd),
    }
    if run.agent:
        said["gen_ai.agent.name"] = run.agent
    if run.model and run.model != "unspecified":
        said["gen_ai.request.model"] = row_text(run.model, MAX_CHARS)
    error = {"completed": "", "cancelled": "cancelled"}.get(run.status, run.failure_reason or "failed")
    span.close(work, Ended(f"invoke_agent {run.agent}".rstrip(), run.started_at, said, error))
