"""A supervisor and children that crash, end and fail to start as a test says, and tell what happened in which order."""

import msgspec

from callboard.actors.actor import Actor, on
from callboard.actors.context import Context
from callboard.actors.retry import RetryPolicy
from callboard.actors.spec import Child, Restart, Strategy, Supervisor
from callboard.actors.system import Stop
from callboard.actors.testing import TestKit
from callboard.mailbox.lane import Lane
from callboard.mailbox.message import Message


class Do(Message, tag="engine_test.do"):
    """crash, end, or nothing."""

    what: str = ""


class Trace:
    """What happened, in order; and which starts fail, as `name -> how often`."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.failing: dict[str, int] = {}
        self.stop_fails: set[str] = set()
        self.error: Exception = RuntimeError("start failed")
        self.slow: dict[str, float] = {}
        self.slow_to_stop: dict[str, float] = {}

    def take(self) -> list[str]:
        events, self.events = self.events, []
        return events


class Count(msgspec.Struct):
    done: int = 0


class Kid(Actor[Count], kind="engine-test-kid"):
    """A child; its messages have one attempt, so that each crash is one actor failure."""

    retry = RetryPolicy(max_failures=1)

    def __init__(self, trace: Trace) -> None:
        self.trace = trace

    async def on_start(self, ctx: Context) -> None:
        name = ctx.address.rpartition("/")[2]
        if self.trace.failing.get(name, 0) > 0:
            self.trace.failing[name] -= 1
            self.trace.events.append(f"fail {name}")
            raise self.trace.error
        if name in self.trace.slow:
            await ctx.port.sleep(self.trace.slow[name])
        self.trace.events.append(f"start {name} {ctx.incarnation}")

    async def on_stop(self, ctx: Context) -> None:
        name = ctx.address.rpartition("/")[2]
        if name in self.trace.slow_to_stop:
            await ctx.port.sleep(self.trace.slow_to_stop[name])
        self.trace.events.append(f"stop {name}")
        if name in self.trace.stop_fails:
            raise RuntimeError("stop failed")

    @on(creates=True)
    def do(self, message: Do, ctx: Context) -> None:
        self.state.done += 1
        if message.what == "crash":
            raise RuntimeError("crash")
        if message.what == "end":
            ctx.stop()
        if message.what == "fail":
            ctx.stop("failed", "said so")


def group(
    trace: Trace,
    strategy: Strategy = "one_for_one",
    *,
    names: str = "abc",
    restart: Restart = "permanent",
    max_restarts: int = 10,
    within: float = 60.0,
    **kinds: Restart,
) -> Supervisor:
    kids = tuple(Child(Kid, name, restart=kinds.get(name, restart), args=(trace,)) for name in names)
    return Supervisor("t", kids, strategy=strategy, max_restarts=max_restarts, within=within)


async def do(kit: TestKit, address: str, what: str) -> None:
    await kit.send(address, Do(what))


async def status(kit: TestKit, address: str) -> str:
    row = await kit.row(address)
    return "" if row is None else row.status


async def stop(kit: TestKit, address: str) -> None:
    row = await kit.row(address)
    assert row is not None
    await kit.client.send(address, Stop(row.incarnation), lane=Lane.SYSTEM)
    await kit.settle()
