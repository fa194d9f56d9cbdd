"""What a tool may be declared with, checked: a tool that cannot work is refused when it is declared."""

import inspect
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

from .arguments import Parameter
from .result import text_of
from .schema import KEY_PARAMETER, BadTool

Doubt = Literal["retry", "reconcile", "park"]
Effect = Literal["read", "write", "egress", "money"]
"""What a call does to the world: nothing; a change that stays inside; something leaves the house; money moves."""
Predicate = Callable[[dict[str, Any]], object]

MAX_CHECKS: Final = 32
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")  # what the model providers have in common


@dataclass(frozen=True)
class Retries:
    """How often a call that failed is attempted again, and when.

    Only where repeating is safe (tool_worker.py). The n-th wait lies between one and two halves of `first_seconds`
    doubled n-1 times, at most `cap_seconds`; a `Transient(after_seconds=)` that the tool raises wins.
    """

    attempts: int | None = None
    """Attempts in all; None: what the desk says."""
    first_seconds: float | None = None
    """None: what the desk says."""
    cap_seconds: float = 30.0
    no_retry: tuple[type[Exception], ...] = ()
    """Errors after which another attempt would not help; the first is told to the model."""


def require(tool: str, holds: bool, option: str, expected: str, got: object) -> None:
    """
    Raises:
        BadTool: when it does not hold.
    """
    if not holds:
        raise BadTool(f"tool {tool!r}: {option} must be {expected}, not {text_of(got):.200}")


def checked_name(function: object, name: str | None) -> str:
    """The name that models call the tool by.

    Raises:
        BadTool: no usable name, or nothing that can be called by one.
    """
    own = text_of(getattr(function, "__name__", ""))
    if not callable(function):
        raise BadTool(f"a tool is made of a function, not of {text_of(function):.200}")
    if isinstance(function, type):
        raise BadTool(f"tool {name or own!r}: a tool is made of a function, not of a class; use one of its methods")
    if own == "<lambda>":
        raise BadTool(f"tool {name or own!r}: a lambda has no annotations and no docstring; use def")
    wanted: object = own if name is None else name
    if not isinstance(wanted, str) or not _NAME.fullmatch(wanted):
        raise BadTool(f"tool {wanted!r:.200}: providers take names of 1 to 64 letters, digits, '_' and '-'; give name=")
    return wanted


def require_plain_function(function: Callable[..., Any], tool: str) -> None:
    """
    Raises:
        BadTool: for a generator.
    """
    inner = inspect.unwrap(function)
    for body in (inner, getattr(type(inner), "__call__", None)):  # noqa: B004 - of an object that can be called
        if inspect.isgeneratorfunction(body) or inspect.isasyncgenfunction(body):
            raise BadTool(f"tool {tool!r}: a generator's body would never run; return a list")


def require_rule(rule: object, tool: str) -> None:
    """
    Raises:
        BadTool: for what is no `requires_approval`.
    """
    expected = "a boolean, a sentence that says why, or a function that is not async"
    fits = isinstance(rule, bool) or (isinstance(rule, str) and rule.strip() != "") or callable(rule)
    is_async = inspect.iscoroutinefunction(rule) or inspect.iscoroutinefunction(getattr(rule, "__call__", None))  # noqa: B004
    require(tool, fits and not is_async, "requires_approval", expected, rule)


def require_known_parameters(
    function: Callable[..., Any], option: str, inputs: Sequence[Parameter], tool: str, *, key: bool
) -> None:
    """See that `function` takes nothing but arguments of the tool (and, with `key`, the idempotency key), by name.

    Raises:
        BadTool: it asks for something that it cannot be given.
    """
    require(tool, callable(function), option, "a function", function)
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError) as error:
        raise BadTool(f"tool {tool!r}: {option} has no readable signature ({error})") from error
    known = {parameter.name for parameter in inputs} | ({KEY_PARAMETER} if key else set())
    for parameter in parameters:
        named = parameter.kind in {parameter.KEYWORD_ONLY, parameter.POSITIONAL_OR_KEYWORD} and parameter.name in known
        optional = parameter.kind in {parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL} or (
            parameter.default is not parameter.empty
        )
        if not named and not optional:
            raise BadTool(
                f"tool {tool!r}: {option} takes {parameter.name!r}, which is neither an argument of the tool"
                + (f" nor {KEY_PARAMETER}" if key else "")
            )


