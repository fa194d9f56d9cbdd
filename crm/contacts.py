"""The desk's tools for who and where a customer is: change a detail of an account, and hand out what is held about it.

What is handed out is written into `crm.contact_export`, not into the result: a model that asked for it sees how much it
was, and not what.
"""

import re
from typing import Any, Literal

import msgspec

from callboard.crm.answers import refused
from callboard.crm.attempts import Attempts
from callboard.crm.changes import Change, reconciled
from callboard.crm.gates import asked_by_tool, contact_terms, export_terms
from callboard.crm.locks import lock_account, lock_key
from callboard.persistence.postgres.database import Database, Session

ContactField = Literal["email", "phone", "line1", "line2", "city", "state", "country", "postcode"]

MAX_VALUE_CHARACTERS = 200
_EMAIL = re.compile(r"[^@\s,;<>\"]{1,64}@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+")
_PHONE = re.compile(r"\+?[0-9 ()/.-]{3,40}")
_MAY_BE_EMPTY = ("phone", "line2", "state")

_TAKEN = """
SELECT 1 FROM crm.account WHERE lower(email) = lower(%(value)s) AND account_id <> %(account)s
UNION ALL SELECT 1 FROM crm.contact WHERE lower(email) = lower(%(value)s) AND account_id <> %(account)s LIMIT 1
"""
_DETAILS = """
SELECT email, phone, line1, line2, city, state, country, postcode FROM crm.account WHERE account_id = %s
"""
_UPDATE = """
UPDATE crm.account SET
    email = CASE %(field)s WHEN 'email' THEN %(value)s ELSE email END,
    phone = CASE %(field)s WHEN 'phone' THEN %(value)s ELSE phone END,
    line1 = CASE %(field)s WHEN 'line1' THEN %(value)s ELSE line1 END,
    line2 = CASE %(field)s WHEN 'line2' THEN %(value)s ELSE line2 END,
    city = CASE %(field)s WHEN 'city' THEN %(value)s ELSE city END,
    state = CASE %(field)s WHEN 'state' THEN %(value)s ELSE state END,
    country = CASE %(field)s WHEN 'country' THEN %(value)s ELSE country END,
    postcode = CASE %(field)s WHEN 'postcode' THEN %(value)s ELSE postcode END
WHERE account_id = %(account_id)s RETURNING version
"""
_CONTENT = """
SELECT jsonb_build_object(
    'account', (SELECT to_jsonb(a) - 'version' FROM crm.account a WHERE a.account_id = %(account)s),
    'contacts', (SELECT coalesce(jsonb_agg(to_jsonb(c) ORDER BY c.contact_id), '[]')
                 FROM crm.contact c WHERE c.account_id = %(account)s),
    'subscriptions', (SELECT coalesce(jsonb_agg(to_jsonb(s) - 'version' ORDER BY s.subscription_id), '[]')
                      FROM crm.subscription s WHERE s.account_id = %(account)s),
    'orders', (SELECT coalesce(jsonb_agg(o.order_id ORDER BY o.order_id), '[]')
               FROM crm.sales_order o WHERE o.account_id = %(account)s)) AS content
"""
_EXPORT = """
INSERT INTO crm.contact_export (account_id, idempotency_key, content, approval)
VALUES (%(account)s, %(key)s, %(content)s::jsonb, %(approval)s) ON CONFLICT (idempotency_key) DO NOTHING
"""
_EXPORTED = """
SELECT export_id, account_id, jsonb_array_length(content->'contacts') AS contacts,
       jsonb_array_length(content->'orders') AS orders
FROM crm.contact_export WHERE idempotency_key = %s
"""


