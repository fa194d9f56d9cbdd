"""Deciding on the calls of a run, from outside: approve, deny, take back, edit. A part of `Runs`.

A run is named, and one of its calls where several wait; which decision row that is, is looked up here. The row has the
last word: whatever is looked up may be decided by somebody else in the same moment.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from ...mailbox.address import key_of
from ...mailbox.errors import Conflict, NotAllowed, NotFound, UsageError
from ...persistence.rows import Decision, DecisionStatus, Verdict
from ...persistence.store import Store
from ..client import Client
from .digest import decision_id
from .state import RunState
from .text import MAX_SAID_CHARS, row_text

LOOK_SECONDS = 0.05
LOOK_CAP_SECONDS = 0.5
"""How long between two looks for a question that a run is about to ask anew; at first, and later."""


class RunNotFound(NotFound, ValueError):
    """There is no run of that id."""


class NotAwaiting(Conflict, ValueError):
    """The run does not wait for a decision, or for several and the call must be named."""


class Deciding:
    """What people do to held calls."""

    client: Client
    store: Store

    def address(self, run_id: str) -> str:
        """Of a run."""
        raise AttributeError("see Runs")

    async def state(self, run_id: str) -> RunState:
        """Where a run is."""
        raise AttributeError("see Runs")

    async def decide(
        self,
        run_id: str,
        status: Any,
        by: str,
        *,
        call: int | None = None,
        digest: str = "",
        note: str = "",
        hold_seconds: float = 0.0,
        label: str = "",
        channel: str = "",
        host: str = "",
    ) -> Decision:
        """Decide the one call that a run waits for; `call` names it where there are several. Where several people have
        to approve, the row that comes back is pending until the last of them has. `channel` and `host` are for the
        audit trail: by which way, and from where, `by` does it.

        Raises:
            RunNotFound, NotAwaiting; AlreadyDecided, NotAllowed, Conflict: as `Store.decide`.
        """
        who = _somebody(by)
        waiting = await self._waiting(run_id, call)
        if status == "approved" and waiting.risk == "never":
            raise NotAllowed(
                f"decision {waiting.id} cannot be approved by anybody: policy {waiting.policy}: {waiting.reason}; "
                "deny it, or edit it"
            )
        note = row_text(note, MAX_SAID_CHARS)
        verdict = Verdict(
            waiting.id,
            status,
            digest or waiting.digest,
            who,
            note,
            hold_seconds,
            row_text(label),
            channel=channel,
            host=row_text(host),
        )
        return await self.client.decide(verdict)

    async def take_back(
        self, run_id: str, by: str, *, call: int | None = None, note: str = "", label: str = ""
    ) -> Decision:
        """Take back the one approval of a run's call that is in its release hold.

        Raises:
            RunNotFound, NotAwaiting; AlreadyDecided, Conflict: as `Store.take_back`.
        """
        who = _somebody(by)
        rows = await self._rows(run_id, None, call)
        held = [row for row in rows if row.hold_id]
        decided = max((row for row in rows if row.decided_at), key=lambda row: row.decided_at, default=None)
        # Where none is held, trying to take back the latest says why that cannot be.
        found = _the_one(run_id, held) if held else decided or await self._waiting(run_id, call)
        note = row_text(note, MAX_SAID_CHARS)
        return await self.client.take_back(found.id, who, note=note, label=row_text(label))

    async def edit(
        self,
        run_id: str,
        arguments: Mapping[str, Any],
        by: str,
        *,
        call: int | None = None,
        digest: str = "",
        note: str = "",
        label: str = "",
    ) -> Decision:
        """Ask for the one call that a run waits for with these arguments instead. The decision that comes back is
        superseded; the run asks anew (`replacement`), whether the arguments fit or not.

        Raises:
            RunNotFound, NotAwaiting; AlreadyDecided, Conflict, UsageError, BadMessage: as `Client.edit`.
        """
        who = _somebody(by)
        waiting = await self._waiting(run_id, call)
        note = row_text(note, MAX_SAID_CHARS)
        return await self.client.edit(waiting.id, dict(arguments), who, digest=digest, note=note, label=row_text(label))

    async def replacement(self, decision: Decision, *, seconds: float) -> Decision | None:
        """The decision that takes the place of one that was superseded; None: the run has not asked within `seconds`,
        as no node serves it, say."""
        end, pause = self.client.port.monotonic() + seconds, LOOK_SECONDS
        while True:
            for status in ("pending", None):  # those that wait are few; it may be decided by now
                rows = await self.store.decisions(status=status, run=decision.run, limit=1_000)
                found = next((row for row in reversed(rows) if row.replaces == decision.id), None)
                if found is not None:
                    return found
            left = end - self.client.port.monotonic()
            if left <= 0:
                return None
            await self.client.port.sleep(min(pause, left))
            pause = min(2 * pause, LOOK_CAP_SECONDS)

    async def _rows(self, run_id: str, status: DecisionStatus | None, call: int | None) -> list[Decision]:
        rows = await self.store.decisions(status=status, run=self.address(run_id), limit=1_000)
        return [row for row in rows if call is None or row.call == str(call)]

    async def _waiting(self, run_id: str, call: int | None) -> Decision:
        pending = await self._rows(run_id, "pending", call)
        if pending:
            return _the_one(run_id, pending)
        state = await self.state(run_id)
        if state.status == "not_started":
            raise RunNotFound(f"no such run: {run_id}; `callboard runs` lists them")
        waits = [one.decision for one in state.pending.values() if one.decision and call in (None, one.call)]
        for decision in [*waits, *([] if call is None else [decision_id(state.name, call)])]:
            decided = await self.store.decision(decision)
            if decided is not None:
                return decided  # deciding it again says who was first
        called = [key_of(one.child) or one.child for one in state.pending.values() if one.child]
        hint = f"; it waits for the runs that it has called: {', '.join(called)}" if called else ""
        raise NotAwaiting(f"run {run_id} is not awaiting approval (status={state.status}){hint}")


def _the_one(run_id: str, rows: Sequence[Decision]) -> Decision:
    if len(rows) > 1:
        names = ", ".join(f"{row.call} ({row.tool})" for row in rows)
        raise NotAwaiting(f"run {run_id} waits for {len(rows)} decisions: name one of the calls {names}")
    return rows[0]


def _somebody(by: str) -> str:
    who = row_text(by).strip()
    if not who:
        raise UsageError("a decision needs the name of who decides")
    return who
