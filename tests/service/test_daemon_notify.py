"""What systemd is told, over a real socket."""

import os
import socket
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from callboard.service.notify import Notifier
from tests.service.conftest import APP
from tests.service.test_daemon import PATIENT, service

PID = os.getpid()


class Manager:
    """systemd's end of the socket."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind("\0" + address[1:] if address.startswith("@") else address)
        self.socket.settimeout(90)

    def hears(self) -> str:
        return self.socket.recv(4096).decode()

    def hears_until(self, text: str) -> list[str]:
        """Everything up to a message that begins like this."""
        heard: list[str] = []
        while not heard or not heard[-1].startswith(text):
            heard.append(self.hears())
        return heard


@pytest.fixture(params=["path", "abstract"])
def manager(request: pytest.FixtureRequest) -> Iterator[Manager]:
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        path = str(Path(folder, "notify"))
        found = Manager(path if request.param == "path" else f"@callboard-test-{PID}")
        try:
            yield found
        finally:
            found.socket.close()


def test_each_word_is_a_datagram(manager: Manager) -> None:
    notifier = Notifier({"NOTIFY_SOCKET": manager.address}, PID)
    notifier.ready()
    notifier.status("all\nis well")
    notifier.status("all is well")
    notifier.watchdog()
    notifier.stopping()
    notifier.close()
    assert [manager.hears() for _ in range(4)] == ["READY=1", "STATUS=all is well", "WATCHDOG=1", "STOPPING=1"]


@pytest.mark.parametrize(
    "environ", [{}, {"NOTIFY_SOCKET": ""}, {"NOTIFY_SOCKET": "vsock:2:1"}, {"NOTIFY_SOCKET": "/no/such"}]
)
def test_without_a_socket_nothing_happens(environ: dict[str, str]) -> None:
    notifier = Notifier(environ, PID)
    notifier.ready()
    notifier.status("x")
    notifier.close()


def test_a_manager_that_does_not_listen_stops_nobody(manager: Manager) -> None:
    notifier = Notifier({"NOTIFY_SOCKET": manager.address}, PID)
    for _ in range(10_000):  # more than its socket takes
        notifier.watchdog()
    notifier.ready()
    notifier.stopping()
    assert manager.hears_until("WATCHDOG=1") == ["WATCHDOG=1"]
    manager.socket.settimeout(0)
    heard = []
    for _ in range(2):
        with suppress(BlockingIOError):
            while True:
                heard.append(manager.hears())
        notifier.watchdog()
    assert heard[-2:] == ["STOPPING=1", "WATCHDOG=1"] and "READY=1" in heard
    notifier.close()


@pytest.mark.parametrize(
    ("environ", "seconds"),
    [
        ({"WATCHDOG_USEC": "30000000"}, 15.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": str(PID)}, 15.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "1"}, 0.0),
        ({"WATCHDOG_USEC": "soon"}, 0.0),
        ({}, 0.0),
    ],
)
def test_the_watchdog_is_told_twice_in_its_time_and_only_by_whom_it_watches(
    environ: dict[str, str], seconds: float
) -> None:
    assert Notifier(environ, PID).watchdog_seconds == seconds


def test_a_daemon_says_ready_when_its_first_node_serves_beats_and_says_that_it_stops(
    manager: Manager, database: str
) -> None:
    told = {"NOTIFY_SOCKET": manager.address, "WATCHDOG_USEC": "200000"}
    with service("daemon", APP, "--nodes", "1", "--json", *PATIENT, dsn=database, **told) as daemon:
        before = manager.hears_until("READY=1")
        assert any(text.startswith("STATUS=1 of 1 serve") for text in before) and "WATCHDOG=1" in before
        daemon.event("ready")  # the node has said so before
        assert manager.hears_until("WATCHDOG=1")
        daemon.process.terminate()
        assert "READY=1" not in manager.hears_until("STOPPING=1"), "a node took the daemon's socket for its own"
        assert daemon.wait() == 0
