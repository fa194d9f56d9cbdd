"""What the stub does, by the name of the model that is asked for.

Names of the form `status-503` stand for that status with a plain error. A scenario that one provider lacks is missing
from its own table.
"""

from collections.abc import Mapping

from .protocols import Answer, Call, Refusal

ANSWERS: dict[str, Answer] = {
    "ok": Answer("Hello, friend."),
    "tool": Answer("", (Call("add", {"a": 47, "b": 89}, "call-7"),)),
    "two-tools": Answer("Looking.", (Call("look", {"x": "é\n"}, "call-7"), Call("add", {"a": 1, "b": 2}, "call-8"))),
    "no-ids": Answer("", (Call("look", {"x": 1}), Call("look", {"x": 2}))),
    "no-arguments": Answer("", (Call("look", "", "call-7"),)),
    "no-usage": Answer("Hello.", usage=None),
    "length": Answer("Hel", finish="length"),
    "length-empty": Answer("", finish="length"),
    "filter": Answer("", finish="filter"),
    "empty": Answer(""),
    "odd-finish": Answer("Hello.", finish="OTHER"),
    # openai
    "bad-json": Answer("", (Call("look", '{"x": ', "call-7"),)),
    "not-object": Answer("", (Call("look", "[1]", "call-7"),)),
    # google
    "bad-call": Answer("", finish="MALFORMED_FUNCTION_CALL"),
    "no-signature": Answer("", finish="MISSING_THOUGHT_SIGNATURE"),
    "bad-response": Answer("", finish="MALFORMED_RESPONSE"),
    "other": Answer("", finish="OTHER"),
    # ollama
    "loading": Answer("", finish="load"),
    "truncated": Answer("Hello.", usage=(90, 5, 0, 0)),
    "full": Answer("Hello.", usage=(4_096, 5, 0, 0)),
}


def _openai(code: str, message: str, type: str = "invalid_request_error") -> dict[str, object]:
    return {"error": {"message": message, "type": type, "param": None, "code": code}}


def _google(code: int, status: str, message: str, *details: Mapping[str, object]) -> dict[str, object]:
    return {"error": {"code": code, "message": message, "status": status, "details": list(details)}}


_DATED = {"retry-after": "Mon, 30 Nov 2026 10:00:30 GMT", "date": "Mon, 30 Nov 2026 10:00:00 GMT"}
_QUOTA_TEXT = "You exceeded your current quota, please check your plan and billing details."


def _quota(id: str) -> dict[str, object]:
    return {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"quotaId": id}]}


_RETRY_INFO = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "17.5s"}

REFUSALS: dict[str, dict[str, Refusal]] = {
    "openai": {
        "rate": Refusal(429, _openai("rate_limit_exceeded", "slow down", "requests"), {"retry-after": "7"}),
        "rate-date": Refusal(429, _openai("rate_limit_exceeded", "slow down"), _DATED),
        "rate-ms": Refusal(429, _openai("rate_limit_exceeded", "slow down"), {"retry-after-ms": "1500"}),
        "rate-odd": Refusal(429, "slow down", {"retry-after": "soon", "retry-after-ms": "inf"}),
        "quota": Refusal(429, _openai("insufficient_quota", _QUOTA_TEXT, "insufficient_quota"), {"retry-after": "7"}),
        "context": Refusal(400, _openai("context_length_exceeded", "This model's maximum context length is 8192")),
        "context-text": Refusal(500, {"error": {"message": "the request exceeds the available context size"}}),
        "blocked": Refusal(400, {"error": {"code": "content_filter", "message": "no", "innererror": {"code": "X"}}}),
        "no-model": Refusal(404, _openai("model_not_found", "The model does not exist")),
        "unreadable-call": Refusal(400, _openai("tool_use_failed", "Failed to call a function: <look>{x:")),
        "page": Refusal(502, "<html>Bad Gateway</html>"),
        "list": Refusal(503, ["busy"]),
        "error-200": Refusal(200, {"error": {"message": "upstream is down", "code": 502}}),
    },
    "ollama": {
        "rate": Refusal(429, {"error": "too many requests"}, {"retry-after": "7"}),
        "quota": Refusal(429, {"error": "you have reached your weekly usage limit"}),
        "busy": Refusal(503, {"error": "server busy, please try again.  maximum pending requests exceeded"}),
        "runner": Refusal(500, {"error": "llama runner process has terminated"}),
        "context": Refusal(400, {"error": "the input length exceeds the context length"}),
        "no-model": Refusal(404, {"error": 'model "x" not found, try pulling it first'}),
        "no-tools": Refusal(400, {"error": "registry.ollama.ai/x does not support tools"}),
        "bad-call": Refusal(500, {"error": "error parsing tool call: raw='look {x', err=invalid character"}),
        "page": Refusal(502, "<html>Bad Gateway</html>"),
        "list": Refusal(503, ["busy"]),
        "error-200": Refusal(200, {"error": "upstream is down"}),
    },
    "google": {
        "rate": Refusal(
            429, _google(429, "RESOURCE_EXHAUSTED", _QUOTA_TEXT, _quota("GenerateRequestsPerMinute"), _RETRY_INFO)
        ),
        "quota": Refusal(
            429, _google(429, "RESOURCE_EXHAUSTED", _QUOTA_TEXT, _quota("GenerateRequestsPerDay"), _RETRY_INFO)
        ),
        "busy": Refusal(503, _google(503, "UNAVAILABLE", "The model is overloaded."), {"retry-after": "3"}),
        "context": Refusal(
            400, _google(400, "INVALID_ARGUMENT", "The input token count (9) exceeds the maximum number of tokens (8).")
        ),
        "bad-key": Refusal(
            400, _google(400, "INVALID_ARGUMENT", "API key not valid.", {"reason": "API_KEY_INVALID"})
        ),
        "no-model": Refusal(404, _google(404, "NOT_FOUND", "models/x is not found for API version v1beta")),
        "blocked": Refusal(200, {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, "responseId": "r"}),
        "nothing": Refusal(200, {"responseId": "r"}),
        "page": Refusal(502, "<html>Bad Gateway</html>"),
        "list": Refusal(503, [_google(503, "UNAVAILABLE", "busy")]),
    },
}  # fmt: skip
