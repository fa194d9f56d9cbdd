"""Tracing of a process with OpenTelemetry, where that is installed (`[otel]`) and asked for.

Asked for as in every OpenTelemetry program, by `OTEL_EXPORTER_OTLP_ENDPOINT` or `OTEL_TRACES_EXPORTER`; there are no
settings of our own for it. Else `traced` gives `OFF`, and no node does anything for it. `spans` makes the spans,
`export` sends them, and only these two import the library, when it is wanted.

Invariant: tracing never holds a node up, nor fails it. Spans are sent from a thread and dropped where the collector
does not keep up; a wrong variable is an error in the log; the last batch is waited for `FLUSH_SECONDS` and no longer.
"""

import logging
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import anyio

from ...actors.tracing import AMBIENT, OFF, Tracing
from ...persistence.port import Port

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

log = logging.getLogger(__name__)

FLUSH_SECONDS = 5.0
"""How long a process that ends waits for its last spans to be sent."""
ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")


def current_trace_id() -> str:
    """The trace that runs here, for a line of a log: 32 hexadecimal digits, or "" for none."""
    return AMBIENT.traceparent()[3:35]


def wanted(environ: Mapping[str, str]) -> str:
    """Where spans shall go: `otlp`, `console` (stderr), or "" for nowhere."""
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return ""
    exporter = environ.get("OTEL_TRACES_EXPORTER", "").strip().lower()
    if not exporter:
        return "otlp" if any(environ.get(name) for name in ENDPOINTS) else ""
    if exporter not in {"otlp", "console", "none"}:
        log.warning("OTEL_TRACES_EXPORTER: expected otlp, console or none, got %.80r; nothing is traced", exporter)
    return exporter if exporter in {"otlp", "console"} else ""


@asynccontextmanager
async def traced(label: str, port: Port, environ: Mapping[str, str] = os.environ) -> AsyncIterator[Tracing]:
    """Who records this process's spans, as its environment says; at the end the last of them are sent.

    `label`: the process's name for people.
    """
    provider = _provider(wanted(environ), label, environ)
    if provider is None:
        yield OFF
        return
    from .spans import OtelTracing, current_traceparent

    AMBIENT.traceparent = current_traceparent
    try:
        yield OtelTracing(provider)
    finally:
        AMBIENT.traceparent = str
        try:
            with anyio.CancelScope(shield=True), port.deadline(FLUSH_SECONDS):
                await port.in_thread(provider.shutdown)
        except TimeoutError:
            log.warning("the last spans could not be sent within %g s and are lost", FLUSH_SECONDS)


def _provider(where: str, label: str, environ: Mapping[str, str]) -> "TracerProvider | None":
    if not where:
        return None
    try:
        from .export import provider_to
    except ImportError as error:
        missing = error.name or error
        log.warning("OTEL_… asks for tracing and %s is not here: pip install 'callboard[otel]'", missing)
        return None
    try:
        return provider_to(where, label, environ)
    except Exception as error:  # noqa: BLE001 - whatever a variable of the SDK's is wrong in
        log.error("OTEL_… asks for tracing, which cannot begin: %s: %s", type(error).__name__, error)  # noqa: TRY400
        return None
