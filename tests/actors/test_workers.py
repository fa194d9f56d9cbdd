"""G4: a call begins only from a committed message, has one outcome, and is never blindly repeated; rule 8."""

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

from callboard.actors.actor import Worker, on
from callboard.actors.context import Context, WorkerContext
from callboard.actors.directives import Fatal, Park, Reject, Transient
from callboard.actors.spec import Child, Supervisor
from callboard.actors.testing import TestKit
from callboard.mailbox.address import shard_of
from callboard.mailbox.lane import Lane
from callboard.mailbox.message import Message
from tests.actors.world import (
    SETTINGS,
    Answer,
    Call,
    Note,
    Probe,
    Tool,
    Tools,
    address_of,
    answers,
    notes,
    shards,
    tree,
)

pytestmark = pytest.mark.anyio

ONE = "/t/p:1"


def calls(_probe: Probe, note: Note, ctx: Context) -> None:
    """The script of a probe that passes on what begins with "call"."""
    if note.text.startswith("call"):
        ctx.send("/t/tool", Call(note.text))


def with_tool(body: Callable[[Call, WorkerContext], Awaitable[Message | None]], kind: type[Tool] = Tool) -> Supervisor:
    return tree(calls, Child(kind, "tool", args=(body,)))


class Log:
    """A body that notes when it was called, and holds each call until told otherwise."""

    def __init__(self, *, seconds: float = 0.0) -> None:
        self.seconds = seconds
        self.began: list[tuple[str, bool]] = []
        self.ended: list[str] = []

    async def __call__(self, call: Call, ctx: WorkerContext) -> Message | None:
        self.began.append((call.text, ctx.in_doubt))
        await ctx.port.sleep(self.seconds)
        self.ended.append(call.text)
        return Answer(call.text)


async def test_a_call_is_answered_once_and_leaves_a_turn_row() -> None:
    async with TestKit(with_tool(Log())) as kit:
        await kit.send(ONE, Note("call"))
        assert await answers(kit, ONE) == ["call"]
        (turn,) = await kit.store.turns("/t/tool")
        assert (turn.outcome, turn.sender) == ("done", ONE)


async def test_g4_a_call_begins_only_after_the_turn_that_sent_it_is_on_disk() -> None:
    log = Log()
    async with TestKit(with_tool(log)) as kit:
        may_commit = anyio.Event()

        async def before(_number: int, operation: str) -> None:
            if operation == "commit":
                await may_commit.wait()

        kit.store.before = before
        await kit.send(ONE, Note("call"))
        assert log.began == []
        may_commit.set()
        await kit.settle()
        assert log.began == [("call", False)]


async def test_g4_a_crash_before_the_start_is_on_disk_leaves_no_doubt() -> None:
    log = Log()
    async with TestKit(with_tool(log, Tools), settings=SETTINGS) as kit:
        stuck, go = anyio.Event(), anyio.Event()

        async def before(number: int, operation: str) -> None:
            if number == 1 and operation == "commit" and await notes(kit, ONE):
                stuck.set()
                await go.wait()

        kit.store.before = before
        await kit.send(ONE, Note("call"))
        assert stuck.is_set() and log.began == []
        await kit.join()
        kit.session(kit.nodes[0]).crash()
        go.set()
        await kit.crash(kit.nodes[0])
        await kit.advance(seconds=3)
        assert log.began == [("call", False)]
        assert await answers(kit, ONE) == ["call"]


async def test_g4_a_crash_after_the_start_is_on_disk_leaves_the_call_in_doubt() -> None:
    log = Log(seconds=2)
    async with TestKit(with_tool(log, Tools), settings=SETTINGS) as kit:
        await kit.join()
        await kit.advance(seconds=1)
        address = address_of(kit, kit.nodes[0])
        await kit.send(address, Note("call"))
        assert log.began == [("call", False)]
        await kit.crash(kit.nodes[0])
        await kit.advance(seconds=3)
        assert log.began == [("call", False), ("call", True)]
        assert await answers(kit, address) == ["call"]
        assert await kit.store.dead_letters() == []


