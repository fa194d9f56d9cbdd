"""Deciding on gated calls: which one is meant, whether its money was repeated, and what became of the attempt.

The decision row is the arbiter: whatever is checked here is checked on a row that somebody else may decide in the same
moment, and the store's compare-and-set on status and digest has the last word.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ..actors.agent.runs import NotAwaiting
from ..mailbox.errors import AlreadyDecided, Conflict, NotFound, UsageError
from ..persistence.rows import Decision, DecisionStatus, Verdict
from .lookup import find_run, is_text, run_id_of
from .money import require_repeated
from .operations import Operations
from .views import ApprovalView, approval_view, moment

MIN_DIGEST_CHARS = 12
MAX_NOTE_CHARS = 4_000
MAX_LABEL_CHARS = 200


class Expired(AlreadyDecided):
    """Nobody decided in time, and that means no."""


@dataclass(frozen=True)
class Answer:
    """What somebody decides, and the proof that they looked."""

    status: Literal["approved", "denied"]
    amounts: tuple[str, ...] = ()
    """The sums of money in the call's arguments, repeated (see `money`)."""
    expect_digest: str = ""
    """The beginning of the digest of what was looked at."""
    note: str = ""
    label: str = ""

    def lets_go(self, view: ApprovalView) -> bool:
        """Whether the call is made after this, or is said to have been made; a call in doubt that did not happen is
        made again."""
        return self.status == "approved" or view.kind == "in-doubt"


class Decisions:
    """The approvals of one store, decided as one principal."""

    def __init__(self, operations: Operations) -> None:
        self.store = operations.store
        self.client = operations.client
        self.principal = operations.principal

    async def list(self, *, status: DecisionStatus | None = "pending", limit: int = 100) -> list[ApprovalView]:
        """Approvals, oldest first; those that wait unless another status (None: any) is asked for."""
        rows = await self.store.decisions(status=status, limit=limit)
        return [_view(row) for row in rows]

    async def find(self, given: str, *, call: int | None = None) -> ApprovalView:
        """The approval that `given` names: its id, or a run (see `find_run`) that waits for one, or for `call`.

        Raises:
            NotFound: neither. Conflict: the run waits for none, or for several and `call` does not say which.
        """
        row = await self.store.decision(given) if given.strip() and is_text(given) else None
        if row is not None and (call is None or row.call == str(call)):
            return _view(row)
        try:
            address = await find_run(self.store, given)
        except NotFound:
            raise NotFound(f"no approval and no run {given[:80]!r}; `callboard approvals` lists what waits") from None
        rows = await self.store.decisions(run=address, limit=1_000)
        return _view(_meant(rows, run_id_of(address), call))

    async def decide(self, given: str, answer: Answer, *, call: int | None = None) -> ApprovalView:
        """Decide one gated call; how it is recorded.

        Raises:
            NotFound, Conflict: as `find`. UsageError: the call lets money go, and its sums were not repeated. Conflict:
            the digest is another one. AlreadyDecided, Expired: somebody, or time, was first.
        """
        if len(answer.note) > MAX_NOTE_CHARS or len(answer.label) > MAX_LABEL_CHARS:
            raise UsageError(f"a note may have {MAX_NOTE_CHARS} characters and a label {MAX_LABEL_CHARS}")
        view = await self.find(given, call=call)
        self._require_pending(view, await self.store.now())
        _require_digest(view, answer.expect_digest)
        if answer.lets_go(view) or answer.amounts:
            require_repeated(view.money, answer.amounts, whose=f"approval {view.id}")
        verdict = Verdict(view.id, answer.status, view.digest, self.principal, answer.note, label=answer.label)
        try:
            return _view(await self.client.decide(verdict))
        except AlreadyDecided:
            # Somebody was first between the two; the row says who, and whether it was time.
            self._require_pending(await self.find(view.id), await self.store.now())
            raise

    def _require_pending(self, view: ApprovalView, now: float) -> None:
        """Refuse at once, and with the first decider's name, what cannot be decided any more."""
        overdue = view.status == "pending" and 0 < view.expires_at <= now
        if view.status == "expired" or overdue:
            raise Expired(f"approval {view.id} expired, which means no; the run goes on without the call")
        if view.status != "pending":
            who = view.decided_by or "the system"
            when = f" at {moment(view.decided_at)}" if view.decided_at else ""
            raise AlreadyDecided(f"approval {view.id} was {view.status} by {who}{when}; a decision is made once")


def _meant(rows: Sequence[Decision], run_id: str, call: int | None) -> Decision:
    named = [row for row in rows if call is None or row.call == str(call)]
    pending = [row for row in named if row.status == "pending"]
    if len(pending) == 1:
        return pending[0]
    if pending:
        names = ", ".join(f"{row.call} ({row.tool})" for row in pending)
        raise NotAwaiting(f"run {run_id} waits for {len(pending)} decisions; say which with --call: {names}")
    if named:
        return named[-1]  # deciding it again says who was first
    if call is not None:
        raise NotFound(f"run {run_id} has no gated call {call}; `callboard approvals` lists what waits")
    raise NotAwaiting(f"run {run_id} waits for no decision; `callboard show {run_id}` says what it does")


def _require_digest(view: ApprovalView, expected: str) -> None:
    if not expected:
        return
    if len(expected) < MIN_DIGEST_CHARS:
        raise UsageError(f"--expect-digest: expected at least {MIN_DIGEST_CHARS} characters of it, got {expected!r}")
    if not view.digest.startswith(expected.lower()):
        raise Conflict(
            f"approval {view.id}: the digest on record is {view.digest[:MIN_DIGEST_CHARS]}…, not {expected[:80]!r}; "
            "look at it again, nothing was decided"
        )


def _view(row: Decision) -> ApprovalView:
    return approval_view(row, run_id_of(row.run))
