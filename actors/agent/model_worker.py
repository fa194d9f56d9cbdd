"""The model worker: one model call, from the transcript to the answer, or to a failed attempt.

Transient errors are tried again by redelivery of the same message, so a restart inherits the attempts; each failed one
is told to the run, which journals it. What an error asks for is decided in `model_errors`. The transcript of a live run
is kept here and fed with what is new, so that the thousandth call does no more work than the tenth.
"""

import logging
from collections import OrderedDict
from decimal import Decimal
from functools import partial

from ...mailbox.errors import StoreUnavailable
from ...mailbox.message import Message, decode_tagged
from ..actor import Worker, on
from ..context import WorkerContext
from ..directives import Transient, is_out_of_memory
from ..llm.client import ChatMessage, LLMClient, LLMResponse, ToolSpec, is_lost
from ..llm.provider import adopt, patience_seconds
from . import spans
from .agents import specs_for, tools_for
from .answer import recorded
from .boundary import Boundary
from .compaction import choose, summary_request
from .events import LLMCallFailed, RunForked
from .facts import profile_of_run
from .foreign import contained
from .forking import PastLost, inherit
from .messages import CallModel, ModelAnswered, ModelFailed, ModelTooLong, SummaryWritten
from .model_errors import GRACE_SECONDS, TIME_IS_UP, CutShort, Failure, after_failure, read_failure, seconds_left
from .recorded import RecordedLLM
from .rules import NO_RULES, Rules
from .streaming import Teller, told
from .text import well_formed
from .transcript import Transcript

log = logging.getLogger(__name__)

CALL_SECONDS = 600.0
"""How long one call may take; a client may give up sooner."""
FIRST_SECONDS = 0.5
"""Ceiling of the first wait; see `model_errors`."""
KEEP_TRANSCRIPTS = 1_024
KEEP_BYTES = 256 << 20
"""Of all transcripts that are kept; the one in hand is kept in any case."""
LARGE_CHARS = 32_768
"""A larger event is looked at by the guardrails in a thread: other runs do not wait for it."""
MAX_COMPACTIONS = 2
"""Of one step: one for the desk's limit, one for the model's."""
LOST_SECONDS = 0.05
"""A lost call is made anew after this time, which the run has to stop it, should its budget be spent."""


