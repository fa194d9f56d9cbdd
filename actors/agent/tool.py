"""A tool: a function, what models are told about it, and the rules under which the runtime may run it.

    @tool(side_effect=True, requires_approval=lambda a: a["amount"] > 5000)
    async def issue_refund(order_id: str, amount: int, idempotency_key: str) -> dict[str, str]:
        \"""Refund an order. Needs approval above 5000.\"""

A tool decides nothing by itself: `gate` says whether a human has to, `call` runs the function once. When to ask, to
wait, to repeat and to give up is the run's business. Neighbours: schema.py (signature to parameters), arguments.py
(checking), result.py (what comes back), digest.py (how a call is named).

Invariants: the function and the predicate get fresh values of the plain arguments, so neither can change what the other
sees or what was approved; a predicate that fails closes its gate.
"""

import functools
import hashlib
import inspect
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from types import CodeType
from typing import Any, Final, Literal, TypedDict, Unpack, get_args, overload

from callboard.actors.llm.client import ToolSpec

from .arguments import Arguments, Parameter, validate, values_of
from .digest import canonical
from .result import normalise, text_of
from .schema import KEY_PARAMETER, BadTool, object_schema, parameters_of

Doubt = Literal["retry", "reconcile", "park"]
Trust = Literal["untrusted", "trusted"]
Predicate = Callable[[dict[str, Any]], object]
InThread = Callable[[Callable[[], Any]], Awaitable[Any]]
"""How blocking code is run: the port's `in_thread`, or anything like `anyio.to_thread.run_sync`."""

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")  # what the model providers have in common
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
    side_effect: bool
    requires_approval: bool | str | Predicate
    timeout_seconds: float | None
    attempts: int
    on_doubt: Doubt
    """What to do when a call was started and nobody knows whether it happened."""
    reconcile: Callable[..., Any] | None = field(repr=False)
    returns_trust: Trust
    checks: tuple[Callable[..., Any], ...] = field(repr=False)
    """What is looked at again, at run time, before an approver decides."""
    version: str
    """12 hexadecimal digits that change with the tool's code and schema."""
    source_module: str

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def spec(self) -> ToolSpec:
        """The tool as models see it."""
        return ToolSpec(name=self.name, description=self.description, parameters=self.parameters)

    def validate(self, arguments: object) -> Arguments:
        """Check and convert what a model sent, or the plain arguments of an earlier validation.

        Raises:
            InvalidArguments: with a sentence for the model.
        """
        return validate(self.inputs, arguments)

    def gate(self, arguments: Arguments) -> str | None:
        """Why a human has to approve this call; None when nobody has to. Never raises, and in doubt never None."""
        rule = self.requires_approval
        if isinstance(rule, bool):
            return f"{self.name} always needs approval" if rule else None
        if isinstance(rule, str):
            return rule
        try:
            verdict = rule(values_of(self.inputs, arguments.plain))
            if not verdict:
                return None
        except Exception as error:  # noqa: BLE001 - the user's code; whatever it raises, the gate stays closed
            return f"approval predicate failed: {type(error).__name__}: {text_of(error)}"[:_MAX_REASON_CHARS]
        reason = verdict.strip()[:_MAX_REASON_CHARS] if isinstance(verdict, str) else ""
        return reason or f"{self.name} needs approval for these arguments"

    async def call(self, arguments: Arguments, key: str, in_thread: InThread) -> dict[str, Any]:
        """Run the function once and normalise its result. `key` is passed on if the function takes one.

        Raises:
            Exception: what the function raises.
        """
        values = values_of(self.inputs, arguments.plain)
        if self.takes_key:
            values[KEY_PARAMETER] = key
        return normalise(await _run(self.function, values, in_thread))

    async def ask_reconcile(self, arguments: Arguments, key: str, in_thread: InThread) -> dict[str, Any] | None:
        """Ask `reconcile` whether a call in doubt happened: its normalised result, or None when it did not.

        `reconcile` gets, by name, those of the tool's arguments and of `idempotency_key` that it has parameters for.

        Raises:
            BadTool: when the tool has no `reconcile`.
            Exception: what `reconcile` raises; the call is in doubt still.
        """
        if self.reconcile is None:
            raise BadTool(f"tool {self.name!r} has no reconcile function to ask")
        values = {**values_of(self.inputs, arguments.plain), KEY_PARAMETER: key}
        wanted = inspect.signature(self.reconcile).parameters
        if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in wanted.values()):
            values = {name: value for name, value in values.items() if name in wanted}
        outcome = await _run(self.reconcile, values, in_thread)
        return None if outcome is None else normalise(outcome)


