"""A tool: a function, what models are told about it, and the rules under which the runtime may run it.

    @tool(side_effect=True, requires_approval=lambda a: a["amount"] > 5000)
    async def issue_refund(order_id: str, amount: int, idempotency_key: str) -> dict[str, str]:
        \"""Refund an order. Needs approval above 5000.\"""

A tool decides nothing by itself: `gate` says whether a human has to, `call` runs the function once. When to ask, to
wait, to repeat and to give up is the run's business. Neighbours: schema.py (signature to parameters), options.py (what
may be declared), sums.py, arguments.py (checking), result.py (what comes back), trust.py, checks.py, version.py.

Invariants: the function and the predicate get fresh values of the plain arguments, so neither can change what the other
sees or what was approved; a predicate that fails closes its gate.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, Final, TypedDict, Unpack, overload

from callboard.actors.llm.client import ToolSpec

from ..guard.taint import Label
from . import options as declared
from .arguments import Arguments, Parameter, validate, values_of
from .checks import CHECK_SECONDS, findings_of
from .events import Finding
from .foreign import InThread, call_foreign, contained, never_waits
from .options import Doubt, Effect, Predicate, Retries
from .policies import wrong_in
from .policy import Terms
from .result import normalise, text_of
from .scalars import Scalars
from .schema import APPROVAL_PARAMETER, KEY_PARAMETER, BadTool, description_of, object_schema, parameters_of
from .sums import checked_sums
from .trust import Labels, labels_of, trust_at
from .version import tool_version

Deadline = Callable[[float | None], AbstractContextManager[Any]]
"""How time is bounded: the port's `deadline`."""

ATTEMPTS: Final = 3
"""Of a tool that does not say how many, at a desk that does not either."""
_MAX_REASON_CHARS: Final = 500


