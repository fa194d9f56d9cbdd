"""What a model client is: one method, neutral values in and out, errors classed by what the caller does about them.

Clients (one vendor a file beside this one) neither retry nor count: the run does both, durably. They raise

    CallboardError
    └── ModelError
        ├── TransientModelError    the same request may succeed later: wait, then call again
        └── PermanentModelError    the same request will always fail: change it or give up

and `classify` sorts everything else that user-written clients raise, without importing anybody's SDK. What a model
*says* is never an error here: a malformed tool call comes back as a `ToolCall` with its `problem`, so that the run can
answer the model with it instead of paying for the same answer again.

This module imports nothing of `callboard.actors.agent`.
"""

import json
import re
import ssl
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from math import isfinite
from typing import Any, Literal, NoReturn

import msgspec

from callboard.mailbox.errors import CallboardError

Role = Literal["user", "assistant", "tool", "system"]

_NOTHING = Decimal(0)

MAX_ARGUMENTS_CHARS = 1 << 20
"""Longer argument text is not parsed: it comes from a model and is as untrusted as anything else."""


MAX_RETRY_AFTER_SECONDS = 86_400.0
"""What asks for more (the date of a wrong clock, a time in other units) must not hold a provider's calls for ever."""


MAX_COST_USD = 10**15
"""Of one call. Sums of costs beyond all reckoning are errors, which would stop the run that adds them up."""


class ToolCall(msgspec.Struct, frozen=True):
    """One call that a model asks for."""

    id: str
    """The model's own id; may be empty or repeated, so the run numbers calls itself."""
    name: str
    arguments: dict[str, Any]
    problem: str = ""
    """Why `arguments` could not be read (they are empty then): a sentence for the model. Empty: they were read."""
    opaque: str = ""
    """A provider's token that must go back with the call unread (Gemini's thought signature)."""

    @classmethod
    def from_wire(cls, id: str, name: str, arguments: object, opaque: str = "") -> "ToolCall":
        """A call as it came: `arguments` is an object, JSON text of one, or nothing. Never fails; see `problem`."""
        read, problem = _read_arguments(arguments)
        return cls(id=id, name=name, arguments=read, problem=problem, opaque=opaque)


class ChatMessage(msgspec.Struct, frozen=True):
    """One message of a conversation as clients get it."""

    role: Role
    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    """What an assistant message asked for."""
    tool_name: str = ""
    tool_call_id: str = ""
    """Which of those calls a tool message answers."""


class ToolSpec(msgspec.Struct, frozen=True):
    """A tool as models see it; `parameters` is the JSON schema of an object."""

    name: str
    description: str
    parameters: dict[str, Any]


@dataclass(frozen=True, init=False, slots=True)
class LLMResponse:
    """One answer of a model.

    `tool_calls` may be given as `ToolCall`s or as mappings of id, name and arguments; `cost_usd` as any number.

    Raises:
        ValueError: for a count or a cost that is negative or no number, or a tool call without a name.
    """

    content: str
    tool_calls: tuple[ToolCall, ...]
    stop_reason: str
    input_tokens: int
    output_tokens: int
    cost_usd: Decimal
    latency_ms: int
    provider_request_id: str
    cached_tokens: int
    """Of `input_tokens`: those the provider had in its cache."""
    thought_tokens: int
    """Of `output_tokens`: those that nobody sees."""

    def __init__(  # noqa: PLR0917 - the fields in their order, as dataclasses have it
        self,
        content: str | None = "",
        tool_calls: Iterable[ToolCall | Mapping[str, Any]] | None = (),
        stop_reason: str = "end_turn",
        input_tokens: int = 0,
        output_tokens: int = 0,
        cost_usd: Decimal | float | str = _NOTHING,
        latency_ms: int = 0,
        provider_request_id: str = "",
        cached_tokens: int = 0,
        thought_tokens: int = 0,
    ) -> None:
        put = object.__setattr__
        put(self, "content", content or "")
        put(self, "tool_calls", tuple([_tool_call(call) for call in tool_calls or ()]))
        put(self, "stop_reason", stop_reason)
        put(self, "input_tokens", _count("input_tokens", input_tokens))
        put(self, "output_tokens", _count("output_tokens", output_tokens))
        put(self, "cost_usd", _amount("cost_usd", cost_usd))
        put(self, "latency_ms", _count("latency_ms", latency_ms))
        put(self, "provider_request_id", provider_request_id)
        put(self, "cached_tokens", _count("cached_tokens", cached_tokens))
        put(self, "thought_tokens", _count("thought_tokens", thought_tokens))


