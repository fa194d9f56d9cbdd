"""A small MCP server over stdio: what is in stock, and how to reserve it. `mcp_desk.py` uses it.

It stands for any server that somebody else wrote (`uvx some-server`, `npx some-server`): it knows nothing of Callboard.
"""

from mcp.server.fastmcp import FastMCP
from mcp.types import ToolAnnotations

server = FastMCP("stock", log_level="ERROR")
STOCK = {"lamp": 3, "desk": 0}


@server.tool(annotations=ToolAnnotations(readOnlyHint=True))
def count(item: str) -> dict[str, int]:
    """How many of an item there are."""
    return {"in_stock": STOCK.get(item, 0)}


@server.tool()
def reserve(item: str, number: int) -> dict[str, str]:
    """Reserve a number of an item."""
    return {"reserved": f"{number} {item}"}


if __name__ == "__main__":
    server.run("stdio")
