"""Spans of turns, calls and whole runs, made with OpenTelemetry's API: `actors.tracing` as it is when it is on.

A trace that begins with a message, and the span of work that is more than one turn, have ids made from that message's
id and its recipient's address. So a turn that is done again (a retry, a commit that was lost, a crash) is in the trace
that its first attempt was in, and the turns of a run name its span as their parent days before it is written.

Invariant: a span holds names, ids and counts, never what a message or an error says.
"""

import threading
import time
from hashlib import sha256
from types import TracebackType
from typing import Self

from opentelemetry import context as contexts
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.trace.sampling import Decision, Sampler
from opentelemetry.trace import Link, NonRecordingSpan, SpanContext, SpanKind, StatusCode, TraceFlags
from opentelemetry.util.types import AttributeValue

from ...actors.tracing import Attributes, Ended, Span, Work
from ...mailbox.envelope import Envelope, traceparent_of, valid_traceparent

NOWHERE = Context()
"""A span that is begun in it has no parent."""
SAMPLED = TraceFlags.SAMPLED


class GivenIds(RandomIdGenerator):
    """Random ids, but for a span whose ids are known before it is begun."""

    def __init__(self) -> None:
        self._given = threading.local()

    def give(self, trace_id: int, span_id: int = 0) -> None:
        """Ids of the next span of this thread; 0: a random one."""
        self._given.trace_id, self._given.span_id = trace_id, span_id

    def generate_trace_id(self) -> int:
        given: int = getattr(self._given, "trace_id", 0)
        self._given.trace_id = 0
        return given or super().generate_trace_id()

    def generate_span_id(self) -> int:
        given: int = getattr(self._given, "span_id", 0)
        # Also the trace's, which a span that has a parent does not ask for.
        self._given.trace_id = self._given.span_id = 0
        return given or super().generate_span_id()


def traceparent(context: SpanContext) -> str:
    """A span's context as W3C writes it; "" for none."""
    if not context.is_valid:
        return ""
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"


def current_traceparent() -> str:
    """The context of what runs here; "" for nothing that is traced."""
    return traceparent(trace.get_current_span().get_span_context())


def context_of(written: str) -> SpanContext | None:
    """The context that a valid traceparent says; None for ""."""
    if not written:
        return None
    flags = TraceFlags(int(written[53:55], 16))
    return SpanContext(int(written[3:35], 16), int(written[36:52], 16), is_remote=True, trace_flags=flags)


def _within(parent: SpanContext | None) -> Context:
    return NOWHERE if parent is None else trace.set_span_in_context(NonRecordingSpan(parent), NOWHERE)


class OtelTracing:
    """Spans for one provider. Its ids have to be `GivenIds`."""

    on = True

    def __init__(self, provider: TracerProvider) -> None:
        assert isinstance(provider.id_generator, GivenIds)
        self.ids = provider.id_generator
        self.sampler: Sampler = provider.sampler
        self.tracer = provider.get_tracer("callboard")

    def turn(self, envelope: Envelope, node: int) -> Span:
        """See `Tracing.turn`."""
        return _Span(self, envelope, f"turn {envelope.type}", SpanKind.CONSUMER, node)

    def call(self, envelope: Envelope, node: int, *, remote: bool) -> Span:
        """See `Tracing.call`."""
        kind = SpanKind.CLIENT if remote else SpanKind.INTERNAL
        span = _Span(self, envelope, f"call {envelope.type}", kind, node)
        span.begin()
        return span


