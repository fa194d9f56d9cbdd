"""The database goes away and comes back: nobody exits, nothing is lost, everything goes on."""

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from callboard.persistence.embedded import ensure, release
from callboard.persistence.postgres import create_schema
from tests.operate.daemons import daemon
from tests.server_folder import server_folder
from tests.service.conftest import APP, Cli, query, until
from tests.service.test_daemon import is_alive, status


class Server:
    """A PostgreSQL of this test alone, which it may stop."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.dsn = self.start()

    def start(self) -> str:
        return ensure(self.root, durable=False)

    def stop(self) -> None:
        release(self.root)


@pytest.fixture
def server() -> Iterator[Server]:
    with server_folder("callboard-away-") as root:
        try:
            found = Server(root)
            anyio.run(create_schema, found.dsn)
            yield found
        finally:
            release(root)


def test_a_database_that_is_away_is_told_waited_out_and_gone_on_with(cli: Cli, server: Server, tmp_path: Path) -> None:
    with daemon("--option", f"folder={tmp_path}", "--name", "desk", dsn=server.dsn) as it:
        pids = it.children()
        it.until_ready()
        assert cli("submit", APP, "slow thing", "--id", "r1", dsn=server.dsn).code == 0
        it.until((tmp_path / "thing.began").exists, "the call begins")
        server.stop()
        assert it.until_unready().status == 503
        it.until(lambda: "database" in it.get("/readyz").failing(), "it says why")
        assert it.get("/livez").status == 200
        (tmp_path / "thing").touch()  # the call ends while nobody can write that down
        _pass(8.0)
        assert all(is_alive(pid) for pid in (it.process.process.pid, *pids)), it.log()
        assert it.get("/readyz").failing() >= {"database"}
        assert server.start() == server.dsn
        it.until_ready()
        until(lambda: status(cli, server.dsn, "r1") == "completed", "the run completes")
        assert len((tmp_path / "thing.began").read_text().split()) == 1, "the call was made again"
        assert query(server.dsn, "SELECT count(*) FROM callboard.dead_letter") == [(0,)]
        assert query(server.dsn, "SELECT count(*) FROM callboard.node WHERE status = 'dead'") == [(0,)]
        assert all(is_alive(pid) for pid in pids)
        assert it.process.end() == 0


def test_a_daemon_whose_database_is_gone_for_good_ends_at_the_first_sigterm_within_its_time_to_drain(
    server: Server,
) -> None:
    with daemon("--drain-seconds", "2", dsn=server.dsn) as it:
        pids = it.children()
        it.until_ready()
        server.stop()
        it.until_unready()
        began = time.monotonic()
        it.tell(signal.SIGTERM)
        assert it.process.wait() == 3
        assert time.monotonic() - began < 60, "much longer than it takes to drain and to close the application"
        assert not any(is_alive(pid) for pid in pids) and "killed" not in it.log()


def _pass(seconds: float) -> None:
    """Let real time go by: an outage is nothing else."""
    end = time.monotonic() + seconds
    until(lambda: time.monotonic() >= end, "time passes")
