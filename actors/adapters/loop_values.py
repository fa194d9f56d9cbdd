"""Arguments and results of steps as recorded: digests that are the same in every process, values that come back.

What a step gives to the code is always the recorded form read back, also the first time, so that a replay cannot see
anything else than the first pass saw.
"""

import functools
import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from ...mailbox import codec
from ...mailbox.errors import CallboardError, UsageError
from ..agent.answer import recorded
from ..agent.result import MAX_BYTES, normalise
from ..agent.text import well_formed_values
from ..llm.client import LLMResponse, ToolCall

MAX_ARGUMENTS_BYTES = 64 << 10
"""Of a step's arguments as people see them; the digest is of all of them."""

PLAIN, LLM = "plain", "llm"


ANSWER = ("content", "tool_calls", "stop_reason", "input_tokens", "output_tokens", "latency_ms", "provider_request_id")
"""What is kept of a model's answer, besides its cost."""


class CannotKeep(CallboardError, TypeError):
    """A result that cannot be recorded such that it comes back as what it was."""


def digest_of(args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """sha256 of a step's arguments. Equal values have equal digests in every process.

    Values, structs, dataclasses and pydantic models count with what is in them; any other object (a client, a function)
    counts as its type only, since its text names a place in memory.
    """
    try:
        text = msgspec.json.encode([list(args), dict(kwargs)], enc_hook=_opaque, order="deterministic")
    except (TypeError, ValueError, RecursionError):
        # Keys that are no text, lone surrogates, cycles: the total, slower way.
        text = codec.encode(normalise([list(args), dict(kwargs)])).encode()
    return hashlib.sha256(text).hexdigest()


def bound_in(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[Sequence[Any], Mapping[str, Any]]:
    """All the arguments that a function is called with, those that a `functools.partial` holds among them."""
    while isinstance(function, functools.partial):
        args, kwargs, function = [*function.args, *args], {**function.keywords, **kwargs}, function.func
    return args, kwargs


def _opaque(value: Any) -> Any:
    kind = type(value)
    if hasattr(kind, "model_dump") and hasattr(kind, "model_fields"):  # pydantic, without importing it
        return value.model_dump(mode="json")
    return f"<{kind.__module__}.{kind.__qualname__}>"


def readable(args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """A step's arguments for people to read."""
    shown = dict(kwargs) if not args else {"args": list(args), **kwargs}
    return normalise(shown, MAX_ARGUMENTS_BYTES)


def encode_value(value: Any, returns: Any = None) -> tuple[Any, str]:
    """(the value as JSON, its form). With `returns`, exactly; else as `result.normalise` has it, which is total.

    Raises:
        CannotKeep: it is not what `returns` says, or too large.
    """
    if isinstance(value, LLMResponse):
        return _of_answer(value), LLM
    if returns is None:
        kept = normalise([value])
        return (kept["result"][0] if "result" in kept else kept), PLAIN
    try:
        plain = well_formed_values(msgspec.to_builtins(value, str_keys=True))
        size = len(codec.encode(plain).encode())
        msgspec.convert(plain, returns, strict=False)
    except (msgspec.MsgspecError, TypeError, ValueError, RecursionError) as error:
        raise CannotKeep(f"the result cannot be kept as {returns!r}: {error}") from error
    if size > MAX_BYTES:
        raise CannotKeep(
            f"the result takes {size:,} bytes, {MAX_BYTES:,} can be kept; keep it elsewhere, return a name"
        )
    return plain, PLAIN


def decode_value(value: Any, form: str, returns: Any = None) -> Any:
    """The value that was recorded.

    Raises:
        CannotKeep: the program has changed, and what was recorded is not what `returns` says any more.
    """
    if form == LLM:
        return _answer(value)
    if returns is None:
        return value
    try:
        return msgspec.convert(value, returns, strict=False)
    except msgspec.MsgspecError as error:
        raise CannotKeep(f"what was recorded is no {returns!r}: {error}; the program has changed since") from error


def _of_answer(answer: LLMResponse) -> dict[str, Any]:
    bounded = recorded(answer, 0, 1, 0, 0)
    found: dict[str, Any] = msgspec.to_builtins(bounded)
    return {name: found[name] for name in ANSWER} | {"cost_usd": str(bounded.cost_usd)}


def _answer(value: dict[str, Any]) -> LLMResponse:
    calls = msgspec.convert(value["tool_calls"], list[ToolCall])
    return LLMResponse(**{**value, "tool_calls": calls})


def refuse_coroutine(name: str, function: Callable[..., Any]) -> None:
    """Say so where a step is given a call instead of a function.

    Raises:
        UsageError.
    """
    if not callable(function):
        raise UsageError(f"step {name!r} takes a function and its arguments, not what it returns: run.step(name, f, x)")
