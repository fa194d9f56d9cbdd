"""How moments and lengths of time are said on the screen: one formatter, so that two places never disagree.

Moments are the store's, in seconds since 1970; 0 is never, and is said as "". Which of the three styles is on is the
frame's (`CallboardApp.when`), and `ctrl+t` goes round.
"""

from datetime import UTC, datetime
from typing import Literal

from .text import duration

TimeStyle = Literal["relative", "local", "utc"]
AFTER: dict[TimeStyle, TimeStyle] = {"relative": "local", "local": "utc", "utc": "relative"}
"""What ctrl+t makes of each."""


def span(seconds: float) -> str:
    """A length of time, whole seconds of it: `0s`, `42s`, `3m 10s`, `1h 30m`."""
    return duration(int(seconds)) if seconds >= 1 else "0s"


def short_span(seconds: float) -> str:
    """The same where there is little room, five cells at most: `42s`, `12m`, `5h58`, `6d`, `999d`."""
    left = max(int(seconds), 0)
    if left < 60:
        return f"{left}s"
    if left < 3_600:
        return f"{left // 60}m"
    if left < 36_000:
        return f"{left // 3_600}h{left % 3_600 // 60:02d}"
    return f"{left // 3_600}h" if left < 172_800 else f"{min(left // 86_400, 9_999)}d"


def relative(at: float, now: float) -> str:
    """`12m 04s ago`, `in 8s`, `now`."""
    if not at:
        return ""
    text = span(abs(now - at))
    if text == "0s":
        return "now"
    return f"{text} ago" if at < now else f"in {text}"


def clock(at: float, style: TimeStyle, *, now: float = 0.0, millis: bool = False) -> str:
    """A time of day, `12:04:31` or `12:04:31Z`; with the date before it where `now` is on another day.

    Local, unless the style is utc. `millis`: with thousandths.
    """
    if not at:
        return ""
    moment, present = _zoned(at, style), _zoned(now or at, style)
    text = moment.strftime("%H:%M:%S") + (f".{moment.microsecond // 1000:03d}" if millis else "")
    date = "" if moment.date() == present.date() else moment.strftime("%Y-%m-%d ")
    return f"{date}{text}{'Z' if style == 'utc' else ''}"


def clock_with_zone(at: float, style: TimeStyle) -> str:
    """`12:04:31 UTC`: the clock of the masthead."""
    moment = _zoned(at, style)
    return f"{moment.strftime('%H:%M:%S')} {moment.tzname() or ''}".rstrip()


def when(at: float, style: TimeStyle, now: float) -> str:
    """A moment in this style."""
    return relative(at, now) if style == "relative" else clock(at, style, now=now)


def _zoned(at: float, style: TimeStyle) -> datetime:
    moment = datetime.fromtimestamp(at, UTC)
    return moment if style == "utc" else moment.astimezone()
