"""Every actor can be ended, whatever state it is in, and nothing of it is left behind that nobody would remove."""

from typing import Any

import msgspec
import pytest

from callboard.actors.actor import Actor, on
from callboard.actors.bonds import WATCHING_LIMIT, Bonds
from callboard.actors.context import Context, WorkerContext
from callboard.actors.spec import Child, Supervisor
from callboard.actors.system import Cancel, Kill, Pause, Resume, Stop
from callboard.actors.testing import TestKit
from callboard.mailbox.address import shard_of
from callboard.mailbox.lane import Lane
from callboard.mailbox.message import Message
from callboard.persistence.rows import Decision
from tests.actors.family import Count, Do, Kid, Trace, group, status
from tests.actors.test_attacks import Memory
from tests.actors.world import SETTINGS, Call, Note, Probe, Tool, notes, send_all, tree

pytestmark = pytest.mark.anyio

ONE, TWO = "/t/p:1", "/t/p:2"


# --- ends -----------------------------------------------------------------------------------------------------------


def hanging(_probe: Probe, note: Note, ctx: Context) -> Any:
    return ctx.port.sleep(200) if note.text == "slow" else None


async def test_an_actor_that_is_cancelled_in_its_very_first_turn_ends_as_cancelled() -> None:
    async with TestKit(tree(hanging)) as kit:
        await send_all(kit, ONE, ["slow", "b"])
        await kit.settle()
        assert await kit.row(ONE) is None
        await kit.client.cancel(ONE, by="jo")
        await kit.settle()
        row = await kit.row(ONE)
        assert row is not None and (row.status, row.reason, row.incarnation) == ("cancelled", "cancelled by jo", 1)
        await kit.advance(seconds=300)
        assert await notes(kit, ONE) == []
        assert [letter.reason for letter in await kit.store.dead_letters()] == ["recipient-ended"] * 2
        assert await kit.store.peek(ONE) == []


async def test_a_child_that_is_cancelled_while_it_starts_is_not_started_after_all() -> None:
    trace = Trace()
    trace.slow["b"] = 100.0
    async with TestKit(group(trace)) as kit:
        await kit.advance(seconds=1)
        assert trace.take() == ["start a 1"]
        await kit.client.cancel("/t/b", by="jo")
        await kit.advance(seconds=200)
        assert trace.take() == ["start c 1"], "the others go on, and nobody begins it"
        assert [await status(kit, f"/t/{name}") for name in "abc"] == ["active", "cancelled", "active"]
        root = await kit.row("/t")
        assert root is not None and '"b":"ended"' in root.summary.replace(" ", "")
        assert await kit.store.peek("/t/b") == []


async def test_a_child_that_is_cancelled_while_it_restarts_is_not_restarted_after_all() -> None:
    trace = Trace()
    async with TestKit(group(trace)) as kit:
        await kit.advance(seconds=1)
        trace.take()
        trace.slow["b"] = 100.0
        await kit.send("/t/b", Do("crash"))
        await kit.advance(seconds=1)
        await kit.client.cancel("/t/b", by="jo")
        await kit.advance(seconds=200)
        assert trace.take() == []
        assert await status(kit, "/t/b") == "cancelled"
        root = await kit.row("/t")
        assert root is not None and '"b":"ended"' in root.summary.replace(" ", "")


class Older(msgspec.Struct):
    done: str = "x"


async def spoil(kit: TestKit, address: str) -> tuple[bytes, bytes]:
    """Give an actor a state that its program cannot read, and a node that has not read it yet."""
    row = kit.store.tables.actors[shard_of(address), address]
    good, row.state = row.state, msgspec.msgpack.encode(Older())
    await kit.crash(kit.nodes[0])
    await kit.join()
    await kit.advance(seconds=5)
    return good, row.state


@pytest.mark.parametrize(
    ("message", "ends"),
    [(Cancel("jo"), "cancelled"), (Kill("jo"), "failed"), (Stop(0), "stopped"), (Stop(0, kill=True), "stopped")],
    ids=["cancel", "kill", "stop", "stop at once"],
)
async def test_an_actor_whose_state_cannot_be_read_can_be_ended_and_its_state_is_left_alone(
    message: Message, ends: str
) -> None:
    trace = Trace()
    spec = Supervisor("t", (Child(Kid, "k", pool=True, args=(trace,), restart="temporary"),))
    async with TestKit(spec, settings=SETTINGS) as kit:
        await kit.send("/t/k:1", Do("nothing"))
        _, bad = await spoil(kit, "/t/k:1")
        await kit.send("/t/k:1", Do("nothing"))
        assert await status(kit, "/t/k:1") == "parked"
        await kit.client.send("/t/k:1", Pause("jo"), lane=Lane.SYSTEM)
        await kit.client.send("/t/k:1", message, lane=Lane.SYSTEM)
        await kit.advance(seconds=5)
        assert await status(kit, "/t/k:1") == ends
        row = await kit.row("/t/k:1")
        assert row is not None and row.state == bad
        letters = [letter for letter in await kit.store.dead_letters() if letter.envelope.type.startswith("sys.")]
        assert letters == []


