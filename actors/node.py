"""A node: a process's share of the actors, and the loops that keep them going.

    reader      brings waiting messages and rows into memory        (reader.py)
    pump        runs turns                                          (cells.py, turn.py)
    pools       run model and tool calls                            (pool.py)
    committer   writes batches; hand-over and wake-ups follow       (committer.py)
    timers      fire what is due                                    (timers.py)
    ownership   takes and gives shards, takes over from the dead    (ownership.py)

A node that learns that it was superseded (StaleEpoch) forgets everything at once and joins anew under another number.
While the database does not answer, nothing is lost and nothing is charged: turns pause, and all goes on when it does.
"""

import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress

import anyio
import anyio.abc
import msgspec

from ..mailbox.address import shard_of
from ..mailbox.envelope import DeadLetter, Envelope, seal
from ..mailbox.errors import BadRow, StaleEpoch, StoreUnavailable
from ..mailbox.ids import IdClock
from ..mailbox.lane import Lane
from ..persistence.port import Port, RealPort, Signal
from ..persistence.store import NodeInfo, Session, Store
from ..persistence.unit import Unit
from .cell import Cell
from .cells import Cells
from .committer import Committer, Entry
from .journal import JournalTail
from .ownership import Ownership
from .pool import WorkerPool
from .reader import Reader
from .spec import Tree
from .system import Boot
from .timers import Timers
from .turn import TurnRunner, Undeliverable, turn_row

log = logging.getLogger(__name__)

RECONNECT_FIRST_SECONDS = 0.1
RECONNECT_CAP_SECONDS = 2.0
REJECTED_FIRST_SECONDS = 0.05
REJECTED_CAP_SECONDS = 30.0
"""A turn that the store would not take is done again after a delay that grows from the one to the other."""
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
    ) -> None:
        self.store = store
        self.tree = tree
        self.port: Port = port or RealPort()
        self.settings = settings or NodeSettings()
        self.serves = serves
        """Shards of a guest node, which serves only these and is given no others; None: an ordinary node."""
        self.ready = anyio.Event()
        """Set once it owns what it found free and has begun to read it."""
        self.life: Life | None = None
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
                await self.port.sleep(RECONNECT_CAP_SECONDS)

    def stop(self) -> None:
        """Drain: finish or give back what is in hand, give the shards away, and end `run`."""
        self._stopping = True
        self._stop.set()


