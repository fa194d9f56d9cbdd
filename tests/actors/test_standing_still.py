"""Actors that take nothing: parked, paused, or with a message or a state that this process cannot read."""

from typing import Annotated, Any

import anyio
import msgspec
import pytest

from callboard.actors.actor import Actor, on
from callboard.actors.context import Context
from callboard.actors.directives import Park, Reject
from callboard.actors.pump import CAPABLE_NODE_SECONDS
from callboard.actors.spec import Child, Restart, Supervisor
from callboard.actors.system import Pause, Resume
from callboard.actors.testing import TestKit
from callboard.mailbox.address import shard_of
from callboard.mailbox.lane import Lane
from tests.actors.world import SETTINGS, Note, Notes, Probe, notes, send_all, tree

pytestmark = pytest.mark.anyio

ONE = "/t/p:1"
OTHER = "/t/p:other"


async def test_park_keeps_the_message_first_in_line_until_resumed() -> None:
    asleep = True

    def script(_probe: Probe, note: Note, _ctx: Context) -> None:
        if note.text == "x" and asleep:
            raise Park("a person must look")

    async with TestKit(tree(script)) as kit:
        await kit.send(ONE, Note("a"))
        await send_all(kit, ONE, ["x", "b"])
        await kit.advance(minutes=2)
        row = await kit.row(ONE)
        assert row is not None and (row.status, row.reason) == ("parked", "a person must look")
        assert await notes(kit, ONE) == ["a"]
        assert [view.envelope.failures for view in await kit.store.peek(ONE)] == [0, 0]
        asleep = False
        await kit.client.send(ONE, Resume(), lane=Lane.SYSTEM)
        await kit.settle()
        assert await notes(kit, ONE) == ["a", "x", "b"]


async def test_park_on_the_message_that_would_create_the_actor_parks_and_does_not_spin() -> None:
    asleep = True
    tries = 0

    def script(_probe: Probe, _note: Note, _ctx: Context) -> None:
        nonlocal tries
        tries += 1
        if asleep:
            raise Park("not yet")

    async with TestKit(tree(script)) as kit:
        with anyio.fail_after(60):
            await kit.send(ONE, Note("a"))
        await kit.advance(seconds=10)
        assert tries == 1
        row = await kit.row(ONE)
        assert row is not None and row.status == "parked"
        asleep = False
        await kit.client.send(ONE, Resume(), lane=Lane.SYSTEM)
        await kit.settle()
        assert await notes(kit, ONE) == ["a"]
        row = await kit.row(ONE)
        assert row is not None and row.incarnation == 1


async def test_park_on_a_system_message_does_not_spin_and_can_be_resumed() -> None:
    def script(_probe: Probe, note: Note, _ctx: Context) -> None:
        if note.text == "x":
            raise Park("in the system lane")

    async with TestKit(tree(script)) as kit:
        await kit.send(ONE, Note("a"))
        with anyio.fail_after(60):
            await kit.client.send(ONE, Note("x"), lane=Lane.SYSTEM)
            await kit.settle()
        row = await kit.row(ONE)
        assert row is not None and row.status == "parked"
        assert [letter.reason for letter in await kit.store.dead_letters()] == ["rejected"]
        await kit.client.send(ONE, Resume(), lane=Lane.SYSTEM)
        await kit.send(ONE, Note("b"))
        assert await notes(kit, ONE) == ["a", "b"]


async def test_a_reason_that_no_column_takes_is_cleaned() -> None:
    def script(_probe: Probe, note: Note, ctx: Context) -> None:
        if note.text == "park":
            raise Park("nul \0 and half \ud800")
        raise Reject("nul \0")

    async with TestKit(tree(script)) as kit:
        with anyio.fail_after(60):
            await send_all(kit, ONE, ["reject", "park"])
            await kit.settle()
        row = await kit.row(ONE)
        assert row is not None and row.reason == "nul  and half ?"


async def test_a_paused_actor_takes_nothing_until_resumed_and_says_who_paused_it() -> None:
    async with TestKit(tree()) as kit:
        await kit.send(ONE, Note("a"))
        await kit.client.send(ONE, Pause("jo", "looking"), lane=Lane.SYSTEM)
        await kit.send(ONE, Note("b"))
        row = await kit.row(ONE)
        assert row is not None and (row.status, row.reason) == ("paused", "paused by jo: looking")
        assert await notes(kit, ONE) == ["a"]
        await kit.client.send(ONE, Resume(), lane=Lane.SYSTEM)
        await kit.settle()
        assert await notes(kit, ONE) == ["a", "b"]


# --- what cannot be read ---------------------------------------------------------------------------------------------


