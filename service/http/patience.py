"""How long a request may take to arrive: a body that trickles in would hold its connection, and its server, for ever.

Beside: `server` (bounds heads and idle connections), `once` (bounds the work), `streams` (bound what is said).
"""

import anyio
from litestar.types import ASGIApp, HTTPReceiveMessage, Receive, Scope, Send, WebSocketReceiveMessage

from .problems import ProblemError

BODY_SECONDS = 30.0


def patient(app: ASGIApp) -> ASGIApp:
    """An application that waits BODY_SECONDS for the whole of a body, and then refuses it as `too-slow`."""

    async def wrapped(scope: Scope, receive: Receive, send: Send) -> None:
        end = anyio.current_time() + BODY_SECONDS
        complete = False

        async def received() -> HTTPReceiveMessage | WebSocketReceiveMessage:
            nonlocal complete
            if complete:  # what comes now is that the caller hangs up, for which a stream waits as long as it lasts
                return await receive()
            try:
                with anyio.fail_after(end - anyio.current_time()):
                    message = await receive()
            except TimeoutError:
                text = f"the body did not arrive within {BODY_SECONDS:g} s; nothing was done"
                raise ProblemError("too-slow", text, headers={"Connection": "close"}) from None
            complete = not message.get("more_body", False)
            return message

        await app(scope, received, send)

    return wrapped
