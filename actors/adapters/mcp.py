"""`[mcp]`: the tools of an MCP server, for agents.

    async with mcp_tools(command=["uvx", "some-server"], prefix="files_") as tools:
        async with Runtime(store, llm, [*tools, issue_refund]) as runtime: ...

The server runs as long as the block does, and is started or connected to again when it went away (at the next call).
Nothing it says is trusted (mcp_tool.py); what it did when it got lost is in doubt as with any other tool.

Invariant: a call is sent at most once per attempt, and an attempt of which nobody knows what became of it is not
repeated unless the server's hint, or its user, says that this is safe.
"""

import logging
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import anyio
from mcp import StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

from callboard.actors.agent.faults import NotBegun
from callboard.actors.agent.tool import Tool
from callboard.mailbox.errors import UsageError
from callboard.persistence.port import Port, RealPort

from .mcp_connection import Connection, ServerUnreachable, Transport
from .mcp_schema import BadSchema
from .mcp_tool import McpOptions, McpTool, made_of

__all__ = ["McpOptions", "McpTool", "ServerUnreachable", "mcp_tools"]

log = logging.getLogger(__name__)

CONNECT_SECONDS = 30.0
CALL_SECONDS = 60.0


@asynccontextmanager
async def mcp_tools(
    *,
    command: Sequence[str] | None = None,
    url: str | None = None,
    prefix: str = "",
    only: Collection[str] | None = None,
    options: Mapping[str, McpOptions] | None = None,
    env: Mapping[str, str] | None = None,
    cwd: str | None = None,
    headers: Mapping[str, str] | None = None,
    timeout_seconds: float | None = CALL_SECONDS,
    connect_seconds: float = CONNECT_SECONDS,
    trust_hints: bool = True,
    port: Port | None = None,
) -> AsyncIterator[list[Tool]]:
    """The tools of the server that `command` starts (stdio) or that listens at `url` (streamable HTTP).

    Args:
        prefix: put before each name; other characters than letters, digits, `_` and `-` become `_`.
        only: names of tools, as the server has them, that are wanted; None: all.
        options: what you say of a tool, by the server's name for it: `requires_approval`, `effect`, `retry`, …
        env: of the process, beside a few harmless variables; nothing else of ours is handed on.
        headers: of each request, such as Authorization.
        timeout_seconds: how long one attempt at a call may take; None leaves that to the desk.
        trust_hints: whether readOnlyHint and the others count; without, every tool writes and parks in doubt.

    Raises:
        UsageError: neither or both of `command` and `url`; a name in `only` or `options` that the server does not have.
        ServerUnreachable: no session within `connect_seconds`; it names the server, without what may be secret.
        BadTool: two tools of one name, or options that cannot work.
    """
    transport = _transport(command, url, env, cwd, headers)
    connection = Connection(transport, port or RealPort(), connect_seconds)
    failure: BaseException | None = None
    async with anyio.create_task_group() as group:
        group.start_soon(connection.keep)
        try:
            try:
                link = await connection.link()
            except NotBegun as error:
                raise ServerUnreachable(f"{error}; {_way_out(command, url)}") from error
            made = partial(
                made_of,
                connection=connection,
                prefix=prefix,
                timeout_seconds=timeout_seconds,
                trust_hints=trust_hints,
            )
            found = _chosen(link.tools, only, options or {}, made)
            yield list(found)
        except Exception as error:  # noqa: BLE001 - raised again below, outside of the group that would wrap it
            failure = error
        finally:
            connection.close()
    if failure is not None:
        raise failure


def _chosen(
    offered: Mapping[str, Any],
    only: Collection[str] | None,
    options: Mapping[str, McpOptions],
    made: Callable[..., McpTool],
) -> list[McpTool]:
    """Our tools for those of the server that are wanted; one that cannot be used is left out, unless it was named."""
    _require_known(offered, only, options)
    found = []
    for name, tool in offered.items():
        if only is None or name in only:
            try:
                found.append(made(tool, options=options.get(name, McpOptions())))
            except BadSchema as error:
                if name in options or only is not None:
                    raise UsageError(f"MCP tool {name!r} cannot be used: {error}") from error
                log.warning("MCP tool %r is left out: %s", name, error)
    _require_distinct(found)
    return found


def _way_out(command: Sequence[str] | None, url: str | None) -> str:
    """What to look at. Neither arguments, nor user and password, nor the query are told: keys are passed so."""
    if command is not None:
        return f"see whether {command[0]!r:.200} starts in a shell, as this user and with these arguments"
    parts = urlsplit(url or "")
    place = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
    return f"see whether it listens at {place!r:.200}, and whether headers= let us in"


def _transport(
    command: Sequence[str] | None,
    url: str | None,
    env: Mapping[str, str] | None,
    cwd: str | None,
    headers: Mapping[str, str] | None,
) -> Transport:
    if (command is None) == (url is None):
        raise UsageError("give mcp_tools either command=[...] of a server to start, or url= of one that runs")
    if command is not None:
        if isinstance(command, str) or not command or not all(isinstance(part, str) for part in command):
            raise UsageError(f"command must be a list of the program and its arguments, not {command!r:.200}")
        program, *arguments = command
        parameters = StdioServerParameters(
            command=program,
            args=arguments,
            env=None if env is None else dict(env),
            cwd=cwd,
            encoding_error_handler="replace",  # one wrong byte must not end the session
        )
        return lambda: stdio_client(parameters)
    assert url is not None
    return lambda: _http(url, headers)


@asynccontextmanager
async def _http(url: str, headers: Mapping[str, str] | None) -> AsyncIterator[tuple[Any, ...]]:
    async with create_mcp_http_client(headers=dict(headers or {})) as client:
        # The SDK's own would follow: with our headers to any host, and to addresses that only we can reach.
        client.follow_redirects = False
        opened: AbstractAsyncContextManager[tuple[Any, ...]] = streamable_http_client(url, http_client=client)
        async with opened as streams:
            yield streams


def _require_known(tools: Mapping[str, Any], only: Collection[str] | None, options: Mapping[str, McpOptions]) -> None:
    unknown = sorted({*(only or ()), *options} - set(tools))
    if unknown:
        raise UsageError(f"the MCP server has no tools {unknown}; it has: {', '.join(sorted(tools)) or 'none'}")


def _require_distinct(tools: Sequence[McpTool]) -> None:
    by_name: dict[str, str] = {}
    for tool in tools:
        other = by_name.setdefault(tool.name, tool.server_name)
        if other != tool.server_name:
            raise UsageError(
                f"the MCP server's tools {other!r} and {tool.server_name!r} would both be called {tool.name!r}; "
                'give one another name: options={"...": {"name": "..."}}'
            )
