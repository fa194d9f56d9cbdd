"""What hostile, careless or unlucky code and messages may do: to their own actor, and to nobody else.

Each of these ended a node (and every node after it, as the message was still there), stood still for ever without a
word, or left something behind that nobody would ever have removed.
"""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import anyio
import msgspec
import pytest

from callboard.actors import reader
from callboard.actors.context import Context, WorkerContext
from callboard.actors.directives import AFTER_CAP_SECONDS, Fatal, Park, Reject, Transient
from callboard.actors.node import NodeSettings
from callboard.actors.quarantine import Trial, Verdict, rehearse
from callboard.actors.spec import Child, Tree
from callboard.actors.system import Cancel, HandlerLost, Stop
from callboard.actors.testing import ManualPort, ScriptedQuarantine, TestKit
from callboard.mailbox.envelope import headers_of
from callboard.mailbox.errors import StoreError, StoreUnavailable
from callboard.mailbox.lane import Lane
from callboard.mailbox.message import Message
from tests.actors.world import SETTINGS, Answer, Call, Note, Once, Probe, Tool, notes, send_all, tree

pytestmark = pytest.mark.anyio

ONE, TWO = "/t/p:1", "/t/p:2"


class Mute(Exception):
    """Cannot say what it is."""

    def __str__(self) -> str:
        raise RuntimeError("no")


class Own(Transient):
    """Never calls the `__init__` of its base."""

    def __init__(self, code: int) -> None:
        self.code = code


def raises(error: BaseException) -> Callable[[Context], None]:
    def act(_ctx: Context) -> None:
        raise error

    return act


ACTS: dict[str, Callable[[Any], Any]] = {
    "an error without text": raises(Mute()),
    "park with a number": raises(Park(5)),  # type: ignore[arg-type]
    "reject with nothing": raises(Reject(None)),  # type: ignore[arg-type]
    "fatal with bytes": raises(Fatal(b"\xff\x00")),  # type: ignore[arg-type]
    "a directive of its own": raises(Own(5)),
    "again after a timedelta": raises(Transient(after_seconds=timedelta(seconds=1))),
    "again after NaN": raises(Transient(after_seconds=float("nan"))),
    "again after an infinity": raises(Transient(after_seconds=float("inf"))),
    "again before now": raises(Transient(after_seconds=-1e300)),
    "ctx.park with a number": lambda ctx: ctx.park(5),
    "ctx.park with NUL": lambda ctx: ctx.park("a\0\ud800" + "b" * 100_000),
    "ctx.stop as nonsense": lambda ctx: ctx.stop("banana"),
    "ctx.stop for a number": lambda ctx: ctx.stop("failed", 5),
    "a send to nowhere": lambda ctx: ctx.send("nowhere", Note()),
    "a send without a lane": lambda ctx: ctx.send(TWO, Note(), lane="x"),
    "a period of nothing": lambda ctx: ctx.schedule("k", 0, Note("tick"), every=5e-324),
    "a key with NUL": lambda ctx: ctx.schedule("k\0", 0, Note("tick")),
    "a release of a text": lambda ctx: ctx.release("x"),
    "a drop of nothing held": lambda ctx: ctx.drop(5),
    "a withdrawal of None": lambda ctx: ctx.withdraw(None),
    "a reply to a text": lambda ctx: ctx.reply_later((TWO, "x"), Answer()),
    "a huge correlation": lambda ctx: ctx.reply_later((TWO, 1 << 80), Answer()),
    "a record of nothing": lambda ctx: ctx.record(None),
    "a summary of itself": lambda ctx: ctx.seal(TWO, None, Lane.NORMAL),
}


@pytest.mark.parametrize("act", ACTS.values(), ids=ACTS.keys())
async def test_g7_whatever_a_handler_does_is_its_own_actors_affair(act: Callable[[Any], Any]) -> None:
    def script(_probe: Probe, note: Note, ctx: Context) -> None:
        if note.text == "bad":
            act(ctx)

    async with TestKit(tree(script)) as kit:
        await send_all(kit, ONE, ["ok", "bad", "after"])
        await kit.advance(seconds=10)
        await kit.send(TWO, Note("alive"))
        assert await notes(kit, TWO) == ["alive"]
        assert (await notes(kit, ONE))[0] == "ok"
        assert kit.nodes[0].stopped_for == "" and len(kit.store.cluster.nodes) == 1, "no node was superseded"


