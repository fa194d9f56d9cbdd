"""The steps of closing an account, over the desk's tables: each is one transaction, and is taken or taken back once.

Every step locks the account's `crm.offboarding` row first, whose state only goes on (asked, running, undoing, done or
undone): a step that comes late, from a node that was thought dead, finds that it was taken, or is being taken back, and
changes nothing. `crm.offboarding_step.before` keeps what it takes to put things back.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

import msgspec

from callboard.crm.contacts import write_export
from callboard.crm.handover import hand_over, kept
from callboard.crm.locks import lock_account
from callboard.crm.offboard import in_the_way
from callboard.crm.offboarding import Opened, Refused, Step
from callboard.persistence.postgres.database import Database, Session

_ASKED = """
SELECT offboarding_id, state, why FROM crm.offboarding
WHERE state IN ('asked', 'running', 'undoing') ORDER BY offboarding_id LIMIT %s
"""
_LOCK = """
SELECT offboarding_id, account_id, state, approval, idempotency_key FROM crm.offboarding
WHERE offboarding_id = %s FOR UPDATE
"""
_STATE = """
UPDATE crm.offboarding SET state = %(state)s, why = %(why)s,
    ended_at = CASE WHEN %(state)s IN ('done', 'undone') THEN crm.clock() END
WHERE offboarding_id = %(id)s
"""
_STEP = "SELECT state, before FROM crm.offboarding_step WHERE offboarding_id = %(id)s AND step = %(step)s"
_TAKEN = """
INSERT INTO crm.offboarding_step (offboarding_id, step, state, before)
VALUES (%(id)s, %(step)s, %(state)s, %(before)s::jsonb) ON CONFLICT DO NOTHING
"""
_UNDONE = """
UPDATE crm.offboarding_step SET state = 'compensated', at = crm.clock()
WHERE offboarding_id = %(id)s AND step = %(step)s
"""
_LIVE = """
SELECT subscription_id, status, renews, paused_at::text AS paused_at FROM crm.subscription
WHERE account_id = %s AND status <> 'cancelled' ORDER BY subscription_id FOR UPDATE
"""
_CANCEL = """
UPDATE crm.subscription SET status = 'cancelled', renews = false, paused_at = NULL WHERE subscription_id = %s
"""
_REVIVE = """
UPDATE crm.subscription SET status = %(status)s, renews = %(renews)s, paused_at = %(paused_at)s::timestamptz
WHERE subscription_id = %(subscription_id)s AND status = 'cancelled'
"""
_WITHDRAW = """
UPDATE crm.contact_export SET content = '{}', withdrawn_at = crm.clock()
WHERE idempotency_key = %s AND withdrawn_at IS NULL
"""
_TICKET = """
SELECT t.ticket_id FROM crm.ticket t
WHERE lower(t.from_email) IN (
    SELECT lower(email) FROM crm.account WHERE account_id = %(account)s
    UNION SELECT lower(email) FROM crm.contact WHERE account_id = %(account)s)
