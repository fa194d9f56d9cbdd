"""Two nodes share the work: every effect once, every model call once."""

import pytest

from callboard.persistence.postgres.database import Database
from callboard.persistence.postgres.invariants import breaches

from .conftest import Desk

pytestmark = pytest.mark.anyio


async def test_g1_two_nodes_two_hundred_runs_of_ten_calls_leave_exactly_two_thousand_rows(desk: Desk) -> None:
    await desk.serve()
    await desk.serve()
    await desk.until("select 1 where (select count(distinct node) from callboard.shard) = 2")
    runs = [f"r{n}" for n in range(200)]
    assert await desk.end(desk.spawn("create", "ten", *runs)) == 0
    done = "select 1 where (select count(*) from callboard.actor where kind = 'run' and status = 'completed') = 200"
    await desk.until(done, seconds=100)

    assert await desk.rows("select count(*), count(distinct what) from effect") == [(2000, 2000)]
    assert await desk.rows("select count(*), count(distinct what) from model_call") == [(2200, 2200)]
    assert len(await desk.rows("select distinct pid from effect")) == 2, "both nodes worked"
    async with await Database.open(desk.dsn) as database:
        assert await breaches(database) == []


async def test_g7_a_tool_that_takes_ten_leases_runs_once(desk: Desk) -> None:
    await desk.serve(SLOW_SECONDS="10", LEASE_SECONDS="1")
    await desk.serve(SLOW_SECONDS="10", LEASE_SECONDS="1")
    await desk.end(desk.spawn("create", "slow", "s1", "s2"))
    done = "select 1 where (select count(*) from callboard.actor where kind = 'run' and status = 'completed') = 2"
    await desk.until(done, seconds=60)
    assert await desk.rows("select what, count(*) from effect group by what order by what") == [
        ("slow s1", 1),
        ("slow s2", 1),
    ]
