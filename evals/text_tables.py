"""Reports on texts as tables: what signals find, what profiles make of texts, and what a peer does, side by side."""

from collections.abc import Iterable, Sequence

from callboard.evals.guardrails import Shares, SignalCell, TextReport
from callboard.evals.peers import PeerReport, PeerRow
from callboard.evals.peers import Shares as PeerShares
from callboard.evals.rates import Rate
from callboard.evals.tables import Table, short
from callboard.evals.train_detector import TrainingReport


def signal_table(report: TextReport) -> Table:
    """What signals find, on all texts and on held out groups."""
    columns = ("signal", "found", "wrong", "found, held out", "wrong, held out", "ms a text")
    rows = [
        (
            one.name,
            short(one.attacks),
            short(one.benign),
            short(one.attacks_held_out),
            short(one.benign_held_out),
            f"{report.milliseconds_per_text.get(one.name, 0):.1f}",
        )
        for one in report.signals
    ]
    return columns, list(rows)


def unseen_table(trained: TrainingReport) -> Table:
    """What the detector makes of groups that it did not see, each kind by source, and beside it of unseen sources."""
    columns = ("kind", "source", "texts", "sort", "unseen groups", "unseen source")
    alone = {one.source: one for one in trained.unseen_sources}
    rows: list[Sequence[str]] = []
    for cell in trained.unseen_groups.cells:
        one = alone.get(cell.source)
        unseen = (one.detected if cell.hostile else one.false_positives) if one else None
        sort = "found" if cell.hostile else "wrong"
        rows.append((cell.kind, cell.source, f"{cell.found.of}", sort, short(cell.found), maybe(unseen)))
    return columns, rows


def signal_cell_table(report: TextReport) -> Table:
    """What each signal finds (of attacks) or gets wrong (of honest texts), by kind and by source."""
    columns = ("kind", "source", "texts", *(one.name for one in report.signals), "held out texts", "detector, held out")
    detector = next((one for one in report.signals if one.name == "detector"), None)
    rows: list[Sequence[str]] = []
    for cells in zip(*(one.cells for one in report.signals), strict=True):
        first: SignalCell = cells[0]
        kept = next((one for one in detector.cells if _same(one, first)), None) if detector else None
        rows.append(
            (
                first.kind,
                first.source,
                f"{first.found.of}",
                *(short(one.found) for one in cells),
                f"{first.found_held_out.of}",
                maybe(kept.found_held_out if kept else None),
            )
        )
    return columns, rows


def _same(one: SignalCell, other: SignalCell) -> bool:
    return (one.kind, one.source, one.hostile) == (other.kind, other.source, other.hostile)


def text_table(report: TextReport) -> Table:
    """What each profile makes of texts: of attacks first, then of honest ones, by kind."""
    columns = ("profile", "texts", "detected", "raised", "carried: held", "unrelated: held")
    rows: list[Sequence[str]] = []
    for row in report.rows:
        rows.append((row.name, "attacks", *_cells(row.attacks)))
        rows += [(row.name, kind, *_cells(one)) for kind, one in row.attacks_by_kind.items()]
        rows.append((row.name, "honest", *_cells(row.benign)))
        rows += [(row.name, kind, *_cells(one)) for kind, one in row.benign_by_kind.items()]
    return columns, rows


def source_table(report: TextReport) -> Table:
    """The same by source; a source may have attacks and honest texts."""
    columns = ("profile", "source", "texts", "detected", "raised", "carried: held", "unrelated: held")
    rows: list[Sequence[str]] = []
    for row in report.rows:
        rows += [(row.name, source, "attacks", *_cells(one)) for source, one in row.attacks_by_source.items()]
        rows += [(row.name, source, "honest", *_cells(one)) for source, one in row.benign_by_source.items()]
    return columns, rows


def peer_table(report: PeerReport) -> Table:
    """What each profile of the peer does with attacks, and with honest texts."""
    columns = ("profile", "texts", "pattern seen", "run ended", "person asked", "acted on", "of these, by a pattern")
    rows: list[Sequence[str]] = []
    for row in report.rows:
        for what, all_of_them, held_out in _sorts(row):
            rows.append((row.name, what, *_peer_cells(all_of_them)))
            rows.append((row.name, f"{what}, held out", *_peer_cells(held_out)))
    return columns, rows


def peer_kind_table(report: PeerReport) -> Table:
    """Acted on by the peer, by kind and then by source."""
    columns = ("texts", *(row.name for row in report.rows))
    rows: list[Sequence[str]] = []
    for field in ("attacks_by_kind", "benign_by_kind", "attacks_by_source", "benign_by_source"):
        parts: list[dict[str, PeerShares]] = [getattr(row, field) for row in report.rows]
        sort = "attacks" if field.startswith("attacks") else "honest"
        rows += [(f"{sort}: {name}", *(short(part[name].acted) for part in parts)) for name in (parts or [{}])[0]]
    return columns, rows


def maybe(one: Rate | None) -> str:
    """A share with its interval, or a dash."""
    return "–" if one is None else short(one)


def _sorts(row: PeerRow) -> Iterable[tuple[str, PeerShares, PeerShares]]:
    return ("attacks", row.attacks, row.attacks_held_out), ("honest", row.benign, row.benign_held_out)


def _peer_cells(one: PeerShares) -> tuple[str, ...]:
    return short(one.detected), short(one.ended), short(one.asked), short(one.acted), short(one.on_sign)


def _cells(one: Shares) -> tuple[str, ...]:
    return short(one.detected), short(one.raised), short(one.carried), short(one.unrelated)
