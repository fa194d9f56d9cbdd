"""Actors that nobody needs leave memory; what is busy never does, and nothing is lost on the way (field cases 1, 2)."""

from typing import Any

import pytest

from callboard.actors.context import Context, WorkerContext
from callboard.actors.node import Life, NodeSettings
from callboard.actors.spec import Child
from callboard.actors.testing import TestKit
from callboard.mailbox.message import Message
from tests.actors.world import Answer, Call, Note, Probe, Tool, answers, notes, tree

pytestmark = pytest.mark.anyio

ONE = "/t/p:1"


def passivating(seconds: float) -> NodeSettings:
    return NodeSettings(lease_seconds=30, beat_seconds=5, passivate_seconds=seconds)


def life_of(kit: TestKit) -> Life:
    life = kit.nodes[0].life
    assert life is not None
    return life


async def test_an_actor_leaves_memory_when_it_was_idle_for_two_minutes_by_default() -> None:
    async with TestKit(tree()) as kit:
        await kit.send(ONE, Note("a"))
        await kit.advance(seconds=118)
        assert ONE in life_of(kit).cells.cells
        await kit.advance(seconds=16)
        assert ONE not in life_of(kit).cells.cells
        await kit.send(ONE, Note("b"))
        assert await notes(kit, ONE) == ["a", "b"]


async def test_a_turn_of_ten_seconds_is_not_evicted_by_one_second_of_idleness() -> None:
    async def wait(ctx: Context) -> None:
        await ctx.port.sleep(10)

    def script(_probe: Probe, note: Note, ctx: Context) -> Any:
        return wait(ctx) if note.text == "slow" else None

    async with TestKit(tree(script), settings=passivating(1)) as kit:
        await kit.send(ONE, Note("slow"))
        for _ in range(9):
            await kit.advance(seconds=1)
            assert ONE in life_of(kit).cells.cells
        await kit.advance(seconds=2)
        assert await notes(kit, ONE) == ["slow"]
        (turn,) = [turn for turn in await kit.store.turns(ONE) if turn.type == "engine_test.note"]
        assert turn.deliveries == 1
        await kit.advance(seconds=3)
        assert ONE not in life_of(kit).cells.cells


async def test_a_message_in_back_off_keeps_its_actor_and_a_call_under_way_does_not_need_it() -> None:
    async def body(call: Call, ctx: WorkerContext) -> Message:
        await ctx.port.sleep(20)
        return Answer(call.text)

    def script(_probe: Probe, note: Note, ctx: Context) -> None:
        if note.text == "bug":
            raise RuntimeError("bug")
        ctx.send("/t/tool", Call(note.text))

    async with TestKit(tree(script, Child(Tool, "tool", args=(body,))), settings=passivating(1)) as kit:
        await kit.send(ONE, Note("a"))
        await kit.advance(seconds=5)
        assert ONE not in life_of(kit).cells.cells
        await kit.send("/t/p:2", Note("bug"))
        await kit.advance(seconds=6)
        assert "/t/p:2" in life_of(kit).cells.cells
        await kit.advance(seconds=20)
        assert await answers(kit, ONE) == ["a"]


async def test_nothing_is_lost_where_actors_are_forgotten_after_every_step() -> None:
    def script(_probe: Probe, note: Note, ctx: Context) -> None:
        if note.text.startswith("go:"):
            number = int(note.text.removeprefix("go:"))
            ctx.send("/t/p:sink", Note(f"{ctx.address}={number}"))
            if number + 1 < 200:
                ctx.send(ctx.address, Note(f"go:{number + 1}"))

    async with TestKit(tree(script), settings=passivating(0)) as kit:
        life = life_of(kit)
        forgotten = 0
        after = life.committer.after

        def forget_all() -> None:
            nonlocal forgotten
            before = len(life.cells.cells)
            life.cells.passivate(0.0)
            forgotten += before - len(life.cells.cells)
            after()

        life.committer.after = forget_all
        for sender in range(50):
            await kit.client.send(f"/t/p:{sender}", Note("go:0"))
        await kit.advance(seconds=30)
        got = await notes(kit, "/t/p:sink")
        assert len(got) == 50 * 200
        for sender in range(50):
            mine = [int(text.partition("=")[2]) for text in got if text.startswith(f"/t/p:{sender}=")]
            assert mine == list(range(200))
        assert forgotten > 0
        assert life.cells.cells == {} or await kit.store.dead_letters() == []
