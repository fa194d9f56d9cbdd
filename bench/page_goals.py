"""What is aimed at on two cores with one node and fsync on, and what the kept reports have of it."""

from collections.abc import Callable, Iterator
from typing import Any

from callboard.bench.page_tables import Documents, number, table

STEP_MS = 0.5
PEER_TIMES = 5.0
FRAMEWORK_TIMES = 10.0
MESSAGES_A_SECOND = 20_000
COMMITS = 2.0
GROWTH_TIMES = 1.1
RECOVERY_P50_MS = 50.0
RECOVERY_P99_MS = 250.0
WAKE_P99_MS = 50.0
NODE_GROWTH_MIB = 16.0
"""What a node's memory may differ by between a thousand parked runs and a million, and still be called flat."""

Goal = tuple[str, str, bool]
"""What is aimed at, what was measured, and whether that reaches it."""


def goals(found: Documents) -> str:
    """One row a goal; of a report that is not kept, none."""
    rows = [(text, measured, "yes" if reached else "**no**") for text, measured, reached in judged(found)]
    return table(("goal", "measured", "reached"), rows)


def judged(found: Documents) -> Iterator[Goal]:
    """Each goal that can be judged."""
    for name, judge in _JUDGES:
        if name in found:
            yield from judge(found[name])


def _peers(report: dict[str, Any]) -> Iterator[Goal]:
    busy = max((one["at_once"] for one in report["figures"] if one["work"] == "step"), default=0)
    ours = next((one for one in report["figures"] if (one["name"], one["at_once"]) == ("callboard", busy)), None)
    if ours is None or ours["cpu_us"] is None:
        return
    cpu = ours["cpu_us"] / 1e3
    yield f"CPU of a step, {busy} runs at once: at most {STEP_MS} ms", f"{number(cpu)} ms", cpu <= STEP_MS
    ratios = {
        one["name"]: one["cpu"]
        for one in report["ratios"]
        if one["work"] == "step" and one["at_once"] == busy and one["cpu"] is not None
    }
    if ratios:
        best = min(ratios, key=lambda name: ratios[name])
        text = f"CPU of a step against the best durable peer: at least {PEER_TIMES:g} × less"
        yield text, f"{number(ratios[best])} × ({best})", ratios[best] >= PEER_TIMES
    for name in ("dbos", "langgraph"):
        # Both have two settings here: the better one counts.
        mine = {key: ratio for key, ratio in ratios.items() if key.startswith(name)}
        if mine:
            key = min(mine, key=lambda one: mine[one])
            text = f"CPU of a step against {name}: at least {FRAMEWORK_TIMES:g} × less"
            yield text, f"{number(mine[key])} × ({key})", mine[key] >= FRAMEWORK_TIMES


def _messages(report: dict[str, Any]) -> Iterator[Goal]:
    rate = report["ring"]["message"]["per_second"]
    text = f"messages a second through one node, state and sends included: at least {MESSAGES_A_SECOND:,}"
    yield text, number(rate), rate >= MESSAGES_A_SECOND


def _latency(report: dict[str, Any]) -> Iterator[Goal]:
    commits = report["handled_commits"]
    yield f"sent until handled, p50: at most {COMMITS:g} commits", number(commits), commits <= COMMITS


def _growth(report: dict[str, Any]) -> Iterator[Goal]:
    ratio = report["cpu_ratio"]
    if ratio is not None:
        first, last = report["places"][0]["step"], report["places"][-1]["step"]
        text = f"CPU of step {last:,} against step {first}: at most {GROWTH_TIMES} times"
        yield text, number(ratio), ratio <= GROWTH_TIMES


def _recovery(report: dict[str, Any]) -> Iterator[Goal]:
    it = report["killed"]["latency"]
    for part, most in (("p50", RECOVERY_P50_MS), ("p99", RECOVERY_P99_MS)):
        found = it[f"{part}_ms"]
        yield f"from kill -9 to the new owner's first commit, {part}: at most {most:g} ms", number(found), found <= most


def _wake(report: dict[str, Any]) -> Iterator[Goal]:
    least, most = report["parked"][0], report["parked"][-1]
    more = most["node_memory_mib"] - least["node_memory_mib"]
    text = f"memory of a node with {most['actors']:,} parked above that with {least['actors']:,}: flat"
    yield text, f"{number(more)} MiB", more <= NODE_GROWTH_MIB
    p99 = most["wake"]["p99_ms"]
    yield f"one of {most['actors']:,} wakes, p99: at most {WAKE_P99_MS:g} ms", number(p99), p99 <= WAKE_P99_MS


_JUDGES: tuple[tuple[str, Callable[[dict[str, Any]], Iterator[Goal]]], ...] = (
    ("peers", _peers),
    ("messages", _messages),
    ("latency", _latency),
    ("growth", _growth),
    ("recovery", _recovery),
    ("wake", _wake),
)
