"""A supervisor and children that crash, end and fail to start as a test says, and tell what happened in which order."""

from collections.abc import Awaitable
from typing import Any

import anyio
import msgspec

from callboard.actors.actor import Actor, on
from callboard.actors.backoff import RestartBackoff
from callboard.actors.context import Context
from callboard.actors.retry import RetryPolicy
from callboard.actors.spec import Child, Restart, Strategy, Supervisor
from callboard.actors.system import ChildDone, ChildRefused, Stop
from callboard.actors.testing import TestKit
from callboard.mailbox.lane import Lane
from callboard.mailbox.message import Message
from callboard.mailbox.request import Request


class Do(Message, tag="engine_test.do"):
    """crash, end, fail, hang, or nothing."""

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
        self.ignoring: set[str] = set()
        self.ends_when_stopped: set[str] = set()
        self.fails_on: dict[str, set[int]] = {}
        """Incarnations that fail to start, however often they are tried."""
        self.fails_late: dict[str, int] = {}
        """Starts that fail after they have taken their time, as `name -> how often`."""
        self.declines_late: set[str] = set()

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
        if ctx.incarnation in self.trace.fails_on.get(name, ()):
            self.trace.events.append(f"fail {name}")
            raise self.trace.error
        if name in self.trace.ignoring:
            self.trace.events.append(f"ignore {name}")
            ctx.ignore()
            return
        if name in self.trace.slow:
            await ctx.port.sleep(self.trace.slow[name])
        if name in self.trace.declines_late:
            self.trace.events.append(f"ignore {name}")
            ctx.ignore()
            return
        if self.trace.fails_late.get(name, 0) > 0:
            self.trace.fails_late[name] -= 1
            self.trace.events.append(f"fail {name}")
            raise self.trace.error
        self.trace.events.append(f"start {name} {ctx.incarnation}")

    async def on_stop(self, ctx: Context) -> None:
        name = ctx.address.rpartition("/")[2]
        if name in self.trace.slow_to_stop:
            await ctx.port.sleep(self.trace.slow_to_stop[name])
        self.trace.events.append(f"stop {name}")
        if name in self.trace.ends_when_stopped:
            ctx.stop()
        if name in self.trace.stop_fails:
            raise RuntimeError("stop failed")

    @on(creates=True)
    def do(self, message: Do, ctx: Context) -> Awaitable[None] | None:
        self.state.done += 1
        if message.what == "crash":
            raise RuntimeError("crash")
        if message.what == "end":
            ctx.stop()
        if message.what == "fail":
            ctx.stop("failed", "said so")
        return ctx.port.sleep(1_000) if message.what == "hang" else None


def group(
    trace: Trace,
    strategy: Strategy = "one_for_one",
    *,
    names: str = "abc",
    restart: Restart = "permanent",
    max_restarts: int = 10,
    within: float = 60.0,
    backoff: RestartBackoff | None = None,
    **kinds: Restart,
) -> Supervisor:
    kids = tuple(Child(Kid, name, restart=kinds.get(name, restart), args=(trace,)) for name in names)
    return Supervisor("t", kids, strategy=strategy, max_restarts=max_restarts, within=within, backoff=backoff)


def pool(
    trace: Trace, *, max_restarts: int = 10, within: float = 60.0, backoff: RestartBackoff | None = None
) -> Supervisor:
    """`/t` with a pool of kids `/t/k:…`."""
    kids = (Child(Kid, "k", pool=True, args=(trace,)),)
    return Supervisor("t", kids, max_restarts=max_restarts, within=within, backoff=backoff)


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


async def ask(kit: TestKit, to: str, message: Request[Any], *, seconds: float = 60.0) -> Message:
    """The answer of a supervisor; time passes until it is there."""
    answers: list[Message] = []

    async def asking() -> None:
        answers.append(await kit.client.ask(to, message, seconds=seconds))

    async def answered() -> bool:
        return bool(answers)

    async with anyio.create_task_group() as group:
        group.start_soon(asking)
        await kit.settle()
        await kit.until(answered, seconds=seconds)
    return answers[0]


async def asked(kit: TestKit, to: str, message: Request[Any]) -> str:
    """The same, in a word: ok, or why not."""
    answer = await ask(kit, to, message)
    match answer:
        case ChildDone():
            return "ok"
        case ChildRefused():
            return answer.why
        case _:
            raise AssertionError(answer)


async def history(kit: TestKit, address: str, *kinds: str) -> list[str]:
    """What a supervisor has recorded, as `what child reason`; of these kinds only, if any are given."""
    lines = []
    for event in await kit.store.journal(address):
        body = msgspec.json.decode(event.body)
        what = event.type.removeprefix("sys.supervision.")
        if not kinds or what in kinds:
            words = (what, body.get("child") or body.get("pool", ""), body.get("reason", ""))
            lines.append(" ".join(word for word in words if word))
    return lines


async def send_system(kit: TestKit, to: str, message: Message) -> None:
    await kit.client.send(to, message, lane=Lane.SYSTEM)
    await kit.settle()
