"""The health server: what it answers, and that nobody can keep it busy."""

import socket
import threading
from collections.abc import AsyncIterator
from contextlib import suppress

import anyio
import pytest

from callboard.mailbox.errors import SettingError
from callboard.service import health_server as module
from callboard.service.health_server import Page, health_address, health_server, json_page
from callboard.service.settings import Settings

pytestmark = pytest.mark.anyio

BIG = b"x" * 3_000_000


@pytest.fixture
async def port() -> AsyncIterator[int]:
    async def fine() -> Page:
        return json_page({"ok": True}, ok=True)

    async def ill() -> Page:
        return json_page({"ok": False}, ok=False)

    async def broken() -> Page:
        raise ValueError("a bug")

    async def big() -> Page:
        return Page(BIG)

    pages = {"/fine": fine, "/ill": ill, "/broken": broken, "/big": big}
    async with health_server(("127.0.0.1", 0), pages) as url:
        yield int(url.rpartition(":")[2])


async def say(port: int, request: bytes) -> bytes:
    """All that is answered to these bytes."""

    def talk() -> bytes:
        with socket.create_connection(("127.0.0.1", port), timeout=120) as connection:
            with suppress(BrokenPipeError, ConnectionResetError):  # an answer may come before all was taken
                connection.sendall(request)
            answer = b""
            with suppress(ConnectionResetError):
                while part := connection.recv(65_536):
                    answer += part
            return answer

    return await anyio.to_thread.run_sync(talk)


def get(path: str, method: str = "GET") -> bytes:
    return f"{method} {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode()


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (get("/fine"), b"200 OK"),
        (get("/fine?verbose=1"), b"200 OK"),
        (get("/ill"), b"503 Service Unavailable"),
        (get("/broken"), b"500 Internal Server Error"),
        (get("/none"), b"404 Not Found"),
        (get("/fine", "POST"), b"405 Method Not Allowed"),
        (get("/fine", "DELETE"), b"405 Method Not Allowed"),
        (b"GET\r\n\r\n", b"400 Bad Request"),
        (b"GET http://elsewhere/ HTTP/1.1\r\n\r\n", b"400 Bad Request"),
        (b"\x16\x03\x01\x02\x00 tls \r\n\r\n", b"400 Bad Request"),
        (b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\n\r\n", b"431 Request Header Fields Too Large"),
    ],
)
async def test_every_request_has_its_answer(port: int, request_: bytes, status: bytes) -> None:
    answer = await say(port, request_)
    assert answer.startswith(b"HTTP/1.1 " + status + b"\r\n")
    assert b"Connection: close\r\n" in answer and b"a bug" not in answer


async def test_head_is_the_head_of_get(port: int) -> None:
    whole, head = await say(port, get("/fine")), await say(port, get("/fine", "HEAD"))
    assert whole.startswith(head) and head.endswith(b"\r\n\r\n") and len(whole) > len(head)


async def test_a_long_page_comes_whole(port: int) -> None:
    assert (await say(port, get("/big"))).partition(b"\r\n\r\n")[2] == BIG


async def test_who_says_nothing_is_cut_off(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CONNECTION_SECONDS", 0.2)
    assert await say(port, b"GET /fine HT") == b""


async def test_who_takes_nothing_is_cut_off(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CONNECTION_SECONDS", 0.3)
    # More than the buffers of both ends take.
    monkeypatch.setattr("tests.service.test_daemon_health_server.BIG", b"x" * 50_000_000)

    def talk() -> int:
        with socket.create_connection(("127.0.0.1", port), timeout=120) as connection:
            connection.sendall(get("/big"))
            pause, taken = threading.Event(), 0
            with suppress(ConnectionResetError):
                while part := connection.recv(1 << 16):  # all of it would take 8 s at this pace
                    taken += len(part)
                    pause.wait(0.01)
            return taken

    assert await anyio.to_thread.run_sync(talk) < 50_000_000


async def test_many_silent_connections_keep_no_probe_away(port: int) -> None:
    def come() -> None:
        for _ in range(3 * module.CONNECTIONS):
            silent.append(socket.create_connection(("127.0.0.1", port), timeout=120))
            with suppress(OSError):  # the first ones are gone before the last ones come
                silent[-1].sendall(b"GET ")

    silent: list[socket.socket] = []
    try:
        await anyio.to_thread.run_sync(come)
        for _ in range(5):
            assert b"200 OK" in await say(port, get("/fine"))
        gone = await anyio.to_thread.run_sync(_cut_off, silent)
        assert len(gone) >= 2 * module.CONNECTIONS, "there are never more of them"
        assert silent[0] in gone, "the first ones go first"
    finally:
        for connection in silent:
            connection.close()


def _cut_off(connections: list[socket.socket]) -> list[socket.socket]:
    """Those that the server has ended by now."""
    ended = []
    for connection in connections:
        connection.setblocking(False)
        with suppress(BlockingIOError):
            try:
                if not connection.recv(1):
                    ended.append(connection)
            except ConnectionResetError:
                ended.append(connection)
    return ended


@pytest.mark.parametrize("address", ["127.0.0.1:0", "localhost:0", "[::1]:0", "127.8.8.8:0"])
def test_loopback_needs_no_word(address: str) -> None:
    assert health_address(Settings(health=address)) is not None


@pytest.mark.parametrize("address", ["0.0.0.0:0", "[::]:0", "10.0.0.1:1", "example.org:1", "0:1"])
def test_any_other_address_has_to_be_meant(address: str) -> None:
    with pytest.raises(SettingError, match="health-anywhere"):
        health_address(Settings(health=address))
    assert health_address(Settings(health=address, health_anywhere=True)) is not None


def test_without_an_address_there_is_none() -> None:
    assert health_address(Settings()) is None


async def test_an_address_that_is_taken_is_a_setting_that_is_wrong(port: int) -> None:
    with pytest.raises(SettingError, match=f"cannot listen on 127.0.0.1:{port}"):
        async with health_server(("127.0.0.1", port), {}):
            pass