def sealed(body: str) -> Any:
    def change(envelope: Any) -> None:
        envelope.body = body

    return change


def headed(headers: str) -> Any:
    def change(envelope: Any) -> None:
        envelope.headers, envelope.reply_to = headers, TWO

    return change


def versioned(envelope: Any) -> None:
    envelope.version = 9


FORGED: dict[str, tuple[Message, Callable[[Any], Any]]] = {
    "a stop that is no JSON": (Stop(1), sealed("{")),
    "a stop that is a list": (Stop(1), sealed("[]")),
    "a stop that is deep": (Stop(1), sealed("[" * 100_000)),
    "a cancel that is no JSON": (Cancel(), sealed("nonsense")),
    "a notice of a loss that is newer": (HandlerLost(1, "x"), versioned),
    "a notice of a loss of a huge message": (HandlerLost(1 << 70, "x"), lambda _: None),
    "headers that are deep": (Note("x"), headed('{"x":' + "[" * 100_000)),
    "headers that are no JSON": (Note("x"), headed("\x01")),
    "a deadline that is no number": (Note("x"), headed('{"deadline":1e999,"ask":true}')),
    "a deadline of long ago": (Note("x"), headed('{"deadline":-1e308,"ask":true}')),
}


@pytest.mark.parametrize(("message", "change"), FORGED.values(), ids=FORGED.keys())
async def test_g7_a_forged_message_ends_no_node_and_is_done_with(
    message: Message, change: Callable[[Any], Any]
) -> None:
    async with TestKit(tree()) as kit:
        await kit.send(ONE, Note("a"))
        system = not isinstance(message, Note)
        envelope = await kit.client.envelope(ONE, message, lane=Lane.SYSTEM if system else Lane.NORMAL)
        change(envelope)
        await kit.store.send([envelope])
        await kit.advance(seconds=30)
        await kit.send(ONE, Note("b"))
        assert (await notes(kit, ONE))[-1] == "b"
        assert await kit.store.peek(ONE) == []
        assert len(kit.store.cluster.nodes) == 1, "no node was superseded"
        assert headers_of(envelope).missed == 0


async def test_a_notice_that_cannot_be_stored_does_not_end_the_node_of_its_call() -> None:
    async def body(call: Call, ctx: WorkerContext) -> Message | None:
        if ctx.attempt < 3:
            raise Transient("busy", after_seconds=1, notice=Note("x" * (1 << 21)), charge=True)
        return Answer("done")

    def script(_probe: Probe, note: Note, ctx: Context) -> None:
        ctx.send("/t/tool", Call(note.text))

    async with TestKit(tree(script, Child(Tool, "tool", args=(body,)))) as kit:
        await kit.send(ONE, Note("a"))
        await kit.advance(seconds=10)
        assert (await kit.state(ONE, Memory)).answers == ["done"]


async def test_g7_a_turn_that_would_be_too_large_for_the_store_is_its_own_actors_affair() -> None:
    def script(_probe: Probe, note: Note, ctx: Context) -> None:
        match note.text:
            case "many":
                for _ in range(20_000):
                    ctx.send(TWO, Note())
            case "large":
                for _ in range(40):
                    ctx.send(TWO, Note("x" * 1_000_000))

    async with TestKit(tree(script, actor=Once)) as kit:
        await send_all(kit, ONE, ["many", "large", "after"])
        await kit.advance(seconds=30)
        assert ["allowed" in letter.detail for letter in await kit.store.dead_letters()] == [True, True]
        assert await kit.row(TWO) is None


@pytest.mark.parametrize("error", [StoreError("invalid memory alloc request size"), StoreUnavailable("too slow")])
async def test_g7_a_unit_that_the_store_cannot_take_ends_no_node_and_holds_no_other_up(error: StoreError) -> None:
    async with TestKit(tree(actor=Once)) as kit:
        session = kit.session(kit.nodes[0])
        commit = session.commit

        async def picky(units: Any) -> Any:
            if any(unit.actor is not None and unit.actor.address == ONE for unit in units):
                raise error
            return await commit(units)

        session.commit = picky  # type: ignore[method-assign]
        envelopes = [await kit.client.envelope(address, Note("a")) for address in (ONE, TWO)]
        await kit.store.send(envelopes)
        await kit.advance(minutes=1)
        assert len(kit.store.cluster.nodes) == 1, "no node was superseded"
        assert await notes(kit, TWO) == ["a"]
        if not isinstance(error, StoreUnavailable):
            assert ["memory alloc" in letter.detail for letter in await kit.store.dead_letters()] == [True]


