"""The census: how a supervisor comes to know the instances of its pools, which it does not keep one by one.

A worker that every node has for each tree with a pool: a supervisor asks it for a page of instances that stand in a
certain way, or for how many there are. It reads what is committed, so an instance that comes into being meanwhile may
be missing; whoever needs all of them asks until a whole round brings nothing.
"""

from collections.abc import Sequence

import msgspec

from ..mailbox.errors import StoreError
from ..mailbox.message import Message
from ..persistence.rows import ActorRow
from ..persistence.store import Store
from .actor import Worker, on
from .bonds import is_gone
from .context import WorkerContext
from .directives import Transient
from .retry import RetryPolicy
from .spec import CENSUS, Child

PAGE = 200
"""Instances in one page, and rows in one read."""
COUNT_LIMIT = 10_000
"""Instances beyond which nobody counts on: there are at least so many."""


class Survey(Message, tag="sys.census.survey"):
    """Asked: the next page of a pool's instances that stand as `standing` says; answered with `Surveyed`."""

    pool: str
    """Address of the pool, without a key."""
    standing: list[str]
    """Statuses; `failed` leaves out those that have failed for good."""
    serial: int
    """Comes back with the answer."""
    after: str = ""


class Instance(msgspec.Struct, frozen=True):
    """One actor of a pool."""

    name: str
    """`name:key`."""
    incarnation: int


class Surveyed(Message, tag="sys.census.surveyed"):
    """A page; `after` is where the next one begins, "" where this was the last."""

    pool: str
    serial: int
    found: list[Instance]
    after: str = ""


class Count(Message, tag="sys.census.count"):
    """Asked: how many instances of these pools stand so; answered with `Counted`."""

    pools: list[str]
    standing: list[str]
    purpose: str = ""
    """Comes back with the answer."""


class Counted(Message, tag="sys.census.counted"):
    """How many, by the pool's address; from `COUNT_LIMIT` on they are not counted further."""

    found: dict[str, int]
    purpose: str = ""


ALIVE = ["active", "parked", "paused"]
EXPECTED = [*ALIVE, "failed"]
"""Alive, or waiting to be restarted."""


class Census(Worker, kind="census"):
    """Reads the rows of instances."""

    retry = RetryPolicy(max_failures=1_000_000, cap_seconds=10.0)  # a supervisor waits for it

    def __init__(self, store: Store) -> None:
        self.store = store

    @on
    async def survey(self, message: Survey, ctx: WorkerContext) -> Surveyed:
        """One page, from as many reads as it takes."""
        found: list[Instance] = []
        after = message.after
        while True:
            rows = await self._rows(message.pool, after)
            for row in rows:
                after = row.address
                if _stands(row, message.pool, message.standing):
                    found.append(Instance(row.address.rpartition("/")[2], row.incarnation))
                if len(found) == PAGE:
                    return Surveyed(message.pool, message.serial, found, after)
            if len(rows) < PAGE:
                return Surveyed(message.pool, message.serial, found)

    @on
    async def count(self, message: Count, ctx: WorkerContext) -> Counted:
        """All of them, or very many."""
        found: dict[str, int] = {}
        for pool in message.pools:
            found[pool], after = 0, ""
            while found[pool] < COUNT_LIMIT:
                rows = await self._rows(pool, after)
                found[pool] += sum(_stands(row, pool, message.standing) for row in rows)
                if len(rows) < PAGE:
                    break
                after = rows[-1].address
        return Counted(found, message.purpose)

    async def _rows(self, pool: str, after: str) -> list[ActorRow]:
        try:
            return await self.store.actors(prefix=f"{pool}:", limit=PAGE, after=after)
        except StoreError as error:
            raise Transient(str(error)) from error


def _stands(row: ActorRow, pool: str, standing: Sequence[str]) -> bool:
    beneath = "/" in row.address[len(pool) + 1 :]  # an instance may have children of its own
    return not beneath and row.status in standing and not is_gone(row)


def spec_of(store: Store) -> Child:
    """The spec of a node's census."""
    return Child(Census, CENSUS.rpartition("/")[2], args=(store,))
