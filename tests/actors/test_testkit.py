"""The test kit itself: time moves only when told to, and everything due on the way happens in its order."""

from collections.abc import Awaitable

import pytest

from callboard.actors.context import Context
from callboard.actors.spec import Child
from callboard.actors.testing import START, ManualPort, TestKit
from callboard.persistence.port import Signal
from tests.actors.world import Note, Notes, Probe, notes, shards, tree

pytestmark = pytest.mark.anyio

ONE = "/t/p:1"


async def test_a_child_alone_makes_a_tree() -> None:
    async with TestKit(Child(Probe, "p", pool=True)) as kit:
        await kit.send("/test/p:1", Note("a"))
        assert await kit.state("/test/p:1", Notes) == Notes(["a"])
        row = await kit.row("/test/p:1")
        assert row is not None and row.kind == "engine-test-probe"
        assert await kit.row("/test/p:2") is None
        with pytest.raises(LookupError, match="/test/p:2"):
            await kit.state("/test/p:2", Notes)


async def test_time_stands_still_until_it_is_moved() -> None:
    port = ManualPort()
    assert (port.monotonic(), port.wall(), port.random()) == (0.0, START, 0.5)
    assert port.token() != port.token()
    await port.advance(2.5)
    assert (port.monotonic(), port.wall()) == (2.5, START + 2.5)
    raised = Signal()
    raised.set()
    assert await port.wait(raised, 0)
    assert not await port.wait(Signal(), 0)
    await port.sleep(0)


async def test_what_is_due_on_the_way_happens_in_order_and_at_its_time() -> None:
    seen: list[tuple[str, float]] = []

    def script(_probe: Probe, note: Note, ctx: Context) -> None:
        seen.append((note.text, ctx.port.monotonic()))
        if note.text == "go":
            for seconds in (30, 10, 20):
                ctx.schedule(str(seconds), seconds, Note(str(seconds)))
        if note.text == "10":
            ctx.schedule("from 10", 5, Note("15"))

    async with TestKit(tree(script)) as kit:
        await kit.send(ONE, Note("go"))
        await kit.advance(minutes=1)
        assert seen == [("go", 0), ("10", 10), ("15", 15), ("20", 20), ("30", 30)]


async def test_until_lets_time_pass_until_it_is_so() -> None:
    def script(_probe: Probe, note: Note, ctx: Context) -> None:
        if note.text == "go":
            ctx.schedule("k", 42, Note("done"))

    async with TestKit(tree(script)) as kit:
        await kit.send(ONE, Note("go"))

        async def done() -> bool:
            return "done" in await notes(kit, ONE)

        async def never() -> bool:
            return False

        await kit.until(done)
        assert 42 <= kit.port.monotonic() < 43
        with pytest.raises(AssertionError, match="not so within 5 s"):
            await kit.until(never, seconds=5)


async def test_an_error_in_the_test_comes_out_of_the_kit() -> None:
    with pytest.raises(ExceptionGroup) as raised:
        async with TestKit(tree()):
            raise ValueError("the test's own")
    assert raised.group_contains(ValueError, match="the test's own")


async def test_several_nodes_come_and_go() -> None:
    async with TestKit(tree(), nodes=3) as kit:
        await kit.advance(seconds=3)
        assert sum(shards(kit, node) for node in kit.nodes) == 256
        assert all(shards(kit, node) for node in kit.nodes)
        frozen, killed, left = kit.nodes
        kit.freeze(frozen)
        await kit.crash(killed)
        await kit.leave(left)
        await kit.thaw(frozen)
        await kit.send(ONE, Note("a"))
        await kit.advance(seconds=5)
        assert await notes(kit, ONE) == ["a"]


async def test_a_kit_can_be_left_while_a_turn_waits() -> None:
    def script(_probe: Probe, _note: Note, ctx: Context) -> Awaitable[None]:
        return ctx.port.sleep(1000)

    async with TestKit(tree(script)) as kit:
        await kit.send(ONE, Note())
        kit.freeze(kit.nodes[0])
        await kit.client.send("/t/p:2", Note())
        await kit.settle()
