"""Which errors of a model client are worth another attempt."""

import socket
import ssl
import urllib.error
from decimal import Decimal
from email.message import Message
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from callboard.actors.llm.client import (
    LLMResponse,
    ModelError,
    PermanentModelError,
    ToolCall,
    TransientModelError,
    classify,
    is_lost,
)
from callboard.actors.llm.scripted import ScriptedLLM
from callboard.mailbox.errors import CallboardError


class SdkError(Exception):
    def __init__(self, text: str = "", **attributes: Any) -> None:
        super().__init__(text)
        self.__dict__.update(attributes)


class NetworkError(Exception):
    """As in httpx."""


class ConnectError(NetworkError):
    pass


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (TransientModelError("x"), "transient"),
        (PermanentModelError("503 x"), "permanent"),
        (TimeoutError(), "transient"),
        (ConnectionResetError(), "transient"),
        (socket.gaierror(-2, "no name"), "transient"),
        (OSError(101, "network unreachable"), "transient"),
        (ssl.SSLError("eof"), "transient"),
        (ssl.SSLCertVerificationError("expired"), "permanent"),
        (FileNotFoundError("cert.pem"), "bug"),
        (ConnectError("refused"), "transient"),
        *((SdkError(status_code=status), "transient") for status in (408, 409, 425, 429, 500, 502, 503, 504, 529)),
        *((SdkError(status_code=status), "permanent") for status in (301, 400, 401, 403, 404, 413, 422)),
        (SdkError(code=503), "transient"),
        (SdkError(code=400), "permanent"),
        (SdkError(status=429), "transient"),
        (SdkError(response=SimpleNamespace(status_code=401)), "permanent"),
        (SdkError(status_code=429, code="insufficient_quota"), "permanent"),
        (SdkError(status_code=429, code="rate_limit_exceeded"), "transient"),
        (SdkError(status_code=-1), "bug"),
        (SdkError(status_code=True), "bug"),
        (SdkError(code=lambda: 429), "bug"),
        (urllib.error.HTTPError("u", 401, "no", Message(), None), "permanent"),  # an OSError
        (urllib.error.URLError("refused"), "transient"),
        (Exception("429 Too Many Requests"), "transient"),
        (RuntimeError("HTTP 503: busy"), "transient"),
        (Exception("401 Unauthorized"), "permanent"),
        (Exception("4290 things"), "bug"),
        (Exception("line 429"), "bug"),
        (Exception(), "bug"),
        (ValueError("500 rows expected"), "bug"),
        (SdkError("503 busy"), "bug"),
        (IndexError("script"), "bug"),
        (KeyboardInterrupt(), "bug"),
    ],
)
def test_w17_errors_are_classed_by_what_to_do(error: BaseException, expected: str) -> None:
    assert classify(error) == expected


def test_httpx_errors_are_classed_without_importing_httpx() -> None:
    httpx = pytest.importorskip("httpx")
    request = httpx.Request("GET", "http://x")
    assert classify(httpx.ReadTimeout("x", request=request)) == "transient"
    assert classify(httpx.ConnectError("x")) == "transient"
    assert classify(httpx.RemoteProtocolError("x")) == "transient"
    assert classify(httpx.UnsupportedProtocol("x")) == "bug"
    for status, expected in ((400, "permanent"), (503, "transient")):
        response = httpx.Response(status, request=request)
        assert classify(httpx.HTTPStatusError("x", request=request, response=response)) == expected


def test_w20_an_error_says_what_the_attempt_cost() -> None:
    error = TransientModelError("timed out", 17.5, cost_usd=0.002)
    assert (str(error), error.retry_after_seconds, error.cost_usd) == ("timed out", 17.5, Decimal("0.002"))
    assert PermanentModelError("no").cost_usd == 0
    assert issubclass(ModelError, CallboardError)
    assert TransientModelError("x").retry_after_seconds is None


def test_an_error_says_what_kind_it_is() -> None:
    assert TransientModelError("x").kind == "overload"
    assert PermanentModelError("x").kind == "bad_request"
    assert PermanentModelError("x", kind="quota").kind == "quota"


@pytest.mark.anyio
async def test_a_client_that_cannot_stream_hands_its_text_over_at_once() -> None:
    heard: list[str] = []
    llm = ScriptedLLM([LLMResponse("Hello."), LLMResponse(tool_calls=[ToolCall("1", "look", {})])])
    assert (await llm.stream([], [], "", heard.append)).content == "Hello."
    assert (await llm.stream([], [], "", heard.append)).tool_calls[0].name == "look"
    assert heard == ["Hello."]


def _from(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


APIConnectionError = type("APIConnectionError", (Exception,), {})
"""As the SDKs have it: of a cut connection and of one that never was."""


@pytest.mark.parametrize(
    ("error", "lost"),
    [
        (httpx.ReadTimeout("slow"), True),
        (httpx.WriteTimeout("slow"), True),
        (httpx.ReadError("cut"), True),
        (httpx.RemoteProtocolError("cut"), True),
        (TimeoutError(), True),
        (ConnectionResetError(), True),
        (_from(APIConnectionError("x"), httpx.ReadError("cut")), True),
        (_from(APIConnectionError("x"), httpx.ConnectError("refused")), False),
        (httpx.ConnectError("refused"), False),
        (httpx.ConnectTimeout("slow"), False),
        (httpx.PoolTimeout("full"), False),
        (ConnectionRefusedError(), False),
        (ConnectionError("is it running?"), False),
        (OSError("no route"), False),
        (Exception("503 busy"), False),
        (ValueError("bug"), False),
        (TransientModelError("503", kind="overload"), False),
        (httpx.HTTPStatusError("x", request=httpx.Request("GET", "http://x"), response=httpx.Response(504)), False),
    ],
)
def test_w20_an_answer_that_nobody_saw_is_told_from_a_call_that_was_never_sent(error: Exception, lost: bool) -> None:
    assert is_lost(error) == lost