class ToolOptions(TypedDict, total=False):
    """How a tool may be declared; see `tool`."""

    name: str | None
    side_effect: bool
    requires_approval: bool | str | Predicate
    timeout_seconds: float | None
    timeout: float | None
    attempts: int
    retry: int
    on_doubt: Doubt | None
    reconcile: Callable[..., Any] | None
    returns_trust: Trust
    checks: tuple[Callable[..., Any], ...]


@overload
def tool(function: Callable[..., Any], /, **options: Unpack[ToolOptions]) -> Tool: ...
@overload
def tool(**options: Unpack[ToolOptions]) -> Callable[[Callable[..., Any]], Tool]: ...
def tool(
    function: Callable[..., Any] | None = None, /, **options: Unpack[ToolOptions]
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Make a tool of an async or a blocking function; with or without options.

    Every parameter needs an annotation; the docstring is what models read. A parameter `idempotency_key` is hidden from
    them and filled by the runtime with the same key however often the call is attempted.

    Options:
        name: what models call it; by default the function's name.
        side_effect: whether a call changes something outside.
        requires_approval: True; a sentence that says why; or a function of the arguments (a dict of typed values) that
            says yes, no, or why. A function that raises counts as yes.
        timeout_seconds (or timeout): how long one attempt may take; None leaves that to the runtime.
        attempts (or retry): how often a call is attempted before its error goes to the model.
        on_doubt: what to do when nobody knows whether a started call happened. By default: ask `reconcile` where given;
            repeat where there is no side effect or a key is taken; else park the call until a human says.
        reconcile: a function of (some of) the same arguments and `idempotency_key` that finds out whether the call
            happened: None if not, else its result.
        returns_trust: "trusted" only if no word of the result can come from outside.
        checks: functions whose findings an approver is shown.

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
    side_effect: bool = False,
    requires_approval: bool | str | Predicate = False,
    timeout_seconds: float | None = None,
    timeout: float | None = None,
    attempts: int | None = None,
    retry: int | None = None,
    on_doubt: Doubt | None = None,
    reconcile: Callable[..., Any] | None = None,
    returns_trust: Trust = "untrusted",
    checks: tuple[Callable[..., Any], ...] = (),
) -> Tool:
    name = _checked_name(function, name)
    _require_plain_function(function, name)
    inputs, takes_key = parameters_of(function, name)
    schema = object_schema(inputs)
    _require_rule(requires_approval, name)
    _require(name, returns_trust in get_args(Trust), "returns_trust", "'untrusted' or 'trusted'", returns_trust)
    _require(name, all(callable(check) for check in checks), "checks", "functions", checks)
    _require_known_parameters(reconcile, inputs, name)
    return Tool(
        function=function,
        name=name,
        description=inspect.getdoc(function) or "",
        parameters=schema,
        inputs=inputs,
        takes_key=takes_key,
        side_effect=side_effect,
        requires_approval=requires_approval,
        timeout_seconds=_timeout(name, timeout_seconds, timeout),
        attempts=_attempts(name, attempts, retry),
        on_doubt=_doubt(name, on_doubt, reconcile, repeatable=takes_key or not side_effect),
        reconcile=reconcile,
        returns_trust=returns_trust,
        checks=tuple(checks),
        version=_version(function, name, schema),
        source_module=getattr(function, "__module__", None) or "",
    )


def _require(tool: str, holds: bool, option: str, expected: str, got: object) -> None:
    if not holds:
        raise BadTool(f"tool {tool!r}: {option} must be {expected}, not {text_of(got):.200}")


def _checked_name(function: object, name: str | None) -> str:
    own = getattr(function, "__name__", "")
    if not callable(function) or isinstance(function, Tool):
        raise BadTool(f"a tool is made of a function, not of {text_of(function):.200}")
    if own == "<lambda>":
        raise BadTool(f"tool {name or own!r}: a lambda has no annotations and no docstring; use def")
    name = name or own
    if not _NAME.fullmatch(name):
        raise BadTool(f"tool {name!r}: providers take names of 1 to 64 letters, digits, '_' and '-'; give name=")
    return name


