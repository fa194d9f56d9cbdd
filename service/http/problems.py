"""From an error to a status and a body: `{"type", "title", "status", "detail"}` (RFC 9457), for every error."""

import json
from http import HTTPStatus
from typing import Any

from litestar import Request, Response
from litestar.exceptions import HTTPException, ValidationException

from ...mailbox import errors as e

_TABLE: tuple[tuple[type[BaseException], int, str], ...] = (
    (e.UsageError, 422, "usage"),
    (e.NotFound, 404, "not-found"),
    (e.AlreadyDecided, 409, "already-decided"),
    (e.Conflict, 409, "conflict"),
    (e.NotAllowed, 403, "not-allowed"),
    (e.StoreUnavailable, 503, "database-unavailable"),
    (e.CallboardError, 500, "failed"),
    (ValueError, 422, "usage"),
    (RecursionError, 422, "usage"),
)
"""Class, status and type; the first row that fits counts, so children come before their parents."""


def problem(request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
    """The answer to a request that failed."""
    name, status, detail, headers = _read(error)
    body = {"type": name, "title": HTTPStatus(status).phrase, "status": status, "detail": detail}
    return Response(
        json.dumps(body).encode(), status_code=status, media_type="application/problem+json", headers=headers
    )


def _read(error: Exception) -> tuple[str, int, str, dict[str, str]]:
    headers: dict[str, str] = {}
    if isinstance(error, HTTPException):
        if isinstance(error, ValidationException) or error.status_code == 400:
            return "usage", 422, _what(error), headers
        return "http", error.status_code, str(error.detail), dict(error.headers or {})
    for kind, status, name in _TABLE:
        if isinstance(error, kind):
            return name, status, str(error) or type(error).__name__, headers
    return "bug", 500, "this is a bug; the server's log says more", headers


def _what(error: HTTPException) -> str:
    """The fields that are wrong, in one line."""
    extra = error.extra if isinstance(error.extra, list) else []
    wrong = [f"{one.get('key') or 'body'}: {one.get('message')}" for one in extra if isinstance(one, dict)]
    return "; ".join(wrong) or str(error.detail)
