"""The retail desk in PostgreSQL: one schema, in which each play of a task has its customers' rows under its own name.

A call is one transaction: the play's rows are read, the same rules as everywhere (`retail_reading`, `retail_writing`)
are applied to them, and what they changed is written together with a row for the attempt, which holds the key and the
answer. Whoever comes again under the key gets that answer. Money is integer cents in columns of its own.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from callboard.crm.desk import Account, Address, Payment, PaymentMethod
from callboard.evals.retail_desk import Attempt, RetailDesk, Tables
from callboard.evals.retail_rows import Asked, Item, OrderRow, Records, UserRow
from callboard.evals.retail_tools import EFFECTS, functions_of
from callboard.persistence.postgres.database import Database, Session

SCHEMA: Final = """
CREATE SCHEMA IF NOT EXISTS retail;
CREATE TABLE IF NOT EXISTS retail.customer (
  play text, user_id text, first_name text NOT NULL, last_name text NOT NULL, email text NOT NULL,
  address jsonb NOT NULL, order_ids text[] NOT NULL, PRIMARY KEY (play, user_id));
CREATE TABLE IF NOT EXISTS retail.payment_method (
  play text, user_id text, payment_method_id text, place integer NOT NULL, kind text NOT NULL, brand text,
  last_four text, balance_cents bigint, PRIMARY KEY (play, user_id, payment_method_id));
CREATE TABLE IF NOT EXISTS retail.sales_order (
  play text, order_id text, user_id text NOT NULL, status text NOT NULL, address jsonb NOT NULL,
  tracking_ids text[] NOT NULL, cancel_reason text NOT NULL, asked jsonb, PRIMARY KEY (play, order_id));
CREATE TABLE IF NOT EXISTS retail.order_item (
  play text, order_id text, place integer, variant_id text NOT NULL, price_cents bigint NOT NULL,
  PRIMARY KEY (play, order_id, place));
CREATE TABLE IF NOT EXISTS retail.payment (
  play text, order_id text, place integer, payment_method_id text NOT NULL,
  kind text NOT NULL CHECK (kind IN ('charge', 'refund')), amount_cents bigint NOT NULL CHECK (amount_cents >= 0),
  PRIMARY KEY (play, order_id, place));
CREATE TABLE IF NOT EXISTS retail.attempt (
  number bigserial PRIMARY KEY, play text NOT NULL, key text NOT NULL, tool text NOT NULL, arguments jsonb NOT NULL,
  outcome text NOT NULL, answer jsonb NOT NULL);