@dataclass(frozen=True, eq=False)
class Tool:
    """What `tool` makes of a function. Calling it calls the function."""

    function: Callable[..., Any] = field(repr=False)
    name: str
    description: str = field(repr=False)
    parameters: dict[str, Any] = field(repr=False)
    """The JSON schema of the arguments."""
    inputs: tuple[Parameter, ...] = field(repr=False)
    takes_key: bool
    """Whether the function has a parameter `idempotency_key`, which the runtime fills."""
    effect: Effect
    """What a call does to the world."""
    requires_approval: bool | str | Predicate
    timeout_seconds: float | None
    """How long one attempt may take; None: what the desk says."""
    retries: Retries
    on_doubt: Doubt
    """What to do when a call was started and nobody knows whether it happened."""
    reconcile: Callable[..., Any] | None = field(repr=False)
    returns_trust: Label | Mapping[str, Label]
    checks: tuple[Callable[..., Any], ...] = field(repr=False)
    """What is looked at again, at run time, before an approver decides."""
    version: str
    """12 hexadecimal digits that change with the tool's code and schema."""
    source_module: str
    labels: Label | Labels = field(repr=False, default="untrusted")
    """`returns_trust`, read."""
    sums: Mapping[str, str] = field(repr=False, default_factory=dict)
    """Which arguments are sums of money, and in which unit (sums.py); what is not named is known by its name."""
    takes_approval: bool = field(repr=False, default=False)
    """Whether the function has a parameter `approval`, which the runtime fills."""
    unasked: str | None = field(repr=False, default="")
    """What that is where nobody was asked."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    @property
    def side_effect(self) -> bool:
        """Whether a call changes something outside."""
        return self.effect != "read"

    @property
    def attempts(self) -> int:
        """How often a call is attempted before its error goes to the model, unless the desk says otherwise."""
        return self.retries.attempts or ATTEMPTS

    def spec(self) -> ToolSpec:
        """The tool as models see it."""
        return ToolSpec(name=self.name, description=self.description, parameters=self.parameters)

    def validate(self, arguments: object) -> Arguments:
        """Check and convert what a model sent, or the plain arguments of an earlier validation.

        Raises:
            InvalidArguments: with a sentence for the model.
        """
        return validate(self.inputs, arguments, self._scalars)

    def values(self, arguments: Arguments) -> dict[str, Any]:
        """Fresh typed values, as the function gets them."""
        return arguments.plain.copy() if arguments.scalar else values_of(self.inputs, arguments.plain)

    @cached_property
    def never_waits(self) -> bool:
        """Whether a call is over at once, so that it needs no limit of time (`foreign.never_waits`)."""
        # A kind of tool with a call of its own (over MCP, say) does not run its function at all.
        return type(self).call is Tool.call and never_waits(self.function)

    @cached_property
    def _scalars(self) -> Scalars | None:
        return Scalars.of(self.inputs)

    def trust_of(self, path: str | Sequence[str | int]) -> Label:
        """Whether the value at `path` of a recorded result can be relied on.

        `path` is written as `result_path` does (`orders[0].id`), or given as its keys and positions; what is no path is
        untrusted.
        """
        return trust_at(self.labels, path)

    def gate(self, arguments: Arguments) -> str | None:
        """Why a human has to approve this call; None when nobody has to. Never raises, and in doubt never None."""
        terms = self.terms(arguments)
        return None if terms is None else terms.reason

    def terms(self, arguments: Arguments) -> Terms | None:
        """On what terms a human has to approve this call. Never raises, and in doubt never None."""
        rule = self.requires_approval
        if isinstance(rule, bool):
            return Terms(f"{self.name} always needs approval") if rule else None
        if isinstance(rule, str):
            return Terms(rule)
        try:
            verdict = rule(self.values(arguments))
            if not verdict:
                return None
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - the user's code; whatever it raises, the gate stays closed
            return Terms(f"approval predicate failed: {type(error).__name__}: {text_of(error)}"[:_MAX_REASON_CHARS])
        if isinstance(verdict, Terms) and (wrong := wrong_in(verdict)):
            return Terms(f"approval predicate asks for what cannot be: {wrong}"[:_MAX_REASON_CHARS], risk="high")
        terms = verdict if isinstance(verdict, Terms) else Terms(verdict if isinstance(verdict, str) else "")
        reason = terms.reason.strip()[:_MAX_REASON_CHARS] or f"{self.name} needs approval for these arguments"
        return replace(terms, reason=reason, policy="tool")

    async def call(self, arguments: Arguments, key: str, in_thread: InThread, approval: str = "") -> dict[str, Any]:
        """Run the function once and normalise its result. `key`, and the decision that released the call (`approval`;
        "": nobody was asked), are passed on if the function takes them.

        Raises:
            Exception: what the function raises.
        """
        values = self.values(arguments)
        if self.takes_key:
            values[KEY_PARAMETER] = key
        if self.takes_approval:
            values[APPROVAL_PARAMETER] = approval or self.unasked
        return normalise(await call_foreign(self.function, values, in_thread))

    async def ask_reconcile(self, arguments: Arguments, key: str, in_thread: InThread) -> dict[str, Any] | None:
        """Ask `reconcile` whether a call in doubt happened: its normalised result, or None when it did not.

        `reconcile` gets, by name, those of the tool's arguments and of `idempotency_key` that it has parameters for.

        Raises:
            BadTool: when the tool has no `reconcile`.
            Exception: what `reconcile` raises; the call is in doubt still.
        """
        if self.reconcile is None:
            raise BadTool(f"tool {self.name!r} has no reconcile function to ask")
        values = declared.taken_by(self.reconcile, {**self.values(arguments), KEY_PARAMETER: key})
        outcome = await call_foreign(self.reconcile, values, in_thread)
        return None if outcome is None else normalise(outcome)

    async def run_checks(
        self, arguments: Arguments, in_thread: InThread, deadline: Deadline = nullcontext
    ) -> list[Finding]:
        """What each of `checks` finds about these arguments; never raises.

        Each gets, by name, those of the tool's arguments that it has parameters for, and 15 s by `deadline`.
        """

        async def run(check: Callable[..., Any]) -> Any:
            with deadline(CHECK_SECONDS):
                given = declared.taken_by(check, self.values(arguments))
                return await contained(call_foreign(check, given, in_thread))

        return await findings_of(self.checks, run)


class ToolOptions(TypedDict, total=False):
    """How a tool may be declared; see `tool`."""

    name: str | None
    side_effect: bool | None
    effect: Effect | None
    requires_approval: bool | str | Predicate
    timeout_seconds: float | None
    timeout: float | None
    attempts: int | None
    retry: int | Retries | None
    on_doubt: Doubt | None
    reconcile: Callable[..., Any] | None
    returns_trust: Label | Mapping[str, Label]
    checks: Callable[..., Any] | Sequence[Callable[..., Any]]
    sums: Mapping[str, str]


@overload
def tool(function: Callable[..., Any], /, **options: Unpack[ToolOptions]) -> Tool: ...
@overload
def tool(**options: Unpack[ToolOptions]) -> Callable[[Callable[..., Any]], Tool]: ...
def tool(
    function: Callable[..., Any] | None = None, /, **options: Unpack[ToolOptions]
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Make a tool of an async or a blocking function; with or without options.

    Every parameter needs an annotation; the docstring is what models read. A parameter `idempotency_key` is hidden from
    them and filled by the runtime with the same key however often the call is attempted. So is `approval`: with the id
    of the decision that released the call, or "" (None, where its annotation allows that) where nobody was asked.

    Options:
        name: what models call it; by default the function's name.
        side_effect: whether a call changes something outside.
        effect: "read", "write", "egress" (something leaves the house) or "money"; by default "write" with
            `side_effect`, else "read". All but "read" imply `side_effect`.
        requires_approval: True; a sentence that says why; or a function of the arguments (a dict of typed values) that
            says yes, no, why, or on what terms (`Terms`: how many people, how risky). A function that raises counts as
            yes.
        timeout_seconds (or timeout): how long one attempt may take; None leaves that to the desk.
        attempts (or retry): how often a call is attempted before its error goes to the model: a number, or `Retries`.
        on_doubt: what to do when nobody knows whether a started call happened. By default: ask `reconcile` where given;
            repeat where there is no side effect or a key is taken; else park the call until a human says.
        reconcile: a function of (some of) the same arguments and `idempotency_key` that finds out whether the call
            happened: None if not, else its result.
        returns_trust: "trusted" only if no word of the result can come from outside; or for some fields of it, see
            trust.py.
        checks: a function, or several, of (some of) the same arguments, whose findings an approver is shown; see
            checks.py.
        sums: which arguments are sums of money, and in which unit: {"amount_cents": "USD cents"}, {"price": "EUR"},
            {"lines[].total": "minor"}; see sums.py. Approvers are shown, and type, what it makes of them.

    Raises:
        BadTool: (a ValueError) naming the tool and what cannot work.
    """
    if function is not None:
        return _declare(function, **options)
    return lambda function: _declare(function, **options)


