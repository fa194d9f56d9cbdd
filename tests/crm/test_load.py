"""Installing and filling the desk: counts, repetition, rights."""

import uuid
from urllib.parse import urlsplit

import anyio
import pytest

from callboard.crm.load import DeskFacts, load
from callboard.crm.policy import PolicyUnreadable, parse_policy, policy_text
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
        "UPDATE crm.payment SET approval = 'mine'",
        "UPDATE crm.exchanged_item SET unit_price_cents = 1",
        "UPDATE crm.change SET approval = 'mine'",
        "DELETE FROM crm.change",
        "DELETE FROM crm.attempt",
        "UPDATE crm.offboarding SET approval = 'mine'",
        "UPDATE crm.contact_export SET approval = 'mine'",
        "INSERT INTO crm.tool_policy (page_sha256, numbers) VALUES ('x', '{}')",
        "UPDATE crm.tool_policy SET numbers = '{}'",
        "UPDATE crm.sales_order SET version = 1",
        "UPDATE crm.sales_order SET account_id = 'bram.kessler'",
        "UPDATE crm.account SET version = 1",
        "UPDATE crm.subscription SET price_cents = 0",
        "UPDATE crm.subscription SET account_id = 'bram.kessler'",
        "UPDATE crm.contact SET email = 'thief@example.org'",
        "UPDATE crm.variant SET price_cents = 0",
        "INSERT INTO crm.account SELECT * FROM crm.account",
        "SELECT * FROM crm.expectation",
        "ALTER TABLE crm.payment DISABLE TRIGGER ALL",
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


async def test_each_page_that_was_in_force_has_a_row_each_time_and_its_articles_are_what_is_found(
    small_owner: Database,
) -> None:
    first, second = policy_text(), policy_text().replace("Short, friendly, exact.", "Long, flowery, exact.")
    for page in (first, second, second, first):
        await load(small_owner, page=page)
    rows = await small_owner.rows("SELECT page_sha256, numbers FROM crm.tool_policy ORDER BY policy_id")
    digests = [parse_policy(page).page_sha256 for page in (first, second, first)]
    assert [row["page_sha256"] for row in rows] == digests
    assert rows[0]["numbers"] == parse_policy(first).numbers
    await load(small_owner, page=second)
    article = await small_owner.row("SELECT body FROM crm.kb_article WHERE slug = 'tone'")
    assert article is not None and "flowery" in article["body"]


async def test_a_page_that_lacks_a_limit_is_not_put_in_force(small_owner: Database) -> None:
    with pytest.raises(PolicyUnreadable):
        await load(small_owner, page="# No limits")
    assert len(await small_owner.rows("SELECT 1 FROM crm.tool_policy")) == 1


async def test_every_change_of_a_row_is_another_version_whoever_makes_it(small_owner: Database) -> None:
    for table in ("account", "sales_order", "subscription"):
        await small_owner.execute(f"UPDATE crm.{table} SET version = 99, status = status")
        assert await small_owner.rows(f"SELECT DISTINCT version FROM crm.{table}") == [{"version": 2}]


async def test_the_real_desk_has_contacts_subscriptions_and_deals_that_were_made_up(retail_owner: Database) -> None:
    counted = await retail_owner.row(
        "SELECT (SELECT count(*) FROM crm.contact) AS contacts, (SELECT count(*) FROM crm.deal) AS deals,"
        " count(*) AS subscriptions, count(*) FILTER (WHERE paid_until < crm.clock()) AS overdue FROM crm.subscription"
    )
    assert counted == {"contacts": 90, "deals": 57, "subscriptions": 174, "overdue": 7}


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
