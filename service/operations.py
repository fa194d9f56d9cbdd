"""What can be done from outside: list, show, submit, speak to, cancel, decide, verify. CLI, TUI and HTTP share it.

Every operation is a read or a message; none needs a node in this process. Who acts is the authenticated principal; a
label is what a principal calls itself, shown beside it and never trusted. A decision leaves its audit row in the same
transaction; what else changes something goes as a message and is in the run's journal.
"""

from hashlib import sha256

import msgspec

from ..actors.agent.budget import Budget
from ..actors.agent.messages import ForkRun, StartChild, StartRun
from ..actors.agent.recorded import recording_lines
from ..actors.agent.runs import Runs, Verification
from ..actors.app import App
from ..actors.client import Client
from ..mailbox.errors import UsageError
from ..persistence.port import Port
from ..persistence.rows import ActorRow, MessageView
from ..persistence.store import Store
from .lookup import BEGINNINGS, KIND, WAITING, find_run, pool_of, run_id_of
from .views import RunLine, RunList, RunView, Submitted, Trace, approval_view

NUMBER_SECONDS = 600.0
"""For how long a command leases its client number: there are some thousands, and commands are many and short."""
SCANNED = 10_000
"""How many runs a list looks at, at most."""
_PAGE = 1_000
RECORDED = "recorded"
"""What a list says of a run that no node has taken yet."""


class Operations:
    """The operations on one store, as one principal."""

    def __init__(self, store: Store, principal: str, port: Port | None = None) -> None:
        self.store = store
        self.principal = principal
        self.client = Client(store, port, number_seconds=NUMBER_SECONDS)

    def _runs_at(self, address: str) -> Runs:
        return Runs(self.client, pool_of(address))

    # --- reading -----------------------------------------------------------------------------------------------

    async def runs(self, *, limit: int = 50, status: str = "") -> RunList:
        """The newest runs, of one status if given. Looks at SCANNED runs at most and says so."""
        found: list[RunLine] = []
        seen, after = 0, ""
        while seen < SCANNED:
            page = await self.store.actors(kind=KIND, limit=_PAGE, after=after)
            found += [line for line in map(_line, page) if not status or line.status == status]
            seen += len(page)
            if len(page) < _PAGE:
                break
            after = page[-1].address
        known = {line.address for line in found} if not status else set()
        if status in ("", RECORDED):
            waiting = [view for begin in BEGINNINGS for view in await self.store.waiting(begin, limit=WAITING)]
            found += [_recorded(view) for view in waiting if view.envelope.recipient not in known]
        found.sort(key=lambda line: (-line.started_at, line.run_id))
        return RunList(found[:limit], complete=seen < SCANNED and len(found) <= limit)

    async def run(self, given: str) -> RunView:
        """One run; `given` is its id, the unique beginning of it, or its address.

        Raises:
            RunNotFound; UsageError: several begin like that.
        """
        return await self._view(await find_run(self.store, given))

    async def _view(self, address: str) -> RunView:
        run_id = run_id_of(address)
        row = await self.store.actor(address)
        state = await self._runs_at(address).state(run_id)
        waiting = await self.store.decisions(status="pending", run=address, limit=1_000)
        return RunView(
            run_id,
            address,
            state,
            None if row is None else row.status,
            "" if row is None else row.reason,
            [approval_view(one, run_id) for one in waiting],
        )

    async def trace(self, given: str) -> Trace:
        """One run with its whole journal. Raises as `run`."""
        address = await find_run(self.store, given)
        events = await self._runs_at(address).events(run_id_of(address))
        return Trace(await self._view(address), events)

    async def recording(self, given: str) -> list[str]:
        """One run as the lines of a recording. Raises as `run`, and PastLost."""
        address = await find_run(self.store, given)
        return recording_lines(await self._runs_at(address).whole(run_id_of(address)))

    async def verify(self, given: str) -> tuple[str, Verification]:
        """A run's id, and whether its state is the fold of its journal. Raises as `run`."""
        address = await find_run(self.store, given)
        run_id = run_id_of(address)
        if await self.store.actor(address) is None:
            return run_id, Verification(True, 0, [])  # recorded only: nothing has happened, and nothing is kept
        return run_id, await self._runs_at(address).verify(run_id)

    # --- changing ----------------------------------------------------------------------------------------------

    async def submit(
        self, app: App, goal: str, *, run_id: str = "", client_id: str = "", budget: Budget | None = None
    ) -> Submitted:
        """Record a run of an application; whoever serves it begins it. `budget`: None for the usual one.

        With a `client_id` a repeated submission is the same submission: it names the run unless `run_id` does.

        Raises:
            UsageError: no goal, or an id that cannot be part of an address. BadMessage: a goal that is too large.
            Conflict: the id or client id was used for another goal.
        """
        if not goal.strip():
            raise UsageError("a run needs a goal: say what the agent shall do")
        if client_id and not run_id:
            run_id = sha256(f"{app.runs} {client_id}".encode(errors="surrogatepass")).hexdigest()[:32]
        runs = Runs(self.client, app.runs)
        run_id = run_id or self.client.port.token()
        start = StartRun(goal, budget or Budget(), system_prompt=app.system_prompt, requested_by=self.principal)
        address = runs.address(run_id)
        new = await self.client.send(address, start, client_id=client_id or f"start {run_id}")
        return Submitted(run_id, address, new)

    async def tell(self, given: str, text: str) -> str:
        """Say something to a live run; its id. Raises as `run`, and Conflict where it has ended."""
        if not text.strip():
            raise UsageError("expected something to say, got nothing")
        address = await find_run(self.store, given)
        await self._runs_at(address).tell(run_id_of(address), text, by=self.principal)
        return run_id_of(address)

    async def fork(
        self, given: str, at: int | None = None, *, run_id: str = "", say: str = "", note: str = ""
    ) -> tuple[str, str]:
        """Record a run that goes on from event `at` of another one; the ids of both. Raises as `Runs.fork`."""
        address = await find_run(self.store, given)
        origin = run_id_of(address)
        runs = self._runs_at(address)
        new = await runs.fork(origin, at, new_id=run_id, say=say, note=note, by=self.principal)
        return origin, new

    async def cancel(self, given: str, *, reason: str = "") -> str:
        """Ask a run to begin nothing more and end; its id. Raises as `tell`."""
        address = await find_run(self.store, given)
        await self._runs_at(address).cancel(run_id_of(address), by=self.principal, reason=reason)
        return run_id_of(address)


