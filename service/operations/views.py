"""What the service shows of runs and approvals: plain structs, which the CLI prints, `--json` encodes, HTTP returns.

Times are seconds since 1970; `document` turns them into RFC 3339 text and adds the name of the shape, so that a reader
can tell what it holds: `{"schema": "callboard.run/1", ...}`. Fields are only added to a shape.
"""

from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import msgspec

from ...persistence.rows import DECLARED, ActorStatus, Decision, Signature, declared_sums, editors_of, signatures_of
from .money import Money, Unread, read_sums

if TYPE_CHECKING:
    from ...actors.agent.runs import Recorded
    from ...actors.agent.state import RunState
    from .spending import Spend


class RunLine(msgspec.Struct, frozen=True):
    """A run in a list."""

    run_id: str
    address: str
    status: str
    goal: str
    step: int = 0
    tokens: int = 0
    cost_usd: str = "0"
    started_at: float = 0.0
    waits_for: str = ""
    detail: str = ""
    origin: str = ""
    """Id of the run that it was forked from."""
    requested_by: str = ""
    agent: str = ""
    """Which agent of the desk it is; "": the desk's own."""


class RunWish(msgspec.Struct, frozen=True):
    """Which runs a list shall have; all that is given has to fit."""

    status: str = ""
    since: float = 0.0
    """Begun at that time or later, in seconds since 1970."""
    requested_by: str = ""
    agent: str = ""

    def fits(self, line: RunLine) -> bool:
        """Whether a run is one of them."""
        return (
            self.status in ("", line.status)
            and line.started_at >= self.since
            and self.requested_by in ("", line.requested_by)
            and self.agent in ("", line.agent)
        )


class RunList(msgspec.Struct, frozen=True):
    """Runs, newest first; `complete` is false where there are more than were looked at."""

    items: list[RunLine]
    complete: bool


class RunWindow(msgspec.Struct, frozen=True):
    """A window of a list of runs, newest first."""

    items: list[RunLine]
    start: bool = True
    """There is nothing newer."""
    end: bool = True
    """There is nothing older."""
    cursors: list[str] = []
    """The place of each of `items`, to go on from; "" of those that no node has taken yet, which come first."""
    reached: str = ""
    """Where a search for what fits gave up: the place to go on from; "" where it did not."""


class ApprovalView(msgspec.Struct, frozen=True):
    """A gated call, and what was decided of it."""

    id: str
    run_id: str
    run_address: str
    call: str
    kind: str
    tool: str
    arguments: Any
    money: list[Money]
    digest: str
    reason: str
    status: str
    requested_by: str
    requested_at: float
    expires_at: float
    decided_by: str
    decided_at: float
    note: str
    policy: str = ""
    """Name of the rule that asks."""
    risk: str = ""
    needed: int = 1
    """How many different people have to approve."""
    approved_by: list[Signature] = []
    """Who has, so far."""
    may_not_approve: list[str] = []
    """Principals who asked for the call or changed it, where a policy wants somebody else."""
    hold_seconds: float = 0.0
    """How long an approval can be taken back, at least."""
    release_at: float = 0.0
    """approved: when the call goes."""
    can_take_back: bool = False
    provenance: list[dict[str, Any]] = []
    """Where each value of the arguments comes from."""
    checks: list[dict[str, Any]] = []
    """What the tool's checks found."""
    replaces: str = ""
    """The decision whose place this one takes."""
    edited_by: list[str] = []
    """Everybody who has changed the call, the latest last."""
    diff: list[dict[str, Any]] = []
    """What an edit changed."""
    sums: dict[str, str] = {}
    """What its tool declared of the sums in the arguments when this was asked: path to unit, such as `USD minor`."""
    unread: list[Unread] = []
    """What may be a sum among the arguments and cannot be read beyond doubt; it is repeated letter by letter."""

    def open_to(self, name: str) -> bool:
        """Whether this principal may approve it: no policy wants somebody else, and they have not approved before."""
        signed = any(one.by == name for one in self.approved_by)
        return self.status == "pending" and not signed and name not in self.may_not_approve

    @property
    def missing(self) -> int:
        """How many people still have to approve."""
        return max(0, self.needed - len(self.approved_by)) if self.status == "pending" else 0


class RunView(msgspec.Struct, frozen=True):
    """One run."""

    run_id: str
    address: str
    state: "RunState"
    actor_status: ActorStatus | None
    """None while no node has taken it."""
    actor_reason: str
    approvals: list[ApprovalView]
    """Those that wait."""

    @property
    def why_still(self) -> str:
        """Why nothing moves, in a sentence; "" where something does or the run has ended (G6)."""
        if self.state.finished:
            return ""
        if self.actor_status is None:
            return "recorded; it begins when a node serves it"
        if self.actor_status != "active":
            if self.actor_reason.startswith(self.actor_status):
                return self.actor_reason  # `paused by ann: …`
            return f"{self.actor_status}: {self.actor_reason or 'no reason was given'}"
        if self.state.status == "awaiting_approval":
            if not self.approvals:
                return "decided; the run goes on when a node serves it"
            return f"waits for people to decide on {len(self.approvals)} call(s)"
        return ""


class Fork(msgspec.Struct, frozen=True):
    """A run that somebody made of another one."""

    run_id: str
    at: float
    who: str
    note: str = ""


