"""What guardrails write in a run's journal: what was planned, what was seen, and what is counted of a call."""

from decimal import Decimal
from typing import Literal

import msgspec

from ..context import Event

Layer = Literal["L1_input", "L2_tool_result", "L3_output", "L4_run_level"]
Action = Literal["ALLOW", "REDACT", "ESCALATE", "BLOCK"]


class Guarded(msgspec.Struct, frozen=True):
    """What a guardrail saw, and did."""

    layer: Layer
    """What it looked at: what people said, a tool's result, what the model asked for, or the run as a whole."""
    rule: str
    action: Action
    """ALLOW: it is only recorded. REDACT: hidden from the model. ESCALATE: it counts towards asking, or asks, a person.
    BLOCK: the call was refused, and the model told why."""
    detail: str = ""
    """For people. Never holds personal data that a rule is about, but may hold the words that matched."""
    call: int = 0
    """Number of the call that it is about; 0: of none."""
    confidence: float = 0.0
    """Of a signal, from 0 to 1; 0 where there is nothing to be unsure of."""
    latency_ms: float = 0.0
    """How long the look took."""


class Tally(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is counted of a call that may go, or is held."""

    same: str = ""
    """Equal for calls of one tool with equal arguments; "": not counted."""
    amounts: dict[str, Decimal] = {}
    """Arguments whose sum over the run has a limit."""


class PlanCommitted(Event, tag="guardrail.plan_committed"):
    """Which tools the run may call without asking, fixed before it has read anything."""

    tools: dict[str, int]
    """name → at most so many calls; 0: any number"""
    by: str = ""
    """`caller` or `planner`."""


class GuardrailTriggered(Event, tag="guardrail.triggered"):
    """A guardrail saw something. Recorded once, whatever is tried again."""

    step: int
    layer: Layer
    rule: str
    action: Action
    detail: str = ""
    call: int = 0
    confidence: float = 0.0
    latency_ms: float = 0.0