class Life:
    """A node between joining and leaving: one number, one epoch, one set of loops."""

    def __init__(self, node: Node, session: Session, info: NodeInfo) -> None:
        self.node = node
        self.session = session
        port, tree = node.port, node.tree
        self.port = port
        self.ids = IdClock(session.number, port.wall)
        self.runner = TurnRunner(tree, self.ids, port, session.number)
        self.cells = Cells(tree, self.runner, port)
        self.committer = Committer(session, port)
        self.ownership = Ownership(session, info, port, node.serves)
        self.journal = JournalTail(session.journal)
        self.pools = {
            address: WorkerPool(address, spec, self.cells, self.committer, self.runner, journal=self.journal.read)
            for address, spec in tree.workers.items()
        }
        self.reader = Reader(session, self.cells, self.committer, self.pools, ids=self.ids, owned=self._owned)
        self.timers = Timers(session, self.committer, self.ids, port, self._owned)
        self._elsewhere: set[tuple[int, str]] = set()
        self._notify = Signal()
        self._recovering = anyio.Lock()
        self._recovered = 0
        self._ticked = port.monotonic()
        self._group: anyio.abc.TaskGroup | None = None
        self._rejections: dict[str, int] = {}
        """Times in a row that an actor's unit was left out."""
        self._wire()

    def _owned(self) -> set[int]:
        return self.ownership.owned

    def _wire(self) -> None:
        cells, committer = self.cells, self.committer
        cells.wants_unit = committer.take_cell
        cells.wants_load = self.reader.load
        cells.wants_refill = self.reader.refill
        cells.gate = committer.has_room
        cells.refusals = self._refuse
        cells.untaken = self._untaken
        committer.is_mine = lambda shard: shard in self.ownership.owned
        committer.committed = self._committed
        committer.rejected = self._rejected
        committer.refused = self._refused
        committer.elsewhere = self._tell_elsewhere
        committer.recover = self.recover
        committer.doubt = self._doubt
        committer.after = self._after_commit
        self.timers.leaving = lambda: self.cells.leaving
        self.ownership.gained = self._gained
        self.ownership.hand_out = self.hand_out
        for pool in self.pools.values():
            pool.wants_sweep = self.reader.sweep

    # --- running -----------------------------------------------------------------------------------------------

    async def run(self, stop: Signal) -> None:
        """Until `stop` is raised.

        Raises:
            StaleEpoch: (in a group) superseded.
        """
        await self._start_clock()
        async with anyio.create_task_group() as group:
            self._group = group
            for pool in self.pools.values():
                pool.group = group
            for name, loop in {
                "committer": self.committer.run,
                "reader": self.reader.run,
                "timers": self.timers.run,
                "ownership": self.ownership.run,
                "watch": self.ownership.run_watch,
                "wake": self._run_wake,
                "notify": self._run_notify,
                "tick": self._run_tick,
            }.items():
                self.port.spawn(group, self._steady, loop, name=name)
            self.port.spawn(group, self.cells.pump, group, name="pump")
            await self._steadily(self.ownership.start)
            await self.session.start_heart(self._alive)
            self.node.ready.set()
            await stop.wait()
            await self.drain()
            group.cancel_scope.cancel()

    async def _start_clock(self) -> None:
        self.runner.clock_offset = await self.node.store.now() - self.port.wall()

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
        while True:
            self._ticked = self.port.monotonic()
            self.cells.shrink(self.node.settings.keep_actors)
            await self.port.sleep(1.0)

    async def _run_wake(self) -> None:
        while True:
            wake = await self.session.wake(1.0)
            if wake is None:
                continue
            if wake.members_changed:
                self.ownership.look()
            self.reader.sweep(set(self.ownership.owned if wake.shards is None else wake.shards & self.ownership.owned))

    async def _run_notify(self) -> None:
        while True:
            await self._notify.wait()
            recipients, self._elsewhere = self._elsewhere, set()
            if recipients:
                await self.session.notify(sorted(recipients))

    # --- after a commit ----------------------------------------------------------------------------------------

    def _committed(self, entry: Entry) -> None:
        unit, commit = entry.unit, self.committer.commits
        if entry.cell is not None:
            self.cells.acknowledged(entry.cell, unit.acks)
            if self._rejections:
                self._rejections.pop(entry.cell.address, None)
            self.cells.schedule(entry.cell)
        for timer in unit.timers:
            self.timers.committed(timer)
        if unit.events:
            self.journal.committed(unit.events)
        for envelope in unit.sends:
            if envelope.shard in self.ownership.owned:
                self._hand_over(envelope, commit)
        for identifier in unit.withdraws:
            for pool in self.pools.values():
                pool.cancel(identifier)
        if unit.withdraws:
            self.cells.retire(unit.withdraws)
        if unit.releases:
            self.reader.sweep({unit.shard})

    def _hand_over(self, envelope: Envelope, commit: int) -> None:
        pool = self.pools.get(envelope.recipient)
        if pool is not None:
            pool.deliver(envelope)
        else:
            self.cells.hand_over(envelope, commit)

    def _after_commit(self) -> None:
        self.cells.nudge()

    def _tell_elsewhere(self, recipients: list[tuple[int, str]]) -> None:
        self._elsewhere.update(recipients)
        self._notify.set()

    def _rejected(self, entry: Entry, reason: str) -> None:
        cell = entry.cell
        if cell is None:
            return
        for call, reply in entry.answers:
            self._untaken(call, reply)
        log.info("%s: its turn was not taken (%s), reading it again", cell.address, reason)
        times = self._rejections.get(cell.address, 0)
        self._rejections[cell.address] = times + 1
        # The first time at once: the row was simply read too early. Then ever later: it waits for somebody else.
        delay = 0.0 if not times else min(REJECTED_CAP_SECONDS, REJECTED_FIRST_SECONDS * 2.0 ** min(times, 20))
        fresh = self.cells.reload(cell, load=not delay)
        if fresh is not None and delay and self._group is not None:
            self.port.spawn(self._group, self._load_later, fresh, delay, name=f"reload {cell.address}")

    async def _load_later(self, cell: Cell, seconds: float) -> None:
        await self.port.sleep(seconds)
        self.reader.load(cell)

    def _refused(self, entry: Entry, error: BadRow) -> None:
        cell = entry.cell
        if cell is None:
            return
        for call, reply in entry.answers:
            self._untaken(call, reply)
        turns = [turn.id for turn in entry.unit.turns]
        log.warning("%s: the database refused what turn %s wrote: %s", cell.address, turns, error)
        if len(turns) == 1:
            self.cells.reload(cell, poison={turns[0]: error})
        else:
            self.cells.reload(cell, solo=True)

    def _untaken(self, call: Envelope, reply: Envelope) -> None:
        """The outcome of a call whose reply was to be handled in the same unit, which was not taken."""
        self.pools[call.recipient].store_outcome(call, reply)

    def _refuse(self, envelope: Envelope, why: Undeliverable) -> None:
        """A message to an address that this program's tree does not have."""
        now = self.port.wall() + self.runner.clock_offset
        unit = Unit(envelope.shard, acks=[envelope.id], dead=[DeadLetter(envelope, why.why, why.detail)])
        unit.turns.append(turn_row(envelope, 0, "dead", self.session.number, now))
        if envelope.reply_to:
            unit.sends.append(self.runner.ask_failed(envelope, why.why, why.detail))
        self.cells.seen.add(envelope.id)
        self.committer.submit(unit, lambda _: self.cells.retire([envelope.id]))

    # --- shards ------------------------------------------------------------------------------------------------

    def _doubt(self) -> None:
        """Read anew before anything is handed over; the number orders it after all reads that began before."""
        self.committer.commits += 1
        self.cells.doubt(self.committer.commits)
        self.reader.sweep(set(self.ownership.owned))

    def _gained(self, shards: set[int]) -> None:
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

    async def hand_out(self, to: int | None, count: int) -> None:
        """Give up to `count` shards that have nothing in hand to another node."""
        busy = {cell.shard for cell in self.cells.cells.values() if cell.busy}
        for pool in self.pools.values():
            busy |= pool.busy_shards()
        shards = set(sorted(self.ownership.owned - busy)[:count])
        if shards:
            await self._give(shards, to)

    async def _give(self, shards: set[int], to: int | None) -> None:
        self.cells.leaving |= shards

        async def give() -> None:
            # From here on no commit of ours names these shards; the new owner reads what we committed.
            await self.session.give(sorted(shards), to)

        try:
            await self.committer.between(give)
        finally:
            # Also when the answer was lost: what is ours after all is seen in the list of members, and gained anew.
            self.ownership.owned -= shards
            addresses = [cell.address for cell in self.cells.cells.values() if cell.shard in shards]
            self.journal.forget(addresses)
            for pool in self.pools.values():
                pool.forget_shards(shards)
            self.cells.forget_shards(shards)
        log.info("gave %d shards to %s", len(shards), to if to is not None else "nobody")

    async def drain(self) -> None:
        """Stop taking, finish or give back, hand the shards to the others."""
        self.ownership.draining = True
        with suppress(TimeoutError), self.port.deadline(self.node.settings.drain_seconds):
            await self._steadily(self.session.draining)
            self.cells.leaving |= self.ownership.owned
            for pool in self.pools.values():
                pool.stop()
            await self._calls_ended()
            await self.committer.flushed()
        # Whoever gets the shards begins these calls anew: none of them may still run by then.
        for pool in self.pools.values():
            pool.cancel_running()
        await self._calls_ended()
        heirs = [m.number for m in self.ownership.members if m.status == "up" and not m.guest]
        heirs = [number for number in heirs if number != self.session.number]
        owned = sorted(self.ownership.owned)
        for index, heir in enumerate(heirs):
            if share := set(owned[index :: len(heirs)]):
                await self._give(share, heir)
        if not heirs and owned:
            await self._give(set(owned), None)

    async def _calls_ended(self) -> None:
        while any(pool.running for pool in self.pools.values()):
            await self.port.sleep(0.02)
