"""How a moment is said in text: since when or until when, in local time, or in UTC. JSON always has RFC 3339 in UTC.

One formatter for all commands, so that two of them never disagree about a time.
"""

import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Literal, get_args

from ...mailbox.errors import SettingError

TimeStyle = Literal["relative", "local", "utc"]
When = Callable[[float], str]
"""From seconds since 1970 to text; 0 is never, and is said as ""."""

STYLES: tuple[TimeStyle, ...] = get_args(TimeStyle)
_UNITS = ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s"))


def style_of(given: str | None) -> TimeStyle:
    """The style that --time names; without it relative on a terminal and UTC elsewhere, so that pipes stay exact.

    Raises:
        SettingError: there is no such style.
    """
    if given is None:
        return "relative" if sys.stdout.isatty() else "utc"
    for style in STYLES:
        if style == given:
            return style
    raise SettingError(f"--time: expected relative, local or utc, got {given[:80]!r}")


def when(given: str | None, now: float | None = None) -> When:
    """How to say moments. `now`: the store's time where it was asked, else this machine's.

    Raises:
        SettingError: as `style_of`.
    """
    match style_of(given):
        case "utc":
            return utc
        case "local":
            return local
        case "relative":
            present = time.time() if now is None else now
            return lambda at: relative(at, present)


def utc(at: float) -> str:
    """RFC 3339 in UTC, to the millisecond."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z") if at else ""


def local(at: float) -> str:
    """This machine's time, to the second."""
    return datetime.fromtimestamp(at, UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S") if at else ""


def relative(at: float, now: float) -> str:
    """`12s ago`, `3h ago`, `in 4m`, `now`."""
    if not at:
        return ""
    text = span(abs(now - at))
    if text == "0s":
        return "now"
    return f"{text} ago" if at < now else f"in {text}"


def span(seconds: float) -> str:
    """A length of time in its two greatest units: `42s`, `3m10s`, `2h5m`, `6d`."""
    left, parts = int(seconds), list[str]()
    for size, unit in _UNITS:
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count}{unit}")
        elif parts:
            break  # `2h`, not `2h3s`: what follows a gap is not worth reading
        if len(parts) == 2:
            break
    return "".join(parts) or "0s"
