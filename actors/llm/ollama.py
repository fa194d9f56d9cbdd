"""The client for Ollama, over its own package (host names, headers, `OLLAMA_API_KEY`).

Wire facts that shape it: a prompt that does not fit is cut silently unless `truncate` is false, and old servers do not
know that word; the package's typed `chat` drops `truncate`, the ids of calls and most of a tool's schema, so the
request goes through the package's HTTP client with the body as the server documents it; so do its lines, which the
package would break within a text; a failure in mid-stream is a line `{"error": …}` under HTTP 200.
"""

import json
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

import ollama

from .bodies import PLAIN, lines, read_json
from .client import ChatMessage, LLMResponse, PermanentModelError, ToolCall, ToolSpec
from .errors import Refusal, kind_of, retry_after
from .pairing import conversation, made_id, wire_name
from .wire import (
    Cut,
    HttpModel,
    PerLoop,
    Question,
    count_in,
    http_options,
    secrets_in,
    shown_url,
    table,
    tables,
    text_in,
)

_STOP_REASONS = {"stop": "end_turn"}
CHARS_PER_TOKEN_AT_MOST = 12
"""No text of real conversations has fewer tokens than this tells; blanks and drawn lines are not counted."""
BYTES_PER_TOKEN_AT_LEAST = 2
_DRAWN = re.compile(r"([\W_])\1{2,}")
"""A line drawn with one character, of which a hundred are a token or two."""


