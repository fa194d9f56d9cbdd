"""What can be done from outside: list, show, submit, speak to, cancel, decide, verify. CLI, TUI and HTTP share it.

Every operation is a read or a message; none needs a node in this process. Who acts is the authenticated principal; a
label is what a principal calls itself, shown beside it and never trusted. What changes something goes as a message, and
its audit row with it in the same transaction.
"""

from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING

from ...mailbox.errors import Conflict, MailboxFull, UsageError
from ...persistence.operating import AuditEntry
from ...persistence.port import Port, RealPort
from ...persistence.store import Store
from .lookup import find_run, pool_of, run_id_of
from .principal import Principal, Scope
from .run_windows import run_window
from .views import Fork, RunList, RunView, RunWindow, RunWish, Submitted, Trace, approval_view

if TYPE_CHECKING:
    # What runs are made of is a third of a command's start, and most commands look at no run's inside.
    from ...actors.agent.budget import Budget
    from ...actors.agent.runs import Runs, Verification
    from ...actors.app import App
    from ...actors.client import Client

NUMBER_SECONDS = 600.0
"""For how long a command leases its client number: there are some thousands, and commands are many and short."""
SCANNED = 10_000
"""How many runs a list has, at most."""
LOOKED_THROUGH = 100_000
"""How many of the newest are looked at for those that fit."""
MAX_NOTE_CHARS = 4_000
"""Of what the audit trail keeps of a text; the whole of it is in the run's journal."""
MAX_FORKS = 100
"""Of a run, so many are named with it."""


