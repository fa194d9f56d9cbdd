"""How three providers write the same answer and the same refusal: whole, and in pieces."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

SIGNATURE = "c2lnbmF0dXJlIG9mIGEgdGhvdWdodA=="


@dataclass(frozen=True)
class Call:
    name: str
    arguments: object
    id: str = ""


@dataclass(frozen=True)
class Answer:
    text: str = ""
    calls: tuple[Call, ...] = ()
    finish: str = "stop"
    """stop, length, filter, or the vendor's own word"""
    usage: tuple[int, int, int, int] | None = (1_000, 50, 400, 30)
    """input, output without thoughts, of the input cached, thoughts"""


@dataclass(frozen=True)
class Refusal:
    status: int
    body: object
    headers: Mapping[str, str] = ()  # type: ignore[assignment]


class OpenAI:
    name = "openai"
    stream_type = "text/event-stream"

    @staticmethod
    def whole(answer: Answer) -> object:
        message: dict[str, Any] = {"role": "assistant", "content": answer.text or None}
        if answer.calls:
            message["tool_calls"] = [_openai_call(call) for call in answer.calls]
        body: dict[str, Any] = {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "choices": [{"index": 0, "message": message, "finish_reason": _openai_finish(answer)}],
        }
        return body | ({"usage": _openai_usage(answer)} if answer.usage else {})

    @staticmethod
    def pieces(answer: Answer) -> list[bytes]:
        def event(delta: dict[str, Any], finish: str | None = None) -> bytes:
            choice = {"index": 0, "delta": delta, "finish_reason": finish}
            return _event({"id": "chatcmpl-1", "object": "chat.completion.chunk", "choices": [choice]})

        said = [b": keep-alive\n\n" + event({"role": "assistant", "content": ""})]
        said += [event({"content": part}) for part in _parts(answer.text)]
        asked = []
        for index, call in enumerate(answer.calls):
            whole = _openai_call(call)
            head = {**whole, "index": index, "function": {"name": call.name, "arguments": ""}}
            asked.append(event({"tool_calls": [head]}))
            parts = _parts(whole["function"]["arguments"])
            asked += [event({"tool_calls": [{"index": index, "function": {"arguments": part}}]}) for part in parts]
        end = [event({}, _openai_finish(answer))]
        if answer.usage:
            end.append(_event({"id": "chatcmpl-1", "choices": [], "usage": _openai_usage(answer)}))
        return [*said, *asked, *end, b"data: [DONE]\n\n"]

    @staticmethod
    def error_piece(status: int, text: str) -> bytes:
        return _event({"error": {"message": text, "code": status}})


def _openai_call(call: Call) -> dict[str, Any]:
    arguments = call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments)
    named = {"id": call.id} if call.id else {}
    return {**named, "type": "function", "function": {"name": call.name, "arguments": arguments}}


def _openai_finish(answer: Answer) -> str:
    if answer.calls and answer.finish == "stop":
        return "tool_calls"
    return {"filter": "content_filter"}.get(answer.finish, answer.finish)


def _openai_usage(answer: Answer) -> dict[str, Any]:
    asked, said, cached, thoughts = answer.usage or (0, 0, 0, 0)
    return {
        "prompt_tokens": asked,
        "completion_tokens": said + thoughts,
        "total_tokens": asked + said + thoughts,
        "prompt_tokens_details": {"cached_tokens": cached},
        "completion_tokens_details": {"reasoning_tokens": thoughts},
    }


