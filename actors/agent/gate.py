"""The gate: what happens to a call that a model asked for, before anything happens. A pure function of the journal.

Order: does the tool exist; do the arguments fit; are they within their caps; is it no endless repetition. What fails
there goes back to the model as an error. Then everything that may ask for a person, all at once: the run's plan, where
the values come from, what the run has read, the tool's own rule, the desk's policies. The strictest terms count.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import TYPE_CHECKING

import msgspec

from ..guard.pii import unresolved
from .arguments import Arguments, InvalidArguments
from .capping import capped_amounts, over_cap, unknown_cap
from .events import RequestedCall
from .facts import Facts
from .guard_events import Guarded, Tally
from .policies import PolicyCall, terms_of
from .policy import Terms, merged, with_strangers
from .suspicion import terms_of_run, terms_of_values
from .text import row_text
from .tool import Tool

if TYPE_CHECKING:
    from .rules import Rules

Findings = tuple[Guarded, ...]


@dataclass(frozen=True)
class Refuse:
    """The model gets this error; the tool never sees the call."""

    error: str
    findings: Findings = field(default=(), compare=False)


@dataclass(frozen=True)
class Hold:
    """A person has to release it, on these terms."""

    tool: Tool
    arguments: Arguments
    terms: Terms
    tally: Tally | None = None
    findings: Findings = field(default=(), compare=False)

    @property
    def reason(self) -> str:
        """Why it asks."""
        return self.terms.reason


@dataclass(frozen=True)
class Go:
    """It may be made."""

    tool: Tool
    arguments: Arguments
    tally: Tally | None = None
    findings: Findings = field(default=(), compare=False)


Verdict = Refuse | Hold | Go


def judge_all(
    calls: Sequence[RequestedCall],
    tools: Mapping[str, Tool],
    facts: Facts,
    rules: "Rules | None" = None,
    monotonic: Callable[[], float] = lambda: 0.0,
) -> list[Verdict]:
    """What becomes of the calls of one answer, each judged with those before it already counted."""
    verdicts: list[Verdict] = []
    for call in calls:
        began = monotonic()
        verdict = judge(call, tools, facts, rules)
        if verdict.findings:
            took = round((monotonic() - began) * 1000, 3)
            timed = tuple(msgspec.structs.replace(one, latency_ms=took) for one in verdict.findings)
            verdict = replace(verdict, findings=timed)
        verdicts.append(verdict)
        if len(verdicts) < len(calls) and not isinstance(verdict, Refuse):
            facts.counted.add(verdict.tool.name, verdict.tally)
    return verdicts


def judge(
    call: RequestedCall, tools: Mapping[str, Tool], facts: Facts | None = None, rules: "Rules | None" = None
) -> Verdict:
    """What becomes of a requested call. Without `facts` and `rules`: of a run that did nothing, at a desk without."""
    facts = facts or Facts()
    tool = tools.get(call.name)
    if tool is None:
        error = f"unknown tool: {call.name[:80]}; known are {', '.join(sorted(tools)) or 'none'}"
        return Refuse(error, _blocked(facts, "allowlist_violation", call.name))
    if call.problem:
        return Refuse(f"invalid arguments: {call.problem}", _blocked(facts, "schema_invalid", tool.name))
    try:
        arguments = tool.validate(call.arguments)
    except InvalidArguments as error:
        return Refuse(f"invalid arguments: {error.problem}", _blocked(facts, "schema_invalid", tool.name))
    tally = tally_of(tool, arguments, facts)
    asked: list[Terms] = []
    findings: list[Guarded] = []
    if facts.profile.active:
        limits = _limits(tool, arguments, tally, facts)
        if isinstance(limits, Refuse):
            return limits
        if tool.side_effect or facts.profile.traces:
            limits += [(terms, "") for terms in (*terms_of_run(tool, facts), *terms_of_values(call, tool, facts))]
        for terms, rule in limits:
            asked.append(terms)
            findings.append(_asks(terms, tool.name, rule))
    if tool.requires_approval is not False or (rules is not None and rules.policies):
        asked += _rules_of_people(call, tool, arguments, facts, rules)
    terms_in_all = merged(asked)
    if terms_in_all is None:
        return Go(tool, arguments, tally, tuple(findings))
    terms_in_all = with_strangers(terms_in_all, facts.requested_by)
    return Hold(tool, arguments, terms_in_all, tally, tuple(findings))


def _limits(tool: Tool, arguments: Arguments, tally: Tally | None, facts: Facts) -> Refuse | list[tuple[Terms, str]]:
    """Limits that need no judgement: the model is told, or, where the profile says so, a person is asked."""
    profile = facts.profile
    asked: list[tuple[Terms, str]] = []
    if profile.redact and tool.effect in ("egress", "money"):
        name = unresolved(arguments.plain)
        if name is not None:
            error = f"the arguments hold {name[:40]}, which stands for nothing; use a value that you were given"
            return Refuse(error, _blocked(facts, "unknown_placeholder", f"{tool.name}: {name[:40]}"))
    over = None
    if profile.caps:
        over = unknown_cap(tool.name, tool.parameters, profile.caps) or over_cap(
            tool.name, arguments.plain, profile.caps, facts.counted.amounts
        )
    if over is not None:
        if profile.on_cap == "refuse":
            return Refuse(over, _blocked(facts, "policy_bounds_exceeded", over))
        asked.append((Terms(over, "guardrail:cap", "high"), "policy_bounds_exceeded"))
    times = facts.counted.same.get(tally.same, 0) + 1 if tally is not None and tally.same else 0
    if profile.loop_threshold and times >= profile.loop_threshold:
        said = f"this is the same call of {tool.name} for the {_ordinal(times)} time in this run"
        if profile.on_loop == "refuse":
            error = f"refused: {said}; it is not made again: go on with what it answered, or do something else"
            return Refuse(error, _blocked(facts, "loop_detected", said, run=True))
        asked.append((Terms(said, "guardrail:loop"), "loop_detected"))
    return asked


def _rules_of_people(
    call: RequestedCall, tool: Tool, arguments: Arguments, facts: Facts, rules: "Rules | None"
) -> Iterable[Terms]:
    terms = tool.terms(arguments)
    if terms is not None:
        yield replace(terms, reason=row_text(terms.reason))
    if rules is not None and rules.policies:
        yield from terms_of(
            rules,
            PolicyCall(
                tool.name,
                arguments.plain,
                tool.effect,
                facts.requested_by,
                facts.agent,
                facts.run_id,
                tuple(call.provenance),
            ),
        )


def tally_of(tool: Tool, arguments: Arguments, facts: Facts) -> Tally | None:
    """What is to be counted of the call; None: nothing."""
    profile = facts.profile
    if not profile.active:
        return None
    counts = profile.loop_threshold and tool.side_effect
    same = sha256(f"{tool.name}\0{arguments.canonical}".encode()).hexdigest()[:12] if counts else ""
    amounts = capped_amounts(tool.name, arguments.plain, profile.caps) if profile.caps else {}
    return Tally(same, amounts) if same or amounts else None


def _blocked(facts: Facts, rule: str, detail: str, *, run: bool = False) -> Findings:
    if not facts.profile.active:
        return ()
    return (Guarded("L4_run_level" if run else "L3_output", rule, "BLOCK", row_text(detail)),)


def _asks(terms: Terms, tool: str, rule: str = "") -> Guarded:
    name = rule or terms.policy.removeprefix("guardrail:")
    run_level = name in ("plan", "context", "loop_detected", "escalation_threshold_reached")
    return Guarded("L4_run_level" if run_level else "L3_output", name, "ESCALATE", row_text(f"{tool}: {terms.reason}"))


def _ordinal(number: int) -> str:
    ending = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
