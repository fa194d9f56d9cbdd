"""The tool worker: makes one tool call, under its one key, and says what became of it.

What a redelivered call means (the previous attempt's node died, or was superseded):

    no start on record          it was never begun, or it is safe to repeat: call it, with the same key
    start on record             in doubt: ask `reconcile`, or a person (`ToolDoubted`); never blindly again

Tools that are safe to repeat (no side effect, or they take the key) need no start on record, which saves a commit.
"""

from collections.abc import Mapping

from ...mailbox.errors import UsageError
from ...mailbox.message import Message
from ..actor import Worker, on
from ..context import WorkerContext
from ..directives import Transient
from ..turn import describe
from .arguments import Arguments, InvalidArguments
from .digest import call_digest
from .messages import CallTool, ToolAnswered, ToolDoubted, ToolErred
from .tool import Tool

FIRST_SECONDS = 1.0
CAP_SECONDS = 30.0


def toolbox(tools: "list[Tool] | tuple[Tool, ...]") -> dict[str, Tool]:
    """Tools by name.

    Raises:
        UsageError: (a ValueError, as the seed has it) two of one name, or something that is no tool.
    """
    for tool in tools:
        if not isinstance(tool, Tool):
            raise ToolboxError(f"not a tool: {tool!r}; put @tool on the function")
    names = [tool.name for tool in tools]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ToolboxError(f"duplicate tool names: {twice}; give each tool a name of its own")
    return {tool.name: tool for tool in tools}


class ToolboxError(UsageError, ValueError):
    """A set of tools that cannot be offered to a model."""


class ToolWorker(Worker, kind="tool"):
    """Calls tools for runs."""

    concurrency = 128

    def __init__(self, tools: Mapping[str, Tool], first_seconds: float = FIRST_SECONDS) -> None:
        self.tools = tools
        self.first_seconds = first_seconds

    def records_start(self, message: Message) -> bool:
        tool = self.tools.get(message.tool) if isinstance(message, CallTool) else None
        return tool is not None and tool.side_effect and tool.on_doubt != "retry"

    @on
    async def call(self, message: CallTool, ctx: WorkerContext) -> Message:
        tool = self.tools.get(message.tool)
        if tool is None:
            return ToolErred(message.call, f"unknown tool: {message.tool}", ctx.attempt)
        try:
            arguments = tool.validate(message.arguments)
        except InvalidArguments as error:
            return ToolErred(message.call, f"invalid arguments: {error.problem}", ctx.attempt)
        if message.digest and not self._approved(message, tool, arguments):
            # What was approved is not what would run now: another version of the tool, or other arguments.
            return ToolErred(message.call, "superseded: the tool has changed since this call was approved", ctx.attempt)
        began = ctx.port.monotonic()
        try:
            if ctx.in_doubt and self.records_start(message):
                doubted = await self._reconcile(message, tool, arguments, ctx)
                if doubted is not None:
                    return doubted
            with ctx.port.deadline(tool.timeout_seconds):
                result = await tool.call(arguments, message.idempotency_key, ctx.port.in_thread)
        except Exception as error:  # noqa: BLE001 - a user's tool; its error goes to the model
            return await self._failed(message, tool, arguments, error, ctx)
        took = int((ctx.port.monotonic() - began) * 1000)
        return ToolAnswered(message.call, result, took, ctx.attempt, node=ctx.node)

    @staticmethod
    def _approved(message: CallTool, tool: Tool, arguments: Arguments) -> bool:
        digest = call_digest(f"{message.run_id}.{message.call}", tool.name, tool.version, arguments.canonical)
        return digest == message.digest

    @staticmethod
    async def _reconcile(message: CallTool, tool: Tool, arguments: Arguments, ctx: WorkerContext) -> Message | None:
        """The answer to a call in doubt; None when it surely did not happen and may be made now."""
        if tool.on_doubt == "park":
            return ToolDoubted(message.call, "its node died after it was started")
        found = await tool.ask_reconcile(arguments, message.idempotency_key, ctx.port.in_thread)
        return None if found is None else ToolAnswered(message.call, found, 0, ctx.attempt, ctx.node)

    async def _failed(
        self, message: CallTool, tool: Tool, arguments: Arguments, error: Exception, ctx: WorkerContext
    ) -> Message:
        late = _timed_out(tool, error)
        reason = f"timed out after {tool.timeout_seconds:g} s" if late else describe(error)
        repeatable = not tool.side_effect or tool.on_doubt == "retry" or tool.takes_key
        if late and not repeatable:
            # It was cut off in the middle of its effect: the same doubt as after a crash.
            return await self._reconcile(message, tool, arguments, ctx) or ToolErred(message.call, reason, ctx.attempt)
        if not repeatable or ctx.attempt >= tool.attempts:
            return ToolErred(message.call, reason, ctx.attempt)
        told = ToolErred(message.call, reason, ctx.attempt, final=False)
        wait = min(CAP_SECONDS, self.first_seconds * 2.0 ** (ctx.attempt - 1)) * (0.5 + ctx.port.random() / 2)
        raise Transient(reason, after_seconds=wait, notice=told, charge=True) from error

    def given_up(self, message: Message, error: str, ctx: WorkerContext) -> Message | None:
        return ToolErred(message.call, error, ctx.attempt) if isinstance(message, CallTool) else None


def _timed_out(tool: Tool, error: Exception) -> bool:
    return isinstance(error, TimeoutError) and tool.timeout_seconds is not None and not str(error)
