"""The benches by name: what each is about, how much `--quick` does, and how often `all` repeats it."""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final


@dataclass(frozen=True)
class Bench:
    """One module of this folder with `Sizes` and `run(dsn, sizes)`."""

    about: str
    quick: Mapping[str, Any] = field(default_factory=dict)
    """Fields of its `Sizes` that make it short."""
    full: tuple[str, ...] = ()
    """Options with which `all` runs it."""
    rounds: int = 1
    """How often `all` runs it, where there is time; more than once only what is short and does not repeat itself."""


CATALOGUE: Final[dict[str, Bench]] = {
    "steps": Bench(
        "what a step of an agent costs, alone, with many at once, and in a long run",
        {"runs": 100, "runs_alone": 10, "growth_steps": 0},
        ("--no-growth",),  # there is a bench of its own
        rounds=3,
    ),
    "messages": Bench(
        "messages a second on one node, and how long one takes",
        {"ring_messages": 15_000, "drain_messages": 5_000, "asks": 30},
        rounds=3,
    ),
    "latency": Bench("from the send to the handler at low load, counted in commits of one row", {"asks": 60}, rounds=3),
    "fan": Bench("a thousand senders to one actor, and one actor to a thousand", {"each": 5}, rounds=3),
    "state": Bench(
        "snapshots and transcripts of 50 kB, against small ones", {"turns": 400, "runs": 10, "at_once": 5}, rounds=3
    ),
    "growth": Bench(
        "ms, CPU, rows and WAL of the steps 10, 100 and 1,000 of one run", {"places": (10, 100, 300), "runs": 1}
    ),
    "nodes": Bench("one, two and four node processes on one database", {"seconds": 2.0}),
    "recovery": Bench(
        "from kill -9 of a node to its successor's first commit; and from SIGSTOP", {"kills": 5, "freezes": 1}
    ),
    "deep": Bench(
        "a million messages that wait: draining, memory, and who gets through",
        {"waiting": (10_000, 100_000), "drained": 10_000, "urgent": 10},
    ),
    "wake": Bench(
        "what actors cost that only wait, a million of them, and how long one takes to wake",
        {"parked": (1_000, 50_000), "idle_seconds": 2.0, "wakes": 50},
    ),
    "servers": Bench("the steps on an embedded server and on the one of --dsn, in turn", {"rounds": 1, "runs": 50}),
    "start": Bench("what starting a command costs: the CPU of a process of its own", {"times": 1}),
    "tui": Bench(
        "the terminal UI on a busy site: its CPU, its memory, and how long a key takes to be seen",
        {
            "actors": 1_000,
            "seconds": 5.0,
            "warm_seconds": 1.0,
            "lines_rows": (1_000,),
            "datatable_rows": (1_000,),
            "opened_rows": (1_000,),
            "opened_times": 1,
        },
        ("--seconds", "30"),
    ),
}


def sizes_of(name: str, *, quick: bool = False, **more: Any) -> Any:
    """The `Sizes` of a bench: as it has them, or short ones, with some set otherwise."""
    chosen = CATALOGUE[name].quick if quick else {}
    return _module(name).Sizes(**{**chosen, **more})


def run(name: str, dsn: str, sizes: Any) -> Any:
    """Run one; its report."""
    return _module(name).run(dsn, sizes)


def _module(name: str) -> Any:
    return importlib.import_module(f"callboard.bench.{name}")
