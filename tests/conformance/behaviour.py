"""What a recorded child does when it starts, runs and is asked to stop: its `script` and what its spec says of it."""

from dataclasses import dataclass
from typing import Any

CLEAN = ("normal", "shutdown")
INFINITY = float("inf")


def is_clean(reason: str) -> bool:
    """Whether OTP calls this exit reason clean; `killed` is not."""
    return reason in CLEAN or reason.startswith("shutdown(")


@dataclass(frozen=True)
class Behaviour:
    """A script, read. Times in milliseconds."""

    fails_on: Any = ()
    ignored_on: Any = ()
    start_takes: float = 0.0
    cleanup_takes: float = 0.0
    cleanup_exits_with: str = ""
    crashes_after: float | None = None
    crash_reason: str = ""
    traps: bool = True

    def fails(self, incarnation: int) -> bool:
        return _among(incarnation, self.fails_on)

    def ignored(self, incarnation: int) -> bool:
        return _among(incarnation, self.ignored_on)

    def longest(self) -> float:
        """How much of a case's time this child may need at once."""
        return max(self.start_takes, self.cleanup_takes, self.crashes_after or 0.0)


def _among(incarnation: int, which: Any) -> bool:
    if isinstance(which, dict):
        return incarnation >= int(which["from"])
    return incarnation in which


def behaviour_of(spec: dict[str, Any]) -> Behaviour:
    """Of a recorded worker's spec."""
    script = spec.get("script") or {}
    crash = script.get("crashes_after_start")
    return Behaviour(
        fails_on=script.get("start_fails_on_incarnations", ()),
        ignored_on=script.get("start_ignored_on_incarnations", ()),
        start_takes=float(script.get("start_takes_ms", 0)),
        cleanup_takes=float(script.get("cleanup_takes_ms", 0)),
        cleanup_exits_with=str(script.get("cleanup_exits_with", "")),
        crashes_after=None if crash is None else float(crash.get("ms", 0)),
        crash_reason="" if crash is None else str(crash.get("reason", "crash")),
        traps=bool(script.get("traps_stop", True)),
    )


def shutdown_ms(spec: dict[str, Any]) -> float:
    """How long a child has for its clean-up; 0 for brutal_kill."""
    value = spec.get("shutdown", INFINITY if spec["kind"] == "supervisor" else 5000)
    if value == "brutal_kill":
        return 0.0
    return INFINITY if value == "infinity" else float(value)


def invalid(supervisor: dict[str, Any]) -> str:
    """What OTP and we refuse in a supervisor's child specs, as the recordings say it; "" where nothing."""
    for child in supervisor.get("children", ()):
        if child.get("significant"):
            if child.get("restart", "permanent") == "permanent":
                return "invalid_spec(restart=permanent,significant=true)"
            if supervisor.get("auto_shutdown", "never") == "never":
                return "invalid_spec(auto_shutdown=never,significant=true)"
    return ""