@pytest.mark.parametrize("waits", [False, True])
async def test_a_handler_that_meets_a_cancellation_of_something_else_has_failed_and_no_more(waits: bool) -> None:
    async def within(ctx: Context) -> None:
        await ctx.port.sleep(1)
        raise anyio.get_cancelled_exc_class()()

    def script(_probe: Probe, note: Note, ctx: Context) -> Any:
        if note.text == "bad" and waits:
            return within(ctx)
        if note.text == "bad":
            raise anyio.get_cancelled_exc_class()()
        return None

    async with TestKit(tree(script)) as kit:
        await send_all(kit, ONE, ["ok", "bad", "after"])
        await kit.advance(minutes=2)
        await kit.send(TWO, Note("alive"))
        assert await notes(kit, TWO) == ["alive"]
        assert await notes(kit, ONE) == ["ok", "after"]
        assert ["Cancelled" in letter.detail for letter in await kit.store.dead_letters()] == [True]


async def test_a_call_that_meets_a_cancellation_of_something_else_is_made_again() -> None:
    attempts: list[int] = []

    async def body(call: Call, ctx: WorkerContext) -> Message | None:
        attempts.append(ctx.attempt)
        if len(attempts) < 3:
            raise anyio.get_cancelled_exc_class()()
        return Answer("done")

    def script(_probe: Probe, note: Note, ctx: Context) -> None:
        ctx.send("/t/tool", Call(note.text))

    async with TestKit(tree(script, Child(Tool, "tool", args=(body,)))) as kit:
        await kit.send(ONE, Note("a"))
        await kit.advance(seconds=30)
        assert attempts == [1, 2, 3]
        assert (await kit.state(ONE, Memory)).answers == ["done"]


class Memory(msgspec.Struct):
    notes: list[str] = []
    answers: list[str] = []


async def test_again_after_is_never_at_once_and_never_more_than_a_day() -> None:
    assert 0 < (Transient(after_seconds=0).after_seconds or 0) < 1
    assert Transient(after_seconds=1e300).after_seconds == AFTER_CAP_SECONDS
    assert Transient(after_seconds=float("nan")).after_seconds is None


async def test_a_turn_that_the_store_never_takes_says_so_and_its_actor_is_parked_within_hours() -> None:
    def script(_probe: Probe, note: Note, ctx: Context) -> None:
        if note.text == "bad":
            ctx.release(5)

    async with TestKit(tree(script)) as kit:
        await send_all(kit, ONE, ["ok", "bad"])
        await kit.advance(minutes=1)
        (view,) = await kit.store.peek(ONE)
        assert "does not take its turn: message 5 of shard" in view.envelope.last_error
        assert view.envelope.failures == 0
        await kit.advance(hours=2)
        row = await kit.row(ONE)
        assert row is not None and row.status == "parked" and "is not held" in row.reason


@pytest.mark.parametrize("end", ["done", "dead", "aside"])
async def test_a_message_that_is_tried_again_and_done_before_its_retry_is_written_is_done_once(end: str) -> None:
    tries: list[int] = []

    def script(_probe: Probe, note: Note, ctx: Context) -> None:
        if note.text != "x":
            return
        tries.append(ctx.attempt)
        if len(tries) < 3:
            raise Transient("not yet", after_seconds=0.1, charge=True)
        if end == "dead":
            raise Reject("no")
        if end == "aside":
            ctx.stash()

    async with TestKit(tree(script)) as kit:
        await kit.send(ONE, Note("a"))
        session = kit.session(kit.nodes[0])
        commit = session.commit

        async def slow(units: Any) -> Any:
            await kit.port.sleep(5)
            return await commit(units)

        session.commit = slow  # type: ignore[method-assign]
        await kit.client.send(TWO, Note("keeps the committer busy"))
        await send_all(kit, ONE, ["x", "b"])
        await kit.advance(seconds=30)
        assert tries == [1, 2, 3], "no turn was refused by the store and done again"
        assert (await notes(kit, ONE))[-1] == "b"


async def test_a_loose_timer_fires_once_as_nothing_would_stop_it_after_the_end_of_its_actor() -> None:
    def script(_probe: Probe, note: Note, ctx: Context) -> None:
        ctx.schedule("k", 1, Note("tick"), every=1, loose=True)

    async with TestKit(tree(script)) as kit:
        await kit.send(ONE, Note("a"))
        await kit.advance(minutes=2)
        assert kit.store.tables.timers == {}
        assert ["fires once" in letter.detail for letter in await kit.store.dead_letters()] == [True]


