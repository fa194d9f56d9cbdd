"""What a supervisor decides: a state machine without I/O, in the manner of OTP's supervisor, by recorded steps.

Each step is a message to one child and its answer, so a supervisor whose node is killed goes on where it was.

Neighbours: `supervisor_state` (what is kept), `roster` (the children), `restart` (who goes with whom), `instances`
(pools), `on_demand` (what operators ask), `supervisor` (the actor that sends what is decided here), `supervised` (the
history). Invariants: at most one job; `starting` and `stopping` mean that the child was told and has not answered, so
nobody is told twice, and no incarnation is started before the end of the one before it came.
"""

from ..mailbox.message import Message
from . import supervised as happened
from .context import Event
from .instances import Instances
from .restart import STAYS_DOWN, UP, ChildState, plan_restart, restarts, shuts_down, within_window
from .roster import Roster, is_pool
from .spec import Supervisor
from .supervisor_state import ESCALATED, Effects, Ending, Job, SupervisorState, Waiting
from .system import Boot, ChildDone, ChildRefused, RestartDue, ShutdownOver, Start, Stop

IGNORED = "ignored"
"""The reason of a child that has declined its start where it was to be stopped anyway."""
BOOT_SECONDS = 5.0
"""How long a supervisor that is to end waits for one below it that is just starting, before that is told to stop."""


