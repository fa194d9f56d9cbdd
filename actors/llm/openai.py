"""The client for everything that speaks OpenAI's chat completions: OpenAI itself, vLLM, llama.cpp, most gateways.

Wire facts that shape it: arguments are JSON text; usage comes last in a stream, and only when asked for; some servers
leave out ids, indexes, usage or the final `[DONE]`; an error may stand under HTTP 200, also in mid-stream.
"""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx

from .bodies import PLAIN, lines, read_json
from .client import ChatMessage, LLMResponse, ToolCall, ToolSpec
from .errors import Refusal, kind_of, retry_after
from .pairing import conversation, made_id, wire_name
from .prices import FREE, Price, Prices, per_thousand
from .wire import (
    Cut,
    HttpModel,
    PerLoop,
    Question,
    checked_key,
    checked_url,
    count_in,
    http_options,
    longest_in,
    secrets_in,
    shown_url,
    table,
    tables,
    text_in,
)

_STOP_REASONS = {"stop": "end_turn", "tool_calls": "tool_use", "function_call": "tool_use"}


class OpenAICompatibleClient(HttpModel):
    """`model` at `base_url` (with its version, such as `https://api.openai.com/v1`).

    `cost_per_1k_*` are USD per thousand tokens and win over `prices`. `timeout_seconds` is for a whole call.
    `extra_body` is laid over the request (`{"max_completion_tokens": 500}`), `extra_headers` over the headers.
    `transport` is httpx's, for tests and proxies.

    Raises:
        BadClientSettings: for an address that is none, an empty model name, a timeout of 0.
        BadPrices: for a negative cost.
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        api_key: str | None = None,
        *,
        cost_per_1k_input_tokens: float = 0,
        cost_per_1k_output_tokens: float = 0,
        timeout_seconds: float = 60,
        connect_seconds: float = 10,
        extra_headers: Mapping[str, str] | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
        max_tokens: int | None = None,
        temperature: float | None = None,
        extra_body: Mapping[str, Any] | None = None,
        prices: Prices | None = None,
    ) -> None:
        self._base_url = checked_url(base_url)
        key = checked_key(api_key)
        given = per_thousand(cost_per_1k_input_tokens, cost_per_1k_output_tokens)
        price: Price | None = given if given != FREE else prices.of(model) if prices else None
        super().__init__(
            model,
            who="openai-compatible model",
            timeout_seconds=timeout_seconds,
            connect_seconds=connect_seconds,
            secrets=[key, *secrets_in(base_url, extra_headers)],
            price=price,
            max_tokens=max_tokens,
        )
        self._headers = {**PLAIN, "content-type": "application/json"}
        if key:
            self._headers["authorization"] = f"Bearer {key}"
        self._headers |= {name.lower(): value for name, value in (extra_headers or {}).items()}
        self._temperature = temperature
        self._extra_body = dict(extra_body or {})
        self._longest = longest_in(self._extra_body, "max_completion_tokens", "max_tokens", given=max_tokens)
        self._clients = PerLoop(
            lambda: httpx.AsyncClient(transport=transport, headers=self._headers, **http_options(self._asking()))
        )

    @property
    def vendor(self) -> str:
        """See `LLMClient.vendor`."""
        return "openai"

    def __repr__(self) -> str:
        return f"OpenAICompatibleClient({shown_url(self._base_url)!r}, {self.model!r})"

    async def aclose(self) -> None:
        """Close the connections of the running event loop. The client can be used again: it opens new ones."""
        if client := self._clients.pop():
            await client.aclose()

    def _request(
        self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpec], system_prompt: str
    ) -> dict[str, Any]:
        request: dict[str, Any] = {
            "model": self.model,
            "messages": conversation(messages, system_prompt, _message),
        }
        if tools:
            request["tools"] = [_tool(tool) for tool in tools]
        if self._max_tokens is not None:
            request["max_tokens"] = self._max_tokens
        if self._temperature is not None:
            request["temperature"] = self._temperature
        return request | self._extra_body

    def _open(self) -> httpx.AsyncClient:
        return self._clients.get()

    async def _exchange(self, question: Question) -> LLMResponse:
        body = question.body
        if question.stream:
            body = body[:-1] + b', "stream": true, "stream_options": {"include_usage": true}}'
        url, _, query = self._base_url.partition("?")
        address = f"{url.rstrip('/')}/chat/completions{'?' + query if query else ''}"
        async with self._open().stream("POST", address, content=body) as response:
            if response.status_code != 200:
                return self._refused(response, await response.aread(), question)
            if "text/event-stream" in response.headers.get("content-type", ""):
                pieces = await _assembled(response, question)
            else:
                pieces = _whole(read_json(await response.aread()), response, question)
        return self._answer(pieces, response)

    def _refused(self, response: httpx.Response, body: bytes, question: Question) -> LLMResponse:
        refusal = _refusal(response, body)
        if kind_of(refusal) != "malformed":
            raise refusal
        # Some servers check the model's calls themselves; that the model wrote nonsense is for the model to know.
        call = self._unreadable_call(refusal.text, question)
        return LLMResponse("", [call], "tool_use", provider_request_id=response.headers.get("x-request-id", ""))

    def _answer(self, pieces: "_Pieces", response: httpx.Response) -> LLMResponse:
        usage = pieces.usage
        asked, answered = count_in(usage.get("prompt_tokens")), count_in(usage.get("completion_tokens"))
        cached = min(asked, count_in(table(usage, "prompt_tokens_details").get("cached_tokens")))
        return LLMResponse(
            pieces.content,
            pieces.calls,
            pieces.stop_reason(),
            asked,
            answered,
            self.price.cost(asked, answered, cached),
            provider_request_id=pieces.id or response.headers.get("x-request-id", ""),
            cached_tokens=cached,
            thought_tokens=count_in(table(usage, "completion_tokens_details").get("reasoning_tokens")),
        )


@dataclass
class _Pieces:
    """An answer while it is put together."""

    content: str = ""
    calls: list[ToolCall] = field(default_factory=list)
    finish: str = ""
    usage: dict[str, Any] = field(default_factory=dict)
    id: str = ""

    def stop_reason(self) -> str:
        if self.calls and self.finish == "stop":  # some servers say so at the end of every answer
            return "tool_use"
        return _STOP_REASONS.get(self.finish, self.finish or "end_turn")


@dataclass
class _CallPieces:
    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list)
    whole: object = None
    """Arguments that came as no text, which the protocol does not have and some servers send: an object, or worse."""


def _whole(body: dict[str, Any], response: httpx.Response, question: Question) -> _Pieces:
    choice = next(tables(body.get("choices")), None)
    if choice is None:
        if body.get("error"):
            raise _refusal(response, json.dumps(body).encode(), begun=True)
        raise ValueError(f"no choices in {json.dumps(body)}")
    message = table(choice, "message")
    calls = [
        ToolCall.from_wire(
            text_in(call.get("id")) or made_id(question.position, number),
            text_in(table(call, "function").get("name")),
            table(call, "function").get("arguments"),
        )
        for number, call in enumerate(tables(message.get("tool_calls")))
    ]
    content = text_in(message.get("content")) or text_in(message.get("refusal"))
    return _Pieces(
        question.told(content),
        calls,
        text_in(choice.get("finish_reason")),
        table(body, "usage"),
        text_in(body.get("id")),
    )


async def _assembled(response: httpx.Response, question: Question) -> _Pieces:
    pieces, calls, content = _Pieces(), list[_CallPieces](), list[str]()
    by_index: dict[object, _CallPieces] = {}
    done = False
    try:
        async for data in _events(response):
            if data == "[DONE]":
                done = True
                break
            chunk = read_json(data)
            if chunk.get("error"):
                raise _refusal(response, data.encode(), begun=True)
            pieces.id = pieces.id or text_in(chunk.get("id"))
            pieces.usage = table(chunk, "usage") or pieces.usage
            for choice in tables(chunk.get("choices")):
                if choice.get("index") not in {None, 0}:
                    continue  # somebody asked for several; the first is the answer, as of a whole one
                delta = table(choice, "delta")
                content.append(question.told(text_in(delta.get("content")) or text_in(delta.get("refusal"))))
                for part in tables(delta.get("tool_calls")):
                    _take(part, calls, by_index)
                pieces.finish = text_in(choice.get("finish_reason")) or pieces.finish
    except httpx.TransportError:
        if not pieces.finish:
            raise  # else only the usage is lost, and the answer is paid for
    if not done and not pieces.finish:
        raise Cut("the stream ended before the answer did")
    pieces.content = "".join(content)
    pieces.calls = [
        ToolCall.from_wire(
            call.id or made_id(question.position, number),
            call.name,
            "".join(call.arguments) if call.whole is None else call.whole,
        )
        for number, call in enumerate(calls)
    ]
    return pieces


def _take(part: dict[str, Any], calls: list[_CallPieces], by_index: dict[object, _CallPieces]) -> None:
    """Add a part of a call to its call. A new id begins a new one, even under an index that is in use; so does a name,
    where there is neither."""
    index, name, function = part.get("index"), text_in(part.get("id")), table(part, "function")
    call = by_index.get(index) if isinstance(index, int) else calls[-1] if calls and not name else None
    if call is None or _begins_another(call, name, text_in(function.get("name")), indexed=isinstance(index, int)):
        call = _CallPieces()
        calls.append(call)
        if isinstance(index, int):
            by_index[index] = call
    call.id = call.id or name
    call.name = call.name or text_in(function.get("name"))
    arguments = function.get("arguments")
    if isinstance(arguments, str):
        call.arguments.append(arguments)
    elif arguments is not None:
        call.whole = arguments


def _begins_another(call: _CallPieces, id: str, name: str, *, indexed: bool) -> bool:
    if id and call.id:
        return id != call.id
    return bool(name and call.name and not indexed)


async def _events(response: httpx.Response) -> AsyncIterator[str]:
    """The data of each server-sent event; comments and other fields are skipped."""
    data: list[str] = []
    async for line in lines(response):
        if line.startswith("data:"):
            data.append(line[5:].removeprefix(" "))
        elif not line and data:
            yield "\n".join(data)
            data.clear()
    if data:
        yield "\n".join(data)


def _refusal(response: httpx.Response, body: bytes, *, begun: bool = False) -> Refusal:
    text = body.decode("utf-8", "replace")
    try:
        error = read_json(text).get("error")
    except ValueError:
        error = None
    named = [table(error).get(name) for name in ("code", "type")] + [table(error, "innererror").get("code")]
    codes = {str(name) for name in named if isinstance(name, str | int)}
    status = response.status_code
    if begun:  # the only status is the one in the error, if there is one
        status = next((int(code) for code in codes if code.isascii() and code.isdigit() and len(code) == 3), 0)
    return Refusal(
        status, text, frozenset(codes | {code.lower() for code in codes}), retry_after(response.headers), begun=begun
    )


def _message(message: ChatMessage, ids: tuple[str, ...]) -> dict[str, Any]:
    match message.role:
        case "assistant" if message.tool_calls:
            calls = [
                {
                    "id": call_id,
                    "type": "function",
                    "function": {
                        "name": wire_name(call.name),
                        "arguments": json.dumps(call.arguments, allow_nan=False),
                    },
                }
                for call, call_id in zip(message.tool_calls, ids, strict=True)
            ]
            return {"role": "assistant", "content": message.content or None, "tool_calls": calls}
        case "tool":
            return {"role": "tool", "tool_call_id": ids[0], "content": message.content}
    return {"role": message.role, "content": message.content}


def _function(call: ToolCall) -> dict[str, str]:
    return {"name": wire_name(call.name), "arguments": json.dumps(call.arguments, allow_nan=False)}


def _tool(tool: ToolSpec) -> dict[str, Any]:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": function}
