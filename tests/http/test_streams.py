"""Server-sent events: no gap, nothing twice, for any number of readers, slow or late."""

import json
import time
from typing import Any

import anyio
import httpx
import pytest

from callboard import InMemoryStore
from callboard.mailbox.errors import NotFound, StoreUnavailable
from callboard.persistence.operating import FeedPage
from callboard.persistence.store import Store
from callboard.service.http import streams
from callboard.service.http.feed import Hub
from tests.http.desk import Desk, Listener, served, until

pytestmark = pytest.mark.anyio


async def journal(store: Store) -> list[tuple[str, int]]:
    """Every event that is kept, read off the feed at once."""
    found: list[tuple[str, int]] = []
    cursor = ""
    while (page := await store.feed(cursor, limit=500)).events:
        found += [(one.address, one.seq) for one in page.events]
        cursor = page.cursor
    return found


def heard(listener: Listener) -> list[tuple[str, int]]:
    told = [json.loads(one["data"]) for one in listener.heard if one.get("event") != "reset"]
    return [(one["address"], one["seq"]) for one in told]


async def test_a_reader_that_is_cut_off_again_and_again_misses_nothing_and_hears_nothing_twice(real: Desk) -> None:
    secret = await real.token("ann", "read")
    await real.worked("before")
    start = (await real.store.feed(None)).cursor
    async with served(real.app) as url, anyio.create_task_group() as group:
        steady = Listener(f"{url}/v1/events", secret, start)
        group.start_soon(steady.follow)
        got: list[tuple[str, int]] = []
        last = start
        for n in range(6):
            often = Listener(f"{url}/v1/events", secret, last)
            group.start_soon(often.follow)
            run = await real.worked(f"run {n}")
            await until(lambda often=often: bool(heard(often)))  # type: ignore[misc]
            often.hang_up()
            await until(lambda often=often: often.ended)  # type: ignore[misc]
            got += heard(often)
            last = often.last
        final = Listener(f"{url}/v1/events", secret, last)
        group.start_soon(final.follow)
        # The feed tells an event only when none before it can come any more: what it has now may not be all yet.
        await until(lambda: any(e["event"] == "run.completed" and run in e["data"] for e in steady.heard))
        page = await real.store.feed(start, limit=5_000)
        wanted = [(one.address, one.seq) for one in page.events]
        await until(lambda: len(got) + len(heard(final)) >= len(wanted) and len(heard(steady)) >= len(wanted))
        final.hang_up()
        steady.hang_up()
    assert got + heard(final) == wanted
    assert heard(steady) == wanted
    assert len(set(wanted)) == len(wanted) > 20


