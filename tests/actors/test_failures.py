"""§4.6: what each way to fail does to the message and to its actor, and what is charged. Actors, then workers."""

from typing import Any

import anyio
import pytest

from callboard.actors.actor import Actor, on
from callboard.actors.context import Context, WorkerContext
from callboard.actors.directives import Fatal, Park, Reject, Transient, is_out_of_memory
from callboard.actors.node import Node
from callboard.actors.retry import RetryPolicy
from callboard.actors.spec import Child, Supervisor
from callboard.actors.system import Resume
from callboard.actors.testing import TestKit
from callboard.mailbox.errors import StoreUnavailable
from callboard.mailbox.lane import Lane
from callboard.mailbox.message import Message
from callboard.persistence.unit import Unit
from tests.actors.world import (
    SETTINGS,
    Answer,
    Call,
    Note,
    Notes,
    Probe,
    Tool,
    address_of,
    answers,
    notes,
    send_all,
    spy_on_commits,
    tree,
)

pytestmark = pytest.mark.anyio

ONE = "/t/p:1"


class Hasty(Probe, kind="engine-test-hasty"):
    """A probe whose hour has two minutes."""

    retry = RetryPolicy(transient_seconds=120)


class Failing:
    """A script whose note "x" raises `error` while there is one, and notes when that was."""

    def __init__(self, error: BaseException | None) -> None:
        self.error = error
        self.at: list[float] = []

    def __call__(self, _probe: Probe, note: Note, ctx: Context) -> None:
        if note.text == "x":
            self.at.append(ctx.port.monotonic())
            if self.error is not None:
                raise self.error


async def counters(kit: TestKit, address: str = ONE) -> list[tuple[int, int, int]]:
    """(failures, timeouts, losses) of each message that waits."""
    views = await kit.store.peek(address)
    return [(view.envelope.failures, view.envelope.timeouts, view.envelope.losses) for view in views]


# --- the world's fault -----------------------------------------------------------------------------------------------


async def test_a_transient_fault_of_an_hour_parks_the_actor_with_its_message_first_in_line_and_uncharged() -> None:
    failing = Failing(Transient("the provider does not answer"))
    assert RetryPolicy().transient_seconds == 3600
    async with TestKit(tree(failing, actor=Hasty)) as kit:
        await kit.send(ONE, Note("a"))
        await send_all(kit, ONE, ["x", "b"])
        await kit.advance(seconds=119)
        row = await kit.row(ONE)
        assert row is not None and row.status == "active"
        await kit.advance(seconds=62)
        row = await kit.row(ONE)
        assert row is not None and (row.status, row.reason) == (
            "parked",
            "provider_down: the provider does not answer",
        )
        tries = len(failing.at)
        await kit.advance(minutes=10)
        assert len(failing.at) == tries and await counters(kit) == [(0, 0, 0)] * 2
        assert [view.envelope.message() for view in await kit.store.peek(ONE)] == [Note("x"), Note("b")]
        failing.error = None
        await kit.client.send(ONE, Resume("jo"), lane=Lane.SYSTEM)
        await kit.settle()
        assert await notes(kit, ONE) == ["a", "x", "b"]
        assert await kit.store.dead_letters() == []


async def test_g8_the_hour_is_counted_across_a_take_over() -> None:
    failing = Failing(Transient("down"))
    async with TestKit(tree(failing, actor=Hasty), settings=SETTINGS) as kit:
        await kit.send(ONE, Note("a"))
        await kit.send(ONE, Note("x"))
        await kit.advance(seconds=80)
        await kit.crash(kit.nodes[0])
        await kit.join()
        await kit.advance(seconds=39)
        row = await kit.row(ONE)
        assert row is not None and row.status == "active"
        await kit.advance(seconds=130)
        row = await kit.row(ONE)
        assert row is not None and row.reason.startswith("provider_down: ")


async def test_retry_after_wins_over_the_back_off() -> None:
    failing = Failing(Transient("later", after_seconds=17))
    async with TestKit(tree(failing)) as kit:
        await kit.send(ONE, Note("x"))
        await kit.advance(seconds=60)
        assert [when - failing.at[0] for when in failing.at] == pytest.approx([0, 17, 34, 51])


