"""What goes in and out of the routes of approvals under /v1, as strict structs.

A decision names the digest of what was looked at, and repeats the sums of money that it lets go: in the arguments'
own currency where they say one.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from ...mailbox.errors import UsageError
from ..operations.money import read_amount
from ..operations.views import ApprovalView, moment

Digest = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}$")]
Note = Annotated[str, Meta(max_length=4_000)]
ApprovalStatus = Literal["pending", "approved", "released", "denied", "expired", "superseded"]


class Amount(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A sum that is repeated; its currency is needed where the arguments say one."""

    value: Annotated[str, Meta(pattern=r"^-?[0-9]{1,40}(\.[0-9]{1,40})?$")]
    """As `money` shows it; a model's arithmetic has sums such as 19.990000000000002 as well."""
    currency: Annotated[str, Meta(pattern=r"^([A-Z]{3}|\$|¥|[Kk]r\.?|Rs\.?)?$")] = ""
    """As `money` shows it: a code, or a sign that several currencies share."""


class DecisionRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`POST /v1/approvals/{approval_id}/decision`."""

    decision: Literal["approve", "deny"]
    args_digest: Digest
    """`digest` of the approval as it was looked at."""
    amount: Amount | list[Amount] | None = None
    """The sums in `money`, repeated, where the call goes by this."""
    reason: Note = ""
    """For the audit trail; of a denial, for the model too."""


class TakeBackRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`POST /v1/approvals/{approval_id}/take-back`."""

    note: Note = ""


class EditRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`POST /v1/approvals/{approval_id}/edit`."""

    args_digest: Digest
    set: dict[str, Any] = {}
    """Values by their path, such as `amount`, `address.country` or `items[0].price`."""
    unset: list[str] = []
    """Paths to take out."""
    note: Note = ""
    wait_seconds: Annotated[float, Meta(ge=0, le=10)] = 5.0
    """How long to wait for the run to ask anew."""


class MoneyOut(msgspec.Struct, frozen=True):
    """A sum in a call's arguments; `currency` is empty where neither they nor their tool say one."""

    field: str
    value: str
    currency: str


class SignatureOut(msgspec.Struct, frozen=True):
    """One person's approval."""

    by: str
    label: str
    at: str | None
    note: str


class ApprovalOut(msgspec.Struct, frozen=True):
    """A gated call, and what was decided of it."""

    id: str
    run_id: str
    run_address: str
    call: str
    kind: str
    tool: str
    arguments: Any
    money: list[MoneyOut]
    digest: str
    reason: str
    status: str
    requested_by: str
    requested_at: str | None
    expires_at: str | None
    decided_by: str
    decided_at: str | None
    note: str
    policy: str
    risk: str
    needed: int
    missing: int
    """How many people still have to approve."""
    approved_by: list[SignatureOut]
    may_not_approve: list[str]
    hold_seconds: float
    release_at: str | None
    can_take_back: bool
    provenance: list[Any]
    checks: list[Any]
    replaces: str
    edited_by: list[str]
    diff: list[Any]


class Edited(msgspec.Struct, frozen=True):
    """The approval that an edit has superseded, and the one that is asked instead; null: no node has asked yet."""

    superseded: ApprovalOut
    asked: ApprovalOut | None


def approval_out(view: ApprovalView) -> ApprovalOut:
    """An approval as the API shows it."""
    names = ("requested_at", "expires_at", "decided_at", "release_at")
    known = {
        **{field: getattr(view, field) for field in ApprovalOut.__struct_fields__},
        **{name: moment(getattr(view, name)) for name in names},
        "money": _money(view),
        "approved_by": [SignatureOut(one.by, one.label, moment(one.at), one.note) for one in view.approved_by],
    }
    return ApprovalOut(**known)


def _money(view: ApprovalView) -> list[MoneyOut]:
    return [MoneyOut(one.field, one.shown, one.currency) for one in view.money]


def amounts_of(given: Amount | Sequence[Amount] | None, view: ApprovalView) -> tuple[str, ...]:
    """The sums that a decision repeats, as numbers to compare with the call's.

    Raises:
        UsageError: one in another currency than the arguments are in.
    """
    repeated = [given] if isinstance(given, Amount) else list(given or ())
    left = [(read_amount(one.value), one.currency) for one in _money(view)]
    for one in repeated:
        sum_ = read_amount(one.value)
        codes = [code for value, code in left if value == sum_]
        if one.currency in codes:
            left.remove((sum_, one.currency))  # 480 EUR and 480 USD are not repeated by 480 EUR twice
        elif codes:
            raise UsageError(
                f"amount: {one.value} is in {codes[0] or 'no currency that its arguments name'}, not in "
                f"{one.currency or 'none'}; nothing was decided"
            )
    return tuple(one.value for one in repeated)
