"""The heart of a node: a thread and a session of its own that beat while the event loop lives.

Why a thread: a loop that is busy for a second must not be taken for dead. Why `alive`: a loop that has hung for good
must not look alive (the caller answers from the time of its last tick). The heart's session holds the node's lock too,
so that one cut connection is not a death. It stops by itself when a beat hits no row: the node was superseded.
"""

import threading
from collections.abc import Callable
from typing import Any

import psycopg

from ..port import Port
from .connect import CONNECT_SECONDS, configure_sync
from .sql import statement


class Heart:
    """Beats from `start` to `stop`."""

    def __init__(self, conninfo: str, number: int, epoch: int, beat_seconds: float, alive: Callable[[], bool]) -> None:
        self._conninfo = conninfo
        self._number = number
        self._epoch = epoch
        self._beat_seconds = beat_seconds
        self._alive = alive
        self._connection: psycopg.Connection[Any] | None = None
        self._holds_lock = False
        self._begun = threading.Event()
        self._stopped = threading.Event()
        self._join: Callable[[float], None] | None = None

    async def start(self, port: Port) -> None:
        """Begin, and return after the first beat (or the first failure to beat)."""
        self._join = port.start_thread(self._run, f"heart of node {self._number}")
        await port.in_thread(self._begun.wait, CONNECT_SECONDS)

    async def stop(self, port: Port) -> None:
        """Beat no more; the heart's session has ended when this returns, unless the server does not answer."""
        self._stopped.set()
        if self._join is not None:
            await port.in_thread(self._join, CONNECT_SECONDS)

    def _run(self) -> None:
        try:
            while not self._stopped.is_set():
                if self._alive():
                    self._try_to_beat()
                self._begun.set()
                self._stopped.wait(self._beat_seconds)
        finally:
            self._hang_up()

    def _try_to_beat(self) -> None:
        try:
            if self._connection is None:
                self._connection = psycopg.connect(self._conninfo, autocommit=True)
                configure_sync(self._connection)
                # A beat that a crash of the server forgets is no loss, and it shall not wait for the disk.
                self._connection.execute("SET synchronous_commit = off")
            cursor = psycopg.RawCursor(self._connection)
            if not self._holds_lock:
                row = cursor.execute(statement("try_hold_lock").text, [self._number]).fetchone()
                self._holds_lock = row is not None and bool(row[0])
            if cursor.execute(statement("beat").text, [self._number, self._epoch]).rowcount == 0:
                self._stopped.set()
        except psycopg.Error:
            # Not reported here: the node's other sessions see the same outage. The next beat connects anew.
            self._hang_up()

    def _hang_up(self) -> None:
        self._holds_lock = False
        if self._connection is not None:
            self._connection.close()
            self._connection = None
