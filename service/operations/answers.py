"""Answering a request once: what was answered under an idempotency key is answered again, and nothing is done again.

A key belongs to the principal who uses it and to one request (its hash). It is begun before anything is done, and kept
with the answer afterwards, for a day (S16). Who begins is the only one who does it; whoever comes meanwhile is told so.
The messages that a request sends are keyed besides where they can be, so a process that dies between doing and keeping
leaves nothing that would be done twice.
"""

from hashlib import sha256

from ...mailbox.errors import Conflict, UsageError
from ...persistence.operating import KeptAnswer
from ...persistence.store import Store


class KeyReused(UsageError):
    """The idempotency key was used for another request."""


class StillAnswering(Conflict):
    """The request of this idempotency key is being answered right now."""


class Answers:
    """The kept answers of one store."""

    def __init__(self, store: Store) -> None:
        self.store = store

    async def begin(self, principal: str, key: str, request: bytes) -> KeptAnswer | None:
        """What a request was answered before; None: it is the caller's to answer, who then keeps or forgets it.

        `request`: all that makes it this request and no other.

        Raises:
            KeyReused, StillAnswering.
        """
        try:
            found = await self.store.begin_answer(principal, key, sha256(request).digest())
        except Conflict as error:
            raise KeyReused(
                "this Idempotency-Key was used for another request within the last 24 hours; nothing was done, send "
                "this one under a new key"
            ) from error
        if found is not None and found.status == 0:
            raise StillAnswering("the first request with this Idempotency-Key is still being answered; ask again soon")
        return found

    async def keep(self, principal: str, key: str, status: int, body: str) -> None:
        """Keep the answer for a day."""
        await self.store.keep_answer(principal, key, KeptAnswer(status, body))

    async def forget(self, principal: str, key: str) -> None:
        """It came to nothing, and may be asked again."""
        await self.store.forget_answer(principal, key)
