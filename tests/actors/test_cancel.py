"""§4.14: an actor that is cancelled ends at once, whatever its handler is doing; and what interrupts in general."""

from collections.abc import Awaitable
from typing import Any

import anyio
import pytest

from callboard.actors.actor import Actor, on
from callboard.actors.context import Context, WorkerContext
from callboard.actors.spec import Child, Supervisor
from callboard.actors.system import Cancel, Kill, Pause
from callboard.actors.testing import TestKit
from callboard.mailbox.address import shard_of
from callboard.mailbox.lane import Lane
from callboard.mailbox.message import Message
from tests.actors.world import Answer, Call, Note, Notes, Probe, Script, Tool, notes, send_all, tree

pytestmark = pytest.mark.anyio

ONE = "/t/p:1"


class Cancellable(Probe, kind="engine-test-cancellable"):
    """A probe that says goodbye as the test wants."""

    def __init__(self, script: Script, goodbye: Any = None) -> None:
        super().__init__(script)
        self.goodbye = goodbye

    def on_cancel(self, ctx: Context) -> Awaitable[None] | None:
        self.state.notes.append("goodbye")
        result: Awaitable[None] | None = self.goodbye(ctx) if self.goodbye is not None else None
        return result


def cancellable(script: Script, goodbye: Any = None, *others: Child) -> Supervisor:
    return Supervisor("t", (Child(Cancellable, "p", pool=True, args=(script, goodbye)), *others))


async def status(kit: TestKit, address: str = ONE) -> tuple[str, str]:
    row = await kit.row(address)
    assert row is not None
    return row.status, row.reason


class Slow:
    """A script whose notes "slow…" wait for ever, and tells which of them began and were cancelled."""

    def __init__(self) -> None:
        self.began: list[str] = []
        self.cut: list[str] = []

    def __call__(self, _probe: Probe, note: Note, ctx: Context) -> Awaitable[None] | None:
        return self.wait(note.text, ctx) if note.text.startswith("slow") else None

    async def wait(self, text: str, ctx: Context) -> None:
        self.began.append(text)
        try:
            await ctx.port.sleep(200)
        except BaseException:
            self.cut.append(text)
            raise


async def test_a_cancelled_actors_handler_is_cut_off_its_turn_never_commits_and_later_messages_are_refused() -> None:
    slow = Slow()
    async with TestKit(cancellable(slow)) as kit:
        await kit.send(ONE, Note("a"))
        await send_all(kit, ONE, ["slow", "b"])
        await kit.settle()
        assert slow.began == ["slow"]
        await kit.client.cancel(ONE, by="jo", reason="not needed")
        await kit.settle()
        assert slow.cut == ["slow"]
        assert await status(kit) == ("cancelled", "cancelled by jo: not needed")
        assert await notes(kit, ONE) == ["a", "goodbye"]
        letters = {letter.envelope.id: letter for letter in await kit.store.dead_letters()}
        assert [letter.reason for letter in letters.values()] == ["recipient-ended"] * 2
        assert {letter.envelope.failures for letter in letters.values()} == {0}
        await kit.client.send(ONE, Note("late"))
        await kit.advance(seconds=300)
        assert await notes(kit, ONE) == ["a", "goodbye"]
        assert await kit.store.peek(ONE) == []


async def test_cancel_is_idempotent_and_harmless_for_an_actor_that_has_ended() -> None:
    async with TestKit(cancellable(lambda *_: None)) as kit:
        await kit.send(ONE, Note("a"))
        for _ in range(3):
            await kit.client.cancel(ONE, by="jo")
            await kit.settle()
        assert await notes(kit, ONE) == ["a", "goodbye"]
        row = await kit.row(ONE)
        assert row is not None and row.status == "cancelled" and row.version == 2
        assert await kit.store.dead_letters() == []


async def test_cancel_of_an_actor_that_is_not_there_is_a_dead_letter() -> None:
    async with TestKit(cancellable(lambda *_: None)) as kit:
        await kit.client.cancel(ONE, by="jo")
        await kit.settle()
        assert [letter.reason for letter in await kit.store.dead_letters()] == ["no-such-actor"]


async def test_a_paused_and_a_parked_actor_are_cancelled_too() -> None:
    def script(_probe: Probe, note: Note, ctx: Context) -> None:
        if note.text == "park":
            ctx.park("look")

    async with TestKit(cancellable(script)) as kit:
        await kit.send(ONE, Note("park"))
        await kit.client.cancel(ONE)
        await kit.send("/t/p:2", Note("a"))
        await kit.client.send("/t/p:2", Pause("jo"), lane=Lane.SYSTEM)
        await kit.client.cancel("/t/p:2")
        await kit.settle()
        assert [(await status(kit, address))[0] for address in (ONE, "/t/p:2")] == ["cancelled"] * 2