class Contacts:
    """The contact tools of one database; see `tools.py`."""

    def __init__(self, database: Database, *, node: str) -> None:
        self._database = database
        self._attempts = Attempts(database, node)

    async def update_contact(
        self,
        account_id: str,
        field: ContactField,
        value: str,
        idempotency_key: str,
        approval: str | None = None,
    ) -> dict[str, Any]:
        """Change one detail of an account: its e-mail address, phone number, or a line of its address."""
        value = value.strip()
        if (problem := _value_problem(field, value)) is not None:
            return problem
        await self._attempts.begin("update_contact", account_id, idempotency_key)
        asked = {"account_id": account_id, "field": field, "value": value}
        change = Change("update_contact", account_id, asked, idempotency_key, approval)
        async with self._database.transaction() as session:
            await lock_key(session, idempotency_key)
            if (before := await change.answered(session)) is not None:
                return before
            account = await lock_account(session, account_id)
            if account is None:
                return _no_account(account_id)
            if account["status"] == "closed":
                return refused("closed", f"account {account_id} is closed; nothing of it is changed any more")
            if field == "email" and await session.row(_TAKEN, {"value": value, "account": account_id}) is not None:
                return refused("taken", "the e-mail address belongs to another account")
            terms = contact_terms(asked)
            if terms is not None and not approval:
                raise asked_by_tool(terms)
            return await _update(session, change)

    async def reconcile_update(self, idempotency_key: str) -> dict[str, Any] | None:
        """Say what `update_contact` under this key has done: its result, or None where it did nothing (yet)."""
        return await reconciled(self._database, "update_contact", idempotency_key)

    async def export_contacts(
        self, account_id: str, idempotency_key: str, approval: str | None = None
    ) -> dict[str, Any]:
        """Write out what is held about an account, for whoever it is about. The result says how much it was."""
        async with self._database.transaction() as session:
            await lock_key(session, idempotency_key)
            recorded = await session.row(_EXPORTED, (idempotency_key,))
            if recorded is not None:
                same = recorded["account_id"] == account_id
                return _exported(recorded, dedup_hit=True) if same else _key_reused(account_id)
            if await lock_account(session, account_id) is None:
                return _no_account(account_id)
            if not approval:
                raise asked_by_tool(export_terms({"account_id": account_id}))
            return await write_export(session, account_id, idempotency_key, approval)

    async def reconcile_export(self, idempotency_key: str) -> dict[str, Any] | None:
        """Say what `export_contacts` under this key has done: its result, or None where it did nothing (yet)."""
        recorded = await self._database.row(_EXPORTED, (idempotency_key,))
        return None if recorded is None else _exported(recorded, dedup_hit=True)


async def write_export(session: Session, account_id: str, key: str, approval: str | None) -> dict[str, Any]:
    """Write out an account, once under `key`, in the caller's transaction; the result of `export_contacts`."""
    found = await session.row(_CONTENT, {"account": account_id})
    assert found is not None  # it makes one row of whatever there is
    content = msgspec.json.encode(found["content"]).decode()
    row = {"account": account_id, "key": key, "content": content, "approval": approval or None}
    written = await session.execute(_EXPORT, row)
    recorded = await session.row(_EXPORTED, (key,))
    assert recorded is not None  # it was written just now, or before
    return _exported(recorded, dedup_hit=written == 0)


async def _update(session: Session, change: Change) -> dict[str, Any]:
    asked = change.asked
    before = await session.row(_DETAILS, (change.subject,))
    now = await session.row(_UPDATE, asked)
    assert before is not None and now is not None  # it is locked
    answer = {"updated": True, **asked, "version": now["version"]}
    return await change.record(session, {asked["field"]: before[asked["field"]]}, answer)


def _value_problem(field: ContactField, value: str) -> dict[str, Any] | None:
    shapes = {"email": _EMAIL, "phone": _PHONE}
    if not value and field in _MAY_BE_EMPTY:
        return None
    if not value or len(value) > MAX_VALUE_CHARACTERS or not value.isprintable():
        return refused("bad_value", f"{field} is one line of 1 to {MAX_VALUE_CHARACTERS} characters")
    if field in shapes and shapes[field].fullmatch(value) is None:
        return refused("bad_value", f"{value!r} is no {'e-mail address' if field == 'email' else 'phone number'}")
    return None


def _exported(recorded: dict[str, Any], *, dedup_hit: bool) -> dict[str, Any]:
    return {"exported": True, **recorded, "dedup_hit": dedup_hit}


def _no_account(account_id: str) -> dict[str, Any]:
    return refused("not_found", f"there is no account {account_id!r}")


def _key_reused(account_id: str) -> dict[str, Any]:
    return refused("key_reused", f"the key of this export of account {account_id} was used for another one before")
