"""Callers that are slow, and callers that send without end: what one of them can hold, and for how long."""

import signal
import socket
import time
from contextlib import closing
from urllib.parse import urlsplit

import anyio
import psycopg
import pytest

from callboard.persistence.rows import EventRow
from callboard.service.http import feed, patience
from callboard.service.http.feed import PAGE_BYTES, Hub, Told, fitting
from tests.http.desk import Desk, postgres_desk, served, until
from tests.http.test_command import http


def connected(url: str, head: str, *lines: str) -> socket.socket:
    """A connection on which a request has begun."""
    where = urlsplit(url)
    assert where.hostname and where.port
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    made.settimeout(120)
    try:
        made.connect((where.hostname, where.port))
        made.sendall("\r\n".join([head, "Host: localhost", *lines, "", ""]).encode())
    except OSError:
        made.close()  # the other side hung up before it had all: nobody else would close this one
        raise
    return made


def answered(connection: socket.socket) -> bytes:
    """All that comes until the other side hangs up."""
    found = b""
    while more := connection.recv(65_536):
        found += more
    return found


@pytest.mark.anyio
@pytest.mark.parametrize("length", ["Content-Length: 500", "Transfer-Encoding: chunked"])
async def test_a_body_that_does_not_arrive_is_given_up_and_its_connection_too(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, length: str
) -> None:
    monkeypatch.setattr(patience, "BODY_SECONDS", 0.2)
    secret = await desk.token("ann")
    lines = (f"Authorization: Bearer {secret}", "Content-Type: application/json", "Idempotency-Key: k", length)
    async with served(desk.app) as url:
        with closing(connected(url, "POST /v1/runs HTTP/1.1", *lines)) as slow:
            answer = await anyio.to_thread.run_sync(answered, slow)
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"urn:callboard:problem:too-slow" in answer
    assert await desk.store.audit(action="submit") == []


@pytest.mark.anyio
async def test_a_body_without_an_end_is_refused_and_nobody_goes_on_reading_it(desk: Desk) -> None:
    secret = await desk.token("ann")
    lines = (f"Authorization: Bearer {secret}", "Content-Type: application/json", "Idempotency-Key: k")

    def flood(url: str) -> bytes:
        with closing(connected(url, "POST /v1/runs HTTP/1.1", *lines, "Transfer-Encoding: chunked")) as caller:
            try:
                for _ in range(2_000):
                    caller.sendall(b"4000\r\n" + b"a" * 0x4000 + b"\r\n")
            except (BrokenPipeError, ConnectionResetError):
                return b"hung up"
            return answered(caller)

    async with served(desk.app) as url:
        assert await anyio.to_thread.run_sync(flood, url) == b"hung up"


def test_what_a_reader_is_given_at_a_time_is_bounded_and_something() -> None:
    def told(size: int) -> Told:
        return Told("", EventRow(0, "/a", 1, "t", "x" * size))

    small, large = told(PAGE_BYTES // 4), told(PAGE_BYTES * 3)
    assert fitting([]) == []
    assert fitting([large, small]) == [large]
    assert fitting([small, large]) == [small]
    assert fitting([small] * 200) == [small] * 4


@pytest.mark.anyio
async def test_large_events_reach_readers_piece_by_piece_and_all_of_them(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "PAGE_BYTES", 300)
    for n in range(3):
        await desk.worked(f"run {n}")
    wanted = (await desk.store.feed("", limit=500)).cursors
    hub = Hub(desk.store)
    async with hub.running(), hub.reader("") as late, hub.reader("") as live:
        heard: list[str] = []
        while len(heard) < len(wanted):
            given = await late.next()
            assert len(given) <= 1 or sum(len(one.event.body) for one in given) <= 300
            heard += [one.cursor for one in given]
        assert heard == wanted
        while live.cursor != wanted[-1]:
            await live.next()
        await until(lambda: hub.begun)
        await late.next()
        await desk.worked("more")
        wanted = (await desk.store.feed("", limit=500)).cursors
        while len(heard) < len(wanted):
            heard += [one.cursor for one in await late.next()]
            await hub.wait(0.1)
        assert heard == wanted


def test_a_head_is_bounded_whoever_sends_it(database: str) -> None:
    with http(database, "tests.service.desk_app:app") as (url, running):
        for lines in (["X: " + "a" * 200_000], [f"X{n}: a" for n in range(20_000)]):
            with closing(connected(url, "GET /livez HTTP/1.1")) as fine:
                assert fine.recv(12) == b"HTTP/1.1 200"
            try:
                with closing(connected(url, "GET /livez HTTP/1.1", *lines)) as large:
                    assert large.recv(12) == b"HTTP/1.1 400"
            except (BrokenPipeError, ConnectionResetError):
                pass  # hung up while it was still being sent
        running.send_signal(signal.SIGTERM)
        assert running.wait(120) == 0


def test_readers_that_take_nothing_do_not_hold_up_the_end(database: str) -> None:
    async def seed() -> str:
        async with postgres_desk(database) as desk:
            return await desk.token("reader", "read")

    secret = anyio.run(seed)
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(
            "insert into callboard.journal (shard, address, seq, type, body, at, node)"
            " select 1, '/big', n, 'tool.completed', to_json(repeat(n::text, 100000))::text, now(), 1"
            " from generate_series(1, 200) n"
        )
    with http(database, "tests.service.desk_app:app") as (url, running):
        head, bearer = "GET /v1/events?after= HTTP/1.1", f"Authorization: Bearer {secret}"
        readers = [connected(url, head, bearer) for _ in range(5)]
        for one in readers:
            assert one.recv(12) == b"HTTP/1.1 200"
        with closing(connected(url, "GET /livez HTTP/1.1")) as alive:  # it answers others all the same
            assert alive.recv(12) == b"HTTP/1.1 200"
        began = time.monotonic()
        running.send_signal(signal.SIGTERM)
        assert running.wait(120) == 0
        assert time.monotonic() - began < 33  # the bound of those that are answered is 35
        for one in readers:
            one.close()
