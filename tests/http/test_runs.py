"""Runs under /v1: record, list, look, events, speak, cancel, fork."""

from typing import Any

import pytest

from tests.http.desk import Caller, Desk, problem

pytestmark = pytest.mark.anyio


async def test_a_run_is_recorded_for_the_tokens_principal_and_executed_by_nobody_here(desk: Desk, ann: Caller) -> None:
    body = {"goal": "hi", "budget": {"iterations": 3, "cost": {"value": "0.50", "currency": "USD"}}}
    made = await ann.post("/v1/runs", body)
    assert made.status_code == 201
    run = made.json()
    assert (run["requested_by"], run["status"], run["step"]) == ("ann", "running", 0)
    assert run["budget"]["iterations"] == 3
    assert run["budget"]["cost"] == {"value": "0.50", "currency": "USD"}
    assert run["usage"]["cost"] == {"value": "0", "currency": "USD"}
    assert (await ann.get(f"/v1/runs/{run['run_id']}")).json() == run
    (row,) = await desk.store.audit(action="submit")
    assert (row.who, row.channel, row.host, row.object) == ("ann", "http", "127.0.0.1", run["address"])
    assert (await desk.runtime.resume(run["run_id"])).final_answer == "you said: hi"


REFUSED: list[dict[str, Any]] = [
    {},
    {"goal": " "},
    {"goal": "g", "goall": "x"},
    {"goal": "g", "requested_by": "mallory"},
    {"goal": "g", "guardrail_profile": "strcit"},
    {"goal": "nul \x00"},
    {"goal": "g", "budget": {"cost": {"value": 0.5, "currency": "USD"}}},
    {"goal": "g", "budget": {"cost": {"value": "0.5", "currency": "EUR"}}},
    {"goal": "g", "budget": {"cost": {"value": "0", "currency": "USD"}}},
    {"goal": "g", "budget": {"iterations": 0}},
]


@pytest.mark.parametrize("body", REFUSED, ids=lambda body: repr(body)[:60])
async def test_what_a_run_cannot_be_is_refused_in_words_and_nothing_is_recorded(ann: Caller, body: Any) -> None:
    problem(await ann.post("/v1/runs", body), 422, "usage")
    assert (await ann.get("/v1/runs")).json() == {"items": [], "next_cursor": None, "complete": True}


async def test_pages_of_runs_leave_none_out_and_give_none_twice_whatever_comes_meanwhile(
    desk: Desk, ann: Caller
) -> None:
    made = [(await ann.post("/v1/runs", {"goal": f"run {n}"})).json()["run_id"] for n in range(7)]
    seen: list[str] = []
    cursor = ""
    while True:
        page = (await ann.get("/v1/runs", limit=2, **({"cursor": cursor} if cursor else {}))).json()
        assert len(page["items"]) <= 2
        seen += [one["run_id"] for one in page["items"]]
        await ann.post("/v1/runs", {"goal": "a later one"})
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert sorted(seen) == sorted(made)
    assert len(seen) == len(set(seen))


async def test_runs_are_filtered_by_what_is_known_of_them(desk: Desk, ann: Caller) -> None:
    done = await desk.worked("hello", by="bob")
    held = await desk.worked("close 5", by="eve")

    async def found(**query: Any) -> set[str]:
        return {one["run_id"] for one in (await ann.get("/v1/runs", **query)).json()["items"]}

    assert await found() == {done, held}
    assert await found(status="completed") == {done}
    assert await found(status="awaiting_approval") == {held}
    assert await found(status="awaiting_approval", since="2100-01-01T00:00:00Z") == set()
    assert await found(requested_by="eve") == {held}
    problem(await ann.get("/v1/runs", statsu="completed"), 422, "usage")
    for wrong in ("yesterday", "0.5", "12", "2026-11-30"):
        problem(await ann.get("/v1/runs", since=wrong), 422, "usage")


@pytest.mark.parametrize("cursor", ["x", "W10", "WyJydW5zIl0", "%00", "A" * 300])
async def test_a_cursor_that_is_none_is_refused(ann: Caller, cursor: str) -> None:
    problem(await ann.get("/v1/runs", cursor=cursor), 422, "usage")


async def test_events_come_in_pages_from_any_number_on(desk: Desk, ann: Caller) -> None:
    run_id = await desk.worked("hello")
    whole = (await ann.get(f"/v1/runs/{run_id}/events", limit=200)).json()
    assert whole["next_cursor"] is None
    assert [one["seq"] for one in whole["items"]] == list(range(1, len(whole["items"]) + 1))
    assert (whole["items"][0]["type"], whole["items"][0]["event"]["goal"]) == ("run.started", "hello")
    first = (await ann.get(f"/v1/runs/{run_id}/events", limit=2)).json()
    rest = (await ann.get(f"/v1/runs/{run_id}/events", limit=200, cursor=first["next_cursor"])).json()
    assert first["items"] + rest["items"] == whole["items"]
    assert (await ann.get(f"/v1/runs/{run_id}/events", after=2, limit=200)).json()["items"] == rest["items"]
    problem(await ann.get("/v1/runs/nobody/events"), 404, "not-found")


async def test_a_run_is_told_cancelled_and_forked_and_each_is_in_the_audit_trail(desk: Desk, ann: Caller) -> None:
    run_id = await desk.worked("close 5")
    url = f"/v1/runs/{run_id}"
    told = await ann.post(f"{url}/tell", {"text": "a customer wrote this", "trust": "untrusted"})
    assert (told.status_code, told.json()) == (202, {"run_id": run_id, "accepted": "told"})
    forked = await ann.post(f"{url}/fork", {"at": 1, "say": "go on"})
    assert (forked.status_code, forked.json()["origin"]) == (201, run_id)
    assert (await ann.get(f"/v1/runs/{forked.json()['run_id']}")).json()["origin"].endswith(run_id)
    assert (await ann.post(f"{url}/cancel", {"reason": "enough"})).status_code == 202
    assert (await desk.runtime.resume(run_id)).status == "cancelled"
    problem(await ann.post(f"{url}/cancel", {}), 409, "conflict")
    problem(await ann.post(f"{url}/tell", {"text": "late"}), 409, "conflict")
    problem(await ann.post("/v1/runs/nobody/cancel", {}), 404, "not-found")
    rows = await desk.store.audit(who="ann")
    assert {row.action for row in rows} == {"tell", "fork", "cancel"}
    assert {row.channel for row in rows} == {"http"}


async def test_the_seeds_routes_write_the_audit_trail_too(desk: Desk, ann: Caller) -> None:
    run_id = (await ann.post("/runs", {"goal": "hi", "requested_by": "mallory"}, key="")).json()["run_id"]
    assert (await ann.post(f"/runs/{run_id}/tell", {"text": "more", "by": "mallory"}, key="")).status_code == 204
    assert (await ann.post(f"/runs/{run_id}/cancel", {}, key="")).status_code == 204
    rows = await desk.store.audit(object=f"/agents/run:{run_id}")
    assert {(row.action, row.who, row.channel) for row in rows} == {
        ("submit", "ann", "http"),
        ("tell", "ann", "http"),
        ("cancel", "ann", "http"),
    }
