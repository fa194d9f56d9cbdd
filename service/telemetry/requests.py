"""Requests that come with a trace context: what they send is their caller's work (`traceparent`, W3C).

Asked of a server that is told to trace, and needs no library: it makes no spans, it only hands the context on, so that
a run which a traced program asks for over HTTP is in that program's trace. Where a request says none, or nonsense,
nothing is carried.
"""

import os
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from contextvars import ContextVar
from typing import Any

from ...actors.tracing import AMBIENT
from ...mailbox.envelope import valid_traceparent
from . import wanted

Scope = MutableMapping[str, Any]
Application = Callable[[Scope, Callable[[], Awaitable[Any]], Callable[[Any], Awaitable[None]]], Awaitable[None]]

_HEARD: ContextVar[str] = ContextVar("traceparent", default="")


def carrying(app: Application, environ: Mapping[str, str] = os.environ) -> Application:
    """An ASGI application whose requests' trace contexts go into what it sends; `app` itself where nobody traces."""
    if not wanted(environ):
        return app
    AMBIENT.traceparent = _HEARD.get

    async def carry(
        scope: Scope, receive: Callable[[], Awaitable[Any]], send: Callable[[Any], Awaitable[None]]
    ) -> None:
        token = _HEARD.set(_context(scope))
        try:
            await app(scope, receive, send)
        finally:
            _HEARD.reset(token)

    return carry


def _context(scope: Scope) -> str:
    if scope["type"] != "http":
        return ""
    found = [value for name, value in scope["headers"] if name == b"traceparent"]
    return valid_traceparent(found[0].decode("latin-1")) if len(found) == 1 else ""
