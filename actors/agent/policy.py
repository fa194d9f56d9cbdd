"""On what terms a call is held: why, how risky, who has to agree, and for how long."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

Risk = Literal["low", "medium", "high", "never"]
"""never: nobody may approve it. People see it all the same, and refuse it or have it changed."""
UNKNOWN = "unknown"
"""Who asked for a run, where nobody said."""
RISKS: tuple[Risk, ...] = ("low", "medium", "high", "never")


MAX_NEEDED = 50
"""How many people may be asked for."""


@dataclass(frozen=True)
class Terms:
    """What a rule asks for before a call may go."""

    reason: str
    """A sentence for the approver."""
    policy: str = "tool"
    """Name of the rule: `tool`, `guardrail:taint`, a policy's own name; several joined by `+`."""
    risk: Risk = "medium"
    needed: int = 1
    """How many different people have to approve."""
    not_requester: bool = False
    """Whoever asked for the run may not approve."""
    expires_seconds: float | None = None
    """How long people have; None: what the desk says. 0: for ever."""
    hold_seconds: float = 0.0
    """How long an approval can be taken back before the call goes."""


def merged(terms: Iterable[Terms]) -> Terms | None:
    """All of them at once: every reason, and the strictest of each; None where there are none."""
    found: Terms | None = None
    for one in terms:
        if found is None:
            found = one
            continue
        found = replace(
            found,
            reason=f"{found.reason}; {one.reason}",
            policy=f"{found.policy}+{one.policy}",
            risk=max(found.risk, one.risk, key=RISKS.index),
            needed=max(found.needed, one.needed),
            not_requester=found.not_requester or one.not_requester,
            expires_seconds=_sooner(found.expires_seconds, one.expires_seconds),
            hold_seconds=max(found.hold_seconds, one.hold_seconds),
        )
    return found


def with_strangers(terms: Terms, requested_by: str) -> Terms:
    """`terms`, where it may not be known who asked for the run: then nobody can be barred, and one person more has to
    approve, since of all who do only one can be the one who asked."""
    if not terms.not_requester or requested_by not in ("", UNKNOWN):
        return terms
    reason = f"{terms.reason}; nobody said who asked for this run, so one person more has to approve"
    return replace(terms, reason=reason, needed=terms.needed + 1)


def _sooner(one: float | None, other: float | None) -> float | None:
    limits = [limit for limit in (one, other) if limit is not None]
    finite = [limit for limit in limits if limit > 0]
    return min(finite) if finite else 0.0 if limits else None
