"""Installing and filling the desk: counts, repetition, rights."""

import uuid
from urllib.parse import urlsplit

import anyio
import pytest

from callboard.crm.load import DeskFacts, load
from callboard.crm.retail import SOURCE
from callboard.crm.schema import install
from callboard.crm.small_desk import read_small_desk
from callboard.mailbox.errors import UsageError
from callboard.persistence.postgres.database import Database, DatabaseRefused

pytestmark = pytest.mark.anyio

COUNTS = """
SELECT (SELECT count(*) FROM crm.account) AS accounts, (SELECT count(*) FROM crm.sales_order) AS orders,
       (SELECT count(*) FROM crm.product) AS products, (SELECT count(*) FROM crm.variant) AS variants
"""
UNBALANCED = """
SELECT o.order_id FROM crm.sales_order o
WHERE (SELECT sum(unit_price_cents) FROM crm.order_item i WHERE i.order_id = o.order_id)
   <> (SELECT sum(amount_cents) FROM crm.payment p WHERE p.order_id = o.order_id AND p.kind = 'charge')
"""


async def test_the_real_desk_has_500_customers_and_1000_orders(retail_owner: Database) -> None:
    assert await load(retail_owner) == DeskFacts(source=SOURCE, customers=500, orders=1000)
    assert await retail_owner.row(COUNTS) == {"accounts": 500, "orders": 1000, "products": 50, "variants": 591}
    assert await retail_owner.rows(UNBALANCED) == []


async def test_the_small_desk_stands_in_without_the_real_data(owner: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("callboard.crm.load.find_retail", lambda: None)
    await install(owner)
    assert await load(owner) == DeskFacts(source="small desk (invented)", customers=12, orders=30)
    assert await owner.rows(UNBALANCED) == []


async def test_installing_and_loading_again_changes_nothing(small_owner: Database) -> None:
    before = await small_owner.row(COUNTS)
    for _ in range(7):  # more often than psycopg takes to prepare a statement
        await install(small_owner)
    assert await load(small_owner) == DeskFacts(source="small desk (invented)", customers=12, orders=30)
    assert await small_owner.row(COUNTS) == before


async def test_many_installers_and_loaders_at_once_fill_the_desk_once(owner: Database) -> None:
    async def come_in() -> None:
        await install(owner)
        await load(owner, read_small_desk())

    async with anyio.create_task_group() as group:
        for _ in range(8):
            group.start_soon(come_in)
    row = await owner.row(COUNTS)
    assert row is not None
    assert (row["accounts"], row["orders"]) == (12, 30)


async def test_a_role_name_that_is_no_plain_name_is_refused(owner: Database) -> None:
    with pytest.raises(UsageError, match="lower-case"):
        await install(owner, role='x"; DROP SCHEMA crm; --')


async def test_installing_again_locks_no_table_that_tools_work_on(small_owner: Database, small: Database) -> None:
    async with small.transaction() as session:
        await session.execute(
            "INSERT INTO crm.attempt (idempotency_key, tool, order_id, node) VALUES ('k', 't', 'o', 'n')"
        )
        await session.rows("SELECT * FROM crm.sales_order FOR UPDATE")
        with anyio.fail_after(60):
            assert (await install(small_owner)).role == "crm_app"


async def test_the_tools_role_cannot_reach_the_runtimes_schema(small_owner: Database, small: Database) -> None:
    await small_owner.execute("CREATE SCHEMA callboard")
    await small_owner.execute("CREATE TABLE callboard.mailbox (id bigint)")
    with pytest.raises(DatabaseRefused, match="permission denied") as refusal:
        await small.rows("SELECT * FROM callboard.mailbox")
    assert refusal.value.sqlstate == "42501"


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE crm.payment SET amount_cents = 1",
        "DELETE FROM crm.payment",
        "UPDATE crm.order_item SET unit_price_cents = 1",
        "SELECT * FROM crm.expectation",
        "CREATE TABLE crm.mine (n integer)",
    ],
)
async def test_the_tools_role_can_do_no_more_than_its_tools(small: Database, statement: str) -> None:
    with pytest.raises(DatabaseRefused) as refusal:
        await small.execute(statement)
    assert refusal.value.sqlstate == "42501"


async def test_the_ledger_is_append_only_for_its_owner_too(small_owner: Database) -> None:
    with pytest.raises(DatabaseRefused, match="append-only"):
        await small_owner.execute("DELETE FROM crm.payment")


async def test_a_user_who_may_make_roles_gets_one_it_can_become(dsn: str, owner: Database) -> None:
    maker, tools = f"crm_test_maker_{uuid.uuid4().hex[:8]}", f"crm_test_tools_{uuid.uuid4().hex[:8]}"
    name = await owner.row("SELECT current_database() AS name")
    assert name is not None
    await owner.execute(f"CREATE ROLE {maker} LOGIN CREATEROLE")
    await owner.execute(f"GRANT CREATE ON DATABASE {name['name']} TO {maker}")
    own_dsn = urlsplit(dsn)._replace(netloc=f"{maker}@").geturl()
    try:
        async with await Database.open(own_dsn) as database:
            installation = await install(database, role=tools)
            assert installation.role == tools
            await load(database, read_small_desk())
        async with await Database.open(own_dsn, role=tools) as database:
            assert await database.row("SELECT count(*) AS n FROM crm.account") == {"n": 12}
    finally:
        await owner.execute(f"DROP OWNED BY {tools}, {maker} CASCADE")
        await owner.execute(f"DROP ROLE IF EXISTS {tools}, {maker}")


async def test_a_user_who_may_not_make_roles_gets_a_desk_and_a_note(dsn: str, owner: Database) -> None:
    # The role exists in the server if another test made it; this user may neither make nor join it.
    await owner.execute(
        "DO $$ BEGIN CREATE ROLE crm_test_plain; EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$"
    )
    database_name = await owner.row("SELECT current_database() AS name")
    assert database_name is not None
    await owner.execute(f"GRANT CREATE ON DATABASE {database_name['name']} TO crm_test_plain")
    async with await Database.open(dsn, role="crm_test_plain") as plain:
        installation = await install(plain)
        assert installation.role is None
        assert "CREATE ROLE crm_app" in installation.note
        assert (await load(plain, read_small_desk())).orders == 30
