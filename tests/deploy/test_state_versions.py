"""States of several versions: what is written with a turn, what an older and a newer program make of it."""

from typing import Any

import msgspec
import pytest

from callboard.actors.actor import Actor, on
from callboard.actors.context import Context
from callboard.actors.directives import Park
from callboard.actors.retry import RetryPolicy
from callboard.actors.snapshot import UnreadableState, decode_state, encode_state, oldest_state, upcast_state
from callboard.actors.spec import Child, Supervisor, Tree
from callboard.actors.system import Pause, Stop
from callboard.actors.testing import TestKit
from callboard.mailbox.errors import UnknownMessage, UsageError
from callboard.mailbox.lane import Lane
from callboard.mailbox.message import Message
from callboard.persistence.rows import UNREADABLE, ActorRow
from tests.actors.world import spy_on_commits

pytestmark = pytest.mark.anyio

ONE = "/d/c:1"


class Hit(Message, tag="state_test.hit"):
    what: str = ""


class First(msgspec.Struct):
    """Version 1."""

    hits: int = 0


class Second(msgspec.Struct):
    """Version 2: another name."""

    total: int = 0


class Third(msgspec.Struct):
    """Version 3: cents."""

    cents: int = 0
    note: str = ""


class Old(Actor[First], kind="state-test"):
    @on(creates=True)
    def hit(self, message: Hit, ctx: Context) -> None:
        self.state.hits += 1


class New(Actor[Third], kind="state-test"):
    state_version = 3
    retry = RetryPolicy(max_failures=1)

    @on(creates=True)
    def hit(self, message: Hit, ctx: Context) -> None:
        self.state.cents += 100
        if message.what == "fail":
            raise RuntimeError("bug")
        if message.what == "park":
            raise Park("ask a person")


class Bare(Actor[Third], kind="state-test-bare"):
    """Nobody wrote the upcast to its version 3."""

    state_version = 3

    @on(creates=True)
    def hit(self, message: Hit, ctx: Context) -> None:
        self.state.cents += 100


@upcast_state("state-test", 1)
def _(state: dict[str, Any]) -> dict[str, Any]:
    return {"total": state["hits"]}


@upcast_state("state-test", 2)
def _(state: dict[str, Any]) -> dict[str, Any]:
    if state["total"] < 0:
        raise ValueError("a total below zero")
    return {"cents": state["total"] * 100, "note": "cast"}


def program(actor: type[Actor[Any]]) -> Tree:
    return Tree(Supervisor("d", (Child(actor, "c", pool=True, restart="temporary"),)))


async def row_of(kit: TestKit, address: str = ONE) -> ActorRow:
    row = await kit.row(address)
    assert row is not None
    return row


async def replaced(kit: TestKit, actor: type[Actor[Any]]) -> None:
    """The nodes there are leave, and one of another program comes."""
    for node in kit.nodes:
        await kit.leave(node)
    kit.nodes.clear()
    await kit.join(tree=program(actor))
    await kit.advance(seconds=5)


# --- the bytes alone ---------------------------------------------------------------------------------------------


def test_an_old_state_is_cast_up_step_by_step() -> None:
    assert decode_state(New, 1, encode_state(First(7))) == Third(700, "cast")
    assert decode_state(New, 2, encode_state(Second(7))) == Third(700, "cast")
    assert decode_state(New, 3, encode_state(Third(7))) == Third(7)
    assert oldest_state(New) == 1
    assert oldest_state(Bare) == 3


def test_a_newer_state_is_for_a_process_that_knows_it() -> None:
    with pytest.raises(UnknownMessage, match="up to version 1, this one is 3"):
        decode_state(Old, 3, b"not even msgpack")


@pytest.mark.parametrize(
    ("actor", "version", "state"),
    [
        (Bare, 2, encode_state(Second(1))),  # no upcast
        (New, 2, encode_state(Second(-1))),  # an upcast that fails
        (New, 1, encode_state(Second(1))),  # an upcast that does not find its field
        (New, 1, msgspec.msgpack.encode([1, 2])),
        (New, 1, b"\\xc1"),
        (New, 3, b"\\xc1"),
        (New, 3, b""),
        (New, 3, msgspec.msgpack.encode({"cents": "many"})),
        (New, 0, encode_state(First(1))),
    ],
)
def test_what_cannot_be_read_says_so_and_nothing_else(actor: type[Actor[Any]], version: int, state: bytes) -> None:
    with pytest.raises(UnreadableState):
        decode_state(actor, version, state)


def test_more_and_fewer_fields_need_no_version() -> None:
    assert decode_state(New, 3, msgspec.msgpack.encode({"cents": 1, "later": [1]})) == Third(1)
    assert decode_state(New, 3, msgspec.msgpack.encode({})) == Third()


