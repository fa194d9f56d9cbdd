"""Nodes, and what they try in quarantine, do not outlive a daemon that was killed, even if nothing can be drained."""

import os
import signal
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest
from psycopg import sql

from tests.quarantine.boxes import Put
from tests.quarantine.conftest import Boxes, is_alive, wait_until


def children(pid: int) -> list[int]:
    """What a process has started; nothing once it has ended."""
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


def last_caller(boxes: Boxes) -> int:
    """The process that has begun a call last."""
    return int((boxes.folder / "calls").read_text().split()[-1])


def kill_last_caller(boxes: Boxes) -> None:
    os.kill(last_caller(boxes), signal.SIGKILL)


@pytest.mark.timeout(900)
def test_without_daemon_and_database_all_its_processes_end(boxes: Boxes, server_dsn: str) -> None:
    with boxes.daemon(drain_seconds=1) as daemon:

        def alive() -> list[int]:
            """Nodes, and what they have started; a new node is known once what it announces has been read."""
            nodes = [pid for pid in daemon.pids() if is_alive(pid)]
            return [*nodes, *(child for pid in nodes for child in children(pid))]

        boxes.put([("bad", Put("culprit", "call:long"))])
        for number in range(1, 20):
            wait_until(partial(boxes.has_noted, "calls", number), f"call {number} has begun", daemon)
            wait_until(lambda: last_caller(boxes) in alive(), "who makes it is known", daemon)
            if number > 2 and last_caller(boxes) not in daemon.pids():
                break  # it is made in quarantine
            # After two losses it is; a node may be quicker than what tells it of the second one, and is lost as well.
            kill_last_caller(boxes)
        processes = alive()
        assert last_caller(boxes) in processes and last_caller(boxes) not in daemon.pids()
        daemon.kill()
        with psycopg.connect(server_dsn, autocommit=True) as connection:
            name = sql.Identifier(urlsplit(boxes.dsn).path[1:])
            connection.execute(sql.SQL("drop database {} with (force)").format(name))
            connection.execute(sql.SQL("create database {} template template0").format(name))
        wait_until(lambda: not any(is_alive(pid) for pid in processes), "all of them end", daemon)
