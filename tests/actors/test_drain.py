"""A node that leaves finishes what it can, gives back the rest, and charges nobody (field case 21)."""

from typing import Any

import pytest

from callboard.actors.context import Context, WorkerContext
from callboard.actors.journal import JournalTail
from callboard.actors.spec import Child
from callboard.actors.testing import TestKit
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
