"""What the clients of all vendors share: one exchange, bounded in time and size, whose failures are `ModelError`s.

A vendor's client writes a request, and reads an answer or a `Refusal`; deadlines, cut connections, endless bodies,
secrets in error texts and the cost of a lost answer are dealt with here. Neither a retry nor a redirect happens.

Invariant: no text that leaves a client holds its key.
"""

import asyncio
import json
import logging
import ssl
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cache
from math import ceil
from types import TracebackType
from typing import Any, Generic, NoReturn, Self, TypeVar
from urllib.parse import quote, urlsplit
from weakref import WeakKeyDictionary

import httpx

from .bodies import BodyTooLong, bounded
from .client import (
    ChatMessage,
    ErrorKind,
    LLMClient,
    LLMResponse,
    ModelError,
    PermanentModelError,
    ToolCall,
    ToolSpec,
    TransientModelError,
)
from .errors import MAX_TEXT_CHARS, BadClientSettings, Refusal, refused
from .pairing import made_id
from .prices import FREE, Price, estimated_tokens

log = logging.getLogger(__name__)

C = TypeVar("C")


class Cut(Exception):
    """The answer ended before its end."""


@dataclass
class Question:
    """What one exchange needs to know."""

    body: bytes
    position: int
    """Of the answer in the conversation: part of the ids that are made for its calls."""
    tools: tuple[ToolSpec, ...]
    stream: bool
    """The answer is asked for in pieces."""
    on_text: Callable[[str], None] | None

    def told(self, text: str) -> str:
        """`text`, told to whoever watches. Whoever fails at that is told nothing more: the answer is paid for."""
        if text and self.on_text is not None:
            try:
                self.on_text(text)
            except Exception:
                log.exception("a listener to a model's answer failed; it hears no more of this one")
                self.on_text = None
        return text


