"""The desk under load: customers write without end, and of several people who decide at once exactly one wins.

Tickets are rows and runs are submissions, as anybody would make them from outside; both are made again until they are
known to have been accepted, whatever the database does meanwhile. People are clients of their own. None of them is
behind the bad network: what is tried is the desk, not the customers.
"""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import anyio

from callboard.bench.chaos_app import app
from callboard.bench.chaos_desk import desk_of
from callboard.crm.load import load
from callboard.crm.schema import install
from callboard.crm.tickets import make_tickets
from callboard.mailbox.errors import AlreadyDecided, CallboardError, StoreUnavailable, UsageError
from callboard.persistence.postgres.database import Database, DatabaseUnavailable
from callboard.persistence.postgres.invariants import charges
from callboard.persistence.store import Store
from callboard.service.operations.decisions import Answer, Decisions
from callboard.service.operations.principal import Principal
from callboard.service.operations.runs import Operations
from callboard.service.operations.views import ApprovalView

LOOK_SECONDS = 0.2
RETRY_SECONDS = 0.2
BATCH = 12
ABOVE_LIMIT = 3
"""Of a batch: these wait for a person."""
PEOPLE = ("dana", "eli", "finn")
DENIED_OF_TEN = 2
ORDERS_FOR_A_TICKET = 3
"""Not every order fits every ticket."""
_RUNS = """
SELECT coalesce(summary::json ->> 'status', status) AS status, count(*) AS runs FROM callboard.actor
WHERE kind = 'run' AND strpos(split_part(address, ':', 2), '.') = 0 GROUP BY 1
"""
_CHARGED = """
SELECT m.recipient || ' ' || m.type AS text FROM callboard.message m JOIN callboard.actor a USING (shard)
WHERE m.failures > 0 AND a.address = m.recipient
"""
ENDED = ("completed", "failed", "cancelled")


class Races:
    """What people heard who decided the same thing at once."""

    def __init__(self) -> None:
        self.held = 0
        """Races: rounds in which one approval was decided by several people at the same time."""
        self.won: dict[str, list[str]] = {}
        """By decision: who was told that their word counts."""
        self.late = 0
        """Answers that somebody else was first."""
        self.unheard = 0
        """No answer: the database was away."""
        self.other: Counter[str] = Counter()
        """Any other refusal, by what it says: there should be none."""

    def note(self, decision: str, who: str, outcome: ApprovalView | CallboardError) -> None:
        """Keep what somebody heard."""
        if isinstance(outcome, ApprovalView):
            if outcome.status != "pending":  # where it takes two, the first has not decided it
                self.won.setdefault(decision, []).append(who)
        elif isinstance(outcome, StoreUnavailable):
            self.unheard += 1
        elif isinstance(outcome, AlreadyDecided):
            self.late += 1
        else:
            self.other[f"{type(outcome).__name__}: {outcome}"[:200]] += 1


