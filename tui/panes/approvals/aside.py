"""Requests that somebody has put aside for a while, in this terminal only: nobody else's list changes, and nothing is
decided, denied or written down.

One comes back by itself when its time is over, or as soon as anything about it is another than it was. What would
expire meanwhile, or soon after, cannot be put aside: a person who does not see it would have said no.
"""

from callboard.service.operations.views import ApprovalView

ASIDE_SECONDS = 900.0
MARGIN_SECONDS = 600.0
"""What is left when it is back, at least, for deciding on it."""


class Aside:
    """What is put aside."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[float, tuple[object, ...]]] = {}

    def put(self, view: ApprovalView, now: float) -> bool:
        """Put one aside; False: it would expire."""
        back_at = now + ASIDE_SECONDS
        if view.expires_at and view.expires_at < back_at + MARGIN_SECONDS:
            return False
        self._kept[view.id] = (back_at, _state(view))
        return True

    def take(self, view: ApprovalView) -> None:
        """Have it back."""
        self._kept.pop(view.id, None)

    def has(self, view: ApprovalView, now: float) -> bool:
        """Whether it is aside now."""
        back_at, state = self._kept.get(view.id, (0.0, ()))
        return now < back_at and state == _state(view)

    def ids(self, now: float) -> frozenset[str]:
        """Of all whose time is not over; which changes when one comes back."""
        self._kept = {one: kept for one, kept in self._kept.items() if now < kept[0]}
        return frozenset(self._kept)


def _state(view: ApprovalView) -> tuple[object, ...]:
    return (view.digest, view.status, len(view.approved_by), view.expires_at, str(view.checks))


__all__ = ["Aside"]
