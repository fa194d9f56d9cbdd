"""Help: what it says, and what it must not cost."""

import json
import resource
import shlex
import subprocess
import sys
from collections.abc import Sequence

import pytest
import typer

from callboard.service.cli.app import build
from callboard.service.cli.errors import Exit
from callboard.service.cli.examples import EXAMPLES
from callboard.service.cli.help_pages import walk, written
from callboard.service.cli.help_texts import FILE, WRITE, pages
from callboard.service.cli.overview import COMMANDS, EXIT_CODES, overview
from tests.service.conftest import ROOT, Cli, environment

HEAVY = ("textual", "psycopg", "google", "ollama", "httpx", "rich", "litestar", "pydantic")
LIBRARIES = {*HEAVY, "typer", "msgspec", "anyio", "asyncio"}
_LOADED = """
import json, sys
from callboard.service.cli import main
try:
    main({arguments})
except SystemExit as end:
    assert end.code in {codes}, end.code
print(json.dumps(sorted(name.split(".")[0] for name in sys.modules)), file=sys.stderr)
"""


def loaded(*arguments: str, dsn: str = "", codes: Sequence[int | None] = (None, 0)) -> set[str]:
    """The libraries that a command leaves loaded, in a process of its own."""
    code = _LOADED.format(arguments=list(arguments), codes=list(codes))
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT, env=environment(dsn)
    )
    return set(json.loads(done.stderr.splitlines()[-1]))


@pytest.mark.parametrize(
    "arguments",
    ["--help", "help", "--version", "runs --help", "approvals show --help", "daemon -h", "help run", "completion bash"],
)
def test_help_version_and_completion_cost_no_library_at_all(arguments: str) -> None:
    assert not loaded(*arguments.split(), codes=(None, 0, 2) if arguments == "help" else (None, 0)) & LIBRARIES


def test_a_command_that_lists_loads_no_screen_no_models_sdk_and_no_web_server(shared: str) -> None:
    assert not loaded("runs", dsn=shared) & (set(HEAVY) - {"psycopg"})


def test_a_mistyped_command_needs_no_database_driver() -> None:
    assert not loaded("runs", "--lmit", "3", codes=(2,)) & set(HEAVY)


def cpu_seconds(*arguments: str) -> float:
    """What a process of Python's takes of the processor."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], capture_output=True, check=True, cwd=ROOT, env=environment())
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_help_takes_less_than_150_ms_of_cpu() -> None:
    bare, spent = zip(
        *((cpu_seconds("-c", ""), cpu_seconds("-m", "callboard", "--help")) for _ in range(3)), strict=True
    )
    assert min(spent) < max(0.15, 6 * min(bare))  # or, on a slow machine, six times what Python takes to do nothing


def test_the_help_that_is_kept_is_what_the_commands_say_now() -> None:
    assert FILE.read_text("utf-8") == written(), f"the commands have changed; make the help anew: {WRITE}"


def test_the_overview_lists_the_commands_that_there_are_with_their_purpose() -> None:
    found = {name: page["purpose"] for name, page in pages().items() if " " not in name and not page["hidden"]}
    assert found == {name: purpose for _, commands in COMMANDS for name, purpose in commands}


def test_the_overview_documents_every_exit_code() -> None:
    assert {code for code, _ in EXIT_CODES} == set(Exit)
    for code in Exit:
        assert f" {int(code)} " in overview()


NAMES = sorted(pages())


@pytest.mark.parametrize("name", NAMES)
def test_every_page_has_purpose_example_usage_options_environment_and_exit_codes(name: str, cli: Cli) -> None:
    said = cli(*name.split(), "--help")
    assert said.code == 0 and not said.err
    purpose, _, example = said.out.split("\n")[:3]
    assert purpose.endswith(".") and "callboard" in example and example.startswith("  ")
    assert f"\nusage: callboard {name}" in said.out
    assert "\nenvironment:\n" in said.out and "130 interrupted" in " ".join(said.out.split())
    assert max(map(len, said.out.splitlines())) <= 120, "fits a terminal"
    assert said.out.isprintable() or "\x1b" not in said.out


def test_help_of_a_command_is_the_same_by_every_way_of_asking(cli: Cli) -> None:
    asked = [cli("runs", "--help"), cli("runs", "-h"), cli("help", "runs"), cli("runs", "--limit", "5", "--help")]
    assert len({one.out for one in asked}) == 1


def test_what_follows_two_dashes_is_no_question_for_help(cli: Cli, shared: str) -> None:
    assert cli("tell", "nobody", "--", "--help", dsn=shared).code == 3


def test_help_of_no_command_is_wrong_usage_and_says_what_was_perhaps_meant(cli: Cli) -> None:
    said = cli("help", "replai")
    assert said.code == 2 and "did you mean replay?" in said.one_line()


EVERY_EXAMPLE = [(name, line) for name, lines in EXAMPLES.items() for line in lines]


def test_every_command_has_an_example() -> None:
    assert set(EXAMPLES) == set(pages())


@pytest.mark.parametrize(("name", "line"), EVERY_EXAMPLE, ids=lambda value: str(value)[:40])
def test_every_example_is_a_command_line_that_can_be_read(name: str, line: str) -> None:
    words = shlex.split(line.replace('eval "$(', "").replace(')"', ""))
    words = words[: next((at for at, word in enumerate(words) if word in (">", "|", "<")), len(words))]
    assert words[0] == "callboard" and words[1] == name.split(maxsplit=1)[0]
    command = typer.main.get_command(build(words[1]))
    context = command.make_context("callboard", words[1:])
    while (beneath := getattr(command, "commands", None)) and context._protected_args:
        name_, command, rest = command.resolve_command(context, [*context._protected_args, *context.args])  # type: ignore[attr-defined]
        assert name_ in beneath
        context = command.make_context(name_, rest, parent=context)


def test_no_command_shows_the_overview_and_is_wrong_usage() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "callboard"], capture_output=True, text=True, check=False, cwd=ROOT, env=environment()
    )
    assert done.returncode == 2 and "usage: callboard COMMAND" in done.stdout


def test_the_version_is_the_packages(cli: Cli) -> None:
    from callboard import __version__

    assert cli("--version").out == f"callboard {__version__}\n"
    assert cli("--version", "--json").document == {"schema": "callboard.version/1", "version": __version__}


def test_an_unknown_command_is_wrong_usage_in_one_line(cli: Cli) -> None:
    said = cli("frobnicate")
    assert said.code == 2 and "frobnicate" in said.one_line()


def test_an_unknown_command_is_a_problem_object_with_json(cli: Cli) -> None:
    said = cli("frobnicate", "--json")
    assert said.code == 2 and not said.out
    assert said.problem["type"] == "usage" and said.problem["exit_code"] == 2


def test_every_command_is_where_the_table_of_homes_says() -> None:
    everything = {words[0] for words, _ in walk(typer.main.get_command(build()), ())}
    for name in everything:
        alone = {words[0] for words, _ in walk(typer.main.get_command(build(name)), ())}
        assert name in alone and alone <= everything
        assert alone != everything, "only the module of the command asked for is loaded"
