"""Constant load: runs are submitted as fast as they end, and held calls are approved, through every outage.

Whatever the database does meanwhile, each run is submitted once: a submission is repeated under its name until it is
accepted.
"""

import random
from dataclasses import dataclass, field

import anyio

from callboard.bench.soak_app import LIMIT_CENTS, app, goal, items
from callboard.mailbox.errors import CallboardError, StoreUnavailable
from callboard.persistence.postgres.database import Database, DatabaseUnavailable
from callboard.persistence.postgres.invariants import charges
from callboard.persistence.store import Store
from callboard.service.operations.decisions import Answer, Decisions
from callboard.service.operations.runs import Operations

LOOK_SECONDS = 0.25
RETRY_SECONDS = 0.2
ENDED = ("completed", "failed", "cancelled")


@dataclass
class Load:
    """Runs of the application under load."""

    store: Store
    database: Database
    at_once: int
    """How many runs are under way."""
    per_second: float
    """How many are begun at most."""
    seed: int
    orders: int = 0
    """How many were submitted."""
    approved: int = 0
    ended: int = 0
    statuses: dict[str, int] = field(default_factory=dict)
    charged: int = 0
    """The most failures that were charged to messages and dead letters at any look."""
    outages: int = 0
    """How often the database did not answer, as we have met it."""

    def __post_init__(self) -> None:
        self._chance = random.Random(self.seed)
        self._operations = Operations(self.store, "soak")
        self._stopping = False

    def stop(self) -> None:
        """Submit no more."""
        self._stopping = True

    def expected(self) -> list[str]:
        """Everything that is to be paid for."""
        return [item for order in range(1, self.orders + 1) for item in items(order)]

    def run_id(self, order: int) -> str:
        """Of the run of an order."""
        return f"o{order}"

    async def submit(self) -> None:
        """Keep runs under way until told to stop."""
        while not self._stopping:
            if self.orders - self.ended >= self.at_once:
                await anyio.sleep(LOOK_SECONDS)
                continue
            self.orders += 1
            amount = self._chance.choice((900, 2_500, 4_999, LIMIT_CENTS + 1_400))
            await self._submit(self.orders, amount)
            await anyio.sleep(1.0 / self.per_second)

    async def _submit(self, order: int, amount: int) -> None:
        while True:
            try:
                await self._operations.submit(
                    app, goal(order, amount), run_id=self.run_id(order), client_id=f"order {order}"
                )
            except StoreUnavailable:
                await self._out()
            else:
                return

    async def watch(self) -> None:
        """Approve what waits for a person and count what has ended, for ever."""
        decisions = Decisions(self._operations)
        while True:
            try:
                for view in await decisions.list(limit=1_000):
                    await self._approve(decisions, view.id, tuple(money.shown for money in view.money))
                await self._count()
            except (StoreUnavailable, DatabaseUnavailable):
                await self._out()
            await anyio.sleep(LOOK_SECONDS)

    async def _approve(self, decisions: Decisions, id: str, amounts: tuple[str, ...]) -> None:
        try:
            await decisions.decide(id, Answer("approved", amounts))
        except StoreUnavailable:
            raise
        except CallboardError:
            return  # decided in an attempt whose answer was lost with the database
        self.approved += 1

    async def _count(self) -> None:
        rows = await self.database.rows(
            "select status, count(*) as runs from callboard.actor where kind = 'run' group by status"
        )
        self.statuses = {row["status"]: row["runs"] for row in rows}
        self.ended = sum(self.statuses.get(status, 0) for status in ENDED)
        self.charged = max(self.charged, await charges(self.database))

    async def _out(self) -> None:
        self.outages += 1
        await anyio.sleep(RETRY_SECONDS)
