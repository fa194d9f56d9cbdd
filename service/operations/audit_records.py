"""Rows of the audit trail with what they are about: the gated call, its sums, and what came of it.

The trail says who did what; the decision rows and the journals say to what, and what happened then. Both are read for
the rows that somebody looks at, and only for those.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from ...persistence.operating import AuditRow
from .audit import audit_line
from .decided import NO_CALL, Outcomes
from .lookup import run_id_of
from .runs import Operations
from .views import ApprovalView, approval_view

_DID = {
    "sign": "signed",
    "take back": "taken back",
    "submit": "submitted",
    "tell": "told",
    "cancel": "cancelled",
    "fork": "forked",
    "pause": "paused",
    "resume": "resumed",
    "kill": "killed",
    "edit": "edited",
    "requeue": "requeued",
    "discard": "discarded",
    "reveal": "revealed",
    "export": "exported",
    "give up": "given up",
    "token create": "token made",
    "token revoke": "token revoked",
}


class AuditRecord(msgspec.Struct, frozen=True):
    """A row, and what it is about."""

    row: AuditRow
    did: str
    """What was done, in the past tense: approved, denied, requeued, …"""
    approval: ApprovalView | None = None
    """The gated call it is about, as it is now."""
    outcome: str = ""
    """What came of it; "" where nothing did, or nothing yet."""

    @property
    def settled(self) -> bool:
        """Whether its outcome can still change."""
        return self.approval is None or self.approval.status not in ("pending", "approved", "released")


def did_of(row: AuditRow) -> str:
    """What was done, in the past tense where it is known here."""
    if row.action in ("decide", "move") and row.after:
        return row.after
    return _DID.get(row.action, row.action)


def about_a_call(row: AuditRow) -> bool:
    """Whether its object is the id of a decision."""
    return bool(row.object) and row.action in ("decide", "sign", "take back", "edit", "move", "ask")


async def records(operations: Operations, rows: Sequence[AuditRow]) -> list[AuditRecord]:
    """These rows with what they are about, in the same order. Costs a read for each row about a call, and a journal for
    each run whose call was approved: ask for a screen of them.

    Raises:
        NotAllowed: without the scope `read`.
    """
    operations.require("read")
    outcomes = Outcomes(operations.store)
    return [await _record(operations, row, outcomes) for row in rows]


async def _record(operations: Operations, row: AuditRow, outcomes: Outcomes) -> AuditRecord:
    did = did_of(row)
    decision = await operations.store.decision(row.object) if about_a_call(row) else None
    if decision is None:
        return AuditRecord(row, did, outcome=_became(row))
    view = approval_view(decision, run_id_of(decision.run))
    outcome = await outcomes.of(view) if did in ("approved", "released") else NO_CALL.get(did, "")
    return AuditRecord(row, did, view, outcome)


def _became(row: AuditRow) -> str:
    return f"{row.before} → {row.after}" if row.after not in ("", row.before) else ""


def audit_item(row: AuditRow) -> dict[str, Any]:
    """`callboard.audit.item/1`: a row as a line of JSON has it."""
    return {"schema": "callboard.audit.item/1", **audit_line(row)}
