"""What follows the end of a child, as clauses: pure functions of the strategy, the restart kinds and who runs.

The rules are OTP's (`supervisor.erl`), with the deviations that durability asks for: a sibling that has finished or was
stopped by an operator stays as it is through a group restart.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Literal, assert_never

import msgspec

from .spec import AutoShutdown, Restart, Strategy

ChildStatus = Literal[
    "waiting", "starting", "running", "stopping", "stopped", "restarting", "ended", "ignored", "paused"
]
"""waiting: to be started with the others. restarting: down, and started again when its time comes. stopped: by its
supervisor, as all others. ended: finished by itself. ignored: declined its start. paused: stopped by an operator."""

UP: frozenset[ChildStatus] = frozenset({"starting", "running", "stopping"})
STAYS_DOWN: frozenset[ChildStatus] = frozenset({"ended", "paused"})
"""No group restart touches these."""

ReplyTo = tuple[str, int]
NOBODY: ReplyTo = ("", 0)


class ChildState(msgspec.Struct):
    """A supervisor's knowledge of one child."""

    name: str
    """`name`, or `name:key` of a template's instance (the last segment of its address)."""
    status: ChildStatus = "waiting"
    incarnation: int = 0
    """The one that was last told to start; 0 where that was left to the child."""
    failures: int = 0
    """How often in a row it went down without having been healthy for a while: what its back-off grows with."""
    started_at: float = 0.0
    after: str = ""
    """While it stops: its status when it has; "removed" for none. While it starts on demand: its former status."""
    up: bool = False
    """Whether this incarnation's start has succeeded."""
    killed: bool = False
    """Whether it was out of time, and killed."""
    asked: list[ReplyTo] = []
    """Who waits for it to be down."""


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
    stops = [child.name for child in reversed(group) if child.name != failed and child.status in UP]
    starts = [
        child.name
        for child in group
        if child.name == failed or (child.status not in STAYS_DOWN and child.name not in temporary)
    ]
    return Plan(tuple(stops), tuple(starts))


def within_window(times: Sequence[float], now: float, seconds: float) -> list[float]:
    """The restarts that still count at `now`: those at most `seconds` old. A true sliding window."""
    return [at for at in times if now - at <= seconds]


def shuts_down(auto: AutoShutdown, others: Iterable[ChildState]) -> bool:
    """Whether the end of a significant child ends its supervisor; `others` are the other significant ones."""
    match auto:
        case "never":
            return False
        case "any_significant":
            return True
        case "all_significant":
            return not any(child.status in UP or child.status in ("restarting", "waiting") for child in others)
        case _:
            assert_never(auto)
