"""The port of one simulated process: the loop's virtual time, a clock that may be wrong, and the seed's chance."""

import asyncio
import random
from collections.abc import Callable
from typing import Any, TypeVar

import anyio
import anyio.lowlevel

from callboard.persistence.port import RealPort, Signal

from .loop import ring

T = TypeVar("T")

START = 1_800_000_000.0


class _Bell(anyio.Event):
    """An event for one waiter."""

    def __new__(cls, *_: object) -> "_Bell":
        return object.__new__(cls)

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.rung = loop.create_future()

    def set(self) -> None:
        ring(self.rung)


class SimulatedPort(RealPort):
    """`wall_offset`: by how much this machine's clock is ahead of the store's."""

    def __init__(self, loop: asyncio.AbstractEventLoop, chance: random.Random, wall_offset: float = 0.0) -> None:
        self.loop = loop
        self.chance = chance
        self.wall_offset = wall_offset

    def wall(self) -> float:
        return START + self.wall_offset + self.loop.time()

    def monotonic(self) -> float:
        return self.loop.time()

    def random(self) -> float:
        return self.chance.random()

    def token(self) -> str:
        return f"{self.chance.getrandbits(128):032x}"

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def wait(self, signal: Signal, seconds: float | None) -> bool:
        # What `RealPort.wait` does, without its cancel scope: half of a run's callbacks would come from those.
        if signal._raised:
            signal._raised = False
            return True
        bell = signal._event = _Bell(self.loop)
        timer = None if seconds is None else self.loop.call_later(max(0.0, seconds), ring, bell.rung)
        try:
            await bell.rung
        finally:
            if timer is not None:
                timer.cancel()
        raised, signal._raised, signal._event = signal._raised, False, None
        return raised

    async def in_thread(self, function: Callable[..., T], *args: Any) -> T:
        """Right here: a thread would take its order from the machine."""
        await anyio.lowlevel.checkpoint()
        return function(*args)

    def start_thread(self, function: Callable[[], None], name: str) -> Callable[[float], None]:
        raise AssertionError(f"thread {name!r} cannot be simulated")