async def test_g4_a_failure_that_was_seen_leaves_no_doubt() -> None:
    doubts: list[bool] = []

    async def body(_call: Call, ctx: WorkerContext) -> Message:
        doubts.append(ctx.in_doubt)
        if len(doubts) < 3:
            raise RuntimeError("seen")
        return Answer("at last")

    async with TestKit(with_tool(body, Tools)) as kit:
        await kit.send(ONE, Note("call"))
        await kit.advance(seconds=10)
        assert doubts == [False, False, False]
        assert await answers(kit, ONE) == ["at last"]


@pytest.mark.parametrize("nth", range(1, 4))
async def test_g4_a_lost_answer_to_a_commit_repeats_no_call(nth: int) -> None:
    log = Log(seconds=0.5)
    async with TestKit(with_tool(log, Tools)) as kit:
        commits = 0

        def lost(_number: int) -> bool:
            nonlocal commits
            commits += 1
            return commits == nth

        kit.store.lost_answer = lost
        await kit.send(ONE, Note("call"))
        await kit.advance(seconds=5)
        assert commits >= nth
        assert log.began == [("call", False)]
        assert await answers(kit, ONE) == ["call"]


async def test_g7_a_call_ten_leases_long_runs_once() -> None:
    log = Log(seconds=10 * SETTINGS.lease_seconds)
    async with TestKit(with_tool(log, Tools), nodes=2, settings=SETTINGS) as kit:
        await kit.advance(seconds=1)
        for node in kit.nodes:
            await kit.client.send(address_of(kit, node), Note("call"))
        await kit.advance(seconds=11 * SETTINGS.lease_seconds)
        assert log.began == [("call", False)] * 2
        assert log.ended == ["call"] * 2


async def test_the_outcome_of_a_superseded_node_is_not_taken() -> None:
    log = Log(seconds=3)
    async with TestKit(with_tool(log), nodes=2, settings=SETTINGS) as kit:
        await kit.advance(seconds=1)
        address = address_of(kit, kit.nodes[0])
        await kit.send(address, Note("call"))
        kit.freeze(kit.nodes[0])
        await kit.advance(seconds=10)
        await kit.thaw(kit.nodes[0])
        await kit.advance(seconds=3)
        assert len(log.began) == 2
        assert await answers(kit, address) == ["call"]
        assert [turn.outcome for turn in await kit.store.turns("/t/tool")] == ["done"]


# --- how calls fail --------------------------------------------------------------------------------------------------


async def failures(error: Exception, seconds: float) -> tuple[list[float], list[str], TestKit]:
    at: list[float] = []

    async def body(_call: Call, ctx: WorkerContext) -> Message:
        at.append(ctx.port.monotonic())
        raise error

    kit = TestKit(with_tool(body))
    async with kit:
        await kit.send(ONE, Note("call"))
        await kit.advance(seconds=seconds)
        got = await answers(kit, ONE)
    return [when - at[0] for when in at], got, kit


async def test_a_call_that_always_fails_is_given_up_after_its_attempts_and_the_asker_is_told() -> None:
    at, got, kit = await failures(RuntimeError("bug"), 60)
    assert at == pytest.approx([0, 1, 3, 7, 15])
    assert got == ["failed: target-failed"]
    assert [letter.reason for letter in await kit.store.dead_letters()] == ["failed"]


async def test_a_transient_call_waits_longer_each_time() -> None:
    at, got, kit = await failures(Transient("the world"), 120)
    assert at == pytest.approx([0, 1, 3, 7, 15, 31, 63])
    assert (got, await kit.store.dead_letters()) == ([], [])


@pytest.mark.parametrize("error", [Reject("no"), Park("no"), Fatal("no")])
async def test_a_rejected_call_is_a_dead_letter_at_once(error: Exception) -> None:
    at, got, kit = await failures(error, 60)
    assert (at, got) == ([0], ["failed: rejected"])
    assert [letter.reason for letter in await kit.store.dead_letters()] == ["rejected"]


