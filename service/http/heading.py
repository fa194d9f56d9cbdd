"""What every answer carries, also those of routes that do not exist: the request's id, and what keeps browsers out.

A caller's own `X-Request-Id` is echoed where it is a plain short word; anything else is replaced, so that nothing from
outside gets into a log line or a header as it came.
"""

import re
import secrets
from typing import Any

from litestar.datastructures import MutableScopeHeaders
from litestar.types import Message, Scope

_KEY = "callboard.request_id"
_SAFE = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_ALWAYS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


def request_id(scope: Scope | dict[str, Any]) -> str:
    """The id of a request: its own, or one that was made for it."""
    known = scope.get(_KEY)
    if known is None:
        given = next((value for name, value in scope["headers"] if name == b"x-request-id"), b"")
        known = given.decode() if _SAFE.fullmatch(given) else secrets.token_hex(8)
        scope[_KEY] = known  # type: ignore[literal-required]  # a scope may carry keys of applications
    return str(known)


async def head(message: Message, scope: Scope) -> None:
    """Add the headers to an answer that begins."""
    if message["type"] == "http.response.start":
        headers = MutableScopeHeaders.from_message(message)
        headers["X-Request-Id"] = request_id(scope)
        for name, value in _ALWAYS.items():
            headers.setdefault(name, value)
        if scope.get("method") == "OPTIONS" and "allow" in headers:
            # Litestar names those methods only that were declared with the first of them.
            known: Any = [one for one in scope["litestar_app"].routes if one.path_format == scope["path_template"]]
            headers["Allow"] = ", ".join(sorted({method for one in known for method in one.methods}))
