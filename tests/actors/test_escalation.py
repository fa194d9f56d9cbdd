"""Supervisors give up, escalate, and go on, whatever happens to their nodes and to the tree."""

from collections.abc import Awaitable, Callable

import pytest

from callboard.actors.spec import Child, Strategy, Supervisor, Tree
from callboard.actors.supervisor_state import SupervisorState
from callboard.actors.system import Resume
from callboard.actors.testing import TestKit
from callboard.mailbox.address import shard_of
from callboard.mailbox.lane import Lane
from tests.actors.family import Count, Do, Kid, Trace, do, group, pool, status
from tests.actors.world import SETTINGS, Note

pytestmark = pytest.mark.anyio


# --- intensity and escalation ----------------------------------------------------------------------------------------


async def test_intensity_counts_in_a_true_sliding_window() -> None:
    trace = Trace()
    async with TestKit(group(trace, max_restarts=1, within=1.0)) as kit:
        for _ in range(4):
            await do(kit, "/t/a", "crash")
            await kit.advance(seconds=1.05)
        assert await status(kit, "/t") == "active"
        await do(kit, "/t/a", "crash")
        await kit.advance(seconds=0.9)
        await do(kit, "/t/b", "crash")
        assert await status(kit, "/t") == "parked"


async def test_a_supervisor_that_gives_up_stops_the_rest_and_escalates_to_its_parent() -> None:
    trace = Trace()
    sub = Supervisor("sub", group(trace).children, max_restarts=1, backoff=None)
    other = Child(Kid, "other", args=(trace,))
    async with TestKit(Supervisor("t", (sub, other), strategy="rest_for_one", max_restarts=1, backoff=None)) as kit:
        trace.take()
        await do(kit, "/t/sub/b", "crash")
        assert trace.take() == ["start b 2"]
        await do(kit, "/t/sub/b", "crash")
        assert trace.take() == [
            "stop c", "stop a", "stop other", "start a 2", "start b 3", "start c 2", "start other 2",
        ]  # fmt: skip
        row = await kit.row("/t/sub")
        assert row is not None and (row.status, row.incarnation) == ("active", 2)
        for _ in range(2):
            await do(kit, "/t/sub/a", "crash")
        row = await kit.row("/t")
        assert row is not None and row.status == "parked"
        assert row.reason.startswith("escalated: more than 1 restarts in 60 s; sub: escalated")
        assert [await status(kit, f"/t/{name}") for name in ("sub", "sub/a", "sub/c", "other")] == [
            "escalated", "failed", "stopped", "stopped",
        ]  # fmt: skip


async def test_escalation_multiplies() -> None:
    """ESC-01: intensities 1/1/1 make a worker start eight times."""
    trace = Trace()
    kid = Child(Kid, "w", args=(trace,))
    tree = Supervisor("n", (kid,), max_restarts=1, backoff=None)
    for name in "mt":
        tree = Supervisor(name, (tree,), max_restarts=1, backoff=None)
    async with TestKit(tree) as kit:
        for _ in range(8):
            await do(kit, "/t/m/n/w", "crash")
        assert len([event for event in trace.take() if event.startswith("start")]) == 8
        assert await status(kit, "/t") == "parked"


async def test_a_parked_root_goes_on_when_it_is_resumed() -> None:
    trace = Trace()
    async with TestKit(group(trace, max_restarts=0)) as kit:
        await do(kit, "/t/a", "crash")
        assert await status(kit, "/t") == "parked"
        await kit.send("/t/b", Do("work"))
        trace.take()
        await kit.client.send("/t", Resume("jo"), lane=Lane.SYSTEM)
        await kit.settle()
        assert trace.take() == ["start a 2", "start b 2", "start c 2"]
        assert (await kit.state("/t/b", Count)).done == 1


