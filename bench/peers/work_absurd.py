"""Absurd: a task of ten steps, each a model step and a tool step; workers of one process, each on a connection.

Its table of measured settings favours several workers: eight at many runs at once, one for a single run.
"""

import asyncio
import importlib
from contextlib import suppress
from typing import Any

PACKAGES = ("absurd-sdk",)
STEPS = 10
WORKERS = 8
QUEUE = "bench"


async def _model() -> dict[str, Any]:
    return {"role": "assistant", "content": "x" * 200, "tool": "noop", "args": {"q": "abc"}}


async def _tool() -> dict[str, Any]:
    return {"ok": True, "result": "y" * 50}


class Work:
    """Runs of an agent."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._left = 0
        self._all = asyncio.Event()
        self._outside = self._app()

    def _app(self) -> Any:
        app = importlib.import_module("absurd_sdk").AsyncAbsurd(self._dsn, queue_name=QUEUE)

        async def run(params: Any, ctx: Any) -> dict[str, bool]:
            for _ in range(STEPS):
                await ctx.step("model", _model)
                await ctx.step("tool", _tool)
            self._left -= 1
            if not self._left:
                self._all.set()
            return {"ok": True}

        app.register_task(name="run")(run)
        return app

    async def open(self) -> None:
        """Make its schema and queue."""
        connection = await importlib.import_module("psycopg").AsyncConnection.connect(self._dsn, autocommit=True)
        await connection.execute(importlib.import_module("absurdctl").BUNDLED_SCHEMA_SQL)
        await connection.close()
        await self._outside.create_queue()

    async def fill(self, count: int) -> None:
        """Put runs into its queue; what that takes is not counted."""
        for number in range(count):
            await self._outside.spawn("run", {"k": number})

    async def go(self, count: int, at_once: int) -> None:
        """All `count` runs of the queue, `at_once` of them at a time."""
        self._left, self._all = count, asyncio.Event()
        workers = WORKERS if at_once > WORKERS else 1
        apps = [self._app() for _ in range(workers)]
        tasks = [asyncio.create_task(app.start_worker(concurrency=-(-at_once // workers))) for app in apps]
        await self._all.wait()
        for app in apps:
            app.stop_worker()
        done, late = await asyncio.wait(tasks, timeout=2)
        for task in late:
            task.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.gather(*done, *late)
        for app in apps:
            await app.close()


async def opened(dsn: str, options: list[str]) -> Work:
    """Ready to go."""
    work = Work(dsn)
    await work.open()
    return work
