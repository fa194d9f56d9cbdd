"""Runs by window, newest first: what lists of runs read, however many there are.

A place is a run's time of creation and its address. What is looked for (a status, who asked) is in no index, so a
search reads on until the window is full, and gives up after so many: it says where, and can go on from there.
"""

import msgspec

from ...mailbox.errors import UsageError
from ...persistence.rows import MessageView
from ...persistence.store import Store
from ...persistence.watching import Listed
from .lookup import BEGINNINGS, KIND, WAITING, run_id_of
from .views import RunLine, RunWindow, RunWish

RECORDED = "recorded"
"""What a list says of a run that no node has taken yet."""
PAGE = 500
"""Runs that are read in one go where something is looked for among them."""
MOST = 1_000
"""And never more."""
LOOKED_AT = 5_000
"""And in all, for one window."""

Place = tuple[float, str]


async def run_window(
    store: Store,
    wish: RunWish,
    *,
    after: str = "",
    before: str = "",
    last: bool = False,
    limit: int = 100,
    look_at: int = LOOKED_AT,
) -> RunWindow:
    """The newest runs that fit, those beyond the place `after` (older), those before `before`, or the oldest.

    Raises:
        UsageError: more than one place was given, one that is none, or no number of rows.
    """
    if sum((bool(after), bool(before), last)) > 1 or limit < 1:
        raise UsageError("a window begins after a place, before one, or is the last; and has a row at least")
    backward = bool(before) or last
    rows, more, reached = await _fitting(
        store, wish, _read_place(after), _read_place(before), last=last, limit=limit, look_at=look_at
    )
    lines, places = [line_of(row) for row in rows], [_written(row) for row in rows]
    first = not more if backward else not after
    if first and wish.status in ("", RECORDED):
        fresh = await recorded(store, wish)
        lines, places = [*fresh, *lines], [*("" for _ in fresh), *places]
    return RunWindow(lines, start=first, end=last if backward else not more, cursors=places, reached=reached)


async def _fitting(
    store: Store, wish: RunWish, after: Place | None, before: Place | None, *, last: bool, limit: int, look_at: int
) -> tuple[list[Listed], bool, str]:
    """Rows that fit, newest first; whether there are more in the direction of the search; where it gave up."""
    backward = before is not None or last
    page = min(MOST, limit + 1 if wish == RunWish() else max(PAGE, limit + 1))
    found: list[Listed] = []
    seen = 0
    while True:
        rows = await store.newest(kind=KIND, after=after, before=before, last=last, limit=page)
        for row in reversed(rows) if backward else rows:
            if not backward and 0 < row.created_at < wish.since:
                return found, False, ""  # a run begins no later than its row is made: all others are older
            if not wish.fits(line_of(row)):
                continue
            if len(found) == limit:
                return found[::-1] if backward else found, True, ""
            found.append(row)
        seen += len(rows)
        if len(rows) < page or seen >= look_at:
            break
        edge = rows[0 if backward else -1]
        after, before, last = (None, _place(edge), False) if backward else (_place(edge), None, False)
    gave_up = _written(rows[0 if backward else -1]) if len(rows) == page else ""
    return found[::-1] if backward else found, bool(gave_up), gave_up


async def recorded(store: Store, wish: RunWish) -> list[RunLine]:
    """Runs that no node has taken yet and that fit, newest first; so many are looked at."""
    waiting = [view for begin in BEGINNINGS for view in await store.waiting(begin, limit=WAITING)]
    fresh = {view.envelope.recipient: view for view in waiting}
    known = await store.glances(list(fresh)) if fresh else []
    begun = {glance.row.address for glance in known if glance.row.status is not None}
    lines = [_recorded(view) for address, view in fresh.items() if address not in begun]
    return sorted((line for line in lines if wish.fits(line)), key=lambda line: (-line.started_at, line.run_id))


def _recorded(view: MessageView) -> RunLine:
    """A run that no node has taken yet, as the message that starts it says."""
    from ...actors.agent.messages import ForkRun, StartChild, StartRun

    start, address = view.envelope.message(), view.envelope.recipient
    line = RunLine(run_id_of(address), address, RECORDED, "", started_at=view.sent_at)
    match start:
        case ForkRun():
            goal, origin = str(start.state.get("goal", "")), run_id_of(start.origin)
            return msgspec.structs.replace(line, goal=goal[:200], origin=origin, requested_by=start.requested_by)
        case StartChild(start=first) | (StartRun() as first):
            return msgspec.structs.replace(
                line, goal=first.goal[:200], requested_by=first.requested_by, agent=first.agent
            )
    return line


def line_of(row: Listed) -> RunLine:
    """A run as its actor's row summarises it; what stops the actor is more to the point than what the run was at."""
    summary = msgspec.json.decode(row.summary or "{}")
    stopped = row.status in ("failed", "parked", "paused", "escalated")
    return RunLine(
        run_id=run_id_of(row.address),
        address=row.address,
        status=str(row.status) if stopped else str(summary.get("status", "running")),
        goal=str(summary.get("goal", "")),
        step=int(summary.get("step", 0)),
        tokens=int(summary.get("tokens", 0)),
        cost_usd=str(summary.get("cost_usd", "0")),
        started_at=float(summary.get("started_at", 0.0)),
        waits_for=str(summary.get("waits_for", "")),
        origin=str(summary.get("origin", "")),
        requested_by=str(summary.get("requested_by", "")),
        agent=str(summary.get("agent", "")),
        detail=row.reason if stopped else str(summary.get("detail", "")),
    )


def _place(row: Listed) -> Place:
    return row.created_at, row.address


def _written(row: Listed) -> str:
    return f"{row.created_at!r} {row.address}"


def _read_place(cursor: str) -> Place | None:
    if not cursor:
        return None
    at, _, address = cursor.partition(" ")
    try:
        return float(at), address
    except ValueError:
        raise UsageError(f"expected the place of a run in a list, got {cursor[:80]!r}") from None
