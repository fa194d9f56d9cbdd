"""What is done about a model call that failed: tried again and when, or given up. By the kind of error.

    rate_limit           again after what the provider asks for
    overload, connect    again after a full-jittered wait: 0.5 s doubling to 30 s at most, later half a minute to one
    timeout              once again like that; from the second one on, with a minute between them: each may have cost
    context              the conversation is made shorter (`model_worker`); at the same length it would fail for ever
    malformed, length    the model is told, as a step of the run (`run_model`)
    quota, auth, filter, bad_request    never again
    (a bug)              three times at most

`sent` says whether the provider was asked at all: what was not sent (`llm.provider.NotSent`) is no attempt.
"""

import logging
from dataclasses import dataclass, replace
from decimal import Decimal

import msgspec

from ..context import WorkerContext
from ..directives import Transient
from ..llm.client import LLMResponse, ModelError, TransientModelError, classify
from ..llm.provider import NotSent
from .messages import ModelFailed
from .text import error_line

log = logging.getLogger(__name__)

CAP_SECONDS = 30.0
"""Full jitter between zero and a doubling ceiling that ends here; a Retry-After wins."""
PATIENT_ATTEMPTS = 120
"""After so many, about half an hour, only about every 45 seconds, so that a provider that is down is asked gently."""
BUG_ATTEMPTS = 3
"""Attempts at most at a call whose client raises what is neither a transient nor a permanent error."""
TIME_IS_UP = "deadline"
"""Kind of the failure of a call that was not made, or was stopped, as its run may last no longer."""
GRACE_SECONDS = 0.1
"""So much after its run's end a call is stopped, so that it is over by every clock."""
AFTER_TIMEOUTS_SECONDS = 60.0
"""Between attempts that may each have cost something, from the second timeout of a call on."""


@dataclass
class Failure:
    """A failed attempt, read."""

    error: str
    kind: str
    final: bool
    sent: bool
    cost_usd: Decimal
    retry_after_seconds: float | None = None


class CutShort(ModelError):
    """An answer that ended at the model's output limit before it said anything."""

    REASONS = frozenset({"length", "max_tokens", "MAX_TOKENS"})

    @staticmethod
    def explained(answer: LLMResponse) -> LLMResponse:
        """An answer that was cut off: what was cut in it says so to the model.

        Raises:
            CutShort: there is nothing in it.
        """
        if not answer.content.strip() and not answer.tool_calls:
            raise CutShort(
                f"the answer was cut off at {answer.output_tokens:,} tokens, before it said anything",
                cost_usd=answer.cost_usd,
                kind="length",
            )
        said = "the answer was cut off at its greatest length; call again, with shorter arguments"
        calls = [
            msgspec.structs.replace(call, problem=f"{call.problem}: {said}") if call.problem else call
            for call in answer.tool_calls
        ]
        return replace(answer, tool_calls=tuple(calls))


def read_failure(error: Exception, attempt: int, max_attempts: int) -> Failure:
    """What an exception out of a model's client means. `max_attempts` is the run's limit; 0: none."""
    verdict, limit = classify(error), max_attempts
    kind = error.kind if isinstance(error, ModelError) else "timeout" if isinstance(error, TimeoutError) else ""
    if verdict == "bug":
        log.warning("the model's client failed", exc_info=error)
        limit = min(limit or BUG_ATTEMPTS, BUG_ATTEMPTS)
    sent = not isinstance(error, NotSent)
    cost = error.cost_usd if isinstance(error, ModelError) else Decimal(0)
    fed_back = isinstance(error, ModelError) and kind in {"malformed", "length"}
    final = sent and (verdict == "permanent" or fed_back or 0 < limit <= attempt)
    after = error.retry_after_seconds if isinstance(error, TransientModelError) else None
    return Failure(error_line(error), kind, final, sent, cost, after)


def seconds_left(until: float, ctx: WorkerContext) -> float:
    """How long a call may still take whose run ends at `until` (seconds since 1970; 0: never)."""
    return until - ctx.port.wall() + GRACE_SECONDS if until else float("inf")


def after_failure(
    failure: Failure, step: int, first_seconds: float, ctx: WorkerContext, *, until: float = 0.0
) -> ModelFailed:
    """The last word about a call; or, as an exception, that it is tried again, or its run told that time is up.

    Raises:
        Transient: again, with the notice of this attempt to the run.
    """
    made = ctx.attempt if failure.sent else ctx.attempt - 1
    told = ModelFailed(step, made, failure.error, failure.final, failure.cost_usd, failure.kind, sent=failure.sent)
    if failure.final:
        return told
    if failure.kind == "timeout" and failure.sent:
        ctx.envelope.timeouts += 1
    wait = max(0.0, min(_wait_seconds(failure, first_seconds, ctx), seconds_left(until, ctx)))
    told = msgspec.structs.replace(told, wait_seconds=wait)
    # Not `from` the error: a directive that the client raised must not decide here.
    raise Transient(failure.error, after_seconds=wait, notice=told, charge=failure.sent) from None


def _wait_seconds(failure: Failure, first_seconds: float, ctx: WorkerContext) -> float:
    if failure.retry_after_seconds is not None:
        return failure.retry_after_seconds
    if ctx.envelope.timeouts > 1 and failure.kind == "timeout":
        return AFTER_TIMEOUTS_SECONDS
    if ctx.attempt > PATIENT_ATTEMPTS:
        return CAP_SECONDS * (1 + ctx.port.random())
    return ctx.port.random() * min(CAP_SECONDS, first_seconds * 2.0 ** min(ctx.attempt - 1, 16))
