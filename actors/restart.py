"""What a supervisor does when a child fails, as clauses: a pure function of the strategy and who runs.

The rules are OTP's (`supervisor.erl`), with the deviations that durability asks for: a sibling that has finished or was
paused stays as it is through a group restart, and a supervisor that gives up ends abnormally (`escalated`).
"""

from collections.abc import Collection, Sequence
from typing import Literal, assert_never

import msgspec

from .spec import Restart, Strategy

ChildStatus = Literal["waiting", "starting", "running", "stopping", "stopped", "failed", "ended"]
"""waiting: to be started. ended: finished by itself. stopped: by its supervisor, and not to be started in a group."""


class ChildState(msgspec.Struct):
    """A supervisor's knowledge of one child."""

    name: str
    status: ChildStatus = "waiting"
    incarnation: int = 0


class Plan(msgspec.Struct, frozen=True):
    """What to do, strictly one after the other: stop these in this order, then start those in that order."""

    stops: tuple[str, ...] = ()
    starts: tuple[str, ...] = ()


def restarts(kind: Restart, *, abnormal: bool) -> bool:
    """Whether a child with this restart kind is restarted after such an end."""
    match kind:
        case "permanent":
            return True
        case "transient":
            return abnormal
        case "temporary":
            return False
        case _:
            assert_never(kind)


def plan_restart(
    strategy: Strategy, children: Sequence[ChildState], failed: str, temporary: Collection[str] = ()
) -> Plan:
    """The stops and starts that follow the failure of `failed` (which is down already).

    The `temporary` ones of a group are stopped with it and never started again.
    """
    names = [child.name for child in children]
    index = names.index(failed)
    match strategy:
        case "one_for_one":
            group: Sequence[ChildState] = [children[index]]
        case "one_for_all":
            group = children
        case "rest_for_one":
            group = children[index:]
        case _:
            assert_never(strategy)
    up = {"starting", "running", "stopping"}
    stops = [child.name for child in reversed(group) if child.name != failed and child.status in up]
    down = ("ended", "stopped")
    starts = [
        child.name
        for child in group
        if child.name == failed or (child.status not in down and child.name not in temporary)
    ]
    return Plan(tuple(stops), tuple(starts))


def within_window(times: Sequence[float], now: float, seconds: float) -> list[float]:
    """The restarts that still count at `now`: a true sliding window."""
    return [at for at in times if now - at < seconds]