async def test_two_full_actors_that_send_to_each_other_go_on() -> None:
    def script(_probe: Probe, note: Note, ctx: Context) -> None:
        if note.text == "on":
            ctx.send(TWO if ctx.address == ONE else ONE, Note("done"))

    async with TestKit(tree(script), settings=NodeSettings(lease_seconds=30, beat_seconds=5, mailbox_limit=20)) as kit:
        life = kit.nodes[0].life
        assert life is not None
        life.cells.crowded |= {ONE, TWO}
        life.pump.full = {ONE, TWO}
        for address in (ONE, TWO):
            await send_all(kit, address, ["on"] * 30)
        await kit.advance(seconds=1)
        life.cells.crowded |= {ONE, TWO}
        await kit.advance(seconds=25)
        assert [len(await notes(kit, address)) for address in (ONE, TWO)] == [0, 0], "they hold each other back"
        await kit.advance(seconds=300)
        assert min([len(await notes(kit, address)) for address in (ONE, TWO)]) > 3


@pytest.mark.parametrize("tried", [False, True], ids=["no quarantine", "quarantine"])
@pytest.mark.parametrize("where", ["actor", "worker"])
async def test_a_message_that_never_finds_enough_memory_does_not_end_one_process_after_the_other(
    where: str, tried: bool
) -> None:
    async def body(_call: Call, _ctx: WorkerContext) -> Message:
        raise MemoryError("8 TiB")

    def script(_probe: Probe, note: Note, ctx: Context) -> None:
        if note.text == "x" and where == "actor":
            raise MemoryError("8 TiB")
        if note.text == "x":
            ctx.send("/t/tool", Call(note.text))

    spec = Tree(tree(script, Child(Tool, "tool", args=(body,))))
    async with TestKit(spec, settings=SETTINGS, quarantine=Rehearsing(spec) if tried else None) as kit:
        await send_all(kit, ONE, ["a", "x", "b"])
        for _ in range(12):
            await kit.advance(seconds=30)
            if kit.nodes[-1].stopped_for:
                await kit.join()
        nodes = len(kit.store.cluster.nodes)
        assert nodes <= (3 if tried else 8)
        assert (await notes(kit, ONE))[0] == "a" and (await notes(kit, ONE))[-1] == "b"
        (letter,) = await kit.store.dead_letters()
        assert letter.reason == ("worker_lost" if tried else "failed")


class Rehearsing(ScriptedQuarantine):
    """Does what the process of a real one does, in this one."""

    def __init__(self, spec: Tree) -> None:
        super().__init__()
        self.spec = spec

    async def try_message(self, trial: Trial) -> Verdict:
        return await rehearse(trial, self.spec, ManualPort(), no_journal)


async def no_journal(_address: str, *, after: int = 0) -> list[Any]:
    return []


# --- neighbours -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["down", "slow"])
async def test_backlogs_that_cannot_move_keep_no_other_actor_waiting_and_lose_no_order(
    how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "HIGH_WATER", 200)
    up: list[bool] = []

    def script(_probe: Probe, note: Note, ctx: Context) -> Any:
        if note.text == "down" and not up:
            raise Transient("the provider is down", after_seconds=20)
        return ctx.port.sleep(100) if note.text == "slow" else None

    stuck = [f"/t/p:{number}" for number in range(12)]
    async with TestKit(tree(script)) as kit:
        for address in stuck:
            await send_all(kit, address, [how, *(str(n) for n in range(30))])
        await kit.advance(seconds=5)
        assert await notes(kit, stuck[0]) == []
        await kit.client.send("/t/p:other", Note("alive"))
        await kit.advance(seconds=3)
        assert await notes(kit, "/t/p:other") == ["alive"]
        life = kit.nodes[0].life
        assert life is not None and len(life.cells.seen) <= 220
        for address in stuck:
            await kit.client.send(address, Note("last"))
            await kit.client.send(address, Note("first"), lane=Lane.REPLY)
        up.append(True)
        await kit.advance(seconds=130)
        for address in stuck:
            rest = [how, *(str(n) for n in range(30)), "last"]
            assert [text for text in await notes(kit, address) if text != "first"] == rest
            assert (await notes(kit, address)).index("first") == (0 if how == "down" else 1)
        assert kit.store.tables.messages == {}
