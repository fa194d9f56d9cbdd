"""Supervisors start, stop and restart their children in the right order, also where those fail to."""

import pytest

from callboard.actors.directives import Park, Reject, Transient
from callboard.actors.spec import Child, Restart, Strategy, Supervisor
from callboard.actors.supervisor_state import SupervisorState
from callboard.actors.system import Pause, Resume, Stop
from callboard.actors.testing import TestKit
from callboard.mailbox.lane import Lane
from tests.actors.family import Count, Do, Kid, Trace, do, group, status, stop
from tests.actors.world import SETTINGS

pytestmark = pytest.mark.anyio


# --- starting and stopping -------------------------------------------------------------------------------------------


async def test_children_start_left_to_right_depth_first_and_stop_in_reverse() -> None:
    trace = Trace()
    kid = {name: Child(Kid, name, args=(trace,)) for name in "abcd"}
    tree = Supervisor("t", (kid["a"], Supervisor("sub", (kid["b"], Supervisor("deep", (kid["c"],)))), kid["d"]))
    async with TestKit(tree) as kit:
        assert trace.take() == ["start a 1", "start b 1", "start c 1", "start d 1"]
        await stop(kit, "/t")
        assert trace.take() == ["stop d", "stop c", "stop b", "stop a"]
        for address in ("/t", "/t/a", "/t/sub", "/t/sub/b", "/t/sub/deep", "/t/sub/deep/c", "/t/d"):
            assert await status(kit, address) == "stopped"


async def test_a_slow_child_blocks_its_later_siblings() -> None:
    trace = Trace()
    trace.slow["b"] = 5
    async with TestKit(group(trace)) as kit:
        assert trace.take() == ["start a 1"]
        await kit.advance(seconds=4)
        assert trace.take() == []
        await kit.advance(seconds=2)
        assert trace.take() == ["start b 1", "start c 1"]


async def test_a_node_that_comes_later_starts_nothing_twice() -> None:
    trace = Trace()
    async with TestKit(group(trace), settings=SETTINGS) as kit:
        trace.take()
        for _ in range(3):
            await kit.crash(kit.nodes[0])
            await kit.join()
            await kit.advance(seconds=3)
        assert trace.take() == []
        assert await status(kit, "/t/a") == "active"


# --- restarting ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("strategy", "events"),
    [
        ("one_for_one", ["start b 2"]),
        ("one_for_all", ["stop c", "stop a", "start a 2", "start b 2", "start c 2"]),
        ("rest_for_one", ["stop c", "start b 2", "start c 2"]),
    ],
)
async def test_the_strategy_decides_who_is_restarted_in_which_order(strategy: Strategy, events: list[str]) -> None:
    trace = Trace()
    async with TestKit(group(trace, strategy)) as kit:
        trace.take()
        await do(kit, "/t/b", "crash")
        assert trace.take() == events
        for name in "abc":
            await do(kit, f"/t/{name}", "work")
            assert (await kit.state(f"/t/{name}", Count)).done == 1, (
                "state outlives a restart, the failed turn does not"
            )
        assert trace.take() == []


@pytest.mark.parametrize(
    ("kind", "crash", "end"),
    [
        ("permanent", ["start a 2"], ["start a 2"]),
        ("transient", ["start a 2"], []),
        ("temporary", [], []),
    ],
)
async def test_the_restart_kind_decides_whether(kind: Restart, crash: list[str], end: list[str]) -> None:
    for what, events in (("crash", crash), ("fail", crash), ("end", end)):
        trace = Trace()
        async with TestKit(group(trace, restart=kind)) as kit:
            trace.take()
            await do(kit, "/t/a", what)
            assert trace.take() == events
            after = "completed" if what == "end" else "failed"
            assert await status(kit, "/t/a") == ("active" if events else after)