class Ollama:
    name = "ollama"
    stream_type = "application/x-ndjson"

    @staticmethod
    def whole(answer: Answer) -> object:
        message: dict[str, Any] = {"role": "assistant", "content": answer.text, "thinking": "hm"}
        if answer.calls:
            message["tool_calls"] = [_ollama_call(index, call) for index, call in enumerate(answer.calls)]
        return {"model": "m", "message": message, **_ollama_end(answer)}

    @staticmethod
    def pieces(answer: Answer) -> list[bytes]:
        said = [{"role": "assistant", "content": "", "thinking": "hm"}]
        said += [{"role": "assistant", "content": part} for part in _parts(answer.text)]
        lines: list[dict[str, Any]] = [{"model": "m", "message": message, "done": False} for message in said]
        for index, call in enumerate(answer.calls):
            message: dict[str, Any] = {"role": "assistant", "content": "", "tool_calls": [_ollama_call(index, call)]}
            lines.append({"model": "m", "message": message, "done": False})
        lines.append({"model": "m", "message": {"role": "assistant", "content": ""}, **_ollama_end(answer)})
        return [json.dumps(line).encode() + b"\n" for line in lines]

    @staticmethod
    def error_piece(status: int, text: str) -> bytes:
        return json.dumps({"error": text}).encode() + b"\n"


def _ollama_call(index: int, call: Call) -> dict[str, Any]:
    named = {"id": call.id} if call.id else {}
    return {**named, "function": {"index": index, "name": call.name, "arguments": call.arguments or {}}}


def _ollama_end(answer: Answer) -> dict[str, Any]:
    asked, said, _, thoughts = answer.usage or (0, 0, 0, 0)
    counts = {"prompt_eval_count": asked, "eval_count": said + thoughts} if answer.usage else {}
    return {"done": True, "done_reason": answer.finish, "total_duration": 1_500_000_000, **counts}


class Google:
    name = "google"
    stream_type = "text/event-stream"

    @staticmethod
    def whole(answer: Answer) -> object:
        thought = {"text": "hm", "thought": True}
        said = [{"text": answer.text}] if answer.text else []
        return _google([thought, *said, *_google_calls(answer)], answer)

    @staticmethod
    def pieces(answer: Answer) -> list[bytes]:
        said = [_google([{"text": part}]) for part in _parts(answer.text)]
        asked = [_google([call]) for call in _google_calls(answer)]
        return [_event(chunk) for chunk in [*said, *asked, _google([], answer)]]

    @staticmethod
    def error_piece(status: int, text: str) -> bytes:
        return _event({"error": {"code": status, "message": text, "status": "UNAVAILABLE"}})


def _google(parts: list[dict[str, Any]], answer: Answer | None = None) -> dict[str, Any]:
    candidate: dict[str, Any] = {"index": 0}
    if parts:
        candidate["content"] = {"role": "model", "parts": parts}
    if answer is None:
        return {"candidates": [candidate], "responseId": "resp-1", "modelVersion": "m"}
    candidate["finishReason"] = {"stop": "STOP", "length": "MAX_TOKENS", "filter": "SAFETY"}.get(
        answer.finish, answer.finish
    )
    body: dict[str, Any] = {"candidates": [candidate], "responseId": "resp-1", "modelVersion": "m"}
    if answer.usage:
        asked, said, cached, thoughts = answer.usage
        body["usageMetadata"] = {
            "promptTokenCount": asked,
            "candidatesTokenCount": said,
            "cachedContentTokenCount": cached,
            "thoughtsTokenCount": thoughts,
            "totalTokenCount": asked + said + thoughts,
        }
    return body


def _google_calls(answer: Answer) -> list[dict[str, Any]]:
    calls: list[dict[str, Any]] = []
    for call in answer.calls:
        named = {"id": call.id} if call.id else {}
        given = {"args": call.arguments} if call.arguments else {}
        calls.append({"functionCall": {**named, "name": call.name, **given}})
    if calls:
        calls[0]["thoughtSignature"] = SIGNATURE
    return calls


def _event(body: object) -> bytes:
    return b"data: " + json.dumps(body).encode() + b"\n\n"


def _parts(text: str) -> list[str]:
    half = len(text) // 2
    return [part for part in (text[:half], text[half:]) if part]


Protocol = type[OpenAI] | type[Ollama] | type[Google]
PROTOCOLS: dict[str, Protocol] = {"openai": OpenAI, "ollama": Ollama, "google": Google}
