"""Turns that may wait share tasks, one after the other; here is what none of them may notice of it."""

import asyncio

import anyio
import anyio.lowlevel
import msgspec
import pytest

from callboard.actors.actor import Actor, on
from callboard.actors.context import Context
from callboard.actors.directives import Reject
from callboard.actors.spec import Child, Supervisor
from callboard.actors.testing import TestKit
from callboard.mailbox.message import Message

pytestmark = pytest.mark.anyio


class Seen(msgspec.Struct):
    numbers: list[int] = []
    tasks: list[int] = []


class Step(Message, tag="seats-test.step"):
    number: int
    how: str = ""


TASKS: list[object] = []
"""Those that had a turn, numbered by their place. They are kept: another one could have the id of one that is gone."""


def number_of_this_task() -> int:
    task = asyncio.current_task()
    if task not in TASKS:
        TASKS.append(task)
    return TASKS.index(task)


class Sitter(Actor[Seen], kind="seats-test-sitter"):
    @on(creates=True)
    async def step(self, message: Step, ctx: Context) -> None:
        self.state.numbers.append(message.number)
        self.state.tasks.append(number_of_this_task())
        if message.how == "wait":
            await anyio.lowlevel.checkpoint()
        elif message.how == "reject":
            raise Reject("no")


TREE = Supervisor("t", (Child(Sitter, "s", pool=True),))


async def send(kit: TestKit, address: str, *steps: Step) -> None:
    await kit.store.send([await kit.client.envelope(address, step) for step in steps])
    await kit.settle()


async def test_turns_that_could_wait_and_do_not_share_their_commits_and_keep_their_order() -> None:
    async with TestKit(TREE) as kit:
        await send(kit, "/t/s:1", Step(0))
        committer = kit.nodes[0].life.committer  # type: ignore[union-attr]
        before = committer.commits
        await send(kit, "/t/s:1", *[Step(number, "wait" if number == 50 else "") for number in range(1, 201)])
        state = await kit.state("/t/s:1", Seen)
        assert state.numbers == list(range(201))
        assert committer.commits - before < 40
        row = await kit.row("/t/s:1")
        assert row is not None and row.version == 201, "and each is a turn of its own"


async def test_one_task_has_the_turns_of_many_actors() -> None:
    async with TestKit(TREE) as kit:
        tasks = set()
        for number in range(5):
            await send(kit, f"/t/s:{number}", Step(0), Step(1, "wait"), Step(2))
            tasks |= set((await kit.state(f"/t/s:{number}", Seen)).tasks)
        assert len(tasks) == 1


async def test_waiting_actors_do_not_wait_for_each_other() -> None:
    async with TestKit(TREE) as kit:
        envelopes = [await kit.client.envelope(f"/t/s:{number}", Step(number, "wait")) for number in range(100)]
        await kit.store.send(envelopes)
        await kit.settle()
        assert [(await kit.state(f"/t/s:{number}", Seen)).numbers for number in range(100)] == [[n] for n in range(100)]


async def test_a_task_in_which_a_turn_has_failed_takes_no_more_of_them() -> None:
    async with TestKit(TREE) as kit:
        await send(kit, "/t/s:1", Step(0))
        before = (await kit.state("/t/s:1", Seen)).tasks
        await send(kit, "/t/s:2", Step(0, "reject"))
        await send(kit, "/t/s:1", Step(1, "wait"))
        state = await kit.state("/t/s:1", Seen)
        assert state.numbers == [0, 1]
        assert state.tasks[1] not in before, "it may have left something of its own there"


async def test_a_turn_that_fails_leaves_the_next_one_to_begin_at_once() -> None:
    async with TestKit(TREE) as kit:
        await send(kit, "/t/s:1", Step(0), Step(1, "reject"), Step(2), Step(3, "wait"))
        assert (await kit.state("/t/s:1", Seen)).numbers == [0, 2, 3]
        assert [letter.reason for letter in await kit.store.dead_letters()] == ["rejected"]
