"""The inbox as rows: columns, cells, what it is sorted and filtered by. Pure functions of views and a time."""

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

from callboard.service.operations.decided import Decided
from callboard.service.operations.demands import failed_checks, tier_of
from callboard.service.operations.filters import Field
from callboard.service.operations.suspect import suspects_in
from callboard.service.operations.together import totals_of
from callboard.service.operations.views import ApprovalView

from ...decide.sheet import sums_line
from ...decide.subject import whom
from ...table_rows import Column, Row
from ...text import Line, Piece, line, money, piece
from ...times import short_span

SOON_SECONDS = 1_800.0
"""Left: from here on it is marked."""
LONG_SECONDS = 600.0
"""Waited: from here on it stands out."""

FIELDS = (
    Field("amount", "money", "its largest sum"),
    Field("risk", "word", "how risky policy calls it", ("low", "medium", "high", "never")),
    Field("tool", "text", "the tool it calls"),
    Field("for", "text", "whom it is for"),
    Field("agent", "path", "the run that asks"),
    Field("policy", "text", "the rule that asks"),
    Field("left", "duration", "until it expires"),
    Field("waits", "duration", "since it was asked"),
    Field("check", "word", "what the tool's checks found", ("failed", "passed", "none")),
    Field("by", "text", "who asked for the run"),
    Field("id", "text", "its id"),
    Field("aside", "word", "put aside in this terminal", ("yes", "no")),
)
BY_TIME = ("left", "waits")
"""What of these changes by itself."""
SORTS = ("oldest", "expiry", "amount", "risk", "agent")
_TIERS = ("low", "money", "high", "never")


def columns(*, asked: bool) -> list[Column]:
    """The columns of the inbox. `asked`: with who asks, which the preview says where there is one."""
    who = [Column("asked", "asked by", 12, drop=2)] if asked else [Column("asked", "", 0, drop=9)]
    return [
        Column("amount", "amount", 10, right=True, whole=True),
        Column("tool", "tool", 13),
        Column("for", "for", 20, grow=1),
        *who,
        Column("waits", "waits", 5, right=True, drop=1),
        Column("left", "left", 6, right=True),
        Column("risk", "risk", 9),
    ]


def row(view: ApprovalView, now: float) -> Row:
    """One request."""
    left = view.expires_at - now
    waits = now - view.requested_at
    odd = line(piece("▲ ", "bad")) if suspects_in(view.arguments) else ()
    cells: list[Line] = [
        sums_line(view) or line(piece("—", "dim")),
        line(view.tool),
        (*odd, piece(whom(view))),
        line(piece(view.run_address.rpartition("/")[2], "dim")),
        line(piece(short_span(waits), "needs" if waits >= LONG_SECONDS else "")),
        line(_left(view, left)),
        _risk(view),
    ]
    return Row(view.id, cells, markable=True)


def _left(view: ApprovalView, left: float) -> Piece:
    if not view.expires_at:
        return piece("·", "dim")
    if left < SOON_SECONDS:
        return piece(f"▲{short_span(max(left, 0))}", "bad")
    return piece(short_span(left), "" if left < 2 * SOON_SECONDS else "dim")


def _risk(view: ApprovalView) -> Line:
    tier = tier_of(view)
    known = view.risk in ("high", "never")
    why = "high" if known else "check" if failed_checks(view) else "sum?" if view.unread else "high"
    word = piece(
        {"high": f"▲ {why}", "never": "■ never"}.get(tier, f"· {view.risk or 'none'}"),
        "bad" if tier in ("high", "never") else "dim",
    )
    return (word, piece(f" ×{view.needed}", "bad")) if view.needed > 1 else (word,)


def value_of(view: ApprovalView, now: float, *, aside: bool = False) -> Callable[[str], Any]:
    """The values of a request that a filter asks for. `aside`: it is put aside here."""

    values: dict[str, Callable[[], Any]] = {
        "amount": lambda: [one.value for one in view.money] or None,
        "risk": lambda: view.risk or None,
        "tool": lambda: view.tool,
        "for": lambda: whom(view),
        "agent": lambda: [view.run_address, view.run_address.rpartition("/")[2]],
        "policy": lambda: view.policy,
        "left": lambda: view.expires_at - now if view.expires_at else None,
        "waits": lambda: now - view.requested_at,
        "check": lambda: "failed" if failed_checks(view) else "passed" if view.checks else "none",
        "by": lambda: view.requested_by,
        "id": lambda: view.id,
        "aside": lambda: "yes" if aside else "no",
    }
    return lambda name: values[name]()


