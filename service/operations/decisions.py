"""Deciding on gated calls: which one is meant, whether its money was repeated, and what became of the attempt.

The decision row is the arbiter: whatever is checked here is checked on a row that somebody else may decide in the same
moment, and the store's compare-and-set on status and digest has the last word.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ...actors.agent.text import row_text
from ...mailbox.errors import (
    AlreadyDecided,
    CallboardError,
    Conflict,
    NotAllowed,
    NotFound,
    StoreUnavailable,
    UsageError,
)
from ...persistence.rows import Decision, DecisionStatus, Verdict
from .argument_paths import with_changes
from .demands import Demand, demand_of, failed_checks, why_high
from .lookup import find_run, is_text, run_id_of
from .money import require_repeated
from .runs import Operations
from .suspect import suspects_in
from .views import ApprovalView, approval_view, moment

MIN_DIGEST_CHARS = 12
MAX_NOTE_CHARS = 4_000
MAX_LABEL_CHARS = 200
USUAL_REASONS = ("outside of the policy", "needs proof first", "wrong amount", "not our customer")
MAX_COMMON = 5
MAX_COMMON_CHARS = 80
_LATELY = 200
"""Rows that are looked at for what was said or done lately."""


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
    key: str = ""
    """Chosen before it is sent, and kept with it in the audit: by it, `Decisions.arrived` knows this one again."""

    seen_failed: tuple[str, ...] | None = None
    """Checks that were seen to have failed; an approval is refused where another has meanwhile. None: not said."""

    def lets_go(self, view: ApprovalView) -> bool:
        """Whether the call is made after this, or is said to have been made; a call in doubt that did not happen is
        made again."""
        return self.status == "approved" or view.kind == "in-doubt"


class Decisions:
    """The approvals of one store, decided as one principal."""

    def __init__(self, operations: Operations) -> None:
        self.store = operations.store
        self.client = operations.client
        self.who = operations.who

    async def list(self, *, status: DecisionStatus | None = "pending", limit: int = 100) -> list[ApprovalView]:
        """Approvals, oldest first; those that wait unless another status (None: any) is asked for."""
        self.who.require("read")
        rows = await self.store.decisions(status=status, limit=limit)
        return [_view(row) for row in rows]

    async def find(self, given: str, *, call: int | None = None, status: DecisionStatus = "pending") -> ApprovalView:
        """The approval that `given` names: its id, or a run (see `find_run`) that waits for one, itself or through an
        agent that it has called, or for `call`; or has one in another `status`.

        Raises:
            NotFound: neither. Conflict: the run waits for none, or for several and `call` does not say which.
        """
        self.who.require("read")
        return await self._find(given, call=call, status=status)

    async def _find(self, given: str, *, call: int | None = None, status: DecisionStatus = "pending") -> ApprovalView:
        row = await self.store.decision(given) if given.strip() and is_text(given) else None
        if row is not None and (call is None or row.call == str(call)):
            return _view(row)
        try:
            address = await find_run(self.store, given)
        except NotFound:
            run, _, number = given.rpartition(".")  # RUN.CALL, whatever pool the run is in
            if run and call is None and number.isdecimal() and len(number) < 10:
                return await self._find(run, call=int(number), status=status)
            raise NotFound(f"no approval and no run {given[:80]!r}; `callboard approvals` lists what waits") from None
        # Those first: a long run has more decisions than are looked at, but few of one status at a time.
        rows: Sequence[Decision] = await self.store.decisions(run=address, status=status, limit=1_000)
        if not any(call is None or row.call == str(call) for row in rows):
            rows = await self._of_called(address, status) if call is None else []
            rows = rows or await self.store.decisions(run=address, limit=1_000)
        return _view(_meant(rows, run_id_of(address), call, status))

    async def _of_called(self, address: str, status: DecisionStatus) -> Sequence[Decision]:
        """What the agents wait for that a run has asked: to people, that is the run waiting."""
        from .called import called_runs

        found = [await self.store.decisions(run=run, status=status) for run in await called_runs(self.store, address)]
        return [row for rows in found for row in rows]

    def demand(self, view: ApprovalView) -> Demand:
        """What it takes to approve it, of this principal."""
        return demand_of(view, self.who)

    async def now_of(self, given: str) -> tuple[ApprovalView, float]:
        """An approval by its id, whatever became of it, and the store's time. Raises NotFound."""
        self.who.require("read")
        row = await self.store.decision(given)
        if row is None:
            raise NotFound(f"no approval {given[:80]!r}; `callboard approvals` lists what waits")
        return _view(row), await self.store.now()

    async def replacement(self, given: str) -> ApprovalView | None:
        """What is asked in the place of a superseded approval, by its id; None: nothing yet. Raises NotFound."""
        view, _ = await self.now_of(given)
        rows = await self.store.decisions(run=view.run_address, limit=1_000)
        return next((_view(row) for row in reversed(rows) if row.replaces == view.id), None)

    async def arrived(self, given: str, key: str) -> bool:
        """Whether the answer that was sent with this key was recorded: for whoever sent it and heard nothing."""
        self.who.require("read")
        rows = await self.store.audit(object=given, who=self.who.name, limit=_LATELY)
        return any(row.object == given and row.host.endswith(f"#{key}") for row in rows)

    async def common_reasons(self, tool: str) -> Sequence[str]:
        """What people said lately when they refused calls of this tool, the most frequent first; then usual ones."""
        self.who.require("read")
        said: Counter[str] = Counter()
        for row in await self.store.decisions(status="denied", limit=_LATELY):
            if row.tool == tool and row.note.strip() and len(row.note) <= MAX_COMMON_CHARS:
                said[row.note.strip()] += 1
        often = [note for note, _ in said.most_common(MAX_COMMON)]
        return (*often, *(one for one in USUAL_REASONS if one not in often))

    async def decide(
        self, given: str, answer: Answer, *, call: int | None = None, one_of_many: bool = False
    ) -> ApprovalView:
        """Decide one gated call; how it is recorded. Where several people have to approve, it is pending until then.
        `one_of_many`: others are decided by the same word, so this one may need a look of its own.

        Raises:
            NotAllowed: without the scope `approve`; or a policy wants somebody else. NotFound, Conflict: as `find`.
            UsageError: the call lets money go, and its sums were not repeated. Conflict:
            the digest is another one. AlreadyDecided, Expired: somebody, or time, was first.
        """
        self.who.require("approve")
        _require_words(answer.note, answer.label)
        view = await self._find(given, call=call)
        await self._require_pending(view)
        _require_digest(view, answer.expect_digest)
        demand = self.demand(view)
        if answer.status == "approved":
            _require_seen(view, answer)
            _require_met(view, demand, answer.note)
        if one_of_many and answer.lets_go(view):
            _require_plain(view)
        if answer.lets_go(view) or answer.amounts:
            require_repeated(view.money, answer.amounts, unread=view.unread, whose=view.id)
        verdict = Verdict(
            view.id,
            answer.status,
            view.digest,
            self.who.name,
            row_text(answer.note, MAX_NOTE_CHARS),
            demand.hold_seconds,
            label=row_text(answer.label) or self.who.label,
            channel=self.who.channel,
            host=f"{self.who.host}#{answer.key}" if answer.key else self.who.host,
        )
        try:
            return _view(await self.client.decide(verdict))
        except AlreadyDecided:
            # Somebody was first between the two; the row says who, and whether it was time.
            await self._require_pending(await self._find(view.id))
            raise

    async def decide_many(self, wanted: Sequence[tuple[str, Answer]]) -> "Outcomes":
        """Decide several, one after the other; what became of each. One that fails stops none of the others. A call
        with a text that is not what it looks like (`suspect`) is not let go with others: it wants a look of its own.

        Raises:
            StoreUnavailable: of those that come after, nothing is known; to do it all again is safe.
        """
        outcomes: Outcomes = []
        for given, answer in wanted:
            try:
                outcomes.append(Outcome(given, await self.decide(given, answer, one_of_many=len(wanted) > 1)))
            except StoreUnavailable:
                raise
            except CallboardError as error:
                outcomes.append(Outcome(given, None, error))
        return outcomes

    async def take_back(self, given: str, *, note: str = "", label: str = "", call: int | None = None) -> ApprovalView:
        """Take back an approval in its release hold: it is pending again, and nobody has approved it.

        Raises:
            NotAllowed: without the scope `approve`. NotFound, Conflict: as `find`; or there is no approval.
            AlreadyDecided: it was let go, and when.
        """
        self.who.require("approve")
        _require_words(note, label)
        view = await self._find(given, call=call, status="approved")
        who = self.who
        taken = self.client.take_back(
            view.id,
            who.name,
            note=row_text(note, MAX_NOTE_CHARS),
            label=row_text(label) or who.label,
            channel=who.channel,
            host=who.host,
        )
        return _view(await taken)

    async def edit(
        self, given: str, changed: Mapping[str, Any], wish: Answer, *, call: int | None = None, seconds: float = 0.0
    ) -> tuple[ApprovalView, ApprovalView | None]:
        """Have a held call asked for with other values, by their paths (REMOVED takes one out). What was asked, and is
        superseded now; and what is asked instead, if the run has asked within `seconds`.

        Raises:
            as `decide`; UsageError: a path that leads nowhere. BadMessage: arguments that are too large.
        """
        self.who.require("approve")
        _require_words(wish.note, wish.label)
        view = await self._find(given, call=call)
        await self._require_pending(view)
        _require_digest(view, wish.expect_digest)
        arguments = with_changes(view.arguments, changed)
        try:
            old = await self.client.edit(
                view.id,
                arguments,
                self.who.name,
                digest=view.digest,
                note=row_text(wish.note, MAX_NOTE_CHARS),
                label=row_text(wish.label) or self.who.label,
                channel=self.who.channel,
                host=self.who.host,
            )
        except AlreadyDecided:
            await self._require_pending(await self._find(view.id))
            raise
        from ...actors.agent.runs import Runs

        pool = old.run.rpartition(":")[0]
        new = await Runs(self.client, pool).replacement(old, seconds=seconds)
        return _view(old), None if new is None else _view(new)

    async def _require_pending(self, view: ApprovalView) -> None:
        """Refuse at once, and with the first decider's name, what cannot be decided any more."""
        overdue = view.status == "pending" and 0 < view.expires_at <= await self.store.now()
        if view.status == "expired" or overdue:
            raise Expired(f"approval {view.id} expired, which means no; the run goes on without the call")
        if view.status != "pending":
            who = view.decided_by or "the system"
            when = f" at {moment(view.decided_at)}" if view.decided_at else ""
            rows = await self.store.decisions(run=view.run_address, limit=1_000)
            anew = next((row.id for row in reversed(rows) if row.replaces == view.id), "")
            more = f"it is asked anew as {anew}" if anew else "a decision is made once"
            look = f"`callboard approvals show {anew or view.id}`"
            was = "approved" if view.status == "released" else view.status
            raise AlreadyDecided(f"approval {view.id} was {was} by {who}{when}; {more}: {look}")


