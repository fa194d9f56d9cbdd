"""The only door to stdout and stderr. Data goes to stdout; words for the person in front go to stderr.

Everything passes `safe` on its way, so no text of a model or a customer can move the cursor or forge a line. Colours
are added after that, and only where a terminal wants them.
"""

import json
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Protocol

from ...mailbox.errors import UsageError
from ..safe import safe

if TYPE_CHECKING:
    from ..settings import Color
    from ..trace import Style

_CODES = {
    "title": "1",
    "section": "1;34",
    "event": "",
    "data": "2",
    "good": "32",
    "bad": "31",
    "waits": "33",
}
MAX_STDIN_CHARS = 4 << 20


class Styled(Protocol):
    """A line and how it looks; `trace.Line` is one."""

    @property
    def text(self) -> str: ...

    @property
    def style(self) -> "Style": ...


def print_line(text: str) -> None:
    """One line of data."""
    _write(sys.stdout, safe(text))


def print_row(cells: Iterable[str]) -> None:
    """One line of tab-separated data."""
    _write(sys.stdout, "\t".join(safe(cell) for cell in cells))


def print_text(text: str) -> None:
    """Data of several lines."""
    _write(sys.stdout, safe(text, lines=True))


def print_json(document: Any) -> None:
    """One JSON document. Pure ASCII: escapes inside of it cannot reach a terminal."""
    _write(sys.stdout, json.dumps(document, indent=2, ensure_ascii=True).replace("\x7f", "\\u007f"))


def print_json_line(document: Any) -> None:
    """One JSON document on one line, at once."""
    _write(sys.stdout, json.dumps(document, ensure_ascii=True).replace("\x7f", "\\u007f"))


def print_lines(lines: "Iterable[Styled]", color: "Color", *, to_stderr: bool = False) -> None:
    """Styled lines."""
    stream = sys.stderr if to_stderr else sys.stdout
    colored = wants_color(color, stream)
    for line in lines:
        text, code = safe(line.text), _CODES[line.style]
        _write(stream, f"\x1b[{code}m{text}\x1b[0m" if colored and code and text else text)


def print_piece(text: str, *, to_stderr: bool = False) -> None:
    """A part of a line, at once; line breaks in it count, so whoever prints foreign text splits it first."""
    stream = sys.stderr if to_stderr else sys.stdout
    stream.write(safe(text, lines=True))
    stream.flush()


def note(text: str) -> None:
    """A word to the person in front."""
    _write(sys.stderr, safe(text))


def complain(text: str) -> None:
    """What went wrong, in one line."""
    _write(sys.stderr, f"callboard: {safe(text)}")


def wants_color(color: "Color", stream: Any = None) -> bool:
    """Whether a stream (stdout if not said) gets colours."""
    if color != "auto":
        return color == "always"
    return bool((stream or sys.stdout).isatty())


def is_interactive() -> bool:
    """Whether a person can be asked."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def ask(question: str) -> str:
    """What the person in front types."""
    sys.stderr.write(safe(question) + " ")
    sys.stderr.flush()
    return sys.stdin.readline().strip()


def text_argument(given: str) -> str:
    """An argument, or all of stdin where it is "-".

    Raises:
        UsageError: stdin is no text, or very much of it.
    """
    if given != "-":
        return given
    try:
        text = sys.stdin.read(MAX_STDIN_CHARS + 1)
    except UnicodeDecodeError as error:
        raise UsageError(f"stdin: expected UTF-8 text, got something else ({error.reason})") from None
    if len(text) > MAX_STDIN_CHARS:
        raise UsageError(f"stdin: expected at most {MAX_STDIN_CHARS:,} characters")
    return text.strip()


def _write(stream: Any, text: str) -> None:
    stream.write(text + "\n")
    stream.flush()
