"""Commands in the fenced blocks of a document. Pure: text in, commands out."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

COMMAND_LANGUAGES = ("console", "sh")
OTHER_LANGUAGES = ("python", "sql", "toml", "json", "ini", "yaml", "text", "dockerfile", "")
_FENCE = re.compile(r"^(?P<indent> *)```(?P<language>[\w-]*)[ ]*(?P<rest>[^`]*)$")
_EXITS = re.compile(r"#.*?\bexits?(?: with)?(?: code)? (\d{1,3})\b")
_INTERRUPTED = re.compile(r"#.*\buntil ctrl-C\b", re.IGNORECASE)
_BACKGROUND = re.compile(r"&[ ]*(#.*)?$")
_HERE = re.compile(r"<<-?\s*['\"]?(\w+)['\"]?")


class BadBlock(AssertionError):
    """A block that this cannot read, or that hides a command."""


@dataclass
class Command:
    """One command of a document."""

    text: str
    line: int
    """Where it stands, from 1."""
    checked: bool = False
    """Whether what is shown has to be said."""
    shown: list[str] = field(default_factory=list)
    """The lines that the document shows after it."""

    @property
    def exits(self) -> tuple[int, ...]:
        """The codes it may end with."""
        found = _EXITS.search(self.text)
        if self.interrupted:
            return (0, 130)
        return (int(found[1]) if found else 0,)

    @property
    def background(self) -> bool:
        """Whether it goes on while the next ones run."""
        return _BACKGROUND.search(self.text) is not None and not self.text.rstrip().endswith("&&")

    @property
    def interrupted(self) -> bool:
        """Whether a person ends it."""
        return _INTERRUPTED.search(self.text) is not None


@dataclass
class Block:
    """A fenced block."""

    language: str
    rest: str
    line: int
    lines: list[str]


def blocks(text: str) -> Iterator[Block]:
    """The fenced blocks of a document, in order."""
    found: Block | None = None
    indent = 0
    for number, line in enumerate(text.splitlines(), 1):
        fence = _FENCE.match(line)
        if found is None and fence is not None:
            indent = len(fence["indent"])
            found = Block(fence["language"], fence["rest"].strip(), number, [])
        elif found is not None and line.strip() == "```":
            yield found
            found = None
        elif found is not None:
            found.lines.append(line[indent:] if not line[:indent].strip() else line)
    if found is not None:
        raise BadBlock(f"line {found.line}: the block is never closed")


def commands(text: str) -> Iterator[Command]:
    """The commands of a document that are to be run, in order.

    Raises:
        BadBlock: of a kind that is not known, without a reason not to run, or with commands that would not be seen.
    """
    for block in blocks(text):
        if block.language not in COMMAND_LANGUAGES:
            _require_no_command(block)
        elif block.rest.startswith("not-run"):
            if len(block.rest.removeprefix("not-run").strip(": ")) < 3:
                raise BadBlock(f"line {block.line}: say why it is not run: ```{block.language} not-run: REASON")
        elif block.rest not in ("", "checked"):
            raise BadBlock(f"line {block.line}: {block.rest!r} means nothing here; see tests/documented")
        elif block.language == "console":
            yield from _console(block)
        else:
            yield from _script(block)


def _require_no_command(block: Block) -> None:
    if block.language not in OTHER_LANGUAGES:
        raise BadBlock(f"line {block.line}: ```{block.language}: expected one of {COMMAND_LANGUAGES + OTHER_LANGUAGES}")
    hidden = [line for line in block.lines if line.startswith(("$ ", "callboard "))]
    if hidden and block.language in ("text", ""):
        raise BadBlock(f"line {block.line}: {hidden[0]!r} is a command: ```console, or ```console not-run: REASON")


def _console(block: Block) -> Iterator[Command]:
    current: Command | None = None
    for number, line in enumerate(block.lines, block.line + 1):
        if current is not None and not current.shown and _is_open(current.text):
            current.text += "\n" + line.removeprefix("> ")
        elif line.startswith("$ "):
            if current is not None:
                yield current
            current = Command(line[2:], number, checked=block.rest == "checked")
        elif current is not None:
            current.shown.append(line)
        elif line.strip():
            raise BadBlock(f"line {number}: a console block begins with `$ COMMAND`")
    if current is not None:
        yield current


def _script(block: Block) -> Iterator[Command]:
    current: Command | None = None
    for number, line in enumerate(block.lines, block.line + 1):
        if current is not None:
            current.text += "\n" + line
        elif line.strip() and not line.lstrip().startswith("#"):
            current = Command(line, number)
        if current is not None and not _is_open(current.text):
            yield current
            current = None
    if current is not None:
        raise BadBlock(f"line {current.line}: the command has no end")


def _is_open(text: str) -> bool:
    """Whether a command goes on in the next line."""
    first, *rest = text.split("\n")
    here = _HERE.search(first)
    if here is not None:
        return here[1] not in (line.strip() for line in rest)
    opened = re.findall(r"(?:^|[;\n])\s*(?:for|while|until|if)\b", text)
    closed = re.findall(r"(?:^|[;\n])\s*(?:done|fi)\b", text)
    return text.endswith("\\") or len(opened) > len(closed)
