"""What a node's commits show, in the words of the recordings.

After each turn (`Pump.wants_unit`) the recorder notes what it meant: what the player wrote down, what its supervisor
put into its journal, and what became of the actor's row. It counts when the unit of that turn is committed: one order
for all actors of the node, and nothing in it that was undone.
"""

import re
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import msgspec

from callboard.actors.cell import Cell
from callboard.actors.node import Life, Node
from callboard.persistence.port import Port
from callboard.persistence.rows import ActorRow, EventRow
from callboard.persistence.store import NodeInfo, Session, Store
from callboard.persistence.unit import Unit

from .cases import Event
from .cast import Cast
from .diary import Diary
from .player import plain_crash

_REPORTS = {
    "sys.supervision.child_terminated": "child_terminated",
    "sys.supervision.start_error": "start_error",
    "sys.supervision.shutdown_error": "shutdown_error",
}
_GAVE_UP = "sys.supervision.gave_up"
ESCALATED = "escalated"
"""How our supervisor's end is called that OTP calls shutdown, when it gave up."""


class OpenTurns:
    """The turns of one actor in a unit that is not committed yet."""

    def __init__(self, unit: Unit, address: str) -> None:
        self.unit = unit
        self.address = address
        self.events: list[Event] = []
        self.read = 0
        """How many journal rows of the unit have been looked at."""


Standing = tuple[str, int]
"""(status, incarnation) of an actor."""
NOBODY: Standing = ("", 0)