def _recorded(view: MessageView) -> RunLine:
    """A run that no node has taken yet, as the message that starts it says."""
    start, address = view.envelope.message(), view.envelope.recipient
    line = RunLine(run_id_of(address), address, RECORDED, "", started_at=view.sent_at)
    match start:
        case ForkRun():
            goal, origin = str(start.state.get("goal", "")), run_id_of(start.origin)
            return msgspec.structs.replace(line, goal=goal[:200], origin=origin)
        case StartChild():
            return msgspec.structs.replace(line, goal=start.start.goal[:200])
        case StartRun():
            return msgspec.structs.replace(line, goal=start.goal[:200])
    return line


def _line(row: ActorRow) -> RunLine:
    """A run as its actor's row summarises it; what stops the actor is more to the point than what the run was at."""
    summary = msgspec.json.decode(row.summary or "{}")
    stopped = row.status in ("failed", "parked", "paused", "escalated")
    return RunLine(
        run_id=run_id_of(row.address),
        address=row.address,
        status=row.status if stopped else str(summary.get("status", "running")),
        goal=str(summary.get("goal", "")),
        step=int(summary.get("step", 0)),
        tokens=int(summary.get("tokens", 0)),
        cost_usd=str(summary.get("cost_usd", "0")),
        started_at=float(summary.get("started_at", 0.0)),
        waits_for=str(summary.get("waits_for", "")),
        origin=str(summary.get("origin", "")),
        detail=row.reason if stopped else str(summary.get("detail", "")),
    )
