"""Approvals under /v1: bound to what was looked at; who was first; money repeated."""

from typing import Any

import anyio
import pytest

from callboard.persistence.rows import Verdict
from tests.http.desk import Caller, Desk, problem

pytestmark = pytest.mark.anyio


async def test_money_is_text_with_a_currency_and_has_to_be_repeated_in_it(desk: Desk, ann: Caller) -> None:
    run_id = await desk.worked("refund 480.00")
    one = await ann.approval(run_id)
    assert one["money"] == [{"field": "amount_eur", "value": "480.00", "currency": "EUR"}]
    url, good = f"/v1/approvals/{one['id']}/decision", {"decision": "approve", "args_digest": one["digest"]}
    wrong: list[Any] = [
        None,
        {"value": "48.00", "currency": "EUR"},
        {"value": "480.00", "currency": "USD"},
        {"value": "480.00"},
        {"value": 480.0, "currency": "EUR"},
        480.0,
        [{"value": "480.00", "currency": "EUR"}, {"value": "480.00", "currency": "EUR"}],
    ]
    for amount in wrong:
        problem(await ann.post(url, {**good, "amount": amount}), 422, "usage")
    assert (await ann.get(f"/v1/approvals/{one['id']}")).json()["status"] == "pending"
    done = await ann.post(url, {**good, "amount": {"value": "480.00", "currency": "EUR"}, "reason": "fair"})
    assert (done.status_code, done.json()["decided_by"], done.json()["note"]) == (200, "ann", "fair")
    assert (await desk.runtime.resume(run_id)).status == "completed"
    (row,) = await desk.store.audit(object=one["id"])
    assert (row.who, row.channel, row.host) == ("ann", "http", "127.0.0.1")


async def test_409_says_who_decided_and_when(desk: Desk, ann: Caller) -> None:
    run_id = await desk.worked("close 5")
    one = await ann.approval(run_id)
    first = (await ann.decide(one)).json()
    async with desk.caller(await desk.token("bob")) as bob:
        told = problem(await bob.decide(one, "deny", reason="no"), 409, "already-decided")
    assert (told["approval"], told["decided_by"], told["decided_at"]) == (one["id"], "ann", first["decided_at"])
    assert "ann" in told["detail"]


async def test_410_where_it_expired(desk: Desk, ann: Caller) -> None:
    run_id = await desk.worked("close 5")
    one = await ann.approval(run_id)
    verdict = Verdict(one["id"], "expired", one["digest"], "the clock")
    await desk.runtime.runs.client.decide(verdict)
    told = problem(await ann.decide(one), 410, "expired")
    assert told["approval"] == one["id"]


async def test_412_where_the_arguments_are_other_ones_and_nothing_is_decided(desk: Desk, ann: Caller) -> None:
    first, second = await desk.worked("close 5"), await desk.worked("close 6")
    one, other = await ann.approval(first), await ann.approval(second)
    told = problem(await ann.decide({**one, "digest": other["digest"]}), 412, "digest-differs")
    assert told["approval"] == one["id"]
    problem(await ann.decide({**one, "digest": one["digest"][:12]}), 422, "usage")
    assert (await ann.approval(first))["status"] == "pending"


async def test_403_for_the_requester_where_a_policy_wants_another_one(desk: Desk, ann: Caller) -> None:
    run_id = (await ann.post("/v1/runs", {"goal": "close 300"})).json()["run_id"]
    await desk.runtime.resume(run_id)
    one = await ann.approval(run_id)
    assert one["may_not_approve"] == ["ann"]
    problem(await ann.decide(one), 403, "not-allowed")
    async with desk.caller(await desk.token("ann-too", principal="ann")) as again:
        problem(await again.decide(one), 403, "not-allowed")  # another token, the same principal
    async with desk.caller(await desk.token("bob")) as bob:
        assert (await bob.decide(one, reason="looked at it")).json()["decided_by"] == "bob"


