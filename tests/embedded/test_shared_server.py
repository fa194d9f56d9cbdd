"""One server for all processes of a directory; it lives exactly as long as one of them needs it."""

import fcntl
import os
import threading
from pathlib import Path

import psycopg
import pytest

from callboard.persistence.embedded import EmbeddedServerError, ensure, release

from .client_process import ClientProcess
from .conftest import kill_server, postmaster_pid, wait_for_end


def test_a_cold_start_gives_a_dsn_that_works_in_a_directory_named_by_the_major_version(root: Path) -> None:
    with psycopg.connect(ensure(root, durable=False)) as connection:
        major = connection.info.server_version // 10_000
        assert connection.execute("show timezone").fetchone() == ("UTC",)
    assert (root / f"pgdata-{major}" / "PG_VERSION").read_text().strip() == str(major)


def test_a_durable_server_leaves_every_safety_of_postgresql_on(warm_root: Path) -> None:
    with psycopg.connect(ensure(warm_root)) as connection:
        for setting in ("fsync", "full_page_writes", "synchronous_commit"):
            assert connection.execute(f"show {setting}").fetchone() == ("on",), setting


def test_four_processes_at_once_share_one_server_and_the_last_one_out_stops_it(root: Path) -> None:
    clients = [ClientProcess(root) for _ in range(4)]
    for client in clients:
        client.send("ensure")
    assert len({client.answer() for client in clients}) == 1
    pid = postmaster_pid(root)
    assert (root / "postgres.log").read_text().count("ready to accept connections") == 1
    for client in clients[:-1]:
        assert client.end() == 0
    assert postmaster_pid(root) == pid
    assert clients[-1].end() == 0
    assert postmaster_pid(root) == 0
    assert not list(root.glob("pgdata-*/postmaster.pid"))


def test_processes_that_leave_together_stop_the_server(warm_root: Path) -> None:
    clients = [ClientProcess(warm_root) for _ in range(3)]
    for client in clients:
        assert client.ask("ensure").startswith("postgresql://")
    for client in clients:
        assert client.process.stdin is not None
        client.process.stdin.close()
    for client in clients:
        assert client.process.wait(timeout=120) == 0
        client.end()
    assert postmaster_pid(warm_root) == 0


def test_threads_of_one_process_share_one_server(warm_root: Path) -> None:
    answers: list[str] = []
    threads = [threading.Thread(target=lambda: answers.append(ensure(warm_root, durable=False))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 4
    assert len(set(answers)) == 1
    assert (warm_root / "postgres.log").read_text().count("ready to accept connections") == 1


def test_a_server_whose_starter_was_killed_is_adopted_with_its_rows_and_still_stopped_later(warm_root: Path) -> None:
    with ClientProcess(warm_root) as starter:
        starter.ask("ensure")
        assert starter.ask("insert 20") == "inserted"
        pid = postmaster_pid(warm_root)
        starter.kill()
    assert postmaster_pid(warm_root) == pid
    with ClientProcess(warm_root) as heir:
        heir.ask("ensure")
        assert heir.ask("count") == "(20,)"
        assert postmaster_pid(warm_root) == pid
        assert heir.end() == 0
    assert postmaster_pid(warm_root) == 0


def test_a_forked_child_keeps_the_server_and_stops_it_when_it_leaves_last(warm_root: Path) -> None:
    with ClientProcess(warm_root) as client:
        client.ask("ensure")
        client.ask("insert 1")
        pid = postmaster_pid(warm_root)
        assert client.ask("fork") == "forked"
        assert client.process.wait(timeout=120) == 0
        assert client.ask("count") == "(1,)", "the parent's end took the server from its child"
        assert postmaster_pid(warm_root) == pid
        handle = os.pidfd_open(pid)
        try:
            assert client.ask("release") == "released"
            wait_for_end(handle)
        finally:
            os.close(handle)


def test_release_and_ensure_again_goes_on_with_the_same_rows(warm_root: Path) -> None:
    with psycopg.connect(ensure(warm_root, durable=False)) as connection:
        connection.execute("create table seven as select generate_series(1, 7) as n")
    release(warm_root)
    assert postmaster_pid(warm_root) == 0
    with psycopg.connect(ensure(warm_root, durable=False)) as connection:
        assert connection.execute("select count(*) from seven").fetchone() == (7,)


def test_release_leaves_no_process_behind_not_even_a_dead_one(warm_root: Path) -> None:
    ensure(warm_root, durable=False)
    pid = postmaster_pid(warm_root)
    assert pid
    release(warm_root)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_server_that_was_killed_is_recovered_with_every_acknowledged_row_by_the_same_process(warm_root: Path) -> None:
    with ClientProcess(warm_root) as client:
        client.ask("ensure")
        assert client.ask("insert 200") == "inserted"
        killed = kill_server(warm_root)
        client.ask("ensure")
        assert client.ask("count") == "(200,)"
        assert postmaster_pid(warm_root) not in (0, killed)


def test_a_server_that_was_killed_is_recovered_by_another_process_while_its_parent_does_not_reap_it(
    warm_root: Path,
) -> None:
    with ClientProcess(warm_root) as parent, ClientProcess(warm_root) as other:
        parent.ask("ensure")
        assert parent.ask("insert 50") == "inserted"
        killed = kill_server(warm_root)
        other.ask("ensure")
        assert other.ask("count") == "(50,)"
        assert postmaster_pid(warm_root) not in (0, killed)
        assert other.end() == 0
        assert parent.ask("count") == "(50,)", "the server was stopped while the parent used it"
        assert parent.end() == 0
    assert postmaster_pid(warm_root) == 0


def test_killed_client_and_server_lose_nothing_even_when_the_stale_pid_now_belongs_to_another_process(
    warm_root: Path,
) -> None:
    with ClientProcess(warm_root) as client:
        client.ask("ensure")
        client.ask("insert 3")
        kill_server(warm_root)
        client.kill()
    (pid_file,) = warm_root.glob("pgdata-*/postmaster.pid")
    lines = pid_file.read_text().splitlines(keepends=True)
    with ClientProcess(warm_root) as stranger:
        pid_file.write_text("".join([f"{stranger.process.pid}\n", *lines[1:]]))
        with ClientProcess(warm_root) as heir:
            heir.ask("ensure")
            assert heir.ask("count") == "(3,)"
            assert heir.end() == 0
        assert stranger.process.poll() is None, "a process that only has the old pid was signalled"


def test_a_start_that_another_process_holds_up_ends_with_an_error_that_names_it(warm_root: Path) -> None:
    with (warm_root / "start.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(EmbeddedServerError, match=r"start\.lock.*DATABASE_URL"):
            ensure(warm_root, timeout_seconds=0.1)
    assert ensure(warm_root, durable=False).startswith("postgresql://")
