"""The measured parts of docs/THREAT_MODEL.md that are about texts: our signals and profiles, and the peer's beside."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec

from callboard.evals.guardrails import TextReport
from callboard.evals.peers import PeerReport
from callboard.evals.rates import Rate, rate
from callboard.evals.reports import markdown_table
from callboard.evals.tables import short
from callboard.evals.text_tables import maybe, peer_kind_table, peer_table, signal_table, unseen_table
from callboard.evals.threat_tables import Documents, Part, found_in, wrapped
from callboard.evals.train_detector import TrainingReport

SHOWN_BY_KIND: Final = ("standard", "strict")
"""Profiles whose kinds are shown too: the others hold nothing."""

T = TypeVar("T")


_FACTS: Final = ("detected", "raised", "carried", "unrelated")


def _signals(found: Documents) -> str:
    columns, rows = signal_table(_texts(found))
    return markdown_table((columns[:-1], [row[:-1] for row in rows]))


def _kinds(found: Documents) -> str:
    report = _texts(found)
    across = _trained(found).unseen_groups.by_kind
    signals = {one.name: one for one in report.signals}
    any_, hits = signals["patterns, any"], signals["patterns, hits"]
    detector = signals["detector"]
    rows: list[Sequence[str]] = []
    for sort, kinds in (("attack", any_.attacks_by_kind), ("honest", any_.benign_by_kind)):
        for kind, one in kinds.items():
            other = (hits.attacks_by_kind if sort == "attack" else hits.benign_by_kind)[kind]
            kept = detector.held_out_by_kind.get(kind)
            rows.append((sort, kind, f"{one.of}", short(one), short(other), maybe(across.get(kind)), maybe(kept)))
    columns = (
        "sort",
        "kind",
        "texts",
        "patterns, any",
        "patterns, hits",
        "detector, every group unseen once",
        "detector in the file, held out groups",
    )
    return markdown_table((columns, rows))


def _profiles(found: Documents) -> str:
    rows: list[Sequence[str]] = []
    for row in _texts(found).rows:
        name = f"**{row.name}**"
        for sort, one, kinds in (
            ("attacks", row.attacks, row.attacks_by_kind),
            ("honest", row.benign, row.benign_by_kind),
        ):
            cells = (short(getattr(one, field)) for field in _FACTS)
            rows.append((name, f"**{sort}**", *cells))
            if row.name.startswith(SHOWN_BY_KIND):
                rows += [("", kind, *(short(getattr(of, f)) for f in _FACTS)) for kind, of in kinds.items()]
    return markdown_table((("profile", "texts", "detected", "raised", "carried: held", "unrelated: held"), rows))


def _sources(found: Documents) -> str:
    report = _texts(found)
    by_name = {row.name: row for row in report.rows}
    standard, both = by_name["standard"], by_name["standard, one hit, patterns + detector"]
    patterns = {(cell.kind, cell.source): cell for cell in standard.cells}
    columns = (
        "source",
        "kind",
        "texts",
        "detected (patterns)",
        "detected (and detector)",
        "carried: held",
        "unrelated: held",
        "raised by one hit",
    )
    rows = [
        (
            cell.source,
            cell.kind,
            f"{cell.rows}",
            _share(patterns[cell.kind, cell.source].detected, cell.rows),
            _share(cell.detected, cell.rows),
            _share(patterns[cell.kind, cell.source].carried, cell.rows),
            _share(patterns[cell.kind, cell.source].unrelated, cell.rows),
            _share(cell.raised, cell.rows),
        )
        for cell in both.cells
    ]
    return markdown_table((columns, rows))


def _share(count: int, of: int) -> str:
    return short(rate(count, of))


def _unseen(found: Documents) -> str:
    return markdown_table(unseen_table(_trained(found)))


def _thresholds(found: Documents) -> str:
    trained = _trained(found)
    across = trained.unseen_groups
    rows: list[Sequence[str]] = [
        ("**as in the file, every group unseen once**", short(across.detected), short(across.false_positives))
    ]
    rows += [
        (f"as in the file, quarter {number} of the groups", short(one.detected), short(one.false_positives))
        for number, one in enumerate(across.by_quarter)
    ]
    rows += [
        (
            f"for {100 * one.wanted:.1f} % inside the training part, quarter 0",
            short(one.detected),
            short(one.false_positives),
        )
        for one in trained.held_out_groups
    ]
    rows += [
        (
            f"wrappers and techniques unseen, for {100 * one.wanted:.1f} %",
            short(one.detected),
            short(one.false_positives),
        )
        for one in trained.unseen_techniques
    ]
    return markdown_table((("threshold", "found", "wrong"), rows))


# --- side by side -------------------------------------------------------------------------------------------------


def _side_by_side(found: Documents) -> str:
    texts, peers = _texts(found), _peers(found)
    columns = (
        "guardrails",
        "attacks noticed",
        "attacks: a call with their words is held or the run is ended",
        "honest texts noticed",
        "honest texts: an unrelated call is held",
        "honest texts: the run is ended",
        "what happens to a flagged result",
    )
    rows: list[Sequence[str]] = [
        (
            f"Callboard, **{row.name}**",
            short(row.attacks.detected),
            short(row.attacks.carried),
            short(row.benign.detected),
            short(row.benign.unrelated),
            "never",
            _OURS.get(row.name, "calls ask"),
        )
        for row in texts.rows
    ]
    rows += [
        (
            f"{peers.peer} {peers.version}, **{row.name}**",
            short(row.attacks.detected),
            short(row.attacks.acted),
            short(row.benign.detected),
            short(row.benign.asked),
            short(row.benign.ended),
            _THEIRS.get(row.name, "–"),
        )
        for row in peers.rows
    ]
    return markdown_table((columns, rows))


_OURS: Final[Mapping[str, str]] = {
    "off": "nothing",
    "validation": "nothing",
    "lenient": "recorded",
    "standard": "recorded; from the third on, calls with an effect ask",
    "strict": "calls with an effect ask",
}
_THEIRS: Final[Mapping[str, str]] = {
    "off": "nothing",
    "validation": "not looked for; the third piece of personal data makes calls ask",
    "lenient": "recorded; the text still reaches the model; the fifth hit makes calls ask",
    "standard": "from confidence 0.85 on the run is ended; the third hit makes calls ask",
    "strict": "every later call asks; in a goal, the run is ended",
}


def _peer_profiles(found: Documents) -> str:
    return markdown_table(peer_table(_peers(found)))


def _peer_kinds(found: Documents) -> str:
    return markdown_table(peer_kind_table(_peers(found)))


def _detection_words(found: Documents) -> str:
    across = found["detector"]["unseen_groups"]
    detected, wrong = found_in(across, "detected"), found_in(across, "false_positives")
    unseen = [one for one in _trained(found).unseen_sources if one.detected]
    total = _together([one.detected for one in unseen if one.detected])
    false = _together([one.false_positives for one in _trained(found).unseen_sources if one.false_positives])
    return wrapped(
        f"Of groups that it did not see, from sources that it knows, it finds **{_said(detected)}** of attacks at "
        f"**{_said(wrong)}** false positives. Of sources that it did not see, taken together, it finds {short(total)} "
        f"at {short(false)}."
    )


def _together(rates: Sequence[Rate]) -> Rate:
    return rate(sum(one.count for one in rates), sum(one.of for one in rates))


def _said(one: Rate | None) -> str:
    return "–" if one is None else short(one)


def _texts(found: Documents) -> TextReport:
    return _as(found["guardrails"], TextReport)


def _trained(found: Documents) -> TrainingReport:
    return _as(found["detector"], TrainingReport)


def _peers(found: Documents) -> PeerReport:
    return _as(found["peers"], PeerReport)


def _as(document: Mapping[str, Any], kind: type[T]) -> T:
    return msgspec.convert(dict(document), kind)


TEXT_PARTS: Final[Mapping[str, Part]] = {
    "signals": (("guardrails",), _signals),
    "kinds": (("guardrails", "detector"), _kinds),
    "profiles": (("guardrails",), _profiles),
    "sources": (("guardrails",), _sources),
    "unseen": (("detector",), _unseen),
    "thresholds": (("detector",), _thresholds),
    "detection-words": (("detector",), _detection_words),
    "side-by-side": (("guardrails", "peers"), _side_by_side),
    "peer-profiles": (("peers",), _peer_profiles),
    "peer-kinds": (("peers",), _peer_kinds),
}
