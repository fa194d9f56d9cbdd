"""A store that knows its commits by what is in them, and ends the process at one of them.

Over PostgreSQL the order of commits, and which turns share one, is the machine's business: the fifth commit of one run
need not be that of another. But the same messages are handled in both. So a commit has a mark for each message whose
handling it records, for each effect that it says is about to begin, and for what comes from outside; a mark is a name
and how often that name was there before. Dying at each mark in turn is dying at every commit.
"""

import os
import signal
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from callboard.evals.retail_kills import Side
from callboard.persistence.postgres.witnessed import WitnessedStore, Written
from callboard.persistence.unit import Unit


class Marks:
    """The marks of a process's commits, in their order; it dies at the commit that has `doom`."""

    def __init__(self, doom: str = "", side: Side = "before") -> None:
        self._doom, self._side = doom, side
        self._counts: Counter[str] = Counter()
        self.seen: list[str] = []

    @asynccontextmanager
    async def around(self, names: Iterable[str]) -> AsyncIterator[None]:
        """One commit, with what is in it."""
        doomed = self._doom in self._numbered(names)
        if doomed and self._side == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        yield
        if doomed:
            os.kill(os.getpid(), signal.SIGKILL)

    def _numbered(self, names: Iterable[str]) -> list[str]:
        made = []
        for name in names:
            self._counts[name] += 1
            made.append(f"{name} #{self._counts[name]}")
        self.seen += made
        return made


def marked_store(dsn: str, play: str, marks: Marks) -> WitnessedStore:
    """A store all of whose commits of messages, turns and decisions pass by their marks. `play`: the name of the run,
    which is left out of them, so that another play of the task has the same."""

    def around(what: Written, units: Sequence[Unit]) -> AbstractAsyncContextManager[None]:
        match what:
            case "turns":
                return marks.around(_names(units, play))
            case "sent":
                return marks.around(["sent from outside"])
            case "decided":
                return marks.around(["decided"])

    return WitnessedStore(dsn, around)


def _names(units: Sequence[Unit], play: str) -> list[str]:
    handled = [
        f"{turn.recipient.replace(play, '*')} {turn.type} {turn.outcome}" for unit in units for turn in unit.turns
    ]
    return [*handled, *("about to begin" for unit in units for retry in unit.retries if retry.started)]
