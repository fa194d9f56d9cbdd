"""An audit row as a row of the list, and told whole: pure, from records to pieces of text."""

from collections.abc import Callable
from typing import Any

from callboard.persistence.operating import AuditRow
from callboard.service.operations.audit_records import AuditRecord, did_of
from callboard.service.operations.filters import Field
from callboard.tui.table import Column, Row
from callboard.tui.text import Line, Role, grid, line, lines, money, piece, wrapped

FIELDS = (
    Field("who", "path", "who did it"),
    Field("action", "path", "what was done: decide, approved, requeue, …"),
    Field("object", "path", "what it was done to: an approval, an address"),
    Field("channel", "path", "cli, tui, http, daemon, library"),
    Field("note", "text", "what was said with it"),
    Field("host", "path", "from which machine"),
)
ROLES: dict[str, Role] = {
    "approved": "ok", "released": "ok", "denied": "bad", "expired": "bad", "discarded": "bad", "cancelled": "bad",
    "killed": "bad", "taken back": "needs", "signed": "needs",
}  # fmt: skip
GLYPHS = {
    "approved": "✓", "released": "✓", "signed": "✓", "denied": "✗", "expired": "✗", "taken back": "↶",
    "discarded": "✗", "cancelled": "■", "killed": "■",
}  # fmt: skip


def columns(width: int) -> tuple[Column, ...]:
    """Columns for a table of so many cells."""
    return (
        Column("when", "when", 9, whole=True),
        Column("who", "who", 8),
        Column("from", "from", 9, drop=3, most=16, grow=1),
        Column("did", "did", 12),
        Column("what", "what", 16 if width < 100 else 28, most=44, grow=1),
        Column("amount", "amount", 9, right=True, whole=True, drop=1),
        Column("digest", "digest", 6, drop=6),
        Column("note", "note", 12, grow=4, drop=4),
        Column("outcome", "outcome", 12, grow=2, drop=5),
    )


def row(record: AuditRecord, when: Callable[[float], str]) -> Row:
    """A row of the list."""
    it = record.row
    role = ROLES.get(record.did, "")
    cells: list[Line] = [
        line(piece(when(it.at), "dim")),
        line(it.who),
        line(piece(origin(it), "dim")),
        line(piece(f"{GLYPHS.get(record.did, '·')} {record.did}", role)),
        line(what(record)),
        line(amount(record)),
        line(piece(record.approval.digest[:5] + "…" if record.approval else "", "dim")),
        line(piece(it.note)),
        line(piece(record.outcome, "dim")),
    ]
    return Row(str(it.number), cells)


def origin(it: AuditRow) -> str:
    """The channel and the machine, without the mark by which a terminal knows its own answer again."""
    return " ".join(part for part in (it.channel, it.host.partition("#")[0]) if part)


def what(record: AuditRecord) -> str:
    """What it was done to; of a gated call its tool first."""
    view = record.approval
    if view is None:
        return record.row.object
    # Of the id what stands at its end: the beginning is the same for all runs of an agent.
    place, colon, key = view.id.rpartition(":")
    return f"{view.tool} {place.rpartition('.')[2]}{colon}{key}"


def amount(record: AuditRecord) -> str:
    """Its sums of money, with their currency where the call says one."""
    if record.approval is None:
        return ""
    return ", ".join(money(one.value, one.currency) for one in record.approval.money)


def value_of(it: AuditRow, name: str) -> Any:
    """What a filter's word is about; the fields are FIELDS."""
    if name == "action":
        return [it.action, did_of(it)]
    if name == "who":
        return [it.who, it.label] if it.label else it.who
    return {"object": it.object, "channel": it.channel, "note": it.note, "host": it.host}[name] or None


def told(record: AuditRecord, width: int, when: Callable[[float], str]) -> list[Line]:
    """A row told whole."""
    it, view = record.row, record.approval
    calls_itself = piece(f", who calls itself {it.label}" if it.label else "", "dim")
    states = f"   {it.before or '·'} → {it.after or '·'}" if it.before or it.after else ""
    pairs: list[tuple[str, Line]] = [
        ("when", line(when(it.at), piece(f"   number {it.number:,}", "dim"))),
        ("who", line(piece(it.who, "strong"), calls_itself, piece(f"   from {origin(it) or 'nowhere told'}", "dim"))),
        ("did", line(piece(f"{it.action}: {record.did}", ROLES.get(record.did, "strong")), states)),
        ("what", line(it.object)),
    ]
    if view is not None:
        pairs += [
            ("call", line(view.tool, "   ", piece(amount(record) or "no money", "strong"))),
            ("digest", line(view.digest)),
            ("run", line(view.run_address)),
            ("policy", line(f"{view.policy or 'tool'} · {view.risk or 'no'} risk · now {view.status}")),
        ]
    if record.outcome:
        pairs.append(("outcome", line(record.outcome)))
    found = grid(pairs, width)
    if it.note:
        found.append(line(piece("note", "dim")))
        for part in lines(it.note):
            found += [(piece("  │ ", "dim"), *one) for one in wrapped(part, max(width - 4, 8))]
    return found