@pytest.mark.parametrize("strategy", ["one_for_all", "rest_for_one"])
async def test_a_finished_sibling_stays_finished_through_a_group_restart(strategy: Strategy) -> None:
    trace = Trace()
    async with TestKit(group(trace, strategy, b="transient")) as kit:
        await do(kit, "/t/b", "end")
        trace.take()
        await do(kit, "/t/a", "crash")
        assert trace.take() == ["stop c", "start a 2", "start c 2"]
        assert await status(kit, "/t/b") == "completed"


@pytest.mark.parametrize("strategy", ["one_for_all", "rest_for_one"])
async def test_a_paused_sibling_stays_paused_until_an_operator_resumes_it(strategy: Strategy) -> None:
    trace = Trace()
    async with TestKit(group(trace, strategy)) as kit:
        await kit.client.send("/t/b", Pause("jo"), lane=Lane.SYSTEM)
        await kit.settle()
        trace.take()
        await do(kit, "/t/a", "crash")
        assert trace.take() == ["stop c", "start a 2", "start c 2"]
        assert await status(kit, "/t/b") == "paused"
        await do(kit, "/t/b", "work")
        assert (await kit.state("/t/b", Count)).done == 0
        await kit.client.send("/t/b", Resume(), lane=Lane.SYSTEM)
        await kit.settle()
        assert (await kit.state("/t/b", Count)).done == 1
        await stop(kit, "/t")
        assert trace.take() == ["stop c", "stop b", "stop a"]


async def test_a_temporary_sibling_is_stopped_with_its_group_and_not_started_again() -> None:
    trace = Trace()
    async with TestKit(group(trace, "one_for_all", b="temporary")) as kit:
        trace.take()
        await do(kit, "/t/a", "crash")
        assert trace.take() == ["stop c", "stop b", "start a 2", "start c 2"]
        await do(kit, "/t/c", "crash")
        assert trace.take() == ["stop a", "start a 3", "start c 3"]


async def test_one_failure_while_another_child_is_being_started_starts_neither_twice() -> None:
    trace = Trace()
    async with TestKit(group(trace)) as kit:
        trace.take()
        trace.slow["a"] = 5
        await do(kit, "/t/a", "crash")
        await do(kit, "/t/b", "crash")
        await kit.advance(seconds=20)
        assert trace.take() == ["start a 2", "start b 2"]


# --- failing to start, failing to stop -------------------------------------------------------------------------------


async def test_a_child_that_fails_to_start_again_is_tried_again_and_each_attempt_counts() -> None:
    trace = Trace()
    async with TestKit(group(trace)) as kit:
        trace.take()
        trace.failing["b"] = 3
        await do(kit, "/t/b", "crash")
        assert trace.take() == ["fail b", "fail b", "fail b", "start b 5"]
        assert len((await kit.state("/t", SupervisorState)).restarted_at) == 4


@pytest.mark.parametrize("error", [RuntimeError("bug"), Reject("no"), Park("no")])
async def test_a_child_that_never_starts_again_makes_its_supervisor_give_up(error: Exception) -> None:
    trace = Trace()
    async with TestKit(group(trace, max_restarts=2)) as kit:
        trace.take()
        trace.failing["b"] = 99
        trace.error = error
        await do(kit, "/t/b", "crash")
        await kit.advance(seconds=5)
        assert trace.take() == ["fail b", "fail b", "stop c", "stop a"]
        row = await kit.row("/t")
        assert row is not None and row.status == "parked" and "more than 2 restarts" in row.reason


async def test_a_child_whose_start_waits_for_the_world_is_tried_again_without_a_failure() -> None:
    trace = Trace()
    trace.failing["b"] = 3
    trace.error = Transient("not yet")
    async with TestKit(group(trace, max_restarts=0)) as kit:
        await kit.advance(seconds=10)
        assert trace.take() == ["start a 1", "fail b", "fail b", "fail b", "start b 1", "start c 1"]


