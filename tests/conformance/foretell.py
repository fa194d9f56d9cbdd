"""Run a case on the model: what OTP shows, or what ours is to show, step by step."""

from collections.abc import Sequence
from typing import Any

from .cases import Case, Event, Step
from .clockwork import Gate
from .model import SupervisorProcess
from .processes import Process, World

QUIET_MS = 1_000.0
LIMIT_MS = 60_000.0
LOOK_MS = 80.0
"""How long the recordings looked on after each thing that they did."""

CALLS = {
    "list_children": "",
    "count_children": "",
    "restart_child": "child",
    "terminate_child": "child",
    "delete_child": "child",
    "start_child": "spec",
    "start_instance": "name",
    "terminate_instance": "name",
}
"""Steps that ask a supervisor something, and the field that says what about."""


class Owner(Process):
    """Who starts the tree: linked and trapping."""

    def send(self, *message: Any) -> None:
        if message[0] == "exit":
            _, process, reason = message
            self.world.log("owner_notified", process.id, process.incarnation, reason)


class Model:
    """A case on the model."""

    def __init__(self, case: Case, *, ours: bool) -> None:
        self.case = case
        self.ours = ours
        self.world = World()
        self.owner = Owner(self.world, "", None)

    def run(self) -> list[tuple[list[Event], Any]]:
        """What each step shows: its events and its result."""
        told = []
        for step in self.case.steps:
            before = len(self.world.events)
            result = self._step(step)
            told.append((self.world.events[before:], result))
        return told

    def _step(self, step: Step) -> Any:
        world = self.world
        match step.do:
            case "start_tree":
                return self._start_tree()
            case "wait" | "settle":
                world.clock.advance(step.milliseconds)
                return None
            case "align_to_whole_second":
                world.clock.advance(-world.clock.now % 1000.0)
                return None
            case "is_alive":
                return {one: self._alive(one) for one in step.fields.get("ids", ())}
            case "crash_without_waiting":
                self._send(step.text("target"), "crash", step.text("reason"))
                return None
            case do if do in CALLS:
                result = self._call(step)
            case _:
                result = None
                self._signal(step)
        world.clock.rest(QUIET_MS, LIMIT_MS)
        world.clock.advance(LOOK_MS)
        return result

    def _start_tree(self) -> Any:
        root = SupervisorProcess(self.world, self.case.tree, self.owner, ours=self.ours)
        self.world.clock.rest(QUIET_MS, LIMIT_MS)
        outcome, reason = root.started.value
        if outcome == "ok":
            return "ok"
        self.world.log("owner_notified", root.id, root.incarnation, reason)
        return f"error({reason})"

    def _signal(self, step: Step) -> None:
        match step.do:
            case "crash":
                self._send(step.text("target"), "crash", step.text("reason"))
            case "kill":
                if self._alive(step.text("target")):
                    self.world.latest[step.text("target")].end("killed")
            case "shutdown":
                if self._alive(step.text("target")):
                    self.world.latest[step.text("target")].exit_signal("shutdown")
            case "crash_together_before_supervisor_reacts":
                supervisor = self.world.latest.get(step.text("supervisor"), self.owner)
                supervisor.paused = True
                for target, reason in step.fields.get("crashes", ()):
                    self._send(target, "crash", reason)
                    self.world.clock.run_ready()
                supervisor.resume()
            case "exit_signal_from_stranger":
                pass
            case _:
                raise ValueError(f"unknown step {step.do!r}")

    def _send(self, target: str, *message: Any) -> None:
        if self._alive(target):
            self.world.latest[target].send(*message)

    def _call(self, step: Step) -> Any:
        supervisor = self.world.latest.get(step.text("supervisor"))
        if supervisor is None or not supervisor.alive:
            return "error(noproc)"
        gate = Gate(self.world.clock)
        supervisor.send("call", step.do, step.fields.get(CALLS[step.do]), gate)
        self.world.clock.run_ready()
        end = self.world.clock.now + LIMIT_MS
        while not gate.is_open and self._alive(supervisor.id) and self.world.clock.now < end:
            self.world.clock.advance(1.0)
        return gate.value

    def _alive(self, id: str) -> bool:
        process = self.world.latest.get(id)
        return process is not None and process.alive


def per_id(events: Sequence[Event]) -> dict[str, list[Event]]:
    """The events of each id in their order."""
    found: dict[str, list[Event]] = {}
    for event in events:
        found.setdefault(event[1], []).append(event)
    return found
