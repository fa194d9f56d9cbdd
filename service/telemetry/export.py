"""Where spans go, and who they say they are from. What is not said here the SDK reads from `OTEL_…` by itself: the
collector's address and headers, the sampler, the size of batches and of the queue."""

import logging
import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter, SpanExporter

from .spans import GivenIds

log = logging.getLogger(__name__)

PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")


def provider_to(where: str, label: str, environ: Mapping[str, str]) -> TracerProvider:
    """What sends spans to the `console` (stderr) or by `otlp`.

    Raises:
        Exception: a variable of the SDK's that it cannot read.
    """
    provider = TracerProvider(resource=resource(label), id_generator=GivenIds(), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(_exporter(where, environ)))
    if isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        trace.set_tracer_provider(provider)  # for spans that tools, and the libraries they use, make themselves
    log.info("turns and calls are traced, to %s", "stderr" if where == "console" else "an OTLP endpoint")
    return provider


def _exporter(where: str, environ: Mapping[str, str]) -> SpanExporter:
    if where == "console":
        return ConsoleSpanExporter(out=sys.stderr)  # stdout is this process's data
    asked = next((environ[name] for name in PROTOCOLS if environ.get(name)), "http/protobuf")
    if asked != "http/protobuf":
        log.warning("OTEL_EXPORTER_OTLP_PROTOCOL is %.40r; spans are sent by http/protobuf, mostly to port 4318", asked)
    return OTLPSpanExporter()


def resource(label: str) -> Resource:
    """Who the spans are from: `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES` win."""
    mine = {
        "service.name": "callboard",
        "service.version": _version(),
        "service.instance.id": label,
        "callboard.node": label,
    }
    # Given beside the environment's, ours would win.
    return Resource.create({**mine, **OTELResourceDetector().detect().attributes})


def _version() -> str:
    try:
        return version("callboard")
    except PackageNotFoundError:
        return "unknown"
