"""The desk's writing tools: notes, ticket status, and mail to the customer.

Each leaves exactly one row per idempotency key, however often it runs. The recipient of a reply is not an argument: it
is the address that the ticket came from, so that no text, wherever it comes from, can send the desk's mail elsewhere.
What a model wrote is stored as untrusted, because it may have copied it from a customer.
"""

from typing import Any, Literal

from callboard.crm.answers import refused, text_problem
from callboard.persistence.postgres.database import Database, Session

TicketStatus = Literal["open", "waiting", "resolved", "rejected", "escalated"]

_ACTIVITY = """
INSERT INTO crm.activity (ticket_id, kind, body, trust, idempotency_key)
VALUES (%(ticket)s, %(kind)s, %(body)s, 'untrusted', %(key)s) ON CONFLICT (idempotency_key) DO NOTHING
"""
_WRITTEN = "SELECT ticket_id, body FROM crm.activity WHERE idempotency_key = %s AND kind = %s"
_MAIL = """
INSERT INTO crm.outbox (idempotency_key, ticket_id, recipient, body)
VALUES (%(key)s, %(ticket)s, %(recipient)s, %(body)s) ON CONFLICT (idempotency_key) DO NOTHING
"""


class Casework:
    """The writing tools of one database. Every public method is a tool; see `tools.py`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add_note(self, ticket_id: str, text: str, idempotency_key: str) -> dict[str, Any]:
        """Leave a note on a ticket for colleagues. Customers do not see it."""
        if (problem := text_problem(text)) is not None:
            return problem
        async with self._database.transaction() as session:
            if await _lock_ticket(session, ticket_id) is None:
                return _no_ticket(ticket_id)
            activity = {"ticket": ticket_id, "kind": "note", "body": text, "key": idempotency_key}
            written = await session.execute(_ACTIVITY, activity)
        return _noted(ticket_id, dedup_hit=written == 0)

    async def reconcile_note(self, idempotency_key: str) -> dict[str, Any] | None:
        """Say what `add_note` under this key has done: its result, or None where it did nothing (yet)."""
        written = await self._database.row(_WRITTEN, (idempotency_key, "note"))
        return None if written is None else _noted(written["ticket_id"], dedup_hit=True)

    async def set_ticket(
        self, ticket_id: str, status: TicketStatus, resolution: str, idempotency_key: str
    ) -> dict[str, Any]:
        """Set the status of a ticket, with one sentence that says why."""
        if (problem := text_problem(resolution)) is not None:
            return problem
        async with self._database.transaction() as session:
            ticket = await _lock_ticket(session, ticket_id)
            if ticket is None:
                return _no_ticket(ticket_id)
            if ticket["handed_over"]:
                return refused("handed_over", f"ticket {ticket_id} was left to a colleague, who sets it now")
            activity = {
                "ticket": ticket_id,
                "kind": "status",
                "body": f"{status}: {resolution}",
                "key": idempotency_key,
            }
            written = await session.execute(_ACTIVITY, activity)
            # A late repetition must not undo what was set since: the activity row says whether this is the first time.
            if written:
                await session.execute(
                    "UPDATE crm.ticket SET status = %s, resolution = %s, updated_at = crm.clock() WHERE ticket_id = %s",
                    (status, resolution, ticket_id),
                )
        return {"ticket_id": ticket_id, "status": status, "dedup_hit": written == 0}

    async def reconcile_status(self, idempotency_key: str) -> dict[str, Any] | None:
        """Say what `set_ticket` under this key has done: its result, or None where it did nothing (yet)."""
        written = await self._database.row(_WRITTEN, (idempotency_key, "status"))
        if written is None:
            return None
        return {"ticket_id": written["ticket_id"], "status": written["body"].split(":", 1)[0], "dedup_hit": True}

    async def reply_to_customer(self, ticket_id: str, text: str, idempotency_key: str) -> dict[str, Any]:
        """Send an answer to the customer who wrote the ticket."""
        if (problem := text_problem(text)) is not None:
            return problem
        async with self._database.transaction() as session:
            ticket = await _lock_ticket(session, ticket_id)
            if ticket is None:
                return _no_ticket(ticket_id)
            mail = {"key": idempotency_key, "ticket": ticket_id, "recipient": ticket["from_email"], "body": text}
            written = await session.execute(_MAIL, mail)
            if written:
                await session.execute(
                    "INSERT INTO crm.message (ticket_id, author, trust, body) VALUES (%s, 'desk', 'untrusted', %s)",
                    (ticket_id, text),
                )
        return _queued(ticket_id, dedup_hit=written == 0)

    async def reconcile_reply(self, idempotency_key: str) -> dict[str, Any] | None:
        """Say what `reply_to_customer` under this key has done: its result, or None where it did nothing (yet)."""
        queued = await self._database.row(
            "SELECT ticket_id FROM crm.outbox WHERE idempotency_key = %s", (idempotency_key,)
        )
        return None if queued is None else _queued(queued["ticket_id"], dedup_hit=True)


async def _lock_ticket(session: Session, ticket_id: str) -> dict[str, Any] | None:
    # Every tool locks the ticket's row before it writes anything of it: no two of them can wait for each other.
    sql = "SELECT from_email, handed_over FROM crm.ticket WHERE ticket_id = %s FOR UPDATE"
    return await session.row(sql, (ticket_id,))


def _noted(ticket_id: str, *, dedup_hit: bool) -> dict[str, Any]:
    return {"noted": True, "ticket_id": ticket_id, "dedup_hit": dedup_hit}


def _queued(ticket_id: str, *, dedup_hit: bool) -> dict[str, Any]:
    return {"queued": True, "ticket_id": ticket_id, "dedup_hit": dedup_hit}


def _no_ticket(ticket_id: str) -> dict[str, Any]:
    return refused("not_found", f"there is no ticket {ticket_id!r}")
