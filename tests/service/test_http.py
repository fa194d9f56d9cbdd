"""The HTTP API over a store: the seed's routes with their codes, and what it lacked."""

from collections.abc import AsyncIterator
from decimal import Decimal
from hashlib import sha256
from typing import Any

import anyio
import httpx
import pytest

from callboard import InMemoryStore, Runtime, ScriptedLLM, tool
from callboard.actors.llm.client import LLMResponse

pytest.importorskip("litestar")

from callboard.service.http import create_app

pytestmark = pytest.mark.anyio

GOAL = {"goal": "Refund order A-8891."}


@tool(side_effect=True, requires_approval=True)
async def issue_refund(order_id: str, amount: int, idempotency_key: str) -> dict[str, Any]:
    """Refund an order."""
    return {"refund": order_id, "amount": amount}


def asks(*amounts: int) -> LLMResponse:
    calls = [{"id": f"c{n}", "name": "issue_refund", "arguments": {"order_id": "A", "amount": n}} for n in amounts]
    return LLMResponse("", calls)


class Desk:
    """A store, its API, and a runtime that works on its runs when told to."""

    def __init__(self, *responses: LLMResponse, **options: Any) -> None:
        self.store = InMemoryStore()
        self.runtime = Runtime(self.store, ScriptedLLM(responses or (LLMResponse("done"),)), [issue_refund])
        app: Any = create_app(self.store, **options)
        transport = httpx.ASGITransport(app)
        self.http = httpx.AsyncClient(transport=transport, base_url="http://localhost")

    async def parked(self) -> str:
        """A run that waits for a person."""
        run_id: str = (await self.http.post("/runs", json=GOAL)).json()["run_id"]
        await self.runtime.resume(run_id)
        return run_id


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    made = Desk(asks(7), LLMResponse("done"))
    async with made.http:
        yield made


async def test_da150_create_records_without_executing_and_get_equals_its_body(desk: Desk) -> None:
    made = await desk.http.post("/runs", json=GOAL)
    assert made.status_code == 201
    body = made.json()
    assert (body["status"], body["step"], body["total_cost_usd"], body["final_answer"]) == ("running", 0, "0", None)
    assert (await desk.http.get(f"/runs/{body['run_id']}")).json() == body
    assert (await desk.http.get("/openapi.json")).json()["openapi"].startswith("3.1")


async def test_da150_defaults_of_the_app_and_limits_of_a_request_are_recorded() -> None:
    desk = Desk(default_max_steps=15, default_max_cost_usd=2, default_model="m", default_guardrail_profile="strict")
    async with desk.http:
        plain = (await desk.http.post("/runs", json=GOAL)).json()["run_id"]
        own = {**GOAL, "max_steps": 3, "max_cost_usd": "0.5", "model": "x", "system_prompt": "be kind"}
        given = (await desk.http.post("/runs", json=own)).json()["run_id"]
        kept = [await desk.runtime.state(run) for run in (plain, given)]
    assert [(one.budget.max_iterations, one.budget.max_cost_usd, one.model) for one in kept] == [
        (15, Decimal(2), "m"),
        (3, Decimal("0.5"), "x"),
    ]
    assert kept[1].system_prompt == "be kind"


INSIDE: list[dict[str, Any]] = [
    {"goal": "g" * 100_000},
    {**GOAL, "requested_by": "r" * 500},
    {**GOAL, "system_prompt": "s" * 100_000},
    {**GOAL, "model": "m" * 200},
    {**GOAL, "max_steps": 1},
    {**GOAL, "max_steps": 10_000},
    {**GOAL, "max_cost_usd": 0.01},
    {**GOAL, "max_cost_usd": 1_000_000},
    {**GOAL, "guardrail_profile": "strict"},
]
OUTSIDE: list[dict[str, Any]] = [
    {},
    {"goal": ""},
    {"goal": "   "},
    {"goal": "g" * 100_001},
    {"goal": 7},
    {"goal": "nul \x00"},
    {**GOAL, "requested_by": "r" * 501},
    {**GOAL, "system_prompt": "s" * 100_001},
    {**GOAL, "model": "m" * 201},
    {**GOAL, "max_steps": 0},
    {**GOAL, "max_steps": 10_001},
    {**GOAL, "max_cost_usd": 0},
    {**GOAL, "max_cost_usd": 1_000_001},
    {**GOAL, "max_cost_usd": "NaN"},
    {**GOAL, "guardrail_profile": "strcit"},
    {**GOAL, "max_stepz": 5},
]