async def test_a_child_whose_state_cannot_be_read_is_restarted_with_its_group_and_begins_when_it_can_be_read() -> None:
    trace = Trace()
    async with TestKit(group(trace, "one_for_all"), settings=SETTINGS) as kit:
        await kit.advance(seconds=1)
        await kit.send("/t/b", Do("nothing"))
        good, bad = await spoil(kit, "/t/b")
        trace.take()
        await kit.send("/t/a", Do("crash"))
        await kit.advance(seconds=30)
        assert trace.take() == ["stop c", "start a 2", "start c 2"]
        assert [await status(kit, f"/t/{name}") for name in ("a", "b", "c")] == ["active", "parked", "active"]
        row = await kit.row("/t/b")
        assert row is not None and row.reason.startswith("schema:") and row.state == bad
        await kit.client.send("/t/b", Do("nothing"))
        await kit.advance(seconds=5)
        assert await status(kit, "/t/b") == "parked"
        kit.store.tables.actors[shard_of("/t/b"), "/t/b"].state = good  # a program that can read it
        await kit.crash(kit.nodes[0])
        await kit.join()
        await kit.advance(seconds=5)
        assert trace.take() == ["start b 2"]
        assert await status(kit, "/t/b") == "active"
        assert (await kit.state("/t/b", Count)).done == 2


class Unsayable(Probe, kind="attack-unsayable"):
    """Cannot say what it is: each of its turns fails."""

    broken = False

    def summary(self) -> Any:
        if Unsayable.broken:
            raise RuntimeError("broken")
        return None


async def test_an_actor_that_fails_whatever_it_does_can_be_cancelled() -> None:
    Unsayable.broken = False
    async with TestKit(tree(actor=Unsayable)) as kit:
        await kit.send(ONE, Note("a"))
        Unsayable.broken = True
        await kit.client.cancel(ONE, by="jo")
        await kit.advance(seconds=30)
        row = await kit.row(ONE)
        assert row is not None and row.status == "cancelled" and "RuntimeError: broken" in row.reason
        assert await notes(kit, ONE) == ["a"]


# --- what is left behind --------------------------------------------------------------------------------------------


class Gated(Actor[Memory], kind="attack-gated"):
    """Holds each call, with a question to people."""

    @on(creates=True)
    def note(self, message: Note, ctx: Context) -> None:
        if message.text == "end":
            ctx.stop()
            return
        call = ctx.hold("/t/tool", Call(message.text))
        ctx.ask_decision(
            Decision(f"d-{call}", ctx.address, "1", call, "/t/p:x", "approval", "tool", "{}", "digest", "why")
        )
        if message.text == "released":
            ctx.release(call)


async def test_nothing_stays_held_and_no_decision_open_for_an_actor_that_has_ended() -> None:
    made: list[str] = []

    async def body(call: Call, _ctx: WorkerContext) -> Message | None:
        made.append(call.text)
        return None

    tool = Child(Tool, "tool", args=(body,))
    async with TestKit(Supervisor("t", (Child(Gated, "g", pool=True), tool))) as kit:
        for address in ("/t/g:1", "/t/g:2"):
            await kit.send(address, Note("a"))
            await kit.send(address, Note("b"))
        bonds = msgspec.json.decode((await kit.row("/t/g:1")).bonds, type=Bonds)  # type: ignore[union-attr]
        assert len(bonds.held) == 2 and all(name.startswith("d-") for name in bonds.held.values())
        assert len(kit.store.tables.messages) == 4
        await kit.client.cancel("/t/g:1")
        await kit.send("/t/g:2", Note("end"))
        assert kit.store.tables.messages == {}
        assert {decision.status for decision in await kit.store.decisions()} == {"superseded"}
        for address in ("/t/g:1", "/t/g:2"):
            row = await kit.row(address)
            assert row is not None and "held" not in row.bonds
        assert made == []


async def test_an_actor_watches_no_more_than_its_bonds_can_bear() -> None:
    def script(_probe: Probe, note: Note, ctx: Context) -> None:
        ctx.tie().watching.update({f"/t/p:x{n}": n + 1 for n in range(WATCHING_LIMIT)})
        ctx.watch(TWO)

    async with TestKit(tree(script)) as kit:
        await kit.send(ONE, Note("a"))
        await kit.advance(minutes=2)
        assert ["watched already" in letter.detail for letter in await kit.store.dead_letters()] == [True]


async def test_a_paused_actors_ticker_leaves_one_message_however_long_the_pause_is() -> None:
    def script(_probe: Probe, note: Note, ctx: Context) -> None:
        if note.text == "a":
            ctx.schedule("k", 1, Note("tick"), every=1)

    async with TestKit(tree(script)) as kit:
        await kit.send(ONE, Note("a"))
        await kit.client.send(ONE, Pause("jo"), lane=Lane.SYSTEM)
        await kit.advance(hours=1)
        assert len(await kit.store.peek(ONE)) <= 1
        await kit.client.send(ONE, Resume("jo"), lane=Lane.SYSTEM)
        await kit.advance(seconds=2)
        assert 2 <= len(await notes(kit, ONE)) <= 4
