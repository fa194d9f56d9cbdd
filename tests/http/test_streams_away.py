"""A stream of everything while journals are written at once and the database goes away: no event lost, none twice."""

import json
from urllib.parse import urlsplit

import anyio
import psycopg
import pytest
from psycopg import sql

from callboard.mailbox.errors import StoreUnavailable
from tests.http.desk import Caller, Desk, Listener, eventually, postgres_desk, problem, served

pytestmark = pytest.mark.anyio


def interrupt(server_dsn: str, dsn: str, *, back: bool) -> None:
    """Cut every connection to a database, and let nobody in until it is `back`."""
    name = urlsplit(dsn).path.removeprefix("/")
    with psycopg.connect(server_dsn, autocommit=True) as connection:
        allow = sql.SQL("alter database {} allow_connections {}").format(sql.Identifier(name), sql.Literal(back))
        connection.execute(allow)
        connection.execute("select pg_terminate_backend(pid) from pg_stat_activity where datname = %s", (name,))


async def test_no_event_is_lost_or_doubled_by_a_database_that_restarts_under_load(
    server_dsn: str, dsn: str, real: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("callboard.service.http.feed.FAILED_SECONDS", 0.2)
    secret = await real.token("ann", "read operate")
    start = (await real.store.feed(None)).cursor
    done = 0

    async def work(name: str) -> None:
        nonlocal done
        for n in range(6):
            try:
                await real.worked(f"{name} {n}")
            except StoreUnavailable:  # the database was away; what was recorded is done all the same
                continue
            done += 1

    # The runtime is open all the time: its node outlives the database's absence, as a daemon's does.
    async with real.runtime, postgres_desk(dsn) as other, served(other.app) as url, anyio.create_task_group() as group:
        steady = Listener(f"{url}/v1/events", secret, start)
        group.start_soon(steady.follow)
        async with anyio.create_task_group() as workers:
            for name in ("a", "b", "c"):
                workers.start_soon(work, name)
            for _ in range(2):
                heard = len(steady.heard)
                await eventually(lambda heard=heard: _more(steady, heard))  # type: ignore[misc]
                await anyio.to_thread.run_sync(lambda: interrupt(server_dsn, dsn, back=False))
                async with other.caller(secret) as caller, anyio.create_task_group() as asked:
                    for method, path in (("GET", "/v1/runs"), ("GET", "/health"), ("POST", "/v1/runs")):
                        asked.start_soon(is_told_to_come_again, caller, method, path)
                await anyio.to_thread.run_sync(lambda: interrupt(server_dsn, dsn, back=True))
        assert done > 0
        await real.worked("the last one")
        wanted = [(one.address, one.seq) for one in (await real.store.feed(start, limit=5_000)).events]
        with anyio.move_on_after(60):
            await eventually(lambda: _more(steady, len(wanted) - 1))
        assert not steady.ended
        steady.hang_up()
    told_ = [json.loads(one["data"]) for one in steady.heard if one.get("event") != "reset"]
    assert [(one["address"], one["seq"]) for one in told_] == wanted
    assert len(set(wanted)) == len(wanted) > 10


async def is_told_to_come_again(caller: Caller, method: str, path: str) -> None:
    body = {"json": {"goal": "g"}, "headers": {"Idempotency-Key": "k"}} if method == "POST" else {}
    told = problem(await caller.http.request(method, path, **body), 503, "database-unavailable")  # type: ignore[arg-type]
    assert told["retry_after"] == 2
    assert (await caller.get("/livez")).status_code == 200


async def _more(listener: Listener, count: int) -> bool:
    return len(listener.heard) > count
