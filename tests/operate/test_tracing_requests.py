"""A traced program that asks for a run over HTTP: the run is in its trace."""

from collections.abc import Iterator

import httpx
import pytest

from callboard import InMemoryStore
from callboard.actors.tracing import AMBIENT
from callboard.mailbox.envelope import traceparent_of
from callboard.service.telemetry.requests import carrying
from tests.http.desk import BASE, Desk

pytestmark = pytest.mark.anyio

GOOD = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
TRACED = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}


@pytest.fixture(autouse=True)
def afterwards() -> Iterator[None]:
    yield
    AMBIENT.traceparent = str


async def _sent(traceparents: list[str], environ: dict[str, str]) -> list[str]:
    """What the runs' first messages carry that were asked for with these headers; "-" for none."""
    store = InMemoryStore()
    desk = Desk(store)
    transport = httpx.ASGITransport(carrying(desk.app, environ))
    async with store, httpx.AsyncClient(transport=transport, base_url=BASE) as http:
        for number, text in enumerate(traceparents):
            headers = {"idempotency-key": f"k{number}", **({} if text == "-" else {"traceparent": text})}
            asked = await http.post("/v1/runs", json={"goal": "hello"}, headers=headers)
            assert asked.status_code in {201, 202}, asked.text
    starts = [row.envelope for row in store.tables.messages.values() if row.envelope.type == "run.start"]
    return [traceparent_of(one) if one.headers else "" for one in sorted(starts, key=lambda one: one.id)]


async def test_what_a_request_sends_carries_its_trace_context() -> None:
    assert await _sent([GOOD, "-", GOOD.upper(), "nonsense"], TRACED) == [GOOD, "", "", ""]


async def test_a_server_that_does_not_trace_carries_nothing() -> None:
    desk = Desk(InMemoryStore())
    assert carrying(desk.app, {}) is desk.app
    assert await _sent([GOOD], {}) == [""]
