"""A node that leaves finishes what it can, gives back the rest, and charges nobody (field case 21)."""

from typing import Any

import anyio
import pytest

from callboard.actors.context import Context, WorkerContext
from callboard.actors.handing import GIVE_SECONDS
from callboard.actors.journal import JournalTail
from callboard.actors.node import Node
from callboard.actors.spec import Child
from callboard.actors.testing import TestKit
from callboard.mailbox.address import SHARDS, shard_of
from callboard.mailbox.message import Message
from callboard.persistence.rows import EventRow
from tests.actors.world import SETTINGS, Answer, Call, Note, Probe, Tool, address_of, addresses, answers, notes, tree

pytestmark = pytest.mark.anyio


def calls(_probe: Probe, note: Note, ctx: Context) -> None:
    ctx.send("/t/tool", Call(note.text))


async def test_g8_twenty_calls_that_do_not_end_within_the_limit_come_back_with_their_attempts_unchanged() -> None:
    began: list[tuple[int, int, int]] = []

    async def body(call: Call, ctx: WorkerContext) -> Message:
        began.append((ctx.node, ctx.attempt, ctx.envelope.losses))
        await ctx.port.sleep(1e6 if ctx.node == first_number else 0)
        return Answer(call.text)

    async with TestKit(tree(calls, Child(Tool, "tool", args=(body,))), nodes=2, settings=SETTINGS) as kit:
        await kit.advance(seconds=2)
        first, second = kit.nodes
        first_number, second_number = kit.session(first).number, kit.session(second).number
        mine = addresses(kit, first)
        callers = [next(mine) for _ in range(20)]
        for caller in callers:
            await kit.send(caller, Note("a"))
        assert len(began) == 20
        await kit.leave(first)
        await kit.advance(seconds=SETTINGS.drain_seconds - 0.5)
        assert len(began) == 20 and kit.store.cluster.owned(first_number)
        await kit.advance(seconds=2)
        assert began[20:] == [(second_number, 1, 0)] * 20
        for caller in callers:
            assert await answers(kit, caller) == ["a"]
        assert await kit.store.dead_letters() == []


async def test_calls_that_end_within_the_limit_are_finished_and_nothing_runs_twice() -> None:
    began: list[str] = []

    async def body(call: Call, ctx: WorkerContext) -> Message:
        began.append(call.text)
        await ctx.port.sleep(3)
        return Answer(call.text)

    async with TestKit(tree(calls, Child(Tool, "tool", args=(body,))), nodes=2, settings=SETTINGS) as kit:
        await kit.advance(seconds=2)
        address = address_of(kit, kit.nodes[0])
        await kit.send(address, Note("a"))
        await kit.leave(kit.nodes[0])
        await kit.advance(seconds=5)
        assert began == ["a"] and await answers(kit, address) == ["a"]


async def test_a_turn_that_waits_is_finished_within_the_limit_and_discarded_uncharged_beyond_it() -> None:
    seconds = {"short": 3.0, "long": 60.0}
    ended: list[str] = []

    async def wait(text: str, ctx: Context) -> None:
        await ctx.port.sleep(seconds[text])
        ended.append(text)

    def script(_probe: Probe, note: Note, ctx: Context) -> Any:
        return wait(note.text, ctx)

    async with TestKit(tree(script), nodes=2, settings=SETTINGS) as kit:
        await kit.advance(seconds=2)
        mine = addresses(kit, kit.nodes[0])
        short, long = next(mine), next(mine)
        await kit.send(short, Note("short"))
        await kit.send(long, Note("long"))
        seconds["long"] = 1.0  # on the next node
        await kit.leave(kit.nodes[0])
        await kit.advance(seconds=4)
        assert ended == ["short"] and await notes(kit, short) == ["short"]
        await kit.advance(seconds=4)
        assert ended == ["short", "long"] and await notes(kit, long) == ["long"]
        turns = [turn for turn in await kit.store.turns(long) if turn.type == "engine_test.note"]
        assert [turn.outcome for turn in turns] == ["done"]


