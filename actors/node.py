"""A node: a process's share of the actors, and the loops that keep them going.

    reader      brings waiting messages and rows into memory        (reader.py)
    pump        runs turns                                          (pump.py, turn.py)
    pools       run model and tool calls                            (pool.py)
    committer   writes batches; hand-over and wake-ups follow       (committer.py)
    timers      fire what is due                                    (timers.py)
    ownership   takes shards, takes over from the dead              (ownership.py)
    handing     gives shards away                                   (handing.py)

A node that learns that it was superseded (StaleEpoch) forgets everything at once and joins anew under another number.
While the database does not answer, nothing is lost and nothing is charged: turns pause, and all goes on when it does.
"""

import logging
from collections.abc import Awaitable, Callable
from functools import partial

import anyio
import anyio.abc
import msgspec

from ..mailbox.address import shard_of
from ..mailbox.envelope import seal
from ..mailbox.errors import StaleEpoch, StoreUnavailable
from ..mailbox.ids import IdClock
from ..mailbox.lane import Lane
from ..persistence.port import Port, RealPort, Signal
from ..persistence.store import NodeInfo, Session, Store
from . import census
from .aftermath import Aftermath
from .blame import UNWATCHED, Blame
from .cells import Cells
from .charges import Charges
from .client import Client
from .clock import SYNC_SECONDS, StoreClock
from .committer import Committer
from .discarding import Discarding
from .echo import Echo
from .fullness import Fullness
from .gates import Gates
from .handing import Handing
from .journal import JournalTail
from .measuring import UNMEASURED, Measures
from .ownership import Ownership
from .pool import WorkerPool
from .pump import Pump
from .quarantine import Quarantine
from .reader import Reader
from .schemas import capabilities
from .spec import CENSUS, Tree
from .system import Boot
from .timers import Timers
from .traced import TracedPool, TracedTurns, trace_commits
from .tracing import OFF, Tracing
from .turn import TurnRunner

log = logging.getLogger(__name__)

RECONNECT_FIRST_SECONDS = 0.1
RECONNECT_CAP_SECONDS = 2.0
STUCK_SECONDS = 300.0
"""A loop that has not turned for so long is dead, whatever its process says."""


class NodeSettings(msgspec.Struct, frozen=True):
    """What a node may be told."""

    label: str = ""
    lease_seconds: float = 1.5
    """Taken over when silent for so long. Bounds take-over after a freeze; a kill is seen by the lock, at once."""
    beat_seconds: float = 0.25
    drain_seconds: float = 10.0
    """How long a leaving node waits for its running calls."""
    keep_actors: int = 20_000
    """Actors in memory; beyond it the idle ones are forgotten (they are on disk)."""
    passivate_seconds: float = 120.0
    """An actor that has been idle for so long is forgotten in any case."""
    mailbox_limit: int = 10_000
    """Messages in a mailbox above which actors that send to it are held back."""
    stream: bool = False
    """Its workers whisper what they do while they do it: the words of a model's answer, for people who watch."""


