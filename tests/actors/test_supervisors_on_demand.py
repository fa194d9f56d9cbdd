"""What operators ask of a supervisor: children are started, stopped, started again, forgotten, listed and counted."""

import pytest

from callboard.actors.actor import Actor, on
from callboard.actors.backoff import RestartBackoff
from callboard.actors.context import Context
from callboard.actors.spec import Child, Restart, Strategy, Supervisor
from callboard.actors.supervisor_state import SupervisorState
from callboard.actors.system import (
    ChildCounts,
    ChildDone,
    ChildRefused,
    Children,
    CountChildren,
    DeleteChild,
    ListChildren,
    Pause,
    RestartChild,
    Resume,
    StartChild,
    TerminateChild,
)
from callboard.actors.testing import TestKit
from callboard.mailbox.address import shard_of
from callboard.mailbox.lane import Lane
from tests.actors.family import (
    Count,
    Do,
    Kid,
    Trace,
    ask,
    asked,
    do,
    group,
    history,
    send_system,
    status,
    stop,
)
from tests.actors.world import SETTINGS

pytestmark = pytest.mark.anyio


def with_template(trace: Trace, strategy: Strategy = "one_for_one", restart: Restart = "permanent") -> Supervisor:
    kids = group(trace, names="ab").children
    template = Child(Kid, "d", restart=restart, dynamic=True, args=(trace,))
    return Supervisor("t", (*kids, template), strategy=strategy, max_restarts=10, backoff=None)


async def listed(kit: TestKit, address: str = "/t") -> dict[str, str]:
    """Newest first: what each child is doing, and why not."""
    answer = await ask(kit, address, ListChildren())
    assert isinstance(answer, Children)
    return {view.id: view.detail or view.process for view in answer.children}


# --- stopping and starting -------------------------------------------------------------------------------------------


async def test_a_stopped_child_stays_down_until_it_is_restarted_and_keeps_its_state() -> None:
    trace = Trace()
    async with TestKit(group(trace)) as kit:
        await do(kit, "/t/b", "work")
        trace.take()
        assert await asked(kit, "/t", TerminateChild("b")) == "ok"
        assert await asked(kit, "/t", TerminateChild("b")) == "ok"
        assert trace.take() == ["stop b"]
        await kit.client.send("/t/b", Do("work"))
        await kit.advance(hours=1)
        assert await status(kit, "/t/b") == "stopped"
        assert await listed(kit) == {"c": "running", "b": "paused", "a": "running"}
        answer = await ask(kit, "/t", RestartChild("b"))
        assert answer == ChildDone("b", 2)
        assert trace.take() == ["start b 2"]
        assert (await kit.state("/t/b", Count)).done == 2, "and what came meanwhile is handled"


async def test_the_refusals_are_those_of_otp() -> None:
    trace = Trace()
    async with TestKit(with_template(trace)) as kit:
        assert await asked(kit, "/t", RestartChild("a")) == "running"
        assert await asked(kit, "/t", DeleteChild("a")) == "running"
        for about in (TerminateChild, RestartChild, DeleteChild):
            assert await asked(kit, "/t", about("x")) == "not_found"
        for message in (StartChild("x", "1"), StartChild("d")):
            assert await asked(kit, "/t", message) == "not_found"
        assert await asked(kit, "/t", StartChild("a")) == "running"
        assert await asked(kit, "/t", StartChild("a", "1")) == "not_found", "it has no instances"
        assert await asked(kit, "/t", StartChild("d", "1")) == "ok"
        assert await asked(kit, "/t", StartChild("d", "1")) == "running"
        assert await asked(kit, "/t", TerminateChild("d:1")) == "ok"
        assert await asked(kit, "/t", StartChild("d", "1")) == "already_present"


