"""What a run is held to before it begins: a guardrail profile that there is, and its plan. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from ..guard.classifier import load_detector
from ..guard.pii import Detect, detectors_of
from ..guard.plan import Plan, Planner
from ..guard.profiles import GuardrailProfile, UnknownProfile, get_profile
from .guard_events import PlanCommitted
from .messages import StartRun
from .rules import Rules
from .text import error_line, row_text
from .tool import Tool


def guardrails_of(
    profile: str | GuardrailProfile | None,
    more: Sequence[GuardrailProfile] = (),
    pii_detectors: Mapping[str, Detect] | None = None,
    planner: Planner | None = None,
) -> dict[str, Any]:
    """The fields of `Rules` that guardrails go by, checked.

    Raises:
        UnknownProfile: (a ValueError) listing the profiles there are.
        BadProfile: one hides a kind of personal data that nobody finds.
    """
    own = [*more, *([profile] if isinstance(profile, GuardrailProfile) else [])]
    named = {one.name: one for one in own}
    chosen = get_profile(profile, named)
    for one in {chosen.name: chosen, **named}.values():
        detectors_of(one.redact, pii_detectors)
        if one.detector:
            load_detector()
    return {
        "guardrail": chosen.name,
        "guardrails": named,
        "pii_detectors": dict(pii_detectors or {}),
        "planner": planner,
    }


def unknown_profile(name: str, rules: Rules) -> str:
    """Why a run cannot begin under a profile of this name; "" where it can."""
    try:
        get_profile(name, rules.guardrails)
    except UnknownProfile as error:
        return row_text(str(error))
    return ""


def plan_of(start: StartRun, tools: Mapping[str, Tool], rules: Rules) -> PlanCommitted | None:
    """The run's plan: the caller's, or the planner's, who is never shown a goal from outside; None: it has none.

    A planner that fails plans nothing, so that whatever the run wants to change is put to a person.
    """
    if start.plan is not None:
        return PlanCommitted(_known(start.plan), "caller")
    if rules.planner is None or start.goal_trust != "trusted":
        return None
    try:
        plan = rules.planner(start.goal, tuple(tools))
        return None if plan is None else PlanCommitted(_known(Plan.of(plan).tools), "planner")
    except Exception as error:  # noqa: BLE001 - a user's function; without its word every change is asked for
        return PlanCommitted({}, row_text(f"planner failed: {error_line(error)}"))


def _known(tools: dict[str, int]) -> dict[str, int]:
    return {row_text(name, 80): max(0, count) for name, count in list(tools.items())[:256]}
