"""The pages of the daemon's health server, as documents."""

from collections.abc import Awaitable, Callable

import msgspec

from .health_server import EXPOSITION, Page, Pages, json_page
from .readiness import Readiness, is_well


def health_pages(readiness: Readiness, exposition: Callable[[], Awaitable[bytes]]) -> Pages:
    """By path: /livez, /readyz, /startupz and /metrics."""

    async def livez() -> Page:
        return json_page({"schema": "callboard.livez/1", "ok": True}, ok=True)

    async def readyz() -> Page:
        checks = readiness.checks()
        ok = is_well(checks)
        return json_page({"schema": "callboard.readyz/1", "ok": ok, "checks": msgspec.to_builtins(checks)}, ok=ok)

    async def startupz() -> Page:
        ok = readiness.was_ready
        return json_page({"schema": "callboard.startupz/1", "ok": ok}, ok=ok)

    async def metrics() -> Page:
        return Page(await exposition(), type=EXPOSITION)

    return {"/livez": livez, "/readyz": readyz, "/startupz": startupz, "/metrics": metrics}