async def test_an_on_cancel_that_fails_does_not_keep_its_actor_alive() -> None:
    def goodbye(ctx: Context) -> None:
        ctx.send("/t/p:2", Note("never"))
        raise RuntimeError("no goodbye")

    async with TestKit(cancellable(lambda *_: None, goodbye)) as kit:
        await kit.send(ONE, Note("a"))
        await kit.client.cancel(ONE, by="jo")
        await kit.advance(seconds=2)
        state, reason = await status(kit)
        assert state == "cancelled" and "no goodbye" in reason
        assert await notes(kit, ONE) == ["a"], "what it did is undone"
        assert await kit.row("/t/p:2") is None
        assert await kit.store.dead_letters() == []


async def test_an_on_cancel_that_takes_too_long_is_cut_off() -> None:
    async def goodbye(ctx: Context) -> None:
        await ctx.port.sleep(1e6)

    async with TestKit(cancellable(lambda *_: None, goodbye)) as kit:
        await kit.send(ONE, Note("a"))
        await kit.client.cancel(ONE, by="jo")
        await kit.advance(seconds=Cancellable.turn_seconds - 1)
        assert (await status(kit))[0] == "active"
        await kit.advance(seconds=3)
        assert (await status(kit))[0] == "cancelled"


async def test_a_second_cancel_does_not_begin_the_first_ones_goodbye_anew() -> None:
    async def goodbye(ctx: Context) -> None:
        began.append(ctx.message_id)
        await ctx.port.sleep(10)

    began: list[int] = []
    async with TestKit(cancellable(lambda *_: None, goodbye)) as kit:
        await kit.send(ONE, Note("a"))
        for _ in range(5):
            await kit.client.cancel(ONE, by="jo")
            await kit.advance(seconds=3)
        assert len(began) == 1 and (await status(kit))[0] == "cancelled"
        assert await kit.store.dead_letters() == [] and await kit.store.peek(ONE) == []


async def test_running_and_waiting_calls_of_a_cancelled_actor_are_taken_back() -> None:
    began: list[str] = []
    cut: list[str] = []

    async def body(call: Call, ctx: WorkerContext) -> Message:
        began.append(call.text)
        try:
            await ctx.port.sleep(60)
        except BaseException:
            cut.append(call.text)
            raise
        return Answer(call.text)

    class Few(Tool, kind="engine-test-few"):
        concurrency = 3

    def script(_probe: Probe, note: Note, ctx: Context) -> None:
        for n in range(int(note.text)):
            ctx.send("/t/tool", Call(f"{ctx.address[-1]}{n}"))

    async with TestKit(cancellable(script, None, Child(Few, "tool", args=(body,)))) as kit:
        await kit.send(ONE, Note("2"))
        await kit.send("/t/p:2", Note("1"))
        await kit.send(ONE, Note("2"))
        assert began == ["10", "11", "20"]
        await kit.client.cancel(ONE, by="jo")
        await kit.settle()
        assert cut == ["10", "11"]
        await kit.advance(seconds=120)
        assert began == ["10", "11", "20"], "what waited for a seat never begins"
        assert [view.envelope.sender for view in await kit.store.peek("/t/tool")] == []
        assert sorted(turn.outcome for turn in await kit.store.turns("/t/tool")) == ["cancelled"] * 4 + ["done"]


async def test_a_supervisor_refuses_to_be_cancelled_and_says_how_else() -> None:
    async with TestKit(cancellable(lambda *_: None)) as kit:
        await kit.client.cancel("/t", by="jo")
        await kit.settle()
        (letter,) = await kit.store.dead_letters()
        assert letter.reason == "rejected" and "TerminateChild" in letter.detail
        assert (await status(kit, "/t"))[0] == "active"


# --- what interrupts -------------------------------------------------------------------------------------------------


async def test_what_does_not_interrupt_waits_for_the_handler() -> None:
    slow = Slow()
    async with TestKit(tree(slow)) as kit:
        await kit.send(ONE, Note("slow"))
        await kit.client.send(ONE, Pause("jo"), lane=Lane.SYSTEM)
        await kit.advance(seconds=199)
        assert slow.cut == [] and await kit.row(ONE) is None
        await kit.advance(seconds=2)
        assert await notes(kit, ONE) == ["slow"] and (await status(kit))[0] == "paused"


async def test_an_interrupted_message_is_first_in_line_again_and_charged_with_nothing() -> None:
    slow = Slow()
    async with TestKit(tree(slow)) as kit:
        await kit.send(ONE, Note("a"))
        await send_all(kit, ONE, ["slow", "b"])
        await kit.settle()
        await kit.client.send(ONE, Kill("jo", "stuck"), lane=Lane.SYSTEM)
        await kit.settle()
        assert slow.cut == ["slow"]
        assert (await status(kit))[0] == "failed"
        views = await kit.store.peek(ONE)
        assert [view.envelope.message() for view in views] == [Note("slow"), Note("b")]
        assert {(view.envelope.failures, view.envelope.timeouts, view.envelope.losses) for view in views} == {(0, 0, 0)}
        await kit.advance(seconds=100)  # its supervisor starts it again, and the message has its turn again
        assert slow.began == ["slow", "slow"]
        await kit.advance(seconds=200)
        assert await notes(kit, ONE) == ["a", "slow", "b"]


