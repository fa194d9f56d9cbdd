"""Where a money tool begins: a row that says so, committed before its effect, and by which process.

"Two attempts, one refund" is then a query (ledger.py).
"""

from callboard.persistence.postgres.database import Database


class Attempts:
    """Writes attempts for one process, `node`."""

    def __init__(self, database: Database, node: str) -> None:
        self._database = database
        self._node = node

    async def begin(self, tool: str, subject: str, key: str) -> None:
        """A call of `tool` begins under `key`; `subject` is what the caller named, and may not exist."""
        await self._database.execute(
            "INSERT INTO crm.attempt (idempotency_key, tool, order_id, node) VALUES (%s, %s, %s, %s)",
            (key, tool, subject, self._node),
        )
