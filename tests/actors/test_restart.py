"""What follows a child's failure, as a pure function."""

import pytest

from callboard.actors.restart import ChildState, ChildStatus, Plan, plan_restart, restarts, within_window
from callboard.actors.spec import Restart, Strategy


def children(**status: ChildStatus) -> list[ChildState]:
    return [ChildState(name, of) for name, of in status.items()]


@pytest.mark.parametrize(
    ("kind", "after_crash", "after_end"),
    [("permanent", True, True), ("transient", True, False), ("temporary", False, False)],
)
def test_the_restart_kind_and_the_reason_decide(kind: Restart, after_crash: bool, after_end: bool) -> None:
    assert restarts(kind, abnormal=True) is after_crash
    assert restarts(kind, abnormal=False) is after_end


@pytest.mark.parametrize(
    ("strategy", "plan"),
    [
        ("one_for_one", Plan((), ("b",))),
        ("one_for_all", Plan(("d", "c", "a"), ("a", "b", "c", "d"))),
        ("rest_for_one", Plan(("d", "c"), ("b", "c", "d"))),
    ],
)
def test_the_strategy_says_who_goes_with_it(strategy: Strategy, plan: Plan) -> None:
    group = children(a="running", b="restarting", c="running", d="running")
    assert plan_restart(strategy, group, "b") == plan


@pytest.mark.parametrize("strategy", ["one_for_all", "rest_for_one"])
@pytest.mark.parametrize("status", ["ended", "paused"])
def test_a_finished_sibling_stays_as_it_is(strategy: Strategy, status: ChildStatus) -> None:
    group = children(a="restarting", b=status, c="running")
    assert plan_restart(strategy, group, "a") == Plan(("c",), ("a", "c"))


def test_a_sibling_that_is_down_is_started_without_being_stopped() -> None:
    group = children(a="restarting", b="waiting", c="ignored", d="starting", e="stopping")
    assert plan_restart("one_for_all", group, "a") == Plan(("e", "d"), ("a", "b", "c", "d", "e"))


def test_a_temporary_sibling_is_stopped_and_not_started() -> None:
    group = children(a="restarting", b="running", c="running")
    assert plan_restart("one_for_all", group, "a", {"b"}) == Plan(("c", "b"), ("a", "c"))


def test_the_window_slides_truly() -> None:
    assert within_window([0.0, 1.0, 1.7], 1.7, 1.0) == [1.0, 1.7]
    assert within_window([0.0, 0.9], 1.0, 1.0) == [0.0, 0.9], "what is exactly as old as the window still counts"
    assert within_window([0.0, 0.9], 1.000001, 1.0) == [0.9]
    assert within_window([], 5.0, 1.0) == []
