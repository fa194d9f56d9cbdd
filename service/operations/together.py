"""Several approvals decided together: which of them can be, what their sums come to, and why the others are left out.

Each is decided, held and written down on its own (`Decisions.decide_many`); together is only the looking and the
typing. So what needs a look of its own is left out, and who approves the rest types the total of each currency.
"""

from collections.abc import Sequence
from decimal import Decimal

import msgspec

from .decisions import Answer
from .demands import Asked, demand_of, failed_checks
from .money import EXACT, Money
from .principal import Principal
from .suspect import suspects_in
from .views import ApprovalView


class LeftOut(msgspec.Struct, frozen=True):
    """One that is not among them, and why."""

    view: ApprovalView
    why: str
    suspects: list[str] = []
    """What about its texts is not what it looks like, in a few words each."""


class Together(msgspec.Struct, frozen=True):
    """What is decided together."""

    chosen: list[ApprovalView]
    left_out: list[LeftOut]
    totals: list[Asked]
    """For each currency; what is typed to approve."""
    largest: list[Asked]
    """The largest single sum, for each currency."""
    hold_seconds: float
    """The shortest time in which one of them can be taken back."""

    @property
    def policies(self) -> list[str]:
        """Of which policies they are."""
        return sorted({one.policy for one in self.chosen})

    @property
    def all_checked(self) -> bool:
        """Whether checks were run for each, and all were fine."""
        return all(one.checks for one in self.chosen)

    def missing(self, typed: Sequence[str]) -> str:
        """What is still to be typed, in a few words; "" when nothing is."""
        if not self.chosen:
            return "none of them can be approved together"
        for asked, text in zip(self.totals, [*typed, *([""] * len(self.totals))], strict=False):
            if not asked.is_met(text):
                which = f" {asked.currency}" if len(self.totals) > 1 else ""
                return f"that is not the{which} total" if text.strip() else f"type the{which} total"
        return ""

    def approvals(self, note: str, key: str) -> list[tuple[str, Answer]]:
        """What is sent, once nothing is missing. `key`: as `Answer.key`, of all of them."""
        return [
            (
                one.id,
                Answer(
                    "approved",
                    tuple(sum_.shown for sum_ in one.money),
                    one.digest,
                    note,
                    key=key,
                    seen_failed=tuple(failed_checks(one)),
                ),
            )
            for one in self.chosen
        ]


def together(views: Sequence[ApprovalView], who: Principal) -> Together:
    """What this principal can approve together of these."""
    chosen: list[ApprovalView] = []
    left_out: list[LeftOut] = []
    totals: dict[str, Decimal] = {}
    largest: dict[str, Decimal] = {}
    holds: list[float] = []
    for view in views:
        if why := alone(view, who):
            left_out.append(LeftOut(view, why, suspects_in(view.arguments)))
            continue
        chosen.append(view)
        holds.append(demand_of(view, who).hold_seconds)
        for one, currency in sums_of(view):
            totals[currency] = EXACT.add(totals.get(currency, Decimal(0)), one.value)
            largest[currency] = max(largest.get(currency, one.value), one.value)
    return Together(chosen, left_out, _asked(totals), _asked(largest), min(holds, default=0.0))


def alone(view: ApprovalView, who: Principal) -> str:
    """Why it needs a look of its own, in a few words; "" where it does not."""
    demand = demand_of(view, who)
    if view.status != "pending":
        return f"{view.status} meanwhile"
    if demand.refused:
        return "not for you to approve"
    if view.kind != "approval":
        return "in doubt"
    if failed_checks(view):
        return "failed check"
    if suspects_in(view.arguments):
        return "a suspect text"
    if view.unread:
        return "a sum that cannot be read"
    if demand.tier == "high":
        return "high risk"
    if view.needed > 1:
        return "two approvers" if view.needed == 2 else f"{view.needed} approvers"
    if any(one.value < 0 for one in view.money):
        return "a negative sum"  # it would take away from the total that is typed what others move
    return "" if view.money else "no amount"


def refusals(views: Sequence[ApprovalView], reason: str, key: str) -> tuple[list[tuple[str, Answer]], list[LeftOut]]:
    """What is sent to refuse these, and what needs a look of its own even for a no: of a call in doubt, a no makes it
    again."""
    left = [LeftOut(one, "in doubt") for one in views if one.kind != "approval"]
    left += [LeftOut(one, f"{one.status} meanwhile") for one in views if one.status != "pending"]
    out = {one.view.id for one in left}
    return [(one.id, Answer("denied", (), one.digest, reason, key=key)) for one in views if one.id not in out], left


def sums_of(view: ApprovalView) -> list[tuple[Money, str]]:
    """Its sums, each with its currency ("" where the call does not say)."""
    return [(one, one.currency) for one in view.money]


def totals_of(views: Sequence[ApprovalView]) -> list[Asked]:
    """What the sums of these come to, for each currency."""
    totals: dict[str, Decimal] = {}
    for view in views:
        for one, currency in sums_of(view):
            totals[currency] = EXACT.add(totals.get(currency, Decimal(0)), one.value)
    return _asked(totals)


def _asked(sums: dict[str, Decimal]) -> list[Asked]:
    return [Asked(currency or "total", f"{value:f}", currency) for currency, value in sorted(sums.items())]