async def test_one_for_all_stops_the_survivors_of_a_failed_attempt_again() -> None:
    trace = Trace()
    async with TestKit(group(trace, "one_for_all")) as kit:
        trace.take()
        trace.failing["c"] = 1
        await do(kit, "/t/b", "crash")
        assert trace.take() == [
            "stop c", "stop a", "start a 2", "start b 2", "fail c", "stop b", "stop a", "start a 3", "start b 3",
            "start c 3",
        ]  # fmt: skip


async def test_rest_for_one_keeps_the_earlier_ones_of_a_failed_attempt() -> None:
    trace = Trace()
    async with TestKit(group(trace, "rest_for_one")) as kit:
        trace.take()
        trace.failing["c"] = 1
        await do(kit, "/t/b", "crash")
        assert trace.take() == ["stop c", "start b 2", "fail c", "start c 3"]


@pytest.mark.parametrize("kind", ["permanent", "temporary"])
async def test_a_start_failure_at_boot_is_final_whatever_the_restart_kind(kind: Restart) -> None:
    trace = Trace()
    trace.failing["b"] = 1
    async with TestKit(group(trace, b=kind)) as kit:
        assert trace.take() == ["start a 1", "fail b", "stop a"]
        row = await kit.row("/t")
        assert row is not None
        assert (row.status, row.reason) == ("parked", "failed_to_start(b,RuntimeError: start failed)")
        assert [await status(kit, address) for address in ("/t/a", "/t/b", "/t/c")] == ["stopped", "failed", ""]
        await kit.client.send("/t", Resume("jo"), lane=Lane.SYSTEM)
        await kit.settle()
        assert trace.take() == ["start a 2", "start b 2", "start c 1"], "a person may try again"


async def test_a_child_that_fails_to_stop_is_down_all_the_same() -> None:
    trace = Trace()
    trace.stop_fails = {"b", "c"}
    async with TestKit(group(trace)) as kit:
        trace.take()
        await stop(kit, "/t")
        assert trace.take() == ["stop c", "stop b", "stop a"]
        assert await status(kit, "/t") == "stopped"


async def test_a_child_that_ends_while_its_supervisor_stops_is_not_restarted() -> None:
    trace = Trace()
    async with TestKit(group(trace)) as kit:
        trace.take()
        trace.slow_to_stop["c"] = 5
        await stop(kit, "/t")
        await do(kit, "/t/a", "end")
        await do(kit, "/t/b", "crash")
        await kit.advance(seconds=10)
        assert trace.take() == ["stop c"]
        assert [await status(kit, address) for address in ("/t", "/t/a", "/t/b", "/t/c")] == [
            "stopped", "completed", "failed", "stopped",
        ]  # fmt: skip


@pytest.mark.parametrize(("kind", "events"), [("permanent", ["start b 2"]), ("transient", [])])
async def test_a_child_that_ends_before_its_turn_to_be_stopped_in_a_group_is_one_stop_less(
    kind: Restart, events: list[str]
) -> None:
    trace = Trace()
    async with TestKit(group(trace, "one_for_all", max_restarts=1, b=kind)) as kit:
        trace.take()
        trace.slow_to_stop["c"] = 5
        await do(kit, "/t/a", "crash")
        await do(kit, "/t/b", "end")
        await kit.advance(seconds=10)
        assert trace.take() == ["stop c", "start a 2", *events, "start c 2"]
        assert await status(kit, "/t") == "active"


async def test_a_stop_that_comes_too_late_is_answered_and_no_dead_letter() -> None:
    trace = Trace()
    async with TestKit(group(trace)) as kit:
        trace.take()
        envelopes = [await kit.client.envelope("/t/c", Do("end"), lane=Lane.SYSTEM)]
        envelopes.append(await kit.client.envelope("/t/c", Stop(1), lane=Lane.SYSTEM))
        await kit.store.send(envelopes)
        await kit.settle()
        assert trace.take() == ["start c 2"]
        assert await kit.store.dead_letters() == []
