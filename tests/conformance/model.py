"""A model of OTP's supervisor, and of the six decisions in which ours is meant to differ.

It is written from OTP's documented behaviour and checked against the recordings: as OTP it must show what they show
(`test_model.py`). As `ours` it makes the expectation for the cases that are not to be the same:

    a group restart leaves a finished or stopped sibling alone          (OTP starts it again, as it does with all
        children of a supervisor that is started again; ours only with those that it did not leave finished or stopped)
    a supervisor that gives up has ended abnormally                     (OTP: `shutdown`, which is clean)
    the restart window is a true one                                    (OTP compares whole clock seconds)
    the instances of a pool have a counter each                         (OTP: one for all of them)
    a clean end after a stop request is no error                        (OTP reports one of a permanent child)
    what is below a supervisor has ended before it has, and before a replacement starts (OTP leaves orphans)
"""

from dataclasses import dataclass, field
from typing import Any

from .behaviour import INFINITY, invalid, is_clean, shutdown_ms
from .processes import Process, Started, WorkerProcess, World


@dataclass
class Slot:
    """A child of a supervisor: its spec and what is there of it."""

    spec: dict[str, Any]
    process: "Process | None" = None
    restarting: bool = False
    resting: bool = False
    """Finished, or stopped on request: no process, and none wanted."""
    paused: bool = False
    """Stopped on request."""
    name: str = ""
    """Of an instance."""
    restarts: list[float] = field(default_factory=list)

    @property
    def running(self) -> bool:
        return self.process is not None

    @property
    def restart(self) -> str:
        return str(self.spec.get("restart", "permanent"))


