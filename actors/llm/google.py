"""The client for Gemini, over `google-genai`.

Wire facts that shape it: the package has its own retries (off here), its own loop over tools (off), and its own choice
of HTTP library (ours is given, so that its failures are the ones we know); what must go back unread is the signature
of a thought, on the call it led to; thoughts are output that `candidates_token_count` leaves out; a minute's limit and
a day's are the same status and differ in a detail; a blocked question is a good answer without candidates.
"""

import base64
import binascii
import json
import re
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from typing import Any

import httpx
from google import genai
from google.genai import errors, types
from pydantic import ValidationError

from .bodies import PLAIN
from .client import ChatMessage, ErrorKind, LLMResponse, PermanentModelError, ToolCall, ToolSpec, TransientModelError
from .errors import BadClientSettings, Refusal, retry_after
from .pairing import made_id, paired, wire_name
from .prices import Prices
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

_STOP_REASONS = {"STOP": "end_turn", "MAX_TOKENS": "length"}
_FILTERED = frozenset({
    "SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "ESCALATION", "MODEL_ARMOR",
    "IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION",
})  # fmt: skip
_FAULTS: dict[str, ErrorKind] = {"MISSING_THOUGHT_SIGNATURE": "bad_request", "MALFORMED_RESPONSE": "malformed"}
_UNREADABLE_CALLS = frozenset({"MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL"})
_DURATION = re.compile(r"(\d+(?:\.\d+)?)s")


