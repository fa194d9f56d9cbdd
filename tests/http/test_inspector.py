"""The inspector's routes: actors, mailboxes, messages, dead letters, the audit trail, health."""

from typing import Any

import pytest

from callboard.actors.agent.messages import Tell
from callboard.actors.client import Client
from callboard.service.operations import health
from tests.http.desk import POOL, Caller, Desk, eventually, problem

pytestmark = pytest.mark.anyio


async def test_actors_are_listed_by_address_in_pages_each_with_why(desk: Desk, ann: Caller) -> None:
    runs = sorted([await desk.worked(f"close {n}") for n in range(3)])
    seen: list[str] = []
    query: dict[str, Any] = {"limit": 2, "kind": "run"}
    while True:
        page = (await ann.get("/v1/actors", **query)).json()
        seen += [one["address"] for one in page["items"]]
        if page["next_cursor"] is None:
            break
        query["cursor"] = page["next_cursor"]
    assert seen == [f"{POOL}:{run}" for run in runs]
    one = (await ann.get("/v1/actor", address=seen[0])).json()
    assert one["why"]["text"] and one["status"] == "active"
    problem(await ann.get("/v1/actor", address="/nobody"), 404, "not-found")
    problem(await ann.get("/v1/actor", address="/No Such"), 422, "usage")
    assert (await ann.get("/v1/actors", stuck="true")).status_code == 200


async def test_an_actor_is_paused_resumed_and_ended_as_the_cli_does_it(desk: Desk, ann: Caller) -> None:
    run_id = await desk.worked("close 5")
    address = f"{POOL}:{run_id}"
    body = {"address": address, "reason": "looking"}
    async with desk.runtime:
        for verb, status in (("pause", "paused"), ("resume", "active"), ("cancel", "cancelled")):
            answer = await ann.post(f"/v1/actor/{verb}", body)
            assert (answer.status_code, answer.json()) == (202, {"address": address, "accepted": f"{verb}-asked"})
            await _becomes(desk, address, status)
    problem(await ann.post("/v1/actor/resume", body), 409, "conflict")
    problem(await ann.post("/v1/actor/kill", {"address": "/nobody"}), 404, "not-found")
    rows = await desk.store.audit(object=address, who="ann")
    assert [row.action for row in rows] == ["cancel", "resume", "pause"]
    assert {row.channel for row in rows} == {"http"}


async def _becomes(desk: Desk, address: str, status: str) -> None:
    async def has() -> bool:
        row = await desk.store.actor(address)
        return row is not None and row.status == status

    await eventually(has)


async def test_mailboxes_and_messages_are_looked_at_and_nothing_changes(real: Desk) -> None:
    async with real.caller(await real.token("ann")) as ann:
        run_id = (await ann.post("/v1/runs", {"goal": "a secret plan"})).json()["run_id"]
        address = f"{POOL}:{run_id}"
        (box,) = (await ann.get("/v1/mailboxes")).json()["items"]
        assert (box["address"], box["depth"]) == (address, 1)
        for _ in range(2):
            view = (await ann.get("/v1/mailbox", address=address)).json()
            (message,) = view["messages"]
            assert (message["type"], message["state"], message["attempt"]) == ("run.start", "ready", 1)
        assert isinstance(message["id"], str) and message["why"]["text"]
        (found,) = (await ann.get("/v1/messages", text="secret plan")).json()["items"]
        assert found["id"] == message["id"]
        one = (await ann.get(f"/v1/messages/{message['id']}")).json()
        assert one["body"]["value"]["goal"] == "a secret plan"
        problem(await ann.get("/v1/messages"), 422, "usage")
        problem(await ann.get("/v1/messages/1"), 404, "not-found")
        problem(await ann.get("/v1/mailbox", address="/nobody"), 404, "not-found")


async def test_a_dead_letter_is_settled_once_and_the_second_learns_by_whom(desk: Desk, ann: Caller) -> None:
    async with desk.runtime:
        await Client(desk.store).send("/agents/clerk:1", Tell("anybody?"))
        await Client(desk.store).send("/agents/clerk:1", Tell("nobody?"))
        await _letters(desk, 2)
    page = (await ann.get("/v1/dead-letters", limit=1)).json()
    rest = (await ann.get("/v1/dead-letters", limit=1, cursor=page["next_cursor"])).json()
    (newer,), (older,) = page["items"], rest["items"]
    assert newer["number"] > older["number"] and rest["next_cursor"] is None
    shown = (await ann.get(f"/v1/dead-letters/{older['number']}")).json()
    assert shown["reason"] == older["reason"] and isinstance(shown["message_id"], str)
    url = f"/v1/dead-letters/{older['number']}"
    settled = await ann.post(f"{url}/discard", {"note": "nobody is there"})
    assert (settled.status_code, settled.json()["letter"]["settled"]) == (200, "discarded")
    assert "ann" in problem(await ann.post(f"{url}/requeue", {}), 409, "conflict")["detail"]
    again = await ann.post(f"/v1/dead-letters/{newer['number']}/requeue", {})
    assert again.status_code in (200, 409), again.text
    problem(await ann.post("/v1/dead-letters/999/discard", {}), 404, "not-found")
    listed = (await ann.get("/v1/dead-letters", all="true")).json()["items"]
    assert {one["number"] for one in listed} >= {newer["number"], older["number"]}


async def _letters(desk: Desk, count: int) -> None:
    async def there() -> bool:
        return len(await desk.store.dead_letters()) >= count

    await eventually(there)


async def test_the_audit_trail_is_read_in_pages_newest_first(desk: Desk, ann: Caller) -> None:
    runs = [(await ann.post("/v1/runs", {"goal": f"g {n}"})).json() for n in range(3)]
    first = (await ann.get("/v1/audit", action="submit", limit=2)).json()
    rest = (await ann.get("/v1/audit", action="submit", limit=2, cursor=first["next_cursor"])).json()
    assert [one["object"] for one in first["items"] + rest["items"]] == [run["address"] for run in reversed(runs)]
    assert rest["next_cursor"] is None
    one = first["items"][0]
    assert (one["who"], one["channel"], one["note"]) == ("ann", "http", "g 2") and one["at"].endswith("Z")
    assert (await ann.get("/v1/audit", object=runs[0]["run_id"])).json()["items"][0]["note"] == "g 0"


async def test_health_says_check_by_check_what_is_wrong(real: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "SLOW_SECONDS", 600.0)  # how quick the machine is is no subject
    async with real.caller(await real.token("ann", "read")) as ann:
        found = (await ann.get("/v1/health")).json()
    checks = {one["name"]: one for one in found["checks"]}
    assert checks["database"]["level"] == "ok"
    assert found["ok"] is all(one["level"] != "bad" for one in found["checks"])
    assert all(one["text"] for one in found["checks"])
