"""Plays a case on our runtime, step by step, and says what each step showed.

A step is over when it has shown as much as is expected of it and nothing more comes without time passing; time passes
only as a step says, or as long as something expected is still to come. `crash_without_waiting` is over at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import anyio

from callboard.actors.system import (
    ChildCounts,
    ChildDone,
    ChildFailed,
    ChildRefused,
    Children,
    CountChildren,
    DeleteChild,
    Kill,
    ListChildren,
    RestartChild,
    StartChild,
    Stop,
    TerminateChild,
)
from callboard.mailbox.lane import Lane
from callboard.mailbox.message import Message
from callboard.mailbox.request import Request
from callboard.persistence.rows import ActorRow

from .cases import Case, Event, Step
from .cast import ADDED_KEY, Cast
from .expectation import Expected
from .foretell import CALLS
from .player import Act, plain_crash
from .recorder import Recorder
from .stages import Stage

PATIENCE_SECONDS = 1.5
"""How long a step waits for what is expected of it, beyond the times of the case itself."""


@dataclass(frozen=True)
class Shown:
    """What one step showed."""

    events: tuple[Event, ...]
    result: Any


class UnknownStep(Exception):
    """A step that this driver does not know."""


class Driver:
    """One case on one stage."""

    def __init__(  # noqa: PLR0917 - what a case is played with
        self, case: Case, cast: Cast, recorder: Recorder, stage: Stage, longest_ms: float, slower: float = 1.0
    ) -> None:
        self.case = case
        self.cast = cast
        self.recorder = recorder
        self.stage = stage
        self._limit = slower * PATIENCE_SECONDS + 2.0 * longest_ms * cast.scale / 1000.0

    async def play(self, step: Step, expected: Expected, begun: int) -> Shown:
        """Do one step; its events are those from number `begun` on."""
        self._wanted = begun + len(expected.events)
        result = await self._do(step)
        if step.do != "crash_without_waiting":
            if not expected.events and step.do not in ("wait", "settle"):
                await self.stage.heard()
            await self.stage.until(lambda: len(self.recorder.events) >= self._wanted, self._limit)
            await self.stage.settle()
        events = tuple(self.recorder.events[begun:])
        if step.do == "start_tree":
            result = _boot_result(self.case.tree["id"], events)
        return Shown(events, result)

    async def _do(self, step: Step) -> Any:
        match step.do:
            case "start_tree":
                return None
            case "wait" | "settle":
                await self.stage.advance(step.milliseconds * self.cast.scale / 1000.0)
            case "align_to_whole_second":
                now = self.stage.client.port.wall()
                await self.stage.advance(-now % 1.0)
            case "is_alive":
                return {one: await self._alive(one) for one in step.fields.get("ids", ())}
            case "crash" | "crash_without_waiting":
                await self._crash(step.text("target"), step.text("reason"))
            case "kill":
                await self._tell(step.text("target"), Kill("operator"), Lane.SYSTEM)
            case "shutdown":
                await self._tell(step.text("target"), Stop(0), Lane.SYSTEM)
            case "exit_signal_from_stranger":
                stranger = ChildFailed("/stranger", 1, step.text("reason"))
                await self._tell(step.text("target"), stranger, Lane.SYSTEM)
            case "crash_together_before_supervisor_reacts":
                await self._crash_together(step)
            case do if do in CALLS:
                return await self._call(step)
            case _:
                raise UnknownStep(f"unknown step {step.do!r}")
        return None

    async def _tell(self, target: str, message: Message, lane: Lane = Lane.NORMAL) -> None:
        address = self.cast.addresses.get(target)
        if address is None:
            raise UnknownStep(f"there is nobody called {target!r} in this tree")
        await self.stage.client.send(address, message, lane=lane)

    async def _crash(self, target: str, reason: str) -> None:
        """Only who is there now: with us, what comes to one that is down waits until it is started again."""
        row = await self._row(target)
        if row is not None and row.status == "active":
            await self._tell(target, Act(reason, row.incarnation))

    async def _row(self, id: str) -> ActorRow | None:
        address = self.cast.addresses.get(id)
        return None if address is None else await self.stage.store.actor(address)

    async def _alive(self, id: str) -> bool:
        row = await self._row(id)
        return row is not None and row.status == "active"

    async def root_is_alive(self) -> bool:
        """Whether the whole is still there."""
        return await self._alive(self.case.tree["id"])

    async def _crash_together(self, step: Step) -> None:
        """Keep the supervisor from its mailbox until all of them are down."""
        life = self.stage.node.life
        assert life is not None
        address = self.cast.addresses[step.text("supervisor")]
        cell = life.cells.cells.get(address)
        await self.stage.settle()
        if cell is not None:
            cell.busy = True
        for target, reason in step.fields.get("crashes", ()):
            before = len(self.recorder.events)
            await self._crash(target, reason)
            await self.stage.until(lambda before=before: len(self.recorder.events) > before, self._limit)  # type: ignore[misc]
            await self.stage.settle()
        if cell is not None:
            cell.busy = False
            life.pump.schedule(cell)

    # --- calls -------------------------------------------------------------------------------------------------

    async def _call(self, step: Step) -> Any:
        supervisor = step.text("supervisor")
        address = self.cast.addresses.get(supervisor)
        if address is None:
            raise UnknownStep(f"there is no supervisor called {supervisor!r} in this tree")
        if not await self._alive(supervisor):
            return "error(noproc)"  # ours would answer, from what it remembers
        answer = await self._asked(address, self._question(step, supervisor))
        match answer:
            case ChildDone():
                return "ok"
            case ChildRefused():
                return f"error({self._why(step.do, answer.why)})"
            case Children():
                return [
                    {"id": self.cast.id_of(f"{address}/{view.id}"), "process": view.process, "kind": view.kind}
                    for view in answer.children
                ]
            case ChildCounts():
                return {name: getattr(answer, name) for name in ("specs", "active", "supervisors", "workers")}
            case _:
                return f"error({type(answer).__name__})"

    def _question(self, step: Step, supervisor: str) -> Request[Any]:
        child = self.cast.segment(supervisor, step.text("child"))
        match step.do:
            case "list_children":
                return ListChildren()
            case "count_children":
                return CountChildren()
            case "start_child":
                name = self.cast.added[supervisor, step.fields["spec"]["id"]]
                return (
                    StartChild(name, ADDED_KEY)
                    if name
                    else StartChild(self.cast.segment(supervisor, step.fields["spec"]["id"]))
                )
            case "start_instance":
                name, _, key = self.cast.name_instance(supervisor, step.text("name")).partition(":")
                return StartChild(name, key)
            case "terminate_instance":
                return TerminateChild(self.cast.segment(supervisor, step.text("name")))
            case "terminate_child":
                return TerminateChild(child)
            case "restart_child":
                return RestartChild(child)
            case _:
                return DeleteChild(child)

    @staticmethod
    def _why(do: str, why: str) -> str:
        why = plain_crash(why)
        return "already_started" if do == "start_child" and why in ("running", "restarting") else why

    async def _asked(self, address: str, question: Request[Any]) -> Message | None:
        answers: list[Message] = []

        async def ask() -> None:
            try:
                answers.append(await self.stage.client.ask(address, question, seconds=self._limit, lane=Lane.SYSTEM))
            except TimeoutError:
                return

        async with anyio.create_task_group() as group:
            group.start_soon(ask)
            await self.stage.until(lambda: bool(answers), self._limit)
            group.cancel_scope.cancel()
        return answers[0] if answers else None


def _boot_result(root: str, events: Sequence[Event]) -> str:
    """A start that failed ended the root for the reason that a child did not start."""
    for event in events:
        if event[0] == "exit" and event[1] == root and event[3].startswith(("failed_to_start", "invalid_spec")):
            return f"error({event[3]})"
    return "ok"
