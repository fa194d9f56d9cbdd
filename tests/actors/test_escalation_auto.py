"""Supervisors that end because their work is done, that collapse, or that could not start; and who hears of it."""

import pytest

from callboard.actors.spec import AutoShutdown, Child, InvalidSpec, Restart, Supervisor
from callboard.actors.system import Cancel, Resume, TerminateChild
from callboard.actors.testing import TestKit
from callboard.mailbox.errors import UsageError
from tests.actors.family import Kid, Trace, asked, do, group, history, send_system, status

pytestmark = pytest.mark.anyio


def kid(trace: Trace, name: str, restart: Restart = "permanent", *, significant: bool = False) -> Child:
    return Child(Kid, name, restart=restart, significant=significant, args=(trace,))


def working(trace: Trace, auto: AutoShutdown, **kinds: Restart) -> Supervisor:
    kids = tuple(kid(trace, name, kind, significant=True) for name, kind in kinds.items())
    return Supervisor("t", (kid(trace, "z"), *kids), auto_shutdown=auto, backoff=None)


# --- auto_shutdown ---------------------------------------------------------------------------------------------------


async def test_the_end_of_any_significant_child_ends_its_supervisor() -> None:
    trace = Trace()
    async with TestKit(working(trace, "any_significant", a="transient", b="temporary")) as kit:
        trace.take()
        await do(kit, "/t/a", "end")
        assert trace.take() == ["stop b", "stop z"]
        assert await status(kit, "/t") == "stopped"


async def test_all_significant_waits_for_the_last_one() -> None:
    trace = Trace()
    async with TestKit(working(trace, "all_significant", a="transient", b="temporary", c="transient")) as kit:
        await do(kit, "/t/a", "end")
        await do(kit, "/t/b", "crash")
        assert await status(kit, "/t") == "active"
        await do(kit, "/t/c", "end")
        assert await status(kit, "/t") == "stopped"


async def test_a_significant_child_that_is_restarted_stopped_or_cancelled_by_a_person_ends_nothing() -> None:
    trace = Trace()
    tree = working(trace, "any_significant", a="transient", b="transient", c="transient")
    async with TestKit(tree) as kit:
        await do(kit, "/t/a", "crash")
        assert await asked(kit, "/t", TerminateChild("b")) == "ok"
        await send_system(kit, "/t/c", Cancel("jo"))
        assert await status(kit, "/t") == "active"
        assert await status(kit, "/t/c") == "cancelled"


async def test_a_permanent_supervisor_whose_work_is_done_begins_it_anew() -> None:
    """AUT-08: what had finished is started again, unlike in a group restart."""
    trace = Trace()
    mid = Supervisor("mid", (kid(trace, "x", "transient", significant=True),), auto_shutdown="any_significant")
    async with TestKit(Supervisor("t", (mid,), max_restarts=1, backoff=None)) as kit:
        trace.take()
        await do(kit, "/t/mid/x", "end")
        assert trace.take() == ["start x 2"]
        await do(kit, "/t/mid/x", "end")
        assert await status(kit, "/t") == "parked", "and that counts"


async def test_a_significant_supervisor_that_collapses_takes_its_parent_down_as_escalated() -> None:
    """AUT-12: OTP calls that a clean end."""
    trace = Trace()
    mid = Supervisor("mid", (kid(trace, "x"),), max_restarts=0, restart="transient", significant=True)
    async with TestKit(Supervisor("t", (kid(trace, "a"), mid), auto_shutdown="any_significant")) as kit:
        trace.take()
        await do(kit, "/t/mid/x", "crash")
        row = await kit.row("/t")
        assert row is not None and row.status == "parked"
        assert row.reason == "escalated: mid: more than 0 restarts in 60 s; x: RuntimeError: crash"
        assert trace.take() == ["stop a"]


async def test_a_transient_supervisor_that_collapses_is_restarted() -> None:
    """ESC-03: in OTP it vanishes, as its reason is clean."""
    trace = Trace()
    mid = Supervisor("mid", (kid(trace, "x"),), max_restarts=0, restart="transient")
    async with TestKit(Supervisor("t", (mid,), max_restarts=1, backoff=None)) as kit:
        trace.take()
        await do(kit, "/t/mid/x", "crash")
        assert trace.take() == ["start x 2"]
        await do(kit, "/t/mid/x", "crash")
        assert await status(kit, "/t") == "parked"


