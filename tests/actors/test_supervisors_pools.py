"""Pools: instances are restarted one by one, stopped and started page by page, and never known by their supervisor."""

import pytest

from callboard.actors import census, instances
from callboard.actors.backoff import RestartBackoff
from callboard.actors.context import WorkerContext
from callboard.actors.directives import Reject
from callboard.actors.spec import Child, Restart, Supervisor
from callboard.actors.supervisor_state import SupervisorState
from callboard.actors.system import (
    ChildCounts,
    ChildDone,
    ChildRefused,
    Children,
    ChildView,
    CountChildren,
    DeleteChild,
    Kill,
    ListChildren,
    Pause,
    RestartChild,
    Resume,
    StartChild,
    TerminateChild,
)
from callboard.actors.testing import TestKit
from callboard.mailbox.address import shard_of
from tests.actors.family import Count, Do, Kid, Trace, ask, asked, do, history, pool, send_system, status, stop
from tests.actors.world import SETTINGS

pytestmark = pytest.mark.anyio


def between(trace: Trace, *, restart: Restart = "permanent", strategy: str = "one_for_all") -> Supervisor:
    """A pool between two children."""
    kids = [Child(Kid, name, args=(trace,)) for name in "ac"]
    many = Child(Kid, "k", pool=True, restart=restart, args=(trace,))
    return Supervisor("t", (kids[0], many, kids[1]), strategy=strategy, backoff=None)  # type: ignore[arg-type]


async def fill(kit: TestKit, count: int) -> None:
    for key in range(count):
        await kit.client.send(f"/t/k:{key}", Do("work"))
    await kit.settle()


async def crash(kit: TestKit, *keys: int) -> None:
    for key in keys:
        await do(kit, f"/t/k:{key}", "crash")


# --- one instance ----------------------------------------------------------------------------------------------------


async def test_an_instance_that_fails_too_often_is_given_up_alone() -> None:
    """SIM-02, SIM-07: in OTP it takes all the others down with it."""
    trace = Trace()
    async with TestKit(pool(trace, max_restarts=2)) as kit:
        await fill(kit, 3)
        for _ in range(2):
            await crash(kit, 1, 2)
        trace.take()
        await crash(kit, 1)
        assert trace.take() == []
        assert [await status(kit, f"/t/k:{key}") for key in range(3)] == ["active", "failed", "active"]
        assert await status(kit, "/t") == "active"
        assert (await history(kit, "/t"))[-2:] == [
            "child_terminated k:1 RuntimeError: crash", "instance_abandoned k:1 RuntimeError: crash",
        ]  # fmt: skip
        assert await asked(kit, "/t", StartChild("k", "1")) == "ok", "a person may try again"
        assert trace.take() == ["start k:1 4"]


async def test_failures_of_an_instance_count_in_a_sliding_window() -> None:
    trace = Trace()
    async with TestKit(pool(trace, max_restarts=1, within=10.0)) as kit:
        await fill(kit, 1)
        for _ in range(5):
            await crash(kit, 0)
            await kit.advance(seconds=11)
        assert await status(kit, "/t/k:0") == "active"
        assert len((await kit.state("/t", SupervisorState)).pools["k"].failures) <= 1


async def test_an_instance_has_its_own_back_off() -> None:
    trace = Trace()
    async with TestKit(pool(trace, backoff=RestartBackoff(jitter=0.0))) as kit:
        await fill(kit, 2)
        trace.take()
        await crash(kit, 0)
        await kit.advance(seconds=1.1)
        assert trace.take() == ["start k:0 2"]
        await crash(kit, 0, 1)
        await kit.advance(seconds=1.1)
        assert trace.take() == ["start k:1 2"]
        await kit.advance(seconds=1.1)
        assert trace.take() == ["start k:0 3"]


@pytest.mark.parametrize(("kind", "after"), [("permanent", "active"), ("transient", "active"), ("temporary", "failed")])
async def test_the_restart_kind_decides_about_an_instance_too(kind: Restart, after: str) -> None:
    trace = Trace()
    async with TestKit(between(trace, restart=kind)) as kit:
        await fill(kit, 1)
        await send_system(kit, "/t/k:0", Kill("jo"))
        assert await status(kit, "/t/k:0") == after
        assert await status(kit, "/t/a") == "active"