class LLMClient(ABC):
    """A model behind one method. Implementations must allow concurrent calls."""

    @abstractmethod
    async def call(
        self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpec], system_prompt: str = ""
    ) -> LLMResponse:
        """Ask the model once: no retries inside, and a cancelled call leaves nothing running.

        Raises:
            TransientModelError: the same request may succeed later.
            PermanentModelError: it will not.
        """

    async def stream(
        self,
        messages: Sequence[ChatMessage],
        tools: Sequence[ToolSpec],
        system_prompt: str,
        on_text: Callable[[str], None],
    ) -> LLMResponse:
        """`call`, with the text handed to `on_text` piece by piece as it comes; the answer and errors are `call`'s.

        Pieces are for people who watch. After an error there is no way to take them back, so nothing may rest on them.
        """
        answer = await self.call(messages, tools, system_prompt)
        if answer.content:
            on_text(answer.content)
        return answer

    @property
    def model_name(self) -> str:
        """What its model is called, in a run's journal and its sums of cost; "" where it has no name."""
        name = getattr(self, "model", "")
        return name if isinstance(name, str) else ""

    @property
    def vendor(self) -> str:
        """Whose API it speaks, in the words of OpenTelemetry's GenAI conventions; "" where they have none for it."""
        return ""

    def worst_cost(self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpec], system_prompt: str) -> Decimal:
        """What such a call costs at most, in USD, for one whose outcome nobody saw; 0: the client knows no price."""
        return Decimal(0)


ErrorKind = Literal[
    "rate_limit",  # too many requests: wait as long as the provider says
    "quota",  # the account is empty: waiting does not help
    "overload",  # the provider has a fault or is busy
    "connect",  # nothing was sent, so nothing was bought
    "timeout",  # sent, and no whole answer came: it may have been bought (`cost_usd` says the worst)
    "context",  # the conversation is too long: shorten it
    "filter",  # the provider refuses the content
    "auth",  # no such key, right, model or address: whoever runs it must set it right
    "malformed",  # the model wrote what cannot be read: tell it
    "length",  # the model was cut off before it said anything
    "bad_request",  # the request itself is wrong
]
"""What went wrong, finer than the two classes; the caller acts on it."""


class ModelError(CallboardError):
    """A model call failed. `cost_usd` is what the attempt cost all the same, so that budgets see it."""

    kind: ErrorKind

    def __init__(
        self, message: str, *, cost_usd: Decimal | float | str = Decimal(0), kind: ErrorKind = "bad_request"
    ) -> None:
        super().__init__(message)
        self.cost_usd = _amount("cost_usd", cost_usd)
        self.kind = kind


class TransientModelError(ModelError):
    """Overload, rate limit, timeout, lost connection: the same request may succeed later."""

    def __init__(
        self,
        message: str,
        retry_after_seconds: float | None = None,
        *,
        cost_usd: Decimal | float | str = Decimal(0),
        kind: ErrorKind = "overload",
    ) -> None:
        super().__init__(message, cost_usd=cost_usd, kind=kind)
        # Not `<= 0`: what is no number is nothing that was asked for either.
        asked = retry_after_seconds is not None and retry_after_seconds > 0
        self.retry_after_seconds = min(retry_after_seconds or 0.0, MAX_RETRY_AFTER_SECONDS) if asked else None
        """What the provider asked for, up to a day; None: it did not say, or said "at once", which would be a storm."""


class PermanentModelError(ModelError):
    """Bad request, bad key, no such model, quota used up, context too long: repeating it cannot help."""


ErrorClass = Literal["transient", "permanent", "bug"]

_TRANSIENT_STATUSES = frozenset({408, 409, 425, 429, 499})
_QUOTA_CODES = frozenset({"insufficient_quota", "billing_hard_limit_reached", "billing_not_active"})
# Base classes of the usual HTTP libraries and SDKs, by name: importing them only to compare is out of the question.
# httpx.TransportError itself is not among them: it also covers malformed URLs.
_TRANSIENT_NAMES = frozenset(
    {
        "TimeoutException",  # httpx, httpx2
        "NetworkError",
        "RemoteProtocolError",
        "APIConnectionError",  # the SDKs made by Stainless
        "ServerConnectionError",  # aiohttp
        "ClientPayloadError",
        "IncompleteRead",  # http.client
    }
)
_LOST_NAMES = _TRANSIENT_NAMES | {"TimeoutError", "ConnectionResetError", "ConnectionAbortedError", "BrokenPipeError"}
# Of these it is sure that nothing was sent.
_UNSENT_NAMES = frozenset(
    {
        "ConnectError",  # httpx
        "ConnectTimeout",
        "PoolTimeout",
        "ConnectionRefusedError",
        "gaierror",
        "ClientConnectorError",  # aiohttp
    }
)
_STATUS_TEXT = re.compile(r"\s*(?:HTTP[ /]*)?([45]\d\d)\b")


def classify(error: BaseException) -> ErrorClass:
    """What to do after `error` came out of a model client: retry, give up on the request, or blame the program.

    The order matters: what a client says itself wins over an HTTP status found on the exception (some libraries derive
    their HTTP errors from OSError), that over the kind of exception, and that over a status at the start of a bare
    exception's text (`Exception("429 Too Many Requests")`).
    """
    if isinstance(error, TransientModelError):
        return "transient"
    if isinstance(error, PermanentModelError):
        return "permanent"
    status = _status_on(error)
    if status is None:
        by_kind = _class_of_kind(error)
        if by_kind is not None:
            return by_kind
        status = _status_in_text(error)
    return "bug" if status is None else _class_of_status(status, getattr(error, "code", None))