async def test_a_permanent_child_that_a_person_has_cancelled_is_not_started_again() -> None:
    trace = Trace()
    async with TestKit(group(trace, "one_for_all")) as kit:
        await send_system(kit, "/t/b", Cancel("jo", "enough"))
        trace.take()
        await do(kit, "/t/a", "crash")
        assert trace.take() == ["stop c", "start a 2", "start c 2"]
        assert await status(kit, "/t/b") == "cancelled"


# --- specs that contradict themselves --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("restart", "auto", "result"),
    [
        ("permanent", "any_significant", "invalid_spec(restart=permanent,significant=true)"),
        ("transient", "never", "invalid_spec(auto_shutdown=never,significant=true)"),
    ],
)
def test_a_significant_child_that_could_never_count_is_refused(
    restart: Restart, auto: AutoShutdown, result: str
) -> None:
    trace = Trace()
    for child in (kid(trace, "b", restart, significant=True), Supervisor("b", restart=restart, significant=True)):
        with pytest.raises(InvalidSpec, match="'b' of 't'") as caught:
            Supervisor("t", (child,), auto_shutdown=auto)
        assert caught.value.result == result


@pytest.mark.parametrize("wrong", [{"dynamic": True, "pool": True}, {"max_deliveries": 0}, {"shutdown_seconds": -1.0}])
def test_what_makes_no_sense_in_a_child_spec_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(UsageError, match="child 'a'"):
        Child(Kid, "a", **wrong)  # type: ignore[arg-type]


# --- starts that fail ------------------------------------------------------------------------------------------------


async def test_a_start_failure_nests_upward_and_all_that_ran_is_stopped_in_reverse() -> None:
    """ORD-04."""
    trace = Trace()
    trace.failing["y"] = 1
    mid = Supervisor("mid", (kid(trace, "x"), kid(trace, "y")))
    async with TestKit(Supervisor("t", (kid(trace, "a"), mid, kid(trace, "c")))) as kit:
        assert trace.take() == ["start a 1", "start x 1", "fail y", "stop x", "stop a"]
        row = await kit.row("/t")
        assert row is not None and row.status == "parked"
        assert row.reason == "failed_to_start(mid,failed_to_start(y,RuntimeError: start failed))"
        assert await history(kit, "/t/mid", "start_error", "ended") == [
            "start_error y RuntimeError: start failed", "ended failed_to_start(y,RuntimeError: start failed)",
        ]  # fmt: skip
        await send_system(kit, "/t", Resume("jo"))
        assert trace.take() == ["start a 2", "start x 2", "start y 2", "start c 1"]


async def test_a_restart_whose_grandchild_cannot_start_counts_at_the_top_only() -> None:
    """ESC-10."""
    trace = Trace()
    mid = Supervisor("mid", (kid(trace, "x"), kid(trace, "y")), max_restarts=0)
    async with TestKit(Supervisor("t", (mid,), max_restarts=2, backoff=None)) as kit:
        trace.take()
        trace.failing["y"] = 99
        await do(kit, "/t/mid/x", "crash")
        assert trace.take() == ["stop y", "start x 2", "fail y", "stop x", "start x 3", "fail y", "stop x"]
        assert await history(kit, "/t", "gave_up") == ["gave_up mid reached_max_restart_intensity"]


async def test_the_history_of_a_supervisor_is_in_its_journal_in_order() -> None:
    trace = Trace()
    async with TestKit(group(trace, names="ab", max_restarts=1)) as kit:
        await do(kit, "/t/a", "crash")
        trace.failing["b"] = 1
        await do(kit, "/t/b", "crash")
        assert await history(kit, "/t") == [
            "child_started a", "child_started b", "started",
            "child_terminated a RuntimeError: crash", "child_started a",
            "child_terminated b RuntimeError: crash", "gave_up b reached_max_restart_intensity",
            "child_stopped a shutdown",
            "ended escalated: more than 1 restarts in 60 s; b: RuntimeError: crash",
        ]  # fmt: skip
