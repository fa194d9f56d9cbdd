"""The daemon's health server: a few fixed pages over HTTP/1.1, one request a connection, nothing that could be asked
for by anybody else.

It is no web framework on purpose: it has to answer when nothing else works, costs no extra, and takes no input but a
path. Everything that comes in is bounded: the head of a request in size, a connection in time, connections in number.
It listens on loopback unless told otherwise; what the pages tell (counts, states, versions) is no secret, but nobody's
business either. The HTTP API, with its tokens, is another program (`callboard http`).
"""

import asyncio
import ipaddress
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any, NamedTuple

from ..mailbox.errors import SettingError
from .settings import Settings, listen_address

log = logging.getLogger(__name__)

CONNECTION_SECONDS = 5.0
HEAD_BYTES = 8192
CONNECTIONS = 32
"""At once; for whoever comes beyond that, the one that has been here longest is cut off. Not the newcomer: a few silent
connections would else keep the probe away on which a restart depends."""

JSON = "application/json"
EXPOSITION = "text/plain; version=0.0.4; charset=utf-8"


class Page(NamedTuple):
    """What is answered."""

    body: bytes
    status: int = 200
    type: str = JSON


Pages = Mapping[str, Callable[[], Awaitable[Page]]]
"""By path."""


def json_page(document: Mapping[str, Any], *, ok: bool) -> Page:
    """A document as a page: 200 where all is well, else 503."""
    return Page(json.dumps(document, indent=2).encode() + b"\n", 200 if ok else 503)


def health_address(settings: Settings) -> tuple[str, int] | None:
    """Where the health server of these settings listens; None where there is none.

    Raises:
        SettingError: it would be reached from elsewhere, and nobody said that it may.
    """
    if not settings.health:
        return None
    origin = settings.origin("health")
    host, port = listen_address(settings.health, origin)
    if not (settings.health_anywhere or _is_loopback(host)):
        raise SettingError(
            f"{origin}: {host} can be reached from other machines, and health needs no token; "
            "take 127.0.0.1, or say --health-anywhere if that is meant"
        )
    return host, port


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@asynccontextmanager
async def health_server(address: tuple[str, int], pages: Pages) -> AsyncIterator[str]:
    """Serve `pages` for as long as the block lasts; its URL.

    Raises:
        SettingError: nobody can listen there.
    """
    host, port = address
    answering = _Server(pages)
    try:
        server = await asyncio.start_server(answering.answer, host, port, limit=HEAD_BYTES, backlog=CONNECTIONS)
    except OSError as error:
        raise SettingError(f"health: cannot listen on {host}:{port}: {error.strerror or error}") from None
    try:
        port = server.sockets[0].getsockname()[1]
        yield f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    finally:
        server.close()
        answering.close()


class _Server:
    def __init__(self, pages: Pages) -> None:
        self._pages = pages
        self._open: dict[asyncio.StreamWriter, None] = {}
        """In the order in which they came."""

    def close(self) -> None:
        """Cut what is still open."""
        for writer in self._open:
            writer.transport.abort()

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection: read a head, answer it, close."""
        if len(self._open) >= CONNECTIONS:
            oldest = next(iter(self._open))
            del self._open[oldest]
            oldest.transport.abort()
        self._open[writer] = None
        try:
            async with asyncio.timeout(CONNECTION_SECONDS):
                page, head_only = await self._page(reader)
                writer.write(_message(page, head_only=head_only))
                writer.close()
                await writer.wait_closed()  # by then it has taken all of it
        except (TimeoutError, OSError, asyncio.IncompleteReadError):
            log.debug("a client of the health server left, or took too long")
        finally:
            writer.transport.abort()
            self._open.pop(writer, None)

    async def _page(self, reader: asyncio.StreamReader) -> tuple[Page, bool]:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            return _problem(431, f"a request's head has at most {HEAD_BYTES} bytes"), False
        method, path = _request(head)
        if not path:
            return _problem(400, "this is no request of HTTP/1.1"), False
        if method not in ("GET", "HEAD"):
            return _problem(405, "these pages are only looked at: GET or HEAD"), False
        find = self._pages.get(path)
        if find is None:
            return _problem(404, f"there is no such page; there are {', '.join(self._pages)}"), method == "HEAD"
        try:
            return await find(), method == "HEAD"
        except Exception:  # a page that fails must not take the server with it
            log.exception("the page %s failed", path)
            return _problem(500, "this page failed; the log says why"), method == "HEAD"


def _request(head: bytes) -> tuple[str, str]:
    """Method and path, without the query; no path where it is no request."""
    words = head.partition(b"\r\n")[0].split(b" ")
    if len(words) != 3 or not words[2].startswith(b"HTTP/1.") or not words[1].startswith(b"/"):
        return "", ""
    return words[0].decode("latin-1"), words[1].partition(b"?")[0].decode("latin-1")


def _problem(status: int, detail: str) -> Page:
    title = HTTPStatus(status).phrase
    document = {"type": "about:blank", "title": title, "status": status, "detail": detail}
    return Page(json.dumps(document).encode() + b"\n", status, "application/problem+json")


def _message(page: Page, *, head_only: bool) -> bytes:
    lines = [
        f"HTTP/1.1 {page.status} {HTTPStatus(page.status).phrase}",
        f"Content-Type: {page.type}",
        f"Content-Length: {len(page.body)}",
        "Cache-Control: no-store",
        "X-Content-Type-Options: nosniff",
        "Connection: close",
    ]
    if page.status == 405:
        lines.append("Allow: GET, HEAD")
    return "\r\n".join([*lines, "", ""]).encode() + (b"" if head_only else page.body)
