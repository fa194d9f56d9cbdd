"""Runs, audit and system on a real database: what the memory store shows, PostgreSQL shows too."""

import pytest

from callboard import Runtime, tool
from callboard.persistence.postgres import PostgresStore, create_schema
from callboard.tui.app import CallboardApp
from callboard.tui.panes.audit import AuditPane
from callboard.tui.panes.runs import RunsPane
from callboard.tui.panes.system import SystemPane
from tests.agent.stage import asks, says, script

from .conftest import gateway_on, screen_text, until, until_shown

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("at_once")]


async def test_a_run_its_audit_rows_and_its_node_are_shown_from_postgresql(dsn: str) -> None:
    @tool(effect="money", requires_approval=True)
    async def pay(amount_cents: int, *, idempotency_key: str) -> str:
        """Pay."""
        return "paid"

    model = script(asks(("pay", {"amount_cents": 48000})), says("done"))
    await create_schema(dsn)
    async with PostgresStore(dsn) as store:
        runtime = Runtime(store, model, [pay], name="pg")
        async with runtime:
            await runtime.create("pay it back", run_id="T-1", requested_by="dana")
            await runtime.runs.rest("T-1")
            app = CallboardApp(gateway_on(store))
            async with app.run_test(size=(120, 36)) as pilot:
                await pilot.press("5")
                pane = app.pane
                assert isinstance(pane, RunsPane)
                await until(pilot, lambda: pane.table.rows)
                await pilot.press("enter")
                await until(pilot, lambda: "◆ approval pay" in screen_text(app))
                await runtime.approve("T-1", "ana", note="photo seen")
                await until(pilot, lambda: "✓ COMPLETED" in screen_text(app) and "ana approved" in screen_text(app))
                await pilot.press("6")
                await until(pilot, lambda: isinstance(app.pane, AuditPane) and "ran once" in screen_text(app))
                await pilot.press("7")
                system = app.pane
                assert isinstance(system, SystemPane)
                await until(pilot, lambda: system.checks.select("schema") and "PostgreSQL" in screen_text(app))
                await until_shown(pilot, "● RUNNING")
