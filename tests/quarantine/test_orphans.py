"""Nodes, and what they try in quarantine, do not outlive a daemon that was killed, even if nothing can be drained."""

import os
import signal
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
from psycopg import sql

from tests.quarantine.boxes import Put
from tests.quarantine.conftest import Boxes, is_alive, wait_until


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def kill_last_caller(boxes: Boxes) -> None:
    """Kill the process that has begun a call last."""
    os.kill(int((boxes.folder / "calls").read_text().split()[-1]), signal.SIGKILL)


def test_without_daemon_and_database_all_its_processes_end(boxes: Boxes, server_dsn: str) -> None:
    with boxes.daemon() as daemon:
        boxes.put([("bad", Put("culprit", "call:long"))])
        wait_until(lambda: boxes.noted("calls") == 1, "the call has begun", daemon)
        kill_last_caller(boxes)
        wait_until(lambda: boxes.noted("calls") == 2, "it has begun again", daemon)
        kill_last_caller(boxes)
        wait_until(lambda: boxes.noted("calls") == 3, "it is made in quarantine", daemon)
        nodes = [pid for pid in daemon.pids() if is_alive(pid)]
        processes = [*nodes, *(child for pid in nodes for child in children(pid))]
        assert len(processes) > len(nodes), "there is a quarantine process"
        daemon.kill()
        with psycopg.connect(server_dsn, autocommit=True) as connection:
            name = sql.Identifier(urlsplit(boxes.dsn).path[1:])
            connection.execute(sql.SQL("drop database {} with (force)").format(name))
            connection.execute(sql.SQL("create database {} template template0").format(name))
        wait_until(lambda: not any(is_alive(pid) for pid in processes), "all of them end", daemon)
