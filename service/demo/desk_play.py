"""What happens at the demonstration desk: customers write, colleagues decide, and the back office has a bad day.

`begin` brings it to where there is something to look at and to decide, and returns once all of `Seen` is true; `go_on`
lets new tickets come in, slowly and for ever. Everything is done as anybody would do it from outside: a ticket is a row
and a run, a decision and a pause are operations under a name. Conditions are waited for, never assumed.
"""

import os
import signal
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import TypeVar

import msgspec

from callboard.actors.agent.budget import Budget
from callboard.actors.agent.runs import Runs
from callboard.crm.tickets import TicketCase, make_tickets
from callboard.mailbox.errors import CallboardError, UsageError
from callboard.mailbox.message import Message
from callboard.persistence.port import Port
from callboard.persistence.postgres.database import Database
from callboard.persistence.store import Store

from ..operations.actors import Inspection
from ..operations.decisions import Answer, Decisions
from ..operations.principal import Principal
from ..operations.runs import Operations
from ..operations.views import ApprovalView
from .desk_app import app
from .desk_office import GONE, OFFICE, Label, Letter, Note, Parcel, Sold
from .proof import MAX_RUNS, find_interrupted

T = TypeVar("T")

LOOK_SECONDS = 0.1
BEGIN_SECONDS = 300.0
"""Bounds `begin`; it needs a few seconds."""
SEED = 34
"""Tickets of this seed hold, in the retail data as in the small desk, a large refund whose customer claims approval."""
TICKETS = 20
ABOVE_LIMIT = 6
BATCH = 11
"""Tickets are made so many at a time, one of each kind, and come in one by one."""
MORE_AT_MOST = 24
SHORT = Budget(max_iterations=2)
"""Of one ticket: its run fails, and says why."""


class Seen(msgspec.Struct, frozen=True):
    """What there is to look at; all true once the desk is open."""

    waiting: bool
    """Five approvals or more, of two tools, of low, medium and high risk."""
    grave: bool
    """One of them has a failed check and takes two people."""
    decided: bool
    """A colleague has let a call go and refused one."""
    dead: bool
    retrying: bool
    paused: bool
    parked: bool
    escalated: bool
    failed: bool
    """A run that has overrun its budget."""
    recovered: bool
    """A node was killed in the middle of a refund, and another has gone on."""

    def missing(self) -> list[str]:
        """What is not so yet."""
        return [name for name, so in msgspec.structs.asdict(self).items() if not so]