@pytest.mark.parametrize("body", INSIDE, ids=lambda body: next(reversed(body)))
async def test_da151_what_is_inside_the_limits_is_recorded(desk: Desk, body: dict[str, Any]) -> None:
    assert (await desk.http.post("/runs", json=body)).status_code == 201


@pytest.mark.parametrize("body", OUTSIDE, ids=lambda body: repr(body)[:60])
async def test_da151_w37_what_is_outside_is_refused_in_words_and_nothing_is_recorded(
    desk: Desk, body: dict[str, Any]
) -> None:
    refused = await desk.http.post("/runs", json=body)
    assert refused.status_code == 422
    assert refused.headers["content-type"].startswith("application/problem+json")
    assert refused.json()["detail"]
    assert (await desk.http.get("/runs")).json() == []
    assert await desk.store.peek("/agents/run:x", limit=1) == []


async def test_da152_an_unknown_run_is_404_and_an_id_that_cannot_be_is_422(desk: Desk) -> None:
    missing = await desk.http.get("/runs/4a2f1a3e-0000-0000-0000-000000000000")
    assert (missing.status_code, missing.json()["detail"]) == (404, "run not found")
    assert (await desk.http.get(f"/runs/{'x' * 201}")).status_code == 422


async def test_da153_approvals_are_listed_within_limits(desk: Desk) -> None:
    assert (await desk.http.get("/approvals")).json() == []
    run_id = await desk.parked()
    (one,) = (await desk.http.get("/approvals?limit=1")).json()
    assert (one["run_id"], one["tool"], one["arguments"]) == (run_id, "issue_refund", {"order_id": "A", "amount": 7})
    assert one["reason"]
    shown = (await desk.http.get(f"/runs/{run_id}")).json()
    assert shown["status"] == "awaiting_approval"
    assert shown["pending_approval"]["digest"] == one["digest"]
    for limit in ("0", "1001", "x"):
        assert (await desk.http.get(f"/approvals?limit={limit}")).status_code == 422


async def test_da154_an_approval_goes_through_once_and_the_second_is_told_who_was_first(desk: Desk) -> None:
    run_id = await desk.parked()
    assert (await desk.http.post(f"/runs/{run_id}/approve", json={"approver": "dana"})).status_code == 204
    again = await desk.http.post(f"/runs/{run_id}/deny", json={"approver": "eve", "reason": "no"})
    assert again.status_code == 409
    assert "dana" in again.json()["detail"]
    assert (await desk.runtime.resume(run_id)).status == "completed"
    assert (await desk.http.get(f"/runs/{run_id}")).json()["final_answer"] == "done"
    late = await desk.http.post(f"/runs/{run_id}/approve", json={"approver": "dana"})
    assert late.status_code == 409


async def test_da154_a_denial_and_what_is_missing(desk: Desk) -> None:
    run_id = await desk.parked()
    url = f"/runs/{run_id}"
    for verb, body in (("approve", {}), ("approve", {"approver": " "}), ("deny", {"approver": "a"})):
        assert (await desk.http.post(f"{url}/{verb}", json=body)).status_code == 422
    assert (await desk.http.post("/runs/nobody/approve", json={"approver": "a"})).status_code == 404
    fresh = (await desk.http.post("/runs", json=GOAL)).json()["run_id"]
    assert (await desk.http.post(f"/runs/{fresh}/approve", json={"approver": "a"})).status_code == 409
    assert (await desk.http.post(f"{url}/deny", json={"approver": "a", "reason": "too much"})).status_code == 204
    assert (await desk.runtime.resume(run_id)).final_answer == "done"


async def test_da154_of_an_approval_and_a_denial_at_once_one_wins_thirty_times(desk: Desk) -> None:
    for _ in range(30):
        desk = Desk(asks(7), LLMResponse("done"))
        async with desk.http:
            run_id, codes = await desk.parked(), list[int]()

            async def decide(verb: str, body: dict[str, str]) -> None:
                codes.append((await desk.http.post(f"/runs/{run_id}/{verb}", json=body)).status_code)  # noqa: B023

            async with anyio.create_task_group() as group:
                group.start_soon(decide, "approve", {"approver": "a"})
                group.start_soon(decide, "deny", {"approver": "b", "reason": "no"})
            assert sorted(codes) == [204, 409]


