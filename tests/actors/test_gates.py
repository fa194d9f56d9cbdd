"""No instance of a pool begins while its supervisor is down: what would make one waits, uncharged, until it is up."""

import pytest

from callboard.actors.spec import Child, Supervisor
from callboard.actors.supervisor_state import SupervisorState
from callboard.actors.system import Kill, RestartChild, Resume, Spawn, Start, TerminateChild
from callboard.actors.testing import TestKit
from callboard.mailbox.address import shard_of
from callboard.mailbox.lane import Lane
from tests.actors.family import Count, Do, Kid, Trace, asked, do, pool, send_system, status, stop
from tests.actors.world import SETTINGS

pytestmark = pytest.mark.anyio


async def waits(kit: TestKit, trace: Trace, address: str, *, minutes: int = 1) -> None:
    """For so long, and as long as it takes."""
    await kit.advance(minutes=minutes)
    assert (trace.take(), await kit.row(address)) == ([], None)
    (waiting,) = [m.envelope for m in kit.store.tables.messages.values() if m.envelope.recipient == address]
    assert (waiting.failures, waiting.losses) == (0, 0)
    assert "supervisor" in waiting.last_error or "pool" in waiting.last_error


@pytest.mark.parametrize("spawned", [False, True])
async def test_what_would_make_an_instance_waits_while_the_supervisor_is_stopped(spawned: bool) -> None:
    trace = Trace()
    async with TestKit(pool(trace)) as kit:
        await kit.send("/t/k:1", Do("work"))
        await stop(kit, "/t")
        assert trace.take() == ["start k:1 1", "stop k:1"]
        if spawned:
            await send_system(kit, "/t/k:2", Spawn())
        else:
            await kit.send("/t/k:2", Do("work"))
        await waits(kit, trace, "/t/k:2")
        await send_system(kit, "/t", Start(2))
        await kit.advance(seconds=6)
        assert sorted(trace.take()) == ["start k:1 2", "start k:2 1"]
        assert (await kit.state("/t/k:2", Count)).done == (0 if spawned else 1)


async def test_a_root_that_gave_up_makes_none_until_it_is_resumed() -> None:
    trace = Trace()
    kids = (Child(Kid, "a", args=(trace,)), Child(Kid, "k", pool=True, args=(trace,)))
    async with TestKit(Supervisor("t", kids, max_restarts=0, backoff=None)) as kit:
        await do(kit, "/t/a", "crash")
        assert await status(kit, "/t") == "parked"
        trace.take()
        await kit.send("/t/k:1", Do("work"))
        await waits(kit, trace, "/t/k:1")
        await send_system(kit, "/t", Resume())
        await kit.advance(seconds=6)
        assert trace.take() == ["start a 2", "start k:1 1"]


async def test_a_pool_that_an_operator_stopped_makes_none_until_it_is_restarted() -> None:
    trace = Trace()
    async with TestKit(pool(trace)) as kit:
        assert await asked(kit, "/t", TerminateChild("k")) == "ok"
        await kit.send("/t/k:1", Do("work"))
        await waits(kit, trace, "/t/k:1", minutes=65)  # the world's fault has an hour; this has not
        assert await asked(kit, "/t", RestartChild("k")) == "ok"
        await kit.advance(seconds=6)
        assert trace.take() == ["start k:1 1"]


async def test_a_paused_pool_makes_none_and_the_others_go_on() -> None:
    trace = Trace()
    async with TestKit(pool(trace)) as kit:
        for key in range(10):
            await kit.send(f"/t/k:{key}", Do("work"))
        for key in range(3):
            await do(kit, f"/t/k:{key}", "crash")
        assert (await kit.state("/t", SupervisorState)).pools["k"].paused_until > 0
        trace.take()
        await kit.send("/t/k:new", Do("work"))
        await kit.send("/t/k:9", Do("work"))
        assert (await kit.row("/t/k:new"), (await kit.state("/t/k:9", Count)).done) == (None, 2)
        await kit.advance(seconds=70)
        assert "start k:new 1" in trace.take()


@pytest.mark.parametrize("killed", [False, True])
async def test_a_node_without_the_supervisor_sees_it_too(killed: bool) -> None:
    trace = Trace()
    async with TestKit(pool(trace), nodes=2, settings=SETTINGS) as kit:
        await kit.advance(seconds=3)
        owners = kit.store.cluster.owners
        key = next(key for key in range(1_000) if owners[shard_of(f"/t/k:{key}")] != owners[shard_of("/t")])
        await (send_system(kit, "/t", Kill("jo")) if killed else stop(kit, "/t"))
        await kit.advance(seconds=2)
        await kit.send(f"/t/k:{key}", Do("work"))
        await waits(kit, trace, f"/t/k:{key}")
        await send_system(kit, "/t", Resume() if killed else Start(2))
        await kit.advance(seconds=8)
        assert trace.take() == [f"start k:{key} 1"]


async def test_a_new_node_has_looked_before_it_begins_anybody() -> None:
    trace = Trace()
    async with TestKit(pool(trace), settings=SETTINGS) as kit:
        await stop(kit, "/t")
        await kit.crash(kit.nodes[0])
        await kit.client.send("/t/k:1", Do("work"))
        await kit.join()
        await waits(kit, trace, "/t/k:1")


async def test_whom_a_supervisor_starts_by_itself_needs_no_gate() -> None:
    trace = Trace()
    async with TestKit(pool(trace)) as kit:
        await kit.client.send("/t/k:1", Start(1), lane=Lane.SYSTEM)
        await kit.settle()
        assert trace.take() == ["start k:1 1"]
