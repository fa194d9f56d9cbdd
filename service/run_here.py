"""A run worked on by this process: a node for as long as the run moves, which tells what happens as it happens."""

import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import anyio
import msgspec

from ..actors.agent.runs import Runs
from ..actors.agent.streaming import Delta, watch
from ..actors.app import App, Surroundings
from ..actors.node import Node
from ..persistence.port import Port, RealPort
from .applications import opened
from .configuration import read_configuration
from .following import Journal, Told
from .node_process import default_label, node_settings
from .operations.principal import terminal_principal
from .operations.runs import Operations
from .operations.views import RunView, Submitted
from .settings import Settings
from .telemetry import traced
from .wiring import find_database, open_store_at

Heard = Callable[[Delta], None]


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
    heard: Heard | None = None,
    port: Port | None = None,
) -> RunView:
    """Record a run, be a node of `app` until it rests (ended, or waits for people only), and show it.

    `recorded` is called once the run is safe in the database, `told` with each of its events, `heard` (if given) with
    the words of its model's answers as they come. The same `run_id` and goal again go on with that run.

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
        async with (
            open_store_at(dsn, create=not settings.dsn) as store,
            traced(label, port) as spans,
            opened(app, surroundings) as tree,
        ):
            operations = Operations(store, terminal_principal(settings.principal), port)
            told_to_node = msgspec.structs.replace(node_settings(settings, label), stream=heard is not None)
            node = Node(store, tree, port, told_to_node, tracing=spans)
            submitted = await operations.submit(app, goal, run_id=run_id, budget=configuration.budget)
            recorded(submitted)
            async with anyio.create_task_group() as group:
                port.spawn(group, node.run, name="node")
                await node.ready.wait()
                journal = Journal(store, submitted.address, told)
                runs = Runs(operations.client, app.runs)
                await _follow(runs, submitted.run_id, journal, heard, seconds=seconds, port=port)
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


async def _follow(
    runs: Runs, run_id: str, journal: Journal, heard: Heard | None, *, seconds: float, port: Port
) -> None:
    """Tell the events of a run until it rests, all of them."""
    async with anyio.create_task_group() as group:
        port.spawn(group, journal.follow, port, name="follow")
        if heard is not None:
            port.spawn(group, _listen, runs, run_id, journal, heard, name="listen")
        try:
            await runs.rest(run_id, seconds=seconds)
        except TimeoutError:
            raise TimeoutError(
                f"run {run_id} did not rest within {seconds:g} s; it goes on when a node serves it: "
                f"callboard show {run_id}"
            ) from None
        group.cancel_scope.cancel()
    await journal.look()


async def _listen(runs: Runs, run_id: str, journal: Journal, heard: Heard) -> None:
    step = 0
    async for delta in watch(runs, run_id):
        if delta.step != step:
            step = delta.step
            await journal.look()  # that the model was asked is told before what it says
        heard(delta)
