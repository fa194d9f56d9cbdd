"""G10: what a node has in memory does not grow with what waits on disk, nor with what was ever done."""

import asyncio

import pytest

from callboard.actors import cells, pool, reader
from callboard.actors.context import Context, WorkerContext
from callboard.actors.directives import Park, Transient
from callboard.actors.node import Life, NodeSettings
from callboard.actors.spec import Child
from callboard.actors.system import Resume
from callboard.actors.testing import TestKit
from callboard.mailbox.lane import Lane
from callboard.mailbox.message import Message
from tests.actors.world import Answer, Call, Note, Notes, Probe, Tool, answers, notes, send_all, tree

pytestmark = pytest.mark.anyio

ONE = "/t/p:1"
SENDER = "/t/p:sender"
MANY = 20_000


def life_of(kit: TestKit) -> Life:
    life = kit.nodes[0].life
    assert life is not None
    return life


async def test_g10_nothing_stays_in_memory_of_what_is_done_and_idle_actors_leave_it() -> None:
    settings = NodeSettings(keep_actors=10, lease_seconds=30, beat_seconds=5)
    async with TestKit(tree(), settings=settings) as kit:
        for n in range(200):
            await kit.client.send(f"/t/p:{n}", Note("a"))
        await kit.advance(seconds=3)
        assert len(life_of(kit).cells.seen) == 0
        assert len(life_of(kit).cells.cells) <= 10
        for n in range(200):
            await kit.client.send(f"/t/p:{n}", Note("b"))
        await kit.advance(seconds=3)
        for n in range(200):
            assert await notes(kit, f"/t/p:{n}") == ["a", "b"]


async def test_g10_many_messages_to_one_slow_actor_wait_on_disk() -> None:
    handled = 0
    most = 0

    async def slowly(ctx: Context) -> None:
        await ctx.port.sleep(30)

    def script(probe: Probe, note: Note, ctx: Context) -> object:
        nonlocal handled, most
        if ctx.address == SENDER:
            for n in range(int(note.text), int(note.text) + 1000):
                ctx.send(ONE, Note(str(n)))
            return None
        assert note.text == str(handled)
        probe.state.notes.clear()
        handled += 1
        most = max(most, len(life_of(kit).cells.seen))
        return slowly(ctx) if handled == 1 else None

    kit = TestKit(tree(script))  # type: ignore[arg-type]
    async with kit:
        for first in range(0, MANY, 1000):
            await kit.send(SENDER, Note(str(first)))
        await kit.advance(seconds=29)
        assert len(kit.store.tables.messages) == MANY
        assert len(life_of(kit).cells.seen) <= cells.QUEUE_LIMIT + 1000
        await kit.advance(seconds=10)
        assert handled == MANY
        assert most <= cells.QUEUE_LIMIT + 1000
        assert len(life_of(kit).cells.seen) == 0