async def test_two_people_approve_and_the_same_one_not_twice(desk: Desk, ann: Caller) -> None:
    run_id = await desk.worked("close 100")
    one = await ann.approval(run_id)
    half = (await ann.decide(one)).json()
    assert (half["status"], half["missing"], half["approved_by"][0]["by"]) == ("pending", 1, "ann")
    told = problem(await ann.decide(one), 409, "already-decided")
    assert "decided_by" not in told
    async with desk.caller(await desk.token("bob")) as bob:
        assert (await bob.decide(one)).json()["status"] != "pending"


async def test_of_two_at_once_one_wins_and_the_other_learns_who(real: Desk) -> None:
    async with real.caller(await real.token("ann")) as ann, real.caller(await real.token("bob")) as bob:
        run_id = await real.worked("close 5")
        one = await ann.approval(run_id)
        answers = []

        async def decide(who: Caller, decision: str) -> None:
            answers.append(await who.decide(one, decision))

        async with anyio.create_task_group() as group:
            group.start_soon(decide, ann, "approve")
            group.start_soon(decide, bob, "deny")
    won, lost = sorted(answers, key=lambda answer: answer.status_code)
    assert won.status_code == 200
    assert problem(lost, 409, "already-decided")["decided_by"] == won.json()["decided_by"]


async def test_an_approval_is_taken_back_while_it_is_held_and_not_afterwards(desk: Desk, ann: Caller) -> None:
    run_id = await desk.worked("close 200")
    one = await ann.approval(run_id)
    held = (await ann.decide(one, reason="the customer called")).json()
    assert held["can_take_back"] and held["release_at"]
    back = await ann.post(f"/v1/approvals/{one['id']}/take-back", {"note": "wait"})
    assert (back.status_code, back.json()["status"], back.json()["approved_by"]) == (200, "pending", [])
    problem(await ann.post(f"/v1/approvals/{one['id']}/take-back", {}), 409, "conflict")
    problem(await ann.post("/v1/approvals/none.1/take-back", {}), 404, "not-found")


async def test_an_edit_supersedes_and_the_run_asks_anew_with_another_digest(desk: Desk, ann: Caller) -> None:
    async with desk.runtime:
        run_id = await desk.worked("refund 480.00")
        one = await ann.approval(run_id)
        url = f"/v1/approvals/{one['id']}/edit"
        problem(await ann.post(url, {"args_digest": one["digest"]}), 422, "usage")
        problem(await ann.post(url, {"args_digest": "0" * 64, "set": {"amount_eur": "40"}}), 412, "digest-differs")
        made = await ann.post(url, {"args_digest": one["digest"], "set": {"amount_eur": "40.00"}, "wait_seconds": 10})
        assert made.status_code == 200, made.text
        old, new = made.json()["superseded"], made.json()["asked"]
        assert (old["status"], new["replaces"], new["edited_by"]) == ("superseded", one["id"], ["ann"])
        assert new["money"][0]["value"] == "40.00"
        assert new["digest"] != one["digest"]
        problem(await ann.decide(one), 409, "already-decided")


async def test_approvals_are_listed_by_status_run_and_tool_in_pages(desk: Desk, ann: Caller) -> None:
    runs = [await desk.worked(f"close {n}") for n in range(5)]
    await ann.decide(await ann.approval(runs[0]))
    pending = runs[1:]
    seen: list[str] = []
    query: dict[str, Any] = {"limit": 2}
    while True:
        page = (await ann.get("/v1/approvals", **query)).json()
        seen += [one["run_id"] for one in page["items"]]
        if page["next_cursor"] is None:
            break
        query["cursor"] = page["next_cursor"]
    assert seen == pending
    assert len((await ann.get("/v1/approvals", status="any")).json()["items"]) == 5
    assert (await ann.get("/v1/approvals", tool="issue_refund")).json()["items"] == []
    problem(await ann.get("/v1/approvals", status="wrong"), 422, "usage")
    problem(await ann.get("/v1/approvals", run="nobody"), 404, "not-found")
    problem(await ann.get("/v1/approvals/none.1"), 404, "not-found")
    problem(await ann.get("/v1/approvals/%00"), 404, "not-found")
