"""The tool worker: makes one tool call, under its one key, and says what became of it.

What a redelivered call means (the previous attempt's node died, or was superseded):

    no start on record          it was never begun, or it is safe to repeat: call it, with the same key
    start on record             in doubt: ask `reconcile`, or a person (`ToolDoubted`); never blindly again

A tool may also want people to decide first (`NeedsApproval`): then nothing was done, and the run asks (`ToolAsks`).

The same doubt is left by an attempt that ran out of time. Tools that are safe to repeat (no side effect, or they take
the key) need no start on record, which saves a commit. Nothing but a retry that is meant leaves `call` as an exception:
the pool would repeat it, also where that does harm.
"""

import logging
from collections.abc import Mapping

from ...mailbox.errors import UsageError
from ...mailbox.message import Message, decode_tagged
from ..actor import Worker, on
from ..context import WorkerContext
from ..directives import Fatal, Park, Reject, Transient, is_out_of_memory
from . import spans
from .arguments import Arguments, InvalidArguments
from .digest import call_digest, decision_id
from .events import Finding, ToolAsked
from .faults import NeedsApproval, NotBegun, is_permanent, retry_after_seconds
from .foreign import Threads, contained
from .forking import last_turn
from .messages import CallChecked, CallTool, CheckCall, ToolAnswered, ToolAsks, ToolDoubted, ToolErred
from .policy import MAX_NEEDED
from .result import text_of
from .rules import NO_RULES, Rules
from .text import error_line, row_text
from .tool import Tool

log = logging.getLogger(__name__)

