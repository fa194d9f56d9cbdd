"""The model worker: one model call, from the transcript to the answer, or to a failed attempt.

Transient errors are tried again by redelivery of the same message, so a restart inherits the attempts; each failed one
is told to the run, which journals it. The transcript of a live run is kept here and fed with what is new, so that the
thousandth call does no more work than the tenth.
"""

import logging
from collections import OrderedDict
from decimal import Decimal

from ...mailbox.errors import StoreUnavailable
from ...mailbox.message import Message, decode_tagged
from ..actor import Worker, on
from ..context import WorkerContext
from ..directives import Transient
from ..llm.client import LLMClient, ModelError, ToolSpec, TransientModelError, classify
from .answer import recorded
from .foreign import contained
from .messages import CallModel, ModelFailed
from .text import error_line
from .transcript import Transcript

log = logging.getLogger(__name__)

CALL_SECONDS = 600.0
"""How long one call may take; a client may give up sooner."""
FIRST_SECONDS = 0.5
CAP_SECONDS = 30.0
"""Full jitter between zero and a doubling ceiling that ends here; a Retry-After wins."""
BUG_ATTEMPTS = 3
"""Attempts at most at a call whose client raises what is neither a transient nor a permanent error."""
KEEP_TRANSCRIPTS = 1_024


class ModelWorker(Worker, kind="model"):
    """Calls the model for runs."""

    concurrency = 128

    def __init__(self, llm: LLMClient, tools: tuple[ToolSpec, ...] = (), first_seconds: float = FIRST_SECONDS) -> None:
        self.llm = llm
        self.tools = tools
        self.first_seconds = first_seconds
        self._transcripts: OrderedDict[str, Transcript] = OrderedDict()

    @on
    async def call(self, message: CallModel, ctx: WorkerContext) -> Message:
        try:
            transcript = await self._transcript(message, ctx)
        except StoreUnavailable as error:
            raise Transient(f"the journal cannot be read: {error}", after_seconds=1.0) from error  # charged to nobody
        began = ctx.port.monotonic()
        try:
            with ctx.port.deadline(CALL_SECONDS):
                # A copy: the list is kept for the next call, whatever the client does to it.
                asked = self.llm.call(tuple(transcript.messages), self.tools, message.system_prompt)
                answer = await contained(asked)
            took = int((ctx.port.monotonic() - began) * 1000)
            return recorded(answer, message.step, ctx.attempt, ctx.node, took)
        except Exception as error:  # noqa: BLE001 - a user's client; `classify` says what it means
            return self._failed(message, error, ctx)

    def _failed(self, message: CallModel, error: Exception, ctx: WorkerContext) -> ModelFailed:
        kind = classify(error)
        limit = message.max_attempts
        if kind == "bug":
            log.warning("the model's client failed", exc_info=error)
            limit = min(limit or BUG_ATTEMPTS, BUG_ATTEMPTS)
        last = kind == "permanent" or 0 < limit <= ctx.attempt
        line = error_line(error)
        cost = error.cost_usd if isinstance(error, ModelError) else Decimal(0)
        told = ModelFailed(message.step, ctx.attempt, line, last, cost)
        if last:
            return told
        wait = error.retry_after_seconds if isinstance(error, TransientModelError) else None
        if wait is None:
            wait = ctx.port.random() * min(CAP_SECONDS, self.first_seconds * 2.0 ** min(ctx.attempt - 1, 16))
        # Not `from error`: a directive that the client raised must not decide here.
        raise Transient(line, after_seconds=max(0.0, wait), notice=told, charge=True) from None

    def given_up(self, message: Message, error: str, ctx: WorkerContext) -> Message | None:
        return ModelFailed(message.step, ctx.attempt, error, final=True) if isinstance(message, CallModel) else None

    async def _transcript(self, message: CallModel, ctx: WorkerContext) -> Transcript:
        """The conversation up to the event that asked for this call."""
        known = self._transcripts.pop(ctx.caller, None)
        transcript = known if known is not None and known.seq <= message.upto else Transcript()
        for event in await ctx.journal(ctx.caller, transcript.seq):
            if event.seq <= message.upto:
                transcript.feed([decode_tagged(event.type, event.body)])
        if transcript.seq != message.upto:
            # Never ask about a part of the conversation: it is read again, from its beginning.
            raise Transient(f"event {message.upto} of {ctx.caller} cannot be read yet", after_seconds=1.0)
        self._transcripts[ctx.caller] = transcript
        if len(self._transcripts) > KEEP_TRANSCRIPTS:
            self._transcripts.popitem(last=False)
        return transcript
