"""Many seeds, by several processes at once; what comes back is in the order of the seeds all the same.

A seed depends on nothing but itself, so who runs it does not matter. One run at a time in each process: `WORLD` is one.
"""

import multiprocessing
import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import msgspec

from .simulation import Outcome, simulate

CHUNK = 20
"""Seeds that a process takes at a time."""


class Chunk(msgspec.Struct):
    """Some seeds in a row, and what they cost."""

    outcomes: list[Outcome]
    cpu_seconds: float


class Controls(msgspec.Struct, frozen=True):
    """How all seeds of a series are run."""

    profile: str = ""
    trace: bool = False
    unfenced: bool = False
    split_acks: bool = False


def cores() -> int:
    """How many processes are worth having here."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_chunk(seeds: Sequence[int], controls: Controls) -> Chunk:
    """Run some seeds, here."""
    began, options = time.process_time(), msgspec.structs.asdict(controls)
    outcomes = [simulate(seed, **options) for seed in seeds]
    return Chunk(outcomes, time.process_time() - began)


def _begin() -> None:
    """First thing in a process that runs seeds."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # ctrl-C is for the parent: the others are ended by it
    os.nice(10)  # here a busy machine changes nothing; what runs beside it may wait for the clock on the wall


@contextmanager
def run_many(seeds: Sequence[int], controls: Controls | None = None, *, jobs: int = 1) -> Iterator[Iterator[Chunk]]:
    """Run seeds in `jobs` processes; the chunks come in order, and leaving the context ends what still runs."""
    controls = controls or Controls()
    chunks = [seeds[first : first + CHUNK] for first in range(0, len(seeds), CHUNK)]
    if jobs <= 1:
        yield (run_chunk(chunk, controls) for chunk in chunks)
        return
    # Not a fork: this process may have threads (pytest's helpers have), whose locks a fork would inherit held.
    with multiprocessing.get_context("spawn").Pool(jobs, _begin) as pool:
        yield pool.imap(partial(run_chunk, controls=controls), chunks)
