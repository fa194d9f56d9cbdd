"""From labelled texts to the weights of `callboard.actors.guard.classifier`: what is learned, and how it is measured.

The features are the classifier's own, so that what is trained is what runs. A text is cut into the classifier's
windows. Every window of a benign text is benign; of an attack's windows only the one that the model so far holds for
the most likely counts, because most of a long text around an injection is innocent. Before the model is fitted, each
feature is weighted by how unevenly the two sides have it, so that what is common to both says little from the start.

Invariant: the same rows give the same bytes, in whatever order they come; so rows are sorted, and numbers that reach
the file are rounded to what it can hold.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, Final

import msgspec

from callboard.actors.guard.classifier import BUCKETS, Detector, features, windows
from callboard.evals.dataset import Corpus, Row, by_group, fold_of
from callboard.evals.packages import load
from callboard.evals.rates import rate
from callboard.mailbox.errors import UsageError

INSTALL: Final = '"callboard[evals]"'
INVERSE_REGULARISATION: Final = 100.0
SMOOTHING: Final = 0.001
"""Of how often a feature occurs: what one that one side never has counts as."""
ROUNDS: Final = 2
FALSE_POSITIVE_RATES: Final = (0.005, 0.01, 0.02, 0.05)


Vector = tuple[int, ...]
"""The indices of the features that a window has."""
Example = tuple[Vector, bool]
"""A window, and whether it is hostile."""


class Labelled(msgspec.Struct, frozen=True):
    """A row as vectors: one per window, each the indices of its features."""

    row: Row
    hostile: bool
    vectors: tuple[Vector, ...]


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


def _examples(rows: Sequence[Labelled], weights: Weights | None) -> list[Example]:
    found: list[Example] = []
    unsure: list[list[Vector]] = []
    for row in rows:
        vectors = [vector for vector in row.vectors if vector]
        if not row.hostile or len(vectors) == 1:
            found += [(vector, row.hostile) for vector in vectors]
        else:
            unsure.append(vectors)
    if weights is not None:
        found += [(vectors[worst], True) for vectors, worst in zip(unsure, _worst(weights, unsure), strict=True)]
    if not any(hostile for _, hostile in found):  # no short attack to begin with
        found += [(vector, True) for vectors in unsure for vector in vectors]
    return found


def _worst(weights: Weights, texts: Sequence[Sequence[Vector]]) -> list[int]:
    """Of each text: which of its windows is the most hostile one, the first of several."""
    parts = _parted(margins(weights, [vector for vectors in texts for vector in vectors]), map(len, texts))
    return [max(range(len(part)), key=part.__getitem__) for part in parts]


def _parted(values: Sequence[float], lengths: Iterable[int]) -> Iterator[Sequence[float]]:
    start = 0
    for length in lengths:
        yield values[start : start + length]
        start += length


def _fit(examples: Sequence[Example]) -> Weights:
    linear, sparse, numpy = (load(name, INSTALL) for name in ("sklearn.linear_model", "scipy.sparse", "numpy"))
    whole, hostile = _matrix([vector for vector, _ in examples]), [one for _, one in examples]
    used = numpy.unique(whole.indices)  # most buckets are empty; their weights are 0
    matrix = whole[:, used]
    model = linear.LogisticRegression(
        C=INVERSE_REGULARISATION, class_weight="balanced", solver="liblinear", random_state=0, max_iter=1000
    )
    uneven = _unevenness(matrix, hostile)
    model.fit(matrix @ sparse.diags_array(uneven), [int(one) for one in hostile])
    values = [0.0] * BUCKETS
    for index, value, weight in zip(used, model.coef_[0], uneven, strict=True):
        values[index] = round(float(value) * weight, 6)  # what differs beyond that differs between processors
    return Weights(tuple(values), round(float(model.intercept_[0]), 6))


def _unevenness(matrix: Any, hostile: Sequence[bool]) -> list[float]:
    """Of each feature: how far apart the shares of hostile and of benign windows that have it are, as a logarithm."""
    sides = []
    for side in (True, False):
        rows = [place for place, one in enumerate(hostile) if one == side]
        sides.append([int(count) / len(rows) + SMOOTHING for count in matrix[rows].getnnz(axis=0)])
    return [round(abs(math.log(bad / good)), 9) for bad, good in zip(*sides, strict=True)]


def _matrix(vectors: Sequence[Vector]) -> Any:
    sparse, numpy = load("scipy.sparse", INSTALL), load("numpy", INSTALL)
    lengths = numpy.fromiter(map(len, vectors), dtype=numpy.int64, count=len(vectors))
    columns = numpy.fromiter(chain.from_iterable(vectors), dtype=numpy.int64, count=int(lengths.sum()))
    values = numpy.repeat(1.0 / numpy.sqrt(numpy.maximum(lengths, 1)), lengths)
    starts = numpy.concatenate(([0], numpy.cumsum(lengths)))
    return sparse.csr_matrix((values, columns, starts), shape=(len(vectors), BUCKETS))


def margins(weights: Weights, vectors: Sequence[Vector]) -> list[float]:
    """How far each window lies on the hostile side; below 0 it is on the other, and an empty one at -30."""
    if not vectors:
        return []
    numpy = load("numpy", INSTALL)
    found = _matrix(vectors) @ numpy.array(weights.values) + weights.bias
    return [float(value) if vector else -30.0 for value, vector in zip(found, vectors, strict=True)]


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
    """Rows scored by one model: the margin of a text is that of its most hostile window."""
    given = list(rows)
    found = margins(weights, [vector for row in given for vector in row.vectors])
    parts = _parted(found, (len(row.vectors) for row in given))
    return {row.row.id: max(part) for row, part in zip(given, parts, strict=True)}


def threshold_for(scores: Iterable[float], false_positive_rate: float) -> float:
    """The margin that at most this share of benign scores lie at or above; infinite for no score at all."""
    given = list(scores)
    return _threshold(given, int(len(given) * false_positive_rate))


def sure_threshold(scores: Iterable[float], limit: float) -> float:
    """The margin for which false positives are surely no more than `limit`: their whole 95 % interval lies below.

    Where there are too few scores to be sure of anything, none of them lies at or above it; infinite for no score.
    """
    given = list(scores)
    allowed = 0
    while allowed < len(given) and rate(allowed + 1, len(given)).high <= limit:
        allowed += 1
    return _threshold(given, allowed)


def _threshold(scores: list[float], allowed: int) -> float:
    if not scores:
        return float("inf")
    return round(sorted(scores, reverse=True)[min(allowed, len(scores) - 1)] + 1e-6, 6)


def packed(weights: Weights, threshold_margin: float, trained_on: str) -> Detector:
    """The model as the runtime reads it; the threshold becomes a probability there."""
    probability = 1.0 / (1.0 + math.exp(-max(-30.0, min(30.0, threshold_margin))))
    return Detector.quantised(weights.values, weights.bias, threshold=round(probability, 4), trained_on=trained_on)
