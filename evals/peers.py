"""The same texts before another library's guardrails: `durable-agents`, through its own runtime.

The peer wants a newer Python than Callboard and brings libraries of its own, so it lives in an environment of its own;
`peer_probe.py` is run there, and says for each text and each of the peer's profiles what became of the call that came
after it. Of an attack, *acted on* is that a person is asked or the run is ended; of an honest text the same is a false
positive. The peer has no notion of where a value comes from, so a call that carries the text's words and one that has
nothing to do with it fare alike.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Final, Literal

import msgspec

from callboard.evals.dataset import Corpus, Row, by_kind, by_source, is_held_out, parted
from callboard.evals.guardrails import rows_of
from callboard.evals.packages import MissingPackage
from callboard.evals.parallel import nobody
from callboard.evals.rates import Rate, rate_of
from callboard.mailbox.errors import UsageError

PEER: Final = "durable-agents"
VERSION: Final = "0.1.0"
INSTALL: Final = f"{PEER}=={VERSION}"
PROBE: Final = Path(__file__).with_name("peer_probe.py")
PROFILES: Final = ("off", "validation", "lenient", "standard", "strict")
MAX_SAID_CHARS: Final = 300

Outcome = Literal["went", "asked", "ended"]


class PeerFailed(UsageError):
    """The peer could not be measured; the sentence has its last words."""


class Shares(msgspec.Struct, frozen=True):
    """Texts of one sort under one profile of the peer, as shares."""

    detected: Rate
    """One of its patterns matched, and its profile looks at patterns; by itself that stops nobody."""
    asked: Rate
    """The later call waits for a person."""
    ended: Rate
    """The run is over: nobody is asked, and the work is not done."""
    acted: Rate
    """Asked or ended."""
    on_sign: Rate
    """Acted on, and a pattern had matched; in the others it counted personal data as hits."""


class PeerRow(msgspec.Struct, frozen=True):
    """One of its profiles on all texts."""

    name: str
    attacks: Shares
    benign: Shares
    attacks_held_out: Shares
    benign_held_out: Shares
    attacks_by_kind: dict[str, Shares]
    benign_by_kind: dict[str, Shares]
    attacks_by_source: dict[str, Shares]
    benign_by_source: dict[str, Shares]


class PeerReport(msgspec.Struct, frozen=True):
    """Everything."""

    peer: str
    version: str
    attacks: int
    benign: int
    rows: list[PeerRow]
    schema: str = "callboard.eval.peers/1"


class _Seen(msgspec.Struct, frozen=True, array_like=True):
    outcome: Outcome
    detected: bool


class _Said(msgspec.Struct, frozen=True):
    version: str


Found = dict[str, dict[str, _Seen]]
"""By id of a text, then by profile."""


def measure(corpus: Corpus, python: Path | None = None, *, advance: Callable[[], None] = nobody) -> PeerReport:
    """Put every text before each of the peer's profiles; `python` is the interpreter that has it, ours by default.

    Raises:
        MissingPackage: that interpreter does not have the peer. PeerFailed: it cannot be run, or it broke off.
    """
    rows = rows_of(corpus)
    version, found = _asked(rows, str(python or sys.executable), advance)
    return PeerReport(
        PEER,
        version,
        len(corpus.attacks),
        len(corpus.benign),
        [_row(name, corpus, {row: seen[name] for row, seen in found.items()}) for name in PROFILES],
    )


def _asked(rows: Sequence[Row], python: str, advance: Callable[[], None]) -> tuple[str, Found]:
    with tempfile.TemporaryFile() as texts, tempfile.TemporaryFile() as complaints:
        for row in rows:
            texts.write(json.dumps({"text": row.text, "spoken": row.kind.startswith("direct")}).encode() + b"\n")
        texts.seek(0)
        try:
            # -P: nothing beside the probe may be imported instead of what the probe means.
            probe = subprocess.Popen([python, "-P", str(PROBE)], stdin=texts, stdout=subprocess.PIPE, stderr=complaints)
        except OSError as error:
            raise PeerFailed(f"{python} cannot be run: {error.strerror or error}") from None
        with probe:
            assert probe.stdout is not None
            lines = list(_lines(probe.stdout, advance))
        if probe.returncode or len(lines) != len(rows) + 1:
            raise _broken(python, complaints)
    try:
        said = msgspec.json.decode(lines[0], type=_Said)
        seen = [msgspec.json.decode(line, type=dict[str, _Seen]) for line in lines[1:]]
    except msgspec.DecodeError as error:
        raise PeerFailed(f"{PEER} answered what is no answer: {error}") from None
    return said.version, {row.id: one for row, one in zip(rows, seen, strict=True)}


def _lines(stream: IO[bytes], advance: Callable[[], None]) -> Iterator[bytes]:
    for line in stream:
        yield line
        advance()


def _broken(python: str, complaints: IO[bytes]) -> UsageError:
    complaints.seek(0)
    said = complaints.read().decode(errors="replace").strip().rpartition("\n")[2][:MAX_SAID_CHARS]
    if "ModuleNotFoundError" in said:
        return MissingPackage(
            f"{python} has no {PEER}; give one that does (--peer-python), after: pip install {INSTALL}"
        )
    return PeerFailed(f"{PEER} broke off: {said or 'it said nothing'}")


def _row(name: str, corpus: Corpus, seen: dict[str, _Seen]) -> PeerRow:
    def shares(rows: Iterable[Row]) -> Shares:
        return _shares([seen[row.id] for row in rows])

    def parts(divided: dict[str, list[Row]]) -> dict[str, Shares]:
        return {key: shares(rows) for key, rows in divided.items()}

    return PeerRow(
        name,
        shares(corpus.attacks),
        shares(corpus.benign),
        shares(filter(is_held_out, corpus.attacks)),
        shares(filter(is_held_out, corpus.benign)),
        parts(parted(corpus.attacks, by_kind)),
        parts(parted(corpus.benign, by_kind)),
        parts(parted(corpus.attacks, by_source)),
        parts(parted(corpus.benign, by_source)),
    )


def _shares(seen: Sequence[_Seen]) -> Shares:
    return Shares(
        rate_of(one.detected for one in seen),
        rate_of(one.outcome == "asked" for one in seen),
        rate_of(one.outcome == "ended" for one in seen),
        rate_of(one.outcome != "went" for one in seen),
        rate_of(one.outcome != "went" and one.detected for one in seen),
    )
