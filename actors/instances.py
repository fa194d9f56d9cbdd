"""What a supervisor does about the instances of its pools, of which there may be very many.

None of them is in its state for longer than something is to be done about it. One that fails is restarted alone, after
its own back-off and on its own restart intensity; over that it is abandoned, and stays failed: one bad run never stops
the others. Where more than a fifth of a pool fails within the window something common is broken: then the pool pauses,
and nothing is restarted before the window has passed. For its supervisor's stops and starts the pool is one child,
which walks through its instances page by page (`census`); each page is a recorded step.
"""

from typing import TYPE_CHECKING
from urllib.parse import quote

from ..mailbox.address import name_of
from ..mailbox.message import Message
from . import supervised as happened
from .census import ALIVE, EXPECTED, Count, Counted, Survey, Surveyed
from .restart import ReplyTo, restarts, within_window
from .roster import is_pool
from .spec import Child
from .supervisor_state import PoolState, Walk
from .system import NOBODY, Abandon, ChildDone, ChildRefused, InstanceDue, PoolDue, ShutdownOver, Start, Stop

if TYPE_CHECKING:
    from .supervision import Supervision

BREAKER_SHARE = 0.2
"""The part of a pool's instances that may fail within the window before the pool pauses."""
BREAKER_INSTANCES = 10
"""A pool with fewer than that never pauses: a fifth of it is one bad instance or two."""
FAILING_LIMIT = 1_000
"""Failing instances of one pool that are kept track of; with so many it pauses, whatever its size."""


