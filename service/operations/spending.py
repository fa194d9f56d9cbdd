"""What a run has cost, by model: its own calls, and those of the runs that it called, read off their journals.

The sums of a run's state say how much; only its journal says on what. Reading that costs as much as the journal is
long, so lists do not ask for it.
"""

from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any

import msgspec

from ...actors.agent.events import (
    ChildEnded,
    LLMCallCompleted,
    LLMCallFailed,
    RunForked,
    RunStarted,
    StepCompleted,
    TranscriptCompacted,
)
from ...mailbox.message import Message
from ...persistence.store import Store
from .called import events_at
from .lookup import run_id_of

CHILDREN = 100
"""How many runs that a run has called are looked into; what others spent is said as theirs, without models."""
UNNAMED = "unnamed model"
"""Of a client that gives its model no name, as scripted ones do."""


class Spend(msgspec.Struct, frozen=True):
    """What one model was paid for."""

    model: str
    run: str = ""
    """Id of the run that called it, where that is one which this run has called."""
    answers: int = 0
    failed: int = 0
    """Attempts that failed, and may have cost something all the same."""
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: Decimal = Decimal(0)


async def spending(store: Store, address: str, known: Sequence[Message] | None = None) -> list[Spend]:
    """What a run has spent, dearest first; those it has called are looked into, as deep as they go.

    `known`: its own events, where they were read already.
    """
    found: dict[tuple[str, str], Spend] = {}
    queue, seen = [(address, "")], {address}
    while queue:
        journal, run = queue.pop()
        events = known if known is not None and journal == address else await events_at(store, journal)
        for spend in own_spending(events, run):
            found[run, spend.model] = spend
        for child in children_in(events):
            if len(seen) <= CHILDREN and child not in seen:
                seen.add(child)
                queue.append((child, run_id_of(child)))
    return sorted(found.values(), key=lambda one: (-one.cost_usd, one.run, one.model))


def own_spending(events: Iterable[Message], run: str = "") -> list[Spend]:
    """What one journal says was spent, by model."""
    sums: dict[str, dict[str, Any]] = {}
    usual = UNNAMED

    def add(model: str, **more: Any) -> None:
        kept = sums.setdefault(model or usual, {})
        for name, value in more.items():
            kept[name] = kept.get(name, 0) + value

    for event in events:
        match event:
            case RunStarted() if event.model != "unspecified":
                usual = event.model or UNNAMED
            case RunForked():
                usual = _model_of(event) or usual
            case LLMCallCompleted():
                add(event.model, answers=1, **_paid(event))
            case StepCompleted() if event.input_tokens or event.output_tokens or event.cost_usd:
                add("", answers=1, **_paid(event))
            case TranscriptCompacted() if event.input_tokens or event.output_tokens or event.cost_usd:
                add("", answers=1, **_paid(event))
            case LLMCallFailed():
                add("", failed=1, cost_usd=event.cost_usd)
    return [Spend(model, run, **kept) for model, kept in _merged(sums).items()]


def _merged(sums: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Attempts that failed do not say whose they were: where there is one model only, they were its own."""
    nameless = sums.get(UNNAMED)
    if nameless is None or len(sums) != 2:
        return sums
    (other,) = (name for name in sums if name != UNNAMED)
    keys = {*nameless, *sums[other]}
    return {other: {key: nameless.get(key, 0) + sums[other].get(key, 0) for key in keys}}


def _paid(event: LLMCallCompleted | StepCompleted | TranscriptCompacted) -> dict[str, Any]:
    return {
        "input_tokens": event.input_tokens,
        "output_tokens": event.output_tokens,
        "cost_usd": event.cost_usd,
    }


def _model_of(event: RunForked) -> str:
    model = event.state.get("model", "")
    return model if isinstance(model, str) and model != "unspecified" else ""


def children_in(events: Iterable[Message]) -> list[str]:
    """The addresses of the runs that a run has called and that have ended."""
    return [event.child for event in events if isinstance(event, ChildEnded)]


def spending_document(spent: Sequence[Spend]) -> list[dict[str, Any]]:
    """As part of a run's document."""
    return [
        {
            "model": one.model,
            "run": one.run or None,
            "answers": one.answers,
            "failed_attempts": one.failed,
            "input_tokens": one.input_tokens,
            "output_tokens": one.output_tokens,
            "cost": {"value": f"{one.cost_usd:f}", "currency": "USD"},
        }
        for one in spent
    ]