async def test_many_readers_cost_one_look_and_types_choose(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = await desk.token("ann", "read")
    looks: list[str | None] = []
    feed = desk.store.feed

    async def counted(after: str | None, *, limit: int = 500) -> FeedPage:
        looks.append(after)
        return await feed(after, limit=limit)

    monkeypatch.setattr(desk.store, "feed", counted)
    async with served(desk.app) as url, anyio.create_task_group() as group:
        readers = [Listener(f"{url}/v1/events", secret) for _ in range(20)]
        choosy = Listener(f"{url}/v1/events?types=run.completed,tool.*", secret)
        for one in (*readers, choosy):
            group.start_soon(one.follow)
        await until(lambda: desk.app.state.hub.readers == 21)
        await until(lambda: all(one.last for one in (*readers, choosy)))  # each knows where it begins
        joined, began = len(looks), time.monotonic()
        await desk.worked("hello")
        await until(lambda: all(any(e["event"] == "run.completed" for e in one.heard) for one in (*readers, choosy)))
        assert {one["event"] for one in choosy.heard} == {"run.completed"}
        await until(lambda: len({tuple(heard(one)) for one in readers}) == 1)
        assert len(looks) - joined < 60 + 2 * (time.monotonic() - began)  # not one for each reader
        for one in (*readers, choosy):
            one.hang_up()
    assert desk.app.state.hub.readers == 0


async def test_a_run_is_followed_to_its_end_and_from_any_event_on(desk: Desk) -> None:
    secret = await desk.token("ann", "read")
    run_id = await desk.worked("close 5")
    (one,) = await desk.store.decisions(run=f"/agents/run:{run_id}")
    async with served(desk.app) as url, anyio.create_task_group() as group:
        whole = Listener(f"{url}/v1/runs/{run_id}/stream", secret)
        late = Listener(f"{url}/runs/{run_id}/stream", secret, "2")
        group.start_soon(whole.follow)
        group.start_soon(late.follow)
        await until(lambda: len(whole.heard) >= 3)
        await desk.runtime.approve(run_id, "dana")
        await desk.runtime.resume(run_id)
        await until(lambda: whole.ended and late.ended)
    events = await desk.runtime.events(run_id)
    assert one.status == "pending"
    assert [int(told["id"]) for told in whole.heard] == [event.seq for event in events]
    assert [int(told["id"]) for told in late.heard] == [event.seq for event in events if event.seq > 2]
    assert whole.heard[-1]["event"] == "run.completed"


async def test_a_cursor_that_is_too_old_is_told_with_a_reset_and_it_goes_on_from_now(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = await desk.token("ann", "read")
    await desk.worked("before")
    old = (await desk.store.feed("")).cursors[0]
    feed = desk.store.feed

    async def pruned(after: str | None, *, limit: int = 500) -> FeedPage:
        if after == old:
            raise NotFound("the event of this cursor is not kept any more")
        return await feed(after, limit=limit)

    monkeypatch.setattr(desk.store, "feed", pruned)
    async with served(desk.app) as url, anyio.create_task_group() as group:
        reader = Listener(f"{url}/v1/events", secret, old)
        group.start_soon(reader.follow)
        await until(lambda: bool(reader.heard))
        assert reader.heard[0]["event"] == "reset"
        assert reader.last and reader.last != old
        await desk.worked("after")
        await until(lambda: reader.heard[-1]["event"] == "run.completed")
        reader.hang_up()


async def test_silence_is_broken_by_keepalives_that_carry_the_place(desk: Desk) -> None:
    desk.app.state.streams.keepalive_seconds = 0.05
    secret = await desk.token("ann", "read")
    async with served(desk.app) as url, anyio.create_task_group() as group:
        reader = Listener(f"{url}/v1/events?types=nothing", secret)
        group.start_soon(reader.follow)
        await until(lambda: reader.comments.count("keepalive") >= 2)
        before = reader.last
        assert before
        await desk.worked("hello")  # of which it hears nothing
        await until(lambda: reader.last != before)
        assert reader.heard == []
        reader.hang_up()


async def test_a_stream_ends_soon_after_its_token_is_revoked_however_much_is_said(desk: Desk) -> None:
    from callboard.service.operations.principal import terminal_principal
    from callboard.service.operations.runs import Operations
    from callboard.service.operations.tokens import Tokens

    desk.app.state.streams.keepalive_seconds = 0.05
    desk.app.state.credentials.memory_seconds = 0.05
    secret = await desk.token("ann", "read")
    async with served(desk.app) as url, anyio.create_task_group() as group:
        reader = Listener(f"{url}/v1/events", secret)
        group.start_soon(reader.follow)
        await until(lambda: bool(reader.comments))
        await Tokens(Operations(desk.store, terminal_principal("root"))).revoke("ann")
        await until(lambda: reader.ended)


async def test_a_server_that_ends_ends_its_streams_at_once(desk: Desk) -> None:
    secret = await desk.token("ann", "read")
    run_id = await desk.worked("close 5")
    async with anyio.create_task_group() as group:
        async with served(desk.app) as url:
            readers = [Listener(f"{url}{path}", secret) for path in ("/v1/events", f"/v1/runs/{run_id}/stream")]
            for one in readers:
                group.start_soon(one.follow)
            await until(lambda: all(one.comments for one in readers))
        await until(lambda: all(one.ended for one in readers))


async def test_there_are_so_many_streams_and_no_more(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "MAX_STREAMS", 2)
    secret = await desk.token("ann", "read")
    bearer = {"Authorization": f"Bearer {secret}"}
    async with served(desk.app) as url, anyio.create_task_group() as group:
        readers = [Listener(f"{url}/v1/events", secret) for _ in range(2)]
        for one in readers:
            group.start_soon(one.follow)
        await until(lambda: desk.app.state.streams.open == 2)
        async with httpx.AsyncClient(timeout=60) as http:
            refused = await http.get(f"{url}/v1/events", headers=bearer)
            assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")
            assert refused.json()["type"] == "urn:callboard:problem:too-many-streams"
        for one in readers:
            one.hang_up()
        await until(lambda: desk.app.state.streams.open == 0)


async def test_a_database_that_is_away_is_silence_and_the_stream_goes_on_with_no_gap(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("callboard.service.http.feed.FAILED_SECONDS", 0.05)
    secret = await desk.token("ann", "read")
    async with served(desk.app) as url, anyio.create_task_group() as group:
        reader = Listener(f"{url}/v1/events", secret)
        group.start_soon(reader.follow)
        await until(lambda: desk.app.state.hub.begun and bool(reader.comments))
        failed: list[str | None] = []

        async def away(after: str | None, *, limit: int = 500) -> FeedPage:
            failed.append(after)
            raise StoreUnavailable("gone")

        with monkeypatch.context() as patch:
            patch.setattr(desk.store, "feed", away)
            await desk.worked("meanwhile")
            await until(lambda: len(failed) >= 2)
        await until(lambda: bool(reader.heard) and reader.heard[-1]["event"] == "run.completed")
        reader.hang_up()
    assert heard(reader) == await journal(desk.store)


@pytest.mark.parametrize(
    ("query", "headers"),
    [
        ("types=a*b", {}),
        ("types=" + ",".join("x" * 3 for _ in range(60)), {}),
        ("after=%21%21", {}),
        ("", {"Last-Event-ID": "no cursor"}),
    ],
)
async def test_what_no_stream_can_be_is_refused_before_it_begins(desk: Desk, query: str, headers: Any) -> None:
    async with desk.caller(await desk.token("ann", "read")) as ann:
        answer = await ann.http.get(f"/v1/events?{query}", headers=headers)
        assert answer.status_code == 422, answer.text


async def test_a_reader_that_fell_behind_the_ring_reads_on_from_its_own_place() -> None:
    store = InMemoryStore()
    desk = Desk(store)
    hub = Hub(store, ring=5)
    async with hub.running(), hub.reader("") as slow, hub.reader("") as quick:
        await quick.next()
        await until(lambda: hub.begun)
        got: list[tuple[str, int]] = []
        first = await slow.next()
        for n in range(5):
            await desk.worked(f"run {n}")
            await hub.wait(5)
        wanted = await journal(store)
        await until(lambda: hub.end - 1 >= len(wanted) or hub.end >= 5)
        told = list(first)
        while len(got) < len(wanted):
            found = await slow.next()
            told += found
            got = [(one.event.address, one.event.seq) for one in told]
    assert got == wanted
