"""The bad network, the small disk and the clock that jumps do what a chaos run says they do."""

import asyncio
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from callboard.bench.chaos_node import ClockFile, JumpingPort
from callboard.bench.proxy import Proxy
from callboard.bench.small_disk import SmallDisk, small_disk

pytestmark = pytest.mark.anyio
LONG_SECONDS = 30.0


class Echo:
    """A server at a Unix socket that sends back what it gets, and remembers it."""

    def __init__(self) -> None:
        self.heard = b""
        self.news = asyncio.Event()
        self.lost = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(1_000):
                self.heard += data
                self.news.set()
                writer.write(data)
        except ConnectionError:
            pass  # cut: that is what is tried
        finally:
            self.lost.set()
            writer.close()


@asynccontextmanager
async def through(folder: Path) -> AsyncIterator[tuple[Proxy, Echo, asyncio.StreamReader, asyncio.StreamWriter]]:
    echo = Echo()
    server = await asyncio.start_unix_server(echo.serve, str(folder / "s"))
    async with Proxy.open(str(folder / "s")) as proxy:
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        try:
            with anyio.fail_after(LONG_SECONDS):
                yield proxy, echo, reader, writer
        finally:
            writer.close()
            server.close()


async def test_what_is_sent_arrives_and_an_end_is_told(tmp_path: Path) -> None:
    async with through(tmp_path) as (_, echo, reader, writer):
        writer.write(b"one")
        assert await reader.readexactly(3) == b"one"
        writer.write(b"two")
        writer.close()
        await echo.lost.wait()
        assert echo.heard == b"onetwo", "what was sent before the end arrives before the end does"


async def test_cut_connections_are_lost_on_both_sides(tmp_path: Path) -> None:
    async with through(tmp_path) as (proxy, echo, reader, writer):
        writer.write(b"one")
        await reader.readexactly(3)
        assert proxy.cut() == 1
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await reader.readexactly(1)
        await echo.lost.wait()


async def test_half_open_connections_keep_what_is_sent_and_send_it_late_while_new_ones_work(tmp_path: Path) -> None:
    async with through(tmp_path) as (proxy, echo, reader, writer):
        writer.write(b"one")
        await reader.readexactly(3)
        stall = proxy.stall()
        writer.write(b"late")
        others, other = await asyncio.open_connection("127.0.0.1", proxy.port)
        other.write(b"new")
        assert await others.readexactly(3) == b"new"
        assert echo.heard == b"onenew" and not echo.lost.is_set()
        stall.over(resume=True)
        assert await reader.readexactly(4) == b"late"
        other.close()


async def test_an_end_during_a_stall_is_told_after_it_with_all_that_came_before(tmp_path: Path) -> None:
    async with through(tmp_path) as (proxy, echo, reader, writer):
        writer.write(b"one")
        await reader.readexactly(3)
        stall = proxy.stall()
        writer.write(b"last words")
        writer.close()
        await writer.wait_closed()
        assert not echo.lost.is_set() and echo.heard == b"one"
        stall.over(resume=True)
        await echo.lost.wait()
        assert echo.heard == b"onelast words"


async def test_half_open_connections_may_end_by_a_reset(tmp_path: Path) -> None:
    async with through(tmp_path) as (proxy, echo, reader, writer):
        writer.write(b"one")
        await reader.readexactly(3)
        stall = proxy.stall()
        writer.write(b"lost")
        stall.over(resume=False)
        await echo.lost.wait()
        assert echo.heard == b"one"


async def test_a_slow_network_keeps_the_order(tmp_path: Path) -> None:
    async with through(tmp_path) as (proxy, _, reader, writer):
        proxy.delay_seconds = 0.05
        began = time.monotonic()
        for number in range(5):
            writer.write(b"%d" % number)
        assert await reader.readexactly(5) == b"01234"
        assert time.monotonic() - began >= 0.1, "there and back"


async def test_where_no_server_is_a_connection_is_lost(tmp_path: Path) -> None:
    async with Proxy.open(str(tmp_path / "nobody")) as proxy:
        with anyio.fail_after(LONG_SECONDS):
            reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await reader.readexactly(1)
            writer.close()


def test_a_wall_clock_jumps_and_the_monotonic_one_does_not(tmp_path: Path) -> None:
    ours, theirs = ClockFile(tmp_path / "clock"), ClockFile(tmp_path / "clock")
    port = JumpingPort(theirs)
    assert abs(port.wall() - time.time()) < 60
    ours.ahead_seconds = -7_200.0
    assert abs(port.wall() - time.time() + 7_200) < 60
    assert abs(port.monotonic() - time.monotonic()) < 60


def test_a_small_disk_can_be_filled_and_emptied_or_says_why_not() -> None:
    with small_disk(4) as disk:
        folder = disk.folder
        if disk.why_not:
            assert "small file system" in disk.why_not
        else:
            full_and_free_again(disk)
    assert not folder.exists()


def full_and_free_again(disk: SmallDisk) -> None:
    disk.fill()
    with pytest.raises(OSError, match="No space left"):
        (disk.folder / "more").write_bytes(os.urandom(100_000))
    disk.empty()
    (disk.folder / "more").write_bytes(b"there is room again")
