"""Serving the API in a process of its own: where it listens, and how it ends.

Without a token that opens something it listens on loopback only; whoever asks for more is told what to do first. On
SIGTERM (or ctrl-C) it takes no more requests, streams end at once (their readers come back with `Last-Event-ID`),
requests under way are answered, and it leaves; a second signal does not wait.
"""

import ipaddress
import logging
import re
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, cast

import anyio
import uvicorn
from litestar import Litestar

from ...mailbox.errors import UsageError
from ...persistence.store import Store
from ..telemetry.requests import carrying
from .admission import host_of, is_loopback

log = logging.getLogger(__name__)

DRAIN_SECONDS = 35
"""How long requests under way are waited for: longer than the work of one may take."""
STALLED_SECONDS = 3.0
"""How long a reader that takes nothing is waited for at the end."""
_BACKLOG = 512
_IDLE_SECONDS = 15
_MAX_HEAD_BYTES = 32 << 10
_PORT = re.compile(r":(\d{1,5})")


class Bind(NamedTuple):
    """An address to listen on."""

    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        """Whether nobody beyond this machine can reach it."""
        return is_loopback(self.host)

    def url(self, port: int) -> str:
        """Of a server that listens here, on this port."""
        return f"http://[{self.host}]:{port}" if ":" in self.host else f"http://{self.host}:{port}"


def parse_bind(text: str) -> Bind:
    """`127.0.0.1:8080`, `[::1]:8080`, `localhost:0`; port 0 is any that is free.

    Raises:
        UsageError: it is none of these.
    """
    host, port = host_of(text), text.strip().removeprefix(f"[{host_of(text)}]").removeprefix(host_of(text))
    if not host or not _PORT.fullmatch(port) or int(port[1:]) > 65_535 or not _is_host(host):
        raise UsageError(f"--bind: expected ADDRESS:PORT such as 127.0.0.1:8080 or [::1]:8080, got {text[:80]!r}")
    return Bind(host, int(port[1:]))


def _is_host(host: str) -> bool:
    try:
        return bool(ipaddress.ip_address(host))
    except ValueError:
        return bool(re.fullmatch(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?", host))


async def require_reachable_safely(bind: Bind, store: Store) -> None:
    """Go on where it is safe to listen there.

    Raises:
        UsageError: others could reach it, and no token opens anything, so nobody could use it but by mistake.
    """
    if bind.is_loopback:
        return
    now = await store.now()
    opens = [one for one in await store.tokens() if not one.revoked_at and not 0 < one.expires_at <= now]
    if not opens:
        raise UsageError(
            f"--bind {bind.host}: other machines can reach that address, and there is no token that would keep "
            "strangers out; make one first: callboard token create NAME --scopes read,approve"
        )


class Server(uvicorn.Server):
    """uvicorn's, whose signals are ours to handle: it would send itself the one that ended it once more at the end."""

    def __init__(self, config: uvicorn.Config, listening: Callable[[], None]) -> None:
        super().__init__(config)
        self._listening = listening

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to answer, and say so."""
        await super().startup(sockets)
        if self.started:
            self._listening()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End; who does not take what was sent to it is left after STALLED_SECONDS, and holds up nobody."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._leave_the_stalled)
            await super().shutdown(sockets)
            group.cancel_scope.cancel()

    async def _leave_the_stalled(self) -> None:
        while True:
            await anyio.sleep(STALLED_SECONDS)
            for one in list(self.server_state.connections):
                flow, transport = getattr(one, "flow", None), getattr(one, "transport", None)
                if flow is not None and transport is not None and flow.write_paused:
                    transport.abort()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals alone."""
        yield


async def serve(app: Litestar, bind: Bind, listening: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT. `listening` hears the URL as soon as it answers.

    Raises:
        UsageError: the address cannot be listened on.
    """
    listener = _listen(bind)
    server = Server(
        uvicorn.Config(
            cast("Any", carrying(cast("Any", app))),  # both are ASGI, each in types of its own
            http="h11",  # the other parser that uvicorn knows bounds no head: a stranger could fill the memory with one
            lifespan="on",
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,  # who is in `X-Forwarded-For` is anybody's to say
            backlog=_BACKLOG,
            timeout_keep_alive=_IDLE_SECONDS,
            timeout_graceful_shutdown=DRAIN_SECONDS,
            h11_max_incomplete_event_size=_MAX_HEAD_BYTES,
        ),
        lambda: listening(bind.url(listener.getsockname()[1])),
    )
    async with anyio.create_task_group() as group:
        group.start_soon(_obey, server, app)
        await server.serve(sockets=[listener])
        group.cancel_scope.cancel()
    if not server.started:
        raise UsageError("the server did not start; the log says why")


def _listen(bind: Bind) -> socket.socket:
    try:
        found = socket.getaddrinfo(bind.host, bind.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = found[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError as error:
        raise UsageError(f"--bind {bind.host}:{bind.port}: {error.strerror}; give another address or port") from error
    listener.setblocking(False)
    return listener


async def _obey(server: Server, app: Litestar) -> None:
    hub: Any = app.state.hub
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async for _ in signals:
            server.force_exit = server.should_exit
            server.should_exit = True
            hub.close()