class Instances:
    """The decisions about one supervisor's pools, on its state."""

    def __init__(self, machine: "Supervision") -> None:
        self.machine = machine
        self.state = machine.state
        self.effects = machine.effects

    def told(self, pool: str, message: Message) -> None:
        """The state machine tells a pool, as any child, to start or to stop."""
        known = self.of(pool)
        child = self.machine.child(pool)
        if isinstance(message, Start):
            if self.effects.fresh:
                self.machine.started(pool, child.incarnation + 1)  # there is none yet
                return
            known.walk = Walk("start")
        elif isinstance(message, Stop):
            final = self._spec(pool).restart == "temporary" and child.after == "restarting"
            if known.walk is not None and known.walk.kind == "stop":
                self._kill(pool, known.walk)
                return
            known.walk = Walk("stop", kill=message.kill, final=final)
        self._next_page(pool, known)

    # --- walking -----------------------------------------------------------------------------------------------

    def surveyed(self, message: Surveyed) -> None:
        """A page of a walk."""
        pool = name_of(message.pool)
        known = self.of(pool)
        walk = known.walk
        if walk is None or not walk.asked or message.serial != walk.serial:
            return
        walk.asked, walk.after, walk.more = False, message.after, bool(message.after)
        walk.any = walk.any or bool(message.found)
        if walk.kind == "stop":
            walk.left = [instance.name for instance in message.found]
            for instance in message.found:
                self.effects.tell(instance.name, Stop(instance.incarnation, kill=walk.kill, final=walk.final))
            self._give_time(pool, known)
        else:
            for instance in message.found:
                self.effects.tell(instance.name, Start(instance.incarnation + 1))
        self._go_on(pool, known)

    def _go_on(self, pool: str, known: PoolState) -> None:
        walk = known.walk
        if walk is None or walk.left or walk.asked:
            return
        if walk.kind == "stop" and not walk.more and walk.any:
            # Somebody may have come into being behind us: once more, until there is nobody.
            walk.any, walk.after, walk.more = False, "", True
        if walk.more:
            self._next_page(pool, known)
            return
        known.walk = None
        child = self.machine.child(pool)
        if walk.kind == "stop":
            self.effects.forget(f"shutdown:{pool}")
            reason = "killed" if walk.kill else "shutdown"
            self.machine.down(pool, child.incarnation, reason, abnormal=False)
        elif walk.kind == "start":
            self.machine.started(pool, child.incarnation + (child.incarnation == 0))

    def _next_page(self, pool: str, known: PoolState) -> None:
        walk = known.walk
        assert walk is not None
        standing = {"stop": ["active", "parked"], "start": ["stopped", "failed"], "again": ["failed"]}[walk.kind]
        known.serial += 1
        walk.serial, walk.asked = known.serial, True
        self.effects.ask_census(Survey(f"{self.effects.address}/{pool}", standing, walk.serial, walk.after))

    def ask_again(self) -> None:
        """The census did not answer: everything that was asked of it is asked once more."""
        for pool, known in self.state.pools.items():
            if known.walk is not None and known.walk.asked:
                self._next_page(pool, known)
            known.counting = False
        if self.state.counts:
            self._count()

    def _give_time(self, pool: str, known: PoolState) -> None:
        seconds = self._spec(pool).shutdown_seconds
        walk = known.walk
        if walk is not None and walk.left and not walk.kill and 0 < seconds < float("inf"):
            self.effects.wake(f"shutdown:{pool}", seconds, ShutdownOver(pool, walk.serial))

    def overdue(self, pool: str, serial: int) -> None:
        """A page of instances has had its time to stop; or a single one (`name:key`)."""
        if ":" in pool:
            if pool in self.of(name_of(pool)).stopping:
                self.effects.tell(pool, Stop(0, kill=True, final=True))
            return
        walk = self.of(pool).walk
        if walk is not None and walk.kind == "stop" and walk.serial == serial:
            for name in walk.left:
                self.effects.tell(name, Stop(0, kill=True, final=walk.final))

    def _kill(self, pool: str, walk: Walk) -> None:
        walk.kill = True
        for name in walk.left:
            self.effects.tell(name, Stop(0, kill=True, final=walk.final))

    # --- what instances say ------------------------------------------------------------------------------------

    def started(self, name: str, incarnation: int) -> None:
        """An instance runs."""
        for reply_to in self.of(name_of(name)).starting.pop(name, []):
            self.effects.answer(reply_to, ChildDone(name, incarnation))

    def stopped(self, name: str, incarnation: int, reason: str) -> None:
        """An instance has stopped, as it was told."""
        pool = name_of(name)
        known = self.of(pool)
        told_to = known.walk is not None and known.walk.kill and name in known.walk.left
        if reason == "killed" and not told_to and self._spec(pool).shutdown_seconds > 0:
            self.effects.record(happened.ShutdownError(name, incarnation, reason))
        if name in known.stopping:
            self.effects.forget(f"shutdown:{name}")
            answer = ChildRefused(name, "not_found") if reason == NOBODY else ChildDone(name, incarnation)
            for reply_to in known.stopping.pop(name):
                self.effects.answer(reply_to, answer)
        self._off(pool, known, name)

    def _off(self, pool: str, known: PoolState, name: str) -> None:
        if known.walk is not None and name in known.walk.left:
            known.walk.left.remove(name)
            self._go_on(pool, known)

    def failed(self, name: str, incarnation: int, reason: str, *, starting: bool = False) -> None:
        """An instance has failed: it could not start or stop, its message was given up, or it was killed."""
        pool = name_of(name)
        known = self.of(pool)
        if name in known.starting:
            for reply_to in known.starting.pop(name):
                self.effects.answer(reply_to, ChildRefused(name, reason))
            self.effects.tell(name, Abandon(incarnation))
            return
        if name in known.stopping or (known.walk is not None and name in known.walk.left):
            if not self.machine.is_killed():
                self.effects.record(happened.ShutdownError(name, incarnation, reason))
            if name in known.stopping:
                self.effects.tell(name, Abandon(incarnation))
            self.stopped(name, incarnation, reason)
            return
        kind = happened.StartFailed if starting else happened.ChildTerminated
        self.effects.record(kind(name, incarnation, reason))
        if not restarts(self._spec(pool).restart, abnormal=True):
            self.effects.tell(name, Abandon(incarnation))
        elif self._is_open(pool) and self._counts(pool, known, name, incarnation, reason):
            self._restart(known, name, incarnation)

    def _counts(self, pool: str, known: PoolState, name: str, incarnation: int, reason: str) -> bool:
        """Whether this instance may be started again now."""
        if known.paused_until:
            return False  # and nothing more is kept of it: all that waits is found when the pool goes on
        now, within = self.effects.now, self.machine.spec.within
        known.failures.setdefault(name, []).append(now)
        failures = {key: within_window(times, now, within) for key, times in known.failures.items()}
        known.failures = {key: times for key, times in failures.items() if times}
        if len(known.failures[name]) > self.machine.spec.max_restarts:
            del known.failures[name]
            self.effects.record(happened.InstanceAbandoned(name, incarnation, reason))
            self.effects.tell(name, Abandon(incarnation))
            return False
        if len(known.failures) >= FAILING_LIMIT:
            self._pause(pool, known)
        elif len(known.failures) > BREAKER_SHARE * max(known.population, BREAKER_INSTANCES) and not known.counting:
            known.counting = True
            self.effects.ask_census(Count([f"{self.effects.address}/{pool}"], EXPECTED, "breaker"))
        return not known.paused_until

    def _restart(self, known: PoolState, name: str, incarnation: int) -> None:
        backoff = self.machine.spec.backoff
        if backoff is None:
            self.effects.tell(name, Start(incarnation + 1))
            return
        delay = backoff.delay_seconds(len(known.failures[name]), self.effects.chance())
        self.effects.wake(f"restart:{name}", delay, InstanceDue(name, incarnation))

    def due(self, name: str, incarnation: int) -> None:
        """An instance's back-off is over; where its pool stands still, it is started with the others later."""
        pool = name_of(name)
        if self._is_open(pool) and not self.of(pool).paused_until:
            self.effects.tell(name, Start(incarnation + 1))

    # --- the breaker -------------------------------------------------------------------------------------------

    def counted(self, message: Counted) -> None:
        """How many instances there are."""
        if message.purpose != "breaker":
            counts, self.state.counts = self.state.counts, []
            for reply_to in counts:
                self.effects.answer(reply_to, self.machine.count(sum(message.found.values())))
            return
        for address, found in message.found.items():
            pool = name_of(address)
            known = self.of(pool)
            failing = len(known.failures)
            known.counting, known.population = False, found
            if known.population >= BREAKER_INSTANCES and failing > BREAKER_SHARE * known.population:
                self._pause(pool, known)

    def _pause(self, pool: str, known: PoolState) -> None:
        if known.paused_until or not self._is_open(pool):
            return
        seconds = self.machine.spec.within
        known.paused_until = self.effects.now + seconds
        self.effects.record(happened.PoolPaused(pool, len(known.failures), known.population, seconds))
        self.effects.wake(f"pool:{pool}", seconds, PoolDue(pool))

    def resume(self, pool: str) -> None:
        """The window has passed."""
        known = self.of(pool)
        if not known.paused_until:
            return
        self.effects.record(happened.PoolResumed(pool, len(known.failures)))
        known.paused_until, known.failures, known.population = 0.0, {}, 0
        if self._is_open(pool) and known.walk is None:
            known.walk = Walk("again")
            self._next_page(pool, known)

    # --- on demand ---------------------------------------------------------------------------------------------

    def start(self, pool: str, key: str, reply_to: ReplyTo) -> None:
        """One instance, now."""
        known = self.of(pool)
        name = f"{pool}:{quote(key, safe='')}"
        if not self._is_open(pool):
            self.effects.answer(reply_to, ChildRefused(name, "stopping"))
        elif known.paused_until:
            self.effects.answer(reply_to, ChildRefused(name, "paused"))
        elif name in known.starting:
            known.starting[name].append(reply_to)
        else:
            known.starting[name] = [reply_to]
            self.effects.tell(name, Start(0))

    def terminate(self, name: str, reply_to: ReplyTo) -> None:
        """One instance, for good."""
        known = self.of(name_of(name))
        seconds = self._spec(name_of(name)).shutdown_seconds
        if name in known.stopping:
            known.stopping[name].append(reply_to)
            return
        known.stopping[name] = [reply_to]
        self.effects.forget(f"restart:{name}")
        self.effects.tell(name, Stop(0, kill=seconds <= 0, final=True))
        if 0 < seconds < float("inf"):
            self.effects.wake(f"shutdown:{name}", seconds, ShutdownOver(name, 0))

    def count(self, reply_to: ReplyTo) -> None:
        """Answer with how many children there are, once the census has said it."""
        self.state.counts.append(reply_to)
        self._count()

    def _count(self) -> None:
        pools = [f"{self.effects.address}/{s.name}" for s in self.machine.spec.children if is_pool(s)]
        self.effects.ask_census(Count(pools, ALIVE))

    # --- looking things up -------------------------------------------------------------------------------------

    def of(self, pool: str) -> PoolState:
        return self.state.pools.setdefault(pool, PoolState())

    def _spec(self, pool: str) -> Child:
        spec = self.machine.spec_of(pool)
        assert isinstance(spec, Child)
        return spec

    def _is_open(self, pool: str) -> bool:
        """Whether its instances run, as far as its supervisor goes."""
        child = self.machine.find(pool)
        return self.state.end is None and child is not None and child.status in ("running", "starting")
