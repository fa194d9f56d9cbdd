"""From labelled texts to the weights of `callboard.actors.guard.classifier`: what is learned, and how it is measured.

The features are the classifier's own, so that what is trained is what runs. A text is cut into the classifier's
windows. Every window of a benign text is benign; of an attack's windows only the one that the model so far holds for
the most likely counts, because most of a long text around an injection is innocent.

Invariant: the same rows give the same bytes, in whatever order they come; so rows are sorted, and numbers that reach
the file are rounded to what it can hold.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import msgspec

from callboard.actors.guard.classifier import BUCKETS, Detector, features, windows
from callboard.evals.dataset import Corpus, Row, by_group, fold_of
from callboard.evals.packages import load
from callboard.mailbox.errors import UsageError

INSTALL: Final = '"callboard[evals]"'
INVERSE_REGULARISATION: Final = 100.0
"""Measured by group on the development split: 10 finds 68 % at 1 % false positives, 100 finds 73 %."""
ROUNDS: Final = 2
FALSE_POSITIVE_RATES: Final = (0.005, 0.01, 0.02, 0.05)


class Labelled(msgspec.Struct, frozen=True):
    """A row as vectors: one per window, each the indices of its features."""

    row: Row
    hostile: bool
    vectors: tuple[tuple[int, ...], ...]


class Weights(msgspec.Struct, frozen=True):
    """A trained model before it is packed."""

    values: tuple[float, ...]
    bias: float


def labelled(corpus: Corpus) -> list[Labelled]:
    """All rows with their features, attacks first, each list in order of id."""
    found = [*((row, True) for row in corpus.attacks), *((row, False) for row in corpus.benign)]
    return [
        Labelled(row, hostile, tuple(tuple(features(part)) for part in windows(row.text))) for row, hostile in found
    ]


def fit(rows: Sequence[Labelled]) -> Weights:
    """Train on these rows.

    Raises:
        UsageError: only attacks, or only benign texts, or nothing to tell them apart by.
        MissingPackage: scikit-learn is not installed.
    """
    rows = sorted((row for row in rows if any(row.vectors)), key=lambda one: (one.hostile, one.row.id))
    if len({row.hostile for row in rows}) < 2:
        raise UsageError("training needs attacks and benign texts; these rows are all of one sort")
    weights: Weights | None = None
    for _ in range(ROUNDS):
        weights = _fit(_examples(rows, weights))
    assert weights is not None
    return weights


def _examples(rows: Sequence[Labelled], weights: Weights | None) -> list[tuple[tuple[int, ...], bool]]:
    found: list[tuple[tuple[int, ...], bool]] = []
    for row in rows:
        vectors = [vector for vector in row.vectors if vector]
        if not row.hostile or len(vectors) == 1:
            found += [(vector, row.hostile) for vector in vectors]
        elif weights is not None:
            found.append((max(vectors, key=lambda vector: margin(weights, vector)), True))
    if not any(hostile for _, hostile in found):  # no short attack to begin with
        found += [(vector, True) for row in rows if row.hostile for vector in row.vectors if vector]
    return found


def _fit(examples: Sequence[tuple[tuple[int, ...], bool]]) -> Weights:
    linear = load("sklearn.linear_model", INSTALL)
    vectors = [vector for vector, _ in examples]
    model = linear.LogisticRegression(
        C=INVERSE_REGULARISATION, class_weight="balanced", solver="liblinear", random_state=0, max_iter=1000
    )
    model.fit(_matrix(vectors), [int(hostile) for _, hostile in examples])
    # 6 digits: what differs beyond that differs between processors.
    return Weights(tuple(round(float(value), 6) for value in model.coef_[0]), round(float(model.intercept_[0]), 6))


def _matrix(vectors: Sequence[Sequence[int]]) -> Any:
    sparse = load("scipy.sparse", INSTALL)
    values = [1.0 / math.sqrt(len(vector)) for vector in vectors for _ in vector]
    columns = [index for vector in vectors for index in vector]
    starts = [0]
    for vector in vectors:
        starts.append(starts[-1] + len(vector))
    return sparse.csr_matrix((values, columns, starts), shape=(len(vectors), BUCKETS))


def margin(weights: Weights, vector: Sequence[int]) -> float:
    """How far a window lies on the hostile side; below 0 it is on the other."""
    if not vector:
        return -30.0
    values = weights.values
    return weights.bias + sum(values[index] for index in vector) / math.sqrt(len(vector))


def score(weights: Weights, row: Labelled) -> float:
    """The margin of a text: that of its most hostile window."""
    return max(margin(weights, vector) for vector in row.vectors)


Scores = dict[str, float]
"""Margin by row id; ids of attacks and of benign texts must differ."""


def cross_scores(rows: Sequence[Labelled], key: Callable[[Row], str] = by_group, folds: int = 3) -> Scores:
    """Every row scored by a model that saw no row with the same key."""
    found: Scores = {}
    for fold in range(folds):
        out = [row for row in rows if fold_of(f"cross:{key(row.row)}", folds) == fold]
        if out:
            kept = [row for row in rows if fold_of(f"cross:{key(row.row)}", folds) != fold]
            found.update(scores_of(fit(kept), out))
    return found


def scores_of(weights: Weights, rows: Iterable[Labelled]) -> Scores:
    """Rows scored by one model."""
    return {row.row.id: score(weights, row) for row in rows}


def threshold_for(scores: Iterable[float], false_positive_rate: float) -> float:
    """The margin that at most this share of benign scores lie at or above; infinite for no score at all."""
    ordered = sorted(scores, reverse=True)
    allowed = int(len(ordered) * false_positive_rate)
    if not ordered:
        return float("inf")
    return round(ordered[min(allowed, len(ordered) - 1)] + 1e-6, 6)


def packed(weights: Weights, threshold_margin: float, trained_on: str) -> Detector:
    """The model as the runtime reads it; the threshold becomes a probability there."""
    probability = 1.0 / (1.0 + math.exp(-max(-30.0, min(30.0, threshold_margin))))
    return Detector.quantised(weights.values, weights.bias, threshold=round(probability, 6), trained_on=trained_on)
