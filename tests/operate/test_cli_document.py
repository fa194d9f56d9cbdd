"""docs/CLI.md has all of it: every command, every exit code, every shape of JSON. (That its commands run is
`tests/test_documented_commands.py`'s to say.)"""

import re

import pytest

from callboard.service.cli.errors import Exit
from callboard.service.cli.help_texts import pages
from tests.service.conftest import ROOT

PAGE = (ROOT / "docs" / "CLI.md").read_text(encoding="utf-8")
PARTS_OF_OTHERS = {
    "callboard.livez/1",
    "callboard.readyz/1",
    "callboard.startupz/1",
}  # pages of the daemon: OPERATIONS.md
NOT_OF_A_COMMAND = {"callboard.eval.detector/1"}  # of a script


@pytest.mark.parametrize("name", [name for name, page in pages().items() if not page["hidden"]])
def test_every_command_is_at_work_in_the_document(name: str) -> None:
    words = name.split()
    implied = {"list", "show", "peek"} if words[0] in ("approvals", "actors", "mailbox", "dead") else set()
    wanted = words[0] if words[-1] in implied else name
    assert re.search(rf"^\$ .*callboard {wanted}\b", PAGE, re.MULTILINE), name


def test_every_exit_code_is_in_the_document() -> None:
    rows = {int(code) for code in re.findall(r"^\| (\d+) \|", PAGE, re.MULTILINE)}
    assert rows == set(Exit)


def test_every_shape_that_is_printed_is_in_the_document() -> None:
    written = {
        shape
        for folder in ("service", "evals")
        for path in (ROOT / folder).rglob("*.py")
        for shape in re.findall(r'"(callboard\.[a-z_.-]+/\d+)"', path.read_text(encoding="utf-8"))
    }
    listed = set(re.findall(r"`(callboard\.[a-z_.-]+/\d+)`", PAGE))
    assert written - PARTS_OF_OTHERS - NOT_OF_A_COMMAND <= listed
    assert {one for one in listed if ".item/" not in one} <= written, "and none that there is not"
