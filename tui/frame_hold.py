"""The hold line: what was approved and can still be taken back, counting down by the store's clock.

It is read from the store at each beat and never kept here only, so that a hold made in another terminal, by a command,
or before this program was killed, is shown all the same. `u` takes back the one that is shown: the newest of one's own,
or, where there is none, the one of somebody else that goes first (that asks once more).
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from callboard.service.operations.views import ApprovalView

from .text import Line, Piece, cells, cut, money, piece
from .times import span

if TYPE_CHECKING:
    from .dialog import TypedWord

METER_CELLS = 15
KEPT = 200


def sums_text(view: ApprovalView) -> str:
    """The sums of a call with their currencies, as they are typed to approve it; "" where it moves no money."""
    return " + ".join(money(one.value, one.currency) for one in view.money)


def take_back_dialog(view: ApprovalView, what: str) -> "TypedWord":
    """Ask whether somebody else's approval of this shall be taken back, and why."""
    from .dialog import TypedWord

    return TypedWord(
        f"Take back what {view.decided_by} approved · {what}",
        [("then", "it waits for a decision again, with nobody's approval; no call is made")],
        word="take back",
        verb="takes it back",
        reason="reason",
    )


class Holds:
    """Approvals in their release hold, as of the last look."""

    def __init__(self, me: str) -> None:
        self._me = me
        self._views: dict[str, ApprovalView] = {}
        self._known: dict[str, ApprovalView] = {}
        """Those too that were let go meanwhile, for a while."""
        self.shown = ""
        """Id of the one that is on the screen."""

    def look(self, approved: Sequence[ApprovalView]) -> None:
        """What the store says now, in the place of what was known."""
        self._views = {view.id: view for view in approved if view.release_at}
        self._known = dict(list({**self._known, **self._views}.items())[-KEPT:])

    def add(self, view: ApprovalView) -> None:
        """One that was just approved here; the next look confirms it."""
        if view.status == "approved" and view.release_at:
            self._views[view.id] = self._known[view.id] = view

    def drop(self, id: str) -> None:
        """One that was taken back here."""
        self._views.pop(id, None)
        self._known.pop(id, None)

    def at(self, now: float) -> list[ApprovalView]:
        """Those that can be taken back now, the one that is shown first."""
        held = [view for view in self._views.values() if view.release_at > now]
        mine = sorted((view for view in held if self.is_mine(view)), key=lambda view: -view.decided_at)
        return mine + sorted((view for view in held if not self.is_mine(view)), key=lambda view: view.release_at)

    def wanted(self, now: float) -> ApprovalView | None:
        """The one that is on the screen, if it can still be taken back: whoever presses a key in the moment in which it
        is let go does not mean the next one."""
        held = self.at(now)
        if self.shown not in self._known:
            return next(iter(held), None)
        return next((view for view in held if view.id == self.shown), None)

    def gone(self, now: float, seconds: float) -> ApprovalView | None:
        """The one of one's own that was let go last, if that was within `seconds`."""
        mine = [view for view in self._known.values() if self.is_mine(view) and now - seconds < view.release_at <= now]
        return max(mine, key=lambda view: view.release_at, default=None)

    def is_mine(self, view: ApprovalView) -> bool:
        """Whether the person in front has approved it."""
        return view.decided_by == self._me or any(one.by == self._me for one in view.approved_by)

    def line(self, now: float, width: int, *, why_off: str = "") -> Line:
        """What is shown; nothing where nothing is held. `why_off`: it cannot be taken back now."""
        held = self.at(now)
        self.shown = held[0].id if held else ""
        if not held:
            return ()
        view, more = held[0], len(held) - 1
        left = view.release_at - now
        who = "approved" if self.is_mine(view) else f"{view.decided_by} approved"
        what = piece(f"✓ {who} {view.tool} {sums_text(view)}".rstrip(), "ok")
        way = _way_back(self.is_mine(view), why_off)
        goes, seconds = piece(" · released in ", "dim"), piece(span(left), "strong")
        meter = (piece(" "), *_meter(left / max(view.hold_seconds, left, 0.001)))
        others: Line = (piece(f"  · {more} more held", "dim"),) if more else ()
        for said in (
            (what, goes, seconds, *meter, *way, *others),
            (what, goes, seconds, *way, *others),
            (what, piece(" · in ", "dim"), seconds, *way),
        ):
            if cells(said) <= width:
                return said
        # What can be done, and for how long, before what it is about: that is in the list of approvals too.
        return (*cut((what,), max(width - cells((seconds, *way)) - 1, 1)), piece(" "), seconds, *way)


def _way_back(mine: bool, why_off: str) -> Line:
    if why_off:
        return (piece("  decisions are off", "bad"),)
    return piece("   u", "key"), piece(" take it back" if mine else " take it back…", "dim")


def _meter(share: float) -> list[Piece]:
    full = min(max(round(share * METER_CELLS), 0), METER_CELLS)
    return [piece("━" * full, "ok"), piece("╌" * (METER_CELLS - full), "dim")]