async def test_a_workers_call_goes_on_at_the_cap_after_the_hour_and_its_caller_is_told_nothing() -> None:
    tries = 0

    async def body(_call: Call, _ctx: WorkerContext) -> Message:
        nonlocal tries
        tries += 1
        raise Transient("down")

    def script(_probe: Probe, note: Note, ctx: Context) -> None:
        ctx.send("/t/tool", Call(note.text))

    class Hurried(Tool, kind="engine-test-hurried"):
        retry = Hasty.retry

    async with TestKit(tree(script, Child(Hurried, "tool", args=(body,)))) as kit:
        await kit.send(ONE, Note("a"))
        await kit.advance(minutes=10)
        before = tries
        await kit.advance(minutes=3)
        assert tries - before == 3
        assert await answers(kit, ONE) == [] and await kit.store.dead_letters() == []
        row = await kit.row(ONE)
        assert row is not None and row.status == "active"


# --- bugs, limits ----------------------------------------------------------------------------------------------------


async def test_a_turn_over_its_limit_has_a_budget_of_its_own_of_three() -> None:
    began: list[float] = []

    async def stuck(ctx: Context) -> None:
        began.append(ctx.port.monotonic())
        await ctx.port.sleep(1e6)

    def script(_probe: Probe, note: Note, ctx: Context) -> Any:
        return stuck(ctx) if note.text == "x" else None

    async with TestKit(tree(script)) as kit:
        await kit.send(ONE, Note("a"))
        await send_all(kit, ONE, ["x", "b"])
        await kit.advance(seconds=300 + 0.5)
        assert await counters(kit) == [(1, 1, 0), (0, 0, 0)]
        await kit.advance(seconds=900)
        assert len(began) == 3
        (letter,) = await kit.store.dead_letters()
        assert (letter.reason, letter.envelope.failures, letter.envelope.timeouts) == ("failed", 3, 3)
        assert "not done within the 300 s" in letter.detail
        assert await notes(kit, ONE) == ["a", "b"], "its supervisor started it again"


async def test_timeouts_of_a_message_are_kept_through_a_take_over() -> None:
    async def stuck(ctx: Context) -> None:
        await ctx.port.sleep(1e6)

    def script(_probe: Probe, note: Note, ctx: Context) -> Any:
        return stuck(ctx) if note.text == "x" else None

    async with TestKit(tree(script), settings=SETTINGS) as kit:
        await kit.send(ONE, Note("a"))
        await kit.send(ONE, Note("x"))
        await kit.advance(seconds=602)
        assert await counters(kit) == [(2, 2, 0)]
        await kit.crash(kit.nodes[0])
        await kit.join()
        await kit.advance(seconds=305)
        (letter,) = await kit.store.dead_letters()
        assert (letter.envelope.failures, letter.envelope.timeouts) == (3, 3)


class Starting(Actor[Notes], kind="engine-test-starting"):
    """Its start meets a fault of the world."""

    retry = RetryPolicy(transient_seconds=100)

    def on_start(self, ctx: Context) -> None:
        raise Transient("no world")

    @on
    def note(self, message: Note, ctx: Context) -> None: ...


async def test_a_start_that_meets_the_worlds_fault_for_too_long_is_an_actor_failure_for_its_supervisor_waits() -> None:
    async with TestKit(Supervisor("t", (Child(Starting, "s"),))) as kit:
        await kit.advance(seconds=90)
        row = await kit.row("/t/s")
        assert row is None or row.status == "active"
        await kit.advance(seconds=90)
        turns = [turn.type for turn in await kit.store.turns("/t")]
        assert "sys.child_failed" in turns


# --- the platform's fault: nothing is charged ------------------------------------------------------------------------


async def slow(ctx: Context) -> None:
    await ctx.port.sleep(4)


def slowly(_probe: Probe, note: Note, ctx: Context) -> Any:
    return slow(ctx) if note.text == "x" else None


