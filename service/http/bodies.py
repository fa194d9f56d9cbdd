"""What goes in and out of the HTTP API, as strict structs: unknown fields and impossible values are refused (422).

The limits are the seed's; a text may hold no NUL, as no database column could.
"""

from decimal import Decimal
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from ...actors.agent.events import Trust
from ...actors.agent.state import RunState
from ..operations.views import ApprovalView

Who = Annotated[str, Meta(min_length=1, max_length=500, pattern=r"\S")]


class NewRun(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`POST /runs`."""

    goal: Annotated[str, Meta(min_length=1, max_length=100_000, pattern=r"\S")]
    requested_by: Annotated[str, Meta(max_length=500)] = "unknown"
    system_prompt: Annotated[str, Meta(max_length=100_000)] | None = None
    model: Annotated[str, Meta(max_length=200)] | None = None
    max_steps: Annotated[int, Meta(ge=1, le=10_000)] | None = None
    max_cost_usd: Decimal | None = None
    """Above 0, at most 1,000,000."""
    guardrail_profile: Annotated[str, Meta(max_length=100)] | None = None
    trust: Trust = "trusted"
    """`untrusted`: the goal was written by somebody outside, such as a customer."""


class Approve(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`POST /runs/{id}/approve`; with several calls waiting, `call` says which."""

    approver: Who
    call: Annotated[int, Meta(ge=1)] | None = None
    digest: Annotated[str, Meta(max_length=64)] = ""
    note: Annotated[str, Meta(max_length=4_000)] = ""


class Deny(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`POST /runs/{id}/deny`; the model gets the reason."""

    approver: Who
    reason: Annotated[str, Meta(min_length=1, max_length=4_000)]
    call: Annotated[int, Meta(ge=1)] | None = None
    digest: Annotated[str, Meta(max_length=64)] = ""


class Say(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`POST /runs/{id}/tell`."""

    text: Annotated[str, Meta(min_length=1, max_length=100_000, pattern=r"\S")]
    by: Annotated[str, Meta(max_length=500)] = ""
    trust: Trust = "trusted"
    """`untrusted`: it was written by somebody outside."""


class Stop(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`POST /runs/{id}/cancel`."""

    by: Annotated[str, Meta(max_length=500)] = ""
    reason: Annotated[str, Meta(max_length=4_000)] = ""


class Waiting(msgspec.Struct, frozen=True):
    """A call that waits for a person."""

    run_id: str
    tool: str
    arguments: Any
    reason: str
    id: str
    call: str
    digest: str


class RunOut(msgspec.Struct, frozen=True):
    """A run."""

    run_id: str
    status: str
    step: int
    total_tokens: int
    total_cost_usd: str
    pending_approval: Waiting | None
    final_answer: str | None
    failure_reason: str | None
    failure_detail: str = ""


def run_out(run_id: str, state: RunState) -> RunOut:
    """A run as the API shows it."""
    call = state.pending_approval
    waits = None
    if call is not None:
        waits = Waiting(run_id, call.tool, call.arguments, call.reason, call.decision, str(call.call), call.digest)
    return RunOut(
        run_id,
        state.status,
        state.step,
        state.total_tokens,
        f"{state.total_cost_usd:f}",
        waits,
        state.final_answer,
        state.failure_reason,
        state.failure_detail,
    )


def waiting_out(view: ApprovalView) -> Waiting:
    """An approval as the API shows it."""
    return Waiting(view.run_id, view.tool, view.arguments, view.reason, view.id, view.call, view.digest)
