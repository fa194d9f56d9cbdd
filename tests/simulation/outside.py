"""The world outside: what tools have really done. No crash undoes it, and no node can look at all of it.

A module-level object, because the supervision tree is made once and every run uses it: one run at a time, `begin`
clears it.
"""

import asyncio
import random
from typing import TYPE_CHECKING

import anyio

from .loop import OUTSIDE, PROCESS

if TYPE_CHECKING:
    from .store import SimulatedStore


class Outside:
    """The ledger of effects, by idempotency key."""

    store: "SimulatedStore"

    def begin(self, store: "SimulatedStore", chance: random.Random) -> None:
        """Another run, of which nothing has happened yet."""
        self.store = store
        self.chance = chance
        self.wrong: list[str] = []
        self.attempts: dict[str, int] = {}
        self.effects: dict[str, int] = {}
        self.begun: set[tuple[int, str]] = set()
        """Which node has begun which call."""
        self.stumbled: set[object] = set()

    def stumble(self, what: object) -> bool:
        """True once for each thing."""
        first = what not in self.stumbled
        self.stumbled.add(what)
        return first

    def attempt(self, key: str, *, again: bool = False) -> None:
        """A tool begins. Whatever happens around it, a node begins a call that did not fail no second time."""
        session = PROCESS.get(OUTSIDE).session
        if session is not None and not again:
            begun = (session.number, key)
            if begun in self.begun:
                self.wrong.append(f"G7: node {session.number} began call {key} twice")
            self.begun.add(begun)
        self.attempts[key] = self.attempts.get(key, 0) + 1

    async def effect(self, key: str) -> None:
        """It happens now: with the process dead or frozen in the same moment, perhaps."""
        process = PROCESS.get(OUTSIDE)
        if self.chance.random() < self.store.profile.freeze_in_tool:
            self.store.freeze(process, f"before effect {key}")
            await asyncio.sleep(0)
        if process.dead:
            await anyio.sleep_forever()
        self.effects[key] = self.effects.get(key, 0) + 1
        self.store.remark(f"{process}: effect {key}")
        if self.chance.random() < self.store.profile.crash_in_tool:
            self.store.kill(process, f"after effect {key}")
            await anyio.sleep_forever()
        # A process may also be slow to tell of it.
        await asyncio.sleep(self.chance.random() * 0.02)


WORLD = Outside()
