"""What the frame's lines say: pure functions from what is known to pieces of text, for a width.

Each line has shorter forms, and the longest one that fits is taken; what matters most (how many are to be decided,
whether the database is there) is in all of them.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

from callboard.service.operations.principal import Principal
from callboard.service.operations.watching import AttentionLine

from .live import State
from .text import Line, Piece, Role, cells, cut, line, money, piece
from .times import TimeStyle, clock, clock_with_zone, short_span, span

STALE_SECONDS = 4.0
"""What is older is said to be old."""
PRODUCTION = "prod"


class Masthead(NamedTuple):
    """What the first line is made of."""

    environment: str
    attention: AttentionLine | None
    state: State
    monotonic: float
    now: float
    style: TimeStyle
    principal: Principal
    frozen_seconds: float | None = None
    """For how long the view has been frozen; None: it is not."""


class Tab(NamedTuple):
    """A screen in the row of screens."""

    number: int
    heading: str
    short: str
    badge: Piece | None
    here: bool


def spread(left: Line, right: Line, width: int) -> Line:
    """Left and right on one line; where both have no room, the left one alone."""
    room = width - cells(left) - cells(right)
    return (*left, piece(" " * room), *right) if room > 0 else left


def role_word(principal: Principal) -> str:
    """What somebody may do, in a word."""
    ladder: tuple[tuple[Literal["admin", "approve", "operate"], str], ...] = (
        ("admin", "admin"), ("approve", "approver"), ("operate", "operator")
    )  # fmt: skip
    return next((word for scope, word in ladder if scope in principal.scopes), "viewer")


def masthead(of: Masthead, width: int) -> Line:
    """Product, environment, nodes; whether it is live, the database, the clock, who one is."""
    environment = piece(of.environment, "strong" if of.environment.lower().startswith(PRODUCTION) else "")
    name: Line = (piece("callboard", "title"), *((piece("  "), environment) if of.environment else ()))
    nodes = len([one for one in of.attention.nodes if one.status in ("up", "draining")]) if of.attention else 0
    workers = line(piece(f"  {nodes} node{'' if nodes == 1 else 's'}", "dim" if nodes else "bad"))
    live = _live(of)
    zone = line(piece(f"   {clock_with_zone(of.now, _zone(of.style))}", "dim"))
    latency = line(piece(f"   db {of.state.latency_seconds * 1000:.0f}ms", "dim"))
    if of.state.link != "live":
        latency = ()
    label = f" ({of.principal.label})" if of.principal.label else ""
    who = line(f"   {of.principal.name}{label}")
    role = line(piece(f" · {role_word(of.principal)}", "dim"))
    if of.attention is None:
        workers = ()
    roomy = width >= 100
    for left, right in (
        ((*name, *workers), (*live, *(latency if roomy else ()), *zone, *who, *role)),
        ((*name, *workers), (*live, *zone, *who)),
        (name, (*live, *zone, *who)),
        (name, (*live, *zone)),
        (name, live),
    ):
        if cells(left) + cells(right) + 2 <= width:
            return spread(left, right, width)
    return live


def _zone(style: TimeStyle) -> TimeStyle:
    return "utc" if style == "utc" else "local"


def _live(of: Masthead) -> Line:
    state = of.state
    frozen: Line = ()
    if of.frozen_seconds is not None:
        frozen = (piece(f"‖ frozen {short_span(of.frozen_seconds)}", "needs"), piece("   "))
    if state.link == "lost":
        return (*frozen, piece("✗ database lost", "bad"))
    if state.link == "starting" or not state.looked_at:
        return (*frozen, piece("◷ connecting", "dim"))
    age = max(of.monotonic - state.looked_at, 0.0)
    if age > STALE_SECONDS:
        return (*frozen, piece(f"◷ {short_span(age)} old", "needs"))
    return (*frozen, piece("● live", "ok"), piece(f" {age:.1f}s", "dim"))


def screens(tabs: Sequence[Tab], width: int) -> list[tuple[int, Line]]:
    """The row of screens: number and what is shown of each."""
    for long, gap in ((True, 2), (False, 2), (False, 1)):
        shown = [(tab.number, _tab(tab, tab.heading if long else tab.short, gap)) for tab in tabs]
        if sum(cells(parts) for _, parts in shown) <= width:
            return shown
    return [(tab.number, _tab(tab, tab.short if tab.here else "", 1)) for tab in tabs]


def tabs(names: Sequence[tuple[str, str]], badges: Sequence[Piece | None], here: int) -> list[Tab]:
    """The screens with their names (long, short) and counts, numbered from 1."""
    numbered = enumerate(zip(names, badges, strict=False), 1)
    return [Tab(number, long, short, badge, number == here) for number, ((long, short), badge) in numbered]


def badge(screen: str, attention: AttentionLine | None) -> Piece | None:
    """The count of a screen in the row of screens; None for none."""
    if screen == "approvals" and attention and attention.to_decide:
        return piece(f"{attention.to_decide:,}", "needs")
    if screen == "dead" and attention and attention.dead:
        return piece(f"{attention.dead:,}", "bad")
    return None


def _tab(tab: Tab, name: str, gap: int) -> Line:
    text = f"{tab.number} {name}".rstrip()
    badge: Line = (piece(" "), tab.badge) if tab.badge else ()
    if tab.here:
        shown = f" {text} {tab.badge.text} " if tab.badge else f" {text} "
        return (piece(shown, "cursor"), piece(" " * (gap - 1)))
    rest: Line = (piece(f" {name}"),) if name else ()
    return (piece(f" {tab.number}", "key"), *rest, *badge, piece(" " * gap))


def attention(of: AttentionLine | None, now: float, width: int) -> Line:
    """What needs somebody; on the right what needs nobody."""
    if of is None:
        return line(piece("reading …", "dim"))
    states: tuple[tuple[str, int, str, Role], ...] = (
        ("✗", of.dead, "dead", "bad"), ("▲", of.escalated, "escalated", "bad"), ("✗", of.failed, "failed", "bad"),
        ("↻", of.retrying, "retrying", "retry"),
    )  # fmt: skip
    long, short = list[Piece](), list[Piece]()
    for glyph, number, word, role in states:
        if number:
            long.append(piece(f"  {glyph} {_count(number)} {word}", role))
            short.append(piece(f"  {glyph} {_count(number)}", role))
    total: Line = (piece(f"{_count(of.total)} actors", "dim"),) if of.counted_at else ()
    busy: Line = (piece(f"● {_count(of.running)}", "ok"), piece(f"  ○ {_count(of.idle)}", "dim")) if total else ()
    full, brief, medium, least = _to_decide(of, now)
    if not of.to_decide and not long:
        return spread(line(piece("✓ nothing waits for you", "ok")), busy if width >= 100 else total, width)
    for left, right in (
        ((*full, *long), busy),
        ((*full, *long), total),
        ((*brief, *long), busy),
        ((*brief, *long), total),
        ((*medium, *long), busy if width >= 100 else total),
        ((*medium, *short), total),
        ((*least, *short), total),
        ((*medium, *short), ()),
        ((*least, *short), ()),
    ):
        if cells(left) + cells(right) + 1 <= width:
            return spread(left, right, width)
    return least


def _to_decide(of: AttentionLine, now: float) -> tuple[Line, Line, Line, Line]:
    """From the longest form to the shortest."""
    if not of.to_decide:
        nobody = line(piece("○ nothing to decide", "dim"))
        return nobody, nobody, nobody, nobody
    many = piece(f"◆ {_count(of.to_decide)} to decide", "needs")
    sums = " + ".join(money(one.value, one.currency) for one in of.sums)
    parts = [f"{'≥ ' if of.unsummed else ''}{sums}"] if sums else []
    brief, short = [*parts], [*parts]
    if of.oldest_at:
        parts.append(f"oldest {span(now - of.oldest_at)}")
        short.append(f"oldest {short_span(now - of.oldest_at)}")
        brief.append(short[-1])
    if of.next_expiry_at:
        parts.append(f"next expiry {short_span(of.next_expiry_at - now)}")
        brief.append(parts[-1])
    full, less = piece("  " + " · ".join(parts)), piece("  " + " · ".join(brief))
    return (many, full), (many, less), (many, piece(" " + " ".join(short))), (many,)


def _count(number: int) -> str:
    return f"{number:,}"


def warning(state: State, monotonic: float, style: TimeStyle, trouble: str, width: int) -> Line:
    """What stands above the screen while the database is away, or while what is to be shown is refused: `trouble`."""
    if state.link == "lost":
        seen_at = state.looked_at and state.looked_at + state.store_ahead
        return banner(state, monotonic, seen_at, style, width)
    return cut(line(piece("✗ Not shown: "), piece(" ".join(trouble.split()))), width)


def banner(state: State, monotonic: float, seen_at: float, style: TimeStyle, width: int) -> Line:
    """What is said while the database is away. `seen_at`: of when everything is that is shown."""
    since = piece(f"✗ Database lost {span(monotonic - state.lost_at)} ago.")
    left = state.next_try_at - monotonic
    retry = f"Retry {state.tries} in {span(left)}" if left >= 1 else f"Retry {state.tries} now"
    seen = f" You see {clock(seen_at, _zone(style))}." if seen_at else ""
    for said in (
        (since, piece(f"{seen} Nothing is lost; decisions are off. "), piece(f"{retry}, ctrl+r now")),
        (since, piece(" Decisions are off. "), piece(f"{retry}, ctrl+r now")),
        (since, piece(f" {retry}, ctrl+r")),
    ):
        if cells(said) <= width:
            return said
    return (since,)
