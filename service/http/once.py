"""Requests that change something, under an `Idempotency-Key`: done once, and answered the same way for a day.

    return await once.answered(request, key, who, work)

What is kept is the answer as it was sent, refusals included (a second look would find that it was this very request
which decided). Not kept is what says "try again": 5xx, a full mailbox. Then the key is free at once.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, TypeVar

import anyio
import msgspec
from litestar import Request, Response
from litestar.params import HeaderParameter

from ...mailbox.errors import CallboardError
from ..operations.answers import Answers
from ..operations.principal import Principal
from .problems import MEDIA_TYPE, problem

log = logging.getLogger(__name__)

T = TypeVar("T")

Key = Annotated[
    str,
    HeaderParameter(
        name="Idempotency-Key",
        min_length=1,
        max_length=200,
        pattern=r"^[\x21-\x7e]+$",
        description="Yours, new for each request: sent again, the same request is done once and answered the same.",
    ),
]
WORK_SECONDS = 30.0
"""How long the work of a request may take: well below the minute after which the store takes its process for dead."""
_AGAIN = {429}


class Once:
    """Answers to one server's requests."""

    def __init__(self, answers: Answers) -> None:
        self.answers = answers

    async def answered(
        self,
        request: Request[Any, Any, Any],
        key: str,
        who: Principal,
        work: Callable[[], Awaitable[T]],
        *,
        status: int = 200,
    ) -> Response[T]:
        """The answer to a request: what `work` gives, or what it was answered before.

        Raises:
            KeyReused, StillAnswering; StoreUnavailable: before anything was done.
        """
        what = b"\0".join((request.method.encode(), request.url.path.encode(), await request.body()))
        kept = await self.answers.begin(who.name, key, what)
        if kept is not None:
            return _response(kept.status, kept.body.encode(), {"Idempotency-Replayed": "true"})
        # From here on a caller who hangs up, or a server that ends, cancels nothing: it is done and kept, or not begun.
        with anyio.CancelScope(shield=True):
            response = await self._done(request, work, status)
            await self._keep(who.name, key, response)
        return response

    async def _done(
        self, request: Request[Any, Any, Any], work: Callable[[], Awaitable[T]], status: int
    ) -> Response[T]:
        try:
            with anyio.fail_after(WORK_SECONDS):
                return _response(status, msgspec.json.encode(await work()))
        except Exception as error:  # noqa: BLE001 - every error is an answer, and has to be kept as one
            return problem(request, error)  # type: ignore[return-value]  # of bytes, which are what is sent either way

    async def _keep(self, who: str, key: str, response: Response[Any]) -> None:
        status = response.status_code or 200
        try:
            if status >= 500 or status in _AGAIN:
                await self.answers.forget(who, key)
            else:
                await self.answers.keep(who, key, status, bytes(response.content).decode())
        except CallboardError:
            # It is done, so that is what is said; sent again within a minute it is "still being answered".
            log.warning("the answer under an Idempotency-Key could not be kept", exc_info=True)


def _response(status: int, body: bytes, headers: dict[str, str] | None = None) -> Response[Any]:
    kind = MEDIA_TYPE if status >= 400 else "application/json"
    return Response(body, status_code=status, media_type=kind, headers=headers)
