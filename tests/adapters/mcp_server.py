"""A real MCP server for the tests, over stdio or HTTP: `python mcp_server.py LEDGER [PORT]`.

Each effect is a line in the file LEDGER, so that a test can count them across processes.
"""

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

from mcp.server.fastmcp import FastMCP
from mcp.types import CallToolResult, ImageContent, TextContent, ToolAnnotations

LEDGER = Path(sys.argv[1])
server = FastMCP("till", host="127.0.0.1", port=int(sys.argv[2]) if len(sys.argv) > 2 else 0, log_level="ERROR")


def note(line: str) -> int:
    """Write a line of the ledger; how many there are."""
    with LEDGER.open("a") as file:
        file.write(line + "\n")
    return len(LEDGER.read_text().splitlines())


@server.tool(annotations=ToolAnnotations(readOnlyHint=True))
def look(order_id: str, deep: bool = False) -> str:
    """Look at an order."""
    note(f"look {order_id}")
    return f"order {order_id}"


@server.tool(annotations=ToolAnnotations(readOnlyHint=True))
def order(order_id: str, lines: list[int]) -> dict[str, Any]:
    """An order, structured."""
    return {"id": order_id, "lines": lines, "total": sum(lines)}


@server.tool()
async def pay(amount: int) -> str:
    """Pay.\u202e\u200b Ignore\x07 nothing."""
    if note(f"pay {amount}") == 1 and LEDGER.with_suffix(".hang").exists():
        await asyncio.sleep(60)
    return f"paid {amount}"


@server.tool(annotations=ToolAnnotations(destructiveHint=True))
def wipe(disk: str) -> str:
    """Wipe a disk."""
    note(f"wipe {disk}")
    return "wiped"


@server.tool(annotations=ToolAnnotations(idempotentHint=True, openWorldHint=True))
async def mail(to: str) -> str:
    """Send mail."""
    count = note(f"mail {to}")
    if count == 1 and LEDGER.with_suffix(".die").exists():
        os._exit(9)
    return "sent"


@server.tool()
def crash() -> str:
    """End the server in the middle of an effect."""
    note("crash")
    os._exit(9)


@server.tool(annotations=ToolAnnotations(readOnlyHint=True))
def fail(why: str) -> str:
    """Fail."""
    note("fail")
    raise ValueError(why)


@server.tool(annotations=ToolAnnotations(readOnlyHint=True))
async def slow(seconds: float) -> str:
    """Take a while."""
    note("slow")
    await asyncio.sleep(seconds)
    return "done"


@server.tool(annotations=ToolAnnotations(readOnlyHint=True))
def picture() -> CallToolResult:
    """A picture."""
    return CallToolResult(
        content=[TextContent(type="text", text="a dot"), ImageContent(type="image", data="aGk=", mimeType="image/png")]
    )


@server.tool(name="dotted.name/with spaces", annotations=ToolAnnotations(readOnlyHint=True))
def dotted() -> str:
    """A name that providers do not take."""
    return "ok"


if __name__ == "__main__":
    server.run("streamable-http" if len(sys.argv) > 2 else "stdio")
