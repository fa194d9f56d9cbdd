"""A model's answer as it is recorded: bounded and storable, so that an answer that was paid for can always be taken.

Nothing here fails. Calls whose arguments cannot be kept stay in the answer with a `problem`, which the gate gives back
to the model.
"""

from collections.abc import Sequence
from typing import Any

from ...mailbox import codec
from ...mailbox.errors import BadMessage
from ..llm.client import LLMResponse, ToolCall
from .events import RequestedCall
from .messages import ModelAnswered
from .text import row_text, well_formed, well_formed_values

MAX_CONTENT_BYTES = 512 << 10
CUT_CONTENT_CHARS = 80_000
"""What is kept of a longer text; six bytes a character at most."""
MAX_ARGUMENTS_BYTES = 256 << 10
"""Of all calls of one answer together."""
MAX_CALLS = 64
"""Calls of one answer; what a model asks for beyond it is left out of the answer."""
MAX_NAME_CHARS = 256
MAX_COUNT = 1 << 53


def recorded(
    answer: LLMResponse, step: int, attempt: int, node: int, latency_ms: int, *, model: str = ""
) -> ModelAnswered:
    """The answer as a message to the run. `model`: what its client calls it."""
    return ModelAnswered(
        step=step,
        content=_content(answer.content),
        tool_calls=_calls(answer.tool_calls[:MAX_CALLS]) if answer.tool_calls else [],
        stop_reason=row_text(answer.stop_reason, MAX_NAME_CHARS),
        input_tokens=min(answer.input_tokens, MAX_COUNT),
        output_tokens=min(answer.output_tokens, MAX_COUNT),
        cost_usd=answer.cost_usd,
        latency_ms=min(answer.latency_ms or latency_ms, MAX_COUNT),
        provider_request_id=row_text(answer.provider_request_id, MAX_NAME_CHARS),
        attempt=attempt,
        node=node,
        model=row_text(model, MAX_NAME_CHARS),
    )


def _content(text: str) -> str:
    text = well_formed(text)
    if type(text) is str and len(text) <= MAX_CONTENT_BYTES // 6:  # bytes that JSON takes for a character at most
        return text
    if len(codec.encode(text).encode()) <= MAX_CONTENT_BYTES:
        return text
    return text[:CUT_CONTENT_CHARS] + " … (cut)"


def _calls(calls: Sequence[ToolCall]) -> list[RequestedCall]:
    left = MAX_ARGUMENTS_BYTES
    kept: list[RequestedCall] = []
    for call in calls:
        arguments, problem, size = _arguments(call)
        size += len(call.opaque)
        fits = size <= left
        if not fits:
            arguments, problem = {}, f"the arguments are too long: {size:,} bytes, {left:,} are left in this turn"
        left -= size if fits else 0
        kept.append(
            RequestedCall(
                well_formed(call.id)[:MAX_NAME_CHARS],
                well_formed(call.name)[:MAX_NAME_CHARS],
                arguments,
                row_text(problem),
                well_formed(call.opaque) if fits else "",
            )
        )
    return kept


def _arguments(call: ToolCall) -> tuple[dict[str, Any], str, int]:
    """(arguments, what is wrong with them, bytes they take)"""
    if call.problem:
        return {}, call.problem, 0
    try:
        arguments: dict[str, Any] = well_formed_values(call.arguments)
        written = codec.encode(arguments)
        size = len(written) if written.isascii() else len(written.encode())
    except (ValueError, BadMessage, RecursionError) as error:
        return {}, f"the arguments are not valid JSON: {error}", 0
    return arguments, "", size