def ordered(views: Sequence[ApprovalView], sort: str, *, turned: bool) -> list[ApprovalView]:
    """Sorted; what is alike in that stands oldest first, whichever way it is turned."""
    oldest = sorted(views, key=lambda view: (view.requested_at, view.id), reverse=turned and sort == "oldest")
    if sort == "oldest":
        return oldest
    keys: dict[str, Callable[[ApprovalView], Any]] = {
        "expiry": lambda view: view.expires_at or float("inf"),
        "amount": lambda view: -max((one.value for one in view.money), default=Decimal(-1)),
        "risk": lambda view: (-_TIERS.index(tier_of(view)), -view.needed),
        "agent": lambda view: view.run_address,
    }
    return sorted(oldest, key=keys[sort], reverse=turned)


SORTED: dict[tuple[str, bool], str] = {
    ("oldest", False): "oldest first", ("oldest", True): "newest first",
    ("expiry", False): "next to expire first", ("expiry", True): "last to expire first",
    ("amount", False): "largest first", ("amount", True): "smallest first",
    ("risk", False): "riskiest first", ("risk", True): "least risk first",
    ("agent", False): "by agent", ("agent", True): "by agent, backwards",
}  # fmt: skip


def sums(views: Sequence[ApprovalView]) -> str:
    """What their sums come to, for each currency; "" where they move no money."""
    return " + ".join(money(Decimal(one.text), one.currency) for one in totals_of(views))


def summary(views: Sequence[ApprovalView], marked: Sequence[ApprovalView]) -> Line:
    """The line below the list: what is marked, else what there is."""
    if marked:
        tiers = {tier_of(one) for one in marked}
        risks = {one.risk for one in marked}
        word = "▲ some need a look of their own"
        if tiers <= {"low", "money"}:
            word = "all low risk" if risks <= {"low", ""} else "none of high risk"
        told = " · ".join(one for one in (f"{len(marked)} marked", sums(marked), word) if one)
        keys = (piece("   A", "key"), piece(" review together · ", "dim"), piece("N", "key"), piece(" deny", "dim"))
        return (piece(f" {told}", "title"), *keys)
    with_money = sum(bool(one.money) for one in views)
    high = sum(tier_of(one) in ("high", "never") for one in views)
    parts = [f"{len(views):,} waiting", f"{sums(views)} in {with_money:,} money requests" if with_money else ""]
    parts.append(f"{high:,} high risk" if high else "")
    return line(piece(" " + " · ".join(one for one in parts if one), "dim")) if views else ()


# -- what was decided


DECIDED = [
    Column("at", "when", 5),
    Column("did", "", 12),
    Column("amount", "amount", 10, right=True, whole=True),
    Column("tool", "tool", 13, drop=2),
    Column("who", "who", 8, most=14, grow=1),
    Column("what", "what came of it", 16, grow=4, drop=1),
]
_DID: dict[str, Piece] = {
    "approved": piece("✓ approved", "ok"),
    "signed": piece("● approved", "ok"),
    "denied": piece("✗ denied", "bad"),
    "expired": piece("◌ expired", "needs"),
    "superseded": piece("▲ changed", "needs"),
    "taken back": piece("↶ taken back", "retry"),
}


def decided_row(one: Decided, at: Callable[[float], str]) -> Row:
    """One word on a request, and what came of it. `at`: a time of day in five cells."""
    view = one.approval
    amount = " + ".join(money(each.value, each.currency) for each in view.money)
    said = f"“{one.note}”" if one.did == "denied" and one.note else one.outcome
    if one.did == "signed":
        said = f"one of {view.needed}"
    if one.did == "approved" and view.can_take_back:
        said = f"held until {at(view.release_at)}"
    cells: list[Line] = [
        line(piece(at(one.at), "dim")),
        line(_DID.get(one.did, piece(one.did))),
        line(piece(amount or "—", "" if amount else "dim")),
        line(view.tool),
        line(one.who or "—"),
        line(piece(said, "dim")),
    ]
    return Row(f"{view.id} {one.at!r} {one.did}", cells)
