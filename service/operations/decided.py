"""What was decided lately: who said what, when and why, and what came of it. Newest first.

The audit trail is the list, as it is in order of time; the decision rows and the runs' journals say the rest. A journal
is read once for all the decisions of its run, so a page costs as many reads as it names runs.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from ...actors.agent import runs as _runs  # noqa: F401 - every type of event is known before a journal is read
from ...actors.agent.events import ChildEnded, ToolCallCompleted, ToolCallFailed, ToolCallInDoubt, ToolCallRequested
from ...mailbox.message import decode_tagged
from ...persistence.operating import AuditRow
from ...persistence.store import Store
from ..trace_text import duration
from .audit import MAX_ROWS
from .lookup import run_id_of
from .runs import Operations
from .views import ApprovalView, approval_document, approval_view, moment

ACTIONS = ("decide", "sign", "take back")
MAX_COUNTED = 1_000


class Decided(msgspec.Struct, frozen=True):
    """One word on a gated call, and what came of it."""

    at: float
    did: str
    """approved, signed (one of several who have to approve), denied, expired, superseded (by an edit), taken back."""
    who: str
    label: str
    channel: str
    note: str
    approval: ApprovalView
    """As it is now."""
    outcome: str
    """What came of the call: `ran once, 1.2 s`; "" where nothing did yet."""


async def decided(operations: Operations, *, who: str = "", limit: int = 50) -> list[Decided]:
    """The latest decisions, of one principal if given. Without the scope `read` NotAllowed."""
    operations.require("read")
    store, found = operations.store, list[AuditRow]()
    for action in ACTIONS:
        found += await store.audit(action=action, who=who, limit=min(limit, MAX_ROWS))
    found.sort(key=lambda row: -row.number)
    outcomes = Outcomes(store)
    lines = [await _line(store, row, outcomes) for row in found[:limit]]
    return [line for line in lines if line is not None]


async def decided_since(operations: Operations, since: float) -> tuple[int, int]:
    """How many words were said on gated calls since then (of the latest `MAX_COUNTED` of each sort), and the number of
    the newest one's audit row, by which it is seen whether there are others now; 0: there is none."""
    operations.require("read")
    count = newest = 0
    for action in ACTIONS:
        rows = await operations.store.audit(action=action, limit=MAX_COUNTED)
        count += sum(row.at >= since for row in rows)
        newest = max(newest, max((row.number for row in rows), default=0))
    return count, newest


async def _line(store: Store, row: AuditRow, outcomes: "Outcomes") -> Decided | None:
    decision = await store.decision(row.object)
    if decision is None:
        return None
    view = approval_view(decision, run_id_of(decision.run))
    did = {"take back": "taken back", "sign": "signed"}.get(row.action, row.after)
    outcome = await outcomes.of(view) if did == "approved" else NO_CALL.get(did, "")
    return Decided(row.at, did, row.who, row.label, row.channel, row.note, view, outcome)


NO_CALL = {
    "denied": "not made; the model was told",
    "expired": "not made: nobody decided in time",
    "superseded": "asked for anew",
    "taken back": "asked for again",
    "signed": "waited for others",
}


class Outcomes:
    """What came of calls, read off the journals of their runs."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._read: dict[str, dict[str, str]] = {}

    async def of(self, view: ApprovalView) -> str:
        """What came of an approved call."""
        if view.status == "approved":
            return f"held until {moment(view.release_at)}" if view.can_take_back else "let go; not made yet"
        if view.status == "pending":
            return "asked for again"
        if view.run_address not in self._read:
            self._read[view.run_address] = await self._calls(view.run_address)
        return self._read[view.run_address].get(view.call, "let go; not made yet")

    async def _calls(self, address: str) -> dict[str, str]:
        said: dict[str, str] = {}
        seq = 0
        while page := await self._store.journal(address, after=seq):
            seq = page[-1].seq
            for row in page:
                event: Any = decode_tagged(row.type, row.body)
                if (told := _told(event)) is not None:
                    said[str(event.call)] = told
        return said


def _told(event: Any) -> str | None:
    match event:
        case ToolCallRequested():
            return "under way"
        case ToolCallCompleted():
            took = f", {duration(event.duration_ms / 1000)}" if event.duration_ms else ""
            again = f" at attempt {event.attempt}" if event.attempt > 1 else ""
            return f"ran once{again}{took}" + (", recovered by another node" if event.recovered else "")
        case ToolCallFailed():
            return "failed; the model was told" if event.final else f"failed at attempt {event.attempt}; tried again"
        case ToolCallInDoubt():
            return "in doubt"
        case ChildEnded():
            return f"its run {event.status}"
        case _:
            return None


def decided_document(found: Sequence[Decided]) -> dict[str, Any]:
    """`callboard.decided/1` is what several decisions came to; this is `callboard.decisions/1`: what was decided."""
    items = [
        {
            "at": moment(one.at),
            "did": one.did,
            "who": one.who,
            "label": one.label or None,
            "channel": one.channel or None,
            "note": one.note,
            "outcome": one.outcome,
            "approval": approval_document(one.approval),
        }
        for one in found
    ]
    return {"schema": "callboard.decisions/1", "items": items}
