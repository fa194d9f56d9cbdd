"""DESIGN §9.11 over HTTP, on PostgreSQL: what a viewer's token opens; people are counted by name, not by token."""

import re
from collections.abc import AsyncIterator

import pytest

pytest.importorskip("litestar")

from tests.http.desk import Caller, Desk, postgres_desk, problem

pytestmark = pytest.mark.anyio
_CHANGING = {"post", "put", "patch", "delete"}


@pytest.fixture
async def desk(made: str) -> AsyncIterator[Desk]:
    async with postgres_desk(made) as desk:
        yield desk


def changes(document: dict[str, object]) -> list[tuple[str, str]]:
    """Method and path of every route that is no look."""
    paths = document["paths"]
    assert isinstance(paths, dict)
    return [(method, path) for path, item in paths.items() for method in item if method in _CHANGING]


async def test_every_route_that_changes_something_refuses_a_viewers_token(desk: Desk) -> None:
    """Found in the description of the API, so that a new route is asked too."""
    run = await desk.worked("refund 12.00")
    async with desk.caller(await desk.token("viewer", "read")) as viewer:
        found = changes((await viewer.get("/openapi.json")).json())
        assert len(found) >= 8 and any("decision" in path for _, path in found)
        approval = await viewer.approval(run)
        for method, path in found:
            where = path.replace("{run_id}", run).replace("{approval_id}", approval["id"])
            where = where.replace("{id}", approval["id"] if "approval" in path else run)
            where = re.sub(r"\{[^}]*\}", "1", where)  # numbers, and parts of addresses
            answer = await viewer.http.request(method.upper(), where, json={}, headers={"Idempotency-Key": path})
            assert answer.status_code == 403, f"{method} {where}: {answer.text}"
        assert (await viewer.approval(run))["status"] == "pending"
    assert [row.action for row in await desk.store.audit()] == ["token create"], "a refusal leaves nothing behind"


@pytest.mark.parametrize("scopes", ["read", "read operate", "read admin"])
async def test_without_the_scope_approve_nobody_decides(desk: Desk, scopes: str) -> None:
    run = await desk.worked("refund 12.00")
    async with desk.caller(await desk.token("somebody", scopes)) as caller:
        approval = await caller.approval(run)
        for decision in ("approve", "deny"):
            problem(await caller.decide(approval, decision), 403, "scope-missing")
        assert (await caller.approval(run))["status"] == "pending"


async def test_the_scope_approve_alone_submits_and_cancels_nothing(desk: Desk) -> None:
    run = await desk.worked("refund 12.00")
    async with desk.caller(await desk.token("approver", "read approve")) as caller:
        problem(await caller.post("/v1/runs", {"goal": "refund 1.00"}), 403, "scope-missing")
        problem(await caller.post(f"/v1/runs/{run}/cancel", {}), 403, "scope-missing")


async def test_an_unknown_or_a_revoked_token_opens_nothing(desk: Desk) -> None:
    await desk.token("somebody")
    for secret in ("", "cb_" + "x" * 43, "x"):
        async with desk.caller(secret) as stranger:
            problem(await stranger.get("/v1/runs"), 401, "unauthenticated")


async def asked_by(desk: Desk, caller: Caller, goal: str) -> str:
    """A run that this caller has submitted, which waits for people now."""
    made = await caller.post("/v1/runs", {"goal": goal})
    assert made.status_code in (201, 202), made.text
    run_id = str(made.json()["run_id"])
    await desk.runtime.resume(run_id)
    return run_id


async def test_who_asked_for_a_run_cannot_approve_it_by_another_token_or_under_another_label(desk: Desk) -> None:
    first = await desk.token("ann")
    second = await desk.token("anns-laptop", principal="ann")
    other = await desk.token("erik")
    async with desk.caller(first) as ann, desk.caller(second) as laptop, desk.caller(other) as erik:
        run = await asked_by(desk, ann, "close 300")
        approval = await ann.approval(run)
        assert approval["requested_by"] == "ann"
        for caller in (ann, laptop):
            refused = problem(await caller.decide(approval), 403, "not-allowed")
            assert "somebody else" in refused["detail"]
            labelled = await caller.decide(approval, label="erik")
            assert labelled.status_code in (403, 422), "a label is no name"
        assert (await ann.approval(run))["status"] == "pending"
        assert (await erik.decide(approval, reason="looked at it")).status_code == 200


async def test_two_tokens_of_one_principal_count_once(desk: Desk) -> None:
    first = await desk.token("ann")
    second = await desk.token("anns-laptop", principal="ann")
    other = await desk.token("erik")
    async with desk.caller(first) as ann, desk.caller(second) as laptop, desk.caller(other) as erik:
        run = await desk.worked("close 100")
        approval = await ann.approval(run)
        assert (await ann.decide(approval)).status_code == 200
        again = await laptop.decide(approval)
        assert again.status_code == 409, again.text
        waiting = await ann.approval(run)
        assert (waiting["status"], waiting["missing"]) == ("pending", 1)
        assert (await erik.decide(approval)).status_code == 200
        decided = (await ann.get(f"/v1/approvals/{approval['id']}")).json()
        assert decided["status"] in ("approved", "released")
        assert {one["by"] for one in decided["approved_by"]} == {"ann", "erik"}