async def test_w23_a_stale_page_decides_nothing_it_did_not_show() -> None:
    desk = Desk(asks(1, 2), LLMResponse("done"))
    async with desk.http:
        run_id = await desk.parked()
        first, second = (await desk.http.get("/approvals")).json()
        url = f"/runs/{run_id}/approve"
        vague = await desk.http.post(url, json={"approver": "a"})
        assert vague.status_code == 409
        assert "2 decisions" in vague.json()["detail"]
        wrong = {"approver": "a", "call": int(second["call"]), "digest": first["digest"]}
        assert (await desk.http.post(url, json=wrong)).status_code == 409
        right = {"approver": "a", "call": int(first["call"]), "digest": first["digest"]}
        assert (await desk.http.post(url, json=right)).status_code == 204
        assert (await desk.http.post(url, json=right)).status_code == 409


async def test_w37_list_events_tell_cancel_and_a_repeated_request(desk: Desk) -> None:
    key = {"Idempotency-Key": "order-1"}
    one, two = [(await desk.http.post("/runs", json=GOAL, headers=key)).json() for _ in range(2)]
    assert one["run_id"] == two["run_id"]
    other = await desk.http.post("/runs", json={"goal": "another"}, headers=key)
    assert other.status_code == 409
    run_id = one["run_id"]
    await desk.runtime.resume(run_id)
    assert (await desk.http.post(f"/runs/{run_id}/tell", json={"text": "hurry"})).status_code == 204
    assert [run["run_id"] for run in (await desk.http.get("/runs")).json()] == [run_id]
    events = (await desk.http.get(f"/runs/{run_id}/events")).json()
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert events[0]["goal"] == GOAL["goal"]
    assert (await desk.http.post(f"/runs/{run_id}/cancel", json={"reason": "enough"})).status_code == 204
    assert (await desk.runtime.resume(run_id)).status == "cancelled"


async def test_w37_a_run_is_streamed_until_it_ends_and_from_where_one_was_cut_off(desk: Desk) -> None:
    run_id = await desk.parked()
    assert (await desk.http.get("/runs/nobody/stream")).status_code == 404
    bad = await desk.http.get(f"/runs/{run_id}/stream", headers={"Last-Event-ID": "x"})
    assert bad.status_code == 422
    texts: list[str] = []

    async def read() -> None:
        texts.append((await desk.http.get(f"/runs/{run_id}/stream")).text)

    async with anyio.create_task_group() as group:
        group.start_soon(read)
        await desk.runtime.approve(run_id, "dana")
        await desk.runtime.resume(run_id)
    ids = [line.removeprefix("id: ") for line in texts[0].splitlines() if line.startswith("id: ")]
    events = await desk.runtime.events(run_id)
    assert ids == [str(event.seq) for event in events]
    rest = await desk.http.get(f"/runs/{run_id}/stream", headers={"Last-Event-ID": ids[-2]})
    assert rest.text.count("id: ") == 1
    assert "event: run.completed" in rest.text


async def test_w37_health_says_whether_the_database_answers(desk: Desk) -> None:
    assert (await desk.http.get("/health")).json() == {"status": "ok"}


async def test_w24_with_tokens_nobody_else_may_call_and_the_token_says_who_decides() -> None:
    tokens = {sha256(b"s3cret").hexdigest(): "dana@example.com"}
    desk = Desk(asks(7), LLMResponse("done"), tokens=tokens)
    right = {"Authorization": "Bearer s3cret"}
    async with desk.http:
        for headers in ({}, {"Authorization": "Bearer no"}, {"Authorization": "Basic s3cret"}):
            assert (await desk.http.post("/runs", json=GOAL, headers=headers)).status_code == 401
        run_id = (await desk.http.post("/runs", json=GOAL, headers=right)).json()["run_id"]
        await desk.runtime.resume(run_id)
        body = {"approver": "somebody else"}
        assert (await desk.http.post(f"/runs/{run_id}/approve", json=body, headers=right)).status_code == 204
    (decision,) = await desk.store.decisions(run=f"/agents/run:{run_id}")
    assert decision.decided_by == "dana@example.com"


async def test_the_app_opens_its_store_when_a_server_runs_it() -> None:
    uvicorn = pytest.importorskip("uvicorn")
    server = uvicorn.Server(uvicorn.Config(create_app(InMemoryStore()), port=0, log_level="warning", ws="none"))
    async with anyio.create_task_group() as group:
        group.start_soon(server.serve)
        while not server.started:
            await anyio.lowlevel.checkpoint()
        port = server.servers[0].sockets[0].getsockname()[1]
        async with httpx.AsyncClient(timeout=60) as client:
            made = await client.post(f"http://127.0.0.1:{port}/runs", json=GOAL)
        assert made.status_code == 201
        server.should_exit = True
