"""Checks and nodes as rows and as texts: pure."""

from typing import Literal

from callboard.persistence.rows import Member
from callboard.service.operations.health import SILENT_SECONDS, Check, HealthReport, Level
from callboard.service.operations.spent import Spent
from callboard.tui.table import Column, Row
from callboard.tui.text import Line, Piece, Role, duration, grid, line, money, piece

LEVELS: dict[Level, tuple[str, str, Role]] = {
    "ok": ("✓", "ok", "ok"),
    "warn": ("▲", "look", "needs"),
    "bad": ("✗", "BAD", "bad"),
}
CHECKS = (Column("level", "", 6), Column("name", "what", 12), Column("text", "is so", 20, grow=1))
NODES = (
    Column("node", "node", 5, right=True),
    Column("state", "state", 11),
    Column("up", "up for", 7, right=True, drop=1),
    Column("heard", "heard", 7, right=True),
    Column("shards", "shards", 6, right=True),
    Column("more", "", 4, grow=1),
)
NodeWord = Literal["RUNNING", "DRAINING", "SILENT", "LOST", "LEFT"]
NODE_LOOKS: dict[NodeWord, tuple[str, Role]] = {
    "RUNNING": ("●", "ok"),
    "DRAINING": ("◑", "needs"),
    "SILENT": ("▲", "needs"),
    "LOST": ("✗", "bad"),
    "LEFT": ("○", "dim"),
}


def check_row(check: Check) -> Row:
    """A check in the list."""
    glyph, word, role = LEVELS[check.level]
    quiet: Role = "" if check.level != "ok" else "dim"
    return Row(check.name, [line(piece(f"{glyph} {word}", role)), line(check.name), line(piece(check.text, quiet))])


def check_told(check: Check, width: int) -> list[Line]:
    """A check whole: what is so, which ones, and what to do."""
    glyph, word, role = LEVELS[check.level]
    pairs: list[tuple[str, Line]] = [("level", line(piece(f"{glyph} {word}", role))), ("is so", line(check.text))]
    pairs += [("such as" if not number else "", line(one)) for number, one in enumerate(check.examples)]
    if check.way_out and (check.level != "ok" or check.count):
        pairs.append(("next", line(piece(check.way_out, "key"))))
    elif check.level == "ok":
        pairs.append(("next", line(piece("nothing has to be done", "dim"))))
    return grid(pairs, width)


def node_word(member: Member) -> NodeWord:
    """What is said of a node."""
    if member.status == "dead":
        return "LOST"
    if member.status == "left":
        return "LEFT"
    if member.beat_age_seconds > SILENT_SECONDS:
        return "SILENT"
    return "DRAINING" if member.status == "draining" else "RUNNING"


def node_row(member: Member, now: float = 0.0) -> Row:
    """A node in the list. `now`: by the store's clock."""
    word = node_word(member)
    glyph, role = NODE_LOOKS[word]
    cells: list[Line] = [
        line(str(member.number)),
        line(piece(f"{glyph} {word}", role)),
        line(_up(member, now)),
        line(piece(duration(member.beat_age_seconds) if member.beat_age_seconds >= 1 else "now", "dim")),
        line(piece(f"{member.shards}", "" if member.shards else "dim")),
        line(piece(_more(member, word), role if word in ("LOST", "SILENT") else "dim")),
    ]
    return Row(str(member.number), cells)


def _up(member: Member, now: float) -> Piece:
    if member.status not in ("up", "draining") or not member.joined_at:
        return piece("·", "dim")
    return piece(duration(max(now - member.joined_at, 1.0)))


def _more(member: Member, word: NodeWord) -> str:
    if word == "LOST":
        left = f"others take over its {member.shards} shards" if member.shards else "others have its shards"
        return f"{left} · {member.label}".rstrip(" ·")
    if word == "DRAINING":
        return f"{member.shards} shards left · {member.label}".rstrip(" ·")
    return member.label + (" · guest" if member.guest else "")


def summary(report: HealthReport | None) -> Line:
    """In one line: whether it is healthy."""
    if report is None:
        return line(piece("looking…", "dim"))
    bad, warn = report.of("bad"), report.of("warn")
    if bad:
        return line(piece(f"✗ not healthy: {', '.join(one.name for one in bad)}", "bad"))
    if warn:
        return line(piece(f"▲ healthy; look at: {', '.join(one.name for one in warn)}", "needs"))
    return line(piece("✓ healthy", "ok"))


def other_lines(spent: Spent | None, *, chaos: bool, width: int) -> list[Line]:
    """What else there is to say, one below the other."""
    pairs: list[tuple[str, Line]] = []
    if spent is not None:
        runs = f"{spent.runs:,}{'' if spent.complete else '+'} run(s) that began today"
        figures = f" · {spent.steps:,} steps · {spent.tokens:,} tokens"
        pairs.append(("spent", line(piece(money(spent.cost_usd, "USD"), "strong"), piece(f"  {runs}{figures}", "dim"))))
    allowed = piece("allowed here: K kills an actor", "needs") if chaos else piece("off: nothing can be killed", "dim")
    pairs.append(("chaos", line(allowed)))
    pairs.append(("settings", line(piece("callboard config show --origin", "key"))))
    return grid(pairs, width)