class OllamaClient(HttpModel):
    """`model` of the server at `host` (default: `OLLAMA_HOST`, else this machine's).

    `num_ctx` is the window in tokens (default: the server's), `options` are Ollama's (`{"temperature": 0}`),
    `keep_alive` how long the model stays loaded (`"10m"`), `think` whether or how hard it thinks first.
    `timeout_seconds` is for a whole call, the loading of the model included. Calls cost nothing.

    Raises:
        BadClientSettings: for an empty model name or a timeout of 0.
    """

    def __init__(
        self,
        model: str,
        host: str | None = None,
        *,
        timeout_seconds: float = 300,
        connect_seconds: float = 10,
        options: Mapping[str, Any] | None = None,
        keep_alive: str | float | None = None,
        think: bool | str | None = None,
        num_ctx: int | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self._options = dict(options or {}) | ({"num_ctx": num_ctx} if num_ctx else {})
        predict = self._options.get("num_predict")
        sent = {**PLAIN, **(headers or {})}
        self._clients = PerLoop(lambda: ollama.AsyncClient(host, headers=sent, **http_options(self._asking())))
        self._host = host or ""
        super().__init__(
            model,
            who="ollama model",
            timeout_seconds=timeout_seconds,
            connect_seconds=connect_seconds,
            secrets=[os.environ.get("OLLAMA_API_KEY", ""), *secrets_in("", headers)],
            max_tokens=predict if isinstance(predict, int) and predict > 0 else None,
        )
        self._keep_alive = keep_alive
        self._think = think

    @property
    def vendor(self) -> str:
        """See `LLMClient.vendor`."""
        return "ollama"

    def __repr__(self) -> str:
        return f"OllamaClient({self.model!r}{', ' + repr(shown_url(self._host)) if self._host else ''})"

    async def aclose(self) -> None:
        """Close the connections of the running event loop. The client can be used again: it opens new ones."""
        if client := self._clients.pop():
            await client._client.aclose()

    def _request(
        self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpec], system_prompt: str
    ) -> dict[str, Any]:
        request: dict[str, Any] = {
            "model": self.model,
            "messages": conversation(messages, system_prompt, _message),
            # Without these two an old part of the conversation is left out, and nobody is told.
            "truncate": False,
            "shift": False,
        }
        if tools:
            request["tools"] = [_tool(tool) for tool in tools]
        asked = {"options": self._options or None, "keep_alive": self._keep_alive, "think": self._think}
        request |= {name: value for name, value in asked.items() if value is not None}
        self._check_fits(request["messages"])
        return request

    def _check_fits(self, messages: Sequence[Mapping[str, Any]]) -> None:
        window, least = self._options.get("num_ctx"), _least_tokens(messages)
        if isinstance(window, int) and least > window:
            text = f"the conversation has at least {least:,} tokens, and num_ctx is {window:,}"
            raise PermanentModelError(self._text(text), kind="context")

    def _open(self) -> ollama.AsyncClient:
        return self._clients.get()

    async def _exchange(self, question: Question) -> LLMResponse:
        body = question.body[:-1] + (b', "stream": true}' if question.stream else b', "stream": false}')
        # The HTTP client beneath `chat`, with the package's address and headers; see the top of this module.
        async with self._open()._client.stream("POST", "/api/chat", content=body) as response:
            if response.status_code != 200:
                text = (await response.aread()).decode("utf-8", "replace")
                waits = retry_after(response.headers)
                return self._refused(Refusal(response.status_code, text, retry_after_seconds=waits), question)
            if not question.stream:
                return self._answer([read_json(await response.aread())], question)
            parts: list[dict[str, Any]] = []
            async for line in lines(response):
                if line.strip():
                    parts.append(part := read_json(line))
                    question.told(text_in(table(part, "message").get("content")))
                    if part.get("error"):
                        break
            return self._answer(parts, question)

    def _refused(self, refusal: Refusal, question: Question) -> LLMResponse:
        if kind_of(refusal) != "malformed":
            raise refusal
        # The server checks the model's calls itself; that the model wrote nonsense is for the model to know.
        return LLMResponse("", [self._unreadable_call(refusal.text, question)], "tool_use")

    def _answer(self, parts: Sequence[dict[str, Any]], question: Question) -> LLMResponse:
        last = parts[-1] if parts else {}
        if last.get("error"):
            return self._refused(Refusal(0, str(last["error"]), begun=True), question)
        if not last.get("done"):
            raise Cut("the stream ended before the answer did")
        reason = text_in(last.get("done_reason"))
        if reason in {"load", "unload"}:
            raise Refusal(503, f"the model answered nothing, for it did {reason}")
        raw = [call for part in parts for call in tables(table(part, "message").get("tool_calls"))]
        calls = [
            ToolCall.from_wire(
                text_in(call.get("id")) or made_id(question.position, number),
                text_in(table(call, "function").get("name")),
                table(call, "function").get("arguments"),
            )
            for number, call in enumerate(raw)
        ]
        asked = count_in(last.get("prompt_eval_count"))
        self._check_whole(asked, question)
        return LLMResponse(
            "".join(text_in(table(part, "message").get("content")) for part in parts),
            calls,
            "tool_use" if calls and reason == "stop" else _STOP_REASONS.get(reason, reason or "end_turn"),
            asked,
            count_in(last.get("eval_count")),
        )

    def _check_whole(self, asked: int, question: Question) -> None:
        """An old server cut the conversation to fit: it read fewer tokens than there are, or just as many as fit.

        Less may also have been read because the rest was in the cache (Ollama 0.30 counted so). So less proves nothing
        where the conversation must have fitted.
        """
        window, least = self._options.get("num_ctx"), _least_tokens(json.loads(question.body)["messages"])
        fits = isinstance(window, int) and len(question.body) <= window * BYTES_PER_TOKEN_AT_LEAST
        if (0 < asked < least and not fits) or (isinstance(window, int) and asked >= window):
            text = f"the server read {asked:,} tokens of a conversation of at least {least:,}; raise num_ctx"
            raise PermanentModelError(self._text(text), kind="context")


def _least_tokens(messages: Sequence[Mapping[str, Any]]) -> int:
    texts = ("".join(message["content"].split()) for message in messages)
    return sum(len(_DRAWN.sub(r"\1", text)) for text in texts) // CHARS_PER_TOKEN_AT_MOST


def _message(message: ChatMessage, ids: tuple[str, ...]) -> dict[str, Any]:
    match message.role:
        case "assistant" if message.tool_calls:
            calls = [
                {"id": call_id, "function": {"name": wire_name(call.name), "arguments": call.arguments}}
                for call, call_id in zip(message.tool_calls, ids, strict=True)
            ]
            return {"role": "assistant", "content": message.content, "tool_calls": calls}
        case "tool":
            name = wire_name(message.tool_name)
            return {"role": "tool", "content": message.content, "tool_name": name, "tool_call_id": ids[0]}
    return {"role": message.role, "content": message.content}


def _tool(tool: ToolSpec) -> dict[str, Any]:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": function}