@dataclass
class DeskLoad:
    """Customers and colleagues of one desk."""

    records: Database
    store: Store
    people: Sequence[Store]
    """A store for each of those who decide."""
    at_once: int
    """How many tickets are being worked."""
    per_second: float
    """How many are begun at most."""
    seed: int
    races: Races = field(default_factory=Races)
    submitted: set[str] = field(default_factory=set)
    statuses: dict[str, int] = field(default_factory=dict)
    charged: int = 0
    """The most failures that were charged at any look, those of workers included."""
    charged_actors: set[str] = field(default_factory=set)
    """Messages for actors that were charged with a failure, at any look: nothing that is done to a node may do that."""
    outages: int = 0
    full: bool = False
    """The desk has no orders left for new tickets."""

    def __post_init__(self) -> None:
        self._chance = random.Random(self.seed)
        self._inbox = Operations(self.store, Principal("inbox"))
        self._decisions = [
            Decisions(Operations(store, Principal(name))) for name, store in zip(PEOPLE, self.people, strict=True)
        ]
        self._batch = 0
        self._stopping = False

    async def prepare(self, tickets: int) -> None:
        """Install the desk, with orders for so many tickets."""
        await install(self.records)
        await load(self.records, desk_of(ORDERS_FOR_A_TICKET * tickets + 60))
        await self.records.execute("ANALYZE crm.sales_order; ANALYZE crm.order_item; ANALYZE crm.account")

    @property
    def ended(self) -> int:
        """Tickets whose run has ended."""
        return sum(self.statuses.get(status, 0) for status in ENDED)

    def stop(self) -> None:
        """No new tickets."""
        self._stopping = True

    # --- customers -----------------------------------------------------------------------------------------------

    async def customers(self) -> None:
        """Keep tickets at work until told to stop; then see to it that each that was written has its run."""
        while not self._stopping and not self.full:
            try:
                for ticket in await self._waiting():
                    await self._submit(ticket)
                    await self._for_room()
            except CallboardError as error:
                await self._out(error)
        while True:
            try:
                for ticket in await self._written():
                    await self._submit(ticket)
                return
            except CallboardError as error:
                await self._out(error)

    async def _for_room(self) -> None:
        while len(self.submitted) - self.ended >= self.at_once and not self._stopping:  # noqa: ASYNC110 - counted
            await anyio.sleep(LOOK_SECONDS)

    async def _waiting(self) -> list[str]:
        """Tickets without a run; a new batch of them where there is none."""
        waiting = await self._written()
        if not waiting:
            self._batch += 1
            try:
                await make_tickets(
                    self.records, BATCH, seed=1_000 * self.seed + self._batch, above_limit=ABOVE_LIMIT
                )  # where the answer is lost they may be there all the same: the next look finds them
            except UsageError:
                self.full = True
        return await self._written()

    async def _written(self) -> list[str]:
        rows = await self.records.rows("SELECT ticket_id FROM crm.ticket ORDER BY ticket_id")
        return [str(row["ticket_id"]) for row in rows if row["ticket_id"] not in self.submitted]

    async def _submit(self, ticket: str) -> None:
        await self._inbox.submit(app, f"Work ticket {ticket}.", run_id=ticket, client_id=ticket)
        self.submitted.add(ticket)
        await anyio.sleep(1.0 / self.per_second)

    # --- colleagues ----------------------------------------------------------------------------------------------

    async def colleagues(self) -> None:
        """Decide what waits, all at once, and count what has ended; for ever."""
        while True:
            try:
                for view in await self._decisions[0].list(limit=200):
                    await self._race(view)
                self.statuses = {row["status"]: row["runs"] for row in await self.records.rows(_RUNS)}
                self.charged = max(self.charged, await charges(self.records))
                self.charged_actors.update(row["text"] for row in await self.records.rows(_CHARGED))
            except CallboardError as error:
                await self._out(error)
            await anyio.sleep(LOOK_SECONDS)

    async def _race(self, view: ApprovalView) -> None:
        self.races.held += 1
        denier = self._chance.randrange(len(PEOPLE)) if self._chance.randrange(10) < DENIED_OF_TEN else -1
        gate = anyio.Event()

        async def decide(place: int) -> None:
            sums = tuple(money.shown for money in view.money)
            if place == denier:
                answer = Answer("denied", note="no")
            else:
                # Where a check failed, say because its tables were away, the call is of high risk and wants a word.
                answer = Answer("approved", sums, view.digest, note="looked at it")
            await gate.wait()
            outcome: ApprovalView | CallboardError
            try:
                outcome = await self._decisions[place].decide(view.id, answer)
            except CallboardError as error:
                outcome = error
            self.races.note(view.id, PEOPLE[place], outcome)

        async with anyio.create_task_group() as group:
            for place in self._chance.sample(range(len(PEOPLE)), len(PEOPLE)):
                group.start_soon(decide, place)
            gate.set()

    async def _out(self, error: CallboardError) -> None:
        """The database is away: it is tried again. Anything else is no answer that anybody should get, and is kept."""
        if isinstance(error, StoreUnavailable | DatabaseUnavailable):
            self.outages += 1
        else:
            self.races.note("", "", error)
        await anyio.sleep(RETRY_SECONDS)
