"""A start that is under way when something else is wanted: a stop of its supervisor, or an operator's kill."""

import pytest

from callboard.actors.backoff import RestartBackoff
from callboard.actors.directives import Transient
from callboard.actors.spec import Child, Supervisor
from callboard.actors.system import Kill, Resume, StartChild, Stop
from callboard.actors.testing import TestKit
from callboard.mailbox.lane import Lane
from tests.actors.family import Do, Kid, Trace, ask, do, group, history, pool, send_system, status, stop

pytestmark = pytest.mark.anyio

HISTORY = ("child_started", "start_error", "start_ignored", "child_stopped", "shutdown_error", "gave_up", "ended")


def kid(trace: Trace, name: str, seconds: float = 5.0) -> Child:
    return Child(Kid, name, args=(trace,), shutdown_seconds=seconds)


async def restarting(kit: TestKit, trace: Trace, name: str) -> None:
    """Its restart is under way, and takes 3 s; all others run."""
    trace.slow[name] = 3.0
    await do(kit, f"/t/{name}", "crash")
    trace.take()


# --- the supervisor is stopped ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a", "b", "c"])
async def test_a_start_under_way_ends_before_the_first_child_is_stopped(name: str) -> None:
    """F12, SHU-12: where OTP's supervisor is in a start it hears of nothing else."""
    trace = Trace()
    async with TestKit(group(trace)) as kit:
        await restarting(kit, trace, name)
        await stop(kit, "/t")
        await kit.advance(seconds=2.5)
        assert trace.take() == []
        await kit.advance(seconds=1)
        assert trace.take() == [f"start {name} 2", "stop c", "stop b", "stop a"]


@pytest.mark.parametrize("name", ["a", "b", "c"])
async def test_a_start_that_fails_after_the_stop_came_is_recorded_and_not_tried_again(name: str) -> None:
    trace = Trace()
    tree = group(trace, max_restarts=100, backoff=RestartBackoff(first_seconds=0.5, factor=1.0, jitter=0.0))
    async with TestKit(tree) as kit:
        trace.take()
        trace.slow[name], trace.fails_late[name] = 3.0, 100
        await do(kit, f"/t/{name}", "crash")
        await kit.advance(seconds=4.5)
        assert trace.take() == [f"fail {name}"]
        await stop(kit, "/t")
        await kit.advance(seconds=20)
        others = [other for other in "cba" if other != name]
        assert trace.take() == [f"fail {name}", *(f"stop {other}" for other in others)]
        assert (await history(kit, "/t", *HISTORY))[3:] == [
            *[f"start_error {name} RuntimeError: start failed"] * 2,
            *(f"child_stopped {other} shutdown" for other in others),
            "ended shutdown",
        ]  # fmt: skip


async def test_a_start_that_is_declined_after_the_stop_came_is_recorded_as_that() -> None:
    trace = Trace()
    async with TestKit(group(trace)) as kit:
        trace.slow["b"] = 3.0
        trace.declines_late = {"b"}
        await do(kit, "/t/b", "crash")
        trace.take()
        await stop(kit, "/t")
        await kit.advance(seconds=4)
        assert trace.take() == ["ignore b", "stop c", "stop a"]
        assert "start_ignored b" in await history(kit, "/t", "start_ignored")


@pytest.mark.parametrize(("seconds", "after"), [(2.0, 2.5), (0.0, 0.1)])
async def test_a_start_is_awaited_no_longer_than_its_stop_might_take(seconds: float, after: float) -> None:
    trace = Trace()
    async with TestKit(
        Supervisor("t", (kid(trace, "a"), kid(trace, "b", seconds), kid(trace, "c")), backoff=None)
    ) as kit:
        trace.slow["b"] = 250
        await do(kit, "/t/b", "crash")
        trace.take()
        await stop(kit, "/t")
        await kit.advance(seconds=after)
        assert trace.take() == ["stop c", "stop a"]
        row = await kit.row("/t/b")
        assert row is not None and (row.status, row.reason) == ("stopped", "killed")
        await kit.advance(seconds=500)
        assert (trace.take(), await status(kit, "/t")) == ([], "stopped")


async def test_a_supervisor_that_is_starting_has_some_time_too_and_is_stopped_then() -> None:
    trace = Trace()
    mid = Supervisor("mid", (kid(trace, "x"), kid(trace, "y")), backoff=None)
    async with TestKit(Supervisor("t", (kid(trace, "a"), mid, kid(trace, "z")), backoff=None)) as kit:
        trace.slow["y"] = 250
        await send_system(kit, "/t/mid", Kill("jo"))
        trace.take()
        await stop(kit, "/t")
        await kit.advance(seconds=4)
        assert trace.take() == []
        await kit.advance(seconds=7)
        assert trace.take() == ["stop x", "stop z", "stop a"]
        assert await status(kit, "/t") == "stopped"


async def test_a_supervisor_that_starts_in_time_is_stopped_in_its_turn() -> None:
    trace = Trace()
    mid = Supervisor("mid", (kid(trace, "x"), kid(trace, "y")), backoff=None)
    async with TestKit(Supervisor("t", (kid(trace, "a"), mid, kid(trace, "z")), backoff=None)) as kit:
        trace.slow["y"] = 2.0
        await send_system(kit, "/t/mid", Kill("jo"))
        trace.take()
        await stop(kit, "/t")
        await kit.advance(seconds=3)
        assert trace.take() == ["start y 2", "stop z", "stop y", "stop x", "stop a"]