ORDER BY t.created_at DESC, t.ticket_id DESC LIMIT 1
"""

Act: TypeAlias = Callable[[Session, Mapping[str, Any]], Awaitable[Any]]


class DeskClosing:
    """`Closing` over the desk's tables."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._take: dict[Step, Act] = {
            "cancel_subscriptions": _cancel_subscriptions,
            "export": _export,
            "close": _close,
        }
        self._undo: dict[Step, Act] = {
            "cancel_subscriptions": _revive_subscriptions,
            "export": _withdraw,
            "close": _open_again,
        }

    async def asked(self, limit: int) -> list[Opened]:
        """See `Closing.asked`."""
        rows = await self._database.rows(_ASKED, (limit,))
        return [Opened(str(row["offboarding_id"]), row["state"] == "undoing", row["why"]) for row in rows]

    async def take(self, offboarding: str, step: Step) -> None:
        """See `Closing.take`.

        Raises:
            Refused: it cannot be taken.
        """
        async with self._database.transaction() as session:
            row = await _lock(session, offboarding)
            at = {"id": row["offboarding_id"], "step": step}
            if row["state"] not in ("asked", "running") or await session.row(_STEP, at) is not None:
                return
            before = await self._take[step](session, row)
            kept_before = msgspec.json.encode(before).decode()
            await session.execute(_TAKEN, {**at, "state": "done", "before": kept_before})
            await session.execute(_STATE, {"id": row["offboarding_id"], "state": "running", "why": ""})

    async def undo(self, offboarding: str, step: Step, why: str) -> None:
        """See `Closing.undo`."""
        async with self._database.transaction() as session:
            row = await _lock(session, offboarding)
            if row["state"] in ("done", "undone"):
                return
            at = {"id": row["offboarding_id"], "step": step}
            await session.execute(_STATE, {"id": at["id"], "state": "undoing", "why": kept(why)})
            taken = await session.row(_STEP, at)
            if taken is None:
                await session.execute(_TAKEN, {**at, "state": "failed", "before": "{}"})
            elif taken["state"] == "done":
                await self._undo[step](session, {**row, "before": taken["before"]})
                await session.execute(_UNDONE, at)

    async def finish(self, offboarding: str, why: str) -> None:
        """See `Closing.finish`."""
        async with self._database.transaction() as session:
            row = await _lock(session, offboarding)
            if row["state"] in ("done", "undone"):
                return
            state = "undone" if why else "done"
            await session.execute(_STATE, {"id": row["offboarding_id"], "state": state, "why": kept(why)})
            if why:
                said = f"Account {row['account_id']} was not closed: {why}. All is as it was before."
                await _tell(session, row, said, "undone")

    async def tell_stuck(self, offboarding: str, step: Step, why: str) -> None:
        """See `Closing.tell_stuck`."""
        async with self._database.transaction() as session:
            row = await _lock(session, offboarding)
            said = f"Account {row['account_id']} is half closed: {step} could not be taken back so far ({why})."
            await _tell(session, row, said, f"{step} stuck")


async def _lock(session: Session, offboarding: str) -> dict[str, Any]:
    row = await session.row(_LOCK, (int(offboarding),))
    assert row is not None  # rows are never deleted, and the id came from one
    return row


async def _tell(session: Session, row: Mapping[str, Any], why: str, what: str) -> None:
    """By the latest ticket of the account; where it never wrote one, the row itself is all there is."""
    ticket = await session.row(_TICKET, {"account": row["account_id"]})
    if ticket is not None:
        await hand_over(session, ticket["ticket_id"], why, f"offboarding {row['offboarding_id']} {what}")


async def _cancel_subscriptions(session: Session, row: Mapping[str, Any]) -> Any:
    await lock_account(session, row["account_id"])
    live = await session.rows(_LIVE, (row["account_id"],))
    for one in live:
        await session.execute(_CANCEL, (one["subscription_id"],))
    return {"subscriptions": live}


async def _revive_subscriptions(session: Session, row: Mapping[str, Any]) -> None:
    await lock_account(session, row["account_id"])
    for one in row["before"]["subscriptions"]:
        await session.execute(_REVIVE, one)


async def _export(session: Session, row: Mapping[str, Any]) -> Any:
    await lock_account(session, row["account_id"])
    key = _export_key(row)
    await write_export(session, row["account_id"], key, row["approval"])
    return {"idempotency_key": key}


async def _withdraw(session: Session, row: Mapping[str, Any]) -> None:
    await session.execute(_WITHDRAW, (_export_key(row),))


async def _close(session: Session, row: Mapping[str, Any]) -> Any:
    account = await lock_account(session, row["account_id"])
    assert account is not None  # accounts are never deleted
    if what := await in_the_way(session, row["account_id"]):
        raise Refused(what)
    await session.execute("UPDATE crm.account SET status = 'closed' WHERE account_id = %s", (row["account_id"],))
    return {"status": account["status"]}


async def _open_again(session: Session, row: Mapping[str, Any]) -> None:
    await lock_account(session, row["account_id"])
    was = (row["before"]["status"], row["account_id"])
    await session.execute("UPDATE crm.account SET status = %s WHERE account_id = %s", was)


def _export_key(row: Mapping[str, Any]) -> str:
    return f"{row['idempotency_key']}/export"
