"""A daemon with boxes on a database of its own, and how to look at both from outside."""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from callboard import PostgresStore
from callboard.actors.client import Client
from callboard.mailbox.envelope import DeadLetter
from callboard.persistence.rows import ActorRow
from tests.quarantine.boxes import BOX, Contents, Put
from tests.service.conftest import ROOT, environment, query

APP = "tests.quarantine.boxes:app"
WAIT_SECONDS = 400.0
"""More than a turn may take: what is tried one after the other may wait behind one that never ends."""
NODES = 2


class Daemon:
    """A daemon as a process, and what it has said so far."""

    def __init__(self, dsn: str, folder: Path, *arguments: str) -> None:
        command = [sys.executable, "-m", *arguments]
        self.said = (folder / "daemon.out", folder / "daemon.err")
        with self.said[0].open("w") as out, self.said[1].open("w") as err:
            self.process = subprocess.Popen(
                command, cwd=ROOT, env=environment(dsn), stdout=out, stderr=err, start_new_session=True
            )

    def pids(self) -> list[int]:
        """The node processes that were ready, in order."""
        events = [json.loads(line) for line in self.said[0].read_text().splitlines() if line.endswith("}")]
        return [event["pid"] for event in events if event["event"] == "ready"]

    def log(self) -> str:
        return self.said[1].read_text()

    def deaths(self) -> int:
        """How many node processes have ended that were not told to."""
        return self.log().count(" ended with ")

    def end(self) -> int:
        """Drain; the exit code."""
        self.process.terminate()
        return self.process.wait(timeout=WAIT_SECONDS)

    def kill(self) -> None:
        """At once; its nodes notice that and drain."""
        self.process.kill()
        self.process.wait()


def is_alive(pid: int) -> bool:
    """Whether a process runs."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def wait_until(condition: Callable[[], Any], what: str, daemon: Daemon) -> Any:
    """Wait for a condition, with patience: processes are started over and over meanwhile. What it gave."""
    pause, end = threading.Event(), time.monotonic() + WAIT_SECONDS
    while time.monotonic() < end:
        if found := condition():
            return found
        pause.wait(0.1)
    raise AssertionError(f"not within {WAIT_SECONDS:g} s: {what}; the daemon said: {daemon.log()[-8_000:]}")


class Boxes:
    """The boxes of one database, and the folder in which their handlers write down what they do."""

    def __init__(self, dsn: str, folder: Path) -> None:
        self.dsn = dsn
        self.folder = folder

    @contextmanager
    def daemon(self, *, impatient: bool = False, drain_seconds: int = 60) -> Iterator[Daemon]:
        """Keep two nodes alive; returns once they serve. `impatient`: with one whose loop stands still, too."""
        arguments = ["callboard", "daemon", APP, "--nodes", str(NODES), "--json", "--drain-seconds", str(drain_seconds)]
        arguments += ["--option", f"folder={self.folder}"]
        if impatient:
            arguments = ["tests.quarantine.short_daemon", str(self.folder)]
        daemon = Daemon(self.dsn, self.folder, *arguments)
        try:
            wait_until(lambda: len(daemon.pids()) >= NODES, "its nodes are ready", daemon)
            yield daemon
        finally:
            daemon.kill()

    def put(self, puts: Iterable[tuple[str, Put]]) -> None:
        """Send messages to boxes, by key."""

        async def send() -> None:
            async with PostgresStore(self.dsn) as store:
                client = Client(store)
                await store.send([await client.envelope(f"{BOX}:{key}", put) for key, put in puts])

        anyio.run(send)

    def row(self, key: str) -> ActorRow | None:
        async def read() -> ActorRow | None:
            async with PostgresStore(self.dsn) as store:
                return await store.actor(f"{BOX}:{key}")

        return anyio.run(read)

    def contents(self, key: str) -> Contents:
        """What a box has handled; nothing where there is none."""
        row = self.row(key)
        return Contents() if row is None else msgspec.msgpack.decode(row.state, type=Contents)

    def dead(self) -> list[DeadLetter]:
        async def read() -> list[DeadLetter]:
            async with PostgresStore(self.dsn) as store:
                return await store.dead_letters()

        return anyio.run(read)

    def waiting(self) -> int:
        """How many messages are not done with."""
        return int(query(self.dsn, "SELECT count(*) FROM callboard.message")[0][0])

    def charged(self) -> int:
        """How many losses the messages that wait were charged with."""
        text = (
            "SELECT coalesce(sum(losses), 0) + count(*) FILTER (WHERE type = 'sys.handler_lost') FROM callboard.message"
        )
        return int(query(self.dsn, text)[0][0])

    def failed_ever(self) -> int:
        """How many messages were not simply done."""
        return int(query(self.dsn, "SELECT count(*) FROM callboard.turn WHERE outcome <> 'done'")[0][0])

    def has_noted(self, name: str, times: int) -> bool:
        """Whether handlers wrote anything down so often, at least."""
        return self.noted(name) >= times

    def noted(self, name: str, text: str = "") -> int:
        """How often handlers wrote this down."""
        path = self.folder / name
        lines = path.read_text().splitlines() if path.exists() else []
        return sum(line.startswith(f"{text} ") or not text for line in lines)


@pytest.fixture
def boxes(made: str, tmp_path: Path) -> Boxes:
    return Boxes(made, tmp_path)
