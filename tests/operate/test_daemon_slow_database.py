"""A database that is slow is not one that is away."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from callboard.persistence.port import RealPort
from callboard.service import database_watch as module
from callboard.service.database_watch import DatabaseWatch

pytestmark = pytest.mark.anyio


class SlowStore:
    """Answers, and takes longer than one waits for a session."""

    def __init__(self, enough: anyio.Event) -> None:
        self.asked = 0
        self.enough = enough

    async def now(self) -> float:
        with anyio.CancelScope(shield=True):  # as a statement of the real one, which is never cut short
            await anyio.sleep(0.2)
        self.asked += 1
        if self.asked == 4:
            self.enough.set()
        return 0.0

    async def actor(self, _address: str) -> None:
        await anyio.lowlevel.checkpoint()  # for a session


async def test_a_slow_database_answers_and_is_not_connected_to_over_and_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BORROW_SECONDS", 0.05)
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(module, "SILENT_SECONDS", 600.0)  # how long a question may take is not asked here
    opened, enough = 0, anyio.Event()

    @asynccontextmanager
    async def open_store_at(_dsn: str) -> AsyncIterator[Any]:
        nonlocal opened
        opened += 1
        yield SlowStore(enough)

    monkeypatch.setattr(module, "open_store_at", open_store_at)
    watch = DatabaseWatch(lambda: "dsn", RealPort(), opened=lambda store: None)
    watch.root = "/desk"
    async with anyio.create_task_group() as group:
        group.start_soon(watch.run)
        with anyio.fail_after(60):
            await enough.wait()
        assert watch.problem() == ""
        assert opened == 1
        group.cancel_scope.cancel()