async def test_g10_what_is_handed_over_to_a_slow_actor_waits_on_disk_beyond_a_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All that waits for it is in memory at first, so that what is sent here needs no reading: up to a limit."""
    monkeypatch.setattr(cells, "QUEUE_LIMIT", 20)
    monkeypatch.setattr(reader, "WINDOW", 20)

    def script(_probe: Probe, note: Note, ctx: Context) -> object:
        if ctx.address == SENDER:
            for n in range(200):
                ctx.send(ONE, Note(str(n)))
            return None
        return ctx.port.sleep(30) if note.text == "0" else None

    kit = TestKit(tree(script))  # type: ignore[arg-type]
    async with kit:
        await kit.send(ONE, Note("there"))
        await kit.advance(seconds=2)
        assert life_of(kit).cells.cells[ONE].complete
        await kit.send(SENDER, Note("go"))
        await kit.advance(seconds=1)
        assert len(life_of(kit).cells.cells[ONE].queue) <= 20 + 20, "handed over, and read behind it"
        await kit.advance(seconds=40)
        assert await notes(kit, ONE) == ["there", *map(str, range(200))]


async def test_g10_parked_actors_keep_nothing_in_memory_and_hold_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "WINDOW", 10)
    monkeypatch.setattr(reader, "HIGH_WATER", 100)
    asleep = True

    def script(_probe: Probe, note: Note, _ctx: Context) -> None:
        if note.text == "park" and asleep:
            raise Park("waits")

    settings = NodeSettings(keep_actors=5, lease_seconds=30, beat_seconds=5)
    async with TestKit(tree(script), settings=settings) as kit:
        parked = [f"/t/p:parked-{n}" for n in range(30)]
        for address in parked:
            await send_all(kit, address, ["park", *map(str, range(20))])
        await kit.advance(seconds=3)
        assert len(life_of(kit).cells.seen) == 0
        await kit.send(ONE, Note("a"))
        await kit.advance(seconds=1)
        assert await notes(kit, ONE) == ["a"]
        asleep = False
        await kit.client.send(parked[3], Resume(), lane=Lane.SYSTEM)
        await kit.advance(seconds=3)
        assert await notes(kit, parked[3]) == ["park", *map(str, range(20))]


async def test_g10_an_actor_in_back_off_does_not_gather_waiting_tasks() -> None:
    def script(_probe: Probe, note: Note, _ctx: Context) -> None:
        if note.text == "x":
            raise RuntimeError("bug")

    async with TestKit(tree(script)) as kit:
        await kit.send(ONE, Note("x"))
        before = len(asyncio.all_tasks())
        for n in range(100):
            await kit.send(ONE, Note(str(n)))
        assert len(asyncio.all_tasks()) < before + 5


async def test_g10_a_burst_of_calls_to_a_slow_worker_waits_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "WAITING_LIMIT", 100)
    monkeypatch.setattr(reader, "WINDOW", 60)
    most = 0

    async def body(call: Call, ctx: WorkerContext) -> Message:
        nonlocal most
        most = max(most, len(life_of(kit).cells.seen))
        await ctx.port.sleep(0.01)
        return Answer(call.text)

    def script(_probe: Probe, _note: Note, ctx: Context) -> None:
        for n in range(1500):
            ctx.send("/t/tool", Call(str(n)))

    kit = TestKit(tree(script, Child(Tool, "tool", args=(body,))))
    async with kit:
        await kit.send(ONE, Note())
        await kit.advance(seconds=5)
        assert sorted(map(int, await answers(kit, ONE))) == list(range(1500))
        assert most < 100 + 64 + 1500 // 2
        assert life_of(kit).cells.seen == set()


async def test_g10_a_forgotten_actor_is_read_again_with_all_that_waits() -> None:
    settings = NodeSettings(keep_actors=0, lease_seconds=30, beat_seconds=5)
    async with TestKit(tree(), settings=settings) as kit:
        for n in range(5):
            await kit.client.send(ONE, Note(str(n)))
            await kit.advance(seconds=1.5)
            assert ONE not in life_of(kit).cells.cells
        assert (await kit.state(ONE, Notes)).notes == ["0", "1", "2", "3", "4"]


async def test_g10_calls_that_wait_for_a_provider_do_not_hold_up_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "HIGH_WATER", 100)
    down = True

    async def body(call: Call, ctx: WorkerContext) -> Message:
        if down:
            raise Transient("down", after_seconds=50)
        return Answer(call.text)

    def script(_probe: Probe, note: Note, ctx: Context) -> None:
        if note.text == "go":
            for n in range(300):
                ctx.send("/t/tool", Call(str(n)))

    async with TestKit(tree(script, Child(Tool, "tool", args=(body,)))) as kit:
        await kit.send(ONE, Note("go"))
        assert len(life_of(kit).cells.seen) >= 300
        await kit.send("/t/p:2", Note("from outside"))
        await kit.advance(seconds=1.5)
        assert (await kit.state("/t/p:2", Notes)).notes == ["from outside"]
        down = False
        await kit.advance(seconds=60)
        assert len(await answers(kit, ONE)) == 300


async def test_g10_a_call_that_is_due_much_later_leaves_memory_and_is_made_in_its_time() -> None:
    tries: list[float] = []

    async def body(call: Call, ctx: WorkerContext) -> Message:
        tries.append(ctx.port.monotonic())
        if len(tries) == 1:
            raise Transient("later", after_seconds=600)
        return Answer(call.text)

    def script(_probe: Probe, note: Note, ctx: Context) -> None:
        ctx.send("/t/tool", Call(note.text))

    async with TestKit(tree(script, Child(Tool, "tool", args=(body,)))) as kit:
        await kit.send(ONE, Note("a"))
        await kit.advance(seconds=300)
        assert life_of(kit).cells.seen == set()
        await kit.advance(seconds=300)
        assert [when - tries[0] for when in tries] == pytest.approx([0, 600])
        assert await answers(kit, ONE) == ["a"]