class Node:
    """One node. `run()` serves until cancelled or until `stop()`."""

    def __init__(
        self,
        store: Store,
        tree: Tree,
        port: Port | None = None,
        settings: NodeSettings | None = None,
        *,
        serves: frozenset[int] | None = None,
        blame: Blame = UNWATCHED,
        quarantine: Quarantine | None = None,
        measures: Measures = UNMEASURED,
        tracing: Tracing = OFF,
    ) -> None:
        self.store = store
        self.tree = tree
        self.port: Port = port or RealPort()
        self.settings = settings or NodeSettings()
        self.serves = serves
        """Shards of a guest node, which serves only these and is given no others; None: an ordinary node."""
        self.blame = blame
        """Where the handlers that run are written down for whoever watches this process."""
        self.quarantine = quarantine
        """Where messages that may have ended processes are tried; None: they are handled as any other."""
        self.measures = measures
        """Who counts what this node does."""
        self.tracing = tracing
        """Who records its turns and calls."""
        self.ready = anyio.Event()
        """Set once it owns what it found free and has begun to read it."""
        self.life: Life | None = None
        self.clock = StoreClock(self.port)
        self.stopped_for = ""
        """Why it has stopped without having been told to; "" otherwise."""
        self.drained = False
        """Whether it left with all finished that it had in hand; else that was given back, for others to begin."""
        self._stop = Signal()
        self._stopping = False

    async def run(self) -> None:
        """Serve, joining anew whenever it was superseded, until `stop()`."""
        while not self._stopping:
            info = NodeInfo(
                boot=self.port.token(),
                label=self.settings.label,
                lease_seconds=self.settings.lease_seconds,
                beat_seconds=self.settings.beat_seconds,
                guest=self.serves is not None,
                capabilities=capabilities(self.tree),
            )
            try:
                async with self.store.join(info, self.port) as session:
                    self.life = Life(self, session, info)
                    await self.life.run(self._stop)
            except* StaleEpoch as superseded:
                log.warning("node superseded, joining anew: %s", superseded.exceptions[0])
            except* StoreUnavailable as gone:
                if self.life is None:
                    raise
                log.warning("no store to join: %s", gone.exceptions[0])
                if not self._stopping:
                    await self.port.wait(self._stop, RECONNECT_CAP_SECONDS)

    @property
    def serves_now(self) -> bool:
        """Whether it serves in this moment: it has begun, its store answers, and nobody has told it to leave."""
        return self.ready.is_set() and not self._stopping and self.life is not None and self.life.in_touch

    def stop(self, reason: str = "") -> None:
        """Drain: finish or give back what is in hand, give the shards away, and end `run`.

        `reason`: why it stops by itself (`stopped_for`); whoever runs it should start another process in its place.
        """
        self.stopped_for = self.stopped_for or reason
        self._stopping = True
        self._stop.set()

    def out_of_memory(self, reason: str) -> None:
        """A handler found no memory left: give everything away while that still works."""
        if not self._stopping:
            log.error("out of memory, draining: %s", reason)
            self.stop(f"out of memory: {reason}")