class Odd(Worker, kind="engine-test-odd"):
    """Does what no worker should."""

    def records_start(self, message: Message) -> bool:
        if isinstance(message, Call) and message.text == "call records":
            raise RuntimeError("no answer")
        return False

    def given_up(self, message: Message, error: str, ctx: WorkerContext) -> Message | None:
        if isinstance(message, Call) and message.text == "call given_up":
            raise RuntimeError("no reply")
        return None

    @on
    def call(self, message: Call, ctx: WorkerContext) -> Any:
        match message.text:
            case "call sync":
                return Answer("sync")
            case "call dict":
                return {"not": "a message"}
            case "call huge":
                return Answer("x" * (1 << 20))
            case "call nothing":
                return None
            case _:
                raise Reject(f"nul \0 and half \ud800 in {message.text}")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("call sync", ["sync"]),
        ("call dict", ["failed: target-failed"]),
        ("call huge", ["failed: target-failed"]),
        ("call nothing", []),
        ("call records", ["failed: target-failed"]),
        ("call given_up", ["failed: rejected"]),
    ],
)
async def test_whatever_a_worker_does_its_node_lives_and_its_asker_is_told(text: str, expected: list[str]) -> None:
    async with TestKit(tree(calls, Child(Odd, "tool"))) as kit:
        await kit.send(ONE, Note(text))
        await kit.advance(seconds=30)
        assert await answers(kit, ONE) == expected
        assert await kit.store.peek("/t/tool") == []
        await kit.send(ONE, Note("call sync"))
        assert (await answers(kit, ONE))[-1] == "sync"


async def test_g6_an_unreadable_call_and_one_without_a_handler_are_dead_letters_and_the_asker_is_told() -> None:
    def script(_probe: Probe, _note: Note, ctx: Context) -> None:
        ctx.send("/t/tool", Note("no handler"))
        ctx.send("/t/tool", Call("unreadable"))
        ctx.sends[-1].body = '{"type":"engine_test.call","text":7}'

    async with TestKit(tree(script, Child(Tool, "tool", args=(Log(),)))) as kit:
        await kit.send(ONE, Note())
        assert sorted(await answers(kit, ONE)) == ["failed: rejected", "failed: target-failed"]
        reasons = {letter.envelope.type: letter.reason for letter in await kit.store.dead_letters()}
        assert reasons == {"engine_test.note": "rejected", "engine_test.call": "unreadable"}


async def test_an_answer_to_an_actor_that_cannot_be_read_waits_and_harms_nobody() -> None:
    log = Log(seconds=5)
    async with TestKit(with_tool(log), settings=SETTINGS) as kit:
        await kit.send(ONE, Note("call"))
        row = kit.store.tables.actors[shard_of(ONE), ONE]
        good, row.state = row.state, b"\xc1"
        await kit.crash(kit.nodes[0])
        node = await kit.join()
        await kit.advance(seconds=10)
        assert log.ended == ["call"]
        parked = await kit.row(ONE)
        assert parked is not None and parked.reason.startswith("schema:")
        kit.store.tables.actors[shard_of(ONE), ONE].state = good
        await kit.crash(node)
        await kit.join()
        await kit.advance(seconds=5)
        assert await answers(kit, ONE) == ["call"]


async def test_an_answer_whose_turn_is_not_taken_is_kept() -> None:
    """It was to be handled in the unit that ends its call; the unit is left out, the worker's work is not lost."""
    log = Log(seconds=1)
    async with TestKit(with_tool(log)) as kit:
        await kit.send(ONE, Note("call"))
        row = kit.store.tables.actors[shard_of(ONE), ONE]
        row.version += 1  # behind the node's back
        await kit.advance(seconds=5)
        assert log.began == [("call", False)]
        assert await answers(kit, ONE) == ["call"]
        assert [turn.outcome for turn in await kit.store.turns("/t/tool")] == ["done"]
        assert kit.nodes[0].life is not None and not kit.nodes[0].life.cells.seen


async def test_a_withdrawn_call_is_stopped_and_never_answered() -> None:
    log = Log(seconds=5)
    sent: list[int] = []

    def script(_probe: Probe, note: Note, ctx: Context) -> None:
        if note.text == "call":
            sent.append(ctx.send("/t/tool", Call("x")))
        elif note.text == "back":
            ctx.withdraw(sent[0])

    async with TestKit(tree(script, Child(Tool, "tool", args=(log,)))) as kit:
        await kit.send(ONE, Note("call"))
        assert log.began
        await kit.send(ONE, Note("back"))
        await kit.advance(seconds=20)
        assert (log.ended, await answers(kit, ONE)) == ([], [])
        assert await kit.store.peek("/t/tool") == []
        assert kit.nodes[0].life is not None and not kit.nodes[0].life.cells.seen


