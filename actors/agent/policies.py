"""Policies: a desk's own rules about which calls need people, and on what terms. As code:

    @policy
    def big_refunds(call: PolicyCall) -> Terms | None:
        if call.tool == "issue_refund" and call.arguments["amount"] > 5000:
            return Terms("more than 5000", needed=2, not_requester=True)

or as data (`policy_data`). They are asked after the tool's own `requires_approval`, and the strictest of all terms
counts (`policy.merged`).

Invariant: a policy can close the gate and never open it. One that fails, or says what cannot be meant, closes it.
"""

import inspect
import math
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from ...mailbox.errors import UsageError
from .events import Provenance
from .policy import MAX_NEEDED, RISKS, Terms
from .text import error_line, row_text

if TYPE_CHECKING:
    from .rules import Rules

MAX_SECONDS = 366 * 86_400.0
MAX_NAME_CHARS = 100


@dataclass(frozen=True)
class PolicyCall:
    """What a policy judges: a call with valid arguments, before anything happened."""

    tool: str
    arguments: Mapping[str, Any]
    """In their plain form: JSON values, with the defaults that apply."""
    effect: str = "read"
    """`read`, `write`, `egress` or `money`: what the tool says of itself."""
    requested_by: str = ""
    """Who asked for the run."""
    agent: str = ""
    run_id: str = ""
    provenance: tuple[Provenance, ...] = ()
    """Where the values come from; empty where the run's guardrails do not look."""


@runtime_checkable
class Policy(Protocol):
    """A rule; anything with a name and this method."""

    @property
    def name(self) -> str:
        """What approvers see, and the audit."""
        ...

    def terms(self, call: PolicyCall) -> Terms | None:
        """On what terms the call has to wait; None: this policy does not ask for that."""
        ...


@dataclass(frozen=True)
class FunctionPolicy:
    """A function as a policy. It gives Terms, a reason, True or False, or None."""

    function: Callable[[PolicyCall], Terms | str | bool | None]
    name: str

    def terms(self, call: PolicyCall) -> Terms | None:
        """See `Policy.terms`."""
        said = self.function(call)
        match said:
            case None | False:
                return None
            case True:
                return Terms(f"policy {self.name} asks for it", self.name)
            case str():
                return Terms(said, self.name)
        return said


def policy(function: Callable[[PolicyCall], Terms | str | bool | None]) -> FunctionPolicy:
    """Make a policy of a function, named like it.

    Raises:
        UsageError: it is not a function with a name, or an async one: a gate cannot wait.
    """
    name = getattr(function, "__name__", "")
    if not name:
        raise UsageError(f"@policy: expected a function with a name, got {function!r:.200}")
    if inspect.iscoroutinefunction(function):
        raise UsageError(f"@policy: {name} is async; a gate cannot wait: put what must be looked up into `checks`")
    return FunctionPolicy(function, name[:MAX_NAME_CHARS])


def terms_of(rules: "Rules", call: PolicyCall) -> list[Terms]:
    """What the desk's policies ask for; empty where none asks for anything."""
    found = (_asked(one, call) for one in rules.policies)
    return [terms for terms in found if terms is not None]


def _asked(one: Policy, call: PolicyCall) -> Terms | None:
    name = row_text(str(getattr(one, "name", type(one).__name__)), MAX_NAME_CHARS)
    # A copy for each: a policy that changes what it looks at must not change what runs, or what the next one sees.
    mine = replace(call, arguments=deepcopy(dict(call.arguments)))
    try:
        terms = one.terms(mine)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a user's code; whatever it raises, the gate is closed
        return Terms(f"policy {name} failed: {error_line(error)}", name, "high")
    if terms is None:
        return None
    wrong = wrong_in(terms)
    if wrong:
        return Terms(row_text(f"policy {name} asks for what cannot be: {wrong}"), name, "high")
    reason = row_text(terms.reason) or f"policy {name} asks for it"
    return replace(terms, reason=reason, policy=name if terms.policy == "tool" else row_text(terms.policy, 200))


def wrong_in(terms: object) -> str:
    """What is wrong with what a policy gave; "" for nothing."""
    if not isinstance(terms, Terms):
        return f"terms of type {type(terms).__name__}"
    if type(terms.reason) is not str or type(terms.policy) is not str:
        return "a reason or a name that is no text"
    if type(terms.needed) is not int or not 1 <= terms.needed <= MAX_NEEDED:
        return f"needed={terms.needed!r:.40}, which has to be from 1 to {MAX_NEEDED}"
    if terms.risk not in RISKS:
        return f"risk={terms.risk!r:.40}, which has to be one of {', '.join(RISKS)}"
    for name, seconds in (("expires_seconds", terms.expires_seconds), ("hold_seconds", terms.hold_seconds)):
        if seconds is not None and not _is_time(seconds):
            return f"{name}={seconds!r:.40}, which has to be from 0 to {MAX_SECONDS:g}"
    return ""


def _is_time(seconds: object) -> bool:
    number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    return number and math.isfinite(seconds) and 0 <= seconds <= MAX_SECONDS  # type: ignore[arg-type,operator]
