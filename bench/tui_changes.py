"""Changes of actors, so many a second, written by a process of its own: what a busy site does to a screen.

Half of them are messages that come into mailboxes and go again, the others are statuses (a pause, told to whoever
listens) and summaries. Half of all are where a screen looks, at the beginning of the list. Run by `bench.tui` as
`python -m callboard.bench.tui_changes DSN ACTORS RATE`, until it is stopped; says `writing` once it has begun.
"""

import random
import sys
import time
from collections.abc import Sequence

import anyio

from callboard.mailbox.address import shard_of
from callboard.persistence.postgres.database import Database, Session

TICKS = 10
"""Transactions a second."""
IN_SIGHT = 200
POOLS = 8
KIND = "bench-agent"
PAGE = 50_000
_ACTOR = (
    "shard", "address", "kind", "version", "incarnation", "status", "reason", "state", "state_version", "last_id",
    "sent", "events", "summary",
)  # fmt: skip
_COME = """
insert into callboard.message (shard, id, recipient, sender, lane, type, version, body, sender_seq, deliveries,
    failures, due_at, last_error, reply_to, correlation, causation, started, sent_by_node, held, sent_at)
select s, i, a, '/bench/gateway', 2, 'bench.ask', 1, '{}', i, 0, 0, callboard.clock(), '', '', 0, 0, false, 0, false,
    callboard.clock()
from unnest(%s::int[], %s::bigint[], %s::text[]) as n(s, i, a)
"""
_GO = "delete from callboard.message m using unnest(%s::int[], %s::bigint[]) as n(s, i) where m.shard = s and m.id = i"
_TURN = """
update callboard.actor t set status = case t.status when 'active' then 'paused' else 'active' end,
    reason = case t.status when 'active' then 'paused mara: a look at it' else '' end
from unnest(%s::int[], %s::text[]) as n(s, a) where t.shard = s and t.address = a
"""
_SUM_UP = """
update callboard.actor t set summary = json_build_object('step', t.last_id + %s)::text
from unnest(%s::int[], %s::text[]) as n(s, a) where t.shard = s and t.address = a
"""


def address(number: int) -> str:
    """Of an actor; the pools are served in turns."""
    return f"/bench/pool-{number % POOLS}/agent:{number:07d}"


async def lay_down(dsn: str, count: int) -> None:
    """So many actors, and a node that serves them."""
    async with await Database.open(dsn, size=1) as database:
        for start in range(0, count, PAGE):
            places = [(shard_of(address(n)), address(n), n) for n in range(start, min(count, start + PAGE))]
            rows = [(s, a, KIND, 1, 1, "active", "", b"", 1, n + 1, 0, 0, "") for s, a, n in places]
            async with database.transaction() as session:
                await session.copy_rows("callboard.actor", _ACTOR, rows)
        async with database.transaction() as session:
            await session.execute(
                "insert into callboard.node (number, epoch, boot, label, status, lease_seconds, guest, joined_at) "
                "values (1, 1, 'bench', 'bench-1', 'up', 10, false, callboard.clock())"
            )
            # It beats on where nobody writes: actors of a site that is down are looked for elsewhere.
            await session.execute("insert into callboard.heartbeat values (1, 1, callboard.clock() + interval '1 day')")
            await session.execute("update callboard.shard set node = 1")
        for table in ("actor", "message"):
            await database.execute(f"vacuum (analyze) callboard.{table}")  # as the server does by itself, soon


class Changes:
    """Writes them."""

    def __init__(self, database: Database, actors: int, rate: int, seed: int = 1) -> None:
        self._database, self._actors, self._each = database, actors, max(4, rate // TICKS)
        self._chance = random.Random(seed)
        self._there: list[tuple[int, int]] = []
        self._number = 1 << 40

    async def run(self) -> None:
        """For ever, at the rate."""
        print("writing", flush=True)
        due = time.monotonic()
        while True:
            async with self._database.transaction() as session:
                await self._write(session)
            due = max(due + 1 / TICKS, time.monotonic() - 1.0)
            await anyio.sleep(max(0.0, due - time.monotonic()))

    def _some(self, count: int) -> list[str]:
        """Different actors, the one half of them where a screen looks."""
        pool = range(self._actors)
        sight = pool[: min(IN_SIGHT, self._actors)]
        near = self._chance.sample(sight, min(count // 2, len(sight)))
        far = self._chance.sample(pool, min(count - len(near), len(pool)))
        return [address(number) for number in {*near, *far}]

    async def _write(self, session: Session) -> None:
        come = self._some(self._each // 4)
        fresh = [(shard_of(one), self._number + n) for n, one in enumerate(come)]
        self._number += len(come)
        await session.execute(_COME, ([s for s, _ in fresh], [i for _, i in fresh], come))
        self._there += fresh
        gone, self._there = self._there[: -self._each * TICKS], self._there[-self._each * TICKS :]
        if not gone and len(self._there) > self._each:
            gone, self._there = self._there[: self._each // 4], self._there[self._each // 4 :]
        await session.execute(_GO, ([s for s, _ in gone], [i for _, i in gone]))
        turned = sorted(self._some(self._each // 4))
        await session.execute(_TURN, ([shard_of(one) for one in turned], turned))
        summed = sorted(self._some(self._each - 2 * (self._each // 4) - len(turned)))
        await session.execute(_SUM_UP, (self._number, [shard_of(one) for one in summed], summed))


async def _main(dsn: str, actors: int, rate: int) -> None:
    async with await Database.open(dsn, size=1) as database:
        await Changes(database, actors, rate).run()


def main(arguments: Sequence[str]) -> None:
    """Write until stopped."""
    dsn, actors, rate = arguments
    anyio.run(_main, dsn, int(actors), int(rate))


if __name__ == "__main__":
    main(sys.argv[1:])
