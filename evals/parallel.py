"""Work that needs no order, on several processors."""

import multiprocessing
import os
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from typing import TypeVar

A = TypeVar("A")
B = TypeVar("B")


def processors() -> int:
    """How many there are."""
    return os.cpu_count() or 1


def side_by_side(function: Callable[[A], B], items: Iterable[A], processes: int) -> list[B]:
    """`function` of each item, in order; in so many processes, or in this one for 1. What it raises is raised here."""
    given = list(items)
    if processes <= 1 or len(given) <= 1:
        return [function(item) for item in given]
    # Not a fork: this process may have threads, whose locks a fork would inherit held.
    started = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(processes, len(given)), mp_context=started) as pool:
        return list(pool.map(function, given))
