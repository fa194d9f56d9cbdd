"""What makes the gate ask a person: values whose source is not trusted, and runs that have read what is not. Pure."""

from collections.abc import Iterator

from ..guard.profiles import Effect, GuardrailProfile
from ..guard.taint import A_DATE, AN_ADDRESS, has_values
from .events import Provenance, RequestedCall
from .facts import Facts
from .policy import Risk, Terms
from .tool import Tool

MAX_NAMED = 5
"""Values that one reason names."""


def terms_of_run(tool: Tool, facts: Facts) -> Iterator[Terms]:
    """What the run as a whole asks for: its plan, and what it has read."""
    profile, counted = facts.profile, facts.counted
    if not tool.side_effect:
        return
    if profile.plan and counted.plan is not None:
        most = counted.plan.get(tool.name)
        if most is None:
            yield Terms(
                f"{tool.name} is not in the run's plan ({', '.join(counted.plan) or 'no tool is'})", "guardrail:plan"
            )
        elif most and counted.calls.get(tool.name, 0) >= most:
            yield Terms(f"the run's plan has {tool.name} {most} time(s), and this is one more", "guardrail:plan")
    if tool.effect in profile.context and counted.untrusted:
        yield Terms("the model has read text from outside before it asked for this", "guardrail:context", _risk(tool))
    if profile.hits_to_hold and counted.hits >= profile.hits_to_hold:
        reason = f"{counted.hits} text(s) in this run looked like an attempt to instruct the model"
        yield Terms(reason, "guardrail:escalation_threshold_reached", "high")


def terms_of_values(call: RequestedCall, tool: Tool, facts: Facts) -> Iterator[Terms]:
    """What the sources of the call's values ask for."""
    profile, effect = facts.profile, tool.effect
    if effect not in _watched(profile):
        return
    if not call.provenance and has_values(call.arguments, tool.parameters):
        yield Terms("nobody has looked where its values come from", "guardrail:taint", _risk(tool))
        return
    untrusted = [one for one in call.provenance if one.trust == "untrusted"]
    novel = [one for one in untrusted if one.source == "novel" and effect in _effects_for(one, profile)]
    secret = [one for one in call.provenance if one.source == "secret"]
    composed = [one for one in untrusted if one.source == "composed"]
    unread = [one for one in untrusted if one.source == "unread"]
    tainted = [one for one in untrusted if one.source not in ("novel", "composed", "unread")]
    if unread:
        yield Terms(_named(unread, "are too much to be looked at"), "guardrail:taint", _risk(tool))
    if tainted and effect in profile.taint:
        yield Terms(_named(tainted, "come from text that is not trusted"), "guardrail:taint", _risk(tool))
    if novel:
        yield Terms(_named(novel, "are found nowhere in the conversation"), "guardrail:novel", _risk(tool))
    if secret and effect in profile.secret:
        yield Terms(_named(secret, "hold what is not meant to leave the house"), "guardrail:secret", _risk(tool))
    if composed and effect in profile.composed:
        yield Terms(_named(composed, "are the model's own words"), "guardrail:composed", _risk(tool))


def _watched(profile: GuardrailProfile) -> tuple[Effect, ...]:
    """Effects of which calls may be held for their values."""
    new = (*profile.novel, *profile.novel_addresses, *profile.novel_dates)
    return (*profile.taint, *new, *profile.secret, *profile.composed)


def _effects_for(novel: Provenance, profile: GuardrailProfile) -> tuple[Effect, ...]:
    """Effects of which calls are held for a value that nothing explains."""
    if novel.origin == A_DATE:
        return profile.novel_dates
    return (*profile.novel, *profile.novel_addresses) if novel.origin == AN_ADDRESS else profile.novel


def _named(values: list[Provenance], what: str) -> str:
    """Which values: their places, never themselves, which an attacker may have written."""
    names = [f"{one.path[:120]} ({one.origin[:120]})" if one.origin else one.path[:120] for one in values[:MAX_NAMED]]
    more = f" and {len(values) - MAX_NAMED} more" if len(values) > MAX_NAMED else ""
    if len(values) == 1:
        what = what.replace("come ", "comes ", 1).replace("hold ", "holds ", 1).replace("are ", "is ", 1)
    return f"{', '.join(names)}{more} {what}"


def _risk(tool: Tool) -> Risk:
    return "high" if tool.effect in ("egress", "money") else "medium"
