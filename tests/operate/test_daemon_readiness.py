"""/livez, /readyz and /startupz of a daemon as a process, at every step of its life."""

import os
import signal
from pathlib import Path

from tests.operate.daemons import Answer, daemon
from tests.service.conftest import Cli, execute, query
from tests.service.test_daemon import is_alive

GATED = "tests.operate.gated_app:app"


def test_readyz_is_503_while_starting_then_200_then_503_while_draining_with_livez_200_then_gone(
    cli: Cli, database: str, tmp_path: Path
) -> None:
    with daemon("--option", f"folder={tmp_path}", dsn=database, app=GATED) as it:
        starting = it.get("/readyz")
        assert starting.status == 503 and starting.document["schema"] == "callboard.readyz/1"
        assert {"database", "nodes"} <= starting.failing() or "nodes" in starting.failing()
        assert it.get("/livez").status == 200 and it.get("/startupz").status == 503
        (tmp_path / "gate").touch()
        ready = it.until_ready()
        assert ready.failing() == set()
        assert it.get("/startupz").status == 200
        assert cli("submit", "tests.service.desk_app:app", "slow thing", "--id", "r1", dsn=database).code == 0
        it.until((tmp_path / "thing.began").exists, "the call begins")
        it.tell()
        it.until(lambda: "draining" in it.get("/readyz").failing(), "it says that it leaves")
        assert it.get("/readyz").status == 503
        assert it.get("/livez").status == 200 and it.get("/startupz").status == 200
        (tmp_path / "thing").touch()
        assert it.process.wait() == 0
        assert it.get("/livez").status == 0


def test_a_daemon_is_ready_for_as_long_as_one_of_its_nodes_is(database: str, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    gate.touch()
    with daemon("--option", f"folder={tmp_path}", dsn=database, app=GATED) as it:

        def ready_with(nodes: str) -> bool:
            found = it.get("/readyz")
            return nodes in found.document["checks"][2]["detail"] and found.status == 200

        pids = it.children()
        it.until(lambda: ready_with("2 of 2"), "both serve")
        gate.unlink()  # so that the next one begins when that was seen, and not before
        os.kill(pids[0], signal.SIGKILL)
        it.until(lambda: ready_with("1 of 2"), "one is gone, and it is ready")
        gate.touch()
        it.until(lambda: ready_with("2 of 2"), "it was started again")
        assert it.process.end() == 0


def test_a_daemon_none_of_whose_nodes_serves_is_not_ready(database: str) -> None:
    with daemon("--nodes", "1", dsn=database) as it:
        pid = it.process.event("ready")["pid"]
        it.until_ready()
        os.kill(pid, signal.SIGSTOP)
        it.until(lambda: it.get("/readyz").failing() == {"nodes", "listener"}, "it says why")
        assert it.get("/readyz").status == 503 and it.get("/livez").status == 200
        os.kill(pid, signal.SIGCONT)
        it.until_ready()


def test_a_root_that_has_given_up_is_told_by_readyz_and_ends_the_daemon_with_4_where_asked_for(database: str) -> None:
    with daemon(dsn=database) as it:
        it.until_ready()

        def told_of_the_tree() -> Answer | None:
            _give_up(database)
            found = it.get("/readyz")
            return found if found.failing() == {"tree"} else None

        told = it.until(told_of_the_tree, "the root has given up")
        assert told.status == 503 and "/desk is escalated: too many" in str(told.document)
        assert it.process.end() == 0
    _give_up(database)
    with daemon("--exit-on-escalation", dsn=database) as it:
        assert it.process.wait() == 4
        assert not any(is_alive(row[0]) for row in query(database, "SELECT pid FROM pg_stat_activity WHERE false"))


def _give_up(database: str) -> None:
    """As the root supervisor writes it down; the node that has it in memory is passed by, and may write once more."""
    execute(database, "UPDATE callboard.actor SET status = 'escalated', reason = 'too many' WHERE address = '/desk'")


def test_a_schema_of_a_newer_program_is_told_and_refused_at_the_start(database: str) -> None:
    execute(database, "SELECT callboard.note_version(99)")
    with daemon(dsn=database) as it:
        assert it.process.wait() == 1
        assert "schema 99" in it.log()
