"""What becomes of a person's word on a decision, and what is said to whoever came too late or may not.

The rules are written twice: here for the memory store, in functions/4_outside.sql for PostgreSQL, where they have to
hold under the lock of the row. The contract suite asks both the same questions. The sentences are written once, from
the row that refused.
"""

from datetime import UTC, datetime
from typing import Literal

import msgspec

from ..mailbox.errors import AlreadyDecided, Conflict, NotAllowed, NotFound, SignaturesMoved, UsageError
from .rows import Decision, Signature, TakeBack, Verdict, editors_of, signatures_of

Outcome = Literal["decided", "signed", "missing", "closed", "digest", "expired", "barred", "twice", "moved"]
"""decided: it is. signed: one approval of several that are needed. The rest are refusals."""


def outcome_of(decision: Decision, verdict: Verdict, now: float) -> Outcome:
    """What becomes of a verdict on this row."""
    if decision.status != "pending":
        return "closed"
    if decision.digest != verdict.digest:
        return "digest"
    if verdict.status != "expired" and 0 < decision.expires_at <= now:
        return "expired"
    if verdict.status != "approved":
        return "decided"
    if is_barred(decision, verdict.by):
        return "barred"
    signed = signatures_of(decision)
    if any(one.by == verdict.by for one in signed):
        return "twice"
    if len(signed) + 1 < decision.needed:
        return "signed"
    return "moved" if decision.needed > 1 and len(signed) != verdict.seen else "decided"


def is_barred(decision: Decision, by: str) -> bool:
    """Whether this principal may not approve it."""
    return decision.not_requester and (by == decision.requested_by or by in editors_of(decision))


def sign(decision: Decision, verdict: Verdict, now: float) -> str:
    """Everybody who has approved, as the row keeps it, with this one."""
    signed = [*signatures_of(decision), Signature(verdict.by, verdict.label, now, verdict.note)]
    return msgspec.json.encode(signed).decode()


def names_of(decision: Decision, last: str) -> str:
    """Everybody who has approved, and the last one, as one text."""
    return ", ".join([*(one.by for one in signatures_of(decision)), last])


def require_somebody(by: str) -> None:
    """Refuse a word of nobody.

    Raises:
        UsageError.
    """
    if not by.strip():
        raise UsageError("a decision needs the name of who decides, got nothing")


def missing(decision: str) -> NotFound:
    """There is no such decision."""
    return NotFound(f"there is no decision {decision!r}; `callboard approvals` lists them")


def refusal(outcome: str, decision: Decision, verdict: Verdict) -> Conflict | NotAllowed:
    """Why a verdict did not count, by the row that refused it."""
    name = f"decision {decision.id}"
    match outcome:
        case "closed":
            return AlreadyDecided(
                f"{name} was {decision.status} by {decision.decided_by or 'the system'} "
                f"at {_moment(decision.decided_at)}; a decision is made once"
            )
        case "digest":
            return Conflict(
                f"{name}: the digest {verdict.digest[:12]} is not that of the arguments on record "
                f"({decision.digest[:12]}); look at it again"
            )
        case "barred":
            asked = decision.requested_by == verdict.by
            who = f"asked for by {decision.requested_by}" if asked else f"changed by {verdict.by}"
            rule = f"policy {decision.policy}" if decision.policy else "its policy"
            return NotAllowed(
                f"{name} cannot be approved by {verdict.by}: the call was {who}, and {rule} wants somebody else; "
                "ask a colleague"
            )
        case "twice":
            so_far = f"{len(signatures_of(decision))} of {decision.needed}"
            return AlreadyDecided(
                f"{name} was approved by {verdict.by} before ({so_far}); somebody else has to as well"
            )
        case "moved":
            return SignaturesMoved(f"{name}: somebody else approved in the same moment; approve again")
    return AlreadyDecided(f"{name} expired at {_moment(decision.expires_at)}; ask for a new one")


def take_back_refusal(outcome: str, decision: Decision, wish: TakeBack) -> Conflict:
    """Why an approval cannot be taken back, by the row that refused it."""
    name = f"decision {decision.id}"
    if outcome == "moved":
        return Conflict(f"{name} was approved anew by {decision.decided_by}; look at it again, nothing was taken back")
    if decision.status == "pending":
        return Conflict(f"{name} is pending: there is no approval to take back")
    if decision.status in ("approved", "released"):
        return AlreadyDecided(
            f"{name} was approved by {decision.decided_by} and let go at {_moment(decision.release_at)}; "
            "it cannot be taken back any more"
        )
    return AlreadyDecided(
        f"{name} was {decision.status} by {decision.decided_by or 'the system'} at {_moment(decision.decided_at)}; "
        "only an approval can be taken back"
    )


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