async def test_an_instance_is_started_and_ended_on_demand() -> None:
    trace = Trace()
    async with TestKit(pool(trace)) as kit:
        assert await ask(kit, "/t", StartChild("k", "a b")) == ChildDone("k:a%20b", 1)
        assert await asked(kit, "/t", StartChild("k")) == "not_found"
        assert await asked(kit, "/t", RestartChild("k:a b")) == "simple_one_for_one"
        assert await asked(kit, "/t", DeleteChild("k:a b")) == "simple_one_for_one"
        assert await asked(kit, "/t", TerminateChild("k:nobody")) == "not_found"
        assert await kit.row("/t/k:nobody") is None
        assert await asked(kit, "/t", TerminateChild("k:a b")) == "ok"
        assert trace.take() == ["start k:a%20b 1", "stop k:a%20b"]
        assert await status(kit, "/t/k:a%20b") == "cancelled"


async def test_an_instance_whose_start_fails_is_an_answer_and_no_failure() -> None:
    trace = Trace()
    trace.failing["k:1"] = 1
    async with TestKit(pool(trace, max_restarts=0)) as kit:
        assert await ask(kit, "/t", StartChild("k", "1")) == ChildRefused("k:1", "RuntimeError: start failed")
        assert await ask(kit, "/t", CountChildren()) == ChildCounts(specs=1, active=0, supervisors=0, workers=0)
        assert await history(kit, "/t", "child_terminated", "start_error") == []


async def test_an_instance_that_does_not_stop_when_it_is_terminated_is_killed() -> None:
    trace = Trace()
    async with TestKit(pool(trace)) as kit:
        await fill(kit, 1)
        trace.slow_to_stop["k:0"] = 200
        assert await asked(kit, "/t", TerminateChild("k:0")) == "ok"
        assert trace.take() == ["start k:0 1"]


async def test_who_has_ended_or_was_given_up_is_not_found_when_it_is_to_be_terminated() -> None:
    """F8: for OTP it is gone."""
    trace = Trace()
    async with TestKit(pool(trace, max_restarts=0)) as kit:
        await fill(kit, 3)
        await do(kit, "/t/k:0", "end")
        await crash(kit, 1)
        assert await asked(kit, "/t", TerminateChild("k:2")) == "ok"
        for key, left in enumerate(("completed", "failed", "cancelled")):
            assert await asked(kit, "/t", TerminateChild(f"k:{key}")) == "not_found"
            assert await status(kit, f"/t/k:{key}") == left


@pytest.mark.parametrize("paused", [False, True])
async def test_terminating_an_instance_that_is_down_is_for_good(paused: bool) -> None:
    trace = Trace()
    async with TestKit(pool(trace, backoff=RestartBackoff())) as kit:
        await fill(kit, 1)
        await (send_system(kit, "/t/k:0", Pause("jo")) if paused else crash(kit, 0))
        trace.take()
        assert await asked(kit, "/t", TerminateChild("k:0")) == "ok"
        await kit.advance(minutes=5)
        assert (trace.take(), await status(kit, "/t/k:0")) == ([], "cancelled" if paused else "failed")
        assert await asked(kit, "/t", TerminateChild("k:0")) == "not_found"


async def test_a_run_that_is_done_is_not_done_again_whatever_its_restart_kind() -> None:
    """Unlike a single child (OFO-02): what an instance of a pool was there for is done once."""
    trace = Trace()
    async with TestKit(pool(trace)) as kit:
        await fill(kit, 1)
        trace.take()
        await do(kit, "/t/k:0", "end")
        await kit.advance(minutes=5)
        assert (trace.take(), await status(kit, "/t/k:0")) == ([], "completed")


async def test_a_pool_is_listed_as_one_and_counted_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(census, "PAGE", 4)
    trace = Trace()
    async with TestKit(between(trace)) as kit:
        await fill(kit, 11)
        await do(kit, "/t/k:3", "end")
        assert await ask(kit, "/t", CountChildren()) == ChildCounts(specs=3, active=12, supervisors=0, workers=12)
        listed = await ask(kit, "/t", ListChildren())
        assert isinstance(listed, Children)
        assert [view.id for view in listed.children] == ["c", "k", "a"]
        assert listed.children[1] == ChildView("k", "running", "worker", 1, "pool")


# --- all of them -----------------------------------------------------------------------------------------------------


