"""What the gate knows of a run beside the call itself. All of it comes from the journal, so it survives anything."""

from typing import TYPE_CHECKING

import msgspec

from ..guard.profiles import PROFILES, GuardrailProfile, UnknownProfile, get_profile
from .counting import Counted

if TYPE_CHECKING:
    from .rules import Rules
    from .state import RunState


class Facts(msgspec.Struct, frozen=True):
    """Of one run, at one moment."""

    profile: GuardrailProfile = PROFILES["validation"]
    run_id: str = ""
    agent: str = ""
    requested_by: str = ""
    counted: Counted = msgspec.field(default_factory=Counted)
    """A copy, where several calls are judged: one after the other, each with those before it counted."""

    @classmethod
    def of(cls, run: "RunState", rules: "Rules", *, without: str = "", calls: int = 1) -> "Facts":
        """Of a run as it is now, for so many calls. `without`: the decision on a held call that is to be replaced: it
        does not count."""
        counted = run.counted
        if calls < 2 and not without:
            return cls(profile_of_run(run.guardrails, rules), run.run_id, run.agent, run.requested_by, counted)
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