async def test_a_deleted_child_of_the_tree_is_forgotten_until_it_is_started_by_name() -> None:
    trace = Trace()
    async with TestKit(group(trace, "one_for_all")) as kit:
        await asked(kit, "/t", TerminateChild("b"))
        assert await asked(kit, "/t", DeleteChild("b")) == "ok"
        trace.take()
        await do(kit, "/t/a", "crash")
        assert trace.take() == ["stop c", "start a 2", "start c 2"]
        await stop(kit, "/t")
        await send_system(kit, "/t", Resume("jo"))
        assert trace.take() == ["stop c", "stop a", "start a 3", "start c 3"], "an operator's word outlives a restart"
        assert await asked(kit, "/t", StartChild("b")) == "ok"
        assert trace.take() == ["start b 2"]
        await stop(kit, "/t")
        assert trace.take() == ["stop c", "stop b", "stop a"], "in its old place"


async def test_a_terminated_temporary_child_is_forgotten_and_takes_nothing_any_more() -> None:
    trace = Trace()
    async with TestKit(group(trace, b="temporary")) as kit:
        assert await asked(kit, "/t", TerminateChild("b")) == "ok"
        assert await asked(kit, "/t", RestartChild("b")) == "not_found"
        assert await listed(kit) == {"c": "running", "a": "running"}
        assert await status(kit, "/t/b") == "cancelled"


async def test_a_restart_that_fails_leaves_the_child_as_it_was_and_counts_nothing() -> None:
    trace = Trace()
    async with TestKit(group(trace, max_restarts=0)) as kit:
        await asked(kit, "/t", TerminateChild("b"))
        trace.failing["b"] = 1
        assert await asked(kit, "/t", RestartChild("b")) == "RuntimeError: start failed"
        assert (await listed(kit))["b"] == "paused"
        assert await status(kit, "/t") == "active"
        assert await asked(kit, "/t", RestartChild("b")) == "ok"
        assert trace.take()[-1] == "start b 3", "the attempt that failed was its second incarnation"


@pytest.mark.parametrize("strategy", ["one_for_all", "rest_for_one"])
async def test_no_group_restart_revives_what_an_operator_has_stopped(strategy: Strategy) -> None:
    """API-08: OTP does."""
    trace = Trace()
    async with TestKit(group(trace, strategy)) as kit:
        await asked(kit, "/t", TerminateChild("c"))
        trace.take()
        await do(kit, "/t/a", "crash")
        assert trace.take() == ["stop b", "start a 2", "start b 2"]
        assert (await listed(kit))["c"] == "paused"


# --- a stop never waits ----------------------------------------------------------------------------------------------


async def test_an_operators_stop_ends_a_restart_loop() -> None:
    trace = Trace()
    tree = group(trace, max_restarts=1_000, backoff=RestartBackoff(first_seconds=1.0, factor=1.0))
    async with TestKit(tree) as kit:
        trace.take()
        trace.failing["b"] = 1_000
        await do(kit, "/t/b", "crash")
        await kit.advance(seconds=3.5)
        assert trace.take() == ["fail b"] * 3
        assert await asked(kit, "/t", TerminateChild("b")) == "ok"
        await kit.advance(minutes=5)
        assert trace.take() == []
        assert (await listed(kit))["b"] == "paused"


async def test_an_operators_stop_overtakes_a_start_that_hangs() -> None:
    trace = Trace()
    async with TestKit(group(trace)) as kit:
        trace.take()
        trace.slow["b"] = 250
        await do(kit, "/t/b", "crash")
        assert (await listed(kit))["b"] == "restarting"
        assert await asked(kit, "/t", TerminateChild("b")) == "ok"
        assert (await status(kit, "/t/b"), (await listed(kit))["b"]) == ("stopped", "paused")
        trace.slow.clear()
        await kit.advance(minutes=10)
        assert trace.take() == [], "the start that was overtaken never happens"
        assert await asked(kit, "/t", RestartChild("b")) == "ok"