class HttpModel(LLMClient):
    """A model behind HTTP: the frame around a vendor's `_exchange`.

    Connections belong to an event loop, so each loop that calls gets its own; `aclose` closes those of the running one.
    """

    def __init__(
        self,
        model: str,
        *,
        who: str,
        timeout_seconds: float,
        connect_seconds: float,
        secrets: Sequence[str] = (),
        price: Price | None = None,
        max_tokens: int | None = None,
    ) -> None:
        if not model:
            raise BadClientSettings(f"{who} needs the name of a model")
        if timeout_seconds <= 0 or connect_seconds <= 0:
            raise BadClientSettings(f"timeouts are more than 0 seconds, not {timeout_seconds} and {connect_seconds}")
        self.model = model
        self.timeout_seconds = timeout_seconds
        self.price = price or FREE
        self._who = f"{who} {model}"
        self._connect_seconds = min(connect_seconds, timeout_seconds)
        self._secrets = Secrets(secrets)
        self._max_tokens = max_tokens
        self._longest = max_tokens
        """Tokens of an answer at most, also where they are set in another way than by `max_tokens`."""

    async def call(
        self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpec], system_prompt: str = ""
    ) -> LLMResponse:
        """One request, one answer; see `LLMClient.call`."""
        return await self._ask(messages, tools, system_prompt, None)

    async def stream(
        self,
        messages: Sequence[ChatMessage],
        tools: Sequence[ToolSpec],
        system_prompt: str,
        on_text: Callable[[str], None],
    ) -> LLMResponse:
        """The same, asked for in pieces; see `LLMClient.stream`."""
        return await self._ask(messages, tools, system_prompt, on_text)

    def worst_cost(self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpec], system_prompt: str) -> Decimal:
        """See `LLMClient.worst_cost`: by the size of the request, answered to its greatest length."""
        try:
            body = written(self._request(messages, tools, system_prompt))
        except (ValueError, TypeError, RecursionError):
            return Decimal(0)  # it cannot be written, so it was not sent
        return self.price.worst_cost(estimated_tokens(len(body)), self._longest)

    @abstractmethod
    async def aclose(self) -> None:
        """Close the connections of the running event loop. The client can be used again: it opens new ones."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    @abstractmethod
    def _request(self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpec], system_prompt: str) -> Any:
        """The request, JSON."""

    @abstractmethod
    def _open(self) -> object:
        """The vendor's client for the running event loop."""

    @abstractmethod
    async def _exchange(self, question: Question) -> LLMResponse:
        """Send it and read the answer. May raise what it likes: `_failed` makes a `ModelError` of it."""

    async def _ask(
        self,
        messages: Sequence[ChatMessage],
        tools: Sequence[ToolSpec],
        system_prompt: str,
        on_text: Callable[[str], None] | None,
    ) -> LLMResponse:
        try:
            body = written(self._request(messages, tools, system_prompt))
        except (ValueError, TypeError, RecursionError) as error:
            raise PermanentModelError(self._text(f"the request cannot be written: {error}")) from None
        worst = self.price.worst_cost(estimated_tokens(len(body)), self._longest)
        question = Question(body, len(messages), tuple(tools), on_text is not None, on_text)
        self._open()  # before the clock starts: it is this machine's work, and nothing is sent yet
        loop = asyncio.get_running_loop()  # its clock, by which the timeout goes as well
        began = loop.time()
        try:
            async with asyncio.timeout(self.timeout_seconds):
                answer = self._settled(await self._exchange(question))
                return replace(answer, latency_ms=ceil((loop.time() - began) * 1000))
        except Exception as error:  # noqa: BLE001 - whatever an SDK lets through; `_failed` sorts it
            failure = error
        told = self._failed(failure, worst)
        if told is failure:
            raise told
        # Outside the handler, and from None: the causes hold the provider's words uncut, and maybe the key.
        raise told from None

    def _failed(self, error: Exception, worst_usd: Decimal) -> Exception:
        match error:
            case ModelError():
                return error
            case Refusal():
                error.text = self._secrets.hidden(error.text)
                return refused(self._who, error, worst_usd)
            case httpx.HTTPError() | TimeoutError() | OSError():
                return self._broken(error, worst_usd)
            case BodyTooLong():
                return PermanentModelError(self._text(error), cost_usd=worst_usd, kind="malformed")
            case ValueError() | RecursionError():
                # JSON that is none, and pydantic's complaints. Not "malformed": no model wrote that, but a gateway.
                text = self._text(f"the answer cannot be read: {error}")
                return TransientModelError(text, cost_usd=worst_usd, kind="timeout")
            case Cut():
                return TransientModelError(self._text(error), cost_usd=worst_usd, kind="timeout")
        return error  # a bug, and it should look like one

    def _broken(self, error: Exception, worst_usd: Decimal) -> ModelError:
        """The error for a connection that failed, by how far the request got."""
        cause: BaseException | None = error
        while cause is not None:
            if isinstance(cause, ssl.SSLCertVerificationError):
                return PermanentModelError(self._text(f"the certificate is not trusted: {cause}"), kind="connect")
            cause = cause.__cause__ or cause.__context__
        text = f"{type(error).__name__}: {error}"
        match error:
            case httpx.UnsupportedProtocol() | httpx.LocalProtocolError():
                return PermanentModelError(self._text(text))
            # The package of Ollama says ConnectionError for a refused connection, and only for that.
            case (
                httpx.ConnectError()
                | httpx.ConnectTimeout()
                | httpx.PoolTimeout()
                | httpx.ProxyError()
                | ConnectionError()
            ):
                return TransientModelError(self._text(f"no connection: {text}"), kind="connect")
            case TimeoutError():
                text = f"no whole answer within {self.timeout_seconds:g} s"
        return TransientModelError(self._text(text), cost_usd=worst_usd, kind="timeout")

    def _text(self, said: object) -> str:
        shown = self._secrets.hidden(str(said))[: 4 * MAX_TEXT_CHARS]  # of megabytes, no words are made
        return f"{self._who}: {' '.join(shown.split())[:MAX_TEXT_CHARS]}"

    def _unreadable_call(self, text: str, question: Question, number: int = 0) -> ToolCall:
        """A call that the provider itself could not read; `text` is what it says about it, and goes to the model."""
        said = self._secrets.hidden(text)[:500]
        name = next((tool.name for tool in question.tools if tool.name in said), "unreadable_call")
        problem = f"the call could not be read: {said}"
        return ToolCall(made_id(question.position, number), name, {}, problem=problem)

    def _settled(self, answer: LLMResponse) -> LLMResponse:
        """The answer, unless nothing in it can be used: those are errors that were paid for."""
        if answer.stop_reason == "content_filter":
            self._unusable(answer, "filter", "the provider's filter stopped the answer")
        if answer.stop_reason == "length" and not answer.content and not answer.tool_calls:
            self._unusable(answer, "length", f"all of max_tokens={self._longest} went before the first word")
        if answer.stop_reason == "tool_use" and not answer.content and not answer.tool_calls:
            self._unusable(answer, "malformed", "it says that it calls a tool, and holds no call that can be read")
        return answer

    def _unusable(self, answer: LLMResponse, kind: ErrorKind, text: str) -> NoReturn:
        raise PermanentModelError(self._text(text), cost_usd=answer.cost_usd, kind=kind)

    def _asking(self) -> httpx.Timeout:
        return httpx.Timeout(self.timeout_seconds, connect=self._connect_seconds, pool=self._connect_seconds)


