"""Train the small detector of injected instructions: `python -m callboard.evals.train_detector --data PATH`.

It is trained on three quarters of the groups and reported on the last one, which it never sees; its threshold is chosen
inside the training part. The same is done with each quarter in turn, so that every group is unseen once. What it makes
of a *source* it never saw is reported beside that, because that, and not an unseen group, is what a new attacker looks
like.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from callboard.actors.guard import classifier
from callboard.actors.guard.classifier import Detector
from callboard.evals import learning
from callboard.evals.dataset import (
    FOLDS,
    HELD_OUT_FOLD,
    by_kind,
    by_source,
    by_technique,
    fold_of,
    is_held_out,
    parted,
    read_corpus,
)
from callboard.evals.learning import FALSE_POSITIVE_RATES, Labelled, Scores
from callboard.evals.rates import Rate, percent, rate_of
from callboard.mailbox.errors import CallboardError

LIMIT: Final = 0.01
"""Of benign texts, how many may be hits. The threshold in the file is the one for which the whole interval of the false
positives inside the training part lies below it: one for just 1 % there lets more than 1 % pass elsewhere every second
time."""


class AtThreshold(msgspec.Struct, frozen=True):
    """What a threshold finds. `wanted` is the rate of false positives that it was chosen for on other texts."""

    wanted: float
    detected: Rate
    false_positives: Rate
    by_kind: dict[str, Rate]
    """Of attacks and of benign texts, whose kinds differ."""


class GroupCell(msgspec.Struct, frozen=True):
    """What is found in texts of one kind from one source."""

    kind: str
    source: str
    hostile: bool
    found: Rate


class UnseenGroups(msgspec.Struct, frozen=True):
    """Every group scored by a model, and held against a threshold, that were made without its quarter of the groups."""

    limit: float
    """The thresholds are those that surely have no more false positives inside the other quarters."""
    detected: Rate
    false_positives: Rate
    by_quarter: list[AtThreshold]
    """The first is what the detector in the file makes of the groups that it was not trained on."""
    by_kind: dict[str, Rate]
    cells: list[GroupCell]


class Unseen(msgspec.Struct, frozen=True):
    """What a model finds of a source that it was trained without, at the threshold chosen for the others."""

    source: str
    detected: Rate | None = None
    false_positives: Rate | None = None


class TrainingReport(msgspec.Struct, frozen=True):
    """Everything that was measured while training."""

    trained_on: str
    held_out_groups: list[AtThreshold]
    unseen_groups: UnseenGroups
    unseen_techniques: list[AtThreshold]
    """Every row scored by a model without that wrapper or technique, at thresholds of these very scores."""
    unseen_sources: list[Unseen]
    schema: str = "callboard.eval.detector/1"


def train(rows: Sequence[Labelled]) -> tuple[Detector, TrainingReport]:
    """The detector for these rows, and what it can do.

    Raises:
        UsageError, MissingPackage: as `learning.fit`.
    """
    quarters = [_Quarter.of(rows, fold) for fold in range(FOLDS)]
    kept = quarters[HELD_OUT_FOLD]
    training = [row for row in rows if not is_held_out(row.row)]
    said = (
        f"{sum(row.hostile for row in training)} attacks and {sum(not row.hostile for row in training)} benign texts; "
        f"threshold for surely no more than {100 * LIMIT:.0f} % false positives inside the training part"
    )
    technique = learning.cross_scores(rows, by_technique)
    across = learning.cross_scores(rows)
    report = TrainingReport(
        said,
        [kept.at(wanted) for wanted in FALSE_POSITIVE_RATES],
        _unseen_groups(quarters),
        [_at(rows, technique, wanted, _threshold(rows, technique, wanted)) for wanted in FALSE_POSITIVE_RATES],
        [_without(rows, across, source) for source in sorted({row.row.source for row in rows})],
    )
    return learning.packed(kept.weights, kept.chosen, said), report


class _Quarter(msgspec.Struct, frozen=True):
    """One fold of the groups, and the model and thresholds that the other folds give."""

    rows: list[Labelled]
    weights: learning.Weights
    scores: Scores
    thresholds: dict[float, float]
    chosen: float

    @classmethod
    def of(cls, rows: Sequence[Labelled], fold: int) -> "_Quarter":
        """Train and choose without it."""
        out = [row for row in rows if fold_of(row.row.group) == fold]
        kept = [row for row in rows if fold_of(row.row.group) != fold]
        inside = learning.cross_scores(kept)
        weights = learning.fit(kept)
        thresholds = {wanted: _threshold(kept, inside, wanted) for wanted in FALSE_POSITIVE_RATES}
        return cls(out, weights, learning.scores_of(weights, out), thresholds, _chosen(kept, inside))

    def at(self, wanted: float) -> AtThreshold:
        """What the threshold for that rate makes of it."""
        return _at(self.rows, self.scores, wanted, self.thresholds[wanted])

    def hits(self) -> dict[str, bool]:
        """Whether each of its texts is a hit, at the chosen threshold."""
        return {name: score >= self.chosen for name, score in self.scores.items()}


def _unseen_groups(quarters: Sequence[_Quarter]) -> UnseenGroups:
    hits = {name: hit for quarter in quarters for name, hit in quarter.hits().items()}
    rows = sorted((row for quarter in quarters for row in quarter.rows), key=lambda row: (not row.hostile, row.row.id))

    def found(hostile: bool) -> Rate:
        return rate_of(hits[row.row.id] for row in rows if row.hostile == hostile)

    kinds = parted((row.row for row in rows), by_kind)
    hostile = {row.row.kind for row in rows if row.hostile}
    return UnseenGroups(
        LIMIT,
        found(True),
        found(False),
        [_at(quarter.rows, quarter.scores, LIMIT, quarter.chosen) for quarter in quarters],
        {kind: rate_of(hits[row.id] for row in part) for kind, part in kinds.items()},
        [
            GroupCell(kind, source, kind in hostile, rate_of(hits[row.id] for row in cell))
            for kind, part in kinds.items()
            for source, cell in parted(part, by_source).items()
        ],
    )


def _threshold(rows: Sequence[Labelled], scores: Scores, wanted: float) -> float:
    return learning.threshold_for((scores[row.row.id] for row in rows if not row.hostile), wanted)


def _chosen(rows: Sequence[Labelled], scores: Scores) -> float:
    return learning.sure_threshold((scores[row.row.id] for row in rows if not row.hostile), LIMIT)


def _at(rows: Sequence[Labelled], scores: Scores, wanted: float, threshold: float) -> AtThreshold:
    hits = {row.row.id: scores[row.row.id] >= threshold for row in rows}
    kinds = parted((row.row for row in rows), by_kind)
    return AtThreshold(
        wanted,
        rate_of(hits[row.row.id] for row in rows if row.hostile),
        rate_of(hits[row.row.id] for row in rows if not row.hostile),
        {kind: rate_of(hits[row.id] for row in part) for kind, part in kinds.items()},
    )


def _without(rows: Sequence[Labelled], across: Scores, source: str) -> Unseen:
    others = [row for row in rows if by_source(row.row) != source]
    left_out = [row for row in rows if by_source(row.row) == source]
    if len({row.hostile for row in others}) < 2:
        return Unseen(source)
    weights = learning.fit(others)
    # Chosen on scores across groups: a model's scores of its own training rows would flatter every threshold.
    threshold = _chosen(others, across)
    scores = learning.scores_of(weights, left_out)
    hostile = [scores[row.row.id] >= threshold for row in left_out if row.hostile]
    benign = [scores[row.row.id] >= threshold for row in left_out if not row.hostile]
    return Unseen(source, rate_of(hostile) if hostile else None, rate_of(benign) if benign else None)


def main(arguments: Sequence[str] | None = None) -> int:
    """Read, train, write the file, and print the report; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m callboard.evals.train_detector", description=train.__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder with attacks.jsonl and benign.jsonl")
    parser.add_argument("--out", type=Path, default=classifier.PATH, help="where the weights go")
    parser.add_argument("--report", type=Path, help="where the report goes, as JSON")
    options = parser.parse_args(arguments)
    try:
        detector, report = train(learning.labelled(read_corpus(options.data)))
    except CallboardError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    data = detector.dumps()
    options.out.write_bytes(data)
    if options.report:
        options.report.write_bytes(msgspec.json.format(msgspec.json.encode(report), indent=1) + b"\n")
    sys.stdout.write(f"{options.out}: {len(data):,} bytes; trained on {report.trained_on}\n")
    for one in report.held_out_groups:
        sys.stdout.write(
            f"held out groups, for {100 * one.wanted:.1f} %: found {percent(one.detected)}, "
            f"wrong {percent(one.false_positives)}\n"
        )
    kept, across = report.unseen_groups.by_quarter[HELD_OUT_FOLD], report.unseen_groups
    sys.stdout.write(
        f"held out groups, as chosen: found {percent(kept.detected)}, wrong {percent(kept.false_positives)}\n"
    )
    sys.stdout.write(
        f"every group unseen once: found {percent(across.detected)}, wrong {percent(across.false_positives)}\n"
    )
    for unseen in report.unseen_sources:
        for what, share in (("found", unseen.detected), ("wrong", unseen.false_positives)):
            if share is not None:
                sys.stdout.write(f"unseen {unseen.source}: {what} {percent(share)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