async def test_a_handler_that_swallows_its_cancellation_still_never_commits() -> None:
    told: list[str] = []

    async def stubborn(ctx: Context) -> None:
        try:
            await ctx.port.sleep(100)
        except anyio.get_cancelled_exc_class():
            told.append("cancelled")
        ctx.send("/t/p:2", Note("from the grave"))

    def script(_probe: Probe, note: Note, ctx: Context) -> Any:
        return stubborn(ctx) if note.text == "stubborn" else None

    async with TestKit(tree(script)) as kit:
        await kit.send(ONE, Note("a"))
        await kit.send(ONE, Note("stubborn"))
        await kit.client.cancel(ONE)
        await kit.advance(seconds=200)
        assert told == ["cancelled"]
        assert await notes(kit, ONE) == ["a"] and (await status(kit))[0] == "cancelled"
        assert await kit.row("/t/p:2") is None


async def test_a_kill_goes_before_a_system_message_whose_handler_waits() -> None:
    class Clinging(Actor[Notes], kind="engine-test-clinging"):
        async def on_start(self, ctx: Context) -> None:
            if ctx.incarnation == 1:
                await ctx.port.sleep(200)

        @on(creates=True)
        def note(self, message: Note, ctx: Context) -> None:
            self.state.notes.append(message.text)

    async with TestKit(Supervisor("t", (Child(Clinging, "c"),))) as kit:
        await kit.advance(seconds=1)
        await kit.client.send("/t/c", Cancel("jo"), lane=Lane.SYSTEM)
        await kit.settle()
        assert await status(kit, "/t/c") == ("cancelled", "cancelled by jo"), "it had its turn at once"
        assert await kit.store.dead_letters() == []


async def test_an_interrupt_that_was_there_before_the_handler_began_to_wait_goes_first_too() -> None:
    slow = Slow()
    async with TestKit(tree(slow)) as kit:
        await kit.send(ONE, Note("a"))
        both = [
            await kit.client.envelope(ONE, Note("slow"), lane=Lane.SYSTEM),
            await kit.client.envelope(ONE, Cancel("jo"), lane=Lane.SYSTEM),
        ]
        await kit.store.send(both)
        await kit.settle()
        assert slow.began == [], "its task was stopped before it had begun"
        assert (await status(kit))[0] == "cancelled"
        assert [letter.envelope.message() for letter in await kit.store.dead_letters()] == [Note("slow")]


async def test_an_interrupt_is_not_kept_waiting_by_what_is_in_back_off_or_still_on_disk() -> None:
    slow = Slow()
    async with TestKit(tree(slow)) as kit:
        await kit.send(ONE, Note("a"))
        await kit.send(ONE, Note("slow"))
        await send_all(kit, ONE, [str(n) for n in range(3000)])
        await kit.settle()
        await kit.client.send(ONE, Kill("jo"), lane=Lane.SYSTEM)
        await kit.advance(seconds=1.1)  # a poll, at most
        assert slow.cut == ["slow"]
        assert shard_of(ONE) in kit.nodes[0].life.ownership.owned  # type: ignore[union-attr]


# --- handlers that wait are tasks of their own -----------------------------------------------------------------------


async def test_a_timeout_that_a_handler_opens_before_its_first_wait_hits_that_handler_only() -> None:
    async def impatient(ctx: Context) -> None:
        with anyio.move_on_after(0.01) as scope:  # real time: it belongs to the task that runs this line
            await anyio.sleep(5)
        assert scope.cancelled_caught
        ctx.send("/t/p:2", Note("in time"))

    def script(_probe: Probe, note: Note, ctx: Context) -> Any:
        return impatient(ctx) if note.text == "impatient" else None

    async with TestKit(tree(script)) as kit:
        await kit.send(ONE, Note("impatient"))
        with anyio.fail_after(60):
            while await kit.row("/t/p:2") is None:
                await anyio.sleep(0.005)
                await kit.settle()
        assert await notes(kit, ONE) == ["impatient"] and await notes(kit, "/t/p:2") == ["in time"]
        await kit.send("/t/p:3", Note("the pump goes on"))
        assert await notes(kit, "/t/p:3") == ["the pump goes on"]


async def test_handlers_without_an_await_need_no_task_and_the_others_do() -> None:
    tasks: list[str | None] = []

    class Both(Actor[Notes], kind="engine-test-both"):
        @on(creates=True)
        async def note(self, message: Note, ctx: Context) -> None:
            tasks.append(anyio.get_current_task().name)
            self.state.notes.append(message.text)

        @on
        async def answer(self, message: Answer, ctx: Context) -> None:
            tasks.append(anyio.get_current_task().name)
            await anyio.lowlevel.checkpoint()

    async with TestKit(Supervisor("t", (Child(Both, "b", pool=True),))) as kit:
        await kit.send("/t/b:1", Note("a"))
        await kit.send("/t/b:1", Answer("b"))
        assert tasks == ["pump", "turns"]
