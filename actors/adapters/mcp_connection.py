"""A connection to one MCP server, kept by one task: opened, watched, and opened again when it is needed next.

The task that opens a transport has to close it too (that is how the SDK's scopes work), while calls come from any task.
So `keep` owns the session, and a call only borrows it: when the transport breaks, every borrower is let go at once.

Invariant: whoever gets `NotBegun` knows that nothing was sent; whoever gets `ServerLost`, only that no answer came.
"""

import logging
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any

import anyio
import anyio.abc
import mcp.types as wire
from mcp import ClientSession, McpError
from mcp.shared.message import SessionMessage

from callboard.actors.agent.faults import NotBegun
from callboard.actors.agent.result import text_of
from callboard.mailbox.errors import CallboardError
from callboard.persistence.port import Port

from .mcp_reading import answer_in
from .mcp_schema import plain_text

log = logging.getLogger(__name__)

MAX_PAGES = 100
"""Of a server's list of tools."""
MAX_TOOLS = 1_000
LOST = "the MCP server was gone before it answered"
SESSION_TERMINATED = 32600
"""What the SDK answers itself with when the server does not know the session any more."""
MAX_SAID_CHARS = 500
"""Of what a server says went wrong with the connection."""
UNREADABLE = -32799
"""Code of the error that stands for an answer which is none."""
CHATTER = frozenset({"notifications/progress", "notifications/message"})
LEAVE_SECONDS = 8.0
"""How long it may take to leave a server; the SDK itself gives a process 4 s to end."""
PING_SECONDS = 5.0
"""How long a server may take to say that it is there, after a call that got no answer."""

Transport = Callable[[], AbstractAsyncContextManager[tuple[Any, ...]]]
"""Opens the two streams of a connection."""


class ServerUnreachable(CallboardError):
    """The MCP server cannot be started, reached, or understood."""


class ServerLost(TimeoutError):
    """The server was gone before it answered: nobody knows what it did."""


class ServerSaidError(ValueError):
    """The server answered with an error; another attempt would get the same."""


class Link:
    """One open session, and the tasks that wait for its answers."""

    def __init__(
        self,
        session: ClientSession,
        tools: Mapping[str, wire.Tool],
        lost: anyio.Event,
        group: anyio.abc.TaskGroup,
    ) -> None:
        self.session = session
        self.tools = tools
        self.lost = lost
        """Set when it is of no more use."""
        self.group = group
        self.doubted = False
        """Whether a call was cut off, so that it has to show that it lives."""

    async def ask(self, request: wire.ClientRequest) -> wire.Result:
        """What the server answers.

        Raises:
            ServerLost, ServerSaidError.
        """
        asked = _Asked()
        # In a task of its own: a request that is cancelled leaves its streams open in the SDK.
        self.group.start_soon(asked.send, self, request)
        await asked.done.wait()
        if asked.answer is None:
            raise asked.error or ServerLost(LOST)
        return asked.answer


class _Asked:
    """A request under way. The SDK's own `call_tool` is not used: it would raise over results that happened."""

    def __init__(self) -> None:
        self.done = anyio.Event()
        self.answer: wire.Result | None = None
        self.error: Exception | None = None

    async def send(self, link: Link, request: wire.ClientRequest) -> None:
        """Ask, and keep what comes of it."""
        try:
            self.answer = await link.session.send_request(request, wire.Result)
        except McpError as error:
            # Not by CONNECTION_CLOSED: servers use that code (-32000) for errors of their own. When the connection has
            # closed, `_Watched` has seen that first.
            if error.error.code == SESSION_TERMINATED or link.lost.is_set():
                link.lost.set()
                self.error = ServerLost(f"{LOST} ({_plain(error)})")
            elif error.error.code == UNREADABLE:
                self.error = ServerLost(f"the MCP server answered, and nobody knows what: {_plain(error)}")
            else:
                self.error = ServerSaidError(_plain(error))
        except Exception as error:  # noqa: BLE001 - closed streams, answers that are none; what it did is unknown
            link.lost.set()
            self.error = ServerLost(f"{LOST} ({_said(error)})")
        finally:
            self.done.set()


