"""How an MCP server is reached over HTTP."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

pytest.importorskip("mcp")

from callboard.actors.adapters import mcp as adapter

pytestmark = pytest.mark.anyio


async def test_no_redirect_is_followed_for_our_headers_would_go_along(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[httpx.AsyncClient] = []

    @asynccontextmanager
    async def opened(url: str, *, http_client: httpx.AsyncClient) -> AsyncIterator[tuple[Any, ...]]:
        seen.append(http_client)
        yield ()

    monkeypatch.setattr(adapter, "streamable_http_client", opened)
    async with adapter._http("http://server.example/mcp", {"X-Api-Key": "secret"}):
        [client] = seen
    assert client.headers["X-Api-Key"] == "secret"
    assert not client.follow_redirects
