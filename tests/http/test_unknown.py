"""Those who bring no token, and those who bring the first one: who they are taken for, and for how long."""

import anyio
import pytest

from callboard import InMemoryStore
from tests.http.desk import Desk, Listener, problem, served, until

pytestmark = pytest.mark.anyio


async def test_who_brings_the_first_token_is_who_it_says_at_once() -> None:
    desk = Desk(InMemoryStore())
    async with desk.caller() as before:
        assert (await before.get("/v1/runs")).status_code == 200  # the door knows of no token, for some seconds
        async with desk.caller(await desk.token("ci", principal="mara")) as mara:
            assert (await mara.post("/v1/runs", {"goal": "g"})).json()["requested_by"] == "mara"
        problem(await before.get("/v1/runs"), 401, "unauthenticated")  # and it has seen one now


async def test_a_token_whose_principal_is_called_anonymous_makes_nobody_else_of_its_holder() -> None:
    desk = Desk(InMemoryStore())
    run_id = await desk.worked("close 5")
    async with desk.caller(await desk.token("anonymous")) as caller:
        made = await caller.post("/runs", {"goal": "g", "requested_by": "boss"}, key="")
        assert (await caller.get(f"/v1/runs/{made.json()['run_id']}")).json()["requested_by"] == "anonymous"
        answer = await caller.post(f"/runs/{run_id}/approve", {"approver": "boss"}, key="")
        assert answer.status_code == 204
    (row,) = await desk.store.audit(action="decide")
    assert row.who == "anonymous"


async def test_a_stream_of_nobody_ends_once_there_is_a_token_and_not_before() -> None:
    desk = Desk(InMemoryStore())
    desk.app.state.streams.keepalive_seconds = 0.05
    desk.app.state.credentials.memory_seconds = 0.05
    run_id = await desk.worked("close 5")
    async with served(desk.app) as url, anyio.create_task_group() as group:
        # One that brings a word that is no token is nobody as well where none is asked for.
        readers = [Listener(f"{url}/v1/events", secret) for secret in ("", "nonsense")]
        readers.append(Listener(f"{url}/v1/runs/{run_id}/stream"))
        for one in readers:
            group.start_soon(one.follow)
        await until(lambda: all(one.comments.count("keepalive") >= 3 for one in readers))
        assert not any(one.ended for one in readers)
        await desk.token("ann")
        await until(lambda: all(one.ended for one in readers))


async def test_the_seeds_decisions_say_in_the_trail_by_which_way_and_from_where() -> None:
    desk = Desk(InMemoryStore())
    first, second = await desk.worked("close 5"), await desk.worked("close 6")
    forwarded = {"X-Forwarded-For": "203.0.113.9", "X-Real-IP": "203.0.113.9", "Forwarded": "for=203.0.113.9"}
    async with desk.caller(await desk.token("ci", principal="mara")) as mara:
        done = await mara.post(f"/runs/{first}/approve", {"approver": "boss"}, key="", **forwarded)
        assert done.status_code == 204
        done = await mara.post(f"/runs/{second}/deny", {"approver": "boss", "reason": "no"}, key="", **forwarded)
        assert done.status_code == 204
    for row in await desk.store.audit(action="decide"):
        assert (row.who, row.label, row.channel, row.host) == ("mara", "ci", "http", "127.0.0.1")


async def test_what_is_forwarded_for_somebody_changes_nobody_in_the_trail() -> None:
    desk = Desk(InMemoryStore())
    async with desk.caller(await desk.token("ann")) as ann:
        body = {"goal": "g"}
        made = await ann.post(
            "/v1/runs", body, **{"X-Forwarded-For": "203.0.113.9", "X-Forwarded-Host": "evil.example"}
        )
        assert made.status_code == 201
    (row,) = await desk.store.audit(action="submit")
    assert (row.who, row.host) == ("ann", "127.0.0.1")
