"""Install the desk's schema and its database role, once, however many processes ask at the same time.

Rights are the second half of the schema: the role may read the records, append to the ledger and change tickets, and
nothing else; it has no rights on the runtime's schema, so that a tool with a hole in it cannot reach the mailboxes.
"""

import hashlib
import re
from pathlib import Path

import msgspec

from callboard.mailbox.errors import UsageError
from callboard.persistence.postgres.database import Database, DatabaseRefused, Session

APP_ROLE = "crm_app"
RUNTIME_SCHEMA = "callboard"

# Two installers or two loaders must not meet half-way; held to the end of the transaction.
_LOCK = int.from_bytes(hashlib.sha256(b"crm schema and load").digest()[:8], "big", signed=True)

_INSTALLED = "SELECT obj_description(oid, 'pg_namespace') AS mark FROM pg_namespace WHERE nspname = 'crm'"

_MAKE_ROLE = """
DO $$ BEGIN
    CREATE ROLE {role} NOLOGIN;
EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL;  -- roles are shared by all databases of a server
END $$
"""

_MAKE_LOGIN = """
DO $$ BEGIN
    CREATE ROLE {name} LOGIN;
EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL;
END $$;
DO $$ BEGIN
    GRANT {role} TO {name};
EXCEPTION WHEN unique_violation THEN NULL;
END $$
"""

# Since PostgreSQL 16 the creator of a role may administer it but not become it: that takes a grant, except for a
# superuser.
_JOIN_ROLE = """
DO $$ DECLARE
    wanted text := CASE WHEN current_setting('server_version_num')::integer >= 160000 THEN 'SET' ELSE 'MEMBER' END;
BEGIN
    IF NOT pg_has_role(current_user, '{role}', wanted) THEN
        EXECUTE format('GRANT {role} TO %I', current_user);
    END IF;
EXCEPTION WHEN unique_violation THEN NULL;
END $$
"""

_GRANTS = """
GRANT USAGE ON SCHEMA crm TO {role};
GRANT SELECT ON crm.desk, crm.account, crm.contact, crm.payment_method, crm.product, crm.variant, crm.sales_order,
    crm.order_item, crm.exchanged_item, crm.current_item, crm.fulfillment, crm.payment, crm.subscription, crm.deal,
    crm.change, crm.contact_export, crm.offboarding, crm.offboarding_step, crm.attempt, crm.ticket, crm.message,
    crm.activity, crm.kb_article, crm.outbox, crm.tool_policy, crm.renewal_notice TO {role};
GRANT INSERT ON crm.payment, crm.exchanged_item, crm.change, crm.contact_export, crm.offboarding, crm.offboarding_step,
    crm.attempt, crm.message, crm.activity, crm.outbox, crm.renewal_notice TO {role};
GRANT UPDATE (email, phone, line1, line2, city, state, country, postcode, status) ON crm.account TO {role};
GRANT UPDATE (status, cancel_key) ON crm.sales_order TO {role};
GRANT UPDATE (balance_cents) ON crm.payment_method TO {role};
GRANT UPDATE (status, renews, paid_until, paused_at) ON crm.subscription TO {role};
GRANT UPDATE (state, why, ended_at) ON crm.offboarding TO {role};
GRANT UPDATE (content, withdrawn_at) ON crm.contact_export TO {role};
GRANT UPDATE (state, before, at) ON crm.offboarding_step TO {role};
GRANT UPDATE (status, resolution, updated_at, handed_over) ON crm.ticket TO {role};
GRANT UPDATE (sent_at, not_before, bounced_at, tries, trouble) ON crm.outbox TO {role}
"""


class Installation(msgspec.Struct, frozen=True):
    """What `install` found possible."""

    role: str | None
    """Open the desk's `Database` with this role; None where the connecting user may not create or become it."""
    note: str
    """One sentence about the rights, for people."""


async def install(database: Database, *, role: str = APP_ROLE) -> Installation:
    """Create what is missing of the schema and the role, and grant the rights. Can be called again at any time.

    `database` must be opened without a role, by the user who owns the tables or will own them. `role` is a plain
    lower-case name; UsageError says so where it is not.
    """
    if re.fullmatch(r"[a-z_][a-z0-9_]{0,62}", role) is None:
        raise UsageError(f"{role!r} cannot be the desk's role; take lower-case letters, digits and underscores")
    async with database.transaction() as session:
        await lock_desk(session)
        await _install_schema(session)
    return await _install_role(database, role)


async def install_login(database: Database, *, role: str = APP_ROLE) -> str:
    """Make a user that may do what `role` may and nothing else; its name. It has no password: for servers that let
    everybody in who reaches them, as an embedded one does.

    `install` comes before. DatabaseRefused where the connecting user may not make roles.
    """
    name = f"{role}_login"
    async with database.transaction() as session:
        await lock_desk(session)
        await session.execute(_MAKE_LOGIN.format(role=role, name=name))
    return name


async def lock_desk(session: Session) -> None:
    """Wait for the lock that installing and loading take, and hold it to the end of the transaction."""
    # As long as a statement may take: on a busy machine, loading takes longer than a tool may wait for a row.
    await session.execute("SET LOCAL lock_timeout = 0")
    await session.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))


async def _install_schema(session: Session) -> None:
    text = Path(__file__).with_name("schema.sql").read_text(encoding="utf-8")
    mark = f"callboard desk {hashlib.sha256(text.encode()).hexdigest()[:16]}"
    # Even "if not exists" takes locks on tables, in an order that could cross that of a tool at work: run it only when
    # this very text has not been run.
    if await session.row(_INSTALLED) != {"mark": mark}:
        await session.execute(text)
        await session.execute(f"COMMENT ON SCHEMA crm IS '{mark}'")


async def _install_role(database: Database, role: str) -> Installation:
    try:
        async with database.transaction() as session:
            await lock_desk(session)
            if await session.row("SELECT 1 FROM pg_roles WHERE rolname = %s", (role,)) is None:
                await session.execute(_MAKE_ROLE.format(role=role))
            await session.execute(_JOIN_ROLE.format(role=role))
            await session.execute(_GRANTS.format(role=role))
            reach = await session.row(
                "SELECT has_schema_privilege(%s, oid, 'USAGE') AS reaches FROM pg_namespace WHERE nspname = %s",
                (role, RUNTIME_SCHEMA),
            )
    except DatabaseRefused as refusal:
        if refusal.sqlstate != "42501":  # insufficient_privilege
            raise
        note = (
            f"the desk's tools work with the rights of the connecting user: it may not create or become {role}."
            f" To separate them, let an administrator run: CREATE ROLE {role}; GRANT {role} TO that user"
        )
        return Installation(role=None, note=note)
    if reach is not None and reach["reaches"]:
        note = f"the role {role} can use the schema {RUNTIME_SCHEMA}; revoke that to separate tools from runtime"
        return Installation(role=role, note=note)
    return Installation(role=role, note=f"the desk's tools work under the role {role}, apart from the runtime")
