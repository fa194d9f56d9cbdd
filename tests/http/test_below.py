"""POST /v1/actors/pause and resume: a place of the tree and all below it, as the CLI and the terminal UI do it."""

import pytest

from callboard.service.operations.principal import Principal
from callboard.service.operations.runs import Operations
from callboard.service.operations.subtree import Subtree
from tests.http.desk import POOL, Caller, Desk, eventually, problem

pytestmark = pytest.mark.anyio


async def three_runs(desk: Desk) -> list[str]:
    return [f"{POOL}:{await desk.worked(f'close {number}')}" for number in (5, 6, 7)]


async def becomes(desk: Desk, addresses: list[str], status: str) -> None:
    async def has() -> bool:
        rows = [await desk.store.actor(one) for one in addresses]
        return all(row is not None and row.status == status for row in rows)

    await eventually(has)


async def test_all_below_a_place_are_paused_and_resumed(desk: Desk, ann: Caller) -> None:
    addresses = await three_runs(desk)
    async with desk.runtime:
        answer = await ann.post("/v1/actors/pause", {"place": POOL, "reason": "month end"})
        told = {"place": POOL, "accepted": "pause-asked", "actors": 3, "complete": True}
        assert (answer.status_code, answer.json()) == (202, told)
        await becomes(desk, addresses, "paused")
        row = await desk.store.actor(addresses[0])
        assert row is not None and "ann" in row.reason and "month end" in row.reason
        answer = await ann.post("/v1/actors/resume", {"place": POOL})
        assert answer.json() == {**told, "accepted": "resume-asked"}
        await becomes(desk, addresses, "active")


async def test_a18_the_audit_row_is_the_one_that_the_cli_and_the_terminal_ui_write(desk: Desk, ann: Caller) -> None:
    await three_runs(desk)
    assert (await ann.post("/v1/actors/pause", {"place": POOL, "reason": "month end"})).status_code == 202
    await Subtree(Operations(desk.store, Principal("ann", "cli"))).pause(POOL, "month end")
    cli, http = await desk.store.audit(object=POOL, action="pause below")
    assert (cli.channel, http.channel) == ("cli", "http")
    for name in ("who", "action", "object", "before", "after", "note"):
        assert getattr(cli, name) == getattr(http, name), name
    assert (http.who, http.after, http.note) == ("ann", "3 actor(s)", "month end")


async def test_a22_the_same_key_twice_tells_them_once(desk: Desk, ann: Caller) -> None:
    await three_runs(desk)
    for _ in range(2):
        answer = await ann.post("/v1/actors/pause", {"place": POOL}, key="month-end")
        assert answer.json()["actors"] == 3
    assert len(await desk.store.audit(object=POOL)) == 1


async def test_where_there_is_nothing_or_no_place_it_says_so(desk: Desk, ann: Caller) -> None:
    await three_runs(desk)
    problem(await ann.post("/v1/actors/pause", {"place": "/nobody"}), 404, "not-found")
    problem(await ann.post("/v1/actors/pause", {"place": "nobody"}), 422, "usage")
    assert (await ann.post("/v1/actors/pause", {"place": "/"})).json()["actors"] >= 3
    async with desk.caller(await desk.token("eve", "read approve")) as eve:
        problem(await eve.post("/v1/actors/pause", {"place": POOL}), 403, "scope-missing")
