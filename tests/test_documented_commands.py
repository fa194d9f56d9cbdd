"""Every command of the README and of the guides runs as it is written there: see `tests/documented`."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.documented.blocks import BadBlock, commands
from tests.documented.shell import ROOT, run_document
from tests.documented.stage import stage

DOCUMENTS = ["README.md", *(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md")))]

FROM_NOTHING = ("README.md",)
"""Read first, with an empty database."""


@pytest.fixture(scope="module")
def fresh_desk(server_dsn: str) -> Iterator[Callable[[], str]]:
    with stage(server_dsn) as copy:
        yield copy


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_command_of_a_document_runs_as_written(
    document: str, dsn: str, fresh_desk: Callable[[], str], tmp_path: Path
) -> None:
    wanted = list(commands((ROOT / document).read_text(encoding="utf-8")))
    if not wanted:
        return
    done, ended_badly = run_document(wanted, tmp_path, dsn if document in FROM_NOTHING else fresh_desk())
    problems = [one.problem for one in done if one.problem] + ended_badly
    assert not problems, f"{document}: " + "\n---\n".join(problems)


# --- the rules themselves: each can say no ---------------------------------------------------------------------------


def document(*lines: str, block: str = "console") -> str:
    return "\n".join(["Words.", f"```{block}", *lines, "```", "More words."])


def tried(tmp_path: Path, text: str) -> list[str]:
    """The problems of a document that needs no database."""
    done, ended_badly = run_document(list(commands(text)), tmp_path, "")
    return [one.problem for one in done if one.problem] + ended_badly


def test_a_command_that_fails_or_does_not_fail_as_written_is_a_problem(tmp_path: Path) -> None:
    text = document("$ true", "$ false", "$ (exit 4)   # exits with 4", "$ true   # exits 4", "$ exit 1")
    problems = tried(tmp_path, text)
    assert [one.partition(":")[0] for one in problems] == [
        "exit 1, expected 0",
        "exit 0, expected 4",
        "never begun, or never ended",
    ]


def test_what_a_checked_block_shows_has_to_be_said_in_its_order(tmp_path: Path) -> None:
    lines = ("$ printf 'one\\ntwo 42\\nthree\\n'", "one", "two …")
    assert tried(tmp_path, document(*lines, block="console checked")) == []
    (tmp_path / "again").mkdir()
    [problem] = tried(tmp_path / "again", document(*lines, "one", block="console checked"))
    assert "shows 'one', which was not said" in problem


def test_a_document_is_one_shell(tmp_path: Path) -> None:
    script = document("cat > file <<'END'", "$ no command, but text", "END", "NAME=$(cat file)", block="sh")
    use = document('$ test "$NAME" = "$ no command, but text"', "$ mkdir deep && cd deep", "$ test -f ../file")
    assert tried(tmp_path, script + "\n" + use) == []


def test_what_goes_on_in_the_background_is_awaited_used_and_ended(tmp_path: Path) -> None:
    begin = "$ (trap 'exit 7' TERM; echo it serves; while true; do sleep 0.1; done) &"
    assert tried(tmp_path, document(begin, "$ true")) == ["end 0 exits 7"]


def test_a_port_that_is_listened_on_is_free_and_the_same_in_every_command(tmp_path: Path) -> None:
    begin = "$ (echo it serves on 127.0.0.1:8089; exec sleep 600) &"
    use = ("$ test 127.0.0.1:8089 != 127.0.0.1:$((8000 + 89))", "$ grep 127.0.0.1:8089$ ../said/0.out")
    assert tried(tmp_path, document(begin, *use, "$ test 127.0.0.1:1 = 127.0.0.1:$((0 + 1))")) == []


def test_what_is_ended_by_ctrl_c_gets_one(tmp_path: Path) -> None:
    assert tried(tmp_path, document("$ sleep 600   # until ctrl-C")) == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (document("$ callboard runs", block="text"), "is a command"),
        (document("callboard runs", block=""), "is a command"),
        (document("$ docker run", block="console not-run"), "say why"),
        (document("$ true", block="bash"), "expected one of"),
        (document("$ true", block="console quietly"), "means nothing here"),
        (document("no command"), "begins with"),
        ("```console\n$ true", "never closed"),
    ],
)
def test_a_block_that_hides_a_command_or_cannot_be_read_is_refused(text: str, problem: str) -> None:
    with pytest.raises(BadBlock, match=problem):
        list(commands(text))


def test_a_block_with_a_reason_not_to_be_run_is_left_out() -> None:
    assert list(commands(document("$ docker run", block="console not-run: needs Docker"))) == []


def test_something_is_documented() -> None:
    found = {name: len(list(commands((ROOT / name).read_text(encoding="utf-8")))) for name in DOCUMENTS}
    assert sum(found.values()) > 60 and found["README.md"] > 5