async def test_g8_a_turn_whose_node_dies_or_freezes_is_charged_with_nothing() -> None:
    async with TestKit(tree(slowly), nodes=2, settings=SETTINGS) as kit:
        await kit.advance(seconds=2)
        address = address_of(kit, kit.nodes[0])
        await kit.send(address, Note("x"))
        kit.freeze(kit.nodes[0])
        await kit.advance(seconds=3)
        assert await counters(kit, address) == [(0, 0, 0)]
        await kit.advance(seconds=5)
        await kit.thaw(kit.nodes[0])
        await kit.advance(seconds=5)
        assert await notes(kit, address) == ["x"] and await kit.store.dead_letters() == []


async def test_g8_an_outage_of_the_store_charges_nobody() -> None:
    def script(_probe: Probe, note: Note, ctx: Context) -> None:
        ctx.send("/t/p:2", Note(note.text))

    async with TestKit(tree(lambda p, n, c: script(p, n, c) if c.address == ONE else None)) as kit:
        await send_all(kit, ONE, [str(n) for n in range(20)])
        kit.store.down = True
        await kit.advance(seconds=30)
        kit.store.down = False
        await kit.advance(seconds=10)
        assert await notes(kit, "/t/p:2") == [str(n) for n in range(20)]
        assert [turn.deliveries for turn in await kit.store.turns("/t/p:2")] == [1] * 20


async def test_g8_a_node_that_joins_right_after_an_outage_takes_over_nobody_who_lives() -> None:
    async with TestKit(tree(slowly), nodes=2, settings=SETTINGS) as kit:
        await kit.advance(seconds=2)
        address = address_of(kit, kit.nodes[0])
        kit.store.down = True
        await kit.advance(seconds=20)
        kit.store.down = False
        third = await kit.join()
        await kit.send(address, Note("x"))
        await kit.advance(seconds=6)
        assert third.life is not None and third.life.ownership.taken_over == []
        assert await notes(kit, address) == ["x"]


async def test_g7_a_node_that_finds_only_dead_ones_takes_over_after_a_lease() -> None:
    async with TestKit(tree(), nodes=2, settings=SETTINGS) as kit:
        await kit.advance(seconds=2)
        for node in list(kit.nodes):
            await kit.crash(node)
        await kit.advance(seconds=60)
        await kit.join()
        await kit.advance(seconds=SETTINGS.lease_seconds + SETTINGS.beat_seconds + 0.5)
        await kit.send(ONE, Note("a"))
        assert await notes(kit, ONE) == ["a"]


async def test_an_outage_that_a_worker_meets_in_its_own_database_is_a_failure_of_its_call() -> None:
    async def body(_call: Call, _ctx: WorkerContext) -> Message:
        raise StoreUnavailable("the tool's own database")

    def script(_probe: Probe, note: Note, ctx: Context) -> None:
        ctx.send("/t/tool", Call(note.text))

    async with TestKit(tree(script, Child(Tool, "tool", args=(body,)))) as kit:
        await kit.send(ONE, Note("a"))
        await kit.advance(seconds=60)
        assert await answers(kit, ONE) == ["failed: target-failed"]
        (letter,) = await kit.store.dead_letters()
        assert letter.envelope.failures == 5


# --- no memory -------------------------------------------------------------------------------------------------------


def test_no_memory_is_found_through_causes_and_groups() -> None:
    wrapped = RuntimeError("wrapped")
    wrapped.__cause__ = ExceptionGroup("g", [ValueError(), MemoryError()])
    assert is_out_of_memory(wrapped) and is_out_of_memory(MemoryError())
    assert not is_out_of_memory(RuntimeError("memory"))