async def test_an_unknown_type_waits_uncharged_and_holds_up_its_lane_only() -> None:
    async with TestKit(tree()) as kit:
        await kit.send(ONE, Note("a"))
        envelope = await kit.client.envelope(ONE, Note("new"))
        envelope.type = "engine_test.from_the_future"
        await kit.store.send([envelope])
        await send_all(kit, ONE, ["behind"])
        await kit.client.send(ONE, Note("urgent"), lane=Lane.REPLY)
        await kit.advance(seconds=10 * CAPABLE_NODE_SECONDS)
        assert await notes(kit, ONE) == ["a", "urgent"]
        views = await kit.store.peek(ONE)
        assert [(view.envelope.failures, view.envelope.deliveries) for view in views] == [(0, 0), (0, 0)]
        assert await kit.store.dead_letters() == []


async def test_a_newer_version_of_a_known_type_waits_too() -> None:
    async with TestKit(tree()) as kit:
        envelope = await kit.client.envelope(ONE, Note("new"))
        envelope.version = 2
        await kit.store.send([envelope])
        await kit.advance(minutes=1)
        assert await kit.row(ONE) is None
        assert len(await kit.store.peek(ONE)) == 1


class Older(msgspec.Struct):
    notes: int = 7


async def test_unreadable_state_parks_is_never_overwritten_and_goes_on_by_itself_when_it_can_be_read() -> None:
    async with TestKit(tree(), settings=SETTINGS) as kit:
        await kit.send(ONE, Note("a"))
        shard = shard_of(ONE)
        good = kit.store.tables.actors[shard, ONE].state
        bad = msgspec.msgpack.encode(Older())
        kit.store.tables.actors[shard, ONE].state = bad
        await kit.crash(kit.nodes[0])
        node = await kit.join()
        await kit.advance(seconds=5)
        await send_all(kit, ONE, ["b", "c"])
        await kit.advance(seconds=30)
        row = await kit.row(ONE)
        assert row is not None and row.status == "parked" and row.reason.startswith("schema:")
        assert row.state == bad
        version = row.version
        await kit.client.send(ONE, Pause(), lane=Lane.SYSTEM)
        await kit.advance(seconds=30)
        row = await kit.row(ONE)
        assert row is not None and row.state == bad and row.version <= version + 1
        assert [view.envelope.failures for view in await kit.store.peek(ONE)] == [0, 0]
        kit.store.tables.actors[shard, ONE].state = good  # a version that can read it
        await kit.crash(node)
        await kit.join()
        await kit.advance(seconds=5)
        assert await notes(kit, ONE) == ["a", "b", "c"]
        row = await kit.row(ONE)
        assert row is not None and row.status == "active"


class Positive(msgspec.Struct):
    n: Annotated[int, msgspec.Meta(ge=0)] = 0


class Counter(Actor[Positive], kind="engine-test-counter"):
    @on(creates=True)
    def note(self, message: Note, ctx: Context) -> None:
        self.state.n += int(message.text)
        if message.text == "0":
            raise RuntimeError("bug")


async def test_a_state_that_is_written_but_cannot_be_read_parks_its_actor_and_nobody_else() -> None:
    spec = Supervisor("t", (Child(Counter, "c", pool=True), Child(Probe, "p", pool=True)))
    async with TestKit(spec) as kit:
        for text in ("1", "-5", "0"):
            await kit.client.send("/t/c:1", Note(text))
        await kit.advance(seconds=60)
        row = await kit.row("/t/c:1")
        assert row is not None and (row.status, row.reason[:7]) == ("parked", "schema:")
        await kit.send(ONE, Note("alive"))
        assert await notes(kit, ONE) == ["alive"]


class Needy(msgspec.Struct):
    must: int


class Unmakeable(Actor[Needy], kind="engine-test-unmakeable"):
    @on(creates=True)
    def note(self, message: Note, ctx: Context) -> None: ...


async def test_an_actor_that_cannot_be_made_fails_its_messages_and_nobody_else() -> None:
    spec = Supervisor(
        "t",
        (Child(Unmakeable, "u", pool=True), Child(Probe, "q", pool=True, args=(1, 2, 3)), Child(Probe, "p", pool=True)),
    )
    async with TestKit(spec) as kit:
        await kit.client.send("/t/u:1", Note())
        await kit.client.send("/t/q:1", Note())
        await kit.advance(seconds=60)
        letters = {letter.envelope.recipient: letter for letter in await kit.store.dead_letters()}
        assert {address: letter.reason for address, letter in letters.items()} == {
            "/t/u:1": "failed",
            "/t/q:1": "failed",
        }
        await kit.send(ONE, Note("alive"))
        assert await notes(kit, ONE) == ["alive"]


class Bad(Actor[Notes], kind="engine-test-bad-summary"):
    @on(creates=True)
    def note(self, message: Note, ctx: Context) -> None:
        self.state.notes.append(message.text)

    def summary(self) -> dict[str, Any]:
        if "x" in self.state.notes:
            raise RuntimeError("no summary")
        return {"bad": object()} if "y" in self.state.notes else {"notes": len(self.state.notes)}


