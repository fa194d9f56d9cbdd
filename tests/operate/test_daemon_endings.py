"""How a daemon ends, and what it says by its exit code."""

import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from callboard import PostgresStore
from callboard.mailbox.errors import Conflict
from callboard.persistence.port import RealPort
from callboard.service.daemon import Daemon
from tests.operate.daemons import daemon
from tests.service.conftest import APP, WAIT_SECONDS, Cli, execute, process, query, until
from tests.service.test_daemon import is_alive, live_nodes, service, status

HOLDER = "callboard instance desk"


def test_0_when_all_was_finished_and_3_when_work_was_given_back(cli: Cli, database: str, tmp_path: Path) -> None:
    with daemon("--option", f"folder={tmp_path}", "--drain-seconds", "0.5", dsn=database) as it:
        it.until_ready()
        cli("submit", APP, "slow thing", "--id", "r1", dsn=database)
        it.until((tmp_path / "thing.began").exists, "the call begins")
        assert it.process.end() == 3
        assert "given back" in it.log()
    assert live_nodes(database) == 0
    (tmp_path / "thing").touch()
    with daemon("--option", f"folder={tmp_path}", dsn=database) as it:
        until(lambda: status(cli, database, "r1") == "completed", "what was given back is done by the next one")
        assert it.process.end() == 0
    assert query(database, "SELECT count(*) FROM callboard.dead_letter") == [(0,)]


def test_143_at_a_second_sigterm_and_at_once(cli: Cli, database: str, tmp_path: Path) -> None:
    with daemon("--option", f"folder={tmp_path}", "--drain-seconds", "600", dsn=database) as it:
        pids = it.children()
        it.until_ready()
        cli("submit", APP, "slow thing", "--id", "r1", dsn=database)
        it.until((tmp_path / "thing.began").exists, "the call begins")
        it.tell()
        it.until(lambda: "draining for at most 600" in it.log(), "it drains")
        assert it.get("/livez").status == 200
        assert it.process.end() == 143
        assert not any(is_alive(pid) for pid in pids)


def test_75_when_the_database_is_not_reachable_at_the_start() -> None:
    done = process("daemon", APP, dsn="postgresql://nobody@127.0.0.1:1/nothing")
    assert done.returncode == 75 and "does not answer" in done.stderr


def test_2_when_the_health_server_would_be_reachable_from_elsewhere_unless_that_is_meant(database: str) -> None:
    done = process("daemon", APP, "--health", "0.0.0.0:0", dsn=database)
    assert done.returncode == 2 and "--health-anywhere" in done.stderr
    with service(
        "daemon", APP, "--health", "0.0.0.0:0", "--health-anywhere", "--nodes", "1", "--json", "--drain-seconds", "60",
        dsn=database,
    ) as it:  # fmt: skip
        assert it.event("health")["url"].startswith("http://0.0.0.0:")
        it.event("ready")
        assert it.end() == 0


def test_5_when_another_daemon_of_the_name_runs_and_it_is_told_which(database: str) -> None:
    with daemon("--name", "desk", "--nodes", "1", dsn=database) as it:
        it.until_ready()
        done = process("daemon", APP, "--name", "desk", dsn=database)
        assert done.returncode == 5
        assert f"pid {it.process.process.pid}" in done.stderr and "desk" in done.stderr
        with daemon("--name", "other", "--nodes", "1", dsn=database) as other:
            other.until_ready()
            assert other.process.end() == 0
        it.process.process.kill()
        it.process.wait()
        held = f"SELECT 1 FROM pg_stat_activity WHERE application_name = '{HOLDER}'"
        until(lambda: not query(database, held), "the server has noticed")
        with daemon("--name", "desk", "--nodes", "1", dsn=database) as next_one:
            next_one.until_ready()
            assert next_one.process.end() == 0


async def _take(dsn: str, found: Callable[[], object], ended: Callable[[], object]) -> None:
    """Be `desk` instead of who is, by cutting it off, until that has `found` it out and has left."""
    with anyio.fail_after(WAIT_SECONDS):
        while True:
            execute(dsn, f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = '{HOLDER}'")
            with suppress(Conflict):
                async with PostgresStore(dsn).instance("desk", "somebody else", RealPort()):
                    found()
                    await anyio.to_thread.run_sync(ended)
                    return


def test_5_when_another_one_took_its_name_while_it_was_cut_off_and_its_nodes_have_drained(database: str) -> None:
    with daemon("--name", "desk", "--nodes", "1", dsn=database) as it:
        it.until_ready()
        it.tell(signal.SIGSTOP)  # who is cut off does not take the name back before the other one has said who it is
        anyio.run(_take, database, lambda: it.tell(signal.SIGCONT), it.process.wait)
        assert it.process.wait() == 5
        assert "somebody else" in it.log() and "node drained" in it.log()


def test_70_when_it_crashes_and_the_log_says_where(cli: Cli, database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def crash(_daemon: Daemon) -> int:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(Daemon, "run", crash)
    said = cli("daemon", APP, dsn=database)
    assert said.code == 70 and "ZeroDivisionError" in said.err


def test_sigterm_while_starting_ends_it_with_0_before_any_node_was_started(database: str) -> None:
    with daemon("--name", "desk", dsn=database) as it:
        it.tell()
        assert it.process.wait() == 0


def test_a_leaving_node_s_shards_are_with_another_one_at_once_while_its_call_still_runs(
    cli: Cli, database: str, tmp_path: Path
) -> None:
    options = ("--option", f"folder={tmp_path}", "--drain-seconds", "60")
    with service("node", APP, *options, dsn=database) as leaving:
        leaving.event("ready")
        cli("submit", APP, "slow thing", "--id", "r1", dsn=database)
        until((tmp_path / "thing.began").exists, "the call begins")
        with service("node", APP, *options, dsn=database) as heir:
            number = heir.event("ready")["node"]
            leaving.process.send_signal(signal.SIGTERM)
            owned = f"SELECT count(*) FROM callboard.shard WHERE node = {number}"
            until(lambda: query(database, owned)[0][0] == 255, "all but the shard of the call are the other one's")
            assert leaving.process.poll() is None
            (tmp_path / "thing").touch()
            assert leaving.wait() == 0
            until(lambda: query(database, owned)[0][0] == 256, "and then that one too")
            assert heir.end() == 0
