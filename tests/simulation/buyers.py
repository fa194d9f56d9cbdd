"""Actors that have things paid by a tool: plain calls, calls whose start is recorded, gated and withdrawn ones.

Every call has one key for ever and must have exactly one outcome in its buyer's state; what really happened is in the
ledger outside (`WORLD`).
"""

import msgspec

from callboard.actors.actor import Actor, Worker, on
from callboard.actors.approval import Denied, Expired, ExpiryWanted, Release, Withdrawn
from callboard.actors.context import Context, WorkerContext
from callboard.actors.directives import Transient
from callboard.actors.retry import RetryPolicy
from callboard.actors.system import AskFailed
from callboard.mailbox.message import Message
from callboard.persistence.rows import Decision
from callboard.persistence.unit import Move

from .outside import WORLD

QUICK = RetryPolicy(first_seconds=0.03, cap_seconds=0.2)
BUYERS = 3
TILL = "/w/shop/till"
APPROVALS = "/w/shop/approvals"


class Buy(Message, tag="sim.buy"):
    """`how`: plain, recorded, stumbles (the tool fails once), gated, expires, or withdrawn (a little later)."""

    name: str
    how: str = "plain"
    seconds: float = 0.0


class ChangeMind(Message, tag="sim.change_mind"):
    """Timer: take a call back, if it can be."""

    key: str


class Pay(Message, tag="sim.pay"):
    """To the till."""

    key: str
    seconds: float
    recorded: bool = False
    stumbles: bool = False
    decision: str = ""
    digest: str = ""


class Paid(Message, tag="sim.paid"):
    """It happened."""

    key: str


class Doubtful(Message, tag="sim.doubtful"):
    """It was started before, and nobody knows what came of it."""

    key: str


class Till(Worker, kind="sim-till"):
    """Pays, once for each key as far as it can know."""

    retry = QUICK
    concurrency = 4

    def records_start(self, message: Message) -> bool:
        return isinstance(message, Pay) and message.recorded

    @on
    async def pay(self, message: Pay, ctx: WorkerContext) -> Message:
        if ctx.in_doubt:
            if not message.recorded:
                WORLD.wrong.append(f"G4: call {message.key} is in doubt, though its start is never recorded")
            return Doubtful(message.key)
        WORLD.attempt(message.key, again=ctx.attempt > 1)
        if message.stumbles and ctx.attempt == 1:
            await ctx.port.sleep(0.01)
            raise Transient("simulated", after_seconds=0.03, charge=True)
        if message.seconds:
            await ctx.port.sleep(message.seconds)
        if message.decision:
            self._look_at_decision(message)
        await WORLD.effect(message.key)
        return Paid(message.key)

    @staticmethod
    def _look_at_decision(message: Pay) -> None:
        decision = WORLD.store.tables.decisions.get(message.decision)
        if decision is None or decision.status != "released" or not decision.decided_by:
            WORLD.wrong.append(f"G5: {message.key} goes ahead while its decision is {decision}")
        elif decision.digest != message.digest:
            WORLD.wrong.append(f"G5: {message.key} goes ahead with other arguments than those approved")


class BuyerState(msgspec.Struct):
    calls: int = 0
    open: dict[str, int] = {}
    """Key of each call without an outcome, and its message."""
    held: list[str] = []
    """Of these, the ones that wait for a decision."""
    outcomes: dict[str, str] = {}
    wrong: list[str] = []


def buyer(number: int) -> str:
    """Address of a buyer."""
    return f"/w/shop/buyer:{number}"


class Buyer(Actor[BuyerState], kind="sim-buyer"):
    """Buys."""

    retry = QUICK

    @on(creates=True)
    def buy(self, message: Buy, ctx: Context) -> None:
        self.state.calls += 1
        key = f"{ctx.address}#{self.state.calls}"
        if message.how in ("gated", "expires"):
            self._hold(key, message, ctx)
            return
        pay = Pay(key, message.seconds, message.how in ("recorded", "withdrawn"), message.how == "stumbles")
        self.state.open[key] = ctx.send(TILL, pay)
        if message.how == "withdrawn":
            ctx.schedule(f"mind {key}", message.seconds * 0.7, ChangeMind(key))

    def _hold(self, key: str, message: Buy, ctx: Context) -> None:
        decision, digest = f"d-{key.rpartition(':')[2]}", f"digest of {key}"
        identifier = ctx.hold(TILL, Pay(key, message.seconds, recorded=True, decision=decision, digest=digest))
        self.state.open[key] = identifier
        self.state.held.append(key)
        seconds = 0.4 if message.how == "expires" else 0.0
        ctx.ask_decision(
            Decision(
                decision, ctx.address, key, identifier, APPROVALS, "approval", "till", "{}", digest, "simulated",
                requested_by="sim", expires_seconds=seconds,
            )
        )  # fmt: skip
        if seconds:
            ctx.send(APPROVALS, ExpiryWanted(decision, key, digest, seconds))

    @on
    def paid(self, message: Paid, ctx: Context) -> None:
        self._close(message.key, "paid", ctx)

    @on
    def doubtful(self, message: Doubtful, ctx: Context) -> None:
        self._close(message.key, "doubtful", ctx)

    @on
    def unanswered(self, message: AskFailed, ctx: Context) -> None:
        key = next((key for key, identifier in self.state.open.items() if identifier == ctx.envelope.correlation), "?")
        self._close(key, f"unanswered: {message.why}", ctx)

    @on
    def change_mind(self, message: ChangeMind, ctx: Context) -> None:
        identifier = self.state.open.pop(message.key, 0)
        if identifier:
            ctx.withdraw(identifier)
            self.state.outcomes[message.key] = "withdrawn"

    @on
    def released(self, message: Release, ctx: Context) -> None:
        if self._decided(message.call, "released"):
            ctx.move_decision(Move(message.decision, "approved", "released"))
            ctx.release(self.state.open[message.call])

    @on
    def denied(self, message: Denied, ctx: Context) -> None:
        if self._decided(message.call, "denied"):
            ctx.drop(self.state.open[message.call])
            self._close(message.call, "denied", ctx)

    @on
    def expired(self, message: Expired, ctx: Context) -> None:
        if message.call in self.state.held:
            self.state.held.remove(message.call)
            ctx.move_decision(Move(message.decision, "pending", "expired"))
            ctx.drop(self.state.open[message.call])
            ctx.send(APPROVALS, Withdrawn(message.decision))
            self._close(message.call, "expired", ctx)

    def _decided(self, key: str, how: str) -> bool:
        if key not in self.state.held:
            self.state.wrong.append(f"G5: {key} was {how} after it had been decided")
            return False
        self.state.held.remove(key)
        return True

    def _close(self, key: str, outcome: str, ctx: Context) -> None:
        known = self.state.outcomes.get(key)
        if known == "withdrawn" and outcome in ("paid", "doubtful"):
            return  # its answer was on the way
        if known is not None or key not in self.state.open:
            self.state.wrong.append(f"G1: {key} has a second outcome {outcome} after {known} ({ctx.message_id})")
            return
        del self.state.open[key]
        self.state.outcomes[key] = outcome
