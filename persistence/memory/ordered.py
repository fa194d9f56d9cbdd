"""Keys in order, mostly added at the end and taken from the front, as mailboxes are.

A sorted list with a moving start: both usual cases cost O(1), any other place O(log n) plus a short memory move.
Invariant: `_keys[_start:]` ascends and has no key twice; what lies before `_start` is dead.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from typing import Generic, TypeVar

K = TypeVar("K", str, tuple[int, int], tuple[float, str, str])

_COMPACT_AT = 64


class Ordered(Generic[K]):
    """A sorted set. Not to be changed while it is iterated."""

    __slots__ = ("_keys", "_start")

    def __init__(self) -> None:
        self._keys: list[K] = []
        self._start = 0

    def __len__(self) -> int:
        return len(self._keys) - self._start

    def add(self, key: K) -> None:
        """Put a key in, which must not be there yet."""
        keys = self._keys
        if not keys or key > keys[-1]:
            keys.append(key)
        else:
            insort(keys, key, lo=self._start)

    def remove(self, key: K) -> None:
        """Take a key out, which must be there."""
        keys = self._keys
        index = bisect_left(keys, key, lo=self._start)
        if index != self._start:
            del keys[index]
            return
        self._start += 1
        if self._start >= _COMPACT_AT and self._start * 2 >= len(keys):
            del keys[: self._start]
            self._start = 0

    def first(self, count: int) -> list[K]:
        """The `count` lowest keys."""
        return self._keys[self._start : self._start + count]

    def after(self, key: K) -> Iterator[K]:
        """The keys above `key`, upwards."""
        keys = self._keys
        for index in range(bisect_right(keys, key, lo=self._start), len(keys)):
            yield keys[index]

    def __iter__(self) -> Iterator[K]:
        for index in range(self._start, len(self._keys)):
            yield self._keys[index]