def is_lost(error: BaseException) -> bool:
    """Whether an error of somebody else's library leaves open if the model has worked: a timeout, a connection that was
    cut. Not where there was a status, nor where no connection came about, as far as its causes tell."""
    if isinstance(error, ModelError) or _status_on(error) is not None or _names(error).isdisjoint(_LOST_NAMES):
        return False
    cause: BaseException | None = error
    while cause is not None:
        if not _names(cause).isdisjoint(_UNSENT_NAMES):
            return False
        cause = cause.__cause__
    return True


def _names(error: BaseException) -> set[str]:
    return {kind.__name__ for kind in type(error).__mro__}


def _class_of_kind(error: BaseException) -> ErrorClass | None:
    match error:
        case ssl.SSLCertVerificationError():
            return "permanent"
        case FileNotFoundError() | FileExistsError() | IsADirectoryError() | NotADirectoryError() | PermissionError():
            return None  # files, not networks
        case OSError():  # and with it TimeoutError, ConnectionError, name resolution, the rest of TLS
            return "transient"
    return None if _names(error).isdisjoint(_TRANSIENT_NAMES) else "transient"


def _status_on(error: BaseException) -> int | None:
    response = getattr(error, "response", None)
    for owner, name in ((error, "status_code"), (error, "code"), (error, "status"), (response, "status_code")):
        value = getattr(owner, name, None)
        # A bool is an int, gRPC's code is a method, and ollama says -1 for an error in mid-stream.
        if isinstance(value, int) and not isinstance(value, bool) and 300 <= value < 600:
            return int(value)
    return None


def _status_in_text(error: BaseException) -> int | None:
    if type(error) not in {Exception, RuntimeError} or not error.args or not isinstance(error.args[0], str):
        return None  # ValueError("500 rows expected") is not an HTTP status
    found = _STATUS_TEXT.match(error.args[0])
    return int(found[1]) if found else None


def _class_of_status(status: int, code: object) -> ErrorClass:
    if isinstance(code, str) and code in _QUOTA_CODES:
        return "permanent"  # OpenAI sends 429 for an empty account as well
    return "transient" if status in _TRANSIENT_STATUSES or status >= 500 else "permanent"


def _tool_call(call: object) -> ToolCall:
    if isinstance(call, ToolCall):
        return call
    if not isinstance(call, Mapping) or not isinstance(call.get("name"), str):
        raise ValueError(  # noqa: TRY004 - one class for whatever is wrong with a response
            f"a tool call is a ToolCall or a mapping with id, name and arguments, not {call!r:.200}"
        )
    return ToolCall.from_wire(str(call.get("id") or ""), call["name"], call.get("arguments"))


def _read_arguments(arguments: object) -> tuple[dict[str, Any], str]:
    if arguments is None or arguments == "":
        return {}, ""
    if isinstance(arguments, str):
        if len(arguments) > MAX_ARGUMENTS_CHARS:
            return {}, f"the arguments are {len(arguments)} characters long; at most {MAX_ARGUMENTS_CHARS} are allowed"
        try:
            arguments = json.loads(arguments, parse_constant=_refuse_constant, parse_float=_finite)
        except (ValueError, RecursionError) as error:
            return {}, f"the arguments are not valid JSON: {error}"
    if not isinstance(arguments, Mapping):
        return {}, f"the arguments must be a JSON object, not {_json_name(arguments)}"
    return dict(arguments), ""


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON value")


def _finite(text: str) -> float:
    number = float(text)
    return number if isfinite(number) else _refuse_constant(text)


def _json_name(value: object) -> str:
    names = {
        list: "an array",
        str: "a string",
        bool: "a boolean",
        int: "a number",
        float: "a number",
        type(None): "null",
    }
    return names.get(type(value), f"a {type(value).__name__}")


def _count(name: str, value: object) -> int:
    if type(value) is int and value >= 0:
        return value
    if not isinstance(value, int) or value < 0:
        raise ValueError(f"{name} must be a whole number of at least 0, not {value!r:.100}")
    return value


def _amount(name: str, value: Decimal | float | str) -> Decimal:
    if value is _NOTHING:
        return _NOTHING
    try:
        # By way of text: Decimal(0.1) has 55 digits.
        amount = value if isinstance(value, Decimal) else Decimal(str(value))
    except InvalidOperation:
        amount = Decimal("NaN")
    if not amount.is_finite() or amount < 0 or amount > MAX_COST_USD:
        raise ValueError(f"{name} must be a number from 0 to {MAX_COST_USD:,}, not {value!r:.100}")
    return amount
