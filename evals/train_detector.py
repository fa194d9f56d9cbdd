"""Train the small detector of injected instructions: `python -m callboard.evals.train_detector --data PATH`.

It is trained on three quarters of the groups and reported on the last one, which it never sees; its threshold is chosen
inside the training part. What it makes of a *source* it never saw is reported beside that, because that, and not the
held out groups, is what a new attacker looks like.
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
from callboard.evals.dataset import Row, by_source, by_technique, is_held_out, read_corpus
from callboard.evals.learning import FALSE_POSITIVE_RATES, Labelled, Scores
from callboard.evals.rates import Rate, percent, rate_of
from callboard.mailbox.errors import CallboardError

CHOSEN_RATE: Final = 0.01
"""Of benign texts, how many may be hits by the threshold in the file."""


class AtThreshold(msgspec.Struct, frozen=True):
    """What a threshold finds. `wanted` is the rate of false positives that it was chosen for."""

    wanted: float
    detected: Rate
    false_positives: Rate
    by_kind: dict[str, Rate]
    """Of attacks and of benign texts, whose kinds differ."""


class Unseen(msgspec.Struct, frozen=True):
    """What a model finds of a source that it was trained without, at the threshold for 1 % of the others."""

    source: str
    detected: Rate | None = None
    false_positives: Rate | None = None


class TrainingReport(msgspec.Struct, frozen=True):
    """Everything that was measured while training."""

    trained_on: str
    held_out_groups: list[AtThreshold]
    unseen_techniques: list[AtThreshold]
    """Every row scored by a model without that wrapper or technique, at thresholds of these very scores."""
    unseen_sources: list[Unseen]
    schema: str = "callboard.eval.detector/1"


def train(rows: Sequence[Labelled]) -> tuple[Detector, TrainingReport]:
    """The detector for these rows, and what it can do.

    Raises:
        UsageError, MissingPackage: as `learning.fit`.
    """
    training = [row for row in rows if not is_held_out(row.row)]
    held_out = [row for row in rows if is_held_out(row.row)]
    inside = learning.cross_scores(training)
    thresholds = {wanted: _threshold(training, inside, wanted) for wanted in FALSE_POSITIVE_RATES}
    weights = learning.fit(training)
    said = (
        f"{sum(row.hostile for row in training)} attacks and {sum(not row.hostile for row in training)} benign texts; "
        f"threshold for {100 * CHOSEN_RATE:.0f} % false positives inside the training part"
    )
    detector = learning.packed(weights, thresholds[CHOSEN_RATE], said)
    scores = learning.scores_of(weights, held_out)
    technique = learning.cross_scores(rows, by_technique)
    across = learning.cross_scores(rows)
    report = TrainingReport(
        said,
        [_at(held_out, scores, wanted, thresholds[wanted]) for wanted in FALSE_POSITIVE_RATES],
        [_at(rows, technique, wanted, _threshold(rows, technique, wanted)) for wanted in FALSE_POSITIVE_RATES],
        [_without(rows, across, source) for source in sorted({row.row.source for row in rows})],
    )
    return detector, report


def _threshold(rows: Sequence[Labelled], scores: Scores, wanted: float) -> float:
    return learning.threshold_for((scores[row.row.id] for row in rows if not row.hostile), wanted)


def _at(rows: Sequence[Labelled], scores: Scores, wanted: float, threshold: float) -> AtThreshold:
    hits = {row.row.id: scores[row.row.id] >= threshold for row in rows}
    kinds: dict[str, list[Row]] = {}
    for row in rows:
        kinds.setdefault(row.row.kind, []).append(row.row)
    return AtThreshold(
        wanted,
        rate_of(hits[row.row.id] for row in rows if row.hostile),
        rate_of(hits[row.row.id] for row in rows if not row.hostile),
        {kind: rate_of(hits[row.id] for row in part) for kind, part in sorted(kinds.items())},
    )


def _without(rows: Sequence[Labelled], across: Scores, source: str) -> Unseen:
    others = [row for row in rows if by_source(row.row) != source]
    left_out = [row for row in rows if by_source(row.row) == source]
    if len({row.hostile for row in others}) < 2:
        return Unseen(source)
    weights = learning.fit(others)
    # Chosen on scores across groups: a model's scores of its own training rows would flatter every threshold.
    threshold = _threshold(others, across, CHOSEN_RATE)
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
    for unseen in report.unseen_sources:
        for what, share in (("found", unseen.detected), ("wrong", unseen.false_positives)):
            if share is not None:
                sys.stdout.write(f"unseen {unseen.source}: {what} {percent(share)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