@dataclass(frozen=True)
class Outcome:
    """What became of one of several decisions: how it is recorded, or why it is not."""

    given: str
    view: ApprovalView | None
    error: CallboardError | None = None


Outcomes = list[Outcome]


def _require_words(note: str, label: str) -> None:
    if len(note) > MAX_NOTE_CHARS or len(label) > MAX_LABEL_CHARS:
        raise UsageError(f"a note may have {MAX_NOTE_CHARS} characters and a label {MAX_LABEL_CHARS}")


def _require_seen(view: ApprovalView, answer: Answer) -> None:
    """Checks answer when they can, and the digest is of the call alone: a note that was written for something else
    would do for what a check has found since."""
    since = [one for one in failed_checks(view) if one not in (answer.seen_failed or ())]
    if answer.seen_failed is not None and since:
        raise Conflict(
            f"approval {view.id}: {', '.join(since)} failed meanwhile; look at it again, nothing was decided"
        )


def _require_plain(view: ApprovalView) -> None:
    """Nobody looks at each of many as at one alone."""
    if found := suspects_in(view.arguments):
        raise UsageError(
            f"approval {view.id}: {found[0]}; it is not let go with others: look at it "
            f"(`callboard approvals show {view.id}`) and decide it on its own"
        )


def _require_met(view: ApprovalView, demand: Demand, note: str) -> None:
    """What policy asks of who approves, beside the sums; who may not at all, where nobody else refuses it."""
    if demand.refused == "never":
        raise NotAllowed(f"approval {view.id}: {demand.why}; refuse it, or have it changed with `callboard edit`")
    if demand.note and not demand.refused and not note.strip():
        raise UsageError(
            f"approval {view.id} is of high risk ({why_high(view)}); say in a note why it may go (--note; over HTTP: "
            f"reason), after a look at it: `callboard approvals show {view.id}`"
        )


def _meant(rows: Sequence[Decision], run_id: str, call: int | None, status: DecisionStatus) -> Decision:
    from ...actors.agent.runs import NotAwaiting

    named = [row for row in rows if call is None or row.call == str(call)]
    pending = [row for row in named if row.status == status]
    if len(pending) == 1:
        return pending[0]
    if pending:
        if {run_id_of(row.run) for row in pending} != {run_id}:
            which = "give its id", ", ".join(row.id for row in pending)
        else:
            which = "say which with --call", ", ".join(f"{row.call} ({row.tool})" for row in pending)
        raise NotAwaiting(f"run {run_id} waits for {len(pending)} decisions; {which[0]}: {which[1]}")
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
