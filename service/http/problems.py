"""Every error as a problem document (RFC 9457), whoever raised it: `{"type", "title", "status", "detail", …}`.

`type` is `urn:callboard:problem:NAME`, and says what a program can do about it; docs/HTTP.md has a row for each NAME of
`KINDS`. `detail` is for people. What a program needs besides is a member of its own: which approval, who decided it and
when, in how many seconds to come again.
"""

import logging
from typing import Any

import msgspec
from litestar import Request, Response
from litestar.exceptions import HTTPException, ValidationException
from litestar.openapi.datastructures import ResponseSpec

from ...mailbox import errors as e
from ..operations.answers import KeyReused, StillAnswering
from ..operations.decisions import Expired
from .heading import request_id

log = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"
TYPE_BEGINS = "urn:callboard:problem:"

KINDS: dict[str, tuple[int, str]] = {
    "idempotency-key-missing": (400, "An Idempotency-Key is needed"),
    "unauthenticated": (401, "A valid bearer token is needed"),
    "scope-missing": (403, "The token lacks a scope"),
    "not-allowed": (403, "A policy does not allow it"),
    "not-found": (404, "There is nothing by that name"),
    "no-such-route": (404, "There is no such route"),
    "method-not-allowed": (405, "The route does not take this method"),
    "too-slow": (408, "The body did not arrive in time"),
    "conflict": (409, "Somebody or something else was first"),
    "already-decided": (409, "The approval was decided before"),
    "still-answering": (409, "The same request is being answered"),
    "expired": (410, "The approval has expired"),
    "digest-differs": (412, "The arguments on record are other ones"),
    "too-large": (413, "The body is too large"),
    "media-type": (415, "The body is not said to be JSON"),
    "host-unknown": (421, "This server is not known by that name"),
    "usage": (422, "The request cannot mean anything"),
    "idempotency-key-reused": (422, "The Idempotency-Key was used for another request"),
    "mailbox-full": (429, "The recipient has more than it can hold"),
    "too-many-streams": (503, "All streams are taken"),
    "database-unavailable": (503, "The database does not answer"),
    "timed-out": (503, "It took too long"),
    "failed": (500, "It failed"),
    "bug": (500, "This is a bug"),
}
"""Name, status and title. Names are never changed, only added."""

_TABLE: tuple[tuple[type[BaseException], str], ...] = (
    (KeyReused, "idempotency-key-reused"),
    (e.UsageError, "usage"),
    (e.NotFound, "not-found"),
    (StillAnswering, "still-answering"),
    (Expired, "expired"),
    (e.AlreadyDecided, "already-decided"),
    (e.MailboxFull, "mailbox-full"),
    (e.Conflict, "conflict"),
    (e.NotAllowed, "not-allowed"),
    (e.StoreUnavailable, "database-unavailable"),
    (e.CallboardError, "failed"),
    (TimeoutError, "timed-out"),
    (ValueError, "usage"),
    (RecursionError, "usage"),
)
"""The first row that fits counts, so children come before their parents."""

_OF_THE_SERVER = {401: "unauthenticated", 404: "no-such-route", 405: "method-not-allowed", 413: "too-large"}
_AFTER = {"mailbox-full": 1, "still-answering": 1, "too-many-streams": 5, "database-unavailable": 2, "timed-out": 2}
"""When to come again, in seconds."""


class Wrong(msgspec.Struct, frozen=True):
    """One value that was refused."""

    field: str
    detail: str


class Problem(msgspec.Struct, frozen=True, omit_defaults=True):
    """An error (RFC 9457); members beyond `detail` are there where they have something to say."""

    type: str
    title: str
    status: int
    detail: str
    request_id: str = ""
    errors: list[Wrong] = []
    """The values that were refused, of which `detail` speaks."""
    retry_after: int = 0
    """Seconds after which the same request may succeed."""
    approval: str = ""
    """Id of the approval that it is about."""
    decided_by: str = ""
    decided_at: str = ""
    """RFC 3339."""


class ProblemError(Exception):
    """An error that is a problem already, with members or headers of its own."""

    def __init__(self, name: str, detail: str, *, headers: dict[str, str] | None = None, **members: Any) -> None:
        super().__init__(detail)
        self.name, self.headers, self.members = name, headers or {}, members


def problem(request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
    """The answer to a request that failed."""
    number = request_id(request.scope)
    name, detail, headers, members = _read(error)
    if name == "bug":
        log.error("request %s %s %s failed", number, request.method, request.url.path, exc_info=error)
    status, title = KINDS[name]
    if (after := _AFTER.get(name)) is not None:
        headers["Retry-After"], members["retry_after"] = str(after), after
    shown = Problem(TYPE_BEGINS + name, title, status, detail, number, **members)
    return Response(msgspec.json.encode(shown), status_code=status, media_type=MEDIA_TYPE, headers=headers)


def _read(error: Exception) -> tuple[str, str, dict[str, str], dict[str, Any]]:
    """Name, detail, headers and members."""
    if isinstance(error, ProblemError):
        return error.name, str(error), dict(error.headers), dict(error.members)
    if isinstance(error, HTTPException):
        return _of_the_server(error)
    for kind, name in _TABLE:
        if isinstance(error, kind):
            return name, str(error) or type(error).__name__, {}, {}
    return "bug", "this is a bug; the server's log says more under this request_id", {}, {}


def _of_the_server(error: HTTPException) -> tuple[str, str, dict[str, str], dict[str, Any]]:
    if isinstance(error, ValidationException) or error.status_code == 400:
        wrong = _wrong(error)
        if str(error.detail).startswith("Missing required header parameter 'Idempotency-Key'"):
            return "idempotency-key-missing", "give an Idempotency-Key, so that this can be sent again safely", {}, {}
        detail = "; ".join(f"{one.field}: {one.detail}" for one in wrong) or str(error.detail)
        return "usage", detail, {}, {"errors": wrong}
    name = _OF_THE_SERVER.get(error.status_code, "usage" if error.status_code < 500 else "bug")
    # The rest of a body that nobody reads is not another request.
    closing = {"Connection": "close"} if name == "too-large" else {}
    return name, str(error.detail), {**(error.headers or {}), **closing}, {}


def _wrong(error: HTTPException) -> list[Wrong]:
    extra = error.extra if isinstance(error.extra, list) else []
    return [Wrong(str(one.get("key") or "body"), str(one.get("message"))) for one in extra if isinstance(one, dict)]


def answers(*names: str) -> dict[int, ResponseSpec]:
    """What an operation may answer beside its success, for the document: the kinds that are named and those of all."""
    found: dict[int, list[str]] = {}
    for name in (*names, "host-unknown", "usage", "database-unavailable", "bug"):
        kinds = found.setdefault(KINDS[name][0], [])
        if name not in kinds:
            kinds.append(name)
    return {
        status: ResponseSpec(
            Problem,
            generate_examples=False,
            description=". ".join(f"`{name}`: {KINDS[name][1]}" for name in sorted(kinds)),
            media_type=MEDIA_TYPE,
        )
        for status, kinds in sorted(found.items())
    }
