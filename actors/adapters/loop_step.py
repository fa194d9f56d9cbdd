"""Doing one step of a hosted run: the function itself, its retries, and what to do about one that is in doubt."""

import functools
import inspect
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

from msgspec.structs import replace as replace_fields

from ..agent.digest import idempotency_key
from ..agent.foreign import Threads, call_foreign, contained
from ..agent.result import text_of
from ..agent.text import error_line, row_text
from ..llm.client import LLMResponse, TransientModelError, classify
from .loop_attempt import Attempt
from .loop_messages import BeginStep, KeepStep, OnDoubt
from .loop_replay import STEP_KEY
from .loop_values import encode_value, readable

FIRST_SECONDS = 0.5
CAP_SECONDS = 30.0
RECONCILE_SECONDS = 60.0
KEY = "idempotency_key"
within: ContextVar[str] = ContextVar("callboard_step")
"""The step whose function is being called."""


@dataclass(frozen=True)
class Step:
    """A step as the code asks for it."""

    name: str
    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    returns: Any = None
    side_effect: bool = False
    on_doubt: OnDoubt | None = None
    reconcile: Callable[..., Any] | None = None
    attempts: int = 3
    timeout_seconds: float | None = None

    @property
    def takes_key(self) -> bool:
        """Whether its function has a parameter for the key."""
        try:
            return KEY in inspect.signature(self.function).parameters
        except (TypeError, ValueError):
            return False

    @property
    def doubt(self) -> OnDoubt:
        """What to do when nobody knows whether it happened."""
        if not self.side_effect:
            return "retry"
        return self.on_doubt or ("retry" if self.takes_key else "reconcile" if self.reconcile else "park")


async def perform(attempt: Attempt, key: str, digest: str, step: Step) -> list[int]:
    """Do a step and have its outcome on record; or the numbers of what a person has to say first.

    Raises:
        Ended: the attempt is over.
    """
    named = STEP_KEY + idempotency_key(attempt.ctx.caller, 0, step.name, f"{key} {digest}")
    if step.side_effect:
        shown = readable(step.args, step.kwargs)
        granted = await attempt.begin_step(
            BeginStep(attempt.number, key, step.name, digest, shown, attempt.step, step.doubt)
        )
        if granted.waits:
            return granted.waits
        if granted.in_doubt:
            waits = await _reconcile(attempt, key, digest, step, named, "its node died after it was begun")
            if waits is not None:
                return waits
    return await _try(attempt, key, digest, step, named)


async def _try(attempt: Attempt, key: str, digest: str, step: Step, named: str) -> list[int]:
    port, began = attempt.port, attempt.port.monotonic()
    outcome = KeepStep(attempt.number, key, step.name, digest)
    for tries in range(1, max(1, step.attempts) + 1):
        late, threads = False, Threads(port.in_thread)
        try:
            with port.deadline(step.timeout_seconds) as scope:
                token = within.set(step.name)
                try:
                    value = await contained(call_foreign(_bound(step, named), {}, threads))
                finally:
                    within.reset(token)
                    late = scope is not None and scope.cancel_called
            outcome = _with(outcome, value, step)
            break
        except Exception as error:  # noqa: BLE001 - the code's own function; the code gets it, now and on replay
            idle = late and threads.never_begun
            if step.side_effect and step.doubt != "retry" and not idle and (late or isinstance(error, TimeoutError)):
                # Cut off in the middle of its effect, perhaps: the doubt of a crash.
                waits = await _reconcile(attempt, key, digest, step, named, _reason(error, step, late=late))
                if waits is not None:
                    return waits
            elif tries < step.attempts and (
                idle or (step.doubt == "retry" and (late or classify(error) == "transient"))
            ):
                await port.sleep(_pause(error, tries, port.random()))
                continue
            line = row_text(text_of(error)) or type(error).__name__
            outcome = replace_fields(outcome, error_type=type(error).__name__, error=line)
            break
    took = int((port.monotonic() - began) * 1000)
    await attempt.keep_step(replace_fields(outcome, duration_ms=took, tries=tries))
    return []


def _with(outcome: KeepStep, value: Any, step: Step) -> KeepStep:
    plain, form = encode_value(value, step.returns)
    outcome = replace_fields(outcome, value=plain, form=form)
    if not isinstance(value, LLMResponse):
        return outcome
    return replace_fields(
        outcome, input_tokens=value.input_tokens, output_tokens=value.output_tokens, cost_usd=value.cost_usd
    )


def _bound(step: Step, named: str) -> Callable[..., Any]:
    keyed = {KEY: named} if step.takes_key and KEY not in step.kwargs else {}
    return functools.partial(step.function, *step.args, **step.kwargs, **keyed)


def _reason(error: Exception, step: Step, *, late: bool) -> str:
    return f"timed out after {step.timeout_seconds or 0:g} s" if late else error_line(error)


def _pause(error: Exception, tries: int, chance: float) -> float:
    wait = error.retry_after_seconds if isinstance(error, TransientModelError) else None
    return chance * min(CAP_SECONDS, FIRST_SECONDS * 2.0 ** min(tries, 16)) if wait is None else max(0.0, wait)


async def _reconcile(  # noqa: PLR0917 - one step, and why it is in doubt
    attempt: Attempt, key: str, digest: str, step: Step, named: str, why: str
) -> list[int] | None:
    """What is known of a step in doubt: [] when its result is on record now, numbers of what a person must say, or None
    when it surely did not happen and may be done."""
    if step.reconcile is None:
        return await attempt.doubt_step(key, why)
    asking = replace(step, function=step.reconcile)
    try:
        with attempt.port.deadline(step.timeout_seconds or RECONCILE_SECONDS):
            value = await contained(call_foreign(_bound(asking, named), {}, attempt.port.in_thread))
    except Exception as error:  # noqa: BLE001 - without its word it is a person's to say
        return await attempt.doubt_step(key, f"{why}, and reconcile failed: {error_line(error)}")
    if value is None:
        return None
    await attempt.keep_step(_with(KeepStep(attempt.number, key, step.name, digest), value, step))
    return []
