"""Which failures of a tool are worth another attempt (W-17, for tools)."""

import json
from typing import Any

import httpx
import pytest

from callboard.actors.agent.faults import is_permanent, retry_after_seconds
from callboard.actors.agent.options import Retries


def http(status: int, **headers: str) -> httpx.HTTPStatusError:
    request = httpx.Request("GET", "http://localhost/")
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx.HTTPStatusError("no", request=request, response=httpx.Response(status, headers=names, request=request))


class Hostile(Exception):
    @property
    def response(self) -> Any:
        raise RuntimeError("none of your business")

    status_code = "404"


@pytest.mark.parametrize(
    ("error", "permanent"),
    [
        (ValueError("no such order"), True),
        (TypeError(), True),
        (KeyError("x"), True),
        (PermissionError(), True),
        (json.JSONDecodeError("x", "y", 0), True),
        (http(400), True),
        (http(401), True),
        (http(404), True),
        (http(408), False),
        (http(409), False),
        (http(425), False),
        (http(429), False),
        (http(500), False),
        (http(503), False),
        (httpx.ConnectError("refused"), False),
        (httpx.ReadTimeout("slow"), False),
        (TimeoutError(), False),
        (ConnectionResetError(), False),
        (OSError(28, "disk full"), False),
        (RuntimeError("who knows"), False),
        (Hostile(), False),
    ],
)
def test_w17_errors_that_another_attempt_cannot_mend_are_permanent(error: Exception, permanent: bool) -> None:
    assert is_permanent(error, Retries()) is permanent


def test_w17_a_tool_says_which_of_its_own_errors_are_final() -> None:
    class Closed(RuntimeError): ...

    class ForEver(Closed): ...

    assert is_permanent(ForEver(), Retries(no_retry=(Closed,)))
    assert not is_permanent(RuntimeError(), Retries(no_retry=(Closed,)))


@pytest.mark.parametrize(
    ("error", "seconds"),
    [
        (http(429, retry_after="7"), 7.0),
        (http(429, retry_after="0.5"), 0.5),
        (http(429, retry_after="-3"), 0.0),
        (http(429, retry_after="1e9"), 86_400.0),
        (http(429, retry_after="inf"), None),
        (http(429, retry_after="Wed, 21 Oct 2026 07:28:00 GMT"), None),
        (http(429), None),
        (Hostile(), None),
        (ValueError(), None),
    ],
)
def test_w17_the_server_s_own_wait_is_read(error: Exception, seconds: float | None) -> None:
    assert retry_after_seconds(error) == seconds
