"""Spans of a test, and how they hang together: recorded in this process, or received as a collector would."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import anyio
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from callboard import Node
from callboard.actors.testing import TestKit
from callboard.service.telemetry.spans import GivenIds, OtelTracing
from tests.agent.stage import Stage


@dataclass(frozen=True)
class Seen:
    """One span, wherever it was recorded."""

    name: str
    trace: str
    id: str
    parent: str
    """Id of its parent; "" for none."""
    said: dict[str, Any]
    links: tuple[str, ...]
    """Traces that it is linked to."""
    failed: bool
    begins: int
    ends: int
    source: str = ""
    """Which node it is of, by its resource."""
    events: int = 0


@dataclass
class Spans:
    """All that were recorded."""

    all: list[Seen]
    by_id: dict[str, Seen] = field(init=False)

    def __post_init__(self) -> None:
        self.by_id = {span.id: span for span in self.all}
        assert len(self.by_id) == len(self.all), "a span was recorded twice"

    def named(self, name: str) -> list[Seen]:
        """In the order of their beginnings."""
        return sorted((span for span in self.all if span.name == name), key=lambda span: span.begins)

    def one(self, name: str) -> Seen:
        found = self.named(name)
        assert len(found) == 1, f"{len(found)} of {name}, beside {sorted({span.name for span in self.all})}"
        return found[0]

    def parent(self, span: Seen) -> str:
        """Name of its parent; "" where it has none, "?" where that was not recorded."""
        if not span.parent:
            return ""
        return self.by_id[span.parent].name if span.parent in self.by_id else "?"

    def trace(self, span: Seen) -> "Spans":
        """What is in the same trace."""
        return Spans([other for other in self.all if other.trace == span.trace])


class Recorder:
    """Spans of one node in this process."""

    def __init__(self, **options: Any) -> None:
        self.exporter = InMemorySpanExporter()
        provider = TracerProvider(id_generator=GivenIds(), shutdown_on_exit=False, **options)
        provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.tracing = OtelTracing(provider)


def recorded(*recorders: Recorder) -> Spans:
    """What the nodes have recorded so far."""
    return Spans([_seen(span) for one in recorders for span in one.exporter.get_finished_spans()])


def _seen(span: ReadableSpan) -> Seen:
    assert span.context is not None and span.start_time is not None and span.end_time is not None
    return Seen(
        span.name,
        f"{span.context.trace_id:032x}",
        f"{span.context.span_id:016x}",
        f"{span.parent.span_id:016x}" if span.parent else "",
        dict(span.attributes or {}),
        tuple(f"{link.context.trace_id:032x}" for link in span.links),
        not span.status.is_ok,
        span.start_time,
        span.end_time,
        events=len(span.events),
    )


async def add_traced(stage: Stage, recorder: Recorder) -> Node:
    """A node of a stage whose spans are recorded."""
    assert stage._group is not None
    runtime = stage.runtime
    node = Node(stage.store, runtime.tree, stage.port, runtime.settings, tracing=recorder.tracing)
    stage._scopes[node] = anyio.CancelScope()
    stage.nodes.append(node)
    stage._group.start_soon(stage._host, node)
    await stage.settle()
    return node


class Collector:
    """A collector: takes spans as OTLP over HTTP, in threads of its own."""

    def __init__(self) -> None:
        self._requests: list[bytes] = []
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                if self.headers.get("content-encoding") == "gzip":
                    raise AssertionError("nobody asked for that")
                collector._requests.append(body)
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, format: str, *arguments: object) -> None:
                return

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.endpoint = f"http://127.0.0.1:{self.server.server_port}"

    @classmethod
    @contextmanager
    def open(cls) -> Iterator["Collector"]:
        collector = cls()
        thread = threading.Thread(target=collector.server.serve_forever, daemon=True)
        thread.start()
        try:
            yield collector
        finally:
            collector.server.shutdown()
            collector.server.server_close()
            thread.join()

    def raw(self) -> bytes:
        """Every byte that was sent here."""
        return b"".join(self._requests)

    def spans(self) -> Spans:
        return Spans([span for body in list(self._requests) for span in _received(body)])


def _received(body: bytes) -> Iterator[Seen]:
    request = ExportTraceServiceRequest.FromString(body)
    for group in request.resource_spans:
        source = {a.key: _value(a.value) for a in group.resource.attributes}
        for scope in group.scope_spans:
            for span in scope.spans:
                yield Seen(
                    span.name,
                    span.trace_id.hex(),
                    span.span_id.hex(),
                    span.parent_span_id.hex(),
                    {a.key: _value(a.value) for a in span.attributes},
                    tuple(link.trace_id.hex() for link in span.links),
                    span.status.code == 2,
                    span.start_time_unix_nano,
                    span.end_time_unix_nano,
                    source=f"{source['service.name']} {source['callboard.node']}",
                    events=len(span.events),
                )


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        items: Sequence[Any] = value.array_value.values
        return tuple(_value(item) for item in items)
    return getattr(value, kind)


async def join_traced(kit: TestKit, recorder: Recorder) -> Node:
    """A node of a kit whose spans are recorded."""
    assert kit._group is not None
    node = Node(kit.store, kit.tree, kit.port, kit.settings, tracing=recorder.tracing)
    kit.nodes.append(node)
    kit._group.start_soon(kit._run, node)
    await kit.settle()
    return node