async def test_held_calls_wait_for_their_release_and_dropped_ones_never_go() -> None:
    log = Log()
    held: list[int] = []

    def script(_probe: Probe, note: Note, ctx: Context) -> None:
        match note.text:
            case "hold":
                held.extend(ctx.hold("/t/tool", Call(text)) for text in ("a", "b"))
            case "go":
                ctx.release(held[0])
                ctx.drop(held[1])

    async with TestKit(tree(script, Child(Tool, "tool", args=(log,)))) as kit:
        await kit.send(ONE, Note("hold"))
        await kit.advance(seconds=5)
        assert log.began == []
        await kit.send(ONE, Note("go"))
        assert (log.ended, await answers(kit, ONE)) == (["a"], ["a"])
        assert await kit.store.peek("/t/tool") == []


async def test_no_more_calls_run_at_a_time_than_the_worker_says() -> None:
    log = Log(seconds=1)

    class Few(Tool, kind="engine-test-few"):
        concurrency = 3

    async with TestKit(with_tool(log, Few)) as kit:
        for n in range(7):
            await kit.client.send(ONE, Note(f"call {n}"), lane=Lane.NORMAL)
        seen = []
        for _ in range(4):
            await kit.advance(seconds=0.9)
            seen.append(len(log.began) - len(log.ended))
            await kit.advance(seconds=0.1)
        assert seen == [3, 3, 1, 0]


# --- rule 8 ----------------------------------------------------------------------------------------------------------


async def test_rule_8_rebalancing_skips_a_shard_with_a_running_call() -> None:
    log = Log(seconds=8)
    async with TestKit(with_tool(log, Tools), settings=SETTINGS) as kit:
        await kit.send("/t/p:1", Note("call"))
        await kit.send("/t/p:2", Note("call"))
        await kit.join()
        await kit.advance(seconds=4)
        assert [shards(kit, node) for node in kit.nodes] == [128, 128]
        await kit.advance(seconds=10)
        assert (log.began, log.ended) == ([("call", False)] * 2, ["call"] * 2)
        assert [shards(kit, node) for node in kit.nodes] == [128, 128]


async def test_rule_8_a_leaving_node_gives_its_shards_when_its_calls_have_ended() -> None:
    log = Log(seconds=4)
    async with TestKit(with_tool(log, Tools), settings=SETTINGS) as kit:
        await kit.send(ONE, Note("call"))
        first, second = kit.nodes[0], await kit.join()
        await kit.advance(seconds=1)
        await kit.leave(first)
        await kit.advance(seconds=1)
        assert shards(kit, second) < 256
        await kit.advance(seconds=3)
        assert shards(kit, second) == 256
        assert (log.began, log.ended) == ([("call", False)], ["call"])
        assert await answers(kit, ONE) == ["call"]


async def test_rule_8_at_the_drain_limit_calls_are_cancelled_and_gone_before_their_shard_is_given() -> None:
    running = 0
    overlaps = 0

    async def body(_call: Call, ctx: WorkerContext) -> Message:
        nonlocal running, overlaps
        overlaps += running > 0
        running += 1
        try:
            await ctx.port.sleep(20)
        finally:
            with anyio.CancelScope(shield=True):
                await ctx.port.sleep(0.5)  # an effect that takes a while to be called off
                running -= 1
        return Answer("done")

    async with TestKit(with_tool(body, Tools), settings=SETTINGS) as kit:
        await kit.send(ONE, Note("call"))
        first, second = kit.nodes[0], await kit.join()
        await kit.advance(seconds=1)
        await kit.leave(first)
        await kit.advance(seconds=SETTINGS.drain_seconds + 3)
        assert shards(kit, second) == 256
        assert (running, overlaps) == (1, 0)
        await kit.advance(seconds=21)
        assert await answers(kit, ONE) == ["done"]
