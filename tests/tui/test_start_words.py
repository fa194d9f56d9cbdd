"""What `callboard tui` is told: read without Typer where it is plain, and then as Typer reads it."""

import gc
from collections.abc import Iterator
from itertools import combinations, permutations

import pytest
import typer

from callboard.mailbox.errors import NotFound, UsageError
from callboard.service.cli import main, tui, tui_command
from callboard.service.cli.app import build
from callboard.service.cli.tui import FLAGS, OPTIONS, Wanted, plainly

PLAIN = [["--readonly"], ["--ascii"], ["--demo"], ["--as", "second shift"], ["--theme", "mono"], ["--dsn", "x=1 y"]]
NOT_PLAIN = [
    ["--help"], ["-h"], ["--as"], ["--as", "-x"], ["--as", "--ascii"], ["--as=x"], ["--ascii", "--ascii"],
    ["--as", "x", "--as", "y"], ["--asc"], ["--no-ascii"], ["--"], ["-"], ["word"], [""], ["--ascii", "word"],
]  # fmt: skip


def test_every_option_of_the_command_is_known_where_it_is_read_plainly() -> None:
    command = typer.main.get_command(build("tui")).commands["tui"]  # type: ignore[attr-defined]
    known = {tuple(one.opts): (one.name, one.is_flag) for one in command.params if one.name != "help"}
    fields = {**dict.fromkeys(FLAGS, True), **dict.fromkeys(OPTIONS, False)}
    assert known == {(word,): ({**FLAGS, **OPTIONS}[word], is_flag) for word, is_flag in fields.items()}


def _words() -> Iterator[list[str]]:
    yield []
    for count in (1, 2):
        for chosen in permutations(PLAIN, count):
            yield [word for one in chosen for word in one]
    for chosen in combinations(PLAIN, 5):
        yield [word for one in chosen for word in one]


def test_plain_words_mean_what_typer_takes_them_for(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Wanted] = []
    monkeypatch.setattr(tui_command, "show", seen.append)
    command = typer.main.get_command(build("tui"))
    for words in _words():
        command.main(["tui", *words], prog_name="callboard", standalone_mode=False)
        assert seen.pop() == plainly(words), words


@pytest.mark.parametrize("words", NOT_PLAIN, ids=" ".join)
def test_what_is_not_plain_is_left_to_typer(words: list[str]) -> None:
    assert plainly(words) is None


@pytest.mark.parametrize(("error", "code"), [(UsageError("no"), 2), (NotFound("no"), 3), (KeyboardInterrupt(), 130)])
@pytest.mark.parametrize("words", [["--as", "x"], ["--as=x"]], ids=["plain", "typer"])
def test_an_error_has_the_same_code_however_the_words_were_read(
    words: list[str], error: BaseException, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: Wanted) -> int:
        raise error

    monkeypatch.setattr(tui, "show", refuse)
    monkeypatch.setattr(tui_command, "show", refuse)
    with pytest.raises(SystemExit) as end:
        main(["tui", *words])
    assert end.value.code == code


def test_garbage_is_looked_for_again_when_it_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[bool] = []
    monkeypatch.setattr(tui, "_show_on", lambda _: looked.append(gc.isenabled()))
    tui.show(Wanted())
    assert looked == [False] and gc.isenabled()
