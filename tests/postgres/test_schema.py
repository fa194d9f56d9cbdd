"""Making, migrating and checking the schema."""

from importlib.resources import files

import anyio
import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from callboard.mailbox.errors import SchemaMismatch
from callboard.persistence.postgres import PostgresStore, create_schema, schema_sql
from callboard.persistence.postgres.schema import migrations, version
from callboard.persistence.rows import ActorRow, Verdict
from callboard.persistence.store import NodeInfo
from tests.contract.build import message
from tests.postgres.conftest import Look

pytestmark = pytest.mark.anyio

# Everything that a dump would show of the tables, in an order of its own.
_TABLES = """
SELECT 'column', attrelid::regclass::text, attnum::text, attname, format_type(atttypid, atttypmod),
    attnotnull::text || attidentity::text || coalesce(attcollation::regcollation::text, '')
FROM pg_attribute JOIN pg_class c ON c.oid = attrelid
WHERE relnamespace = 'callboard'::regnamespace AND relkind = 'r' AND attnum > 0
UNION ALL
SELECT 'table', oid::regclass::text, '', relkind::text, reloptions::text, '' FROM pg_class
WHERE relnamespace = 'callboard'::regnamespace AND relkind = 'r'
UNION ALL
SELECT 'constraint', conrelid::regclass::text, '', conname, pg_get_constraintdef(oid), '' FROM pg_constraint
WHERE connamespace = 'callboard'::regnamespace
UNION ALL
SELECT 'index', indrelid::regclass::text, '', '', pg_get_indexdef(indexrelid), '' FROM pg_index
JOIN pg_class c ON c.oid = indrelid WHERE relnamespace = 'callboard'::regnamespace
UNION ALL
SELECT 'trigger', tgrelid::regclass::text, '', tgname, pg_get_triggerdef(t.oid), '' FROM pg_trigger t
JOIN pg_class c ON c.oid = tgrelid WHERE relnamespace = 'callboard'::regnamespace
ORDER BY 1, 2, 3, 4, 5
"""
_FUNCTIONS = "SELECT pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace = 'callboard'::regnamespace ORDER BY 1"
_DROP = "DROP SCHEMA callboard CASCADE"


async def test_the_schema_is_the_sum_of_its_migrations(dsn: str, look: Look) -> None:
    await look(schema_sql())
    truth = await look(_TABLES)
    await look(_DROP)
    for _, text in migrations():
        await look(text)
    assert await look(_TABLES) == truth
    assert len(truth) > 100


async def test_migrations_are_numbered_without_gaps() -> None:
    assert [number for number, _ in migrations()] == list(range(1, version() + 1))


async def test_an_older_database_keeps_its_rows_and_gets_the_new_columns(dsn: str, look: Look) -> None:
    await look(migrations()[0][1])
    await look("INSERT INTO callboard.schema_version VALUES (1, now())")
    await look(
        "INSERT INTO callboard.message SELECT 1, 7, '/a', '', 2, 'note', 1, '{}', 0, 3, 2, now(), '', '', 0, 0, false, "
        "0, false, now()"
    )
    await look("INSERT INTO callboard.actor VALUES (1, '/a', 'k', 1, 1, 'active', '', '', 1, 0, 0, 0, '')")
    with pytest.raises(SchemaMismatch, match="run: callboard init-db"):
        await PostgresStore.connect(dsn)
    await create_schema(dsn)
    assert await look("SELECT id, failures, headers, losses, timeouts, failing_since FROM callboard.message") == [
        (7, 2, "", 0, 0, None)
    ]
    assert await look("SELECT address, bonds FROM callboard.actor") == [("/a", "")]
    assert await look("SELECT max(version) FROM callboard.schema_version") == [(version(),)]
    store = await PostgresStore.connect(dsn)
    await store.close()


async def test_a_question_of_an_older_release_is_answered_as_it_was_asked(dsn: str, look: Look) -> None:
    for _, text in migrations()[:2]:
        await look(text)
    await look("INSERT INTO callboard.schema_version VALUES (2, now())")
    await look(
        "INSERT INTO callboard.decision (id, run, call, message_id, approvals, kind, tool, arguments, digest, reason, "
        "status, requested_by, requested_at, expires_seconds, decided_by, note) VALUES ('d1', '/r:1', '1', 7, '/desk', "
        "'approval', 'pay', '{}', 'd', 'why', 'pending', 'ann', now(), 0, '', '')"
    )
    await create_schema(dsn)
    async with await PostgresStore.connect(dsn) as store:
        row = await store.decision("d1")
        assert row is not None
        assert (row.status, row.needed, row.not_requester, row.hold_seconds, row.policy) == (
            "pending",
            1,
            False,
            0.0,
            "",
        )
        decided = await store.decide(Verdict("d1", "approved", "d", "ann"), message("/desk"))
        assert (decided.status, decided.decided_by, decided.hold_id) == ("approved", "ann", 0)