async def test_a_pool_instance_that_fails_is_restarted_and_its_messages_stay() -> None:
    trace = Trace()
    async with TestKit(pool(trace, max_restarts=2)) as kit:
        for what in ("work", "crash", "work", "crash", "work"):
            await kit.client.send("/t/k:1", Do(what))
        await kit.settle()
        assert trace.take() == ["start k:1 1", "start k:1 2", "start k:1 3"]
        assert (await kit.state("/t/k:1", Count)).done == 3
        await do(kit, "/t/k:2", "end")
        assert await status(kit, "/t/k:2") == "completed"


# --- across nodes and versions ---------------------------------------------------------------------------------------


GROUP_RESTARTS = {
    "one_for_all": ["stop c", "stop a", "start a 2", "start b 2", "start c 2"],
    "rest_for_one": ["stop c", "start b 2", "start c 2"],
    "one_for_one": ["start b 2"],
}


async def killed_at(kit: TestKit, step: int, *, landed: bool) -> Callable[[], Awaitable[int]]:
    """Kill the node of the root when it makes its commit number `step` from now on: before it, or once it has landed.

    To be called at the end: how many commits there were until then.
    """
    root = next(n for n in kit.nodes if kit.store.cluster.owners[shard_of("/t")] == kit.session(n).number)
    number, commits = kit.session(root).number, 0

    def counts(session: int) -> bool:
        nonlocal commits
        if session != number:
            return False
        commits += 1
        if commits == step:
            kit.session(root).crash()
        return commits == step

    async def before(session: int, operation: str) -> None:
        if operation == "commit":
            counts(session)

    if landed:
        kit.store.lost_answer = counts
    else:
        kit.store.before = before

    async def end() -> int:
        kit.store.before = None
        kit.store.lost_answer = lambda _: False
        await kit.crash(root)
        await kit.advance(seconds=10)
        return commits

    return end


@pytest.mark.parametrize("landed", [False, True])
@pytest.mark.parametrize("strategy", ["one_for_all", "rest_for_one", "one_for_one"])
@pytest.mark.parametrize("step", range(1, 12))
async def test_g8_a_group_restart_goes_on_with_the_step_it_was_at_when_its_node_was_killed(
    step: int, strategy: Strategy, landed: bool
) -> None:
    trace = Trace()
    async with TestKit(group(trace, strategy), nodes=2, settings=SETTINGS) as kit:
        await kit.advance(seconds=2)
        trace.take()
        end = await killed_at(kit, step, landed=landed)
        await kit.client.send("/t/b", Do("crash"))
        await kit.settle()
        await end()
        events = trace.take()
        order = [event for index, event in enumerate(events) if event not in events[:index]]
        assert order == GROUP_RESTARTS[strategy], "a killed turn is done again"
        state = await kit.state("/t", SupervisorState)
        assert (state.job, state.waiting, len(state.restarted_at)) == (None, [], 1)
        for name in "abc":
            row = await kit.row(f"/t/{name}")
            again = any(event.startswith(f"start {name}") for event in order)
            assert row is not None and (row.status, row.incarnation) == ("active", 2 if again else 1)


@pytest.mark.parametrize("landed", [False, True])
@pytest.mark.parametrize("step", range(1, 18, 2))
async def test_g8_a_failing_group_restart_counts_each_attempt_once_although_its_node_was_killed(
    step: int, landed: bool
) -> None:
    """OFA-06, with a kill at each step."""
    trace = Trace()
    async with TestKit(group(trace, "one_for_all", max_restarts=2), nodes=2, settings=SETTINGS) as kit:
        await kit.advance(seconds=2)
        trace.take()
        end = await killed_at(kit, step, landed=landed)
        trace.fails_on = {"c": {2}}
        await kit.client.send("/t/a", Do("crash"))
        await kit.settle()
        await end()
        events = trace.take()
        assert [event for index, event in enumerate(events) if event not in events[:index]] == [
            "stop c", "stop b", "start a 2", "start b 2", "fail c", "stop a", "start a 3", "start b 3", "start c 3",
        ]  # fmt: skip
        assert len((await kit.state("/t", SupervisorState)).restarted_at) == 2
        assert await status(kit, "/t") == "active"