CREATE INDEX IF NOT EXISTS attempt_of ON retail.attempt (play, key);
CREATE TABLE IF NOT EXISTS retail.model_call (play text NOT NULL, turn integer NOT NULL);
CREATE TABLE IF NOT EXISTS retail.mark (play text NOT NULL, mark text NOT NULL);
CREATE TABLE IF NOT EXISTS retail.answered (play text NOT NULL, turns integer NOT NULL);
CREATE INDEX IF NOT EXISTS model_call_of ON retail.model_call (play);
"""
"""`attempt` has no unique key on purpose: what a careless tool does twice has to be there twice."""

_USERS_GONE: Final = (
    "DELETE FROM retail.customer WHERE play = %s AND user_id = ANY(%s)",
    "DELETE FROM retail.payment_method WHERE play = %s AND user_id = ANY(%s)",
)
_ORDERS_GONE: Final = (
    "DELETE FROM retail.sales_order WHERE play = %s AND order_id = ANY(%s)",
    "DELETE FROM retail.order_item WHERE play = %s AND order_id = ANY(%s)",
    "DELETE FROM retail.payment WHERE play = %s AND order_id = ANY(%s)",
)


class SqlShop:
    """The rows of one play. See `retail_keys.Shop`."""

    def __init__(self, database: Database, play: str, records: Records, *, careless: bool = False) -> None:
        self._database = database
        self._play = play
        self._records = records
        self._careless = careless

    async def open(self, customers: Iterable[str] | None = None) -> None:
        """Put the rows of these customers there, as the records have them; None: of all. Once for each play."""
        users = self._records.users
        wanted = list(users.values()) if customers is None else [users[one] for one in customers]
        orders = [self._records.orders[order] for user in wanted for order in user.order_ids]
        async with self._database.transaction() as session:
            await _write(session, self._play, wanted, orders)

    async def call(self, name: str, arguments: Mapping[str, Any], key: str) -> dict[str, Any]:
        """See `Shop.call`.

        Raises:
            DatabaseUnavailable: it may have happened or not; the same key finds that out.
        """
        async with self._database.transaction() as session:
            await session.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [self._play])
            if key and not self._careless and (found := await self._answered(session, key)) is not None:
                return found
            desk = RetailDesk(await self._rows(session))
            answer: dict[str, Any] = await functions_of(desk)[name](**arguments)
            if name in EFFECTS:
                await self._keep(session, desk, key, answer)
            return answer

    async def tables(self) -> Tables:
        """What it holds now."""
        async with self._database.transaction() as session:
            rows = await self._rows(session)
            made = await session.rows(
                "SELECT tool, arguments, outcome FROM retail.attempt WHERE play = %s ORDER BY number", [self._play]
            )
        return Tables(rows.users, rows.orders, tuple(Attempt(**one) for one in made))

    async def keys(self) -> list[str]:
        """Of each effect, in order."""
        made = await self._database.rows("SELECT key FROM retail.attempt WHERE play = %s ORDER BY number", [self._play])
        return [one["key"] for one in made]

    async def _answered(self, session: Session, key: str) -> dict[str, Any] | None:
        found = await session.row("SELECT answer FROM retail.attempt WHERE play = %s AND key = %s", [self._play, key])
        answer: dict[str, Any] | None = found and found["answer"]
        return answer

    async def _rows(self, session: Session) -> Records:
        users, orders = await _read(session, self._play)
        return Records(users, orders, self._records.products, self._records.variants)

    async def _keep(self, session: Session, desk: RetailDesk, key: str, answer: dict[str, Any]) -> None:
        """Write what one call changed, and that it was tried."""
        before, after = desk.records, desk.tables()
        users = [one for one in after.users.values() if one is not before.users[one.account.account_id]]
        orders = [one for one in after.orders.values() if one is not before.orders[one.order_id]]
        await _remove(session, self._play, users, orders)
        await _write(session, self._play, users, orders)
        (attempt,) = after.attempts
        await session.execute(
            "INSERT INTO retail.attempt (play, key, tool, arguments, outcome, answer)"
            " VALUES (%s, %s, %s, %s::jsonb, %s, %s::jsonb)",
            [self._play, key, attempt.tool, _json(attempt.arguments), attempt.outcome, _json(answer)],
        )


async def _read(session: Session, play: str) -> tuple[dict[str, UserRow], dict[str, OrderRow]]:
    """All customers and orders of a play, by key."""

    async def by(column: str, query: str) -> dict[str, list[dict[str, Any]]]:
        found: dict[str, list[dict[str, Any]]] = {}
        for row in await session.rows(query, [play]):
            found.setdefault(row[column], []).append(row)
        return found

    methods = await by("user_id", "SELECT * FROM retail.payment_method WHERE play = %s ORDER BY place")
    items = await by("order_id", "SELECT * FROM retail.order_item WHERE play = %s ORDER BY place")
    payments = await by("order_id", "SELECT * FROM retail.payment WHERE play = %s ORDER BY place")
    users = await session.rows("SELECT * FROM retail.customer WHERE play = %s ORDER BY user_id", [play])
    orders = await session.rows("SELECT * FROM retail.sales_order WHERE play = %s ORDER BY order_id", [play])
    return (
        {row["user_id"]: _user(row, methods.get(row["user_id"], ())) for row in users},
        {
            one["order_id"]: _order(one, items.get(one["order_id"], ()), payments.get(one["order_id"], ()))
            for one in orders
        },
    )


def _user(row: Mapping[str, Any], methods: Iterable[Mapping[str, Any]]) -> UserRow:
    address = msgspec.convert(row["address"], Address)
    return UserRow(
        Account(row["user_id"], row["first_name"], row["last_name"], row["email"], address),
        {
            one["payment_method_id"]: PaymentMethod(
                one["payment_method_id"],
                one["user_id"],
                one["kind"],
                one["brand"],
                one["last_four"],
                one["balance_cents"],
            )
            for one in methods
        },
        tuple(row["order_ids"]),
    )


def _order(row: Mapping[str, Any], items: Iterable[Mapping[str, Any]], paid: Iterable[Mapping[str, Any]]) -> OrderRow:
    return OrderRow(
        row["order_id"],
        row["user_id"],
        row["status"],
        msgspec.convert(row["address"], Address),
        tuple(Item(one["variant_id"], one["price_cents"]) for one in items),
        tuple(row["tracking_ids"]),
        tuple(Payment(one["order_id"], one["payment_method_id"], one["kind"], one["amount_cents"]) for one in paid),
        row["cancel_reason"],
        None if row["asked"] is None else msgspec.convert(row["asked"], Asked),
    )


async def _remove(session: Session, play: str, users: Sequence[UserRow], orders: Sequence[OrderRow]) -> None:
    """Take away the rows that are replaced."""
    for statement in _USERS_GONE if users else ():
        await session.execute(statement, [play, [one.account.account_id for one in users]])
    for statement in _ORDERS_GONE if orders else ():
        await session.execute(statement, [play, [one.order_id for one in orders]])


async def _write(session: Session, play: str, users: Sequence[UserRow], orders: Sequence[OrderRow]) -> None:
    """Put rows there, by COPY: a task's customer is some thirty of them, the whole desk some six thousand."""

    async def copy(table: str, columns: str, rows: Iterable[Sequence[Any]]) -> None:
        made = [(play, *row) for row in rows]
        if made:
            await session.copy_rows(f"retail.{table}", ("play", *columns.split()), made)

    accounts = [(one.account, one.order_ids) for one in users]
    await copy(
        "customer",
        "user_id first_name last_name email address order_ids",
        [(a.account_id, a.first_name, a.last_name, a.email, _json(a.address), [*ids]) for a, ids in accounts],
    )
    await copy(
        "payment_method",
        "user_id payment_method_id place kind brand last_four balance_cents",
        [
            (m.account_id, m.payment_method_id, place, m.kind, m.brand, m.last_four, m.balance_cents)
            for one in users
            for place, m in enumerate(one.methods.values())
        ],
    )
    await copy(
        "sales_order",
        "order_id user_id status address tracking_ids cancel_reason asked",
        [
            (
                o.order_id,
                o.user_id,
                o.status,
                _json(o.address),
                [*o.tracking_ids],
                o.cancel_reason,
                o.asked and _json(o.asked),
            )
            for o in orders
        ],
    )
    await copy(
        "order_item",
        "order_id place variant_id price_cents",
        [(o.order_id, n, item.variant_id, item.price_cents) for o in orders for n, item in enumerate(o.items)],
    )
    await copy(
        "payment",
        "order_id place payment_method_id kind amount_cents",
        [
            (o.order_id, n, p.payment_method_id, p.kind, p.amount_cents)
            for o in orders
            for n, p in enumerate(o.payments)
        ],
    )


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