@pytest.mark.parametrize("where", ["actor", "worker"])
async def test_a_handler_without_memory_costs_its_message_a_loss_and_its_node_drains(where: str) -> None:
    full = {where}

    def need_memory(who: str) -> None:
        if who in full:
            full.clear()
            raise MemoryError

    async def body(call: Call, _ctx: WorkerContext) -> Message:
        need_memory("worker")
        return Answer(call.text)

    def script(_probe: Probe, note: Note, ctx: Context) -> None:
        if note.text == "x":
            need_memory("actor")
            ctx.send("/t/tool", Call(note.text))

    async with TestKit(tree(script, Child(Tool, "tool", args=(body,))), nodes=2, settings=SETTINGS) as kit:
        await kit.advance(seconds=2)
        first, second = kit.nodes
        charged: list[tuple[int, int, int]] = []

        def look(units: list[Unit]) -> None:
            charged.extend((r.failures, r.timeouts, r.losses) for unit in units for r in unit.retries if not r.started)

        spy_on_commits(kit, first, look)
        address = address_of(kit, first)
        await kit.send(address, Note("a"))
        await kit.send(address, Note("x"))
        assert "out of memory" in first.stopped_for and second.stopped_for == ""
        assert [losses for _, _, losses in charged] == [1]
        await kit.advance(seconds=10)
        assert await answers(kit, address) == ["x"]
        assert await kit.store.dead_letters() == []
        turns = await kit.store.turns(address if where == "actor" else "/t/tool")
        assert {turn.outcome for turn in turns} == {"done"}


# --- workers, equally ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "reason", "why", "tries"),
    [
        (Reject("no"), "rejected", "rejected", 1),
        (Park("look"), "rejected", "rejected", 1),
        (Fatal("broken"), "rejected", "rejected", 1),
        (RuntimeError("bug"), "failed", "target-failed", 5),
        (ExceptionGroup("g", [Transient("t"), Reject("r")]), "rejected", "rejected", 1),
    ],
)
async def test_a_workers_directives_make_dead_letters_and_answer_the_asker(
    error: Exception, reason: str, why: str, tries: int
) -> None:
    count = 0

    async def body(_call: Call, _ctx: WorkerContext) -> Message:
        nonlocal count
        count += 1
        raise error

    def script(_probe: Probe, note: Note, ctx: Context) -> None:
        ctx.send("/t/tool", Call(note.text))

    async with TestKit(tree(script, Child(Tool, "tool", args=(body,)))) as kit:
        await kit.send(ONE, Note("a"))
        await kit.advance(seconds=60)
        assert count == tries
        assert [letter.reason for letter in await kit.store.dead_letters()] == [reason]
        assert await answers(kit, ONE) == [f"failed: {why}"]


async def test_a_body_that_fails_its_schema_is_a_dead_letter_and_the_asker_is_told() -> None:
    def script(_probe: Probe, note: Note, ctx: Context) -> None:
        ctx.send("/t/tool", Call(note.text))
        ctx.sends[-1].body = '{"type":"engine_test.call","text":7}'

    async def body(call: Call, _ctx: WorkerContext) -> Message:
        return Answer(call.text)

    async with TestKit(tree(script, Child(Tool, "tool", args=(body,)))) as kit:
        await kit.send(ONE, Note("a"))
        assert await answers(kit, ONE) == ["failed: target-failed"]
        bad = await kit.client.envelope(ONE, Note("b"))
        bad.body = '{"type":"engine_test.note","text":[]}'
        await kit.store.send([bad])
        await kit.settle()
        letters = await kit.store.dead_letters()
        assert [letter.reason for letter in letters] == ["unreadable"] * 2
        assert {letter.envelope.failures for letter in letters} == {0}


async def test_a_call_that_raises_because_it_was_cancelled_is_charged_with_nothing() -> None:
    attempts: list[int] = []

    async def body(call: Call, ctx: WorkerContext) -> Message:
        attempts.append(ctx.attempt)
        try:
            await ctx.port.sleep(100 if ctx.node == first_number else 0)
        except anyio.get_cancelled_exc_class():
            raise RuntimeError("cannot be stopped like this") from None
        return Answer(call.text)

    def script(_probe: Probe, note: Note, ctx: Context) -> None:
        ctx.send("/t/tool", Call(note.text))

    async with TestKit(tree(script, Child(Tool, "tool", args=(body,))), nodes=2, settings=SETTINGS) as kit:
        await kit.advance(seconds=2)
        first: Node = kit.nodes[0]
        first_number = kit.session(first).number
        address = address_of(kit, first)
        await kit.send(address, Note("a"))
        await kit.leave(first)
        await kit.advance(seconds=SETTINGS.drain_seconds + 2)
        assert await answers(kit, address) == ["a"]
        assert await kit.store.dead_letters() == []
        assert attempts == [1, 1]