class GoogleClient(HttpModel):
    """`model` of the Gemini API, at `base_url` where it is not Google's.

    `config` is laid over the request's `GenerateContentConfig` (`{"thinking_config": {"thinking_budget": 0}}`).
    `timeout_seconds` is for a whole call, and told to the server too.

    Raises:
        BadClientSettings: without a key, for an address that is none, an empty model name, a timeout of 0.
    """

    def __init__(
        self,
        model: str,
        api_key: str | None = None,
        *,
        base_url: str | None = None,
        api_version: str = "v1beta",
        timeout_seconds: float = 60,
        connect_seconds: float = 10,
        max_tokens: int | None = None,
        temperature: float | None = None,
        config: Mapping[str, Any] | None = None,
        extra_headers: Mapping[str, str] | None = None,
        prices: Prices | None = None,
    ) -> None:
        key = checked_key(api_key)
        if not key:
            # The package would look for one in the environment; which one a client uses should be visible in the code.
            raise BadClientSettings("GoogleClient needs an api_key (get one at https://aistudio.google.com/api-keys)")
        self._base_url = checked_url(base_url) if base_url else ""
        super().__init__(
            model,
            who="google model",
            timeout_seconds=timeout_seconds,
            connect_seconds=connect_seconds,
            secrets=[key, *secrets_in(self._base_url, extra_headers)],
            price=prices.of(model) if prices else None,
            max_tokens=max_tokens,
        )
        self._temperature = temperature
        self._config = dict(config or {})
        self._longest = longest_in(self._config, "max_output_tokens", "maxOutputTokens", given=max_tokens)
        self._clients = PerLoop(lambda: self._make(key, api_version, extra_headers or {}))

    @property
    def vendor(self) -> str:
        """See `LLMClient.vendor`."""
        return "gcp.gemini"

    def __repr__(self) -> str:
        place = f", base_url={shown_url(self._base_url)!r}" if self._base_url else ""
        return f"GoogleClient({self.model!r}{place})"

    async def aclose(self) -> None:
        """Close the connections of the running event loop. The client can be used again: it opens new ones."""
        if opened := self._clients.pop():
            client, http = opened
            await http.aclose()
            client.close()

    def _make(self, key: str, api_version: str, headers: Mapping[str, str]) -> tuple[genai.Client, httpx.AsyncClient]:
        options = http_options(self._asking())
        options["event_hooks"]["request"] = [self._hurry]
        http = httpx.AsyncClient(headers={**PLAIN, **headers}, **options)
        client = genai.Client(
            api_key=key,
            vertexai=False,
            http_options=types.HttpOptions(
                base_url=self._base_url or None,
                api_version=api_version,
                timeout=max(1, int(self.timeout_seconds * 1000)),
                # For parts of the package that are never used, and that read all certificates when they are made.
                client_args={"verify": options["verify"]},
                async_client_args={"ssl": options["verify"]},
                httpx_async_client=http,
                retry_options=types.HttpRetryOptions(attempts=1),
            ),
        )
        return client, http

    async def _hurry(self, request: httpx.Request) -> None:
        """The package knows one time limit for everything; connecting has its own here."""
        request.extensions["timeout"] = self._asking().as_dict()

    def _request(
        self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpec], system_prompt: str
    ) -> dict[str, Any]:
        said = [system_prompt, *(message.content for message in messages if message.role == "system")]
        config: dict[str, Any] = {"automatic_function_calling": {"disable": True}}
        if system := "\n\n".join(text for text in said if text):
            config["system_instruction"] = system
        if tools:
            config["tools"] = [{"function_declarations": [_tool(tool) for tool in tools]}]
        if self._max_tokens is not None:
            config["max_output_tokens"] = self._max_tokens
        if self._temperature is not None:
            config["temperature"] = self._temperature
        return {"contents": _contents(messages), "config": config | self._config}

    def _open(self) -> genai.Client:
        return self._clients.get()[0]

    async def _exchange(self, question: Question) -> LLMResponse:
        contents, config = self._typed(question)
        models = self._open().aio.models
        try:
            if not question.stream:
                answer = await models.generate_content(model=self.model, contents=contents, config=config)
                return self._answer([answer], question)
            parts = []
            stream = await models.generate_content_stream(model=self.model, contents=contents, config=config)
            async with aclosing(stream) as chunks:  # type: ignore[type-var]  # it is a generator
                async for chunk in chunks:
                    question.told("".join(part.text for part in _said(chunk) if part.text and not part.thought))
                    parts.append(chunk)
            return self._answer(parts, question)
        except errors.APIError as error:
            raise _refusal(error) from None
        except ValidationError as error:
            raise ValueError(f"not an answer of Gemini: {_complaints(error)}") from None
        except (AttributeError, TypeError, KeyError) as error:  # the package's, when an answer is not what it expects
            raise ValueError(f"not an answer of Gemini: {error}") from None

    def _typed(self, question: Question) -> tuple[list[types.Content], types.GenerateContentConfig]:
        """The request as the package wants it."""
        request = json.loads(question.body)
        try:
            contents = [_content(content) for content in request["contents"]]
            return contents, types.GenerateContentConfig.model_validate(request["config"])
        except ValidationError as error:
            raise PermanentModelError(self._text(f"the request cannot be written: {_complaints(error)}")) from None

    def _answer(self, parts: Sequence[types.GenerateContentResponse], question: Question) -> LLMResponse:
        said = [part for chunk in parts for part in _said(chunk)]
        asking = [(part, part.function_call) for part in said if part.function_call is not None]
        calls = [_call(part, call, made_id(question.position, number)) for number, (part, call) in enumerate(asking)]
        reason, why = _ending(parts)
        if reason in _UNREADABLE_CALLS:
            calls.append(self._unreadable_call(why or reason, question, len(calls)))
            reason = "STOP"
        usage = next((chunk.usage_metadata for chunk in reversed(parts) if chunk.usage_metadata), None)
        counts = usage or types.GenerateContentResponseUsageMetadata()
        asked = count_in(counts.prompt_token_count) + count_in(counts.tool_use_prompt_token_count)
        thoughts, cached = (
            count_in(counts.thoughts_token_count),
            min(asked, count_in(counts.cached_content_token_count)),
        )
        answered = count_in(counts.candidates_token_count) + thoughts
        answer = LLMResponse(
            "".join(part.text for part in said if part.text and not part.thought),
            calls,
            "tool_use" if calls and reason == "STOP" else _STOP_REASONS.get(reason, reason.lower() or "end_turn"),
            asked,
            answered,
            self.price.cost(asked, answered, cached),
            provider_request_id=next((chunk.response_id for chunk in parts if chunk.response_id), ""),
            cached_tokens=cached,
            thought_tokens=thoughts,
        )
        self._judge(answer, parts, f"{reason} {why}".strip(), streamed=question.stream)
        return answer

    def _judge(
        self, answer: LLMResponse, parts: Sequence[types.GenerateContentResponse], ending: str, *, streamed: bool
    ) -> None:
        """Raise what is no answer: blocked, stopped, cut, or empty without a reason."""
        reason = ending.partition(" ")[0]
        if blocked := next((_block(chunk) for chunk in parts if _block(chunk)), ""):
            self._unusable(answer, "filter", f"the question was blocked: {blocked}")
        if reason in _FILTERED:
            self._unusable(answer, "filter", f"the answer was stopped: {ending}")
        if reason in _FAULTS:
            self._unusable(answer, _FAULTS[reason], f"there is no answer: {ending}")
        if streamed and not reason:
            raise Cut("the stream ended before the answer did")
        if reason not in _STOP_REASONS and not answer.content and not answer.tool_calls:
            text = self._text(f"the answer is empty: {ending or 'no candidates'}")
            raise TransientModelError(text, cost_usd=answer.cost_usd, kind="overload")