class Connection:
    """A server's session, whenever there is one."""

    def __init__(self, transport: Transport, port: Port, connect_seconds: float) -> None:
        self._transport = transport
        self._port = port
        self._connect_seconds = connect_seconds
        self._link: Link | None = None
        self._wanted = anyio.Event()
        self._changed = anyio.Event()
        self._failures = 0
        self._problem = ""
        self._closing = False

    async def keep(self) -> None:
        """Open a session whenever one is wanted and there is none; until `close`."""
        try:
            while True:
                await self._wanted.wait()
                if self._closing:
                    return
                await self._once()
        finally:
            self._closing = True
            self._notify()

    def close(self) -> None:
        """Let `keep` end, and the server with it. Not by a cancellation: the SDK would leave things open."""
        self._closing = True
        self._wanted.set()
        if self._link is not None:
            self._link.lost.set()

    async def _once(self) -> None:
        """One session, from its opening to its end; its errors are for those who wait for it."""
        opened = False
        try:
            async with anyio.create_task_group() as group:
                async with AsyncExitStack() as stack:
                    try:
                        link = await self._open(stack)
                        opened = True
                        self._link = link
                        if not self._closing:
                            self._wanted = anyio.Event()
                            self._notify()
                            await link.lost.wait()
                        self._link = None
                    except Exception as error:
                        self._problem = _said(error)  # to leave may take too long, and then it is gone
                        raise
                    finally:
                        group.start_soon(self._cut_off, group.cancel_scope)
                group.cancel_scope.cancel()
        except Exception as error:  # noqa: BLE001 - of a transport, in a group or not; whoever waits is told
            self._problem = _said(error)
            log.info("connection to an MCP server ended: %s", self._problem)
        finally:
            if self._link is not None:
                self._link.lost.set()
            self._link = None
            if not opened:
                self._failures += 1
                if not self._closing:
                    self._wanted = anyio.Event()
            self._notify()

    async def _cut_off(self, scope: anyio.CancelScope) -> None:
        """A server may take its time to hear that we leave (an HTTP one does, for ever): not ours."""
        await self._port.sleep(LEAVE_SECONDS)
        log.warning("an MCP server was not left within %g s; it is cut off", LEAVE_SECONDS)
        scope.cancel()

    async def _open(self, stack: AsyncExitStack) -> Link:
        read, write, *_ = await stack.enter_async_context(self._transport())
        lost = anyio.Event()
        watched = _Watched(read, lost)
        session = await stack.enter_async_context(ClientSession(await stack.enter_async_context(watched), write))
        group = await stack.enter_async_context(anyio.create_task_group())
        stack.callback(watched.end)  # left first: the session then answers all who wait, and the group can end
        try:
            # Only around what waits for the server: a deadline around the rest would be left before what is in it.
            with self._port.deadline(self._connect_seconds):
                await session.initialize()
                return Link(session, await _listed(session), lost, group)
        except TimeoutError as error:
            raise ServerUnreachable(f"no answer within {self._connect_seconds:g} s") from error

    def _notify(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()

    async def link(self) -> Link:
        """The session, opened if need be.

        Raises:
            NotBegun: there is none to be had.
        """
        if self._link is not None and self._link.doubted and not self._link.lost.is_set():
            await self._probe(self._link)
        failures = self._failures
        while not self._closing:
            if self._link is None:
                self._wanted.set()
            elif not self._link.lost.is_set():
                return self._link
            await self._changed.wait()
            if self._failures > failures:
                raise NotBegun(f"the MCP server cannot be reached: {self._problem}")
        raise NotBegun("the MCP server is not connected any more: `mcp_tools` was left")

    async def _probe(self, link: Link) -> None:
        """After a call that got no answer: does anybody listen?"""
        try:
            with self._port.deadline(PING_SECONDS):
                await link.ask(wire.ClientRequest(wire.PingRequest()))
            link.doubted = False
        except Exception as error:  # noqa: BLE001 - whatever it is, the session is of no more use
            log.info("an MCP server does not answer: %s", _said(error))
            link.lost.set()

    async def call(self, name: str, arguments: Mapping[str, Any], meta: Mapping[str, Any]) -> Mapping[str, Any]:
        """One tool call: the server's result, whatever it is.

        Raises:
            NotBegun: it was not sent. ServerLost: no answer came. ServerSaidError: the protocol's own error.
        """
        link = await self.link()
        params = wire.CallToolRequestParams(name=name, arguments=dict(arguments), _meta=wire.RequestParams.Meta(**meta))
        request = wire.ClientRequest(wire.CallToolRequest(params=params))
        try:
            answer = await link.ask(request)
        except anyio.get_cancelled_exc_class():
            link.doubted = True
            raise
        return answer.model_dump(by_alias=True, mode="python")


class _Watched:
    """A stream of what the server says that tells when it ends, which the session keeps to itself."""

    def __init__(self, read: Any, lost: anyio.Event) -> None:
        self._read, self._lost = read, lost
        self._group = anyio.create_task_group()

    async def __aenter__(self) -> Any:
        await self._group.__aenter__()
        self._send, self._receive = anyio.create_memory_object_stream[Any](0)
        self._group.start_soon(self._pump)
        return self._receive

    def end(self) -> None:
        """Nothing more comes."""
        self._lost.set()
        self._send.close()

    async def _pump(self) -> None:
        try:
            async with self._send:
                async for item in self._read:
                    if not _is_chatter(item):
                        await self._send.send(_read_again(item) if isinstance(item, Exception) else item)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass  # the session or the transport has gone, which is what `_lost` tells whoever waits for an answer
        finally:
            self._lost.set()

    async def __aexit__(self, *error: Any) -> bool | None:
        self._group.cancel_scope.cancel()
        try:
            return await self._group.__aexit__(*error)
        finally:
            self._send.close()
            self._receive.close()


def _is_chatter(item: object) -> bool:
    """Whether it tells of progress or is a line of a log, for which there is no reader here; a flood costs half so."""
    said = item.message.root if isinstance(item, SessionMessage) else None
    return isinstance(said, wire.JSONRPCNotification) and said.method in CHATTER


def _read_again(error: Exception) -> SessionMessage | Exception:
    """The answer in what the SDK could not read; `error` itself where that is none."""
    found = answer_in(error)
    if found is None:
        return error
    number, result = found
    if result is not None:
        return SessionMessage(wire.JSONRPCMessage(wire.JSONRPCResponse(jsonrpc="2.0", id=number, result=result)))
    problem = wire.ErrorData(code=UNREADABLE, message="what it answered is neither a result nor an error")
    return SessionMessage(wire.JSONRPCMessage(wire.JSONRPCError(jsonrpc="2.0", id=number, error=problem)))


async def _listed(session: ClientSession) -> dict[str, wire.Tool]:
    """The server's tools by its own names."""
    found: dict[str, wire.Tool] = {}
    cursor: str | None = None
    for _ in range(MAX_PAGES):
        page = await session.list_tools(params=wire.PaginatedRequestParams(cursor=cursor))
        for tool in page.tools:
            found.setdefault(tool.name, tool)
        cursor = page.nextCursor
        if not cursor or len(found) > MAX_TOOLS:
            break
    return dict(list(found.items())[:MAX_TOOLS])


def _said(error: BaseException) -> str:
    """The first error that says something, out of a group of them."""
    while isinstance(error, BaseExceptionGroup) and error.exceptions:
        error = error.exceptions[0]
    return f"{type(error).__name__}: {_plain(error)}"


def _plain(error: BaseException) -> str:
    """What an error says; it may be the server's own words."""
    return plain_text(text_of(error), MAX_SAID_CHARS)
