"""What goes in and out of the routes of runs under /v1, as strict structs. Money is text with a currency, no float.

Fields are only added. What goes in knows all its fields: another one is an error, which says which.
"""

from decimal import Decimal, InvalidOperation
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from ...actors.agent.budget import Budget
from ...actors.agent.events import Trust
from ...mailbox.errors import UsageError
from ..operations.views import RunLine, RunView, moment
from .approval_shapes import ApprovalOut, approval_out

Count = Annotated[int, Meta(ge=1, le=1_000_000_000)]
MAX_COST_USD = Decimal(1_000_000)


class Money(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A sum: `{"value": "480.00", "currency": "EUR"}`."""

    value: Annotated[str, Meta(pattern=r"^[0-9]{1,12}(\.[0-9]{1,12})?$")]
    currency: Annotated[str, Meta(pattern=r"^[A-Z]{3}$")]


class Dollars(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A sum in the currency that models are paid in."""

    value: Annotated[str, Meta(pattern=r"^[0-9]{1,7}(\.[0-9]{1,9})?$")]
    currency: Annotated[str, Meta(pattern=r"^USD$")] = "USD"


class BudgetIn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a run may spend; what is left out is as the server has it."""

    iterations: Count | None = None
    tokens: Count | None = None
    duration_seconds: Annotated[float, Meta(gt=0, le=31_622_400)] | None = None
    cost: Dollars | None = None
    tool_calls: Count | None = None

    def over(self, base: Budget) -> Budget:
        """This budget, on top of another one.

        Raises:
            UsageError: a cost that is none.
        """
        cost = base.max_cost_usd if self.cost is None else _cost(self.cost)
        return Budget(
            self.iterations or base.max_iterations,
            self.tokens or base.max_tokens,
            self.duration_seconds or base.max_duration_seconds,
            cost,
            self.tool_calls or base.max_tool_calls,
        )


def _cost(given: Dollars) -> Decimal:
    try:
        cost = Decimal(given.value)
    except InvalidOperation:
        raise UsageError(f"budget.cost: expected a sum such as 1.50, got {given.value[:40]!r}") from None
    if not 0 < cost <= MAX_COST_USD:
        raise UsageError(f"budget.cost: expected a sum above 0, at most {MAX_COST_USD:,}, got {cost:f}")
    return cost


class RunRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`POST /v1/runs`; who asks is the token's principal."""

    goal: Annotated[str, Meta(min_length=1, max_length=100_000, pattern=r"\S")]
    system_prompt: Annotated[str, Meta(max_length=100_000)] | None = None
    model: Annotated[str, Meta(max_length=200)] | None = None
    guardrail_profile: Annotated[str, Meta(max_length=100)] | None = None
    budget: BudgetIn | None = None
    trust: Trust = "trusted"
    """`untrusted`: the goal was written by somebody outside, such as a customer."""


class TellRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`POST /v1/runs/{run_id}/tell`."""

    text: Annotated[str, Meta(min_length=1, max_length=100_000, pattern=r"\S")]
    trust: Trust = "trusted"
    """`untrusted`: it was written by somebody outside."""


class CancelRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`POST /v1/runs/{run_id}/cancel`."""

    reason: Annotated[str, Meta(max_length=4_000)] = ""


class ForkRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`POST /v1/runs/{run_id}/fork`."""

    at: Annotated[int, Meta(ge=1, le=1_000_000_000)] | None = None
    """Number of the event to go on from; the last unless said."""
    say: Annotated[str, Meta(max_length=100_000)] = ""
    """What the model reads next."""
    note: Annotated[str, Meta(max_length=4_000)] = ""
    """Why, for people."""


class Accepted(msgspec.Struct, frozen=True):
    """A message is in the run's mailbox; the run takes it when a node serves it."""

    run_id: str
    accepted: str


class Forked(msgspec.Struct, frozen=True):
    """A new run that goes on from an event of another one."""

    run_id: str
    origin: str


class RunItem(msgspec.Struct, frozen=True):
    """A run in a list."""

    run_id: str
    address: str
    status: str
    goal: str
    """The beginning of it."""
    requested_by: str
    agent: str
    step: int
    tokens: int
    cost: Money
    started_at: str | None
    waits_for: str
    detail: str
    origin: str


class RunPage(msgspec.Struct, frozen=True):
    """A part of the list of runs."""

    items: list[RunItem]
    next_cursor: str | None
    complete: bool
    """False where there are more runs than were looked at."""


class Usage(msgspec.Struct, frozen=True):
    """What a run has used so far."""

    input_tokens: int
    output_tokens: int
    cost: Money


class Limits(msgspec.Struct, frozen=True):
    """What it may use; null: no limit."""

    iterations: int | None
    tokens: int | None
    duration_seconds: float | None
    cost: Money | None
    tool_calls: int | None


class Failure(msgspec.Struct, frozen=True):
    """Why a run failed."""

    reason: str
    detail: str


class RunDetail(msgspec.Struct, frozen=True):
    """A run."""

    run_id: str
    address: str
    status: str
    why_still: str
    """Why nothing moves, in a sentence; empty where something does."""
    goal: str
    requested_by: str
    model: str
    started_at: str | None
    step: int
    tool_calls: int
    usage: Usage
    budget: Limits
    final_answer: str | None
    failure: Failure | None
    origin: str
    approvals: list[ApprovalOut]
    """Calls that wait for people."""


class EventOut(msgspec.Struct, frozen=True):
    """One event of a run's journal."""

    seq: int
    at: str | None
    node: int
    type: str
    event: Any


def dollars(value: Decimal | str) -> Money:
    """A sum of what models cost."""
    return Money(value if isinstance(value, str) else f"{value:f}", "USD")


def run_item(line: RunLine) -> RunItem:
    """A run in a list."""
    return RunItem(
        line.run_id,
        line.address,
        line.status,
        line.goal,
        line.requested_by,
        line.agent,
        line.step,
        line.tokens,
        dollars(line.cost_usd),
        moment(line.started_at),
        line.waits_for,
        line.detail,
        line.origin,
    )


def run_detail(view: RunView) -> RunDetail:
    """A run."""
    state, budget = view.state, view.state.budget
    cost = None if budget.max_cost_usd is None else dollars(budget.max_cost_usd)
    return RunDetail(
        view.run_id,
        view.address,
        state.status,
        view.why_still,
        state.goal,
        state.requested_by,
        state.model,
        moment(state.started_at),
        state.step,
        state.tool_calls,
        Usage(state.input_tokens, state.output_tokens, dollars(state.total_cost_usd)),
        Limits(budget.max_iterations, budget.max_tokens, budget.max_duration_seconds, cost, budget.max_tool_calls),
        state.final_answer,
        Failure(state.failure_reason, state.failure_detail) if state.failure_reason else None,
        state.origin,
        [approval_out(one) for one in view.approvals],
    )
