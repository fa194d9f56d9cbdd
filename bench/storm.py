"""What is done to the daemons and their database, and when: drawn from a seed, so that a storm can be repeated.

Pure: numbers in, a schedule out. `soak.py` carries it out; where a victim is not there, the next one is meant.
"""

import random
from typing import Literal

import msgspec

Kind = Literal["soak", "chaos"]
Deed = Literal[
    "sigterm daemon", "sigterm node", "kill daemon", "kill node", "freeze node", "cut connections", "restart database"
]

PER_MINUTE: dict[Kind, dict[Deed, float]] = {
    "soak": {"sigterm daemon": 6, "sigterm node": 4, "kill daemon": 2, "kill node": 8, "restart database": 1},
    "chaos": {"kill node": 6, "freeze node": 8, "cut connections": 5, "restart database": 1},
}
"""The soak: 50 SIGTERM, 50 kill -9 and 5 restarts of the database in five minutes. Chaos is what is less orderly."""
MIN_DOWN_SECONDS = 5.0
MAX_DOWN_SECONDS = 8.0
MIN_FROZEN_SECONDS = 2.0
MAX_FROZEN_SECONDS = 4.0
"""Longer than a lease of 1.5 s: who wakes finds its shards with others."""


class Blow(msgspec.Struct, frozen=True):
    """One thing that is done."""

    at_seconds: float
    """After the beginning of the storm."""
    deed: Deed
    daemon: int
    """Which one, from 0."""
    place: int
    """Which of its nodes, from 1."""
    seconds: float = 0.0
    """How long the database stays away, or a node is frozen."""
    crash: bool = False
    """The database is not shut down but crashes: it recovers from its log when it is started."""

    def __str__(self) -> str:
        if self.deed == "restart database":
            how = "crash" if self.crash else "shutdown"
            return f"{self.at_seconds:7.2f} s  {self.deed} ({how}, away for {self.seconds:.1f} s)"
        if self.deed == "cut connections":
            return f"{self.at_seconds:7.2f} s  {self.deed}"
        place = f"/{self.place}" if self.deed.endswith("node") else ""
        tail = f" (for {self.seconds:.1f} s)" if self.deed == "freeze node" else ""
        return f"{self.at_seconds:7.2f} s  {self.deed} {self.daemon + 1}{place}{tail}"


def schedule(seed: int, minutes: float, *, daemons: int, nodes: int, kind: Kind = "soak") -> list[Blow]:
    """The blows of a storm, in order of time; one of each kind at least, and restarts of the database evenly spread."""
    chance = random.Random(seed)
    seconds = 60.0 * minutes
    few: list[Deed] = []
    rates = PER_MINUTE[kind]
    for deed, rate in rates.items():
        if deed != "restart database":
            few += [deed] * max(1, round(rate * minutes))
    chance.shuffle(few)
    restarts = max(1, round(rates["restart database"] * minutes))
    for number in range(restarts):
        few.insert(round((number + 0.5) * len(few) / restarts), "restart database")
    step = seconds / len(few)
    return [_blow(chance, deed, (number + chance.random()) * step, daemons, nodes) for number, deed in enumerate(few)]


def _blow(chance: random.Random, deed: Deed, at: float, daemons: int, nodes: int) -> Blow:
    which, place = chance.randrange(daemons), chance.randint(1, nodes)
    away = round(chance.uniform(MIN_DOWN_SECONDS, MAX_DOWN_SECONDS), 2)
    frozen = round(chance.uniform(MIN_FROZEN_SECONDS, MAX_FROZEN_SECONDS), 2)
    crash = chance.random() < 0.5
    match deed:
        case "restart database":
            return Blow(round(at, 3), deed, which, place, away, crash)
        case "freeze node":
            return Blow(round(at, 3), deed, which, place, frozen)
    return Blow(round(at, 3), deed, which, place)