async def test_a_kill_of_the_supervisor_waits_for_no_start() -> None:
    trace = Trace()
    async with TestKit(group(trace)) as kit:
        await restarting(kit, trace, "b")
        await send_system(kit, "/t", Stop(0, kill=True))
        assert await status(kit, "/t") == "stopped"
        await kit.advance(seconds=20)
        assert trace.take() == []


async def test_a_killed_supervisor_reports_no_errors_of_what_it_killed() -> None:
    """F10, ESC-12: whoever is dead says nothing."""
    trace = Trace()
    deep = Supervisor("deep", (kid(trace, "x"),), backoff=None)
    mid = Supervisor("mid", (kid(trace, "m"), deep), backoff=None)
    async with TestKit(Supervisor("t", (kid(trace, "a"), mid), backoff=None)) as kit:
        trace.slow_to_stop = {"x": 100, "m": 100}
        await send_system(kit, "/t/mid/deep", Stop(0))
        await send_system(kit, "/t/mid", Kill("jo"))
        await kit.advance(seconds=30)
        assert await history(kit, "/t/mid", "shutdown_error") == []
        assert await history(kit, "/t", "child_terminated") == ["child_terminated mid killed"]


# --- the child is killed ---------------------------------------------------------------------------------------------


async def test_a_kill_ends_a_start_that_hangs_and_it_is_tried_again() -> None:
    trace = Trace()
    async with TestKit(group(trace)) as kit:
        await restarting(kit, trace, "b")
        trace.slow.clear()
        await send_system(kit, "/t/b", Kill("jo"))
        assert trace.take() == ["start b 3"]
        assert await history(kit, "/t", "start_error", "child_terminated") == [
            "child_terminated b RuntimeError: crash", "start_error b killed",
        ]  # fmt: skip
        await kit.advance(seconds=30)
        letters = await kit.store.dead_letters()
        assert (trace.take(), [letter.envelope.type for letter in letters]) == ([], ["engine_test.do"])


async def test_a_kill_of_a_start_that_hangs_at_boot_is_final_as_any_failed_start() -> None:
    trace = Trace()
    trace.slow["b"] = 250
    async with TestKit(group(trace)) as kit:
        assert trace.take() == ["start a 1"]
        await send_system(kit, "/t/b", Kill("jo"))
        assert trace.take() == ["stop a"]
        assert (await status(kit, "/t/b"), await status(kit, "/t")) == ("failed", "parked")
        trace.slow.clear()
        await kit.advance(seconds=600)
        assert trace.take() == []
        await send_system(kit, "/t", Resume())
        assert trace.take() == ["start a 2", "start b 2", "start c 1"]


async def test_a_kill_ends_a_start_that_waits_for_the_world() -> None:
    trace = Trace()
    async with TestKit(group(trace)) as kit:
        trace.take()
        trace.error, trace.failing["b"] = Transient("no answer", after_seconds=100), 1
        await do(kit, "/t/b", "crash")
        await kit.advance(seconds=5)
        await send_system(kit, "/t/b", Kill("jo"))
        assert trace.take() == ["fail b", "start b 3"]
        await kit.advance(seconds=200)
        assert trace.take() == []


async def test_a_kill_ends_the_start_of_one_that_had_completed() -> None:
    trace = Trace()
    async with TestKit(group(trace)) as kit:
        trace.take()
        trace.slow["b"] = 250
        await do(kit, "/t/b", "end")
        assert await status(kit, "/t/b") == "completed"
        trace.slow.clear()
        await send_system(kit, "/t/b", Kill("jo"))
        assert trace.take() == ["start b 3"]
        assert await kit.store.dead_letters() == []


async def test_a_kill_ends_a_start_on_demand_which_is_refused_then() -> None:
    trace = Trace()
    trace.slow["k:1"] = 250
    async with TestKit(pool(trace)) as kit:
        await kit.client.send("/t", StartChild("k", "1"), lane=Lane.SYSTEM)
        await kit.settle()
        await send_system(kit, "/t/k:1", Kill("jo"))
        assert await status(kit, "/t/k:1") == "failed"
        trace.slow.clear()
        assert str(await ask(kit, "/t", StartChild("k", "1"))).find("ChildDone") == 0
        assert trace.take() == ["start k:1 2"]


async def test_a_kill_ends_an_instance_whose_first_message_hangs_in_its_start() -> None:
    trace = Trace()
    trace.slow["k:1"] = 250
    async with TestKit(pool(trace)) as kit:
        await kit.client.send("/t/k:1", Do("work"))
        await kit.settle()
        trace.slow.clear()
        await send_system(kit, "/t/k:1", Kill("jo"))
        assert trace.take() == ["start k:1 2"]
        assert await history(kit, "/t", "start_error") == ["start_error k:1 killed"]
        row = await kit.row("/t/k:1")
        assert row is not None and (row.status, row.incarnation) == ("active", 2)