async def test_making_it_again_changes_nothing(made: str, look: Look) -> None:
    tables, functions = await look(_TABLES), await look(_FUNCTIONS)
    await look("INSERT INTO callboard.number_lease VALUES (1024, 'me', now())")
    await create_schema(made)
    assert await look(_TABLES) == tables
    assert await look(_FUNCTIONS) == functions
    assert await look("SELECT count(*) FROM callboard.number_lease") == [(1,)]


async def test_many_processes_may_make_it_at_once(dsn: str, look: Look) -> None:
    async with anyio.create_task_group() as group:
        for _ in range(5):
            group.start_soon(create_schema, dsn)
    assert await look("SELECT version FROM callboard.schema_version") == [(version(),)]


async def test_functions_of_another_program_are_replaced(made: str, look: Look) -> None:
    await look("CREATE FUNCTION callboard.left_over(integer) RETURNS integer LANGUAGE sql AS 'SELECT $1'")
    await look("CREATE OR REPLACE FUNCTION callboard.clock() RETURNS timestamptz LANGUAGE sql AS 'SELECT now()'")
    await create_schema(made)
    assert await look("SELECT to_regproc('callboard.left_over') IS NULL") == [(True,)]
    [(body,)] = await look("SELECT prosrc FROM pg_proc WHERE oid = 'callboard.clock'::regproc")
    assert "callboard.now" in body


async def test_a_database_without_schema_says_what_to_run(dsn: str) -> None:
    with pytest.raises(SchemaMismatch, match="no callboard tables; run: callboard init-db"):
        await PostgresStore.connect(dsn)


async def test_an_older_schema_says_what_to_run(made: str, look: Look) -> None:
    await look("UPDATE callboard.schema_version SET version = 0")
    with pytest.raises(SchemaMismatch, match="run: callboard init-db"):
        await PostgresStore.connect(made)


async def test_a_newer_schema_is_left_alone(made: str, look: Look) -> None:
    await look("UPDATE callboard.schema_version SET version = version + 1")
    with pytest.raises(SchemaMismatch, match="run a newer callboard"):
        await PostgresStore.connect(made)
    with pytest.raises(SchemaMismatch, match="run a newer callboard"):
        await create_schema(made)


async def test_a_database_in_another_encoding_is_refused(server_dsn: str, dsn: str) -> None:
    other_name = f"{conninfo_to_dict(dsn)['dbname']}_ascii"
    name, other = sql.Identifier(other_name), make_conninfo(dsn, dbname=other_name)
    async with await psycopg.AsyncConnection.connect(server_dsn, autocommit=True) as connection:
        await connection.execute(
            sql.SQL("CREATE DATABASE {} TEMPLATE template0 ENCODING 'SQL_ASCII' LOCALE 'C'").format(name)
        )
        try:
            with pytest.raises(SchemaMismatch, match="encoding is SQL_ASCII"):
                await create_schema(other)
        finally:
            await connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(name))


async def test_the_sql_ships_with_the_package() -> None:
    package = files("callboard.persistence.postgres")
    assert package.joinpath("schema.sql").is_file()
    assert "CREATE TABLE callboard.message" in schema_sql()


async def test_s9_what_is_recorded_is_never_changed(made: str, look: Look) -> None:
    await look("INSERT INTO callboard.journal VALUES (1, '/a', 1, 'noted', '{}', now(), 1)")
    with pytest.raises(psycopg.errors.RestrictViolation, match="never changed"):
        await look("UPDATE callboard.journal SET body = '[]'")


async def test_the_clock_can_be_stopped(made: str, look: Look) -> None:
    await look("SET callboard.now = '2031-01-02 03:04:05+00'")
    assert await look("SELECT extract(epoch FROM callboard.clock())::bigint") == [(1_925_089_445,)]
    await look("RESET callboard.now")
    assert await look("SELECT abs(extract(epoch FROM callboard.clock() - clock_timestamp())) < 60") == [(True,)]


async def test_columns_of_a_batch_stand_in_the_order_of_the_fields(made: str, look: Look) -> None:
    rows = await look(
        "SELECT attname FROM pg_attribute WHERE attrelid = 'callboard.actor_columns'::regclass ORDER BY attnum"
    )
    assert tuple(name for (name,) in rows) == (*ActorRow.__struct_fields__, "expected")


async def test_the_server_is_new_enough_to_test_on(store: PostgresStore, look: Look) -> None:
    [(number,)] = await look("SELECT current_setting('server_version_num')::integer")
    assert number >= 140_000
    assert NodeInfo(boot="b").lease_seconds == 1.0