def _declare(
    function: Callable[..., Any],
    *,
    name: str | None = None,
    side_effect: bool | None = None,
    effect: Effect | None = None,
    requires_approval: bool | str | Predicate = False,
    timeout_seconds: float | None = None,
    timeout: float | None = None,
    attempts: int | None = None,
    retry: int | Retries | None = None,
    on_doubt: Doubt | None = None,
    reconcile: Callable[..., Any] | None = None,
    returns_trust: Label | Mapping[str, Label] = "untrusted",
    checks: Callable[..., Any] | Sequence[Callable[..., Any]] = (),
    sums: Mapping[str, str] = MappingProxyType({}),
) -> Tool:
    if isinstance(function, Tool):
        raise BadTool(f"a tool is made of a function, not of {text_of(function):.200}")
    name = declared.checked_name(function, name)
    declared.require_plain_function(function, name)
    taken = parameters_of(function, name)
    inputs, takes_key = taken.inputs, taken.takes_key
    schema = object_schema(inputs)
    declared.require_rule(requires_approval, name)
    if reconcile is not None:
        declared.require_known_parameters(reconcile, "reconcile", inputs, name, key=True)
    effect, side_effect = declared.checked_effect(name, effect, side_effect)
    return Tool(
        function=function,
        name=name,
        description=description_of(function),
        parameters=schema,
        inputs=inputs,
        takes_key=takes_key,
        effect=effect,
        requires_approval=requires_approval,
        timeout_seconds=declared.checked_seconds(name, timeout_seconds, timeout),
        retries=declared.checked_retries(name, attempts, retry),
        on_doubt=declared.checked_doubt(name, on_doubt, reconcile, repeatable=takes_key or not side_effect),
        reconcile=reconcile,
        returns_trust=returns_trust,
        checks=declared.checked_checks(checks, inputs, name),
        version=tool_version(function, name, schema),
        source_module=getattr(function, "__module__", None) or "",
        labels=labels_of(returns_trust, name),
        sums=checked_sums(sums, inputs, name),
        takes_approval=taken.takes_approval,
        unasked=taken.unasked,
    )
