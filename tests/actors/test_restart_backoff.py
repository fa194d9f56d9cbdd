"""Restarts are spaced by a back-off, which an operator's stop ends and a node's death does not."""

import pytest

from callboard.actors.backoff import RestartBackoff
from callboard.actors.restart import ChildState, ChildStatus, shuts_down
from callboard.actors.spec import AutoShutdown, Strategy, Supervisor
from callboard.actors.testing import TestKit
from callboard.mailbox.address import shard_of
from tests.actors.family import Kid, Trace, do, group, status, stop
from tests.actors.world import SETTINGS

pytestmark = pytest.mark.anyio
BACKOFF = RestartBackoff(jitter=0.0)


def test_the_waits_double_up_to_a_cap_with_jitter() -> None:
    waits = [BACKOFF.delay_seconds(failures, 0.5) for failures in range(1, 9)]
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60]
    assert [RestartBackoff().delay_seconds(3, chance) for chance in (0.0, 0.5, 1.0)] == [3.2, 4.0, 4.8]
    assert BACKOFF.delay_seconds(100_000, 0.5) == 60


async def test_a_child_is_restarted_after_ever_longer_waits_until_it_was_healthy_for_a_while() -> None:
    trace = Trace()
    async with TestKit(group(trace, max_restarts=100, backoff=BACKOFF)) as kit:
        trace.take()
        for incarnation, wait in enumerate((1, 2, 4, 8), start=2):
            await do(kit, "/t/b", "crash")
            await kit.advance(seconds=wait - 0.1)
            assert trace.take() == []
            await kit.advance(seconds=0.2)
            assert trace.take() == [f"start b {incarnation}"]
        await kit.advance(seconds=61)
        await do(kit, "/t/b", "crash")
        await kit.advance(seconds=1.1)
        assert trace.take() == ["start b 6"]


async def test_a_start_that_fails_again_and_again_waits_longer_each_time() -> None:
    trace = Trace()
    async with TestKit(group(trace, max_restarts=100, backoff=BACKOFF)) as kit:
        trace.take()
        trace.failing["b"] = 4
        await do(kit, "/t/b", "crash")
        for wait in (1, 2, 4, 8):
            await kit.advance(seconds=0.8 * wait)
            assert trace.take() == []
            await kit.advance(seconds=0.2 * wait + 0.05)
            assert trace.take() == ["fail b"]
        await kit.advance(seconds=16)
        assert trace.take() == ["start b 6"]


async def test_each_child_has_its_own_wait_and_a_stop_of_the_supervisor_ends_them() -> None:
    trace = Trace()
    async with TestKit(group(trace, max_restarts=100, backoff=BACKOFF)) as kit:
        trace.take()
        await do(kit, "/t/a", "crash")
        await kit.advance(seconds=0.6)
        await do(kit, "/t/b", "crash")
        await kit.advance(seconds=0.5)
        assert trace.take() == ["start a 2"]
        await kit.advance(seconds=0.3)
        await stop(kit, "/t")
        await kit.advance(minutes=5)
        assert trace.take() == ["stop c", "stop a"]


@pytest.mark.parametrize(
    ("strategy", "stops", "starts"),
    [
        ("one_for_all", ["stop c", "stop a"], ["start a 2", "start b 2", "start c 2"]),
        ("rest_for_one", ["stop c"], ["start b 2", "start c 2"]),
    ],
)
async def test_a_group_is_stopped_at_once_and_started_together_after_the_wait(
    strategy: Strategy, stops: list[str], starts: list[str]
) -> None:
    trace = Trace()
    async with TestKit(group(trace, strategy, backoff=BACKOFF)) as kit:
        trace.take()
        await do(kit, "/t/b", "crash")
        assert trace.take() == stops, "who depends on it does not run without it"
        await kit.advance(seconds=1.1)
        assert trace.take() == starts


async def test_an_earlier_sibling_that_fails_during_the_wait_joins_the_group() -> None:
    trace = Trace()
    async with TestKit(group(trace, "rest_for_one", backoff=BACKOFF)) as kit:
        trace.take()
        await do(kit, "/t/b", "crash")
        await kit.advance(seconds=0.5)
        await do(kit, "/t/a", "crash")
        await kit.advance(seconds=5)
        assert trace.take() == ["stop c", "start a 2", "start b 2", "start c 2"]


@pytest.mark.parametrize("strategy", ["one_for_one", "one_for_all"])
async def test_g8_a_wait_outlives_the_node(strategy: Strategy) -> None:
    trace = Trace()
    backoff = RestartBackoff(first_seconds=10.0, jitter=0.0)
    async with TestKit(group(trace, strategy, backoff=backoff), nodes=2, settings=SETTINGS) as kit:
        await kit.advance(seconds=2)
        trace.take()
        await do(kit, "/t/b", "crash")
        await kit.advance(seconds=2)
        root = next(n for n in kit.nodes if kit.store.cluster.owners[shard_of("/t")] == kit.session(n).number)
        await kit.crash(root)
        await kit.advance(seconds=7.5)
        assert [event for event in trace.take() if event.startswith("start")] == []
        await kit.advance(seconds=1.5)
        starts = ["start b 2"] if strategy == "one_for_one" else ["start a 2", "start b 2", "start c 2"]
        assert [event for event in trace.take() if event.startswith("start")] == starts


async def test_a_supervisor_backs_off_by_default() -> None:
    trace = Trace()
    tree = Supervisor("t", group(trace).children)
    assert tree.backoff == RestartBackoff(first_seconds=1.0, cap_seconds=60.0, factor=2.0, jitter=0.2)
    async with TestKit(tree) as kit:
        assert Kid.retry.max_failures == 1
        await do(kit, "/t/b", "crash")
        assert await status(kit, "/t/b") == "failed"
        await kit.advance(seconds=1.3)
        assert await status(kit, "/t/b") == "active"


@pytest.mark.parametrize(
    ("auto", "others", "ends"),
    [
        ("never", [], False),
        ("any_significant", ["running"], True),
        ("all_significant", ["running", "ended"], False),
        ("all_significant", ["restarting"], False),
        ("all_significant", ["ended", "paused"], True),
        ("all_significant", [], True),
    ],
)
def test_whose_end_is_the_supervisors_end(auto: AutoShutdown, others: list[ChildStatus], ends: bool) -> None:
    assert shuts_down(auto, [ChildState(str(n), of) for n, of in enumerate(others)]) is ends
