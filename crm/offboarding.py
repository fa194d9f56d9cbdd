"""Closing an account, as a saga: three steps one after the other, and all taken back where one cannot be taken.

    asked ──▶ cancel_subscriptions ──▶ export ──▶ close ──▶ done
                      │                  │          │
                      └──────────────────┴──────────┴─ refused, or failed for good:
                              what was taken is undone, the last one first ──▶ undone, and a person is told

`offboard_account` (a tool that two people let go) writes what is asked. The `Offboarding` actor looks for such rows on
a durable timer and drives each by messages to the `Offboarder` worker; how far each is, is the actor's snapshot. A step
is one transaction under a key, so it may be said twice, by nodes that do not know of each other; one that comes after
the undoing has begun finds that, and does nothing (`closing.py`). So no step is lost or made twice, whatever dies.

What is taken back is taken back for as long as it takes: an account that is half closed is worse than one that waits.
"""

import logging
from collections.abc import Mapping
from typing import Any, Final, Literal, Protocol

import msgspec

from callboard.actors.actor import Actor, Worker, on
from callboard.actors.context import Context, WorkerContext
from callboard.actors.directives import Transient
from callboard.actors.retry import RetryPolicy
from callboard.mailbox.errors import StoreError, StoreUnavailable
from callboard.mailbox.message import Message

log = logging.getLogger(__name__)

Step = Literal["cancel_subscriptions", "export", "close"]
STEPS: Final[tuple[Step, ...]] = ("cancel_subscriptions", "export", "close")

LOOK_SECONDS = 5.0
"""Bounds how long an account that is to be closed waits for it. One node at a time has the timer."""
MAX_OPEN = 100
"""Accounts that are being closed at the same time; the others wait, asked."""
TRIES = 5
TELL_AFTER = 5
"""So many attempts at taking a step back, and a person is told; it goes on being tried."""
AGAIN_SECONDS = 60.0
"""Bounds how long an account is left alone when the runtime has given up a call about it."""


class Refused(Exception):
    """A step cannot be taken, and trying again does not help; the text says why, for people."""


class Opened(msgspec.Struct, frozen=True):
    """An account that is to be closed."""

    offboarding: str
    undoing: bool = False
    """It was being taken back when nobody knew of it any more."""
    why: str = ""


class Closing(Protocol):
    """What is done at the desk. Every method but `asked` may be called again, at any time, and is done once."""

    async def asked(self, limit: int) -> list[Opened]:
        """Accounts that are to be closed and are neither done nor undone, oldest first."""
        ...

    async def take(self, offboarding: str, step: Step) -> None:
        """Take a step; nothing where it was taken, or is being taken back.

        Raises:
            Refused: it cannot be taken.
        """
        ...

    async def undo(self, offboarding: str, step: Step, why: str) -> None:
        """From now on no step of this account is taken any more; put things back as they were before this one."""
        ...

    async def finish(self, offboarding: str, why: str) -> None:
        """It is done; or, where `why` is said, undone: then tell a person."""
        ...

    async def tell_stuck(self, offboarding: str, step: Step, why: str) -> None:
        """Tell a person that a step cannot be taken back so far."""
        ...


class Look(Message, tag="crm.offboarding.look"):
    """Timer: is there an account to close?"""


class FindAsked(Message, tag="crm.offboarding.find"):
    """Actor to worker: which accounts are to be closed?"""


class FoundAsked(Message, tag="crm.offboarding.found"):
    """Worker to actor."""

    found: list[Opened]


class TakeStep(Message, tag="crm.offboarding.take"):
    """Actor to worker."""

    offboarding: str
    step: Step


class StepTaken(Message, tag="crm.offboarding.taken"):
    """Worker to actor."""

    offboarding: str
    step: Step


class StepRefused(Message, tag="crm.offboarding.refused"):
    """Worker to actor: it cannot be taken, or has failed for good; whether it had an effect, nobody knows."""

    offboarding: str
    step: Step
    why: str


class UndoStep(Message, tag="crm.offboarding.undo"):
    """Actor to worker."""

    offboarding: str
    step: Step
    why: str


class StepUndone(Message, tag="crm.offboarding.step_undone"):
    """Worker to actor."""

    offboarding: str
    step: Step


class Finish(Message, tag="crm.offboarding.finish"):
    """Actor to worker: no step is left. `why`: it was taken back."""

    offboarding: str
    why: str = ""


class Finished(Message, tag="crm.offboarding.finished"):
    """Worker to actor."""

    offboarding: str


class GivenUp(Message, tag="crm.offboarding.given_up"):
    """Worker to actor: a call that must not be given up was, by the runtime; it is to be made again."""

    offboarding: str


class Again(Message, tag="crm.offboarding.again"):
    """Timer: make that call again."""

    offboarding: str


class Saga(msgspec.Struct):
    """How far an account is."""

    step: int = 0
    """Which of `STEPS` is being taken, or taken back; beyond its ends, none is left."""
    undoing: bool = False
    why: str = ""


class OffboardingState(msgspec.Struct):
    """The accounts that are being closed, and how many were."""

    open: dict[str, Saga] = msgspec.field(default_factory=dict)
    looking: bool = False
    done: int = 0
    undone: int = 0


