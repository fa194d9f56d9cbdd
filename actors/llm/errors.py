"""What a provider says instead of an answer, as a `ModelError`: one table for all vendors.

A vendor's client reads status, codes, text and headers off its wire into a `Refusal`; this module decides the class
(does waiting help?) and the kind (what else would help?). Where a vendor uses a word in its own way (Gemini speaks of
"quota" when a minute is full), its client gives the kind itself.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from email.utils import parsedate_to_datetime
from math import isfinite

from callboard.mailbox.errors import CallboardError

from .client import ErrorKind, ModelError, PermanentModelError, TransientModelError

MAX_TEXT_CHARS = 1_000
"""How much of a provider's own words is kept in an error."""

_QUOTA_CODES = frozenset({"insufficient_quota", "billing_hard_limit_reached", "billing_not_active"})
_QUOTA_TEXT = re.compile(r"exceeded your current quota|usage limit|insufficient (balance|credits|funds)", re.IGNORECASE)
_CONTEXT_CODES = frozenset({"context_length_exceeded", "exceed_context_size_error", "string_above_max_length"})
_CONTEXT_TEXT = re.compile(
    r"maximum context length|context (length|window|size)|token count.{0,80}exceeds"
    r"|prompt (is )?too long|too many (input )?tokens",
    re.IGNORECASE | re.DOTALL,
)
_FILTER_CODES = frozenset({"content_filter", "content_policy_violation", "responsibleaipolicyviolation"})
_AUTH_CODES = frozenset({"API_KEY_INVALID", "invalid_api_key", "model_not_found", "account_deactivated"})
_NO_TOOLS_TEXT = re.compile(r"does not support (tools|thinking)", re.IGNORECASE)
_TOOL_CODES = frozenset({"tool_use_failed"})
_TOOL_TEXT = re.compile(r"(error|failed) parsing tool call|failed to parse tool call", re.IGNORECASE)

_TRANSIENT_KINDS = frozenset({"rate_limit", "overload", "connect", "timeout"})


class BadClientSettings(CallboardError):
    """A model client cannot be made like this."""

    # Here, not beside the clients: who only names a model must not load what speaks HTTP, at the start of each node.


@dataclass(eq=False)  # not frozen: the interpreter writes on exceptions
class Refusal(Exception):
    """An answer that is an error, as it came."""

    status: int
    """HTTP status; 0: none, or 200."""
    text: str
    codes: frozenset[str] = frozenset()
    """Whatever codes, types and reasons the body named."""
    retry_after_seconds: float | None = None
    kind: ErrorKind | None = None
    """Set where the vendor's client knows better."""
    begun: bool = False
    """It came inside an answer that had begun well, so the model may have worked."""


def refused(who: str, refusal: Refusal, worst_usd: Decimal = Decimal(0)) -> ModelError:
    """The error that says so. `worst_usd` is booked where the model may have worked before it failed."""
    kind = refusal.kind or kind_of(refusal)
    status = "error within the answer" if refusal.begun else f"HTTP {refusal.status}"
    text = f"{who}: {status}: {' '.join(refusal.text.split())[:MAX_TEXT_CHARS] or 'no text'}"
    cost = worst_usd if refusal.begun or kind == "timeout" else Decimal(0)
    if kind in _TRANSIENT_KINDS:
        return TransientModelError(text, refusal.retry_after_seconds, cost_usd=cost, kind=kind)
    return PermanentModelError(text, cost_usd=cost, kind=kind)


def kind_of(refusal: Refusal) -> ErrorKind:
    """What helps, by what the body says; where it says nothing known, by the status alone."""
    status, text, codes = refusal.status, refusal.text, refusal.codes
    if codes & _TOOL_CODES or _TOOL_TEXT.search(text):
        return "malformed"
    if status == 402 or codes & _QUOTA_CODES or (status in {403, 429} and _QUOTA_TEXT.search(text)):
        return "quota"
    if codes & _FILTER_CODES:
        return "filter"
    # 500 too: llama.cpp's server and some gateways answer it to a prompt that does not fit.
    if status not in {401, 403, 404, 429} and (codes & _CONTEXT_CODES or _CONTEXT_TEXT.search(text)):
        return "context"
    if codes & _AUTH_CODES or _NO_TOOLS_TEXT.search(text):
        return "auth"
    return _kind_of_status(status)


def _kind_of_status(status: int) -> ErrorKind:
    match status:
        case 401 | 403 | 404:
            return "auth"
        case 429:
            return "rate_limit"
        case 413:
            return "context"
        case 499:
            return "timeout"
        case 0 | 408 | 409 | 425:
            return "overload"
    if 300 <= status < 400:
        return "auth"  # not followed, since the key would go along: the address must be set right
    return "overload" if status >= 500 else "bad_request"


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that `retry-after-ms` and `Retry-After` ask for, the longer of the two; None: neither can be read.

    A date is taken against the response's own `Date`, so that no clock here has to agree with the provider's.
    """
    asked = [_number(headers.get("retry-after-ms"), 1000), _number(headers.get("retry-after"), 1), _until(headers)]
    return max((seconds for seconds in asked if seconds is not None), default=None)


def _number(text: str | None, divisor: int) -> float | None:
    try:
        seconds = float(text or "") / divisor
    except ValueError:
        return None
    return max(0.0, seconds) if isfinite(seconds) else None


def _until(headers: Mapping[str, str]) -> float | None:
    try:
        until = parsedate_to_datetime(headers.get("retry-after", ""))
        return max(0.0, (until - parsedate_to_datetime(headers.get("date", ""))).total_seconds())
    except (TypeError, ValueError, OverflowError):  # no date, or one with and one without a zone
        return None