class Operations:
    """The operations on one store, as one principal."""

    def __init__(self, store: Store, principal: Principal | str, port: Port | None = None) -> None:
        """`principal`: by its name alone it may do everything, as a library's caller may."""
        self.store = store
        self.who = principal if isinstance(principal, Principal) else Principal(principal)
        self.port: Port = port or RealPort()

    @cached_property
    def client(self) -> "Client":
        """By which it speaks to actors. Whoever only looks needs none, and does not load what it is made of."""
        from ...actors.client import Client

        return Client(self.store, self.port, number_seconds=NUMBER_SECONDS)

    @property
    def principal(self) -> str:
        """The name of who acts."""
        return self.who.name

    def require(self, scope: Scope) -> None:
        """Go on only with this right. Raises NotAllowed."""
        self.who.require(scope)

    def entry(self, action: str, object: str, *, before: str = "", after: str = "", note: str = "") -> AuditEntry:
        """What this principal does, as the audit trail has it."""
        who, note = self.who, _storable(note[:MAX_NOTE_CHARS])
        return AuditEntry(who.name, action, object, who.label, who.channel, who.host, before, after, note)

    def _runs_at(self, address: str, entry: AuditEntry | None = None) -> "Runs":
        from ...actors.agent.runs import Runs

        client = self.client if entry is None else self.client.audited(entry)
        return Runs(client, pool_of(address))

    # --- reading -----------------------------------------------------------------------------------------------

    async def runs(self, *, limit: int = 50, status: str = "", wish: RunWish | None = None) -> RunList:
        """The newest runs, those that fit `wish` (or have that status). Where something is looked for, it looks at
        LOOKED_THROUGH runs at most and says so."""
        self.require("read")
        found = await run_window(self.store, wish or RunWish(status), limit=limit, look_at=LOOKED_THROUGH)
        return RunList(found.items[:limit], complete=found.end and len(found.items) <= limit)

    async def run_window(
        self, wish: RunWish | None = None, *, after: str = "", before: str = "", last: bool = False, limit: int = 100
    ) -> RunWindow:
        """A window of the runs that fit `wish`, newest first. Raises as `run_windows.run_window`."""
        self.require("read")
        return await run_window(self.store, wish or RunWish(), after=after, before=before, last=last, limit=limit)

    async def run(self, given: str) -> RunView:
        """One run; `given` is its id, the unique beginning of it, or its address.

        Raises:
            RunNotFound; UsageError: several begin like that.
        """
        self.require("read")
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
        from .spending import spending

        self.require("read")
        address = await find_run(self.store, given)
        events = await self._runs_at(address).events(run_id_of(address))
        rows = await self.store.audit(object=address, action="fork", limit=MAX_FORKS)
        forks = [row for row in reversed(rows) if row.object == address and row.after]
        return Trace(
            await self._view(address),
            events,
            await self.store.now(),
            await spending(self.store, address, [one.event for one in events]),
            [Fork(row.after, row.at, row.who, row.note) for row in forks],
        )

    async def recording(self, given: str) -> list[str]:
        """One run as the lines of a recording. Raises as `run`, and PastLost."""
        from ...actors.agent.recorded import recording_lines

        self.require("read")
        address = await find_run(self.store, given)
        return recording_lines(await self._runs_at(address).whole(run_id_of(address)))

    async def verify(self, given: str) -> "tuple[str, Verification]":
        """A run's id, and whether its state is the fold of its journal. Raises as `run`."""
        from ...actors.agent.runs import Verification

        self.require("read")
        address = await find_run(self.store, given)
        run_id = run_id_of(address)
        if await self.store.actor(address) is None:
            return run_id, Verification(True, 0, [])  # recorded only: nothing has happened, and nothing is kept
        return run_id, await self._runs_at(address).verify(run_id)

    # --- changing ----------------------------------------------------------------------------------------------

    async def submit(
        self, app: "App", goal: str, *, run_id: str = "", client_id: str = "", budget: "Budget | None" = None
    ) -> Submitted:
        """Record a run of an application; whoever serves it begins it. `budget`: None for the usual one.

        With a `client_id` a repeated submission is the same submission: it names the run unless `run_id` does.

        Raises:
            UsageError: no goal, or an id that cannot be part of an address. BadMessage: a goal that is too large.
            Conflict: the id or client id was used for another goal.
        """
        from ...actors.agent.budget import Budget
        from ...actors.agent.messages import StartRun
        from ...actors.agent.runs import Runs

        self.require("operate")
        if not goal.strip():
            raise UsageError("a run needs a goal: say what the agent shall do")
        if client_id and not run_id:
            run_id = sha256(f"{app.runs} {client_id}".encode(errors="surrogatepass")).hexdigest()[:32]
        runs = Runs(self.client, app.runs)
        run_id = run_id or self.client.port.token()
        start = StartRun(goal, budget or Budget(), system_prompt=app.system_prompt, requested_by=self.principal)
        address = runs.address(run_id)
        client = self.client.audited(self.entry("submit", address, note=goal))
        try:
            new = await client.send(address, start, client_id=client_id or f"start {run_id}")
        except Conflict as error:
            if client_id or isinstance(error, MailboxFull):
                raise
            raise Conflict(
                f"there is a run {run_id} with another goal, budget or system prompt; take another id, or look at it: "
                f"`callboard show {run_id}`"
            ) from error
        return Submitted(run_id, address, new)

    async def tell(self, given: str, text: str) -> str:
        """Say something to a live run; its id. Raises as `run`, and Conflict where it has ended."""
        self.require("operate")
        if not text.strip():
            raise UsageError("expected something to say, got nothing")
        address = await find_run(self.store, given)
        await self._runs_at(address, self.entry("tell", address, note=text)).tell(
            run_id_of(address), text, by=self.principal
        )
        return run_id_of(address)

    async def fork(
        self, given: str, at: int | None = None, *, run_id: str = "", say: str = "", note: str = ""
    ) -> tuple[str, str]:
        """Record a run that goes on from event `at` of another one; the ids of both. Raises as `Runs.fork`."""
        self.require("operate")
        address = await find_run(self.store, given)
        origin = run_id_of(address)
        run_id = run_id or self.client.port.token()  # chosen here, so that the audit row names the fork
        runs = self._runs_at(address, self.entry("fork", address, after=run_id, note=note or say))
        new = await runs.fork(origin, at, new_id=run_id, say=say, note=note, by=self.principal)
        return origin, new

    async def cancel(self, given: str, *, reason: str = "") -> str:
        """Ask a run to begin nothing more and end; its id. Raises as `tell`."""
        self.require("operate")
        address = await find_run(self.store, given)
        runs = self._runs_at(address, self.entry("cancel", address, note=reason))
        await runs.cancel(run_id_of(address), by=self.principal, reason=reason)
        return run_id_of(address)


def _storable(text: str) -> str:
    """A text as a database can keep it: the message itself carries what this replaces."""
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()