class _Span:
    """A turn's or a call's."""

    __slots__ = (
        "_began_at",
        "_cause",
        "_closing",
        "_current",
        "_envelope",
        "_error",
        "_kind",
        "_links",
        "_name",
        "_node",
        "_over",
        "_parent",
        "_span",
        "_token",
        "_tracing",
        "traceparent",
    )

    on = True

    def __init__(self, tracing: OtelTracing, envelope: Envelope, name: str, kind: SpanKind, node: int) -> None:
        self._tracing = tracing
        self._envelope = envelope
        self._name = name
        self._kind = kind
        self._node = node
        self._began_at = time.time_ns()
        self._cause = traceparent_of(envelope)
        self._parent = context_of(self._cause)
        self._links: list[Link] = []
        self._span: trace.Span | None = None
        self._token: object = None
        self._current = False
        self._over = False
        self._error = ""
        self._closing: tuple[Work, Ended] | None = None
        self.traceparent = ""

    # --- its beginning -----------------------------------------------------------------------------------------

    def part_of(self, work: Work | None) -> Work | None:
        """See `Span.part_of`."""
        if work is None or not valid_traceparent(work.traceparent):
            work = self._opened()
        if self._cause[3:35] != work.traceparent[3:35]:
            self.link(self._cause)
        self._parent = context_of(work.traceparent)
        return work

    def link(self, traceparent: str) -> None:
        """See `Span.link`."""
        if (other := context_of(valid_traceparent(traceparent))) is not None:
            self._links.append(Link(other))

    def _opened(self) -> Work:
        """Work that begins with this message: a part of what has caused it."""
        trace_id = int(self._cause[3:35], 16) if self._cause else self._trace_id()
        span_id = _made_of(f"work {trace_id:032x} {self._envelope.recipient}", 8)
        flags = int(self._cause[53:55], 16) if self._cause else 0
        if not self._cause:
            decision = self._tracing.sampler.should_sample(NOWHERE, trace_id, self._name).decision
            flags = SAMPLED if decision is not Decision.DROP else 0
        return Work(f"00-{trace_id:032x}-{span_id:016x}-{flags:02x}", self._cause, self._began_at)

    def _trace_id(self) -> int:
        return _made_of(f"message {self._envelope.id} {self._envelope.recipient}", 16)

    def begin(self) -> None:
        """See `Span.begin`."""
        envelope, tracing = self._envelope, self._tracing
        if self._parent is None:
            tracing.ids.give(self._trace_id())
        # Few, and none that goes without saying: it is attributes that a span costs its time for.
        said: dict[str, AttributeValue] = {
            "callboard.actor": envelope.recipient if self._kind is SpanKind.CONSUMER else envelope.sender,
            "callboard.message.id": envelope.id,
            "callboard.node.number": self._node,
        }
        if envelope.failures:
            said["callboard.attempt"] = envelope.failures + 1
        if envelope.deliveries > 1:
            said["callboard.deliveries"] = envelope.deliveries
        span = self._span = tracing.tracer.start_span(
            self._name, _within(self._parent), self._kind, said, self._links, self._began_at
        )
        self.traceparent = traceparent(span.get_span_context())
        if self._current:
            self.__enter__()

    # --- while it lasts ----------------------------------------------------------------------------------------

    def name(self, name: str, attributes: Attributes) -> None:
        """See `Span.name`."""
        if self._span is not None and self._span.is_recording():
            self._span.update_name(name)
            self._span.set_attributes(attributes)

    def note(self, attributes: Attributes) -> None:
        """See `Span.note`."""
        if self._span is not None:
            self._span.set_attributes(attributes)

    def fail(self, kind: str) -> None:
        """See `Span.fail`."""
        self._error = self._error or kind

    def current(self) -> Self:
        """See `Span.current`."""
        return self

    def __enter__(self) -> Self:
        self._current = True
        if self._span is not None:
            self._token = contexts.attach(trace.set_span_in_context(self._span))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._current = False
        if self._token is not None:
            contexts.detach(self._token)  # type: ignore[arg-type]
            self._token = None

    # --- its end -----------------------------------------------------------------------------------------------

    def close(self, work: Work | None, ended: Ended) -> None:
        """See `Span.close`."""
        if work is not None and valid_traceparent(work.traceparent):
            self._closing = (work, ended)

    def end(self, outcome: str) -> None:
        """See `Span.end`."""
        if self._over:
            return
        self._over = True
        if self._span is None:
            self.begin()
        assert self._span is not None
        self._span.set_attribute("callboard.outcome", outcome)
        _say_error(self._span, self._error)
        self._span.end()
        if self._closing is not None and outcome == "done":
            self._write(*self._closing)

    def drop(self) -> None:
        """See `Span.drop`."""
        self._over = True

    def _write(self, work: Work, ended: Ended) -> None:
        """The span of work that has ended, under the ids that its turns have named all the time."""
        own, parent = context_of(work.traceparent), context_of(valid_traceparent(work.parent))
        assert own is not None
        if not own.trace_flags & SAMPLED:
            return
        self._tracing.ids.give(own.trace_id, own.span_id)
        began_at = min(int(ended.began_at * 1e9), work.began_ns or self._began_at)
        span = self._tracing.tracer.start_span(
            ended.name, _within(parent), SpanKind.INTERNAL, ended.attributes, start_time=began_at
        )
        _say_error(span, ended.error)
        span.end()


def _say_error(span: trace.Span, error: str) -> None:
    if error:
        span.set_attribute("error.type", error)
        span.set_status(StatusCode.ERROR)


def _made_of(text: str, size: int) -> int:
    """An id that is made of a text: evenly distributed, never 0."""
    return int.from_bytes(sha256(text.encode()).digest()[:size]) or 1