@pytest.mark.parametrize("step", range(1, 12))
async def test_g8_a_supervisor_that_gives_up_ends_once_although_its_node_was_killed(step: int) -> None:
    trace = Trace()
    sub = Supervisor("sub", group(trace).children, max_restarts=0)
    tree = Supervisor("t", (sub,), max_restarts=1, backoff=None)
    async with TestKit(tree, nodes=2, settings=SETTINGS) as kit:
        await kit.advance(seconds=2)
        trace.take()
        end = await killed_at(kit, step, landed=step % 2 == 0)
        await kit.client.send("/t/sub/b", Do("crash"))
        await kit.settle()
        await end()
        events = trace.take()
        assert [event for index, event in enumerate(events) if event not in events[:index]] == [
            "stop c", "stop a", "start a 2", "start b 2", "start c 2",
        ]  # fmt: skip
        assert len((await kit.state("/t", SupervisorState)).restarted_at) == 1


async def test_a_new_version_of_the_tree_starts_what_is_new_and_forgets_what_is_gone_at_every_depth() -> None:
    trace = Trace()
    kid = {name: Child(Kid, name, args=(trace,)) for name in "abcde"}
    old = Supervisor("t", (kid["a"], kid["b"], Supervisor("sub", (kid["c"],), backoff=None)), backoff=None)
    new = Supervisor("t", (kid["a"], kid["e"], Supervisor("sub", (kid["c"], kid["d"]), backoff=None)), backoff=None)
    async with TestKit(old, settings=SETTINGS) as kit:
        trace.take()
        await kit.leave(kit.nodes[0])
        await kit.join(tree=Tree(new))
        await kit.advance(seconds=3)
        assert sorted(trace.take()) == ["start d 1", "start e 1"]
        await do(kit, "/t/sub/d", "crash")
        assert trace.take() == ["start d 2"]
        await kit.leave(kit.nodes[1])
        await kit.join(tree=Tree(old))
        await kit.advance(seconds=3)
        assert trace.take() == [], "and back: what was never stopped is found running"
        await do(kit, "/t/b", "crash")
        assert trace.take() == ["start b 2"]


async def test_a_child_that_a_new_tree_does_not_have_holds_nothing_up() -> None:
    trace = Trace()
    kid = {name: Child(Kid, name, args=(trace,)) for name in "abc"}
    old = Supervisor("t", (kid["a"], kid["b"], kid["c"]), strategy="one_for_all", backoff=None)
    new = Supervisor("t", (kid["a"], kid["c"]), strategy="one_for_all", backoff=None)
    async with TestKit(old, settings=SETTINGS) as kit:
        trace.take()
        trace.slow_to_stop["b"] = 200
        await do(kit, "/t/a", "crash")
        assert trace.take() == ["stop c"]
        await kit.crash(kit.nodes[0])
        await kit.join(tree=Tree(new))
        await kit.advance(seconds=10)
        assert trace.take() == ["start a 2", "start c 2"]
        state = await kit.state("/t", SupervisorState)
        assert ([child.name for child in state.children], state.job) == (["a", "c"], None)


async def test_a_supervisor_is_told_of_a_child_once() -> None:
    """A lost answer to the commit that carries a failure is one failure, one restart."""
    for nth in range(1, 6):
        trace = Trace()
        async with TestKit(group(trace, max_restarts=1)) as kit:
            trace.take()
            commits = 0

            def lost(_number: int, nth: int = nth) -> bool:
                nonlocal commits
                commits += 1
                return commits == nth

            kit.store.lost_answer = lost
            await do(kit, "/t/a", "crash")
            await kit.advance(seconds=5)
            assert set(trace.take()) == {"start a 2"}
            assert await status(kit, "/t") == "active"


async def test_notes_to_a_supervisor_are_rejected_and_do_no_harm() -> None:
    trace = Trace()
    async with TestKit(group(trace)) as kit:
        await kit.send("/t", Note("hello"))
        assert [letter.reason for letter in await kit.store.dead_letters()] == ["rejected"]
        assert await status(kit, "/t") == "active"