class Offboarding(Actor[OffboardingState], kind="crm.offboarding"):
    """Drives every account that is to be closed from one step to the next, or back."""

    def __init__(self, offboarder: str, look_seconds: float = LOOK_SECONDS) -> None:
        self.offboarder = offboarder
        self.look_seconds = look_seconds

    def summary(self) -> Mapping[str, Any]:
        return {"open": len(self.state.open), "done": self.state.done, "undone": self.state.undone}

    def on_start(self, ctx: Context) -> None:
        self.state.looking = False
        ctx.schedule("look", self.look_seconds, Look(), every=self.look_seconds)

    @on
    def look(self, message: Look, ctx: Context) -> None:
        if not self.state.looking and len(self.state.open) < MAX_OPEN:
            self.state.looking = True
            ctx.send(self.offboarder, FindAsked())

    @on
    def found(self, message: FoundAsked, ctx: Context) -> None:
        self.state.looking = False
        for each in message.found:
            if each.offboarding in self.state.open or len(self.state.open) >= MAX_OPEN:
                continue
            # One that was being taken back is: which steps had been taken, the rows know.
            step = len(STEPS) - 1 if each.undoing else 0
            self.state.open[each.offboarding] = Saga(step, each.undoing, each.why)
            self._go_on(each.offboarding, ctx)

    @on
    def taken(self, message: StepTaken, ctx: Context) -> None:
        if self._is_at(message.offboarding, message.step, undoing=False):
            self.state.open[message.offboarding].step += 1
            self._go_on(message.offboarding, ctx)

    @on
    def refused(self, message: StepRefused, ctx: Context) -> None:
        if self._is_at(message.offboarding, message.step, undoing=False):
            saga = self.state.open[message.offboarding]
            saga.undoing, saga.why = True, f"{message.step}: {message.why}"
            self._go_on(message.offboarding, ctx)  # with this very step: it may have had an effect

    @on
    def step_undone(self, message: StepUndone, ctx: Context) -> None:
        if self._is_at(message.offboarding, message.step, undoing=True):
            self.state.open[message.offboarding].step -= 1
            self._go_on(message.offboarding, ctx)

    @on
    def finished(self, message: Finished, ctx: Context) -> None:
        saga = self.state.open.pop(message.offboarding, None)
        if saga is not None:
            self.state.undone += saga.undoing
            self.state.done += not saga.undoing

    @on
    def given_up(self, message: GivenUp, ctx: Context) -> None:
        ctx.schedule(f"again {message.offboarding}", AGAIN_SECONDS, Again(message.offboarding))

    @on
    def again(self, message: Again, ctx: Context) -> None:
        if message.offboarding in self.state.open:
            self._go_on(message.offboarding, ctx)

    def _is_at(self, offboarding: str, step: Step, *, undoing: bool) -> bool:
        """Whether this is the answer that is waited for, and not one that comes late or twice."""
        saga = self.state.open.get(offboarding)
        return saga is not None and saga.undoing == undoing and STEPS.index(step) == saga.step

    def _go_on(self, offboarding: str, ctx: Context) -> None:
        saga = self.state.open[offboarding]
        if not 0 <= saga.step < len(STEPS):
            ctx.send(self.offboarder, Finish(offboarding, saga.why))
        elif saga.undoing:
            ctx.send(self.offboarder, UndoStep(offboarding, STEPS[saga.step], saga.why))
        else:
            ctx.send(self.offboarder, TakeStep(offboarding, STEPS[saga.step]))


class Offboarder(Worker, kind="crm.offboarder"):
    """Takes steps and takes them back. A step that fails for no reason of its own is tried `TRIES` times."""

    concurrency = 4
    retry = RetryPolicy(max_failures=TRIES)

    def __init__(self, closing: Closing) -> None:
        self.closing = closing

    @on
    async def find(self, message: FindAsked, ctx: WorkerContext) -> Message:
        return FoundAsked(await self.closing.asked(MAX_OPEN))

    @on
    async def take(self, message: TakeStep, ctx: WorkerContext) -> Message:
        try:
            await self.closing.take(message.offboarding, message.step)
        except Refused as refusal:
            return StepRefused(message.offboarding, message.step, str(refusal))
        except StoreUnavailable as error:
            # Nothing of it is the step's fault: it waits for the database, for as long as that takes.
            raise Transient(str(error)) from error
        except Exception as error:
            if ctx.attempt < TRIES:
                raise
            return StepRefused(message.offboarding, message.step, f"it failed {TRIES} times: {error}")
        return StepTaken(message.offboarding, message.step)

    @on
    async def undo(self, message: UndoStep, ctx: WorkerContext) -> Message:
        try:
            await self.closing.undo(message.offboarding, message.step, message.why)
        except Exception as error:
            if ctx.envelope.deliveries >= TELL_AFTER:
                await self._tell_stuck(message, str(error))
            raise Transient(f"{message.step} cannot be taken back yet: {error}") from error
        return StepUndone(message.offboarding, message.step)

    @on
    async def finish(self, message: Finish, ctx: WorkerContext) -> Message:
        try:
            await self.closing.finish(message.offboarding, message.why)
        except Exception as error:
            raise Transient(f"its end cannot be written yet: {error}") from error
        return Finished(message.offboarding)

    async def _tell_stuck(self, message: UndoStep, why: str) -> None:
        try:
            await self.closing.tell_stuck(message.offboarding, message.step, why)
        except StoreError as error:
            log.warning("%s is stuck, and nobody could be told yet: %s", message.offboarding, error)

    def given_up(self, message: Message, error: str, ctx: WorkerContext) -> Message | None:
        match message:
            case FindAsked():
                return FoundAsked([])
            case TakeStep():
                return StepRefused(message.offboarding, message.step, error)
            case UndoStep() | Finish():
                return GivenUp(message.offboarding)
        return None
