"""What a shell may complete: commands and options from the help texts, and names of what there is in the database.

The script for a shell (`callboard completion bash`) calls `callboard complete SHELL LINE`, which prints one candidate a
line. That is asked at every press of a key: it takes the standard library only, unless the word is the name of a run,
an approval or an actor. Then the database is asked once, within narrow limits, and never started: whatever goes wrong
there, nothing is offered.
"""

import os
import re
import signal
import sys
from types import FrameType
from typing import TYPE_CHECKING

from .help_texts import Pages, command_in, pages

if TYPE_CHECKING:
    from ...persistence.postgres.probe import Kind

LIMIT = 50
GIVE_UP_SECONDS = 2.0
"""Where the server does not answer at all: nobody waits longer for the effect of a key."""

_BASH = """\
# callboard for bash; in ~/.bashrc:  eval "$(callboard completion bash)"
_callboard() {
    local IFS=$'\\n'
    COMPREPLY=($(callboard complete bash "${COMP_LINE:0:COMP_POINT}" 2>/dev/null))
}
complete -o default -F _callboard callboard
"""
_ZSH = """\
#compdef callboard
# callboard for zsh; in ~/.zshrc after compinit:  eval "$(callboard completion zsh)"
_callboard() {
    local -a found
    found=(${(f)"$(callboard complete zsh "${(j: :)words[1,CURRENT]}" 2>/dev/null)"})
    if (( ${#found} )); then compadd -- "${found[@]}"; else _files; fi
}
compdef _callboard callboard
"""
_FISH = """\
# callboard for fish; in ~/.config/fish/config.fish:  callboard completion fish | source
complete -c callboard -a '(callboard complete fish (commandline -cp) 2>/dev/null)'
"""
SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}
_NAMES: "dict[str, Kind]" = {
    "RUN": "run",
    "ID|RUN": "approval",
    "ADDRESS": "actor",
    "PREFIX": "actor",
    "RUN|ACTOR": "run",
}
"""What a command calls what it takes, and what that names."""
_CHOICES = re.compile(r"[a-z0-9_.-]+(\|[a-z0-9_.-]+)+")


def script(shell: str) -> int | None:
    """Print the script for a shell; the exit code, or None where there is none for it."""
    if shell not in SCRIPTS:
        return None
    sys.stdout.write(SCRIPTS[shell])
    return 0


def complete(shell: str, line: str) -> int:
    """Print what the last word of a line may be."""
    *before, word = words_of(line)[1:] or [""]
    found = candidates(before, word, pages())
    # bash has words end at colons: it puts what we say behind the last one that was typed.
    typed = word.rpartition(":")[0] + ":" if shell == "bash" and ":" in word else ""
    words = [one.removeprefix(typed) for one in found if one.isprintable()]
    # bash puts words into the line as they are. Who sends a run may choose its id, and `x;reboot` shall be no command.
    sys.stdout.writelines(f"{_escaped(one) if shell == 'bash' else one}\n" for one in words)
    return 0


def _escaped(word: str) -> str:
    return "".join(f"\\{c}" if c.isascii() and not (c.isalnum() or c in "_@%+=:,./-") else c for c in word)


def words_of(line: str) -> list[str]:
    """The words of a command line that may not be finished; the last one is what is being typed."""
    words, word, quote, escaped = list[str](), "", "", False
    for letter in line:
        if escaped:
            word, escaped = word + letter, False
        elif letter == "\\" and quote != "'":
            escaped = True
        elif letter in "'\"" and quote in ("", letter):
            quote = "" if quote else letter
        elif letter.isspace() and not quote:
            if word:
                words.append(word)
            word = ""
        else:
            word += letter
    return [*words, word]


def candidates(before: list[str], word: str, known: Pages) -> list[str]:
    """What `word` may become behind these words."""
    if before[:1] == ["help"]:
        before = before[1:]
    command = command_in(before, known)
    page = known.get(command) or {"options": {}, "arguments": [], "commands": _commands(known)}
    options: dict[str, str] = {**page["options"], "--help": ""}
    metavar = options.get(before[-1], "") if before else ""
    if metavar:
        return _of(metavar, command, word)
    name, sign, value = word.partition("=")
    if sign and options.get(name):
        return [f"{name}={one}" for one in _of(options[name], command, value)]
    if word.startswith("-"):
        return sorted(one for one in options if one.startswith(word))
    given = _arguments(before, command, options)
    beneath = [one for one in page["commands"] if one.startswith(word)] if not given else []
    taken = page["arguments"]
    if not taken:
        return beneath
    metavar = taken[min(len(given), len(taken) - 1)]
    if len(given) >= len(taken) and not metavar.endswith("..."):
        return beneath
    return [*beneath, *_of(metavar, command, word)]


def _commands(known: Pages) -> list[str]:
    return sorted([*(name for name, one in known.items() if " " not in name and not one["hidden"]), "help"])


def _arguments(before: list[str], command: str, options: dict[str, str]) -> list[str]:
    """What was given already, without the command and options with their values."""
    given, takes_value = list[str](), False
    for word in before:
        if takes_value:
            takes_value = False
        elif word.startswith("-"):
            takes_value = bool(options.get(word))
        else:
            given.append(word)
    return given[len(command.split()) :]


def _of(metavar: str, command: str, word: str) -> list[str]:
    if _CHOICES.fullmatch(metavar):
        return [one for one in metavar.split("|") if one.startswith(word)]
    kind = _NAMES.get(metavar.strip("[]").removesuffix("..."))
    if kind is None:
        return []
    if kind == "approval" and command == "take-back":
        kind = "approved"
    return sorted(_names(kind, word))


def _names(kind: "Kind", word: str) -> list[str]:
    try:
        dsn = _database()
        if not dsn:
            return []
        from urllib.parse import unquote

        from ...persistence.postgres.probe import names_like

        signal.signal(signal.SIGALRM, _give_up)
        signal.setitimer(signal.ITIMER_REAL, GIVE_UP_SECONDS)
        return [unquote(one) if kind == "run" else one for one in names_like(dsn, kind, word, LIMIT)]
    except Exception:  # noqa: BLE001 - a word is being typed: silence is the only right answer
        return []
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)  # the handler is gone before Python is


def _database() -> str:
    """The database that a command would use, where it is there: an embedded one is not started for this."""
    from ..settings import read_settings

    settings = read_settings()
    if settings.dsn and not settings.dsn.startswith("embedded:"):
        return settings.dsn
    from pathlib import Path

    from ...persistence.embedded import default_root
    from ...persistence.embedded.postmaster import probe

    root = default_root(home=Path(settings.home) if settings.home else None)
    server = next(filter(None, map(probe, root.glob("pgdata-*"))), None)
    if server is None or not server.is_ready:
        return ""
    name = settings.dsn.removeprefix("embedded:")
    return server.dsn.replace("/postgres?", f"/{name}?") if name else server.dsn


def _give_up(_: int, __: FrameType | None) -> None:
    os._exit(0)