def taken_by(function: Callable[..., Any], values: dict[str, Any]) -> dict[str, Any]:
    """Those of `values` that `function` has parameters for."""
    wanted = inspect.signature(function).parameters
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in wanted.values()):
        return values
    by_name = {inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD}
    return {name: value for name, value in values.items() if name in wanted and wanted[name].kind in by_name}


def checked_checks(checks: object, inputs: Sequence[Parameter], tool: str) -> tuple[Callable[..., Any], ...]:
    """The functions of `checks=`: one, or several.

    Raises:
        BadTool: one is no function, or takes what is no argument of the tool.
    """
    found = tuple(checks) if isinstance(checks, tuple | list) else (checks,)
    require(tool, len(found) <= MAX_CHECKS, "checks", f"at most {MAX_CHECKS}", len(found))
    for check in found:
        require_known_parameters(check, "checks", inputs, tool, key=False)
    return found


def checked_effect(tool: str, effect: object, side_effect: object) -> tuple[Effect, bool]:
    """The class of a tool's effect, and whether it has one.

    Raises:
        BadTool: they contradict each other.
    """
    require(tool, side_effect is None or isinstance(side_effect, bool), "side_effect", "True or False", side_effect)
    if effect is None:
        return ("write", True) if side_effect else ("read", False)
    require(tool, effect in get_args(Effect), "effect", "'read', 'write', 'egress' or 'money'", effect)
    fits = side_effect is None or bool(side_effect) == (effect != "read")
    require(tool, fits, "side_effect", f"left out beside effect={effect!r}, which says it", side_effect)
    return effect, effect != "read"  # type: ignore[return-value]


def checked_seconds(tool: str, timeout_seconds: object, timeout: object) -> float | None:
    """How long an attempt may take.

    Raises:
        BadTool: no number of seconds above 0, or said twice.
    """
    require(tool, timeout_seconds is None or timeout is None, "timeout", "given once, as timeout_seconds", timeout)
    seconds = timeout if timeout_seconds is None else timeout_seconds
    require(tool, seconds is None or _positive(seconds), "timeout_seconds", "a number of seconds above 0", seconds)
    return seconds  # type: ignore[return-value]


def checked_retries(tool: str, attempts: object, retry: object) -> Retries:
    """How often a call is attempted.

    Raises:
        BadTool: said twice, or by something that says no such thing.
    """
    require(tool, attempts is None or retry is None, "retry", "given once, as attempts", retry)
    asked = attempts if attempts is not None else retry
    if not isinstance(asked, Retries):
        usable = asked is None or (type(asked) is int and asked >= 1)
        require(tool, usable, "attempts", "a whole number of at least 1, or Retries", asked)
        return Retries(asked)  # type: ignore[arg-type]
    number, first = asked.attempts, asked.first_seconds
    require(tool, number is None or (type(number) is int and number >= 1), "attempts", "at least 1", number)
    require(tool, first is None or first == 0 or _positive(first), "first_seconds", "a number of seconds", first)
    require(tool, _positive(asked.cap_seconds), "cap_seconds", "a number of seconds above 0", asked.cap_seconds)
    errors: object = asked.no_retry
    fits = isinstance(errors, tuple) and all(isinstance(e, type) and issubclass(e, Exception) for e in errors)
    require(tool, fits, "no_retry", "a tuple of exception classes", errors)
    return asked


def checked_doubt(tool: str, asked: object, reconcile: object, *, repeatable: bool) -> Doubt:
    """What to do when nobody knows whether a call happened.

    Raises:
        BadTool: nothing that can be done.
    """
    if asked is not None:
        require(tool, asked in get_args(Doubt), "on_doubt", "'retry', 'reconcile' or 'park'", asked)
        require(tool, asked != "reconcile" or reconcile is not None, "on_doubt", "given with reconcile=", asked)
        return asked  # type: ignore[return-value]
    if reconcile is not None:
        return "reconcile"
    return "retry" if repeatable else "park"


def _positive(seconds: object) -> bool:
    return type(seconds) in {int, float} and seconds > 0 and not math.isnan(seconds)  # type: ignore[operator,arg-type]
