"""The HTTP API before somebody who may not use it, or who sends what nobody should."""

from decimal import Decimal
from hashlib import sha256
from typing import Any

import httpx
import pytest

from callboard import InMemoryStore
from callboard.actors.agent.messages import StartRun, Tell
from callboard.service.operations.money import read_amount, sums_in

pytest.importorskip("litestar")

from callboard.service.http import create_app

TOKENS = {sha256(b"t").hexdigest(): "ann"}
BEARER = {"Authorization": "Bearer t"}
JSON = {"Content-Type": "application/json"}


def client(store: InMemoryStore, **options: Any) -> httpx.AsyncClient:
    app: Any = create_app(store, **options)
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost")


@pytest.mark.parametrize("path", ["/runs", "/runs/a/approve", "/runs/a/deny", "/runs/a/tell", "/runs/a/cancel"])
@pytest.mark.anyio
async def test_w24_a_stranger_gets_401_before_anybody_reads_what_he_sent(path: str) -> None:
    async with client(InMemoryStore(), tokens=TOKENS) as http:
        for body in (b"{", b"{}", b"[" * 100_000):
            assert (await http.post(path, content=body, headers=JSON)).status_code == 401


@pytest.mark.parametrize("path", ["/runs", "/runs/a", "/runs/a/events", "/runs/a/stream", "/approvals"])
@pytest.mark.anyio
async def test_w24_a_stranger_reads_nothing(path: str) -> None:
    async with client(InMemoryStore(), tokens=TOKENS) as http:
        assert (await http.get(path)).status_code == 401


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
@pytest.mark.anyio
async def test_a_page_in_a_browser_cannot_decide_in_its_users_place(kind: str) -> None:
    async with client(InMemoryStore()) as http:
        sent = await http.post("/runs", content=b'{"goal": "pay"}', headers={"Content-Type": kind})
        assert sent.status_code == 415
        assert (await http.get("/runs")).json() == []


@pytest.mark.anyio
async def test_no_page_of_ours_runs_scripts_of_others() -> None:
    async with client(InMemoryStore()) as http:
        for path in ("/", "/swagger", "/redoc", "/elements", "/scalar", "/rapidoc"):
            assert "<script" not in (await http.get(path)).text


@pytest.mark.anyio
async def test_a_body_without_a_bottom_and_a_limit_without_a_size_are_refused_in_words() -> None:
    async with client(InMemoryStore(), tokens=TOKENS) as http:
        for body in (b"[" * 500_000, b'{"goal": "x", "max_cost_usd": "1e-999999999"}'):
            refused = await http.post("/runs", content=body, headers=JSON | BEARER)
            assert refused.status_code == 422


@pytest.mark.anyio
async def test_a_run_id_names_a_run_of_the_pool_and_nothing_else() -> None:
    async with client(InMemoryStore()) as http:
        for name in ("x:y", "%2e%2e", "a%2Fb", "%2Fagents", "a%0d%0ab", "x%00y", "%ff"):
            assert (await http.get(f"/runs/{name}")).status_code in (404, 422)


@pytest.mark.anyio
async def test_what_somebody_outside_wrote_can_be_said_to_be_so() -> None:
    store = InMemoryStore()
    async with client(store) as http:
        run = (await http.post("/runs", json={"goal": "hello", "trust": "untrusted"})).json()["run_id"]
        assert (await http.post(f"/runs/{run}/tell", json={"text": "and", "trust": "untrusted"})).status_code == 204
    found = [view.envelope.message() for view in await store.peek(f"/agents/run:{run}", limit=5)]
    assert [one.goal_trust for one in found if isinstance(one, StartRun)] == ["untrusted"]
    assert [one.trust for one in found if isinstance(one, Tell)] == ["untrusted"]


@pytest.mark.parametrize("text", ["1e-999999999", "1e999999999", "1e41"])
def test_an_amount_that_cannot_be_written_out_is_no_sum_and_breaks_no_screen(text: str) -> None:
    assert read_amount(text) is None
    assert sums_in({"amount": text, "total": "5.00"}) == sums_in({"total": "5.00"})


def test_sums_are_read_as_before() -> None:
    assert read_amount("12.50") == Decimal("12.50")