def _complaints(error: ValidationError) -> str:
    """What pydantic found, without the values, of which it shows parts: also parts of a key."""
    found = error.errors(include_url=False, include_context=False, include_input=False)
    return "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in found[:5])


def _said(chunk: types.GenerateContentResponse) -> list[types.Part]:
    candidate = chunk.candidates[0] if chunk.candidates else None
    return (candidate.content.parts or []) if candidate and candidate.content else []


def _ending(parts: Sequence[types.GenerateContentResponse]) -> tuple[str, str]:
    """(finish reason, what was said about it), of the last chunk that has one"""
    for chunk in reversed(parts):
        candidate = chunk.candidates[0] if chunk.candidates else None
        if candidate and candidate.finish_reason:
            return candidate.finish_reason.value, candidate.finish_message or ""
    return "", ""


def _block(chunk: types.GenerateContentResponse) -> str:
    feedback = chunk.prompt_feedback
    if feedback is None or feedback.block_reason is None:
        return ""
    return f"{feedback.block_reason.value} {feedback.block_reason_message or ''}".strip()


def _call(part: types.Part, call: types.FunctionCall, made: str) -> ToolCall:
    opaque = base64.b64encode(part.thought_signature).decode() if part.thought_signature else ""
    return ToolCall.from_wire(call.id or made, call.name or "", call.args, opaque)


def _refusal(error: errors.APIError) -> Refusal:
    """The provider's error: status and details as it sent them."""
    details = error.details if isinstance(error.details, dict) else {}
    facts = list(tables(table(details, "error").get("details", details.get("details"))))
    codes = {str(error.status or ""), *(text_in(fact.get("reason")) for fact in facts)}
    waits = [float(found[1]) for fact in facts if (found := _DURATION.fullmatch(text_in(fact.get("retryDelay"))))]
    headers = getattr(error.response, "headers", None)
    if headers is not None and (asked := retry_after(headers)) is not None:
        waits.append(asked)
    kind: ErrorKind | None = None
    code: object = error.code  # an int, says the package; it takes whatever the body holds
    status = code if isinstance(code, int) else 0
    if status == 429:
        # Gemini says "quota" of every limit; only the id tells the day's from the minute's.
        quotas = [text_in(violation.get("quotaId")) for fact in facts for violation in tables(fact.get("violations"))]
        kind = "quota" if any("PerDay" in quota for quota in quotas) else "rate_limit"
    begun = getattr(error.response, "status_code", None) == 200 or not hasattr(error.response, "status_code")
    return Refusal(
        status, json.dumps(error.details, default=str), frozenset(codes), max(waits, default=None), kind, begun
    )


def _contents(messages: Sequence[ChatMessage]) -> list[dict[str, Any]]:
    contents: list[dict[str, Any]] = []
    for message, ids in paired(messages):
        parts = _parts(message, ids)
        if not parts or message.role == "system":
            continue  # an empty part is refused, and Gemini's conversations have no third voice
        role = "model" if message.role == "assistant" else "user"
        if contents and contents[-1]["role"] == role == "user" and message.role == "tool":
            contents[-1]["parts"] += parts  # all answers of a turn stand in one message
        else:
            contents.append({"role": role, "parts": parts})
    return contents


def _parts(message: ChatMessage, ids: tuple[str, ...]) -> list[dict[str, Any]]:
    if message.role == "tool":
        answer = {"id": ids[0], "name": wire_name(message.tool_name), "response": _response(message.content)}
        return [{"function_response": answer}]
    parts: list[dict[str, Any]] = [{"text": message.content}] if message.content else []
    for call, call_id in zip(message.tool_calls, ids, strict=False):
        part: dict[str, Any] = {"function_call": {"id": call_id, "name": wire_name(call.name), "args": call.arguments}}
        if call.opaque:
            part["thought_signature"] = call.opaque
        parts.append(part)
    return parts


def _content(content: dict[str, Any]) -> types.Content:
    """As the package wants it; a signature is bytes there, and one of another provider's making is left out."""
    for part in content["parts"]:
        if opaque := part.pop("thought_signature", ""):
            try:
                part["thought_signature"] = base64.b64decode(opaque, validate=True)
            except (binascii.Error, ValueError):
                continue
    return types.Content.model_validate(content)


def _response(content: str) -> dict[str, Any]:
    """A tool's result as the object that Gemini wants."""
    if content.startswith("Error: "):
        return {"error": content.removeprefix("Error: ")}
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        value = None
    return value if isinstance(value, dict) else {"output": content}


def _tool(tool: ToolSpec) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description, "parameters_json_schema": tool.parameters}
