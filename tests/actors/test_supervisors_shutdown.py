"""How children are stopped: with time to clean up, without, too late, and down a whole subtree."""

import pytest

from callboard.actors.spec import Child, Supervisor
from callboard.actors.system import Kill, TerminateChild
from callboard.actors.testing import TestKit
from callboard.mailbox.address import shard_of
from callboard.mailbox.lane import Lane
from tests.actors.family import Count, Do, Kid, Trace, asked, do, group, history, send_system, status, stop
from tests.actors.world import SETTINGS

pytestmark = pytest.mark.anyio


def kid(trace: Trace, name: str, seconds: float = 5.0) -> Child:
    return Child(Kid, name, args=(trace,), shutdown_seconds=seconds)


async def test_a_child_out_of_time_is_killed_and_reported_and_the_stop_goes_on() -> None:
    trace = Trace()
    tree = Supervisor("t", (kid(trace, "a"), kid(trace, "b", 2.0), kid(trace, "c")))
    async with TestKit(tree) as kit:
        trace.take()
        trace.slow_to_stop["b"] = 100
        await stop(kit, "/t")
        await kit.advance(seconds=1.9)
        assert trace.take() == ["stop c"]
        await kit.advance(seconds=0.2)
        assert trace.take() == ["stop a"]
        row = await kit.row("/t/b")
        assert row is not None and (row.status, row.reason) == ("stopped", "killed")
        assert await history(kit, "/t", "child_stopped", "shutdown_error", "ended") == [
            "child_stopped c shutdown", "shutdown_error b killed", "child_stopped a shutdown", "ended shutdown",
        ]  # fmt: skip
        await kit.advance(seconds=200)
        assert trace.take() == [], "the clean-up that was cut short never ends"


async def test_a_brutal_kill_leaves_no_time_and_is_no_error() -> None:
    trace = Trace()
    async with TestKit(Supervisor("t", (kid(trace, "a"), kid(trace, "b", 0)))) as kit:
        trace.take()
        await stop(kit, "/t")
        assert trace.take() == ["stop a"]
        assert await history(kit, "/t", "child_stopped", "shutdown_error") == [
            "child_stopped b killed", "child_stopped a shutdown",
        ]  # fmt: skip


async def test_a_shutdown_without_end_waits() -> None:
    trace = Trace()
    async with TestKit(Supervisor("t", (kid(trace, "a"), kid(trace, "b", float("inf"))))) as kit:
        trace.take()
        trace.slow_to_stop["b"] = 200
        await stop(kit, "/t")
        await kit.advance(seconds=199)
        assert (trace.take(), await status(kit, "/t/a")) == ([], "active")
        await kit.advance(seconds=2)
        assert trace.take() == ["stop b", "stop a"]


async def test_the_time_of_a_supervisor_covers_its_subtree_and_leaves_no_orphan() -> None:
    """SHU-07: OTP leaves the grandchild running."""
    trace = Trace()
    deep = Supervisor("deep", (kid(trace, "x", float("inf")), kid(trace, "y", float("inf"))))
    mid = Supervisor("mid", (kid(trace, "m"), deep), shutdown_seconds=3.0)
    async with TestKit(Supervisor("t", (kid(trace, "a"), mid))) as kit:
        trace.take()
        trace.slow_to_stop["y"] = 1_000
        await stop(kit, "/t")
        await kit.advance(seconds=3.5)
        assert trace.take() == ["stop a"], "x and m had no time left"
        for address in ("/t", "/t/mid", "/t/mid/m", "/t/mid/deep", "/t/mid/deep/x", "/t/mid/deep/y"):
            assert await status(kit, address) == "stopped"
        assert await history(kit, "/t", "shutdown_error") == ["shutdown_error mid killed"]
        await kit.advance(seconds=2_000)
        assert trace.take() == []


async def test_a_crash_of_the_clean_up_is_reported_and_the_child_is_started_with_its_group() -> None:
    trace = Trace()
    trace.stop_fails = {"c"}
    async with TestKit(group(trace, "one_for_all", max_restarts=1)) as kit:
        trace.take()
        await do(kit, "/t/a", "crash")
        assert trace.take() == ["stop c", "stop b", "start a 2", "start b 2", "start c 2"]
        assert await history(kit, "/t", "shutdown_error") == ["shutdown_error c RuntimeError: stop failed"]
        assert await status(kit, "/t") == "active"


# --- being killed ----------------------------------------------------------------------------------------------------


