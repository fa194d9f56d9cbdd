"""What it takes to approve a gated call: the tier of its risk, what has to be repeated, and who may not.

Policy sets the risk; what follows from it is said here, once, for whoever asks in whatever way. `Decisions.decide`
holds everybody to it, so that a screen which forgets to ask gets a refusal and never an approval.

    low     nothing is repeated; a screen asks for a second key
    money   every sum is typed again
    high    as money, and a note says why; a screen shows the whole call first. What policy calls high, what a check of
            the tool found wrong, and what may be a sum and cannot be read as one
    never   nobody may; it can be refused, or changed
"""

from collections.abc import Sequence
from typing import Literal

import msgspec

from .money import read_typed
from .principal import Principal
from .views import ApprovalView

Tier = Literal["low", "money", "high", "never"]
Refused = Literal["", "rights", "never", "own", "signed"]

LEAST_HOLD_SECONDS: dict[Tier, float] = {"low": 0.0, "money": 10.0, "high": 60.0, "never": 0.0}
"""How long what was approved on a screen can be taken back at least: a slip of the hand is seen when it has happened. A
command or a request names what it approves, and gets the hold that policy gives."""


class Asked(msgspec.Struct, frozen=True):
    """One thing to repeat."""

    field: str
    text: str
    """As it is shown; a sum may be typed in another way that means the same (see `money.read_typed`)."""
    currency: str = ""
    exact: bool = False
    """Letter by letter: a text in the place of a sum, which cannot be read as one; or a word."""
    word: bool = False
    """No sum, but what is typed where there is none, so that no habit of the hand can do it. It is not sent."""

    def is_met(self, typed: str) -> bool:
        """Whether this is it."""
        if self.exact:
            return typed == self.text
        number = read_typed(typed)
        return number is not None and number == read_typed(self.text)


class Demand(msgspec.Struct, frozen=True):
    """What one principal has to do to approve one call."""

    tier: Tier
    repeat: list[Asked]
    note: bool
    """Whether it has to be said why."""
    hold_seconds: float
    """How long it can be taken back."""
    refused: Refused = ""
    why: str = ""
    """Why this principal cannot approve it; a sentence."""

    def missing(self, typed: Sequence[str], note: str) -> str:
        """What is still to be done, in a few words; "" when nothing is. `typed`: for each of `repeat`, in its order."""
        if self.refused:
            return self.why
        for asked, text in zip(self.repeat, [*typed, *([""] * len(self.repeat))], strict=False):
            if not asked.is_met(text):
                what = asked.text if asked.word else "the amount" if len(self.repeat) == 1 else asked.field
                return f"that is not {what}" if text.strip() else f"type {what}"
        if self.note and not note.strip():
            return "say why in the note"
        return ""


def demand_of(view: ApprovalView, who: Principal) -> Demand:
    """What this principal has to do to approve it."""
    tier = tier_of(view)
    sums = [Asked(one.field, one.shown, one.currency) for one in view.money]
    texts = [Asked(one.field, one.text, exact=True) for one in view.unread]
    word = [Asked("type", view.tool, exact=True, word=True)] if tier == "high" and not (sums or texts) else []
    hold = view.hold_seconds if view.kind == "approval" else 0.0
    if who.channel == "tui" and view.kind == "approval":
        hold = max(hold, LEAST_HOLD_SECONDS[tier])
    refused, why = _refusal(view, who, tier)
    return Demand(tier, [*sums, *texts, *word], tier == "high", hold, refused, why)


def tier_of(view: ApprovalView) -> Tier:
    """How much it takes to approve it."""
    if view.risk == "never":
        return "never"
    if view.risk == "high" or failed_checks(view) or view.unread:
        return "high"
    return "money" if view.money else "low"


def failed_checks(view: ApprovalView) -> list[str]:
    """Names of the checks that found something wrong."""
    return [str(one.get("check", "")) for one in view.checks if not one.get("ok")]


def why_high(view: ApprovalView) -> str:
    """Why its tier is high: `policy refunds.over-500`, or the checks that failed."""
    failed = failed_checks(view)
    if failed or view.risk == "high" or not view.unread:
        return f"failed: {', '.join(failed)}" if failed else f"policy {view.policy}"
    return f"{', '.join(one.field for one in view.unread)} cannot be read as a sum"


def _refusal(view: ApprovalView, who: Principal, tier: Tier) -> tuple[Refused, str]:
    if "approve" not in who.scopes:
        return "rights", f"{who.name} may look, and decide nothing"
    if tier == "never":
        return "never", f"policy {view.policy} lets nobody approve this: {view.reason}"
    if who.name in view.may_not_approve:
        did = "started this run" if who.name == view.requested_by else "changed this call"
        return "own", f"you {did}; policy {view.policy} wants another person to decide"
    if any(one.by == who.name for one in view.approved_by):
        missing = f"{view.missing} more" if view.missing != 1 else "another person"
        return "signed", f"you have approved it, {len(view.approved_by)} of {view.needed}; it waits for {missing}"
    return "", ""
