"""What `callboard COMMAND --help` says and a shell may complete: read from `help_texts.json`, made from the commands.

    python -m callboard.service.cli.help_texts --write      make the file anew (a test says when that is due)

Making it (in `help_pages`) takes Typer and every module of commands, which costs a second; reading it takes the
standard library. So asking for help, and completing a word, cost no more than starting Python.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("help_texts.json")
WRITE = "python -m callboard.service.cli.help_texts --write"

Pages = dict[str, dict[str, Any]]
"""By a command's words (`approvals list`): `purpose`, `text`, `options` (name -> its values, metavar or nothing),
`arguments` (their metavars), `commands` (beneath it), `hidden`."""


def pages() -> Pages:
    """Every page; none where the file was not made yet."""
    try:
        found: Pages = json.loads(FILE.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    return found


def command_in(words: Sequence[str], known: Pages) -> str:
    """The longest command that `words` begin with, options left out; "" for none."""
    command = ""
    for word in words:
        if word.startswith("-"):
            continue
        longer = f"{command} {word}".strip()
        if longer not in known:
            break
        command = longer
    return command


def page(words: Sequence[str]) -> str | None:
    """The help of the command that `words` call; None where there is no page for it."""
    known = pages()
    command = command_in(words, known)
    return "\n".join(known[command]["text"]) + "\n" if command else None


def main(arguments: Sequence[str]) -> int:
    """Make the file, or say whether it is as the commands are: 0 it is, 1 it is not."""
    from .help_pages import written

    now = written()
    if "--write" in arguments:
        FILE.write_text(now, "utf-8")
        return 0
    return 0 if FILE.exists() and FILE.read_text("utf-8") == now else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