def test_a_step_is_declared_once() -> None:
    elsewhere = type("f", (), {"__module__": "elsewhere", "__call__": lambda self, state: state})()
    with pytest.raises(UsageError, match="two upcasts of the state of 'state-test' from version 1"):
        upcast_state("state-test", 1)(elsewhere)
    with pytest.raises(UsageError, match="begin with 1"):
        upcast_state("state-test", 0)


@pytest.mark.parametrize("version", [0, -1, "2", None])
def test_a_state_version_is_a_number_from_one(version: Any) -> None:
    with pytest.raises(UsageError, match="state_version"):
        type("Odd", (Actor,), {"state_version": version})


# --- in a node ---------------------------------------------------------------------------------------------------


async def test_each_turn_writes_the_version_of_its_state() -> None:
    async with TestKit(program(Old)) as kit:
        await kit.send(ONE, Hit())
        assert (await row_of(kit)).state_version == 1
        await replaced(kit, New)
        assert (await row_of(kit)).state_version == 1, "reading alone writes nothing"
        await kit.send(ONE, Hit())
        row = await row_of(kit)
        assert (row.state_version, await kit.state(ONE, Third)) == (3, Third(200, "cast"))


@pytest.mark.parametrize(("what", "status"), [("fail", "failed"), ("park", "parked")])
async def test_a_turn_that_keeps_the_old_bytes_keeps_their_version(what: str, status: str) -> None:
    """The row is written (the actor has failed, or is parked), its state is not."""
    async with TestKit(program(Old)) as kit:
        await kit.send(ONE, Hit())
        before = await row_of(kit)
        await replaced(kit, New)
        written: list[ActorRow] = []
        spy_on_commits(kit, kit.nodes[0], lambda units: written.extend(unit.actor for unit in units if unit.actor))
        await kit.send(ONE, Hit(what))
        row = next(row for row in written if row.address == ONE)
        assert (row.status, row.version) == (status, before.version + 1)
        assert (row.state, row.state_version) == (before.state, 1)


async def test_g6_a_newer_state_is_left_for_a_capable_node_with_nothing_charged_and_nothing_written() -> None:
    async with TestKit(program(New)) as kit:
        await kit.send(ONE, Hit())
        await replaced(kit, Old)
        before = await row_of(kit)
        await kit.client.send(ONE, Hit())
        await kit.client.send(ONE, Pause(), lane=Lane.SYSTEM)
        await kit.client.send(ONE, Stop(before.incarnation), lane=Lane.SYSTEM)
        await kit.advance(minutes=2)
        assert await row_of(kit) == before
        waiting = [view.envelope for view in await kit.store.peek(ONE)]
        assert [(one.failures, one.deliveries) for one in waiting] == [(0, 0)] * 3
        assert await kit.store.dead_letters() == []
        await replaced(kit, New)
        row = await row_of(kit)
        assert (row.status, row.state_version) == ("paused", 3)
        assert await kit.state(ONE, Third) == Third(100)


async def test_g6_without_an_upcast_it_is_parked_with_its_bytes_and_goes_on_by_itself_with_one() -> None:
    async with TestKit(program(Old)) as kit:
        await kit.send(ONE, Hit())
        before = await row_of(kit)
        await replaced(kit, Bare)
        await kit.client.send(ONE, Hit())
        await kit.client.send(ONE, Hit())
        await kit.advance(minutes=2)
        row = await row_of(kit)
        assert (row.status, row.state, row.state_version) == ("parked", before.state, 1)
        assert row.reason.startswith(UNREADABLE)
        assert "no upcast from version 1" in row.reason
        assert row.version == before.version + 1, "parked once, not over and over"
        assert [view.envelope.failures for view in await kit.store.peek(ONE)] == [0, 0]
        await replaced(kit, New)
        assert await kit.state(ONE, Third) == Third(300, "cast")
        row = await row_of(kit)
        assert (row.status, row.reason, row.state_version) == ("active", "", 3)


async def test_a_parked_one_that_became_too_new_waits_too() -> None:
    async with TestKit(program(New)) as kit:
        await kit.send(ONE, Hit("park"))
        await kit.send(ONE, Hit())
        row = kit.store.tables.actors[(await row_of(kit)).shard, ONE]
        row.state, row.state_version, row.reason = encode_state(Third(1)), 3, f"{UNREADABLE} said by whoever could not"
        await replaced(kit, Old)
        await kit.advance(minutes=1)
        assert (await row_of(kit)).status == "parked"
        await replaced(kit, New)
        assert (await row_of(kit)).state_version == 3
