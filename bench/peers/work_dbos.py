"""DBOS: a workflow of ten steps, each a model step and a tool step. Option `pinned`: all of it on one core.

Its threads hinder each other on several cores; pinned to one it does twice as much, so both are measured.
"""

import asyncio
import importlib
import os
from collections.abc import Callable
from typing import Any

PACKAGES = ("dbos",)
STEPS = 10


async def _model(step: int) -> dict[str, Any]:
    return {"role": "assistant", "content": "x" * 200, "tool": "noop", "args": {"q": "abc"}}


async def _tool(arguments: dict[str, Any]) -> dict[str, Any]:
    return {"ok": True, "result": "y" * 50}


class Work:
    """Runs of an agent."""

    def __init__(self, dsn: str) -> None:
        dbos = importlib.import_module("dbos").DBOS
        dbos(config={"name": "bench", "system_database_url": dsn, "log_level": "ERROR"})
        model: Callable[..., Any] = dbos.step()(_model)
        tool: Callable[..., Any] = dbos.step()(_tool)

        async def run(number: int) -> int:
            for step in range(STEPS):
                await model(step)
                await tool({"i": step})
            return number

        self._run: Callable[..., Any] = dbos.workflow()(run)
        dbos.launch()

    async def go(self, count: int, at_once: int) -> None:
        """`count` runs, `at_once` of them at a time."""
        numbers = iter(range(count))

        async def some() -> None:
            for number in numbers:
                await self._run(number)

        await asyncio.gather(*(some() for _ in range(at_once)))


async def opened(dsn: str, options: list[str]) -> Work:
    """Ready to go."""
    if "pinned" in options:
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    return Work(dsn)
