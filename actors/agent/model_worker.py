"""The model worker: one model call, from the transcript to the answer, or to a failed attempt.

Transient errors are tried again by redelivery of the same message, so a restart inherits the attempts; each failed one
is told to the run, which journals it. The transcript of a live run is kept here and fed with what is new, so that the
thousandth call does no more work than the tenth.
"""

from collections import OrderedDict

from ...mailbox.message import Message, decode_tagged
from ..actor import Worker, on
from ..context import WorkerContext
from ..directives import Transient
from ..llm.client import LLMClient, ToolSpec, TransientModelError, classify
from ..turn import describe
from .events import RequestedCall
from .messages import CallModel, ModelAnswered, ModelFailed
from .transcript import Transcript

FIRST_SECONDS = 0.5
CAP_SECONDS = 30.0
"""Full jitter between zero and a doubling ceiling that ends here; a Retry-After wins."""
BUG_ATTEMPTS = 3
"""Attempts at a call whose client raises something that is neither a transient nor a permanent error."""
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
        transcript = await self._transcript(message, ctx)
        began = ctx.port.monotonic()
        try:
            answer = await self.llm.call(transcript.messages, self.tools, message.system_prompt)
        except Exception as error:  # noqa: BLE001 - a user's client; `classify` says what it means
            return self._failed(message, error, ctx)
        return ModelAnswered(
            step=message.step,
            content=answer.content,
            tool_calls=[RequestedCall(c.id, c.name, c.arguments, c.problem, c.opaque) for c in answer.tool_calls],
            stop_reason=answer.stop_reason,
            input_tokens=answer.input_tokens,
            output_tokens=answer.output_tokens,
            cost_usd=answer.cost_usd,
            latency_ms=answer.latency_ms or int((ctx.port.monotonic() - began) * 1000),
            provider_request_id=answer.provider_request_id,
            attempt=ctx.attempt,
            node=ctx.node,
        )

    def _failed(self, message: CallModel, error: Exception, ctx: WorkerContext) -> ModelFailed:
        kind = classify(error)
        limit = message.max_attempts or (BUG_ATTEMPTS if kind == "bug" else 0)
        last = kind == "permanent" or (limit and ctx.attempt >= limit)
        told = ModelFailed(message.step, ctx.attempt, describe(error), final=bool(last))
        if last:
            return told
        wait = error.retry_after_seconds if isinstance(error, TransientModelError) else None
        if wait is None:
            wait = ctx.port.random() * min(CAP_SECONDS, self.first_seconds * 2.0 ** min(ctx.attempt, 16))
        raise Transient(describe(error), after_seconds=wait, notice=told, charge=True) from error

    def given_up(self, message: Message, error: str, ctx: WorkerContext) -> Message | None:
        return ModelFailed(message.step, ctx.attempt, error, final=True) if isinstance(message, CallModel) else None

    async def _transcript(self, message: CallModel, ctx: WorkerContext) -> Transcript:
        """The conversation up to the event that asked for this call."""
        known = self._transcripts.pop(ctx.caller, None)
        transcript = known if known is not None and known.seq <= message.upto else Transcript()
        for event in await ctx.journal(ctx.caller, transcript.seq):
            if event.seq <= message.upto:
                transcript.feed([decode_tagged(event.type, event.body)])
        self._transcripts[ctx.caller] = transcript
        if len(self._transcripts) > KEEP_TRANSCRIPTS:
            self._transcripts.popitem(last=False)
        return transcript
