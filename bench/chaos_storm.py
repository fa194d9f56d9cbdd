"""What is done in a chaos run, and when: drawn from a seed, so that a storm can be repeated.

Pure: numbers in, a schedule out. Kills are a series of their own, one every so many seconds; the other deeds come one
after the other, beside them. Who is hit is drawn as a number below one and means whoever is there at that moment.
"""

import random
from typing import Literal

import msgspec

Deed = Literal[
    "kill node",
    "freeze node",
    "cut connections",
    "half-open connections",
    "slow network",
    "clock jump",
    "out of memory",
    "restart database",
    "kill -9 database",
    "kill -9 backend",
    "full disk",
]
PER_MINUTE: dict[Deed, float] = {
    "freeze node": 4,
    "cut connections": 4,
    "half-open connections": 3,
    "slow network": 2,
    "clock jump": 3,
    "out of memory": 1,
    "restart database": 0.5,
    "kill -9 database": 0.5,
    "kill -9 backend": 0.5,
    "full disk": 0.5,
}
"""Besides the kills; of each there is one at least. Together they leave most of a minute to the kills alone."""
OUTAGES: frozenset[Deed] = frozenset({"restart database", "kill -9 database", "kill -9 backend", "full disk"})
FROZEN_SECONDS = (2.0, 3.5)
"""Longer than a lease of 1.5 s: who wakes finds its shards with others."""
HALF_OPEN_SECONDS = (1.0, 4.0)
"""Shorter than a lease or longer, and below what a client waits for an answer."""
SLOW_SECONDS = (2.0, 4.0)
DELAY_SECONDS = (0.02, 0.15)
JUMP_SECONDS = (600.0, 6 * 3600.0)
DOWN_SECONDS = (1.0, 3.0)
FULL_SECONDS = (1.0, 2.5)
STARVE_SECONDS = 6.0
CALM_SECONDS = 2.0
"""At the end nothing is done, so that the last deed is over before all is counted."""


class Blow(msgspec.Struct, frozen=True):
    """One thing that is done."""

    at_seconds: float
    """After the beginning of the storm, or later where something else is still being done."""
    deed: Deed
    who: float
    """Below 1: which of those that are there."""
    seconds: float = 0.0
    """How long it lasts."""
    amount: float = 0.0
    """slow network: the delay in seconds; clock jump: by how many seconds."""
    gentle: bool = False
    """half-open connections: they go on afterwards, instead of being reset; slow network: of every node."""


def schedule(
    seed: int, seconds: float, *, kill_every: float, deeds: frozenset[Deed] | None = None, often: float = 1.0
) -> tuple[list[float], list[Blow]]:
    """When a node is killed (none where `kill_every` is 0), and the other blows; both in order of time.

    `deeds`: only these of the others; None for all. `often`: how many times as often as usual.
    """
    chance = random.Random(seed)
    until = max(0.0, seconds - CALM_SECONDS)
    kills = [] if kill_every <= 0 else [round(n * kill_every, 3) for n in range(1, int(until / kill_every) + 1)]
    drawn: list[Deed] = []
    for deed, rate in PER_MINUTE.items():
        if deeds is None or deed in deeds:
            drawn += [deed] * max(1, round(often * rate * seconds / 60.0))
    chance.shuffle(drawn)
    step = until / max(1, len(drawn))
    return kills, [_blow(chance, deed, (n + 0.5 * chance.random()) * step) for n, deed in enumerate(drawn)]


def _blow(chance: random.Random, deed: Deed, at: float) -> Blow:
    def between(limits: tuple[float, float]) -> float:
        return round(chance.uniform(*limits), 3)

    lasts: dict[Deed, tuple[float, float]] = {
        "freeze node": FROZEN_SECONDS,
        "half-open connections": HALF_OPEN_SECONDS,
        "slow network": SLOW_SECONDS,
        "restart database": DOWN_SECONDS,
        "kill -9 database": DOWN_SECONDS,
        "full disk": FULL_SECONDS,
        "out of memory": (STARVE_SECONDS, STARVE_SECONDS),
    }
    amount = 0.0
    if deed == "slow network":
        amount = between(DELAY_SECONDS)
    elif deed == "clock jump":
        amount = between(JUMP_SECONDS) * chance.choice((-1, 1))
    seconds = between(lasts[deed]) if deed in lasts else 0.0
    return Blow(round(at, 3), deed, round(chance.random(), 6), seconds, amount, chance.random() < 0.5)