async def test_a_leaving_node_keeps_the_shards_of_its_running_calls_only_and_gives_the_others_at_once() -> None:
    async def body(call: Call, ctx: WorkerContext) -> Message:
        await ctx.port.sleep(3)
        return Answer(call.text)

    async with TestKit(tree(calls, Child(Tool, "tool", args=(body,))), nodes=2, settings=SETTINGS) as kit:
        await kit.advance(seconds=2)
        first, second = kit.nodes
        number, other = kit.session(first).number, kit.session(second).number
        slow = address_of(kit, first)
        await kit.send(slow, Note("a"))
        await kit.leave(first)
        await kit.advance(seconds=0.1)
        assert kit.store.cluster.owned(number) == {shard_of(slow)}
        await kit.advance(seconds=0.5)
        assert len(kit.store.cluster.owned(other)) == SHARDS - 1
        await kit.advance(seconds=3)
        assert not kit.store.cluster.owned(number) and await answers(kit, slow) == ["a"]
        assert first.drained


@pytest.mark.parametrize("serves", [True, False])
async def test_a_node_whose_store_is_gone_for_good_leaves_when_its_time_to_drain_is_over(serves: bool) -> None:
    ended = anyio.Event()

    async def run(node: Node) -> None:
        await node.run()
        ended.set()

    async with TestKit(tree(), nodes=0, settings=SETTINGS) as kit, anyio.create_task_group() as group:

        async def go_away_as_it_begins(_number: int, operation: str) -> None:
            kit.store.down = kit.store.down or operation == "claim"

        if not serves:
            kit.store.before = go_away_as_it_begins
        node = Node(kit.store, kit.tree, kit.port, SETTINGS)
        group.start_soon(run, node)
        await kit.advance(seconds=3)
        assert node.ready.is_set() is serves
        kit.store.down = True
        await kit.advance(seconds=3)
        await kit.leave(node)
        await kit.advance(seconds=SETTINGS.drain_seconds + GIVE_SECONDS + 0.5)
        assert ended.is_set() and not node.drained


# --- the tail of journals that a node keeps --------------------------------------------------------------------------


def event(seq: int) -> EventRow:
    return EventRow(1, "/t/p:1", seq, "noted", "{}")


async def test_g9_an_event_that_is_committed_while_its_journal_is_read_is_in_the_next_read() -> None:
    stored = [event(n) for n in range(1, 6)]
    tail: JournalTail

    async def read(_address: str, *, after: int = 0) -> list[EventRow]:
        page = stored[after : after + 3]
        if not page and len(stored) == 5:
            # The store has answered "no more", and before we hear of it another one is on disk.
            stored.append(event(6))
            tail.committed([event(6)])
        return page

    tail = JournalTail(read)
    assert [e.seq for e in await tail.read("/t/p:1")] == [1, 2, 3, 4, 5]
    assert [e.seq for e in await tail.read("/t/p:1", after=5)] == [6]
    assert [e.seq for e in await tail.read("/t/p:1", after=6)] == []


async def test_a_journal_whose_shard_left_while_it_was_read_is_not_kept() -> None:
    stored = [event(1)]
    tail: JournalTail

    async def read(_address: str, *, after: int = 0) -> list[EventRow]:
        page = stored[after:]
        if not page:
            tail.forget(["/t/p:1"])
        return page

    tail = JournalTail(read)
    await tail.read("/t/p:1")
    stored.append(event(2))  # by another node
    assert [e.seq for e in await tail.read("/t/p:1", after=1)] == [2]


async def test_a_node_that_drains_begins_nothing_of_what_it_takes_over_from_a_dead_one() -> None:
    began: list[int] = []

    async def body(call: Call, ctx: WorkerContext) -> Message:
        await ctx.port.sleep(3)
        return Answer(call.text)

    def script(_probe: Probe, note: Note, ctx: Context) -> None:
        if note.text == "call":
            ctx.send("/t/tool", Call("a"))
        else:
            began.append(ctx.node)

    async with TestKit(tree(script, Child(Tool, "tool", args=(body,))), nodes=2, settings=SETTINGS) as kit:
        await kit.advance(seconds=2)
        leaving, other = kit.nodes
        number, theirs = kit.session(leaving).number, addresses(kit, other)
        await kit.send(address_of(kit, leaving), Note("call"))
        await kit.leave(leaving)
        await kit.advance(seconds=0.1)
        assert kit.store.cluster.owned(number), "its call keeps it here"
        waiting = [next(theirs) for _ in range(20)]
        await kit.crash(other)
        await kit.store.send([await kit.client.envelope(address, Note("later")) for address in waiting])
        await kit.advance(seconds=2)
        assert began == []
        heir = await kit.join()
        await kit.advance(seconds=5)
        assert began == [kit.session(heir).number] * 20