async def test_what_is_asked_during_a_restart_waits_and_a_stop_of_the_supervisor_answers_it() -> None:
    trace = Trace()
    async with TestKit(with_template(trace)) as kit:
        trace.take()
        trace.slow["b"] = 10
        await do(kit, "/t/b", "crash")
        assert await asked(kit, "/t", StartChild("d", "1")) == "ok"
        assert trace.take() == ["start b 2", "start d:1 1"]
        await do(kit, "/t/b", "crash")
        await kit.client.send("/t", TerminateChild("a"))
        envelope = await kit.client.envelope("/t", StartChild("d", "2"), reply_to="/sys/client:1100-x")
        await kit.store.send([envelope])
        await stop(kit, "/t")
        await kit.advance(seconds=15)
        (reply,) = await kit.store.receive("/sys/client:1100-x", seconds=0.0, port=kit.port)
        assert reply.message() == ChildRefused("d:2", "stopping")


# --- instances of a template -----------------------------------------------------------------------------------------


async def test_instances_are_the_last_children_in_the_order_of_their_start() -> None:
    trace = Trace()
    async with TestKit(with_template(trace, "rest_for_one")) as kit:
        trace.take()
        for key in ("z", "a b"):
            assert await asked(kit, "/t", StartChild("d", key)) == "ok"
        assert list(await listed(kit)) == ["d:a%20b", "d:z", "b", "a"]
        await do(kit, "/t/d:z", "crash")
        assert trace.take() == ["start d:z 1", "start d:a%20b 1", "stop d:a%20b", "start d:z 2", "start d:a%20b 2"]
        await stop(kit, "/t")
        assert trace.take() == ["stop d:a%20b", "stop d:z", "stop b", "stop a"]
        await send_system(kit, "/t", Resume())
        assert trace.take() == ["start a 2", "start b 2", "start d:z 3", "start d:a%20b 3"]


async def test_an_instance_whose_start_fails_is_not_kept_and_can_be_started_again() -> None:
    trace = Trace()
    trace.failing["d:1"] = 1
    async with TestKit(with_template(trace)) as kit:
        assert await asked(kit, "/t", StartChild("d", "1")) == "RuntimeError: start failed"
        assert await listed(kit) == {"b": "running", "a": "running"}
        assert await status(kit, "/t/d:1") == "failed"
        assert await asked(kit, "/t", StartChild("d", "1")) == "ok"
        assert trace.take()[-1] == "start d:1 2"


async def test_an_instance_is_made_by_its_supervisor_only() -> None:
    trace = Trace()
    async with TestKit(with_template(trace)) as kit:
        await kit.send("/t/d:1", Do("work"))
        assert await kit.row("/t/d:1") is None
        assert [letter.reason for letter in await kit.store.dead_letters()] == ["no-such-actor"]


async def test_an_instance_that_was_deleted_goes_on_counting_its_incarnations() -> None:
    trace = Trace()
    async with TestKit(with_template(trace)) as kit:
        for incarnation in (1, 2, 3):
            answer = await ask(kit, "/t", StartChild("d", "1"))
            assert answer == ChildDone("d:1", incarnation)
            await asked(kit, "/t", TerminateChild("d:1"))
            assert await asked(kit, "/t", DeleteChild("d:1")) == "ok"


async def test_children_are_counted() -> None:
    trace = Trace()
    sub = Supervisor("sub", group(trace, names="x").children)
    tree = with_template(trace)
    async with TestKit(Supervisor("t", (*tree.children, sub))) as kit:
        await asked(kit, "/t", StartChild("d", "1"))
        await asked(kit, "/t", TerminateChild("a"))
        assert await ask(kit, "/t", CountChildren()) == ChildCounts(specs=4, active=3, supervisors=1, workers=3)


