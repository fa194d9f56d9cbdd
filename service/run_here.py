"""A run worked on by this process: a node for as long as the run moves, which tells what happens as it happens."""

import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import anyio

from ..actors.agent.runs import Recorded, Runs
from ..actors.app import App, Surroundings
from ..actors.node import Node
from ..mailbox.message import decode_tagged
from ..persistence.port import Port, RealPort
from ..persistence.store import Store
from .applications import opened
from .configuration import read_configuration
from .node_process import default_label, node_settings
from .operations import Operations
from .settings import Settings
from .views import RunView, Submitted
from .wiring import find_database, open_store_at

FIRST_LOOK_SECONDS = 0.05
CAP_LOOK_SECONDS = 0.5

Told = Callable[[Recorded], None]


async def run_here(
    app: App,
    settings: Settings,
    goal: str,
    *,
    options: Mapping[str, str],
    run_id: str = "",
    seconds: float = 3600.0,
    recorded: Callable[[Submitted], None],
    told: Told,
    port: Port | None = None,
) -> RunView:
    """Record a run, be a node of `app` until it rests (ended, or waits for people only), and show it.

    `recorded` is called once the run is safe in the database, `told` with each of its events. The same `run_id` and
    goal again go on with that run.

    Raises:
        TimeoutError: it did not rest within `seconds`; it goes on when a node serves it.
        StoreUnavailable, SchemaMismatch, ApplicationFailed, UsageError, Conflict: before it is recorded.
    """
    port = port or RealPort()
    label = default_label()
    dsn = await find_database(settings)
    configuration = read_configuration()
    surroundings = Surroundings(dsn, label, dict(options), configuration.tables)
    with _interrupted_by_sigterm():
        async with open_store_at(dsn, create=not settings.dsn) as store, opened(app, surroundings) as tree:
            operations = Operations(store, settings.principal, port)
            node = Node(store, tree, port, node_settings(settings, label))
            submitted = await operations.submit(app, goal, run_id=run_id, budget=configuration.budget)
            recorded(submitted)
            async with anyio.create_task_group() as group:
                port.spawn(group, node.run, name="node")
                await node.ready.wait()
                journal = _Journal(store, submitted.address, told)
                runs = Runs(operations.client, app.runs)
                await _follow(runs, submitted.run_id, journal, seconds=seconds, port=port)
                node.stop()
            return await operations.run(submitted.address)


@contextmanager
def _interrupted_by_sigterm() -> Iterator[None]:
    """In the block SIGTERM is a ctrl-C, so that what the application has opened is closed then too.

    Not where ctrl-C is ignored, as behind nohup: there SIGTERM has to end the process all the same.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        yield
        return
    before = signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


async def _follow(runs: Runs, run_id: str, journal: "_Journal", *, seconds: float, port: Port) -> None:
    """Tell the events of a run until it rests, all of them."""
    async with anyio.create_task_group() as group:
        port.spawn(group, journal.follow, port, name="follow")
        try:
            await runs.rest(run_id, seconds=seconds)
        except TimeoutError:
            raise TimeoutError(
                f"run {run_id} did not rest within {seconds:g} s; it goes on when a node serves it: "
                f"callboard show {run_id}"
            ) from None
        group.cancel_scope.cancel()
    await journal.look()


class _Journal:
    """Reads on in a journal."""

    def __init__(self, store: Store, address: str, told: Told) -> None:
        self._store = store
        self._address = address
        self._told = told
        self._seen = 0

    async def look(self) -> bool:
        """Tell what is new; whether there was anything."""
        rows = await self._store.journal(self._address, after=self._seen)
        for row in rows:
            self._seen = row.seq
            self._told(Recorded(row.seq, row.at, row.node, row.type, decode_tagged(row.type, row.body)))
        return bool(rows)

    async def follow(self, port: Port) -> None:
        """For ever; looks ever more seldom while nothing happens."""
        pause = FIRST_LOOK_SECONDS
        while True:
            pause = FIRST_LOOK_SECONDS if await self.look() else min(2 * pause, CAP_LOOK_SECONDS)
            await port.sleep(pause)
