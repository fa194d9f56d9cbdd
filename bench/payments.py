"""A payment provider in a file: what happened outside, whatever happens to our database and our processes.

It is another system than Callboard's: it survives the restarts of our PostgreSQL, and it knows nothing but keys. A key
pays once (as a provider's would); every attempt under one leaves a row. So both are found that must never be: an order
that was paid under two keys, and one that was never paid.
"""

import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from itertools import pairwise
from pathlib import Path

import msgspec

BUSY_SECONDS = 60.0
_TABLES = """
CREATE TABLE IF NOT EXISTS payment (key TEXT PRIMARY KEY, item TEXT NOT NULL, amount INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS attempt (key TEXT NOT NULL, item TEXT NOT NULL, pid INTEGER NOT NULL);
"""


class Books(msgspec.Struct, frozen=True):
    """What the ledger holds beside what it should."""

    expected: int
    paid: int
    twice: list[str]
    """Items that were paid under more than one key."""
    missing: list[str]
    foreign: list[str]
    """Paid, and nobody asked for it."""
    attempts: int
    repeated: int
    """Keys under which more than one attempt was made: calls that were interrupted, and made again."""

    @property
    def exact(self) -> bool:
        """Whether each item was paid exactly once and nothing else was."""
        return self.paid == self.expected and not (self.twice or self.missing or self.foreign)


class Payments:
    """The provider, for any number of processes at once."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def create(self) -> None:
        """Make the file."""
        with self._open() as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.executescript(_TABLES)

    def pay(self, item: str, amount: int, key: str) -> bool:
        """Pay for an item; whether this key had paid before, in which case nothing happens."""
        with self._open() as connection:
            connection.execute("INSERT INTO attempt (key, item, pid) VALUES (?, ?, ?)", (key, item, os.getpid()))
            connection.commit()
            done = connection.execute(
                "INSERT OR IGNORE INTO payment (key, item, amount) VALUES (?, ?, ?)", (key, item, amount)
            )
            connection.commit()
            return done.rowcount == 0

    def find(self, key: str) -> str | None:
        """What was paid for under a key."""
        with self._open() as connection:
            row = connection.execute("SELECT item FROM payment WHERE key = ?", (key,)).fetchone()
        return None if row is None else str(row[0])

    def books(self, expected: Iterable[str]) -> Books:
        """Hold the ledger against the items that were to be paid."""
        wanted = set(expected)
        with self._open() as connection:
            items = [str(row[0]) for row in connection.execute("SELECT item FROM payment ORDER BY item")]
            attempts = connection.execute("SELECT count(*) FROM attempt GROUP BY key").fetchall()
        found = set(items)
        return Books(
            expected=len(wanted),
            paid=len(items),
            twice=sorted({item for item, next_ in pairwise(items) if item == next_}),
            missing=sorted(wanted - found),
            foreign=sorted(found - wanted),
            attempts=sum(count for (count,) in attempts),
            repeated=sum(count > 1 for (count,) in attempts),
        )

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self.file, timeout=BUSY_SECONDS)) as connection:
            # Nothing is lost with a process; only a power cut would be, and that is not what is tried here.
            connection.execute("PRAGMA synchronous = OFF")
            yield connection