async def test_declining_a_start_is_no_failure() -> None:
    trace = Trace()
    trace.ignoring = {"b", "c"}
    async with TestKit(group(trace, max_restarts=0, c="temporary")) as kit:
        assert trace.take() == ["start a 1", "ignore b", "ignore c"]
        assert await listed(kit) == {"b": "ignored", "a": "running"}
        assert await status(kit, "/t/b") == "stopped"
        trace.ignoring.clear()
        assert await asked(kit, "/t", RestartChild("b")) == "ok"
        assert trace.take() == ["start b 2"]


# --- pausing, and where the node dies in between ---------------------------------------------------------------------


async def test_a_paused_supervisor_hears_and_waits() -> None:
    """RAC-01: what died together is one group restart, and the later deaths are stops less."""
    trace = Trace()
    async with TestKit(group(trace, "rest_for_one", max_restarts=1)) as kit:
        trace.take()
        await send_system(kit, "/t", Pause("jo"))
        for name in "ac":
            await do(kit, f"/t/{name}", "crash")
        assert trace.take() == []
        await send_system(kit, "/t", Resume("jo"))
        assert trace.take() == ["stop b", "start a 2", "start b 2", "start c 2"]
        assert await history(kit, "/t", "child_terminated", "shutdown_error") == [
            "child_terminated a RuntimeError: crash", "shutdown_error c RuntimeError: crash",
        ]  # fmt: skip


async def test_a_paused_supervisor_can_be_stopped() -> None:
    trace = Trace()
    async with TestKit(group(trace)) as kit:
        trace.take()
        await send_system(kit, "/t", Pause("jo"))
        await stop(kit, "/t")
        assert (trace.take(), await status(kit, "/t")) == (["stop c", "stop b", "stop a"], "stopped")


@pytest.mark.parametrize("step", range(1, 8))
async def test_g8_who_asked_is_answered_although_the_node_was_killed(step: int) -> None:
    trace = Trace()
    async with TestKit(with_template(trace), nodes=2, settings=SETTINGS) as kit:
        await kit.advance(seconds=2)
        trace.take()
        root = next(n for n in kit.nodes if kit.store.cluster.owners[shard_of("/t")] == kit.session(n).number)
        commits = 0

        def lost(number: int) -> bool:
            nonlocal commits
            if number != root_number:
                return False
            commits += 1
            if commits == step:
                kit.session(root).crash()
            return commits == step

        root_number = kit.session(root).number
        kit.store.lost_answer = lost
        mine = "/sys/client:1100-x"
        for message in (TerminateChild("b"), StartChild("d", "1"), RestartChild("b")):
            envelope = await kit.client.envelope("/t", message, lane=Lane.REPLY, reply_to=mine)
            await kit.store.send([envelope])
            await kit.advance(seconds=3)
        assert commits == step
        await kit.crash(root)
        await kit.advance(seconds=10)
        answers = [envelope.message() for envelope in await kit.store.receive(mine, seconds=0.0, port=kit.port)]
        assert answers == [ChildDone("b", 1), ChildDone("d:1", 1), ChildDone("b", 2)]
        state = await kit.state("/t", SupervisorState)
        assert (state.job, state.waiting) == (None, [])
        assert {child.name: child.status for child in state.children} == dict.fromkeys(("a", "b", "d:1"), "running")


class Touchy(Actor[Count], kind="engine-test-touchy"):
    """Its class says five attempts."""

    @on
    def do(self, message: Do, ctx: Context) -> None:
        raise RuntimeError("crash")


async def test_a_child_may_have_fewer_attempts_than_its_class_says() -> None:
    tree = Supervisor("t", (Child(Touchy, "a", max_deliveries=2), Child(Touchy, "b")), backoff=None)
    async with TestKit(tree) as kit:
        for name in "ab":
            await do(kit, f"/t/{name}", "work")
        await kit.advance(seconds=2)
        rows = [await kit.row(f"/t/{name}") for name in "ab"]
        assert [row.incarnation for row in rows if row is not None] == [2, 1]