async def test_an_actor_that_is_killed_in_the_middle_of_a_handler_leaves_nothing_of_it_and_is_restarted() -> None:
    trace = Trace()
    async with TestKit(group(trace)) as kit:
        trace.take()
        await do(kit, "/t/b", "work")
        await do(kit, "/t/b", "hang")
        await send_system(kit, "/t/b", Kill("jo"))
        assert trace.take() == ["start b 2"]
        assert (await kit.state("/t/b", Count)).done == 1
        assert await kit.store.dead_letters() == [], "the message waits, and has not failed"
        assert [view.envelope.failures for view in await kit.store.peek("/t/b")] == [0]


async def test_a_killed_child_has_failed_and_its_supervisor_decides() -> None:
    trace = Trace()
    async with TestKit(group(trace, b="temporary", c="transient")) as kit:
        trace.take()
        for name in "abc":
            await send_system(kit, f"/t/{name}", Kill("jo"))
        assert trace.take() == ["start a 2", "start c 2"]
        row = await kit.row("/t/b")
        assert row is not None and (row.status, row.reason) == ("failed", "killed")
        assert await history(kit, "/t", "child_terminated") == [f"child_terminated {n} killed" for n in "abc"]


async def test_a_killed_supervisor_is_not_replaced_before_its_children_have_ended() -> None:
    """ESC-08: in OTP the old and the new incarnation of the child overlap."""
    trace = Trace()
    mid = Supervisor("mid", (kid(trace, "x"), kid(trace, "y")))
    async with TestKit(Supervisor("t", (mid,), backoff=None)) as kit:
        trace.take()
        trace.slow_to_stop["x"] = 50
        await send_system(kit, "/t/mid", Kill("jo"))
        assert trace.take() == ["start x 2", "start y 2"], "none of them was asked"
        assert await history(kit, "/t/mid", "child_stopped", "ended") == [
            "child_stopped y killed", "child_stopped x killed", "ended killed",
        ]  # fmt: skip
        for name in ("mid", "mid/x", "mid/y"):
            row = await kit.row(f"/t/{name}")
            assert row is not None and (row.status, row.incarnation) == ("active", 2)


async def test_a_kill_that_comes_twice_kills_once() -> None:
    trace = Trace()
    async with TestKit(group(trace, max_restarts=1)) as kit:
        trace.take()
        envelopes = [await kit.client.envelope("/t/a", Kill("jo"), lane=Lane.SYSTEM) for _ in range(2)]
        await kit.store.send(envelopes)
        await kit.settle()
        assert trace.take() == ["start a 2"]
        assert await kit.store.dead_letters() == []


# --- where the node dies in between ----------------------------------------------------------------------------------


@pytest.mark.parametrize("step", range(1, 7))
async def test_g8_a_shutdown_time_outlives_the_node(step: int) -> None:
    trace = Trace()
    tree = Supervisor("t", (kid(trace, "a"), kid(trace, "b", 4.0)))
    async with TestKit(tree, nodes=2, settings=SETTINGS) as kit:
        await kit.advance(seconds=2)
        trace.take()
        trace.slow_to_stop["b"] = 1_000
        root = next(n for n in kit.nodes if kit.store.cluster.owners[shard_of("/t")] == kit.session(n).number)
        commits = 0

        async def before(number: int, operation: str) -> None:
            nonlocal commits
            if operation == "commit" and number == kit.session(root).number:
                commits += 1
                if commits == step:
                    kit.session(root).crash()

        kit.store.before = before
        await stop(kit, "/t")
        await kit.advance(seconds=2)
        kit.store.before = None
        await kit.crash(root)
        await kit.advance(seconds=20)
        assert [event for event in trace.take() if event != "stop b"][:1] == ["stop a"]
        for address in ("/t", "/t/a", "/t/b"):
            assert await status(kit, address) == "stopped"


async def test_terminating_a_child_that_does_not_stop_kills_it() -> None:
    trace = Trace()
    async with TestKit(group(trace)) as kit:
        trace.take()
        trace.slow_to_stop["b"] = 1_000
        assert await asked(kit, "/t", TerminateChild("b")) == "ok"
        row = await kit.row("/t/b")
        assert row is not None and (row.status, row.reason) == ("stopped", "killed")
        await kit.send("/t/a", Do("work"))
        assert trace.take() == []


async def test_a_child_that_calls_its_end_something_else_when_it_is_stopped_is_started_with_its_group() -> None:
    """OFA-10: what ends because it was asked to has not finished its work."""
    trace = Trace()
    trace.ends_when_stopped = {"b"}
    async with TestKit(group(trace, "one_for_all", b="transient")) as kit:
        trace.take()
        await do(kit, "/t/a", "crash")
        assert trace.take() == ["stop c", "stop b", "start a 2", "start b 2", "start c 2"]
        assert await history(kit, "/t", "shutdown_error") == []
