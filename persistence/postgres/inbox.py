"""What the server tells a session, heard by the event loop itself: no task waits for it, nothing looks by the clock.

The loop watches a copy of the session's descriptor, since psycopg takes the original one out of the loop after each
statement. Nothing is read while a statement is under way, which reads for itself and passes on what it finds.
"""

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import psycopg

Row = tuple[Any, ...]


class Inbox:
    """Calls `hear` with the payload of each notification of a session, and `lost` once when the session is cut."""

    def __init__(
        self, connection: psycopg.AsyncConnection[Row], hear: Callable[[str], None], lost: Callable[[], None]
    ) -> None:
        self._connection = connection
        self._hear = hear
        self._lost = lost
        self._open = True
        self._descriptor = os.dup(connection.fileno())
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._descriptor, self.look)
        connection.add_notify_handler(self._told)
        self.look()

    def _told(self, notice: psycopg.Notify) -> None:
        self._hear(notice.payload)

    def look(self) -> None:
        """Hear what has come by now."""
        if not self._open or self._connection.lock.locked():
            return
        try:
            pgconn = self._connection.pgconn
            pgconn.consume_input()
            while (notice := pgconn.notifies()) is not None:
                self._hear(notice.extra.decode())
        except psycopg.Error:
            self.close()
            self._lost()

    def close(self) -> None:
        """Hear no more. Harmless when closed."""
        if self._open:
            self._open = False
            self._loop.remove_reader(self._descriptor)
            os.close(self._descriptor)
            with suppress(ValueError):
                self._connection.remove_notify_handler(self._told)