class Trace(msgspec.Struct, frozen=True):
    """A run with its whole journal."""

    run: RunView
    events: "list[Recorded]"
    now: float = 0.0
    """The store's time when it was read."""
    spending: "list[Spend]" = []
    forks: list[Fork] = []
    """Those that were made of it, oldest first."""


class Submitted(msgspec.Struct, frozen=True):
    """A recorded run."""

    run_id: str
    address: str
    new: bool
    """False: the same submission was accepted before, and nothing was done now."""


def approval_view(row: Decision, run_id: str) -> ApprovalView:
    """A decision row as it is shown."""
    arguments, known = msgspec.json.decode(row.arguments), _list(row.provenance)
    sums = declared_sums(row.provenance)
    money, unread = read_sums(arguments, sums)
    return ApprovalView(
        id=row.id,
        run_id=run_id,
        run_address=row.run,
        call=row.call,
        kind=row.kind,
        tool=row.tool,
        arguments=arguments,
        money=money,
        digest=row.digest,
        reason=row.reason,
        status=row.status,
        requested_by=row.requested_by,
        requested_at=row.requested_at,
        expires_at=row.expires_at,
        decided_by=row.decided_by,
        decided_at=row.decided_at,
        note=row.note,
        policy=row.policy,
        risk=row.risk,
        needed=row.needed,
        approved_by=signatures_of(row),
        may_not_approve=barred(row),
        hold_seconds=row.hold_seconds,
        release_at=row.release_at,
        can_take_back=row.status == "approved" and bool(row.hold_id),
        provenance=[one for one in known if one.get("source") != DECLARED],
        checks=_list(row.checks),
        replaces=row.replaces,
        edited_by=editors_of(row),
        diff=_list(row.diff),
        sums=sums,
        unread=unread,
    )


def barred(row: Decision) -> list[str]:
    """Who may not approve it."""
    return sorted({row.requested_by, *editors_of(row)} - {""}) if row.not_requester else []


def _list(text: str) -> list[dict[str, Any]]:
    return msgspec.json.decode(text, type=list[dict[str, Any]]) if text else []


def moment(seconds: float) -> str | None:
    """RFC 3339 in UTC, with milliseconds; None for 0, which stands for "never"."""
    if not seconds:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def run_document(view: RunView, spent: "list[Spend] | None" = None) -> dict[str, Any]:
    """`callboard.run/1`; with what it spent by model where that was asked for."""
    from .spending import spending_document

    state = view.state
    more = {} if spent is None else {"spending": spending_document(spent)}
    return {
        "schema": "callboard.run/1",
        "run_id": view.run_id,
        "address": view.address,
        "status": state.status,
        "why_still": view.why_still,
        "goal": state.goal,
        "requested_by": state.requested_by,
        "model": state.model,
        "started_at": moment(state.started_at),
        "step": state.step,
        "tool_calls": state.tool_calls,
        "usage": {
            "input_tokens": state.input_tokens,
            "output_tokens": state.output_tokens,
            "cost_usd": _money(state.total_cost_usd),
        },
        "budget": msgspec.to_builtins(state.budget),
        "final_answer": state.final_answer,
        "failure": {"reason": state.failure_reason, "detail": state.failure_detail} if state.failure_reason else None,
        "approvals": [approval_document(one) for one in view.approvals],
        **more,
    }


def runs_document(found: RunList) -> dict[str, Any]:
    """`callboard.runs/1`."""
    items = [{**msgspec.to_builtins(line), "started_at": moment(line.started_at)} for line in found.items]
    return {"schema": "callboard.runs/1", "complete": found.complete, "items": items}


def approval_document(view: ApprovalView) -> dict[str, Any]:
    """`callboard.approval/1`."""
    names = ("requested_at", "expires_at", "decided_at", "release_at")
    times = {name: moment(getattr(view, name)) for name in names}
    money = [{"field": one.field, "value": one.shown, "currency": one.currency} for one in view.money]
    signed = [{**msgspec.to_builtins(one), "at": moment(one.at)} for one in view.approved_by]
    more = {"money": money, "approved_by": signed, "missing": view.missing}
    return {"schema": "callboard.approval/1", **msgspec.to_builtins(view), **times, **more}


def trace_document(trace: Trace) -> dict[str, Any]:
    """`callboard.replay/1`."""
    from ..trace_marks import read_marks
    from .spending import spending_document

    marks, waits, moves = read_marks(trace.events)
    return {
        "schema": "callboard.replay/1",
        "run": run_document(trace.run),
        "events": [_event(one) for one in trace.events],
        "waits": [msgspec.to_builtins(one) for one in [*waits, *marks.open_waits(trace.now)]],
        "moves": [msgspec.to_builtins(one) for one in moves],
        "account": msgspec.to_builtins(marks.account(trace.now)),
        "spending": spending_document(trace.spending),
        "forks": [{**msgspec.to_builtins(one), "at": moment(one.at)} for one in trace.forks],
    }


def event_document(recorded: "Recorded") -> dict[str, Any]:
    """`callboard.event/1`."""
    return {"schema": "callboard.event/1", **_event(recorded)}


def _event(e: "Recorded") -> dict[str, Any]:
    return {"seq": e.seq, "at": moment(e.at), "node": e.node, "type": e.type, "event": _body(e)}


def _body(recorded: "Recorded") -> dict[str, Any]:
    body: dict[str, Any] = msgspec.to_builtins(recorded.event, str_keys=True)
    body.pop("type", None)
    return body


def _money(value: Decimal) -> str:
    return f"{value:f}"
