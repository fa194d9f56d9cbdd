"""How long after a kill others had taken over, and worked.

    taken over   the moment, by the database's clock, of the commit that gave the dead node's shards to another: that is
                 the new owner's first commit
    at work      the first turn of any message in one of these shards by another node; a shard that has nothing to do
                 has none, so the first of all of them counts

Kills during which something else was done (a database that was away, a slow network) are counted apart: what they show
is how long that took.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence

import msgspec

from callboard.bench.meter import quantile
from callboard.persistence.postgres.database import Database

EDGES_MS = (10, 20, 30, 50, 75, 100, 150, 250, 500, 1_000, 2_500, 5_000)

_ENDS = "SELECT number, extract(epoch FROM ended_at)::float8 AS at FROM callboard.node WHERE status = 'dead'"
_TURNS = """
SELECT shard, node, extract(epoch FROM at)::float8 AS at FROM callboard.turn WHERE at >= to_timestamp(%s) ORDER BY at
"""


class Kill(msgspec.Struct, frozen=True):
    """A node that was killed."""

    at: float
    """Seconds since 1970."""
    number: int
    shards: list[int]
    """What it owned then."""
    during: str = ""
    """What else was being done."""


class Spread(msgspec.Struct, frozen=True):
    """Times of one kind, and how they are spread."""

    count: int
    p50_ms: float
    p90_ms: float
    p99_ms: float
    most_ms: float
    histogram: dict[str, int]

    @classmethod
    def of(cls, seconds: Sequence[float]) -> "Spread":
        """All of them; of none, zeros."""
        if not seconds:
            return cls(0, 0.0, 0.0, 0.0, 0.0, {})
        p50, p90, p99 = (round(1e3 * quantile(seconds, share), 1) for share in (0.5, 0.9, 0.99))
        return cls(len(seconds), p50, p90, p99, round(1e3 * max(seconds), 1), histogram(seconds))


class Failovers(msgspec.Struct, frozen=True):
    """What the kills of a run show."""

    kills: int
    """Of nodes that owned shards."""
    taken_over: Spread
    at_work: Spread
    taken_over_in_trouble: Spread
    """Kills while something else was being done."""
    never: int
    """Kills after which nobody is known to have taken over: the node had left or been taken over just before."""


def histogram(seconds: Sequence[float]) -> dict[str, int]:
    """How many there are up to each edge, and above the last; edges without any are left out."""
    counts: dict[str, int] = defaultdict(int)
    names = [f"<= {edge} ms" for edge in EDGES_MS] + [f"> {EDGES_MS[-1]} ms"]
    for one in sorted(seconds):
        place = next((n for n, edge in enumerate(EDGES_MS) if 1e3 * one <= edge), len(EDGES_MS))
        counts[names[place]] += 1
    return dict(counts)


async def failovers(database: Database, kills: Sequence[Kill]) -> Failovers:
    """Look up what became of the shards of each node that was killed."""
    if not kills:
        return judge([], {}, [])
    ends: dict[int, list[float]] = defaultdict(list)
    for row in await database.rows(_ENDS):
        ends[row["number"]].append(row["at"])
    turns = await database.rows(_TURNS, (min(kill.at for kill in kills),))
    return judge(kills, ends, [(row["shard"], row["node"], row["at"]) for row in turns])


def judge(kills: Sequence[Kill], ends: dict[int, list[float]], turns: Sequence[tuple[int, int, float]]) -> Failovers:
    """`ends`: by node number, when it was taken over. `turns`: shard, node and time, in order of time."""
    by_shard: dict[int, list[tuple[float, int]]] = defaultdict(list)
    for shard, node, at in turns:
        by_shard[shard].append((at, node))
    taken: dict[bool, list[float]] = {False: [], True: []}
    worked: list[float] = []
    for kill in kills:
        end = min((at for at in ends.get(kill.number, ()) if at >= kill.at), default=None)
        if end is None:
            continue
        taken[bool(kill.during)].append(end - kill.at)
        first = min((at for shard in kill.shards for at in _after(by_shard[shard], kill)), default=None)
        if first is not None and not kill.during:
            worked.append(first - kill.at)
    return Failovers(
        kills=len(kills),
        taken_over=Spread.of(taken[False]),
        at_work=Spread.of(worked),
        taken_over_in_trouble=Spread.of(taken[True]),
        never=len(kills) - len(taken[False]) - len(taken[True]),
    )


def _after(turns: list[tuple[float, int]], kill: Kill) -> list[float]:
    """The time of the first turn after a kill, by another node than the one killed; none or one."""
    for at, node in turns[bisect_right(turns, (kill.at, 1 << 30)) :]:
        if node != kill.number:
            return [at]
    return []
