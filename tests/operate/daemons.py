"""A daemon as a process, asked over HTTP how it is."""

import json
import signal
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

from tests.service.conftest import APP, WAIT_SECONDS
from tests.service.test_daemon import Service, service

T = TypeVar("T")


class Answer(NamedTuple):
    """What a page said; status 0 where nobody listens."""

    status: int
    document: Any

    def failing(self) -> set[str]:
        """The checks that are not well."""
        return {check["name"] for check in self.document["checks"] if not check["ok"]}


class Daemon:
    """One with a health server."""

    def __init__(self, process: Service) -> None:
        self.process = process
        self.url = process.event("health")["url"]

    def get(self, path: str) -> Answer:
        """Ask for a page."""
        try:
            with urllib.request.urlopen(self.url + path, timeout=60) as answer:
                return Answer(answer.status, json.loads(answer.read()))
        except urllib.error.HTTPError as error:
            with error:
                return Answer(error.code, json.loads(error.read()))
        except OSError:
            return Answer(0, None)

    def until(self, what: Callable[[], T | None], told: str, *, seconds: float = WAIT_SECONDS) -> T:
        """Wait for something; what it gave."""
        pause, end = threading.Event(), time.monotonic() + seconds
        while time.monotonic() < end:
            if found := what():
                return found
            pause.wait(0.05)
        raise AssertionError(f"not within {seconds:g} s: {told}; readyz: {self.get('/readyz')}; it said: {self.log()}")

    def until_ready(self) -> Answer:
        """Wait until it is."""
        return self.until(lambda: self._readyz(200), "it is ready")

    def until_unready(self, *, seconds: float = WAIT_SECONDS) -> Answer:
        """Wait until it is not."""
        return self.until(lambda: self._readyz(503), "unready", seconds=seconds)

    def _readyz(self, status: int) -> Answer | None:
        found = self.get("/readyz")
        return found if found.status == status else None

    def tell(self, sign: signal.Signals = signal.SIGTERM) -> None:
        self.process.process.send_signal(sign)

    def log(self) -> str:
        return "".join(self.process.err)[-6_000:]

    def children(self) -> list[int]:
        """The pids of its nodes, in order of place."""
        found: dict[int, int] = {}
        while len(found) < 2:
            event = self.process.event("ready")
            found[event["place"]] = event["pid"]
        return [found[place] for place in sorted(found)]


@contextmanager
def daemon(*arguments: str, dsn: str, app: str = APP, **env: str) -> Iterator[Daemon]:
    """A daemon with two nodes unless said otherwise, time to drain, and a health server on a free port."""
    given = ("--nodes", "2", "--drain-seconds", "60", "--health", "127.0.0.1:0", "--json", *arguments)
    with service("daemon", app, *given, dsn=dsn, **env) as process:
        yield Daemon(process)
