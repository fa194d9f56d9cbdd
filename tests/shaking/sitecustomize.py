"""Random delays, in the tests and in every process that they start: `make test SHAKE=1 ARGS="tests/agent"`.

A quiet machine plays the same interleaving again and again; here round trips to the database are late, event loops
stall, and processes start slowly, so that what happens at once happens in another order each time. A test that fails
under it, and whose subject is no limit in time, trusts the machine's pace.

Python imports this module by its name as it starts, where its folder is in `PYTHONPATH`; the program is not touched.
"""

import os
import random
import sys
import time
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

START = (0.1, 1.0)
"""How often a process starts late, and by how many seconds at most."""
STALL = (0.0005, 0.25)
"""The same for a turn of an event loop."""
TRIP = (0.15, 0.06)
"""The same for a round trip; most are a few milliseconds late."""
LONG_TRIP = (0.003, 0.4)
"""And some are late by so much."""

_chance = random.Random(os.urandom(8))


def _late_trips(psycopg: ModuleType) -> None:
    import anyio

    wait = psycopg.AsyncConnection.wait

    async def late(self: Any, *given: Any, **named: Any) -> Any:
        if _chance.random() < LONG_TRIP[0]:
            await anyio.sleep(LONG_TRIP[1])
        elif _chance.random() < TRIP[0]:
            await anyio.sleep(min(TRIP[1], _chance.expovariate(10 / TRIP[1])))
        return await wait(self, *given, **named)

    psycopg.AsyncConnection.wait = late


def _stalling_loops(asyncio: ModuleType) -> None:
    once = asyncio.BaseEventLoop._run_once

    def stalling(self: Any) -> None:
        if _chance.random() < STALL[0]:
            time.sleep(_chance.random() * STALL[1])
        once(self)

    asyncio.BaseEventLoop._run_once = stalling


class _Shaken(Loader):
    """Loads a module as its own loader does, and shakes it."""

    def __init__(self, loader: Loader, shake: Callable[[ModuleType], None]) -> None:
        self._loader, self._shake = loader, shake

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        self._shake(module)


_SHAKEN = {"psycopg.connection_async": _late_trips, "asyncio.base_events": _stalling_loops}


class _Finder(MetaPathFinder):
    """Finds what is to be shaken when it is imported: nothing is loaded that a program would not load."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in _SHAKEN:
            return None
        others = (one.find_spec(fullname, path, target) for one in sys.meta_path if one is not self)
        spec = next((one for one in others if one is not None), None)
        if spec is not None and spec.loader is not None:
            spec.loader = _Shaken(spec.loader, _SHAKEN[fullname])
        return spec


if os.environ.get("SHAKE"):
    if _chance.random() < START[0]:
        time.sleep(_chance.random() * START[1])
    sys.meta_path.insert(0, _Finder())
