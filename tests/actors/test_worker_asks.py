"""A call of a worker that asks its caller while it goes on."""

from typing import Any

import msgspec
import pytest

from callboard.actors.actor import Actor, Worker, on
from callboard.actors.client import Client
from callboard.actors.context import Context, Event, WorkerContext
from callboard.actors.quarantine import Raised, Survived, Trial, rehearse
from callboard.actors.snapshot import decode_state
from callboard.actors.spec import Child, Supervisor, Tree
from callboard.actors.system import AskFailed
from callboard.actors.testing import TestKit
from callboard.mailbox.message import Message
from callboard.mailbox.request import Request

pytestmark = pytest.mark.anyio


class Go(Message, tag="worker_asks.go"):
    pass


class Work(Message, tag="worker_asks.work"):
    pass


class More(Request["Counted"], tag="worker_asks.more"):
    pass


class Counted(Message, tag="worker_asks.counted"):
    count: int


class Worked(Message, tag="worker_asks.worked"):
    counts: list[int]


class Noted(Event, tag="worker_asks.noted"):
    count: int


class State(msgspec.Struct):
    count: int = 0
    worked: list[int] = []


class Caller(Actor[State], kind="asked-caller"):
    @on(creates=True)
    def go(self, message: Go, ctx: Context) -> None:
        ctx.send("/asks/work", Work())

    @on
    def more(self, message: More, ctx: Context) -> None:
        self.state.count += 1
        ctx.record(Noted(self.state.count))
        ctx.reply(Counted(self.state.count))

    @on
    def worked(self, message: Worked, ctx: Context) -> None:
        self.state.worked = message.counts


class Asks(Worker, kind="asks"):
    @on
    async def work(self, message: Work, ctx: WorkerContext) -> Message:
        counts: list[int] = []
        for _ in range(3):
            answer = await ctx.ask(More(), seconds=5)
            assert isinstance(answer, Counted)
            assert len(await ctx.journal(ctx.caller)) == answer.count, "it is on record when the answer comes"
            counts.append(answer.count)
        return Worked(counts)


TREE = Supervisor("asks", (Child(Asks, "work"), Child(Caller, "caller", pool=True, restart="temporary")))
ONE = "/asks/caller:1"


async def state_of(kit: TestKit) -> State:
    row = await kit.store.actor(ONE)
    assert row is not None
    found: State = decode_state(Caller, row.state_version, row.state)
    return found


async def test_a_worker_asks_its_caller_and_what_that_says_is_on_disk() -> None:
    async with TestKit(TREE) as kit:
        await kit.send(ONE, Go())
        assert (await state_of(kit)).worked == [1, 2, 3]


async def test_a_call_that_is_tried_alone_can_ask_as_well_and_says_so_where_it_cannot() -> None:
    async with TestKit(TREE) as kit:
        await kit.send(ONE, Go())
        client = Client(kit.store, kit.port)
        envelope = await client.envelope("/asks/work", Work())
        envelope.sender = ONE

        async def journal(address: str, *, after: int = 0) -> Any:
            return await kit.store.journal(address, after=after)

        trial = Trial(envelope, 1, 60.0, is_call=True)
        verdict = await rehearse(trial, Tree(TREE), kit.port, journal, client.ask)
        assert isinstance(verdict, Survived) and verdict.reply is not None
        assert verdict.reply.message() == Worked([4, 5, 6])
        without = await rehearse(trial, Tree(TREE), kit.port, journal)
        assert isinstance(without, Raised) and "this node cannot ask" in without.reason


async def test_an_ask_of_a_caller_that_has_ended_fails() -> None:
    async with TestKit(TREE) as kit:
        await kit.send(ONE, Go())
        client = Client(kit.store, kit.port)
        await client.cancel(ONE)
        await kit.settle()
        assert isinstance(await client.ask(ONE, More(), seconds=5), AskFailed)
