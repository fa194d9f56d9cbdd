"""What tools changed, once per key: rows of `crm.change`, which keep what was asked, what was before, and the answer.

A tool takes the key's lock (locks.py), looks whether the key has acted (`answered`), does its work and writes the row
(`record`), all in one transaction. So a repetition, at once or after a crash, gets the recorded answer and changes
nothing.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from callboard.crm.answers import refused
from callboard.persistence.postgres.database import Database, Session

_RECORDED = "SELECT tool, asked, answer FROM crm.change WHERE idempotency_key = %s"
_RECORD = """
INSERT INTO crm.change (idempotency_key, tool, subject, asked, before, answer, approval)
VALUES (%(key)s, %(tool)s, %(subject)s, %(asked)s::jsonb, %(before)s::jsonb, %(answer)s::jsonb, %(approval)s)
"""


class Change(msgspec.Struct, frozen=True):
    """A call that changes something."""

    tool: str
    subject: str
    """Id of the account, order or subscription."""
    asked: dict[str, Any]
    """The arguments, as far as another call under the same key would differ in them."""
    key: str
    approval: str | None = None

    async def answered(self, session: Session) -> dict[str, Any] | None:
        """The answer that the key got before, or that it was used for something else; None: it has done nothing yet."""
        recorded = await session.row(_RECORDED, (self.key,))
        if recorded is None:
            return None
        if (recorded["tool"], recorded["asked"]) != (self.tool, self.asked):
            return refused("key_reused", f"the key of this call of {self.tool} was used for another call before")
        return {**recorded["answer"], "dedup_hit": True}

    async def record(self, session: Session, before: Mapping[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
        """Write it down; the answer for the caller."""
        row = {
            "key": self.key,
            "tool": self.tool,
            "subject": self.subject,
            "asked": _json(self.asked),
            "before": _json(before),
            "answer": _json(answer),
            "approval": self.approval or None,
        }
        await session.execute(_RECORD, row)
        return {**answer, "dedup_hit": False}


async def reconciled(database: Database, tool: str, key: str) -> dict[str, Any] | None:
    """Say what `tool` has done under this key: its answer, or None where it did nothing (yet)."""
    recorded = await database.row(_RECORDED, (key,))
    if recorded is None or recorded["tool"] != tool:
        return None
    return {**recorded["answer"], "dedup_hit": True}


def _json(value: Mapping[str, Any]) -> str:
    return msgspec.json.encode(value).decode()
