"""Node processes and their daemon, as real processes: ready, killed, drained, orphaned."""

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.service.conftest import APP, ROOT, WAIT_SECONDS, Cli, environment, process, query, until


class Service:
    """A long-running command: its JSON lines as they come."""

    def __init__(self, *arguments: str, dsn: str, **env: str) -> None:
        command = [sys.executable, "-m", "callboard", *arguments]
        self.process = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**environment(dsn), **env},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.err: list[str] = []
        self._events: queue.Queue[dict[str, Any]] = queue.Queue()
        self._threads = [threading.Thread(target=read, daemon=True) for read in (self._read_events, self._read_errors)]
        for thread in self._threads:
            thread.start()

    def _read_events(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._events.put(json.loads(line))

    def _read_errors(self) -> None:
        assert self.process.stderr is not None
        self.err.extend(self.process.stderr)

    def event(self, name: str) -> dict[str, Any]:
        """The next event of that name."""
        while True:
            try:
                found = self._events.get(timeout=WAIT_SECONDS)
            except queue.Empty:
                raise AssertionError(f"no {name!r} event; it said: {''.join(self.err)}") from None
            if found["event"] == name:
                return found

    def end(self, sign: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal and wait for the end; the exit code."""
        self.process.send_signal(sign)
        return self.wait()

    def wait(self) -> int:
        code = self.process.wait(timeout=WAIT_SECONDS)
        for thread in self._threads:
            thread.join(WAIT_SECONDS)
        return code


@contextmanager
def service(*arguments: str, dsn: str, **env: str) -> Iterator[Service]:
    started = Service(*arguments, dsn=dsn, **env)
    try:
        yield started
    finally:
        if started.process.poll() is None:
            started.process.kill()
        started.wait()
        for stream in (started.process.stdout, started.process.stderr):
            assert stream is not None
            stream.close()


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return not Path("/proc/self/stat").exists() or " Z " not in Path(f"/proc/{pid}/stat").read_text()
    except (ProcessLookupError, FileNotFoundError):  # it may be reaped between the two looks
        return False


def status(cli: Cli, dsn: str, run_id: str) -> str:
    said = cli("show", f"/desk/run:{run_id}", "--json", dsn=dsn)
    assert said.code in (0, 75), said.err  # 75: a machine so busy that the database took seconds to let it in
    return str(said.document["status"]) if said.out else ""


def live_nodes(dsn: str) -> int:
    return int(query(dsn, "SELECT count(*) FROM callboard.node WHERE status IN ('up', 'draining')")[0][0])


PATIENT = ("--drain-seconds", "60")
"""Where how long a drain may take is no subject: a machine may stand still for as long as the usual time."""


def test_a_node_that_is_killed_is_started_again_and_its_run_completes(cli: Cli, database: str, tmp_path: Path) -> None:
    options = ("--nodes", "2", "--option", f"folder={tmp_path}", "--json", *PATIENT)
    with service("daemon", APP, *options, dsn=database) as daemon:
        first = {event["place"]: event["pid"] for event in (daemon.event("ready"), daemon.event("ready"))}
        assert cli("submit", APP, "slow thing", "--id", "r1", dsn=database).code == 0
        began = tmp_path / "thing.began"
        victim = int(until(lambda: began.exists() and began.read_text(), "the call begins").split()[0])
        assert victim in first.values()
        os.kill(victim, signal.SIGKILL)
        assert daemon.event("ended")["code"] == -signal.SIGKILL
        again = daemon.event("ready")
        assert first[again["place"]] == victim and again["pid"] != victim
        until(lambda: len(began.read_text().split()) == 2, "another node makes the call")
        (tmp_path / "thing").touch()
        until(lambda: status(cli, database, "r1") == "completed", "the run completes")
        replayed = cli("replay", "r1", dsn=database).out
        assert "goes on where node" in replayed
        assert cli("verify", "r1", dsn=database).code == 0
        assert daemon.end() == 0
        assert not any(is_alive(pid) for pid in (*first.values(), again["pid"]))
    assert live_nodes(database) == 0


def test_sigterm_drains_a_node_which_finishes_what_it_has_in_hand(cli: Cli, database: str, tmp_path: Path) -> None:
    with service("node", APP, "--option", f"folder={tmp_path}", *PATIENT, dsn=database) as node:
        ready = node.event("ready")
        assert ready["pid"] == node.process.pid and ready["node"] > 0
        cli("submit", APP, "slow thing", "--id", "r1", dsn=database)
        until((tmp_path / "thing.began").exists, "the call begins")
        node.process.send_signal(signal.SIGTERM)
        until(lambda: "draining" in "".join(node.err), "it says that it drains")
        (tmp_path / "thing").touch()
        assert node.wait() == 0
    assert live_nodes(database) == 0
    said = cli("run", APP, "slow thing", "--id", "r1", "--json", "--option", f"folder={tmp_path}", dsn=database)
    assert said.document["status"] == "completed"
    assert len((tmp_path / "thing.began").read_text().split()) == 1, "the call that was in hand was made again"


def test_a_second_sigterm_ends_a_node_at_once(cli: Cli, database: str, tmp_path: Path) -> None:
    with service("node", APP, "--option", f"folder={tmp_path}", "--drain-seconds", "600", dsn=database) as node:
        node.event("ready")
        cli("submit", APP, "slow thing", "--id", "r1", dsn=database)
        until((tmp_path / "thing.began").exists, "the call begins")
        node.process.send_signal(signal.SIGTERM)
        until(lambda: "draining" in "".join(node.err), "it says that it drains")
        assert node.end() == 143


def test_nodes_do_not_outlive_a_daemon_that_was_killed(database: str) -> None:
    with service("daemon", APP, "--nodes", "1", "--json", dsn=database) as daemon:
        pid = daemon.event("ready")["pid"]
        daemon.process.kill()
        until(lambda: not is_alive(pid), "the node drains")
    assert live_nodes(database) == 0


def test_daemon_with_init_makes_the_schema(dsn: str) -> None:
    with service("daemon", APP, "--nodes", "1", "--init", "--json", *PATIENT, dsn=dsn) as daemon:
        daemon.event("ready")
        assert daemon.end(signal.SIGINT) == 0


def test_logs_are_json_lines_where_asked_for_and_hold_no_password(database: str) -> None:
    with service("node", APP, "--log-json", *PATIENT, dsn=database) as node:
        node.event("ready")
        assert node.end() == 0
    entries = [json.loads(line) for line in node.err]
    assert any("serves" in entry["message"] for entry in entries)
    assert {"ts", "level", "event", "logger", "pid", "message", "node"} <= set(entries[0])
    assert any(entry["event"] == "node_serves" for entry in entries)


def test_daemon_says_at_once_what_is_wrong_with_its_application(database: str) -> None:
    done = process("daemon", "tests.service.desk_app:nope", dsn=database)
    assert done.returncode == 2
    assert done.stderr.startswith("callboard: ") and done.stderr.count("\n") == 1


def test_ctrl_c_ends_a_run_with_130_and_the_run_goes_on_later(cli: Cli, database: str, tmp_path: Path) -> None:
    options = ("--id", "r1", "--option", f"folder={tmp_path}")
    with service("run", APP, "slow thing", *options, dsn=database) as run:
        until((tmp_path / "thing.began").exists, "the call begins")
        assert run.end(signal.SIGINT) == 130
    assert "Traceback" not in "".join(run.err)
    (tmp_path / "thing").touch()
    said = cli("run", APP, "slow thing", *options, "--json", dsn=database)
    assert said.code == 0 and said.document["status"] == "completed"


def test_without_a_dsn_an_embedded_server_is_used_and_gets_its_schema(tmp_path: Path) -> None:
    # In a directory of its own under /tmp, so that the account that PostgreSQL runs as can enter it.
    home = Path(f"/tmp/callboard-service-{os.getpid()}")
    try:
        done = subprocess.run(
            [sys.executable, "-m", "callboard", "runs", "--json"],
            cwd=tmp_path,
            env={**environment(), "CALLBOARD_HOME": str(home)},
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["items"] == []
    finally:
        subprocess.run(["rm", "-rf", str(home)], check=True)
