"""A stream of everything while journals are written at once and the database goes away: no event lost, none twice."""

import json
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import anyio
import psycopg
import pytest
from psycopg import sql

from callboard.mailbox.errors import StoreUnavailable
from callboard.persistence.store import Store
from tests.http.desk import POOL, Caller, Desk, Listener, eventually, postgres_desk, problem, served, until

pytestmark = pytest.mark.anyio


def interrupt(server_dsn: str, dsn: str, *, back: bool) -> None:
    """Cut every connection to a database, and let nobody in until it is `back`."""
    name = urlsplit(dsn).path.removeprefix("/")
    with psycopg.connect(server_dsn, autocommit=True) as connection:
        allow = sql.SQL("alter database {} allow_connections {}").format(sql.Identifier(name), sql.Literal(back))
        connection.execute(allow)
        cut = "select pg_terminate_backend(pid) from pg_stat_activity where datname = %s"
        # Again until there is none: one that was being let in just then is seen a little later.
        while connection.execute(cut, (name,)).rowcount and not back:
            pass


async def test_no_event_is_lost_or_doubled_by_a_database_that_restarts_under_load(
    server_dsn: str, dsn: str, real: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("callboard.service.http.feed.FAILED_SECONDS", 0.2)
    secret = await real.token("ann", "read operate")
    start = (await real.store.feed(None)).cursor
    done, over = 0, False

    async def work(name: str) -> None:
        # Until the database was away as often as it shall be: how many tries an absence takes is the machine's affair.
        nonlocal done
        while not over:
            try:
                await real.worked(f"{name} {done}")
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
            before = done
            await until(lambda: done > before)
            over = True
        await real.worked("the last one")
        await eventually(lambda: _is_over(real.store))
        wanted = [key async for key in _all(real.store, start)]
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


async def _all(store: Store, after: str) -> AsyncIterator[tuple[str, int]]:
    while (page := await store.feed(after)).events:
        for one in page.events:
            yield one.address, one.seq
        after = page.cursor


async def _is_over(store: Store) -> bool:
    """Whether every run has ended, those as well that nobody waited for, and the feed has the end of each."""
    runs = await store.actors(kind="run", limit=5_000)
    if await store.mailboxes(prefix=POOL) or any(row.status != "completed" for row in runs):
        return False
    told, after = 0, ""
    while (page := await store.feed(after)).events:
        told, after = told + sum(one.type == "run.completed" for one in page.events), page.cursor
    return told == len(runs)


async def _more(listener: Listener, count: int) -> bool:
    return len(listener.heard) > count
