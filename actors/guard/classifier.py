"""A small detector of injected instructions: logistic regression over hashed words and letters, in plain Python.

It is one signal among others and never decides alone. The features and the file are fixed here; the weights are trained
elsewhere and read from `detector.bin` beside this module. Without that file there is no signal.

The file: a line `callboard-detector 1`, a line of JSON (`Header`), and `buckets` weights of one signed byte each,
compressed with zlib. A text's score is `bias + scale * sum(weights of its features) / sqrt(number of its features)`.
"""

import math
import re
import zlib
from array import array
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Final

import msgspec

from ...mailbox.errors import UsageError
from .folding import fold

BUCKETS: Final = 1 << 17
MAX_BUCKETS: Final = 1 << 24
WINDOW_WORDS: Final = 32
"""About two sentences: of the sizes from 20 to 160, the one that knows most attacks of groups it was not trained on."""
STRIDE_WORDS: Final = 16
MAX_WINDOWS: Final = 1_000
"""Of one text; of a longer one, windows evenly spread over it."""
MAX_WORD_CHARS: Final = 40
"""A longer run of letters (base64, hashes) is cut into words of this length."""
MAGIC: Final = b"callboard-detector 1\n"
PATH: Final = Path(__file__).with_name("detector.bin")

_WORD = re.compile(rf"\w{{1,{MAX_WORD_CHARS}}}|[<>\[\]{{}}#*=:!]{{2,8}}")


class Header(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is known of a detector's weights."""

    buckets: int
    bias: float
    scale: float
    """What a weight of 1 stands for."""
    threshold: float
    """Probability from which a text counts as a hit."""
    trained_on: str = ""
    """In words: which data, how many rows, what was measured."""


def features(text: str, buckets: int = BUCKETS) -> list[int]:
    """Indices of the features that a text (of one window) has, each once, in order.

    Words and pairs of neighbouring words of the folded text, and runs of 3 to 5 letters within each word with its ends.
    Every one of them is 0 or 1; the vector's length is made 1 by dividing by the square root of their number.
    """
    return sorted(_indices(_WORD.findall(fold(text)), buckets))


def _indices(words: Sequence[str], buckets: int) -> set[int]:
    found: set[int] = set()
    mask = buckets - 1
    for word in words:
        found.update(_of_word(word, mask))
    for one, two in pairwise(words):
        found.add(zlib.crc32(f"w:{one} {two}".encode(errors="surrogatepass")) & mask)
    return found


@lru_cache(maxsize=16_384)
def _of_word(word: str, mask: int) -> tuple[int, ...]:
    padded = f" {word} "
    grams = [f"w:{word}"]
    grams += [f"c:{padded[at : at + size]}" for size in (3, 4, 5) for at in range(len(padded) - size + 1)]
    return tuple({zlib.crc32(gram.encode(errors="surrogatepass")) & mask for gram in grams})


def windows(text: str) -> list[str]:
    """The parts of a text that are scored each for itself, so that a sentence is not lost in a long text."""
    return [" ".join(words) for words in _windows(_WORD.findall(fold(text)))]


def _windows(words: list[str]) -> Iterator[list[str]]:
    if len(words) <= WINDOW_WORDS:
        yield words
        return
    count = math.ceil((len(words) - WINDOW_WORDS) / STRIDE_WORDS) + 1
    stride = STRIDE_WORDS if count <= MAX_WINDOWS else (len(words) - WINDOW_WORDS) // (MAX_WINDOWS - 1)
    for start in range(0, len(words) - WINDOW_WORDS + stride, stride):
        yield words[start : start + WINDOW_WORDS]


def _unpacked(packed: bytes, buckets: int) -> bytes:
    """The weights. Bounded: a file of a few kilobytes could unpack to all of the memory.

    Raises:
        zlib.error: there is no such number of weights in it.
    """
    if not 0 < buckets <= MAX_BUCKETS:
        raise zlib.error(f"1 to {MAX_BUCKETS} buckets are possible, not {buckets}")
    reader = zlib.decompressobj()
    found = reader.decompress(packed, buckets + 1)
    if len(found) > buckets or not reader.eof:
        raise zlib.error(f"expected {buckets} weights, and it has {len(found)} or more")
    return found


class Detector:
    """Scores texts."""

    def __init__(self, header: Header, weights: Sequence[int]) -> None:
        if len(weights) != header.buckets or header.buckets & (header.buckets - 1):
            raise UsageError(f"a detector of {header.buckets} buckets (a power of two) has {len(weights)} weights")
        self.header = header
        self._weights = array("b", weights)

    @classmethod
    def quantised(
        cls, weights: Sequence[float], bias: float, *, threshold: float = 0.5, trained_on: str = ""
    ) -> "Detector":
        """A detector of trained weights, each rounded to one of 255 steps."""
        largest = max((abs(weight) for weight in weights), default=0.0) or 1.0
        scale = float(f"{largest / 127:.5g}")  # what differs beyond that differs between processors
        header = Header(len(weights), bias, scale, threshold, trained_on)
        return cls(header, [round(weight / scale) for weight in weights])

    @classmethod
    def loads(cls, data: bytes) -> "Detector":
        """Read the file's bytes.

        Raises:
            UsageError: they are not a detector's.
        """
        if not data.startswith(MAGIC):
            raise UsageError(f"not a detector: it begins with {data[:24]!r}, expected {MAGIC!r}")
        line, _, packed = data[len(MAGIC) :].partition(b"\n")
        try:
            header = msgspec.json.decode(line, type=Header)
            weights = array("b", _unpacked(packed, header.buckets))
        except (msgspec.MsgspecError, zlib.error) as error:
            raise UsageError(f"a damaged detector: {error}") from error
        return cls(header, weights)

    def dumps(self) -> bytes:
        """The file's bytes; equal detectors have equal ones."""
        return MAGIC + msgspec.json.encode(self.header) + b"\n" + zlib.compress(self._weights.tobytes(), 9)

    @property
    def threshold(self) -> float:
        """Probability from which a text counts as a hit."""
        return self.header.threshold

    def score(self, text: str) -> float:
        """How likely it is, from 0 to 1, that the text holds instructions to the reader: the highest of its windows."""
        return max(self._score(words) for words in _windows(_WORD.findall(fold(text))))

    def _score(self, words: Sequence[str]) -> float:
        indices = _indices(words, self.header.buckets)
        if not indices:
            return 0.0
        weights = self._weights
        total = sum(weights[index] for index in indices)
        margin = self.header.bias + self.header.scale * total / math.sqrt(len(indices))
        return 1.0 / (1.0 + math.exp(-max(-30.0, min(30.0, margin))))


@lru_cache(maxsize=4)
def load_detector(path: Path = PATH) -> Detector | None:
    """The detector in a file; None where there is no such file. Read once.

    Raises:
        UsageError: the file is there, and is no detector.
    """
    return Detector.loads(path.read_bytes()) if path.is_file() else None
