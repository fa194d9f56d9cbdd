"""Work that needs no order, on several processors."""

import multiprocessing
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import TypeVar

A = TypeVar("A")
B = TypeVar("B")


def processors() -> int:
    """How many there are."""
    return os.cpu_count() or 1


def nobody() -> None:
    """Tell nobody how far the work has come."""


def side_by_side(
    function: Callable[[A], B], items: Iterable[A], processes: int, advance: Callable[[], None] = nobody
) -> list[B]:
    """`function` of each item, in order; in so many processes, or in this one for 1. What it raises is raised here.

    `advance` is called here after each item, in order.
    """
    given = list(items)
    if processes <= 1 or len(given) <= 1:
        return list(_counted(map(function, given), advance))
    # Not a fork: this process may have threads, whose locks a fork would inherit held.
    started = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(processes, len(given)), mp_context=started) as pool:
        return list(_counted(pool.map(function, given), advance))


def _counted(results: Iterable[B], advance: Callable[[], None]) -> Iterator[B]:
    for result in results:
        yield result
        advance()
