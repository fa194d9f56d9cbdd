"""Callboard on the work of its peers: the runs of the steps bench, and the messages of the messages bench."""

import importlib
from typing import Any

PACKAGES = ("callboard",)


class Steps:
    """Runs of an agent on one node."""

    def __init__(self, dsn: str) -> None:
        steps = importlib.import_module("callboard.bench.steps")
        self._many = steps.many
        self._node = steps.runtime(dsn, steps.Model(steps.Sizes().steps))
        self._runtime: Any = None

    async def go(self, count: int, at_once: int) -> None:
        """`count` runs, `at_once` of them at a time; the node is started with the first."""
        if self._runtime is None:
            self._runtime = await self._node.__aenter__()
        await self._many(self._runtime, count, at_once)


class Messages:
    """Messages of one node: `drain` works off what lies ready, `ring` passes tokens on."""

    def __init__(self, dsn: str, way: str) -> None:
        self._bench = importlib.import_module("callboard.bench.messages")
        self._dsn = dsn
        self._way = way
        self._hops = 0

    async def fill(self, count: int) -> None:
        """Lay messages down: all of them, or the tokens that make so many hops."""
        self._hops = max(0, count // self._bench.PEER_ACTORS - 1) if self._way == "ring" else 0
        await self._bench.lay_down(self._dsn, self._bench.PEER_ACTORS, count // (self._hops + 1), self._hops)

    async def go(self, count: int, at_once: int) -> None:
        """A node handles them all."""
        await self._bench.handle(self._dsn, self._bench.PEER_ACTORS, count)


async def opened(dsn: str, options: list[str]) -> Steps | Messages:
    """Ready to go."""
    await importlib.import_module("callboard.persistence.postgres").create_schema(dsn)
    return Steps(dsn) if options[0] == "steps" else Messages(dsn, options[0])
