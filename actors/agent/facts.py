"""What the gate knows of a run beside the call itself. All of it comes from the journal, so it survives anything."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from ..guard.profiles import PROFILES, GuardrailProfile, UnknownProfile, get_profile
from .counting import Counted

if TYPE_CHECKING:
    from .rules import Rules
    from .state import RunState


@dataclass(frozen=True)
class Facts:
    """Of one run, at one moment."""

    profile: GuardrailProfile = PROFILES["validation"]
    run_id: str = ""
    agent: str = ""
    requested_by: str = ""
    counted: Counted = field(default_factory=Counted)
    """A copy: the calls of one answer are judged one after the other, each with those before it counted."""

    @classmethod
    def of(cls, run: "RunState", rules: "Rules", *, without: str = "") -> "Facts":
        """Of a run as it is now. `without`: the decision on a held call that is to be replaced: it does not count."""
        counted = run.counted
        copy = msgspec.structs.replace(
            counted,
            calls=dict(counted.calls),
            same=dict(counted.same),
            amounts=dict(counted.amounts),
            waiting=dict(counted.waiting),
        )
        for call in run.pending.values():
            if without and call.decision == without:
                copy.take_back(call.tool, without)
        return cls(profile_of_run(run.guardrails, rules), run.run_id, run.agent, run.requested_by, copy)


def profile_of_run(name: str, rules: "Rules") -> GuardrailProfile:
    """The profile that a run began with; the strictest, where this program does not know it any more."""
    try:
        return get_profile(name, rules.guardrails)
    except UnknownProfile:
        return PROFILES["strict"]
