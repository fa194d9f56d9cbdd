"""Who is let in: asked on every route, before anything of a request's body is read.

In this order: does the caller mean this server (`Host`, where no token would tell a page in a browser that made its own
name point here from the person in front of it), who is it (a bearer token, or nobody), may it do that (the route's
scope), and can it be read (JSON, query parameters that the route knows). The operations ask for the scope once more.
"""

import ipaddress
from collections.abc import Collection, Mapping
from hashlib import sha256
from hmac import compare_digest
from typing import Any

from litestar.connection import ASGIConnection
from litestar.handlers import BaseRouteHandler
from litestar.params import QueryParameter

from ..operations.principal import ALL_SCOPES, Principal, Scope
from ..operations.tokens import Credentials, principal_of
from .problems import ProblemError

Connection = ASGIConnection[Any, Any, Any, Any]

ANONYMOUS = "anonymous"
"""Who everybody is where no token is asked for."""
_UNNAMED_SCOPES: frozenset[Scope] = ALL_SCOPES - {"admin"}
_CHALLENGE = 'Bearer realm="callboard"'
SCOPE, STRICT = "callboard_scope", "callboard_strict"
"""Marks of a route (`opt`): the scope it takes, and that it knows all its query parameters."""


class Gate:
    """The door to one server."""

    def __init__(
        self, credentials: Credentials, static: Mapping[str, str] | None, hosts: Collection[str] | None, *, always: bool
    ) -> None:
        """`static`: sha256 of a token (hexadecimal) to whom it stands for. `hosts`: names of this server beside those
        of loopback; None: any. `always`: ask for a token even where none was ever made."""
        self.credentials = credentials
        self.static = static
        self.hosts = None if hosts is None else frozenset(one.lower() for one in hosts)
        self.always = always

    async def admit(self, connection: Connection, handler: BaseRouteHandler) -> None:
        """Go on with a request whose principal is known, or refuse it.

        Raises:
            ProblemError: 401, 403, 415, 421 or 422, in the order in which this asks.
        """
        scope: Scope | None = handler.opt.get(SCOPE)
        if scope is None:  # open to everybody: whether there is a server, and what its routes are
            return
        host = connection.client.host if connection.client else ""
        secret = _bearer(connection)
        # Who brings a token is who it says, also in the seconds in which the door has not heard that there is one.
        known = await self._known(secret, host)
        principal = known or await self._unknown(connection, secret, host)
        if scope not in principal.scopes:
            raise ProblemError(
                "scope-missing",
                f"this takes a token with the scope {scope!r}; make one: callboard token create NAME --scopes {scope}",
                headers={"WWW-Authenticate": f'{_CHALLENGE}, error="insufficient_scope", scope="{scope}"'},
            )
        _must_be_readable(connection, handler)
        connection.state.principal, connection.state.is_unknown = principal, known is None

    async def still(self, connection: Connection) -> bool:
        """Whether who was let in still would be; for streams, which outlive their door."""
        return await self._known(_bearer(connection), "") is not None or await self._is_open_to_all()

    async def _is_open_to_all(self) -> bool:
        return self.static is None and not self.always and not await self.credentials.wanted()

    async def _known(self, secret: str, host: str) -> Principal | None:
        if name := self._static(secret):
            return Principal(name, "http", host)
        token = await self.credentials.token(secret) if secret else None
        return None if token is None else principal_of(token, host)

    async def _unknown(self, connection: Connection, secret: str, host: str) -> Principal:
        if not await self._is_open_to_all():
            text = "no such bearer token; it may be revoked or expired" if secret else "a bearer token is needed"
            challenge = f'{_CHALLENGE}, error="invalid_token"' if secret else _CHALLENGE
            raise ProblemError("unauthenticated", text, headers={"WWW-Authenticate": challenge})
        self._must_mean_us(connection)
        return Principal(ANONYMOUS, "http", host, _UNNAMED_SCOPES)

    def _static(self, secret: str) -> str:
        key, found = sha256(secret.encode()).hexdigest(), ""
        for one, name in (self.static or {}).items():  # all of them, so that the time tells nothing
            if compare_digest(one.lower().encode(), key.encode()):
                found = name
        return found if secret else ""

    def _must_mean_us(self, connection: Connection) -> None:
        if self.hosts is None:
            return
        given = connection.headers.get("host", "")
        name = host_of(given)
        if not is_loopback(name) and name not in self.hosts:
            raise ProblemError(
                "host-unknown",
                f"without tokens this server answers to localhost only, not to {given[:80]!r}; make a token, or say "
                "localhost",
            )


def _bearer(connection: Connection) -> str:
    scheme, _, secret = connection.headers.get("authorization", "").partition(" ")
    return secret.strip() if scheme.lower() == "bearer" else ""


def _must_be_readable(connection: Connection, handler: BaseRouteHandler) -> None:
    kind = connection.headers.get("content-type", "").partition(";")[0].strip().lower()
    if connection.scope.get("method") == "POST" and kind != "application/json":
        # A page of somebody else's that is open in a browser on this machine can send any other kind here without
        # being asked, and would decide in its user's place.
        raise ProblemError("media-type", "send application/json")
    for name, value in connection.query_params.multi_items():
        if "\0" in value:
            raise ProblemError("usage", f"query parameter {name[:80]!r} holds a NUL character, which nothing here has")
    if not handler.opt.get(STRICT):
        return
    unknown = sorted(set(connection.query_params) - _query_names(handler))
    if unknown:
        names = ", ".join(sorted(_query_names(handler))) or "none"
        raise ProblemError("usage", f"query parameter {unknown[0][:80]!r} is not known here; those that are: {names}")


def _query_names(handler: BaseRouteHandler) -> set[str]:
    found = set()
    for name, field in handler.parsed_fn_signature.parameters.items():
        kwarg = field.kwarg_definition
        if isinstance(kwarg, QueryParameter):
            found.add(kwarg.name or name)
    return found


def host_of(given: str) -> str:
    """The host in a `Host` header or an address to listen on: `[::1]:8080` is `::1`."""
    given = given.strip().lower()
    if given.startswith("["):
        return given[1:].partition("]")[0]
    return given.rpartition(":")[0] if given.count(":") == 1 else given


def is_loopback(name: str) -> bool:
    """Whether a name or an address means this machine, whoever resolves it."""
    if name in ("localhost", ""):
        return name == "localhost"
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