class ModelWorker(Worker, kind="model"):
    """Calls the model for runs."""

    concurrency = 128
    remote = True

    def __init__(
        self,
        llm: LLMClient,
        tools: tuple[ToolSpec, ...] = (),
        first_seconds: float = FIRST_SECONDS,
        rules: Rules = NO_RULES,
    ) -> None:
        self.rules = rules
        self.llm = llm
        self.tools = tools
        self.first_seconds = first_seconds
        self._transcripts: OrderedDict[str, tuple[Transcript, int]] = OrderedDict()
        """By run: its transcript, and what that is counted with in `_bytes`."""
        self._bytes = 0
        self._ahead: float | None = None
        """How far the store's clock is ahead of this node's monotonic one; None: no call has told yet."""

    @on
    async def call(self, message: CallModel, ctx: WorkerContext) -> Message:
        try:
            transcript, later = await self._transcript(message, ctx)
        except StoreUnavailable as error:
            raise Transient(f"the journal cannot be read: {error}", after_seconds=1.0) from error  # charged to nobody
        except PastLost as error:
            return ModelFailed(message.step, ctx.attempt, str(error), final=True)
        until = self._until(message, ctx)
        if until and seconds_left(until, ctx) <= GRACE_SECONDS:
            said = "the run's time is up"
            return ModelFailed(message.step, ctx.attempt - 1, said, final=True, kind=TIME_IS_UP, sent=False)
        llm, tools = self._model(message)
        spans.chat(ctx, llm, message)
        lost = _lost_calls(message, later, ctx)
        if lost > 0:
            self._book_lost(lost, lost * _worst_cost(llm, transcript, tools), message, ctx)
        rule = self.rules.compaction
        if rule is not None and transcript.size > rule.limit_bytes and message.summary_of is None:
            return self._too_long(message, transcript, ctx, limit=rule.limit_bytes)
        try:
            if message.summary_of is not None:
                return await self._summarise(message, transcript, llm, ctx)
            return await self._ask(message, transcript, llm, tools, ctx)
        except Exception as error:  # a user's client; `read_failure` says what it means
            if is_out_of_memory(error):
                raise  # of this process, not of the provider: the node gives way, and another one makes the call
            failure = read_failure(error, ctx.attempt, message.max_attempts)
            if is_lost(error):
                failure.kind = "timeout"
            ctx.span.fail(failure.kind or type(error).__name__)
        if (failure.retry_after_seconds or 0.0) < FIRST_SECONDS:
            failure.retry_after_seconds = None  # "in a few milliseconds", over and over, is a storm: back off as usual
        if failure.kind == "timeout" and not failure.cost_usd:
            failure.cost_usd = _worst_cost(llm, transcript, tools)
        if message.summary_of is not None and failure.final:
            return SummaryWritten(message.step, message.summary_of, message.cause, cost_usd=failure.cost_usd)
        if failure.kind == "context" and rule is not None and message.summary_of is None:
            return self._too_long(message, transcript, ctx, limit=transcript.size // 2, failure=failure)
        return after_failure(failure, message.step, self.first_seconds, ctx, until=until)

    def _model(self, message: CallModel) -> tuple[LLMClient, tuple[ToolSpec, ...]]:
        """Which model is asked, and with what tools."""
        spec = self.rules.agents.get(message.agent)
        llm = self.llm if spec is None or spec.llm is None else spec.llm
        return llm, specs_for(message.agent, self.tools, self.rules)

    async def _ask(
        self,
        message: CallModel,
        transcript: Transcript,
        llm: LLMClient,
        tools: tuple[ToolSpec, ...],
        ctx: WorkerContext,
    ) -> ModelAnswered:
        boundary = transcript.boundary
        shown = _shown(transcript.messages, boundary, llm)
        began = ctx.port.monotonic()
        answer = await self._call(message, llm, shown, tools, ctx)
        took = int((ctx.port.monotonic() - began) * 1000)
        spans.answered(ctx.span, answer)
        if answer.stop_reason in CutShort.REASONS:
            answer = CutShort.explained(answer)
        if boundary is None:
            return recorded(answer, message.step, ctx.attempt, ctx.node, took, model=llm.model_name)
        restored = boundary.restored(answer)
        return boundary.explained(recorded(restored, message.step, ctx.attempt, ctx.node, took, model=llm.model_name))

    async def _call(
        self,
        message: CallModel,
        llm: LLMClient,
        shown: tuple[ChatMessage, ...],
        tools: tuple[ToolSpec, ...],
        ctx: WorkerContext,
    ) -> LLMResponse:
        adopt(llm, ctx.port)
        limit = CALL_SECONDS + patience_seconds(llm)
        if message.until:
            limit = min(limit, seconds_left(self._until(message, ctx), ctx))
        with ctx.port.deadline(limit):
            say = self.rules.stream or ctx.whisper
            if say is None or message.summary_of is not None:
                return await contained(llm.call(shown, tools, message.system_prompt))
            teller = Teller(say, ctx.caller, message.step, ctx.attempt)
            asked = llm.stream(shown, tools, message.system_prompt, teller.hear)
            return await told(teller, asked, ctx.port)

    async def _summarise(
        self, message: CallModel, transcript: Transcript, llm: LLMClient, ctx: WorkerContext
    ) -> SummaryWritten:
        cut = message.summary_of
        assert cut is not None
        limit = self.rules.compaction.limit_bytes if self.rules.compaction is not None else transcript.size
        # Where the conversation was too long for its model, so would be half of what the desk allows.
        longest = min(limit, transcript.size // 2) if message.cause == "provider" else limit
        asked = summary_request(transcript.placed, cut, longest // 2)
        boundary = transcript.boundary
        shown = _shown(asked, boundary, llm)
        answer = await self._call(message, llm, shown, (), ctx)
        spans.answered(ctx.span, answer)
        if boundary is not None:
            answer = boundary.restored(answer)
        if answer.content.strip():
            cut = cut.with_summary(well_formed(answer.content), limit - transcript.prompt_bytes)
        return SummaryWritten(
            message.step, cut, message.cause, answer.input_tokens, answer.output_tokens, answer.cost_usd
        )

    def _too_long(
        self,
        message: CallModel,
        transcript: Transcript,
        ctx: WorkerContext,
        *,
        limit: int,
        failure: Failure | None = None,
    ) -> Message:
        """`failure`: the model's own, else it is too long for the desk."""
        rule = self.rules.compaction
        assert rule is not None
        if message.compactions < MAX_COMPACTIONS:
            cut = choose(transcript.placed, limit - transcript.prompt_bytes, rule.keep_turns)
            if cut is not None and cut.bytes_after < cut.bytes_before:
                return ModelTooLong(message.step, cut, "provider" if failure else "limit")
        said = f" ({failure.error})" if failure is not None else f" for its limit of {limit:,} bytes"
        detail = (
            f"the conversation is too long{said}: it takes about {transcript.size:,} bytes and cannot be made shorter"
        )
        return ModelFailed(message.step, ctx.attempt, detail, final=True, kind="context", sent=failure is not None)

    def given_up(self, message: Message, error: str, ctx: WorkerContext) -> Message | None:
        return ModelFailed(message.step, ctx.attempt, error, final=True) if isinstance(message, CallModel) else None

    @staticmethod
    def _book_lost(lost: int, cost: Decimal, message: CallModel, ctx: WorkerContext) -> None:
        """Tell the run of lost calls, where they may have cost something.

        Raises:
            Transient: with the notice; the call is made anew after it, should the run's budget allow it.
        """
        if cost:
            error = "its node died while the call was under way; what that may have cost is an estimate"
            told = ModelFailed(message.step, ctx.attempt - 1, error, cost_usd=cost, kind="timeout", lost=lost)
            raise Transient(error, after_seconds=LOST_SECONDS, notice=told)

    async def _transcript(self, message: CallModel, ctx: WorkerContext) -> tuple[Transcript, list[Message]]:
        """The conversation up to the event that asked for this call, and the events after it."""
        known, counted = self._transcripts.pop(ctx.caller, (None, 0))
        self._bytes -= counted
        fits = known is not None and known.seq <= message.upto
        transcript = known if known is not None and fits else Transcript(self._boundary(message, ctx))
        later: list[Message] = []
        for event in await ctx.journal(ctx.caller, transcript.seq):
            if event.seq == message.upto and ctx.envelope.deliveries == 1 and ctx.envelope.sent_by_node == ctx.node:
                self._ahead = event.at - ctx.port.monotonic()  # it was recorded just now
            if event.seq <= message.upto and transcript.take_unread(event.type):
                continue
            decoded = decode_tagged(event.type, event.body)
            if event.seq <= message.upto:
                if isinstance(decoded, RunForked):
                    await inherit(transcript, decoded, ctx.journal)
                if transcript.boundary is not None and len(event.body) > LARGE_CHARS:
                    await ctx.port.in_thread(partial(transcript.take, decoded))
                else:
                    transcript.take(decoded)
            else:
                later.append(decoded)
        if transcript.seq != message.upto:
            # Never ask about a part of the conversation: it is read again, from its beginning.
            raise Transient(f"event {message.upto} of {ctx.caller} cannot be read yet", after_seconds=1.0)
        self._keep(ctx.caller, transcript)
        return transcript, later

    def _until(self, message: CallModel, ctx: WorkerContext) -> float:
        """When the run's time is up, by this machine's wall clock; that may be wrong: the run goes by the store's."""
        if not message.until or self._ahead is None:
            return message.until
        return message.until + ctx.port.wall() - (ctx.port.monotonic() + self._ahead)

    def _boundary(self, message: CallModel, ctx: WorkerContext) -> Boundary | None:
        """What looks at the conversation, where the run's guardrails do."""
        profile = profile_of_run(message.guardrails, self.rules)
        if not profile.looks:
            return None
        tools = tools_for(message.agent, self.rules.tools, self.rules)
        monotonic, detectors = ctx.port.monotonic, self.rules.pii_detectors
        return Boundary(profile, ctx.caller, tools, detectors=detectors, monotonic=monotonic)

    def _keep(self, caller: str, transcript: Transcript) -> None:
        size = transcript.held_bytes
        self._transcripts[caller] = transcript, size
        self._bytes += size
        while len(self._transcripts) > 1 and (len(self._transcripts) > KEEP_TRANSCRIPTS or self._bytes > KEEP_BYTES):
            _, (_, counted) = self._transcripts.popitem(last=False)
            self._bytes -= counted


def _lost_calls(message: CallModel, later: list[Message], ctx: WorkerContext) -> int:
    """Earlier attempts that nobody saw the end of, as their node was gone, and that are not in the journal yet.

    An estimate on both sides. A call that was sent by a turn on another node, and is delivered for the second time now,
    was under way there, unless it still waited for its turn; one that was tried again there before is only counted
    where the daemon saw its process die.
    """
    envelope = ctx.envelope
    moved = envelope.deliveries == 2 and envelope.sent_by_node not in {0, ctx.node}
    if not moved and not envelope.losses:
        return 0
    booked = sum(event.lost for event in later if isinstance(event, LLMCallFailed) and event.step == message.step)
    return max(int(moved), envelope.losses) - booked


def _shown(messages: list[ChatMessage], boundary: Boundary | None, llm: LLMClient) -> tuple[ChatMessage, ...]:
    """The messages as this model sees them. A recording is made of the journal: there is nothing to hide from it."""
    protected = None if boundary is None else boundary.outgoing(messages)
    # A copy: the list is kept for the next call, whatever the client does to it.
    return tuple(messages) if protected is None or isinstance(llm, RecordedLLM) else protected


def _worst_cost(llm: LLMClient, transcript: Transcript, tools: tuple[ToolSpec, ...]) -> Decimal:
    """What a call with this conversation may have cost at most: as its client says, or the dearest one so far."""
    try:
        told = llm.worst_cost(transcript.messages, tools, transcript.system_prompt)
    except Exception:
        log.warning("the client cannot say what a call costs at most", exc_info=True)
        return transcript.dearest_usd
    return told or transcript.dearest_usd