FIRST_SECONDS = 1.0
RECONCILE_SECONDS = 60.0
"""How long `reconcile` may take where the tool has no timeout."""


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

    def __init__(
        self, tools: Mapping[str, Tool], first_seconds: float = FIRST_SECONDS, rules: Rules = NO_RULES
    ) -> None:
        self.tools = tools
        self.first_seconds = first_seconds
        self.rules = rules

    @on
    async def check(self, message: CheckCall, ctx: WorkerContext) -> Message:
        """What the tool's checks find. No attempt at the call: it is counted nowhere and has no effect of its own."""
        spans.checks(ctx, message)
        checked = self._checked(message)
        if isinstance(checked, str):
            findings = [Finding("arguments", False, checked)]
        else:
            findings = await self.tools[message.tool].run_checks(checked, ctx.port.in_thread, ctx.port.deadline)
        return CallChecked(message.decision, message.call, findings, message.at_release)

    def records_start(self, message: Message) -> bool:
        tool = self.tools.get(message.tool) if isinstance(message, CallTool) else None
        return tool is not None and _doubtful(tool)

    @on
    async def call(self, message: CallTool, ctx: WorkerContext) -> Message:
        spans.tool(ctx, message)
        outcome = await self._called(message, ctx)
        spans.tool_ended(ctx.span, outcome)
        return outcome

    async def _called(self, message: CallTool, ctx: WorkerContext) -> Message:
        tool = self.tools.get(message.tool)
        checked = self._checked(message)
        if ctx.in_doubt and (tool is None or _doubtful(tool)):
            # First of all: whatever is wrong with the call now, it may have happened then.
            why = "its node died after it was started"
            if tool is None or isinstance(checked, str):
                return ToolDoubted(message.call, f"{why}; now: {checked}")
            known = await self._reconcile(message, tool, checked, ctx, why)
            if known is not None:
                return known
        if tool is None or isinstance(checked, str):
            return ToolErred(message.call, str(checked), ctx.attempt)
        return await self._attempt(message, tool, checked, ctx)

    def _checked(self, message: CallTool | CheckCall) -> Arguments | str:
        """The arguments, or why the call cannot be made."""
        tool = self.tools.get(message.tool)
        if tool is None:
            return f"unknown tool: {message.tool}"
        try:
            arguments = tool.validate(message.arguments)
        except InvalidArguments as error:
            return f"invalid arguments: {error.problem}"
        if isinstance(message, CallTool) and message.digest and not self._approved(message, tool, arguments):
            # What was approved is not what would run now: another version of the tool, or other arguments.
            return "superseded: the tool has changed since this call was approved"
        return arguments

    @staticmethod
    def _approved(message: CallTool, tool: Tool, arguments: Arguments) -> bool:
        digest = call_digest(decision_id(message.run_id, message.call), tool.name, tool.version, arguments.canonical)
        return digest == message.digest

    async def _attempt(self, message: CallTool, tool: Tool, arguments: Arguments, ctx: WorkerContext) -> Message:
        began = ctx.port.monotonic()
        seconds = tool.timeout_seconds if tool.timeout_seconds is not None else self.rules.tool_seconds
        late, threads = False, Threads(ctx.port.in_thread)
        try:
            with ctx.port.deadline(None if tool.never_waits else seconds) as scope:
                try:
                    called = tool.call(arguments, message.idempotency_key, threads, message.approval)
                    result = await contained(called)
                finally:
                    late = scope is not None and scope.cancel_called
        except NeedsApproval as error:
            return await self._asks(message, error, ctx)
        except Exception as error:
            if is_out_of_memory(error) and not _doubtful(tool):
                raise  # of this process: the node gives way, and another one makes the call under the same key
            log.info("tool %s failed", tool.name, exc_info=error)
            ctx.span.fail("timeout" if late else type(error).__name__)
            # Cut off in the middle of its effect, or waiting in vain for an answer: that is the doubt of a crash.
            reason = f"timed out after {seconds or 0:g} s" if late else error_line(error)
            if late and threads.never_begun:
                error, reason = NotBegun(), f"no thread was free for it within {seconds or 0:g} s"
            unknown = (late or isinstance(error, TimeoutError)) and not isinstance(error, NotBegun)
            doubt = _doubtful(tool) and unknown
            known = await self._reconcile(message, tool, arguments, ctx, reason) if doubt else None
            return known or self._failed(message, tool, error, reason, ctx, safe=doubt)
        took = int((ctx.port.monotonic() - began) * 1000)
        return ToolAnswered(message.call, result, took, ctx.attempt, node=ctx.node)

    @staticmethod
    async def _asks(message: CallTool, error: NeedsApproval, ctx: WorkerContext) -> Message:
        """A tool wants people to decide first. It has done nothing: no attempt has failed, and there is no doubt."""
        reason = row_text(text_of(error.reason)) or f"{message.tool} asks for approval"
        if message.digest:
            said = f"{reason} ({message.tool} asks for an approval that it has; nobody is asked again)"
            return ToolErred(message.call, row_text(said), ctx.attempt)
        rows = await ctx.journal(ctx.caller)
        asked = last_turn([decode_tagged(row.type, row.body) for row in rows]).get(message.call)
        needed = error.needed if type(error.needed) is int else MAX_NEEDED
        asks = ToolAsked(reason, "medium" if error.risk == "normal" else "high", min(max(needed, 1), MAX_NEEDED))
        return ToolAsks(message.call, asks, [] if asked is None else asked.provenance)

    @staticmethod
    async def _reconcile(
        message: CallTool, tool: Tool, arguments: Arguments, ctx: WorkerContext, why: str
    ) -> Message | None:
        """The answer to a call in doubt; None when it surely did not happen and may be made now."""
        if tool.on_doubt != "reconcile":
            return ToolDoubted(message.call, why)
        try:
            with ctx.port.deadline(tool.timeout_seconds or RECONCILE_SECONDS):
                asked = tool.ask_reconcile(arguments, message.idempotency_key, ctx.port.in_thread)
                found = await contained(asked)
        except Exception as error:  # noqa: BLE001 - a user's function; without its word it is a person's to say
            return ToolDoubted(message.call, f"{why}, and reconcile failed: {error_line(error)}")
        return None if found is None else ToolAnswered(message.call, found, 0, ctx.attempt, ctx.node)

    def _failed(
        self, message: CallTool, tool: Tool, error: Exception, reason: str, ctx: WorkerContext, *, safe: bool
    ) -> Message:
        """After an attempt without effect (`safe`: that was made sure of): again, or the error to the model."""
        safe = safe or isinstance(error, NotBegun)
        repeatable = safe or not tool.side_effect or tool.on_doubt == "retry" or tool.takes_key
        hopeless = isinstance(error, Reject | Park | Fatal) or is_permanent(error, tool.retries)
        if not repeatable or hopeless or ctx.attempt >= (tool.retries.attempts or self.rules.tool_attempts):
            return ToolErred(message.call, reason, ctx.attempt)
        told = ToolErred(message.call, reason, ctx.attempt, final=False)
        wait = error.after_seconds if isinstance(error, Transient) else retry_after_seconds(error)
        if wait is None:
            first = self.first_seconds if tool.retries.first_seconds is None else tool.retries.first_seconds
            ceiling = min(tool.retries.cap_seconds, first * 2.0 ** min(ctx.attempt - 1, 16))
            wait = ceiling * (0.5 + ctx.port.random() / 2)
        # Not `from error`: a directive among its causes must not decide here.
        raise Transient(reason, after_seconds=max(0.0, wait), notice=told, charge=True) from None

    def given_up(self, message: Message, error: str, ctx: WorkerContext) -> Message | None:
        match message:
            case CallTool():
                return ToolErred(message.call, error, ctx.attempt)
            case CheckCall():
                found = [Finding("checks", False, f"no answer: {error}")]
                return CallChecked(message.decision, message.call, found, message.at_release)
        return None


def _doubtful(tool: Tool) -> bool:
    """Whether a second attempt could do harm, so that an attempt without an outcome must not be repeated blindly."""
    return tool.side_effect and tool.on_doubt != "retry"