async def test_a_summary_that_fails_is_the_turns_own_fault() -> None:
    spec = Supervisor("t", (Child(Bad, "b", pool=True), Child(Probe, "p", pool=True)), max_restarts=9)
    async with TestKit(spec) as kit:
        for text in ("a", "x", "y", "b"):
            await kit.client.send("/t/b:1", Note(text))
        await kit.advance(seconds=60)
        assert await notes(kit, "/t/b:1") == ["a", "b"]
        row = await kit.row("/t/b:1")
        assert row is not None and row.summary == '{"notes":2}'
        assert [letter.reason for letter in await kit.store.dead_letters()] == ["failed", "failed"]
        await kit.send(ONE, Note("alive"))
        assert await notes(kit, ONE) == ["alive"]


# --- a child that ends and comes back -------------------------------------------------------------------------------


class Ending(Probe, kind="engine-test-ending"):
    """Ends when told to; it is not a pool's, so that its supervisor starts it again."""


def ending(_probe: Probe, note: Note, ctx: Context) -> None:
    if note.text == "end":
        ctx.stop()


@pytest.mark.parametrize("restart", ["permanent", "transient"])
async def test_messages_of_a_permanent_child_that_ended_wait_for_its_restart_and_others_are_refused(
    restart: Restart,
) -> None:
    spec = Supervisor("t", (Child(Ending, "e", restart=restart, args=(ending,)),), max_restarts=9)
    async with TestKit(spec) as kit:
        await kit.advance(seconds=1)
        await send_all(kit, "/t/e", ["a", "end", "b", "c"])
        await kit.advance(seconds=30)
        letters = [letter.reason for letter in await kit.store.dead_letters()]
        row = await kit.row("/t/e")
        assert row is not None
        if restart == "permanent":
            assert (row.status, letters) == ("active", []) and row.incarnation == 2
            assert await notes(kit, "/t/e") == ["a", "end", "b", "c"]
        else:
            assert (row.status, letters) == ("completed", ["recipient-ended"] * 2)


async def test_a_cancelled_child_is_not_started_again() -> None:
    spec = Supervisor("t", (Child(Ending, "e", args=(ending,)), Child(Ending, "f", args=(ending,))), max_restarts=9)
    async with TestKit(spec) as kit:
        await kit.advance(seconds=1)
        await kit.client.cancel("/t/e", by="jo")
        await kit.advance(seconds=60)
        row = await kit.row("/t/e")
        assert row is not None and (row.status, row.incarnation) == ("cancelled", 1)
        await kit.client.send("/t/e", Note("late"))
        await kit.advance(seconds=5)
        assert [letter.reason for letter in await kit.store.dead_letters()] == ["recipient-ended"]


async def test_polls_pass_over_what_stands_still_and_nothing_is_missed_when_it_goes_on() -> None:
    def script(_probe: Probe, note: Note, ctx: Context) -> None:
        if note.text == "park":
            ctx.park("look")

    async with TestKit(tree(script)) as kit:
        parked = [f"/t/p:{n}" for n in range(20)]
        for address in parked:
            await send_all(kit, address, ["park", *(str(n) for n in range(30))])
        await kit.advance(seconds=3)
        session = kit.session(kit.nodes[0])
        ready, read = session.ready, 0

        async def counted(*args: Any, **kwargs: Any) -> Any:
            nonlocal read
            page, cursor = await ready(*args, **kwargs)
            read += len(page)
            return page, cursor

        session.ready = counted  # type: ignore[method-assign]
        await kit.advance(seconds=60)
        assert read == 0
        await kit.send(ONE, Note("last"))  # from outside, while nothing of it is in memory
        assert read == 0
        life = kit.nodes[0].life
        assert life is not None and life.cells.seen == set()
        for address in parked:
            await kit.client.send(address, Resume("jo"), lane=Lane.SYSTEM)
        await kit.settle()
        for address in parked:
            expected = ["park", *(str(n) for n in range(30)), *(["last"] if address == ONE else [])]
            assert await notes(kit, address) == expected


async def test_what_is_parked_for_its_schema_is_looked_at_again_all_the_time() -> None:
    async with TestKit(tree()) as kit:
        await kit.send(ONE, Note("a"))
        row = kit.store.tables.actors[shard_of(ONE), ONE]
        row.status, row.reason = "parked", "schema: said by a process that could not read it"
        life = kit.nodes[0].life
        assert life is not None
        life.cells.forget(life.cells.cells[ONE])
        await kit.send(ONE, Note("b"))
        await kit.send(ONE, Note("c"))
        assert await notes(kit, ONE) == ["a", "b", "c"]