class Life:
    """A node between joining and leaving: one number, one epoch, one set of loops."""

    def __init__(self, node: Node, session: Session, info: NodeInfo) -> None:
        self.node = node
        self.session = session
        port, tree = node.port, node.tree
        self.port = port
        self.ids = IdClock(session.number, port.wall)
        turns: Callable[..., TurnRunner] = TurnRunner
        pool: Callable[..., WorkerPool] = WorkerPool
        if node.tracing.on:
            turns, pool = partial(TracedTurns, tracing=node.tracing), partial(TracedPool, tracing=node.tracing)
        self.runner = turns(tree, self.ids, port, session.number, node.clock)
        self.cells = Cells(tree, port, node.clock)
        self.pump = Pump(self.cells, self.runner, port)
        self.committer = Committer(session, port)
        self.ownership = Ownership(session, info, port, node.serves)
        self.journal = JournalTail(session.journal)
        workers = {**tree.workers, CENSUS: census.spec_of(node.store)} if CENSUS in tree.workers else tree.workers
        reads, asks = self.journal.read, Client(node.store, port).ask
        self.pools = {
            address: pool(address, spec, self.cells, self.pump, self.committer, journal=reads, ask=asks)
            for address, spec in workers.items()
        }
        self.charges = Charges(self.cells, self.pools, self.committer, self.runner.outcomes)
        self.discarding = Discarding(
            self.cells, self.pools, self.committer, self.runner.outcomes, store=node.store, owned=self._owned
        )
        self.reader = Reader(session, self.cells, self.committer, self.pools, ids=self.ids, owned=self._owned)
        self.timers = Timers(session, self.committer, self.ids, port, self._owned)
        self.gates = Gates(tree, self.cells, node.store, port)
        self.fullness = Fullness(self.cells, self.pump, session, owned=self._owned, limit=node.settings.mailbox_limit)
        self.handing = Handing(
            self.cells,
            pump=self.pump,
            pools=self.pools,
            committer=self.committer,
            ownership=self.ownership,
            journal=self.journal,
        )
        self.aftermath = Aftermath(
            self.pump, self.pools, self.committer, reader=self.reader, timers=self.timers, journal=self.journal
        )
        self.echo = Echo(port, node.measures, owned=self._owned, call=self.aftermath.echo)
        self._recovering = anyio.Lock()
        self._recovered = 0
        self._ticked = port.monotonic()
        self._group: anyio.abc.TaskGroup | None = None
        self._wire()

    def _owned(self) -> set[int]:
        return self.ownership.owned

    def _wire(self) -> None:
        cells, pump, committer = self.cells, self.pump, self.committer
        pump.wants_unit = committer.take_cell
        self.runner.why_shut = self.gates.why_shut
        pump.gate = committer.has_room
        pump.calls_of = self.aftermath.calls_of
        pump.out_of_memory = self.node.out_of_memory
        cells.wants_turn = pump.schedule
        cells.interrupted = pump.interrupt
        cells.wants_load = self.reader.load
        cells.wants_refill = self.reader.refill
        cells.refusals = self.handing.stranger
        self.handing.refuse = self.aftermath.refuse
        cells.untaken = self.aftermath.untaken
        cells.takes = lambda read: self.charges.take(read) or self.discarding.take(read)
        cells.meets = self.charges.meet
        self.node.blame.clear()
        pump.blame, pump.trials.quarantine = self.node.blame, self.node.quarantine
        committer.is_mine = lambda shard: shard in self.ownership.owned
        committer.committed = self.aftermath.committed
        committer.rejected = self.aftermath.rejected
        committer.refused = self.aftermath.refused
        if self.node.tracing.on:
            trace_commits(committer, self.aftermath)
        committer.elsewhere = self.aftermath.elsewhere
        committer.recover = self.recover
        committer.doubt = self._doubt
        committer.after = pump.nudge
        self.timers.leaving = lambda: self.cells.leaving
        self.timers.waits = cells.waits
        self.ownership.gained = self._gained
        self.ownership.hand_out = self.handing.hand_out
        for pool in self.pools.values():
            pool.wants_sweep = self.reader.sweep
            pool.blame, pool.quarantine, pool.measures = self.node.blame, self.node.quarantine, self.node.measures
            pool.whisper = self.node.store.whisper if self.node.settings.stream else None
        self.runner.measures = self.runner.failures.measures = self.aftermath.measures = self.node.measures
        self.ownership.measures = self.reader.measures = self.node.measures

    # --- running -----------------------------------------------------------------------------------------------

    async def run(self, stop: Signal) -> None:
        """Until `stop` is raised.

        Raises:
            StaleEpoch: (in a group) superseded.
        """
        await self._sync_clock()
        async with anyio.create_task_group() as group:
            self._group = self.aftermath.group = self.discarding.group = group
            for pool in self.pools.values():
                pool.group = group
            for name, loop in {
                "committer": self.committer.run,
                "reader": self.reader.run,
                "timers": self.timers.run,
                "ownership": self.ownership.run,
                "watch": self.ownership.run_watch,
                "wake": self._run_wake,
                "notify": self.aftermath.run_notify,
                "tick": self._run_tick,
                "clock": self._run_clock,
                "handing": self.handing.run,
                "fullness": self.fullness.run,
                **({"gates": self.gates.run} if self.gates.pools else {}),
                **({"echo": self.echo.run} if self.node.measures.counts else {}),
            }.items():
                self.port.spawn(group, self._steady, loop, name=name)
            self.port.spawn(group, self.pump.run, group, name="pump")
            # Beside what follows: it is told to leave also while the store does not let it begin.
            self.port.spawn(group, self._begin, name="begin")
            await stop.wait()
            self.node.drained = await self.handing.drain(self.node.settings.drain_seconds, self._steadily)
            group.cancel_scope.cancel()

    @property
    def in_touch(self) -> bool:
        """Whether the store answers, as far as is known."""
        return not self._recovering.locked()

    async def _begin(self) -> None:
        await self._insist(self.gates.look)  # before there is anybody to begin
        await self._steadily(self.ownership.start)
        await self.session.start_heart(self._alive)
        self.node.ready.set()

    async def _sync_clock(self) -> None:
        asked_at = self.port.monotonic()
        self.node.clock.sync(await self.node.store.now(), asked_at)

    async def _run_clock(self) -> None:
        while True:
            await self.port.sleep(SYNC_SECONDS)
            await self._sync_clock()

    async def _steady(self, loop: Callable[[], Awaitable[None]]) -> None:
        """Run a loop that never ends, across outages of the store."""
        while True:
            await self._steadily(loop)

    async def _steadily(self, action: Callable[[], Awaitable[None]]) -> bool:
        """Run an action; where the store does not answer, return False once it does again."""
        seen = self._recovered
        try:
            await action()
        except StoreUnavailable as error:
            log.warning("the store does not answer: %s", error)
            await self.recover(seen)
            return False
        return True

    async def _insist(self, action: Callable[[], Awaitable[None]]) -> None:
        """Run an action until it went through."""
        while not await self._steadily(action):
            continue

    async def recover(self, seen: int | None = None) -> None:
        """Return once the store answers again under our epoch.

        Raises:
            StaleEpoch: it answers, and we were superseded.
        """
        before = self._recovered if seen is None else seen
        async with self._recovering:
            if seen is not None and self._recovered != before:
                return  # another loop has been here since ours began
            delay = RECONNECT_FIRST_SECONDS
            while not await self.session.reconnect():
                await self.port.sleep(delay)
                delay = min(2 * delay, RECONNECT_CAP_SECONDS)
            self._recovered += 1
            self.reader.sweep(set(self.ownership.owned))
            self.ownership.reconnected()

    def _alive(self) -> bool:
        """Whether the event loop still turns; asked from the heart's thread.

        A loop stuck for longer than a turn may last is as good as dead: the heart then stops and the lease decides.
        """
        return self.port.monotonic() - self._ticked < STUCK_SECONDS

    async def _run_tick(self) -> None:
        settings, passivate_at = self.node.settings, 0.0
        while True:
            self._ticked = self.port.monotonic()
            self.cells.shrink(settings.keep_actors)
            if self._ticked >= passivate_at:
                self.cells.passivate(settings.passivate_seconds)
                # A walk over all actors: not so often that it would be felt.
                passivate_at = self._ticked + settings.passivate_seconds / 10
            await self.port.sleep(1.0)

    async def _run_wake(self) -> None:
        while True:
            wake = await self.session.wake(1.0)
            if wake is None:
                continue
            self.echo.heard(wake)
            if wake.members_changed:
                self.ownership.look()
            self.reader.sweep(set(self.ownership.owned if wake.shards is None else wake.shards & self.ownership.owned))

    # --- shards ------------------------------------------------------------------------------------------------

    def _doubt(self) -> None:
        """Read anew before anything is handed over; the number orders it after all reads that began before."""
        self.committer.commits += 1
        self.cells.doubt(self.committer.commits)
        self.reader.sweep(set(self.ownership.owned))

    def _gained(self, shards: set[int]) -> None:
        self.handing.gained(shards)
        self._doubt()
        self.timers.look()
        if shard_of(self.node.tree.address) in shards:
            assert self._group is not None
            self.port.spawn(self._group, self._insist, self._boot, name="boot")

    async def _boot(self) -> None:
        """See that the tree is up: said by whoever comes to own its root; a root that knows this tree ignores it."""
        root = self.node.tree.address
        boot = seal(
            Boot(self.node.tree.digest),
            id=self.ids.next(),
            shard=shard_of(root),
            recipient=root,
            lane=Lane.SYSTEM,
        )
        await self.node.store.send([boot])
        self.reader.sweep({boot.shard})