class SupervisorProcess(Process):
    """An OTP supervisor; `ours` is this runtime's."""

    def __init__(self, world: World, spec: dict[str, Any], parent: Process | None, *, ours: bool) -> None:
        self.spec = spec
        self.ours = ours
        self.strategy = spec.get("strategy", "one_for_one")
        self.pool = self.strategy == "simple_one_for_one"
        children = spec.get("children", [])
        self.slots = [] if self.pool else [Slot(child) for child in children]
        self.deleted: set[str] = set()
        if ours and not self.pool and spec["id"] in world.kept:
            self._remember(*world.kept[spec["id"]])
        self.template = children[0] if self.pool and children else None
        self.restarts: list[float] = []
        self.gave_up = False
        self.by_significant = False
        super().__init__(world, spec["id"], parent)

    # --- its life ----------------------------------------------------------------------------------------------

    async def run(self) -> None:
        self.world.log("start", self.id, self.incarnation)
        if wrong := invalid(self.spec):
            self._boot_failed(wrong)
            return
        failed = await self._start_all([slot for slot in self.slots if not slot.resting])
        if failed is not None:
            slot, reason = failed
            await self._stop_all()
            self._boot_failed(f"failed_to_start({slot.spec['id']},{reason})")
            return
        self.started.open(("ok", ""))
        while (message := await self.receive()) is not None:
            match message:
                case ("stop", reason):
                    await self._stop_all()
                    self.end(reason)
                case ("exit", process, reason):
                    await self._ended(process, reason)
                case ("again", slot):
                    if slot in self.slots and slot.restarting:
                        await self._restart(slot)
                case ("call", what, argument, gate):
                    gate.open(await getattr(self, f"_{what}")(argument))
            if not self.alive:
                return

    def _boot_failed(self, reason: str) -> None:
        self.world.log("exit", self.id, self.incarnation, reason)
        self.gone(reason, quietly=True)
        self.started.open(("error", reason))

    async def _give_up(self) -> None:
        await self._stop_all()
        self.end("shutdown")

    def after_end(self, reason: str) -> None:
        for slot in reversed(self.slots):
            # One that is being stopped is not linked any more, and learns nothing.
            if slot.process is not None and slot.process.alive and slot.process.linked:
                slot.process.exit_signal(reason)

    def _remember(self, kept: list[Slot], deleted: set[str]) -> None:
        """What is durable outlives its supervisor: a finished or stopped child stays so, an added one stays."""
        known = {slot.spec["id"]: slot for slot in kept}
        ours = {slot.spec["id"] for slot in self.slots}
        self.deleted = deleted
        self.slots = [slot for slot in self.slots if slot.spec["id"] not in deleted]
        self.slots += [Slot(slot.spec) for slot in kept if slot.spec["id"] not in ours]
        for slot in self.slots:
            before = known.get(slot.spec["id"])
            if before is not None:
                slot.resting, slot.paused = before.resting, before.paused

    def end(self, reason: str) -> None:
        if self.ours and self.alive:
            if self.by_significant:
                # All that it was there for is done, so the next one begins anew; but for what an operator stopped.
                for slot in self.slots:
                    slot.resting = slot.resting and slot.paused
            self.world.kept[self.id] = (self.slots, self.deleted)
            for slot in reversed(self.slots):
                if slot.process is not None and slot.process.alive:
                    slot.process.linked = False
                    slot.process.end("killed")
        super().end(reason)

    def _report(self, context: str, reason: str, slot: Slot) -> None:
        self.world.log("report", self.id, context, reason, slot.spec["id"])

    # --- starting and stopping ---------------------------------------------------------------------------------

    async def _start(self, slot: Slot) -> Started:
        """Start one child and wait for it; the slot is as it says afterwards."""
        process: Process
        if slot.spec["kind"] == "supervisor":
            process = SupervisorProcess(self.world, slot.spec, self, ours=self.ours)
        else:
            process = WorkerProcess(self.world, slot.name or slot.spec["id"], self, slot.spec)
        outcome: Started = await process.started
        slot.process = process if outcome[0] == "ok" else None
        slot.restarting = slot.resting = slot.paused = False
        if outcome[0] == "ignored" and slot.restart == "temporary":
            self._forget(slot)
        return outcome

    async def _start_all(self, slots: list[Slot]) -> tuple[Slot, str] | None:
        for slot in list(slots):
            outcome, reason = await self._start(slot)
            if outcome == "error":
                self._report("start_error", reason, slot)
                return slot, reason
        return None

    async def _stop_all(self, slots: list[Slot] | None = None) -> None:
        if self.pool:
            await self._stop_pool()
            return
        for slot in reversed(list(self.slots if slots is None else slots)):
            await self._stop(slot)
            if slot.restart == "temporary":
                self._forget(slot)

    async def _stop_pool(self) -> None:
        """All instances at once; only the order within each is fixed. One report for each kind of error."""
        running = [slot.process for slot in self.slots if slot.process is not None]
        errors: list[str] = []
        limit = shutdown_ms(self.template) if self.template is not None else INFINITY
        for process in running:
            process.linked = False
            process.monitor(self)
            process.exit_signal("shutdown") if limit else process.end("killed")
        end = self.world.clock.now + limit
        for process in running:
            reason = await self._down(process, max(0.0, end - self.world.clock.now))
            fine = limit == 0 or is_clean(reason)
            if not fine and (self.ours or reason not in errors):
                errors.append(reason)
        for reason in errors:
            self.world.log("report", self.id, "shutdown_error", reason, self.slots[0].spec["id"])

    async def _stop(self, slot: Slot) -> None:
        slot.restarting = False
        if slot.process is not None:
            await self._stop_process(slot, slot.process)
            slot.process = None

    async def _stop_process(self, slot: Slot, process: Process) -> None:
        for index, message in enumerate(self.mailbox):
            if message[0] == "exit" and message[1] is process:
                # It has ended by itself, and we have not been told yet.
                reason = str(self.mailbox.pop(index)[2])
                if not (reason == "normal" and slot.restart != "permanent"):
                    self._report("shutdown_error", reason, slot)
                return
        process.linked = False
        process.monitor(self)
        limit = shutdown_ms(slot.spec)
        if limit == 0:
            process.end("killed")
            await self._down(process, INFINITY)
            return
        process.exit_signal("shutdown")
        reason = await self._down(process, limit)
        fine = reason == "shutdown" or reason.startswith("shutdown(")
        if not fine and not (is_clean(reason) and (self.ours or slot.restart != "permanent")):
            self._report("shutdown_error", reason, slot)

    async def _down(self, process: Process, limit_ms: float) -> str:
        def is_it(message: tuple[Any, ...]) -> bool:
            return message[0] == "down" and message[1] is process

        message = await self.receive(is_it, None if limit_ms == INFINITY else limit_ms)
        if message is None:
            process.end("killed")
            message = await self.receive(is_it)
        assert message is not None
        return str(message[2])

    def _forget(self, slot: Slot) -> None:
        if slot in self.slots:
            self.slots.remove(slot)

    # --- restarting --------------------------------------------------------------------------------------------

    async def _ended(self, process: Process, reason: str) -> None:
        slot = next((slot for slot in self.slots if slot.process is process), None)
        if slot is None:
            return
        escalated = self.ours and isinstance(process, SupervisorProcess) and process.gave_up
        significant = bool(slot.spec.get("significant")) and self.spec.get("auto_shutdown", "never") != "never"
        if slot.restart == "permanent":
            self._report("child_terminated", reason, slot)
            await self._restart(slot)
            return
        slot.process = None
        cascades = significant and self._auto_shutdown()
        if slot.restart == "transient" and (not is_clean(reason) or (escalated and not cascades)):
            self._report("child_terminated", reason, slot)
            await self._restart(slot)
            return
        told = escalated and self.spec.get("auto_shutdown") == "all_significant" and slot.restart == "transient"
        if told or (slot.restart == "temporary" and not is_clean(reason)):
            self._report("child_terminated", reason, slot)
        slot.resting = True
        if slot.restart == "temporary" or self.pool:
            self._forget(slot)
        if cascades:
            self.gave_up, self.by_significant = escalated, True
            await self._give_up()

    def _auto_shutdown(self) -> bool:
        if self.spec["auto_shutdown"] == "any_significant":
            return True
        return not any(slot.running for slot in self.slots if slot.spec.get("significant"))

    def _counts(self, slot: Slot) -> bool:
        """One more restart; False when it is one too many."""
        times = slot.restarts if self.ours and self.pool else self.restarts
        now, period = self.world.clock.now, 1000.0 * self.spec.get("within_seconds", 5)
        if self.ours:
            kept = [at for at in times if now - at <= period]
        else:
            kept = [at for at in times if now // 1000 - at // 1000 <= period // 1000]
        times[:] = [*kept, now]
        return len(times) <= int(self.spec.get("max_restarts", 1))

    async def _restart(self, slot: Slot) -> None:
        if not self._counts(slot):
            await self._too_many(slot)
            return
        group: list[Slot]
        if self.strategy in ("one_for_one", "simple_one_for_one"):
            group = [slot]
        else:
            at = self.slots.index(slot) if self.strategy == "rest_for_one" else 0
            group = self.slots[at:]
            if self.ours:
                group = [other for other in group if other is slot or not other.resting]
            slot.process = None
            await self._stop_all(group)
        failed = await self._start_all([member for member in group if member in self.slots])
        if failed is not None:
            failed[0].restarting = True
            self.send("again", failed[0])

    async def _too_many(self, slot: Slot) -> None:
        slot.process, slot.restarting = None, False
        if self.ours and self.pool:
            # This instance only; the others have done nothing.
            self._forget(slot)
            return
        self._report("shutdown", "reached_max_restart_intensity", slot)
        self.gave_up = True
        await self._give_up()

    # --- calls -------------------------------------------------------------------------------------------------

    def _slot(self, id: str) -> Slot | None:
        return next((slot for slot in self.slots if id in (slot.name, slot.spec["id"])), None)

    async def _terminate_child(self, id: str) -> str:
        slot = self._slot(id)
        if self.pool:
            return "error(simple_one_for_one)"
        if slot is None:
            return "error(not_found)"
        await self._stop(slot)
        slot.resting = slot.paused = True
        if slot.restart == "temporary":
            self._forget(slot)
        return "ok"

    async def _terminate_instance(self, name: str) -> str:
        slot = next((slot for slot in self.slots if slot.name == name), None)
        if slot is None:
            return "error(not_found)"
        await self._stop(slot)
        self._forget(slot)
        return "ok"

    async def _delete_child(self, id: str) -> str:
        slot = self._slot(id)
        refusal = self._refusal(slot)
        if slot is not None and not refusal:
            self._forget(slot)
            self.deleted.add(id)
        return refusal or "ok"

    async def _restart_child(self, id: str) -> str:
        slot = self._slot(id)
        refusal = self._refusal(slot)
        if slot is None or refusal:
            return refusal
        outcome, reason = await self._start(slot)
        if outcome == "error":
            slot.resting = True
        return "ok" if outcome != "error" else f"error({reason})"

    def _refusal(self, slot: Slot | None) -> str:
        if self.pool:
            return "error(simple_one_for_one)"
        if slot is None:
            return "error(not_found)"
        if slot.restarting:
            return "error(restarting)"
        return "error(running)" if slot.running else ""

    async def _start_child(self, spec: dict[str, Any]) -> str:
        known = self._slot(spec["id"])
        if known is not None:
            return "error(already_started)" if known.running or known.restarting else "error(already_present)"
        self.deleted.discard(spec["id"])
        return await self._add(Slot(spec))

    async def _start_instance(self, name: str) -> str:
        assert self.template is not None
        return await self._add(Slot(self.template, name=name))

    async def _add(self, slot: Slot) -> str:
        outcome, reason = await self._start(slot)
        if outcome == "error":
            return f"error({reason})"
        if outcome == "ok" or not (self.pool or slot.restart == "temporary"):
            self.slots.append(slot)
        return "ok"

    async def _list_children(self, _: Any) -> list[dict[str, str]]:
        def process(slot: Slot) -> str:
            return "running" if slot.running else "restarting" if slot.restarting else "none"

        return [
            {"id": slot.name or slot.spec["id"], "process": process(slot), "kind": slot.spec["kind"]}
            for slot in reversed(self.slots)
        ]

    async def _count_children(self, _: Any) -> dict[str, int]:
        supervisors = sum(slot.spec["kind"] == "supervisor" for slot in self.slots)
        return {
            "specs": 1 if self.pool else len(self.slots),
            "active": sum(slot.running for slot in self.slots),
            "supervisors": supervisors,
            "workers": len(self.slots) - supervisors,
        }