class Recorder:
    """Watches one node of a case."""

    def __init__(self, cast: Cast, diary: Diary) -> None:
        self.cast = cast
        self.diary = diary
        self.events: list[Event] = []
        self.diary.at_once = self._at_once
        self.activity = 0
        """Grows with everything that happens."""
        self.node: Node | None = None
        self._open: dict[int, OpenTurns] = {}
        self._seen: dict[str, Standing] = {}
        self._kept: dict[str, Standing] = {}
        """As of the last commit."""
        self._gave_up: set[str] = set()
        """Addresses of supervisors that gave up, or ended because one below them did."""

    # --- hooks -------------------------------------------------------------------------------------------------

    @contextmanager
    def watching(self, store: Store) -> Iterator[None]:
        """Look at whoever joins this store, before its first turn."""
        join = store.join

        @asynccontextmanager
        async def joined(info: NodeInfo, port: Port) -> AsyncIterator[Session]:
            async with join(info, port) as session:
                self._watch_session(session)
                yield session

        store.join = joined  # type: ignore[method-assign]
        try:
            yield
        finally:
            store.join = join  # type: ignore[method-assign]

    def _watch_session(self, session: Session) -> None:
        commit, claim = session.commit, session.claim
        hooked = False

        async def claimed(shards: Sequence[int] | None = None) -> set[int]:
            # The first thing that a node does with its session; its cells exist by now, and are empty.
            nonlocal hooked
            if not hooked and self.node is not None and self.node.life is not None:
                hooked = True
                self._watch_turns(self.node.life)
            return await claim(shards)

        async def committed(units: Sequence[Unit]) -> Any:
            result = await commit(units)
            for index, unit in enumerate(units):
                self._landed(unit, taken=index not in result.rejected)
            return result

        session.commit = committed  # type: ignore[method-assign]
        session.claim = claimed  # type: ignore[method-assign]

    def _watch_turns(self, life: Life) -> None:
        wants_unit = life.pump.wants_unit

        def wanted(cell: Cell) -> None:
            self._turned(cell)
            wants_unit(cell)

        life.pump.wants_unit = wanted

    # --- turns -------------------------------------------------------------------------------------------------

    def _turned(self, cell: Cell) -> None:
        self.activity += 1
        unit = cell.unit
        if unit is None or not self._is_ours(cell.address):
            return
        turns = self._open.get(id(unit))
        if turns is None:
            turns = self._open[id(unit)] = OpenTurns(unit, cell.address)
        before = self._seen.get(cell.address, NOBODY)
        row = cell.row if cell.row is not None and cell.row.version else None
        now = before if row is None else (row.status, row.incarnation)
        reports = self._reports(turns)
        if cell.address in self.cast.supervisors:
            if row is not None:
                turns.events += self._of_supervisor(row, before, reports)
        else:
            notes = self.diary.take(cell.address)
            started = row is not None and row.status == "active"
            # A start that failed after all was none.
            turns.events += [note for note in notes if note[0] != "start" or started]
            if row is not None and before[0] == "active" and row.status != "active":
                turns.events.append(("exit", self.cast.id_of(row.address), row.incarnation, _end_of_child(row)))
        self._seen[cell.address] = now

    def _is_ours(self, address: str) -> bool:
        return f"{address}/".startswith(f"{self.cast.root}/")

    def _of_supervisor(self, row: ActorRow, before: Standing, reports: list[Event]) -> list[Event]:
        who, events = self.cast.id_of(row.address), list(reports)
        if row.status == "active" and (before[0] != "active" or row.incarnation != before[1]):
            events.insert(0, ("start", who, row.incarnation))
        elif before[0] == "active" and row.status != "active":
            reason = self._reason(row.address, _end_of_supervisor(row))
            events.append(("exit", who, row.incarnation, reason))
            if row.address == self.cast.root:
                events.append(("owner_notified", who, row.incarnation, reason))
        return events

    def _reports(self, turns: OpenTurns) -> list[Event]:
        rows = turns.unit.events[turns.read :]
        turns.read = len(turns.unit.events)
        return [event for row in rows if (event := self._report(row)) is not None]

    def _report(self, row: EventRow) -> Event | None:
        supervisor = self.cast.id_of(row.address)
        kind = row.type.partition("@")[0]
        if kind != _GAVE_UP and kind not in _REPORTS:
            return None
        body = msgspec.json.decode(row.body)
        child = body["child"] if body["child"].startswith("/") else f"{row.address}/{body['child']}"
        spec = self.cast.spec_id(child)
        escalated = child in self.cast.supervisors and body["reason"].startswith(ESCALATED)
        if kind in _REPORTS and escalated and not self.cast.comes_back(child):
            # A clean end in OTP, and of those there is no report; that it is told apart is all that differs.
            return None
        if kind == _GAVE_UP:
            self._gave_up.add(row.address)
            return ("report", supervisor, "shutdown", "reached_max_restart_intensity", spec)
        return ("report", supervisor, _REPORTS[kind], self._reason(child, plain_crash(body["reason"])), spec)

    def _reason(self, address: str, reason: str) -> str:
        """`escalated` is what OTP calls shutdown, but only where somebody gave up at or below this address."""
        if not reason.startswith(ESCALATED):
            return reason
        return "shutdown" if any(f"{known}/".startswith(f"{address}/") for known in self._gave_up) else reason

    def _at_once(self, address: str, event: Event) -> None:
        """Not before what the same actor did before it."""
        before = next((turns for turns in self._open.values() if turns.address == address), None)
        (self.events if before is None else before.events).append(event)

    # --- commits -----------------------------------------------------------------------------------------------

    def _landed(self, unit: Unit, *, taken: bool) -> None:
        self.activity += 1
        turns = self._open.pop(id(unit), None)
        if turns is None:
            return
        if taken:
            self.events += turns.events
            if unit.actor is not None:
                self._kept[turns.address] = (unit.actor.status, unit.actor.incarnation)
        else:
            self._seen[turns.address] = self._kept.get(turns.address, NOBODY)


def _end_of_child(row: ActorRow) -> str:
    if _was_killed(row):
        return "killed"
    match row.status:
        case "completed":
            return row.reason or "normal"
        case "stopped":
            return row.reason or "shutdown"
        case "paused":
            return "shutdown"
        case _:
            return plain_crash(row.reason)


def _end_of_supervisor(row: ActorRow) -> str:
    if _was_killed(row):
        return "killed"
    return "shutdown" if row.status == "paused" else plain_crash(row.reason)


def _was_killed(row: ActorRow) -> bool:
    """`killed`, or that and by whom."""
    return re.match(r"killed\b(?!\()", row.reason) is not None
