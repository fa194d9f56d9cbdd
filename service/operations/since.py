"""A moment as people type it: how long ago (`2h`, `3d`), or a date (`2026-11-30`, `2026-11-30T08:00Z`)."""

import re
from datetime import UTC, datetime

from ...mailbox.errors import UsageError

_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_AGO = re.compile(r"(\d{1,9})([smhdw])")


def since(given: str, now: float) -> float:
    """Seconds since 1970; 0.0 for nothing given. A date without a zone is one of UTC.

    Raises:
        UsageError: it can be read as neither.
    """
    if not given:
        return 0.0
    ago = _AGO.fullmatch(given.strip())
    if ago is not None:
        return now - int(ago[1]) * _UNITS[ago[2]]
    try:
        moment = datetime.fromisoformat(given.strip())
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        raise UsageError(
            f"expected how long ago (30m, 2h, 3d) or a date (2026-11-30T08:00Z), got {given[:80]!r}"
        ) from None