class Supervision(Roster):
    """The decisions of one supervisor, on its state."""

    def __init__(self, spec: Supervisor, state: SupervisorState, effects: Effects) -> None:
        super().__init__(spec, state, effects)
        self.instances = Instances(self)

    # --- being started and stopped -----------------------------------------------------------------------------

    def boot(self, tree: str) -> None:
        """Start all children in order; what has finished or was stopped by an operator stays down."""
        state = self.state
        anew = state.end is not None and state.end.auto
        state.end, state.job, state.waiting, state.restarted_at = None, None, [], []
        for child in state.children:
            if child.status not in UP and (child.status not in STAYS_DOWN or (anew and child.status == "ended")):
                child.status, child.failures = "waiting", 0
        temporary = self.temporary()
        state.removed = [name for name in state.removed if name not in temporary]
        self.adopt(tree)
        state.job = Job("boot", starts=self.with_status("waiting"))
        self.advance()

    def changed(self, tree: str) -> None:
        """The tree is another one: start what is new, forget what is gone, tell the supervisors below."""
        if self.busy():
            self.state.waiting.append(Waiting("tree", tree))
            self.advance()  # who is awaited may be in the tree no more
            return
        self.adopt(tree)
        for child in self.state.children:
            # One that is started now reads its spec anyway; one that runs must be told that it has changed.
            if child.status == "running" and isinstance(self.spec_of(child.name), Supervisor):
                self.effects.tell(child.name, Boot(tree))
        self.state.job = Job("restart", starts=self.with_status("waiting"))
        self.advance()

    def end(self, ending: Ending) -> None:
        """End, with all children stopped in reverse; the start or stop that is under way has its answer before that."""
        state = self.state
        if state.end is not None and state.job is not None and (state.end.kill or not ending.kill):
            return  # it is ending already
        self._drop_work()
        state.end = ending
        for child in state.children:
            if child.status not in UP:
                child.status = child.status if child.status in STAYS_DOWN else "stopped"
            elif child.after not in ("paused", "removed"):
                child.after = "stopped"
        up = [child for child in reversed(state.children) if child.status in UP]
        state.job = Job("end", stops=[child.name for child in up])
        for child in up:
            if ending.kill:
                child.status = "stopping"
                self.tell(child.name, Stop(child.incarnation, kill=True))
            elif child.status == "starting":
                self._let_start(child)
        self.advance()

    def _let_start(self, child: ChildState) -> None:
        """The end has come in the middle of its start, which is awaited for as long as its stop might take."""
        spec = self.spec_of(child.name)
        seconds = spec.shutdown_seconds
        if isinstance(spec, Supervisor):
            seconds = min(seconds, BOOT_SECONDS)
        if seconds <= 0 or is_pool(spec):
            self.ask_to_stop(child)
        elif seconds < float("inf"):
            self.effects.wake(f"shutdown:{child.name}", seconds, ShutdownOver(child.name, child.incarnation))

    def _drop_work(self) -> None:
        """Whoever waits for something that will not be done is told so. Deaths are kept: they are stops less."""
        state = self.state
        if state.job is not None and state.job.kind == "demand":
            for name in state.job.starts:
                self.effects.answer(state.job.reply_to, ChildRefused(name, "stopping"))
        for item in state.waiting:
            self.effects.answer(item.reply_to, ChildRefused(item.child, "stopping"))
        state.waiting = [item for item in state.waiting if item.kind == "died"]
        self.effects.forget("restart")
        for child in state.children:
            if child.status == "restarting":
                self.effects.forget(f"restart:{child.name}")

    # --- what children say -------------------------------------------------------------------------------------

    def started(self, name: str, incarnation: int) -> None:
        """A child runs."""
        child = self.find(name)
        if child is None or child.status not in UP:
            # Told to start and then overtaken by a stop: nobody wants it any more.
            self.effects.tell(name, Stop(incarnation))
        elif incarnation >= child.incarnation:
            child.incarnation, child.up = incarnation, True
            if child.status == "starting":
                self.effects.forget(f"shutdown:{name}")
                child.status, child.started_at = "running", self.effects.now
                if not self._is_to_stop(child):
                    child.after = ""
                self.effects.record(happened.ChildStarted(name, incarnation))
                self._step_done(name, ChildDone(name, incarnation))

    def ignored(self, name: str, incarnation: int) -> None:
        """A child has declined its start."""
        child = self.find(name)
        if child is None or child.status not in UP or incarnation < child.incarnation:
            return
        child.incarnation = incarnation
        if child.status == "starting" and not self._is_to_stop(child):
            self.effects.record(happened.StartIgnored(name, incarnation))
            child.status, child.after = "ignored", ""
            if name in self.temporary():
                self.remove(child)
            self._step_done(name, ChildDone(name, incarnation))
        elif child.status != "running":
            self._is_down(Waiting("died", name, incarnation, IGNORED), ended=False)
            self.advance()

    def down(
        self,
        name: str,
        incarnation: int,
        reason: str,
        *,
        abnormal: bool,
        ended: bool = False,
        cancelled: bool = False,
    ) -> None:
        """A child has ended: `abnormal` or not; `ended`: by itself, for good; `cancelled`: by a person."""
        child = self.find(name)
        if child is None or incarnation < child.incarnation:
            return
        if child.status == "stopping":
            child.incarnation = incarnation
            self._is_down(Waiting("died", name, incarnation, reason, abnormal, cancelled), ended=ended)
            self.advance()
        elif child.status == "starting" and abnormal and self._is_to_stop(child):
            child.incarnation = incarnation
            self._is_down(Waiting("died", name, incarnation, reason, abnormal), ended=False)
            self.advance()
        elif child.status == "starting" and abnormal:
            child.incarnation = incarnation
            self._start_failed(child, reason)
        elif child.status in ("starting", "running"):
            if child.status == "starting":
                self.started(name, incarnation)  # and ended in the same turn
            if any(item.kind == "died" and item.child == name for item in self.state.waiting):
                return
            self.state.waiting.append(Waiting("died", name, incarnation, reason, abnormal, cancelled))
            self.advance()

    def _is_to_stop(self, child: ChildState) -> bool:
        """Whether its turn to be stopped is still to come."""
        return self.state.job is not None and child.name in self.state.job.stops

    def overdue(self, name: str, incarnation: int) -> None:
        """A child that was asked to stop, or whose start the end has waited for, has had its time."""
        child = self.find(name)
        if child is None or incarnation not in (0, child.incarnation):
            return
        if child.status == "starting" and isinstance(self.spec_of(name), Supervisor):
            self.ask_to_stop(child)
        elif child.status in ("starting", "stopping"):
            child.status, child.killed = "stopping", True
            self.tell(name, Stop(incarnation, kill=True, final=child.after == "removed"))

    def due(self, name: str) -> None:
        """The back-off of a child, or of the group, is over."""
        self.state.waiting.append(Waiting("due", name))
        self.advance()

    # --- steps -------------------------------------------------------------------------------------------------

    def advance(self) -> None:
        """Go on as far as nobody has to answer first."""
        while not self.effects.paused or self.state.end is not None:
            job = self.state.job
            if job is None:
                if not self.state.waiting:
                    return
                self._take(self.state.waiting.pop(0))
            elif job.stops:
                if not self._stop_next(job):
                    return
            elif job.starts and job.kind != "end":
                if not self._start_next(job):
                    return
            else:
                self.state.job = None
                self._finished(job)

    def _take(self, item: Waiting) -> None:
        match item.kind:
            case "died":
                self._died(item)
            case "due":
                names = [item.child] if item.child else [child.name for child in self.state.children]
                starts = [name for name in self.with_status("restarting") if name in names]
                self.state.job = Job("restart", starts=starts)
            case "retry":
                child = self.find(item.child)
                if child is not None and child.status == "restarting":
                    self._restart(child, item.reason)
                elif self.spec.strategy != "one_for_one":
                    # An operator has stopped the one that failed: the others of its group go on without it.
                    self.state.job = Job("restart", starts=self.with_status("restarting"))
            case "tree":
                self.changed(item.child)
            case "start" | "restart":
                self.demanded(item)

    def _stop_next(self, job: Job) -> bool:
        """Ask the next one to stop; False when it was asked already, and has not answered."""
        if (
            job.kind == "end"
            and not self.is_killed()
            and (self.with_status("starting") or self.with_status("stopping"))
        ):
            return False
        child = self.find(job.stops[0])
        if child is None or child.status not in UP:
            job.stops.pop(0)
            return True
        for item in self.state.waiting:
            if item.kind == "died" and item.child == child.name:
                # It went down before its turn: one stop less, and no restart of its own.
                self.state.waiting.remove(item)
                self._is_down(item, ended=not item.abnormal)
                return True
        if child.status != "stopping":
            self.ask_to_stop(child)
        return False

    def ask_to_stop(self, child: ChildState) -> None:
        seconds = self.spec_of(child.name).shutdown_seconds
        child.status = "stopping"
        final = child.after == "removed"
        self.tell(child.name, Stop(child.incarnation, kill=seconds <= 0, final=final))
        if is_pool(self.spec_of(child.name)):
            return  # it gives the time to each page of its instances
        if 0 < seconds < float("inf"):
            self.effects.wake(f"shutdown:{child.name}", seconds, ShutdownOver(child.name, child.incarnation))

    def _is_down(self, item: Waiting, *, ended: bool) -> None:
        """A child that was to be stopped is down."""
        child, reason = self.child(item.child), item.reason
        seconds = self.spec_of(child.name).shutdown_seconds
        if child.status == "stopping" and 0 < seconds < float("inf"):
            self.effects.forget(f"shutdown:{child.name}")
        event: Event = happened.ChildStopped(child.name, child.incarnation, reason)
        if self.is_killed():
            pass  # whoever is dead reports no errors
        elif reason == IGNORED and not child.up:
            event = happened.StartIgnored(child.name, child.incarnation)
        elif item.abnormal and not child.up:
            event = happened.StartFailed(child.name, child.incarnation, reason)
        elif item.abnormal or child.killed or (ended and not item.cancelled and self._restarts(child, abnormal=False)):
            event = happened.ShutdownError(child.name, child.incarnation, reason)
        self.effects.record(event)
        after, asked = child.after, child.asked
        child.after, child.asked, child.up, child.killed = "", [], False, False
        if after == "removed":
            self.remove(child, failed=item.abnormal)
        elif item.cancelled or (ended and after != "paused" and not self._restarts(child, abnormal=False)):
            child.status = "ended"
        else:
            child.status = after or "stopped"  # type: ignore[assignment]
        for reply_to in asked:
            self.effects.answer(reply_to, ChildDone(child.name, child.incarnation))
        if self.state.job is not None and child.name in self.state.job.stops:
            self.state.job.stops.remove(child.name)

    def _start_next(self, job: Job) -> bool:
        """Start the next one; False when it was told already, and has not answered."""
        child = self.find(job.starts[0])
        if child is None or child.status not in ("waiting", "restarting", "starting"):
            job.starts.pop(0)
            return True
        if child.status != "starting":
            child.status, child.up = "starting", False
            # The first time the child says itself which incarnation it is: it may have been known here before.
            child.incarnation += child.incarnation > 0
            self.tell(child.name, Start(child.incarnation))
        return False

    def _step_done(self, name: str, answer: Message) -> None:
        job = self.state.job
        if job is not None and name in job.starts:
            job.starts.remove(name)
            if job.kind == "demand":
                self.effects.answer(job.reply_to, answer)
        self.advance()

    def _finished(self, job: Job) -> None:
        if job.kind == "boot":
            self.effects.booted()
        elif job.kind == "end":
            assert self.state.end is not None
            self.state.waiting = []
            self.effects.ended(self.state.end)

    # --- what follows ------------------------------------------------------------------------------------------

    def _died(self, item: Waiting) -> None:
        child = self.find(item.child)
        if child is None or child.status != "running" or item.incarnation < child.incarnation:
            return
        spec = self.spec_of(child.name)
        again = not item.cancelled and self._restarts(child, abnormal=item.abnormal)
        reported = item.abnormal or (spec.restart == "permanent" and not item.cancelled)
        kind = happened.ChildTerminated if reported else happened.ChildEnded
        self.effects.record(kind(child.name, item.incarnation, item.reason))
        escalated = item.abnormal and item.reason.startswith(ESCALATED)
        if spec.significant and (escalated or not (again or item.cancelled)) and self._shuts_down(child):
            self._gone(child, abnormal=item.abnormal)
            ending = Ending("stopped", "shutdown", auto=True)
            if escalated:  # a collapse is no completion, and must not look like one further up
                child.status = "stopped"
                ending = Ending("escalated", f"{ESCALATED}{child.name}: {item.reason.removeprefix(ESCALATED)}")
            self.end(ending)
        elif again:
            self._restart(child, item.reason)
        else:
            self._gone(child, abnormal=item.abnormal)

    def _restarts(self, child: ChildState, *, abnormal: bool) -> bool:
        return restarts(self.spec_of(child.name).restart, abnormal=abnormal)

    def _shuts_down(self, child: ChildState) -> bool:
        others = [c for c in self.state.children if c is not child and self.spec_of(c.name).significant]
        return shuts_down(self.spec.auto_shutdown, others)

    def _gone(self, child: ChildState, *, abnormal: bool) -> None:
        """It is not restarted."""
        child.status, child.up = "ended", False
        if child.name in self.temporary():
            self.remove(child, failed=abnormal)

    def _start_failed(self, child: ChildState, reason: str) -> None:
        job = self.state.job
        assert job is not None
        if child.name in job.starts:
            job.starts.remove(child.name)
        former, child.after = child.after, ""
        if job.kind == "demand":
            self.effects.answer(job.reply_to, ChildRefused(child.name, reason))
            child.status = former or "stopped"  # type: ignore[assignment]
            if former == "removed":
                self.remove(child, failed=True)
            self.advance()
            return
        self.effects.record(happened.StartFailed(child.name, child.incarnation, reason))
        child.status = "restarting"
        if job.kind == "boot":
            self.end(Ending("failed", f"failed_to_start({child.name},{reason})"))
        elif child.name in self.temporary():
            self.remove(child, failed=True)
            self.advance()
        else:
            self._retry(child, reason, job)
            self.advance()

    def _retry(self, child: ChildState, reason: str, job: Job) -> None:
        """A start in a restart has failed: again, all of it."""
        if self.spec.backoff is not None:
            self._restart(child, reason)
            return
        # After all that has come in meanwhile: an operator's stop must end the loop, a group restart makes it void.
        self.state.waiting.append(Waiting("retry", child.name, reason=reason))
        if self.spec.strategy != "one_for_one":
            job.starts.clear()

    def _restart(self, child: ChildState, reason: str) -> None:
        """Count, and plan: the stops at once, the starts when the back-off is over."""
        backoff = self.spec.backoff
        if backoff is not None and child.up and self.effects.now - child.started_at >= backoff.healthy_seconds:
            child.failures = 0
        child.failures += 1
        child.status, child.up = "restarting", False
        if not self._counts(child, reason):
            return
        plan = plan_restart(self.spec.strategy, self.state.children, child.name, self.temporary())
        for name in plan.starts:
            if (other := self.child(name)).status not in UP:
                other.status = "restarting"
        for name in plan.stops:
            if (other := self.child(name)).after not in ("paused", "removed"):
                other.after = "restarting" if name in plan.starts else "removed"
        before = self.state.job or Job("restart")
        under_way = [name for name in before.starts if name not in plan.starts]
        stops = [*before.stops, *(name for name in plan.stops if name not in before.stops)]
        group = "" if self.spec.strategy != "one_for_one" else child.name
        if backoff is not None:
            delay = backoff.delay_seconds(child.failures, self.effects.chance())
            self.effects.wake(f"restart:{group}" if group else "restart", delay, RestartDue(group))
        else:
            under_way = self.in_order([*plan.starts, *under_way])
        self.state.job = Job("restart", stops, under_way)

    def _counts(self, child: ChildState, reason: str) -> bool:
        """One more restart; False when that is one too many, and the supervisor gives up."""
        state, spec = self.state, self.spec
        state.restarted_at = [*within_window(state.restarted_at, self.effects.now, spec.within), self.effects.now]
        if len(state.restarted_at) <= spec.max_restarts:
            return True
        self.effects.record(happened.GaveUp("reached_max_restart_intensity", child.name))
        text = f"more than {spec.max_restarts} restarts in {spec.within:g} s; {child.name}: {reason}"
        self.end(Ending("escalated", f"{ESCALATED}{text}"))
        return False

    def demanded(self, item: Waiting) -> None:
        """What an operator asked has waited for a job to be done; `on_demand` says what it is."""
        self.effects.answer(item.reply_to, ChildRefused(item.child, "not_found"))

    def tell(self, name: str, message: Message) -> None:
        """To a child; a pool walks through its instances instead."""
        if is_pool(self.spec_of(name)):
            self.instances.told(name, message)
        else:
            self.effects.tell(name, message)
