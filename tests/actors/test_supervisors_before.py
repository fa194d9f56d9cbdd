"""A database that was written when supervisors kept two lists and no jobs goes on under this version."""

from typing import Any

import msgspec
import pytest

from callboard.actors.snapshot import decode_state
from callboard.actors.spec import Child, Supervisor
from callboard.actors.supervisor import SupervisorActor
from callboard.actors.supervisor_state import SupervisorState
from callboard.actors.system import Pause, Resume, Started, Stopped
from callboard.actors.testing import TestKit
from callboard.mailbox.address import shard_of
from callboard.mailbox.lane import Lane
from tests.actors.family import Do, Kid, Trace, do, send_system, status, stop
from tests.actors.world import SETTINGS

pytestmark = pytest.mark.anyio


class OldChild(msgspec.Struct):
    """As version 1 wrote it."""

    name: str
    status: str = "waiting"
    incarnation: int = 0


class OldState(msgspec.Struct):
    """As version 1 wrote it."""

    children: list[OldChild] = []
    stops: list[str] = []
    starts: list[str] = []
    restarted_at: list[float] = []
    tree: str = ""
    ending: str = ""
    announced: int = 0


def old(**fields: Any) -> bytes:
    children = [OldChild(name, *how) for name, how in fields.pop("children").items()]
    return msgspec.msgpack.encode(OldState(children=children, tree="a-digest-of-then", **fields))


def read(state: bytes) -> SupervisorState:
    decoded = decode_state(SupervisorActor, 1, state)
    assert isinstance(decoded, SupervisorState)
    return decoded


RUNNING = {"a": ("running", 1), "b": ("running", 4), "k": ("running", 1)}


def tree(trace: Trace) -> Supervisor:
    kids = tuple(Child(Kid, name, args=(trace,)) for name in "ab")
    mid = Supervisor("mid", (Child(Kid, "x", args=(trace,)), Child(Kid, "k", pool=True, args=(trace,))), backoff=None)
    return Supervisor("t", (*kids, mid), backoff=None)


def put_back(kit: TestKit, address: str, state: bytes, **fields: Any) -> None:
    """What the row would be if version 1 had written it."""
    place = (shard_of(address), address)
    row = kit.store.tables.actors[place]
    kit.store.tables.actors[place] = msgspec.structs.replace(row, state=state, state_version=1, **fields)


async def upgrade(kit: TestKit, **states: bytes) -> None:
    """End the only node; a new one finds these states."""
    await kit.crash(kit.nodes[0])
    for name, state in states.items():
        put_back(kit, {"root": "/t", "mid": "/t/mid"}[name], state)
    await kit.join()
    await kit.advance(seconds=20)


async def test_children_keep_their_names_incarnations_and_standing() -> None:
    children = {"a": ("running", 3), "b": ("ended", 2), "c": ("stopped", 1), "d": ("failed", 7), "e": ("waiting", 0)}
    state = read(old(children=children, restarted_at=[1.0], announced=2))
    assert [(child.name, child.status, child.incarnation) for child in state.children] == [
        ("a", "running", 3), ("b", "ended", 2), ("c", "stopped", 1), ("d", "stopped", 7), ("e", "waiting", 0),
    ]  # fmt: skip
    assert (state.job, state.end, state.restarted_at, state.announced) == (None, None, [1.0], 2)


async def test_a_supervisor_goes_on_and_finds_its_pool() -> None:
    trace = Trace()
    async with TestKit(tree(trace), settings=SETTINGS) as kit:
        await kit.send("/t/mid/k:1", Do("work"))
        trace.take()
        await upgrade(
            kit,
            root=old(children={"a": ("running", 1), "b": ("running", 1), "mid": ("running", 1)}),
            mid=old(children={"x": ("running", 1)}, announced=1),
        )
        assert trace.take() == []
        await do(kit, "/t/b", "crash")
        await do(kit, "/t/mid/k:1", "crash")
        assert trace.take() == ["start b 2", "start k:1 2"]
        await stop(kit, "/t")
        await kit.advance(seconds=5)
        assert trace.take() == ["stop k:1", "stop x", "stop b", "stop a"]


async def test_a_group_restart_that_was_under_way_goes_on_where_it_was() -> None:
    """b was told to stop and has not answered; then both are to be started."""
    trace = Trace()
    async with TestKit(tree(trace), settings=SETTINGS) as kit:
        trace.take()
        trace.slow_to_stop["b"] = 3
        await stop(kit, "/t/b")
        children = {"a": ("failed", 1), "b": ("stopping", 1), "mid": ("running", 1)}
        await upgrade(kit, root=old(children=children, stops=["b"], starts=["a", "b"], restarted_at=[kit.port.wall()]))
        assert trace.take() == ["stop b", "start a 2", "start b 2"]


async def test_a_boot_that_was_under_way_goes_on_and_the_parent_is_told() -> None:
    trace = Trace()
    async with TestKit(tree(trace), settings=SETTINGS) as kit:
        trace.take()
        await upgrade(
            kit,
            root=old(children={"a": ("running", 1), "b": ("running", 1), "mid": ("starting", 1)}, starts=["mid"]),
            mid=old(children={"x": ("starting", 1)}, starts=["x"]),
        )
        await kit.client.send("/t/mid", Started("/t/mid/x", 1), lane=Lane.SYSTEM)
        await kit.advance(seconds=5)
        state = await kit.state("/t", SupervisorState)
        assert {child.name: child.status for child in state.children} == dict.fromkeys(["a", "b", "mid"], "running")
        assert state.job is None


async def test_a_stop_that_was_under_way_ends_and_starts_nothing() -> None:
    trace = Trace()
    async with TestKit(tree(trace), settings=SETTINGS) as kit:
        trace.take()
        children = {"a": ("running", 1), "b": ("stopping", 1), "mid": ("stopped", 1)}
        await upgrade(kit, root=old(children=children, stops=["b", "a"], ending="shutdown"))
        await kit.client.send("/t", Stopped("/t/b", 1, "shutdown"), lane=Lane.SYSTEM)
        await kit.advance(seconds=5)
        assert (trace.take(), await status(kit, "/t")) == (["stop a"], "stopped")


async def test_a_root_that_has_given_up_can_be_resumed() -> None:
    trace = Trace()
    async with TestKit(tree(trace), settings=SETTINGS) as kit:
        await stop(kit, "/t")
        await kit.advance(seconds=5)
        trace.take()
        await kit.crash(kit.nodes[0])
        reason = "escalated: more than 3 restarts in 60 s; a: boom"
        children = {"a": ("failed", 4), "b": ("stopped", 1), "mid": ("stopped", 1)}
        put_back(kit, "/t", old(children=children, ending=reason), status="parked", reason=reason)
        put_back(kit, "/t/mid", old(children={"x": ("stopped", 1)}, ending="shutdown", announced=1))
        await kit.join()
        assert trace.take() == []
        await send_system(kit, "/t", Resume())
        await kit.advance(seconds=5)
        assert trace.take() == ["start a 5", "start b 2", "start x 2"]


async def test_a_paused_one_finds_its_pool_when_it_is_resumed() -> None:
    trace = Trace()
    async with TestKit(tree(trace), settings=SETTINGS) as kit:
        await send_system(kit, "/t/mid", Pause("jo"))
        await upgrade(kit, mid=old(children={"x": ("running", 1)}, announced=1))
        await send_system(kit, "/t/mid", Resume())
        await kit.advance(seconds=5)
        state = await kit.state("/t/mid", SupervisorState)
        assert {child.name: child.status for child in state.children} == {"x": "running", "k": "running"}
