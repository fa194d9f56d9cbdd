"""DESIGN §9.11 in the database: the runtime's schema has its own roles, and the desk's tools have nothing in it."""

import uuid
from collections.abc import Sequence
from typing import Any

import anyio
import pytest

from callboard import ChatMessage, FunctionLLM, LLMResponse, PostgresStore, Runtime, ToolCall, tool
from callboard.actors.app import Surroundings
from callboard.actors.node import Node
from callboard.crm.app import OWN_DSN, app
from callboard.crm.schema import APP_ROLE, install_login
from callboard.crm.tickets import make_tickets
from callboard.mailbox.errors import CallboardError
from callboard.persistence.port import RealPort
from callboard.persistence.postgres import create_roles
from callboard.persistence.postgres.database import Database, DatabaseRefused
from callboard.persistence.postgres.roles import READER, ROLES, RUNTIME
from callboard.service.applications import opened
from callboard.service.operations.decisions import Answer, Decisions
from callboard.service.operations.runs import Operations

from .conftest import tables
from .logins import as_user, login

pytestmark = pytest.mark.anyio
REFUSED = "42501"
WRITES = (
    "INSERT INTO callboard.{} DEFAULT VALUES",
    "DELETE FROM callboard.{}",
    "TRUNCATE callboard.{}",
)


async def refuses(database: Database, statement: str) -> None:
    with pytest.raises(DatabaseRefused) as refusal:
        await database.execute(statement)
    assert refusal.value.sqlstate == REFUSED, f"{statement}: {refusal.value}"


async def model(messages: Sequence[ChatMessage], tools: object, system_prompt: str) -> LLMResponse:
    if any(message.role == "tool" for message in messages):
        return LLMResponse(content="refunded")
    return LLMResponse(tool_calls=(ToolCall("c", "refund", {"order": "A-1"}),))


@tool(side_effect=True, requires_approval=True)
async def refund(order: str, idempotency_key: str) -> dict[str, Any]:
    """Refund an order."""
    return {"refunded": order}


# --- the desk's tools ----------------------------------------------------------------------------------------------


async def test_a_crm_tool_cannot_read_or_write_any_table_of_the_runtime(owner: Database, dsn: str) -> None:
    names = await tables(owner)
    assert {"message", "decision", "audit", "journal", "token", "actor"} <= set(names)
    async with await Database.open(as_user(dsn, await install_login(owner))) as tools:
        assert await tools.row("SELECT count(*) AS n FROM crm.account") == {"n": 12}, "it can do its work"
        for name in names:
            await refuses(tools, f"SELECT * FROM callboard.{name}")
            for write in WRITES:
                await refuses(tools, write.format(name))
            await refuses(tools, f"UPDATE callboard.{name} SET {await column(owner, name)} = NULL")


async def test_a_crm_tool_cannot_call_any_function_of_the_runtime(owner: Database, dsn: str) -> None:
    """Deciding goes through one: whoever could call it would need no right on the table."""
    rows = await owner.rows(
        "SELECT p.proname AS name, ARRAY(SELECT format('NULL::%I.%I', n.nspname, t.typname)"
        " FROM unnest(p.proargtypes) AS a(type) JOIN pg_type t ON t.oid = a.type"
        " JOIN pg_namespace n ON n.oid = t.typnamespace) AS nulls FROM pg_proc p"
        " WHERE p.pronamespace = 'callboard'::regnamespace AND p.prorettype <> 'trigger'::regtype"
    )
    assert any("decide" in row["name"] for row in rows)
    async with await Database.open(as_user(dsn, await install_login(owner))) as tools:
        for row in rows:
            await refuses(tools, f"SELECT callboard.{row['name']}({', '.join(row['nulls'])})")


async def test_a_crm_tool_that_connects_as_its_own_user_has_no_way_back_to_the_runtimes(
    owner: Database, dsn: str
) -> None:
    user = await owner.row("SELECT current_user AS name")
    assert user is not None
    async with await Database.open(as_user(dsn, await install_login(owner))) as tools:
        for role in (user["name"], *ROLES):
            await refuses(tools, f"SET ROLE {role}")
        await tools.execute("RESET ROLE")
        await refuses(tools, "UPDATE callboard.decision SET status = 'approved'")
        await refuses(tools, f"GRANT {RUNTIME} TO {APP_ROLE}")


async def test_a_desk_whose_role_can_be_taken_only_is_kept_out_too(owner: Database, dsn: str) -> None:
    async with await Database.open(dsn, role=APP_ROLE) as tools:
        await refuses(tools, "SELECT * FROM callboard.audit")
        await refuses(tools, "INSERT INTO callboard.decision (id) VALUES ('x')")