class Secrets:
    """What must not be told: replaced by asterisks, also where it was quoted for JSON, for people or for an address."""

    def __init__(self, texts: Sequence[str]) -> None:
        whole = {part for text in texts for part in (text, text.strip()) if len(part) >= 4}
        forms = {f for text in whole for f in (text, json.dumps(text)[1:-1], repr(text)[1:-1], quote(text, safe=""))}
        self._forms = sorted(forms, key=len, reverse=True)

    def __repr__(self) -> str:
        return f"<{len(self._forms)} secrets>"

    def hidden(self, text: str) -> str:
        """`text` without them. Cut it afterwards: half a key is a hint too."""
        for form in self._forms:
            text = text.replace(form, "***")
        return text


def secrets_in(url: str, headers: Mapping[str, str] | None = None) -> list[str]:
    """The secrets of an address and of headers that somebody gave: its query, and values of some length."""
    found = [urlsplit(url).query]
    for value in (headers or {}).values():
        found += [text for text in (value, value.rsplit(" ", 1)[-1]) if len(text) >= 8]
    return found


def checked_url(url: str) -> str:
    """`url` without a slash at its end.

    Raises:
        BadClientSettings: when it is not an http or https address, or holds a password.
    """
    try:
        parts = urlsplit(url)
        good = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
    except ValueError:
        good = False
    if not good:
        shown = repr(url[:40]) if "@" not in url and "?" not in url else "the one given"  # which may hold a password
        raise BadClientSettings(f"an address begins with http:// or https:// and names a host, unlike {shown}")
    if parts.username or parts.password:
        raise BadClientSettings("an address with a password in it gets logged; give api_key or extra_headers instead")
    return url.rstrip("/")


def checked_key(key: str | None) -> str:
    """`key` without the blanks around it, which come from files.

    Raises:
        BadClientSettings: when no header can hold it.
    """
    stripped = (key or "").strip()
    if not (stripped.isascii() and stripped.isprintable()):
        raise BadClientSettings("the api key holds characters that no key has; was it copied whole, and alone?")
    return stripped


def shown_url(url: str) -> str:
    """`url` without user, password and query, for people."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()


class PerLoop(Generic[C]):
    """One connection pool for each event loop: a pool used from a second loop fails at the first idle connection."""

    def __init__(self, make: Callable[[], C]) -> None:
        self._make = make
        self._made: WeakKeyDictionary[asyncio.AbstractEventLoop, C] = WeakKeyDictionary()

    def get(self) -> C:
        """That of the running loop, made at the first call."""
        loop = asyncio.get_running_loop()
        if loop not in self._made:
            self._made[loop] = self._make()
        return self._made[loop]

    def pop(self) -> C | None:
        """Forget that of the running loop."""
        return self._made.pop(asyncio.get_running_loop(), None)


def http_options(timeout: httpx.Timeout) -> dict[str, Any]:
    """How every client of ours speaks HTTP, as keywords of `httpx.AsyncClient`.

    No redirect is followed: the key would go along.
    """
    return {
        "timeout": timeout,
        "verify": _trust(),
        "follow_redirects": False,
        "event_hooks": {"response": [bounded]},
        # The number of calls is bounded where they are made; waiting here would look like a dead provider.
        "limits": httpx.Limits(max_connections=None, max_keepalive_connections=64),
    }


@cache
def _trust() -> ssl.SSLContext:
    """Whose certificates count; read once, since it takes as long as a short answer does."""
    return httpx.create_ssl_context()


def written(request: object) -> bytes:
    """A request as JSON. Halves of characters, which JSON could hold and UTF-8 cannot, become question marks."""
    return json.dumps(request, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")


def longest_in(settings: Mapping[str, Any], *names: str, given: int | None) -> int | None:
    """The tokens that an answer may have by the first of these settings that is there; else as `given`."""
    value = next((settings[name] for name in names if name in settings), given)
    return value if isinstance(value, int) and value > 0 else None


def table(value: object, *keys: str) -> dict[str, Any]:
    """The object at that path of decoded JSON; an empty one where there is none."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def tables(value: object) -> Iterator[dict[str, Any]]:
    """The objects in what should be a list of them."""
    if isinstance(value, list):
        yield from (item for item in value if isinstance(item, dict))


def text_in(value: object) -> str:
    """Text, or the text parts of a list of content parts; "" for whatever else came."""
    if isinstance(value, list):
        return "".join(text_in(part.get("text")) for part in tables(value))
    return value if isinstance(value, str) else ""


def count_in(value: object) -> int:
    """A number of tokens; 0 for what is none."""
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e15 else 0