def _require_plain_function(function: Callable[..., Any], tool: str) -> None:
    inner = inspect.unwrap(function)
    if inspect.isgeneratorfunction(inner) or inspect.isasyncgenfunction(inner):
        raise BadTool(f"tool {tool!r}: a generator's body would never run; return a list")


def _require_rule(rule: object, tool: str) -> None:
    expected = "a boolean, a sentence that says why, or a function that is not async"
    fits = isinstance(rule, bool) or (isinstance(rule, str) and rule.strip() != "") or callable(rule)
    _require(tool, fits and not inspect.iscoroutinefunction(rule), "requires_approval", expected, rule)


def _require_known_parameters(reconcile: Callable[..., Any] | None, inputs: tuple[Parameter, ...], tool: str) -> None:
    if reconcile is None:
        return
    _require(tool, callable(reconcile), "reconcile", "a function", reconcile)
    known = {KEY_PARAMETER, *(parameter.name for parameter in inputs)}
    for parameter in inspect.signature(reconcile).parameters.values():
        named = parameter.kind in {parameter.KEYWORD_ONLY, parameter.POSITIONAL_OR_KEYWORD} and parameter.name in known
        optional = parameter.kind in {parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL} or (
            parameter.default is not parameter.empty
        )
        if not named and not optional:
            raise BadTool(
                f"tool {tool!r}: reconcile takes {parameter.name!r}, which is neither an argument of the tool "
                f"nor {KEY_PARAMETER}"
            )


def _timeout(tool: str, timeout_seconds: float | None, timeout: float | None) -> float | None:
    _require(tool, timeout_seconds is None or timeout is None, "timeout", "given once, as timeout_seconds", timeout)
    seconds = timeout if timeout_seconds is None else timeout_seconds
    usable = seconds is None or (type(seconds) in {int, float} and seconds > 0)
    _require(tool, usable, "timeout_seconds", "a number of seconds above 0", seconds)
    return seconds


def _attempts(tool: str, attempts: int | None, retry: int | None) -> int:
    _require(tool, attempts is None or retry is None, "retry", "given once, as attempts", retry)
    number = attempts if attempts is not None else retry if retry is not None else 3
    usable = type(number) is int and number >= 1
    _require(tool, usable, "attempts", "a whole number of at least 1", number)
    return number


def _doubt(tool: str, asked: Doubt | None, reconcile: object, *, repeatable: bool) -> Doubt:
    if asked is not None:
        _require(tool, asked in get_args(Doubt), "on_doubt", "'retry', 'reconcile' or 'park'", asked)
        _require(tool, asked != "reconcile" or reconcile is not None, "on_doubt", "given with reconcile=", asked)
        return asked
    if reconcile is not None:
        return "reconcile"
    return "retry" if repeatable else "park"


async def _run(function: Callable[..., Any], values: dict[str, Any], in_thread: InThread) -> Any:
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None)):  # noqa: B004
        return await function(**values)
    outcome = await in_thread(functools.partial(_block, function, values))
    return await outcome if inspect.isawaitable(outcome) else outcome  # a blocking wrapper around an async function


def _block(function: Callable[..., Any], values: dict[str, Any]) -> Any:
    try:
        return function(**values)
    except StopIteration as error:
        # A future refuses StopIteration, and whoever waits for it would wait for ever.
        name = getattr(function, "__name__", type(function).__name__)
        raise RuntimeError(f"{name} raised StopIteration") from error


def _version(function: Callable[..., Any], name: str, schema: dict[str, Any]) -> str:
    inner = inspect.unwrap(function)
    try:
        body = inspect.getsource(inner)
    except (OSError, TypeError):  # made by exec, in a shell, or in C
        code = getattr(inner, "__code__", None)
        body = _code_text(code) if isinstance(code, CodeType) else getattr(inner, "__qualname__", name)
    text = "\0".join((name, canonical(schema), body))
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:12]


def _code_text(code: CodeType) -> str:
    """What `code` does, without the addresses and file names that differ between processes."""
    constants = [
        _code_text(constant) if isinstance(constant, CodeType) else _stable(constant) for constant in code.co_consts
    ]
    return repr((code.co_code, code.co_names, constants))


def _stable(constant: object) -> str:
    return repr(sorted(map(repr, constant))) if isinstance(constant, frozenset) else repr(constant)
