"""MCP servers that say what they should not, or nothing: nobody waits longer than need be, nor stands still."""

import asyncio
import gc
import json
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

pytest.importorskip("mcp")

import mcp.types as wire

from callboard.actors.adapters import mcp_connection
from callboard.actors.adapters.mcp import McpOptions, McpTool, mcp_tools
from callboard.actors.adapters.mcp_connection import ServerLost, ServerSaidError
from callboard.actors.adapters.mcp_schema import Check, bounded
from callboard.actors.adapters.mcp_tool import made_of
from callboard.actors.agent.tool import Tool

pytestmark = pytest.mark.anyio

SERVER = str(Path(__file__).with_name("mcp_evil.py"))
BEGIN = '{"jsonrpc":"2.0","id":{id},'


async def at_once(function: Callable[[], Any]) -> Any:
    return function()


async def act(made: Tool, seconds: float = 60) -> dict[str, Any]:
    with anyio.fail_after(seconds):
        return await made.call(made.validate({"x": 1}), "key", at_once)


async def answered(answer: str) -> dict[str, Any]:
    async with mcp_tools(command=[sys.executable, SERVER, answer], connect_seconds=120) as [made]:
        return await act(made)


@pytest.mark.parametrize(
    ("answer", "result"),
    [
        ('"result":{"content":[{"type":"text","text":"a\\ud800\\u0000"}]}}', {"text": "a\ufffd\x00"}),
        ('"result":{"structuredContent":{"a":NaN,"b":-1e999}}}', {"a": "nan", "b": "-inf"}),
        ('"result":{"structuredContent":{"a":%s}}}' % ("9" * 5_000), {"a": "9" * 5_000}),
    ],
)
async def test_da046_an_answer_that_the_sdk_cannot_read_is_read_all_the_same(answer: str, result: Any) -> None:
    assert await answered(BEGIN + answer) == result


@pytest.mark.parametrize("answer", ['"result":null}', '"result":"text"}', '"error":{"code":"x"}}', '"error":null}'])
async def test_g4_an_answer_that_is_none_leaves_a_doubt_at_once_and_not_after_all_the_time(answer: str) -> None:
    with pytest.raises(ServerLost, match="nobody knows what"):
        await answered(BEGIN + answer)


async def test_what_a_server_calls_an_error_is_plain_and_bounded_and_ends_no_connection() -> None:
    # The SDK's own code for a connection that was closed, which servers use for whatever they like.
    error = json.dumps({"code": -32000, "message": "no\x1b[31m\u202e " + "x" * 5_000})
    command = [sys.executable, SERVER, f'{BEGIN}"error":{error}}}']
    async with mcp_tools(command=command, connect_seconds=120) as [made]:
        assert isinstance(made, McpTool)
        link = await made.connection.link()
        with pytest.raises(ServerSaidError) as caught:
            await act(made)
        assert await made.connection.link() is link
    assert "\x1b" not in str(caught.value) and "\u202e" not in str(caught.value)
    assert len(str(caught.value)) < 600


async def test_a_flood_of_progress_is_no_answer_and_keeps_none_away() -> None:
    assert await answered("flood") == {"text": "ok"}


def test_a_schema_of_many_ways_does_not_hold_the_event_loop_over_a_large_value() -> None:
    ways: dict[str, Any] = {f"a{n}": {"anyOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 10} for n in range(12)}
    defs = {**ways, "a12": {"type": "integer"}}
    check = Check(bounded({"type": "object", "properties": {"x": {"$ref": "#/$defs/a0"}}, "$defs": defs}))
    began = time.process_time()
    assert "too large" in check.problem({"x": [[n] * 5 for n in range(20_000)]})
    assert time.process_time() - began < 30  # each way spells out the whole value: it took minutes


@asynccontextmanager
async def http_server(hang: set[str]) -> AsyncIterator[str]:
    """An MCP server over HTTP that never answers to these methods of HTTP; its address."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
                length = next((int(h.split(":")[1]) for h in head.split("\r\n") if h.startswith("content-length")), 0)
                message = json.loads(await reader.readexactly(length)) if length else {}
                method = head.split()[0].upper()
                if method in hang:
                    await asyncio.Event().wait()
                writer.write(reply(method, message))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            return  # it has left
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"
    finally:
        server.close()


def reply(method: str, message: dict[str, Any]) -> bytes:
    result: dict[str, Any] = {"content": [{"type": "text", "text": "ok"}]}
    match message.get("method"):
        case "initialize":
            version = message["params"]["protocolVersion"]
            info = {"name": "evil", "version": "1"}
            result = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
        case "tools/list":
            result = {"tools": [{"name": "act", "inputSchema": {"type": "object", "properties": {"x": {}}}}]}
    body = json.dumps({"jsonrpc": "2.0", "id": message.get("id"), "result": result}).encode()
    body, status = (body, 200) if "id" in message else (b"", 405 if method == "GET" else 202)
    head = f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nMcp-Session-Id: s1\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
async def test_a_server_that_does_not_let_go_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp_connection, "LEAVE_SECONDS", 0.3)
    async with http_server({"DELETE"}) as url:
        with anyio.fail_after(90):  # it was for ever
            async with mcp_tools(url=url) as [made]:
                assert await act(made) == {"text": "ok"}
    gc.collect()  # the SDK's HTTP transport leaves streams open; what it says of that belongs to this test


def test_of_two_hints_that_contradict_each_other_the_worse_one_counts() -> None:
    offered = wire.Tool(
        name="wipe",
        inputSchema={"type": "object"},
        annotations=wire.ToolAnnotations(readOnlyHint=True, destructiveHint=True),
    )
    connection: Any = None
    made = made_of(
        offered, connection=connection, options=McpOptions(), prefix="", timeout_seconds=None, trust_hints=True
    )
    assert (made.effect, made.requires_approval, made.on_doubt) == ("write", True, "park")
