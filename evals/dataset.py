"""Texts to measure guardrails with: attacks and benign rows, read from a folder that the project does not hold.

A row names its *group*: what was made from one template, one goal or one document. Splits go by group, so that no
detector is praised for remembering a template. Which side a group lies on is a function of its name alone, so it is the
same on every machine and stays when rows are added.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from callboard.mailbox.errors import UsageError

ATTACKS_FILE: Final = "attacks.jsonl"
BENIGN_FILE: Final = "benign.jsonl"
MAX_LINE_BYTES: Final = 1 << 20
MAX_ROWS: Final = 200_000
FOLDS: Final = 4
HELD_OUT_FOLD: Final = 0
"""Groups of this fold are never trained on: a quarter of them."""


class BadDataset(UsageError):
    """The data cannot be read; the sentence names the file and the line."""


class Row(msgspec.Struct, frozen=True):
    """One text."""

    id: str
    text: str
    source: str
    """Where it was taken from: a corpus and its version."""
    kind: str
    """How it reaches a model: `direct_injection`, `indirect_tool_output`, …; of benign texts, what they are."""
    group: str
    licence: str = ""
    split: str = ""
    attack: str = ""
    """Name of the technique or wrapper."""
    payload: str = ""
    """The part of an attack's text that the attacker wrote, where that is known."""


class Corpus(msgspec.Struct, frozen=True):
    """Everything that is measured, each list in order of id."""

    attacks: tuple[Row, ...]
    benign: tuple[Row, ...]


def read_corpus(folder: Path) -> Corpus:
    """Read `attacks.jsonl` and `benign.jsonl` of `folder`.

    Raises:
        BadDataset: a file is missing, a line is no row or longer than 1 MiB, an id occurs twice, or there are more than
            200,000 rows.
    """
    if not folder.is_dir():
        raise BadDataset(f"{folder} is no folder; give one that holds {ATTACKS_FILE} and {BENIGN_FILE}")
    return Corpus(_read(folder / ATTACKS_FILE), _read(folder / BENIGN_FILE))


def _read(path: Path) -> tuple[Row, ...]:
    rows: dict[str, Row] = {}
    for number, line in _lines(path):
        try:
            row = msgspec.json.decode(line, type=Row)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise BadDataset(f"{path}, line {number}: {error}; a row has id, text, source, kind and group") from None
        if row.id in rows:
            raise BadDataset(f"{path}, line {number}: id {row.id!r:.80} occurs twice")
        if len(rows) == MAX_ROWS:
            raise BadDataset(f"{path} has more than {MAX_ROWS:,} rows; measure a part of it")
        rows[row.id] = row
    if not rows:
        raise BadDataset(f"{path} holds no row")
    return tuple(rows[name] for name in sorted(rows))


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    try:
        with path.open("rb") as file:
            number = 0
            while line := file.readline(MAX_LINE_BYTES + 1):
                number += 1
                if len(line) > MAX_LINE_BYTES:
                    raise BadDataset(f"{path}, line {number} is longer than {MAX_LINE_BYTES:,} bytes")
                if line.strip():
                    yield number, line
    except OSError as error:
        raise BadDataset(f"{path} cannot be read: {error.strerror or error}") from None


def by_group(row: Row) -> str:
    """What was made from one template, goal or document."""
    return row.group


def by_technique(row: Row) -> str:
    """What has one wrapper: its name within its source; rows without a technique by their group."""
    return f"{row.source}:{row.attack}" if row.attack else row.group


def by_source(row: Row) -> str:
    """What comes from one corpus; `cyberseceval` and `cyberseceval-multilingual` are two, as the data has them."""
    return row.source


def by_kind(row: Row) -> str:
    """What reaches a model in one way."""
    return row.kind


def parted(rows: Iterable[Row], key: Callable[[Row], str]) -> dict[str, list[Row]]:
    """The rows by `key`, in order of its name."""
    parts: dict[str, list[Row]] = {}
    for row in rows:
        parts.setdefault(key(row), []).append(row)
    return dict(sorted(parts.items()))


def fold_of(name: str, folds: int = FOLDS) -> int:
    """Which of `folds` parts a group belongs to."""
    return int.from_bytes(hashlib.sha256(name.encode(errors="surrogatepass")).digest()[:8]) % folds


def is_held_out(row: Row) -> bool:
    """Whether a row's group is kept away from training."""
    return fold_of(row.group) == HELD_OUT_FOLD


def divided(rows: Iterable[Row]) -> tuple[list[Row], list[Row]]:
    """The rows to train with, and the held out ones; no group is on both sides."""
    training: list[Row] = []
    held_out: list[Row] = []
    for row in rows:
        (held_out if is_held_out(row) else training).append(row)
    return training, held_out


class Statistics(msgspec.Struct, frozen=True):
    """How much there is of something."""

    name: str
    rows: int
    groups: int
    held_out_rows: int
    characters: int


def statistics(rows: Sequence[Row], key: Callable[[Row], str]) -> list[Statistics]:
    """The rows counted by `key`, in order of name."""
    return [
        Statistics(
            name,
            len(part),
            len({row.group for row in part}),
            sum(is_held_out(row) for row in part),
            sum(len(row.text) for row in part),
        )
        for name, part in parted(rows, key).items()
    ]
