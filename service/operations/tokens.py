"""Bearer tokens: who may call from elsewhere, as whom, and what.

A token's secret is shown once, when it is made; what is kept is its SHA-256, which suffices for 256 random bits (a slow
hash protects what people think up). `Credentials` is the door: it remembers what a secret opens for MEMORY_SECONDS, so
a revocation holds after that at the latest, and a busy client costs the database no look-up a request.

Beside: `principal` (scopes), `persistence.operating` (S15), `service.http.admission` (asks).
"""

import re
import secrets
from collections import OrderedDict
from collections.abc import Sequence
from hashlib import sha256
from typing import Any

import msgspec

from ...mailbox.errors import UsageError
from ...persistence.operating import Token
from ...persistence.port import Port, RealPort
from ...persistence.store import Store
from .principal import SCOPES, Principal, Scope
from .runs import Operations
from .views import moment

BEGINS = "cb_"
SECRET_BYTES = 32
MEMORY_SECONDS = 5.0
REMEMBERED = 1_000
"""How many secrets are remembered, known ones and others; a flood of guesses pushes out its own."""
MAX_EXPIRES_SECONDS = 10 * 366 * 86_400.0
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,63}")
_SECRET = re.compile(re.escape(BEGINS) + r"[A-Za-z0-9_-]{43}")


class NewToken(msgspec.Struct, frozen=True):
    """A token and its secret, which nobody can look up any more."""

    token: Token
    secret: str


class Tokens:
    """The tokens of one store, as one principal, who needs the scope `admin`."""

    def __init__(self, operations: Operations) -> None:
        self.operations = operations
        self.store = operations.store

    async def create(
        self, name: str, scopes: Sequence[str], *, principal: str = "", expires_seconds: float = 0.0
    ) -> NewToken:
        """Make a token called `name`, which acts as `principal` (its own name unless given); 0.0: it does not expire.

        Raises:
            NotAllowed; UsageError: a name or scope that cannot be. Conflict: there is or was one of that name.
        """
        self.operations.require("admin")
        principal = principal or name
        for what, given in (("name", name), ("principal", principal)):
            if not _NAME.fullmatch(given):
                raise UsageError(
                    f"token {what}: expected letters, digits and any of . _ @ + - (64 at most), got {given[:80]!r}"
                )
        rights = _rights(scopes)
        if not 0.0 <= expires_seconds <= MAX_EXPIRES_SECONDS:
            raise UsageError(f"a token may last up to 10 years, or for ever; got {expires_seconds:g} seconds")
        expires_at = await self.store.now() + expires_seconds if expires_seconds else 0.0
        secret = BEGINS + secrets.token_urlsafe(SECRET_BYTES)
        token = Token(name, principal, " ".join(rights), created_by=self.operations.principal, expires_at=expires_at)
        entry = self.operations.entry(
            "token create", f"token:{name}", after=token.scopes, note="" if principal == name else f"for {principal}"
        )
        await self.store.add_token(token, hashed(secret), entry)
        return NewToken(token, secret)

    async def list(self) -> list[Token]:
        """All of them by name, revoked ones included. Raises NotAllowed."""
        self.operations.require("admin")
        return await self.store.tokens()

    async def revoke(self, name: str) -> Token:
        """Let a token open nothing any more. Harmless where it is revoked.

        Raises:
            NotAllowed; NotFound.
        """
        self.operations.require("admin")
        return await self.store.revoke_token(name, self.operations.entry("token revoke", f"token:{name}"))


class Credentials:
    """What a secret opens, and whether one is needed at all."""

    def __init__(self, store: Store, port: Port | None = None) -> None:
        self.store = store
        self.port: Port = port or RealPort()
        self.memory_seconds = MEMORY_SECONDS
        self._known: OrderedDict[bytes, tuple[float, Token | None]] = OrderedDict()
        self._wanted = False
        self._looked_at = float("-inf")

    async def token(self, secret: str) -> Token | None:
        """The token of a secret; None: it opens nothing. MEMORY_SECONDS old at most.

        The look-up is by a hash: how long it takes tells of the hash's beginning at most, and nobody can make a secret
        for that, so no comparison has to take its time.

        Raises:
            StoreUnavailable: nobody is let in on yesterday's word.
        """
        if not _SECRET.fullmatch(secret):
            return None
        key, now = hashed(secret), self.port.monotonic()
        at, token = self._known.get(key, (float("-inf"), None))
        if now - at >= self.memory_seconds:
            token = await self.store.token(key)
            self._wanted = self._wanted or token is not None
            self._known[key] = (now, token)
            self._known.move_to_end(key)
            while len(self._known) > REMEMBERED:
                self._known.popitem(last=False)
        return token

    async def wanted(self) -> bool:
        """Whether callers have to bring a token: as soon as one was ever made. That the last one is revoked opens
        nothing."""
        now = self.port.monotonic()
        if not self._wanted and now - self._looked_at >= self.memory_seconds:
            self._wanted = bool(await self.store.tokens())
            self._looked_at = now
        return self._wanted


def hashed(secret: str) -> bytes:
    """A secret as it is kept."""
    return sha256(secret.encode()).digest()


def principal_of(token: Token, host: str) -> Principal:
    """Who calls with this token, from the address `host`."""
    rights = frozenset(one for one in SCOPES if one in token.scopes.split())
    return Principal(token.principal, "http", host, rights, label="" if token.name == token.principal else token.name)


def _rights(scopes: Sequence[str]) -> list[Scope]:
    given = {one.strip() for one in scopes} - {""}
    unknown = sorted(given - set(SCOPES))
    if unknown or not given:
        what = repr(unknown[0][:40]) if unknown else "none"
        raise UsageError(f"scopes: expected some of {', '.join(SCOPES)}, separated by commas, got {what}")
    return [one for one in SCOPES if one in given]


def token_document(token: Token) -> dict[str, Any]:
    """A token as `--json` shows it, without a secret."""
    times = ("created_at", "expires_at", "last_used_at", "revoked_at")
    shown = {**msgspec.to_builtins(token), "scopes": token.scopes.split()}
    return {**shown, **{name: moment(getattr(token, name)) for name in times}}


def tokens_document(tokens: Sequence[Token]) -> dict[str, Any]:
    """`callboard.tokens/1`."""
    return {"schema": "callboard.tokens/1", "items": [token_document(one) for one in tokens]}
