"""Actors with timers: one that ticks so many times, ones that fire once, and ones that are cancelled or set anew.

Each fire that is handled is noted with its message, so that the checks can compare with when the store says it fired.
"""

import msgspec

from callboard.actors.actor import Actor, on
from callboard.actors.context import Context
from callboard.mailbox.envelope import Headers
from callboard.mailbox.message import Message

TICKERS = 2


class Tick(Message, tag="sim.tick"):
    """Of a period; `run` tells one series from the next."""

    run: int


class Ring(Message, tag="sim.ring"):
    """Of a timer that fires once."""

    name: str


class Begin(Message, tag="sim.begin"):
    """Tick `count` periods, and stop."""

    period: float
    count: int


class Set(Message, tag="sim.set"):
    """Set a timer, and again after it where `again`."""

    name: str
    seconds: float


class Clear(Message, tag="sim.clear"):
    """Cancel it."""

    name: str


class Fired(msgspec.Struct):
    """A tick that was handled."""

    run: int
    message: int
    periods: int


class TickerState(msgspec.Struct):
    run: int = 0
    goal: int = 0
    period: float = 0.0
    ticks: list[Fired] = []
    rings: dict[str, int] = {}
    """How often the timer of that name rang since it was set last."""
    set_at: dict[str, float] = {}
    seconds: dict[str, float] = {}
    cleared: list[str] = []
    wrong: list[str] = []


def ticker(number: int) -> str:
    """Address of a ticker."""
    return f"/w/clock/ticker:{number}"


def missed_of(ctx: Context) -> int:
    """How many due times passed before this one without a message of their own."""
    headers = ctx.envelope.headers
    return msgspec.json.decode(headers, type=Headers).missed if headers else 0


class Ticker(Actor[TickerState], kind="sim-ticker"):
    """Ticks."""

    @on(creates=True)
    def begin(self, message: Begin, ctx: Context) -> None:
        self.state.run += 1
        self.state.goal, self.state.period = message.count, message.period
        ctx.schedule("tick", message.period, Tick(self.state.run), every=message.period)

    @on
    def tick(self, message: Tick, ctx: Context) -> None:
        if message.run != self.state.run or not self.state.goal:
            self.state.wrong.append(f"I11: a tick of series {message.run} after it had ended")
            return
        self.state.ticks.append(Fired(message.run, ctx.message_id, 1 + missed_of(ctx)))
        if sum(tick.periods for tick in self.state.ticks if tick.run == message.run) >= self.state.goal:
            self.state.goal = 0
            ctx.cancel_timer("tick")

    @on(creates=True)
    def set(self, message: Set, ctx: Context) -> None:
        ctx.schedule(message.name, message.seconds, Ring(message.name))
        self.state.rings[message.name] = 0
        self.state.set_at[message.name] = ctx.now
        self.state.seconds[message.name] = message.seconds
        if message.name in self.state.cleared:
            self.state.cleared.remove(message.name)

    @on
    def clear(self, message: Clear, ctx: Context) -> None:
        if message.name in self.state.rings:
            ctx.cancel_timer(message.name)
            if message.name not in self.state.cleared:
                self.state.cleared.append(message.name)

    @on
    def ring(self, message: Ring, ctx: Context) -> None:
        self.state.rings[message.name] += 1
        if self.state.rings[message.name] > 1:
            self.state.wrong.append(f"I11: timer {message.name} rang twice")
        if message.name in self.state.cleared:
            self.state.wrong.append(f"I11: timer {message.name} rang after it was cancelled")