class Play:
    """The people and partners of one desk."""

    def __init__(self, store: Store, records: Database, port: Port, mark: Path, *, seed: int = SEED) -> None:
        """`mark`: the file that a node makes before it hangs in a refund (`desk_app`)."""
        self.store = store
        self.records = records
        self.port = port
        self.mark = mark
        self.seed = seed
        self.inbox = Operations(store, Principal("inbox"), port)
        self.colleague = Operations(store, Principal("dana", label="of the demonstration"), port)
        self.decisions = Decisions(self.colleague)
        self._run_ids: list[str] = []
        self._short = ""
        """The run whose budget is too small."""
        self._key = ""
        """Of the refund in which a node was killed."""
        self._recovered = False

    # --- the beginning -----------------------------------------------------------------------------------------

    async def begin(self) -> None:
        """Bring the desk to where all of `Seen` is true.

        Raises:
            CallboardError: it does not get there; what is missing.
        """
        try:
            with self.port.deadline(BEGIN_SECONDS):
                await self._begin()
        except TimeoutError:
            missing = ", ".join((await self.seen()).missing())
            raise CallboardError(f"the desk was not ready in {BEGIN_SECONDS:g} s; missing: {missing}") from None

    async def _begin(self) -> None:
        cases = await make_tickets(self.records, TICKETS, seed=self.seed, above_limit=ABOVE_LIMIT)
        self._run_ids = [case.ticket_id for case in cases]
        for case in cases:
            await self._submit(case, SHORT if self._is_short(case) else None)
        await self._bad_day(cases)
        await self._crash()
        await self._so(self._at_rest)
        await self._colleague_decides()
        await self._until_all(await self._more())

    def _is_short(self, case: TicketCase) -> bool:
        if not self._short and case.scenario == "order_status":
            self._short = case.ticket_id
        return case.ticket_id == self._short

    async def _submit(self, case: TicketCase, budget: Budget | None = None) -> None:
        goal = f"Work ticket {case.ticket_id}."
        await self.inbox.submit(app, goal, run_id=case.ticket_id, budget=budget or Budget(max_iterations=25))

    async def _bad_day(self, cases: Sequence[TicketCase]) -> None:
        digest, printer = f"{OFFICE}/digest", f"{OFFICE}/labels/printer"
        for address in (digest, printer):  # those of no pool are there once a node serves
            await self._so(partial(self.store.actor, address))
        await self._tell("mail:press", Letter("editor@chronicle.example", "Our new returns policy"))
        await self._tell("mail:press", Letter(GONE, "Your question about our returns"))
        await self._tell("mail:suppliers", Letter("accounts@nordlicht.example", "Payment advice", invoice="2271"))
        await self._tell("mail:suppliers", Letter("accounts@nordlicht.example", "Payment advice", invoice="2270"))
        for orders in (112, 31, 18):
            await self._tell("feed:warehouse", Sold("today", orders))
        await self._tell("returns:R-1042", Parcel("R-1042", "\u25a1\u25a1 4\u25a1 \u25a1ain St"))
        for case in cases[:2]:
            await self._tell("labels/printer", Label(case.order_id))
        await Inspection(self.colleague).pause(digest, "the newsletter is not to go out before Monday")
        await self._so(lambda: self._status(digest, "paused"))
        for case in cases[:4]:
            await self._tell("digest", Note(case.ticket_id, case.scenario))

    async def _tell(self, name: str, message: Message) -> None:
        await self.inbox.client.send(f"{OFFICE}/{name}", message)

    async def _crash(self) -> None:
        """Kill the node that hangs in a refund: it made `mark`, so it is one of ours."""

        async def hangs() -> list[str]:
            return self.mark.read_text().split() if self.mark.exists() else []

        pid, self._key = await self._so(hangs)
        os.kill(int(pid), signal.SIGKILL)

    async def _colleague_decides(self) -> None:
        let_go = await self._pending("low")
        await self.decisions.decide(
            let_go.id, Answer("approved", note="as the customer asked", expect_digest=let_go.digest)
        )
        no = await self._pending("medium")
        await self.decisions.decide(no.id, Answer("denied", note="ask for photos first", expect_digest=no.digest))
        back = await self._pending("medium")
        sums = tuple(sum_.shown for sum_ in back.money)
        await self.decisions.decide(back.id, Answer("approved", sums, back.digest, "looks right"))
        await self.decisions.take_back(back.id, note="wrong order, look again")

    async def _pending(self, risk: str) -> ApprovalView:
        """The one of the lowest ticket: the same whoever was asked first."""

        async def look() -> ApprovalView | None:
            waiting = sorted(await self.decisions.list(), key=lambda one: one.run_id)
            return next((one for one in waiting if one.risk == risk), None)

        return await self._so(look)

    # --- what there is to look at ------------------------------------------------------------------------------

    async def seen(self) -> Seen:
        """What of it is so."""
        store = self.store
        waiting = await self.decisions.list()
        done = await self.decisions.list(status=None, limit=1_000)
        boxes = await store.peek(f"{OFFICE}/feed:warehouse")
        runs = {line.run_id: line for line in (await self.inbox.runs(limit=MAX_RUNS)).items}
        return Seen(
            waiting=len(waiting) >= 5
            and len({one.tool for one in waiting}) >= 2
            and {one.risk for one in waiting} >= {"low", "medium", "high"},
            grave=any(one.needed > 1 and any(not check["ok"] for check in one.checks) for one in waiting),
            decided={"denied", "released"} <= {one.status for one in done},
            dead=bool(await store.dead_letters(open_only=True, recipient=f"{OFFICE}/mail:press")),
            retrying=any(view.state == "retrying" for view in boxes),
            paused=await self._status(f"{OFFICE}/digest", "paused"),
            parked=await self._status(f"{OFFICE}/returns:R-1042", "parked"),
            escalated=await self._status(f"{OFFICE}/labels", "escalated"),
            failed=self._short in runs and runs[self._short].status == "failed",
            recovered=await self._has_recovered(),
        )

    async def _status(self, address: str, status: str) -> bool:
        row = await self.store.actor(address)
        return row is not None and row.status == status

    async def _has_recovered(self) -> bool:
        """Whether the run whose node was killed knows what became of its refund."""
        if self._key and not self._recovered:
            runs = Runs(self.inbox.client, app.runs)
            found = await find_interrupted(runs, self._run_ids, self._key, 0.0)
            self._recovered = found is not None and found.recovered is not None
        return self._recovered

    async def _until_all(self, more: Callable[[], Awaitable[bool]]) -> None:
        while missing := (await self.seen()).missing():
            # What depends on what customers happen to write is had by more of them writing.
            if not (set(missing) <= {"waiting", "grave"} and await self._at_rest() and await more()):
                await self.port.sleep(LOOK_SECONDS)

    async def _at_rest(self) -> bool:
        runs = Runs(self.inbox.client, app.runs)
        for line in (await self.inbox.runs(limit=MAX_RUNS)).items:
            if not await runs.at_rest(line.run_id):
                return False
        return True

    async def _more(self) -> Callable[[], Awaitable[bool]]:
        seeds = iter(range(self.seed + 1, self.seed + 1 + MORE_AT_MOST))

        async def more() -> bool:
            if (seed := next(seeds, None)) is None:
                return False
            for case in await make_tickets(self.records, 1, seed=seed, above_limit=1):
                await self._submit(case)
            return True

        return more

    async def _so(self, look: Callable[[], Awaitable[T | None]]) -> T:
        while not (found := await look()):
            await self.port.sleep(LOOK_SECONDS)
        return found

    # --- from then on ------------------------------------------------------------------------------------------

    async def go_on(self, every_seconds: float) -> None:
        """New tickets, one in `every_seconds`, until cancelled."""
        seen: list[TicketCase] = []
        for number in count(1):
            cases = await self._batch(number)
            seen += cases
            for case in cases or seen:
                await self.port.sleep(every_seconds)
                # Where the desk has no orders left for new tickets, customers write about old ones again.
                run_id = case.ticket_id if cases else f"{case.ticket_id}-{number}"
                await self.inbox.submit(app, f"Work ticket {case.ticket_id}.", run_id=run_id)
                await self._tell("digest", Note(case.ticket_id, case.scenario))
            if not seen:
                return

    async def _batch(self, number: int) -> list[TicketCase]:
        try:
            return await make_tickets(self.records, BATCH, seed=self.seed + 100 + number, above_limit=2)
        except UsageError:
            return []
