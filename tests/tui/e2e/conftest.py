"""A desk for end-to-end tests: a database with a ledger, a daemon as a process, people at terminals."""

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import anyio
import psycopg
import pytest

from callboard.persistence.postgres import PostgresStore
from callboard.service.operations.principal import Principal
from callboard.service.operations.runs import Operations
from tests.made_database import made_database
from tests.service.conftest import cli as cli  # noqa: PLC0414 - a fixture
from tests.service.conftest import environment, until
from tests.service.test_daemon import Service, service

from .program import LEDGER, app
from .terminal import XTERM, Terminal, terminal

APP = "tests.tui.e2e.program:app"


class Desk:
    """A database, and whoever works on it in this test."""

    def __init__(self, dsn: str, stack: ExitStack) -> None:
        self.dsn = dsn
        self._stack = stack
        # One for all: a question that is asked fifty times a second would otherwise start as many servers' processes.
        self._connection = stack.enter_context(psycopg.connect(dsn, autocommit=True))

    def daemon(self, application: str = APP, *, nodes: int = 1) -> Service:
        """A daemon in a process of its own; its nodes serve."""
        arguments = ("daemon", application, "--nodes", str(nodes), "--drain-seconds", "5", "--json")
        started = self._stack.enter_context(service(*arguments, dsn=self.dsn))
        for _ in range(nodes):
            started.event("ready")
        return started

    def tui(self, *arguments: str, columns: int = 120, rows: int = 36) -> Terminal:
        """`callboard tui` in a terminal, as whoever runs the tests."""
        return self._at_terminal("-m", "tests.tui.e2e.patient", "tui", *arguments, columns=columns, rows=rows)

    def tui_of(self, name: str) -> Terminal:
        """The same UI, as another authenticated principal."""
        return self._at_terminal("-m", "tests.tui.e2e.program", name, columns=120, rows=36)

    def _at_terminal(self, *command: str, columns: int, rows: int) -> Terminal:
        env = {**environment(self.dsn), **XTERM, "TEXTUAL_ANIMATIONS": "none"}
        return self._stack.enter_context(
            terminal(sys.executable, *command, environment=env, columns=columns, rows=rows)
        )

    # --- what is asked, and what came of it --------------------------------------------------------------------

    def request(self, goal: str, run_id: str) -> str:
        """Have a run ask for a payment; the id of the approval, once it waits."""
        self.submit(goal, run_id)
        sql = "select id from callboard.decision where run = %s and status = 'pending'"
        return str(until(lambda: self.rows(sql, f"/e2e/run:{run_id}"), "the call waits")[0][0])

    def submit(self, goal: str, run_id: str, application: Any = app) -> None:
        """Record a run."""

        async def work() -> None:
            async with PostgresStore(self.dsn) as store:
                await Operations(store, Principal("inbox")).submit(application, goal, run_id=run_id)

        anyio.run(work)

    def rows(self, sql: str, *params: object) -> list[tuple[Any, ...]]:
        """What a query finds."""
        return self._connection.execute(sql.encode(), params or None).fetchall()

    def execute(self, sql: str) -> None:
        """Do this in the database."""
        self._connection.execute(sql.encode())

    def paid(self) -> int:
        """How often the tool has run."""
        return int(self.rows("select count(*) from ledger")[0][0])

    def status(self, decision: str) -> str:
        """Of an approval."""
        return str(self.rows("select status from callboard.decision where id = %s", decision)[0][0])

    def until_status(self, decision: str, status: str) -> None:
        """Wait until an approval has it."""
        until(lambda: self.status(decision) == status, f"{decision} is {status}")

    def until_run(self, run_id: str, status: str) -> None:
        """Wait until a run has this status."""
        sql = "select 1 from callboard.actor where address = %s and summary::jsonb ->> 'status' = %s"
        until(lambda: self.rows(sql, f"/e2e/run:{run_id}", status), f"{run_id} is {status}")

    def audit(self, object: str) -> list[dict[str, Any]]:
        """What was done to it, oldest first, as the audit has it."""
        rows = self.rows("select to_jsonb(a) from callboard.audit a where object = %s order by number", object)
        return [row[0] for row in rows]


@pytest.fixture
def desk(server_dsn: str) -> Iterator[Desk]:
    with made_database(server_dsn) as dsn, ExitStack() as stack:
        found = Desk(dsn, stack)
        found.execute(LEDGER)
        yield found