async def test_instances_are_stopped_and_started_in_pages_in_the_place_of_their_pool(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(census, "PAGE", 4)
    trace = Trace()
    async with TestKit(between(trace)) as kit:
        await fill(kit, 10)
        await do(kit, "/t/k:3", "end")
        trace.take()
        await do(kit, "/t/a", "crash")
        events = trace.take()
        every = [f"k:{key}" for key in range(10) if key != 3]
        assert events[0] == "stop c" and events[-1] == "start c 2"
        assert sorted(events[1:10]) == sorted(f"stop {name}" for name in every)
        assert events[10] == "start a 2"
        assert sorted(events[11:20]) == sorted(f"start {name} 2" for name in every)
        assert await status(kit, "/t/k:3") == "completed", "what has finished stays so"
        assert (await kit.state("/t", SupervisorState)).pools["k"].walk is None


async def test_a_page_that_does_not_stop_is_killed_and_the_stop_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(census, "PAGE", 4)
    trace = Trace()
    async with TestKit(pool(trace)) as kit:
        await fill(kit, 10)
        trace.take()
        trace.slow_to_stop = {"k:1": 200, "k:8": 200}
        await stop(kit, "/t")
        await kit.advance(seconds=11)
        assert await status(kit, "/t") == "stopped"
        assert len(trace.take()) == 8
        assert [await status(kit, f"/t/k:{key}") for key in range(10)] == ["stopped"] * 10
        errors = await history(kit, "/t", "shutdown_error")
        assert errors == ["shutdown_error k:1 killed", "shutdown_error k:8 killed"]


async def test_a_supervisor_that_parks_stops_its_pool_and_resuming_starts_it_again() -> None:
    trace = Trace()
    tree = Supervisor("t", between(trace).children, max_restarts=0, backoff=None)
    async with TestKit(tree) as kit:
        await fill(kit, 3)
        trace.take()
        await do(kit, "/t/a", "crash")
        assert await status(kit, "/t") == "parked"
        assert sorted(trace.take()) == ["stop c", "stop k:0", "stop k:1", "stop k:2"]
        await kit.send("/t/k:0", Do("work"))
        assert (await kit.state("/t/k:0", Count)).done == 1, "what comes meanwhile is kept"
        await send_system(kit, "/t", Resume("jo"))
        assert sorted(trace.take()) == ["start a 2", "start c 2", "start k:0 2", "start k:1 2", "start k:2 2"]
        assert (await kit.state("/t/k:0", Count)).done == 2


async def test_temporary_instances_are_stopped_with_their_group_and_not_started_again() -> None:
    trace = Trace()
    async with TestKit(between(trace, restart="temporary")) as kit:
        await fill(kit, 2)
        trace.take()
        await do(kit, "/t/a", "crash")
        assert sorted(trace.take()) == ["start a 2", "start c 2", "stop c", "stop k:0", "stop k:1"]
        await fill(kit, 4)
        assert sorted(trace.take()) == ["start k:2 1", "start k:3 1"], "the pool itself goes on"


async def test_a_killed_supervisor_kills_its_pool() -> None:
    trace = Trace()
    sub = Supervisor("sub", (Child(Kid, "k", pool=True, args=(trace,)),), backoff=None)
    async with TestKit(Supervisor("t", (sub,), backoff=None)) as kit:
        for key in range(3):
            await do(kit, f"/t/sub/k:{key}", "work")
        trace.take()
        trace.slow_to_stop["k:1"] = 200
        await send_system(kit, "/t/sub", Kill("jo"))
        assert sorted(trace.take()) == ["start k:0 2", "start k:1 2", "start k:2 2"]


async def test_instances_that_fail_while_they_are_stopped_hold_nothing_up() -> None:
    trace = Trace()
    trace.stop_fails = {"k:1"}
    async with TestKit(between(trace)) as kit:
        await fill(kit, 3)
        trace.take()
        await do(kit, "/t/a", "crash")
        assert await status(kit, "/t/c") == "active"
        assert await history(kit, "/t", "shutdown_error") == ["shutdown_error k:1 RuntimeError: stop failed"]
        assert "start k:1 2" in trace.take(), "and it is started with the others"


@pytest.mark.parametrize("step", range(1, 25, 2))
async def test_g8_a_walk_through_a_pool_goes_on_after_the_node_was_killed(
    step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(census, "PAGE", 3)
    trace = Trace()
    async with TestKit(between(trace), nodes=2, settings=SETTINGS) as kit:
        await kit.advance(seconds=2)
        await fill(kit, 7)
        await kit.advance(seconds=2)
        trace.take()
        root = next(n for n in kit.nodes if kit.store.cluster.owners[shard_of("/t")] == kit.session(n).number)
        commits = 0

        async def before(number: int, operation: str) -> None:
            nonlocal commits
            if operation == "commit" and number == kit.session(root).number:
                commits += 1
                if commits == step:
                    kit.session(root).crash()

        kit.store.before = before
        await kit.client.send("/t/a", Do("crash"))
        await kit.advance(seconds=2)
        kit.store.before = None
        await kit.crash(root)
        await kit.advance(seconds=20)
        state = await kit.state("/t", SupervisorState)
        assert (state.job, state.pools["k"].walk) == (None, None)
        for name in ("a", "c", *(f"k:{key}" for key in range(7))):
            row = await kit.row(f"/t/{name}")
            assert row is not None and (row.status, row.incarnation) == ("active", 2), name
        events = trace.take()
        stops = [index for index, event in enumerate(events) if event.startswith("stop k")]
        starts = [index for index, event in enumerate(events) if event.startswith("start k")]
        assert stops[-1] < events.index("start a 2") < starts[0]


# --- the breaker -----------------------------------------------------------------------------------------------------


async def test_a_pool_of_which_a_fifth_fails_pauses_until_the_window_has_passed() -> None:
    trace = Trace()
    async with TestKit(pool(trace, within=30.0)) as kit:
        await fill(kit, 15)
        trace.take()
        await crash(kit, 0, 1, 2)
        assert trace.take() == ["start k:0 2", "start k:1 2", "start k:2 2"], "a fifth is allowed"
        await crash(kit, 3)
        trace.take()
        await crash(kit, 4, 5)
        assert trace.take() == []
        assert await asked(kit, "/t", StartChild("k", "new")) == "paused"
        assert await history(kit, "/t", "pool_paused", "pool_resumed") == ["pool_paused k"]
        assert [await status(kit, f"/t/k:{key}") for key in (4, 5, 6)] == ["failed", "failed", "active"]
        await kit.advance(seconds=31)
        assert await history(kit, "/t", "pool_paused", "pool_resumed") == ["pool_paused k", "pool_resumed k"]
        assert sorted(trace.take()) == ["start k:4 2", "start k:5 2"]
        assert await asked(kit, "/t", StartChild("k", "new")) == "ok"


async def test_a_small_pool_does_not_pause() -> None:
    trace = Trace()
    async with TestKit(pool(trace)) as kit:
        await fill(kit, 9)
        await crash(kit, *range(9))
        assert [await status(kit, f"/t/k:{key}") for key in range(9)] == ["active"] * 9


async def test_one_instance_that_fails_often_is_no_reason_to_pause() -> None:
    trace = Trace()
    async with TestKit(pool(trace, max_restarts=100)) as kit:
        await fill(kit, 10)
        await crash(kit, *[0] * 20)
        assert await status(kit, "/t/k:0") == "active"
        assert await history(kit, "/t", "pool_paused") == []


async def test_g10_a_storm_in_a_pool_leaves_a_bounded_state(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(instances, "FAILING_LIMIT", 5)
    trace = Trace()
    async with TestKit(pool(trace, within=30.0)) as kit:
        await fill(kit, 40)
        trace.take()
        await crash(kit, *range(20))
        assert len((await kit.state("/t", SupervisorState)).pools["k"].failures) <= 5
        await kit.advance(seconds=31)
        assert [await status(kit, f"/t/k:{key}") for key in range(40)] == ["active"] * 40


async def test_a_census_that_fails_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = Trace()
    async with TestKit(between(trace)) as kit:
        await fill(kit, 2)
        trace.take()
        survey, failures = census.Census.survey, 2

        async def failing(self: census.Census, message: census.Survey, ctx: WorkerContext) -> census.Surveyed:
            nonlocal failures
            failures -= 1
            if failures >= 0:
                raise Reject("not now")
            return await survey(self, message, ctx)

        monkeypatch.setattr(census.Census, "survey", failing)
        await do(kit, "/t/a", "crash")
        assert trace.take() == ["stop c"]
        await kit.advance(seconds=5)
        assert sorted(trace.take()) == ["start a 2", "start c 2", "start k:0 2", "start k:1 2", "stop k:0", "stop k:1"]


async def test_what_a_pool_holds_up_is_kept_by_the_store_and_not_by_the_supervisor() -> None:
    trace = Trace()
    async with TestKit(pool(trace)) as kit:
        await fill(kit, 2)
        empty = await kit.row("/t")
        await fill(kit, 200)
        full = await kit.row("/t")
        assert empty is not None and full is not None
        assert (full.version, len(full.state)) == (empty.version, len(empty.state))
