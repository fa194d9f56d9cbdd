"""A supervised family: children that crash and end as they are told, and put their starts and stops on record."""

import msgspec

from callboard.actors.actor import Actor, on
from callboard.actors.context import Context, Event
from callboard.actors.retry import RetryPolicy
from callboard.mailbox.message import Message

FAMILIES = ("all", "rest", "one")


class Order(Message, tag="sim.order"):
    """crash, end, or nothing."""

    what: str = ""


class Began(Event, tag="sim.began"):
    """Event: on_start has committed."""

    incarnation: int


class Over(Event, tag="sim.over"):
    """Event: on_stop has committed."""

    incarnation: int


class KidState(msgspec.Struct):
    orders: int = 0


class Kid(Actor[KidState], kind="sim-kid"):
    """A child; each crash is one actor failure. With `slow`, starting and stopping take a while."""

    retry = RetryPolicy(max_failures=1)

    def __init__(self, slow: float = 0.0) -> None:
        self.slow = slow

    async def on_start(self, ctx: Context) -> None:
        if self.slow:
            await ctx.port.sleep(self.slow)
        ctx.record(Began(ctx.incarnation))

    async def on_stop(self, ctx: Context) -> None:
        if self.slow:
            await ctx.port.sleep(self.slow)
        ctx.record(Over(ctx.incarnation))

    @on
    def order(self, message: Order, ctx: Context) -> None:
        self.state.orders += 1
        if message.what == "crash":
            raise RuntimeError("simulated crash")
        if message.what == "end":
            ctx.stop()