async def test_the_desk_connects_its_tools_as_the_user_of_crm_dsn(
    owner: Database, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = await install_login(owner)
    monkeypatch.setenv(OWN_DSN, as_user(dsn, name))
    await make_tickets(owner, 1, above_limit=0)
    port = RealPort()
    async with PostgresStore(dsn) as store, opened(app, Surroundings(dsn, "rights", {}, {})) as tree:
        async with anyio.create_task_group() as group:
            node = Node(store, tree, port)
            port.spawn(group, node.run, name="node")
            operations = Operations(store, "dana")
            await operations.submit(app, "Work ticket T-0001.", run_id="T-0001")
            with anyio.fail_after(240):
                while not (await operations.run("T-0001")).state.finished:  # noqa: ASYNC110 - a node's work
                    await anyio.sleep(0.05)
            node.stop()
        connected = await owner.rows(
            "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND usename = %s", (name,)
        )
        assert connected, "its tools work as somebody else"
        assert (await operations.run("T-0001")).state.status == "completed"
    assert await owner.rows("SELECT 1 FROM crm.attempt") or await owner.rows("SELECT 1 FROM crm.activity")


# --- the runtime's own -----------------------------------------------------------------------------------------------


async def test_the_runtime_role_is_enough_to_work_decide_and_finish(owner: Database, dsn: str) -> None:
    async with login(dsn, RUNTIME) as own_dsn:
        async with Runtime(PostgresStore(own_dsn), FunctionLLM(model), [refund]) as runtime:
            run = await runtime.start("refund A-1")
            assert run.state.status == "awaiting_approval"
            decisions = Decisions(Operations(runtime.store, "dana"))
            await decisions.decide(run.id, Answer("approved"))
            assert (await runtime.resume(run.id)).status == "completed"
        async with await Database.open(own_dsn) as runtime_user:
            assert await runtime_user.rows("SELECT 1 FROM callboard.audit WHERE who = 'dana'")


async def test_the_runtime_role_can_neither_rewrite_the_audit_trail_nor_change_the_schema(
    owner: Database, dsn: str
) -> None:
    async with login(dsn, RUNTIME) as own_dsn, await Database.open(own_dsn) as runtime:
        for statement in (
            "UPDATE callboard.audit SET who = 'nobody'",
            "DELETE FROM callboard.audit",
            "TRUNCATE callboard.audit",
            "UPDATE callboard.schema_version SET version = 1",
            "DROP TABLE callboard.decision",
            "ALTER TABLE callboard.audit DISABLE TRIGGER ALL",
            "CREATE TABLE callboard.mine (n integer)",
            "CREATE OR REPLACE FUNCTION callboard.clock() RETURNS timestamptz LANGUAGE sql AS 'SELECT now()'",
        ):
            await refuses(runtime, statement)


async def test_a_reader_reads_every_table_and_no_tokens_hash(owner: Database, dsn: str) -> None:
    async with login(dsn, READER) as own_dsn, await Database.open(own_dsn) as reader:
        for name in await tables(owner):
            if name != "token":
                await reader.rows(f"SELECT * FROM callboard.{name} LIMIT 1")
        await reader.rows("SELECT name, principal, scopes FROM callboard.token")
        await refuses(reader, "SELECT secret_hash FROM callboard.token")


async def test_a_reader_writes_nothing(owner: Database, dsn: str) -> None:
    async with login(dsn, READER) as own_dsn, await Database.open(own_dsn) as reader:
        for name in await tables(owner):
            for write in WRITES:
                await refuses(reader, write.format(name))
            await refuses(reader, f"UPDATE callboard.{name} SET {await column(owner, name)} = NULL")


async def test_a_reader_lists_runs_and_shows_approvals_but_decides_nothing(owner: Database, dsn: str) -> None:
    async with Runtime(PostgresStore(dsn), FunctionLLM(model), [refund]) as runtime:
        run = await runtime.start("refund A-1")
    async with login(dsn, READER) as own_dsn, PostgresStore(own_dsn) as store:
        operations = Operations(store, "viewer")
        assert [line.run_id for line in (await operations.runs()).items] == [run.id]
        assert (await operations.verify(run.id))[1].ok
        [waiting] = await Decisions(operations).list()
        with pytest.raises(CallboardError, match="permission denied"):
            await Decisions(operations).decide(waiting.id, Answer("approved"))
    assert (await owner.rows("SELECT status FROM callboard.decision")) == [{"status": "pending"}]


async def test_making_the_roles_again_and_at_once_is_harmless(owner: Database, dsn: str) -> None:
    async with anyio.create_task_group() as group:
        for _ in range(3):
            group.start_soon(create_roles, dsn)


async def test_roles_of_a_user_who_may_not_make_them_are_refused_in_one_sentence(owner: Database, dsn: str) -> None:
    stranger = f"rights_{uuid.uuid4().hex[:8]}"
    await owner.execute(f"CREATE ROLE {stranger} LOGIN")
    try:
        with pytest.raises(CallboardError, match="permission denied"):
            await create_roles(as_user(dsn, stranger))
    finally:
        await owner.execute(f"DROP ROLE {stranger}")


async def column(owner: Database, table: str) -> str:
    row = await owner.row(
        "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0 AND attidentity = ''"
        " AND NOT attisdropped ORDER BY attnum LIMIT 1",
        (f"callboard.{table}",),
    )
    assert row is not None
    return str(row["attname"])
