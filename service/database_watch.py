"""What the daemon knows of its database: it asks once a second, and what was found is read from here by everybody else.

Nothing that shows the daemon's health waits for the database: a question that hangs shows by the age of the last
answer. After an outage the sessions are made anew at each look, so that the end of it is seen within a second, however
long it lasted.
"""

import logging
import math
from collections.abc import Callable
from contextlib import AsyncExitStack

from ..mailbox.errors import CallboardError, SchemaMismatch, StoreUnavailable
from ..persistence.port import Port
from ..persistence.store import Store
from .wiring import open_store_at

log = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
SILENT_SECONDS = 5.0
"""A question that has had no answer for so long has failed; one that is refused has failed at once."""
SCHEMA_LOOK_SECONDS = 30.0
BORROW_SECONDS = 1.0


class DatabaseWatch:
    """One database, seen from this process."""

    def __init__(self, dsn: Callable[[], str], port: Port, *, opened: Callable[[Store | None], None]) -> None:
        self._dsn = dsn
        self._port = port
        self._opened = opened
        """Told which store is open, as it changes."""
        self._answered_at = -math.inf
        self._problem = "was not asked yet"
        self._schema_problem = ""
        self.root = ""
        """Address of the application's root supervisor, once a node has said it."""
        self.root_status = ""
        """"": it is not known, or there is none yet."""
        self.root_reason = ""

    def problem(self) -> str:
        """Why it cannot be used; "" where it can."""
        if self._problem:
            return self._problem
        silent = self._port.monotonic() - self._answered_at
        return f"has not answered for {silent:.0f} s" if silent > SILENT_SECONDS else ""

    def schema_problem(self) -> str:
        """Why its schema is not this program's; "" where it is, as far as is known."""
        return self._schema_problem

    async def run(self) -> None:
        """Look for ever."""
        while True:
            try:
                await self._keep_looking()
            except SchemaMismatch as error:
                self._schema_problem = str(error)
                self._note("")
            except TimeoutError:
                log.debug("the database gave no session in time; another look makes a new one")
                continue
            except StoreUnavailable as error:
                self._note(str(error))
            except CallboardError as error:  # a right that was taken away, say
                log.warning("the database refuses what is asked of it: %s", error)
                self._note(str(error))
            await self._port.sleep(LOOK_SECONDS)

    async def _keep_looking(self) -> None:
        """Ask the database over and over, until it does not answer as it should."""
        async with AsyncExitStack() as stack:
            store = await stack.enter_async_context(open_store_at(self._dsn()))
            stack.callback(self._opened, None)
            self._opened(store)
            checked_at = self._port.monotonic()
            while True:
                await self._ask(store)
                self._schema_problem = ""
                await self._port.sleep(LOOK_SECONDS)
                if self._port.monotonic() - checked_at >= SCHEMA_LOOK_SECONDS:
                    async with open_store_at(self._dsn()):
                        checked_at = self._port.monotonic()

    async def _ask(self, store: Store) -> None:
        answered = False
        try:
            # Waiting for a session is cut short: where one was cut, making a new one tells more, and sooner.
            with self._port.deadline(BORROW_SECONDS):
                await store.now()
                answered = True
        except TimeoutError:
            if not answered:
                raise
            log.debug("the database takes its time, and answers")  # a statement that has begun is never cut short
        self._note("")
        if self.root:
            row = await store.actor(self.root)
            self.root_status, self.root_reason = (row.status, row.reason) if row is not None else ("", "")

    def _note(self, problem: str) -> None:
        if not problem:
            self._answered_at = self._port.monotonic()
        if problem != self._problem:
            log.log(logging.WARNING if problem else logging.INFO, "database: %s", problem or "answers")
        self._problem = problem
