"""Help: what it says, and what it must not cost."""

import json
import resource
import subprocess
import sys

import pytest

from callboard.service.cli.app import build
from callboard.service.cli.errors import Exit
from callboard.service.cli.overview import COMMANDS, EXIT_CODES, overview
from tests.service.conftest import ROOT, Cli, environment

HEAVY = ("textual", "psycopg", "google", "ollama", "httpx", "rich")
_LOADED = """
import json, sys
from callboard.service.cli import main
try:
    main({arguments})
except SystemExit as end:
    assert not end.code, end.code
print(json.dumps(sorted(name.split(".")[0] for name in sys.modules)), file=sys.stderr)
"""


def loaded(*arguments: str) -> set[str]:
    """The libraries that a command leaves loaded, in a process of its own."""
    code = _LOADED.format(arguments=list(arguments))
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT, env=environment()
    )
    assert "usage" in done.stdout.lower()
    return set(json.loads(done.stderr))


def test_help_costs_no_library_at_all() -> None:
    assert not loaded("--help") & {*HEAVY, "typer", "msgspec", "anyio", "pydantic"}


def test_help_takes_less_than_150_ms_of_cpu() -> None:
    spent = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            [sys.executable, "-m", "callboard", "--help"], capture_output=True, check=True, cwd=ROOT, env=environment()
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert min(spent) < 0.15


@pytest.mark.parametrize("command", ["run", "approve"])
def test_help_of_a_command_loads_no_driver_no_screen_and_no_models_sdk(command: str) -> None:
    assert not loaded(command, "--help") & set(HEAVY)


def test_the_overview_lists_the_commands_that_there_are_with_their_purpose() -> None:
    app = build()
    found = {}
    for command in app.registered_commands:
        if not command.hidden and command.callback is not None:
            found[command.name] = (command.callback.__doc__ or "").strip().splitlines()[0]
    for group in app.registered_groups:
        assert group.typer_instance is not None and group.typer_instance.registered_callback is not None
        callback = group.typer_instance.registered_callback.callback
        found[group.name] = ((callback and callback.__doc__) or "").strip().splitlines()[0]
    assert found == {name: purpose for _, commands in COMMANDS for name, purpose in commands}


def test_the_overview_documents_every_exit_code() -> None:
    assert {code for code, _ in EXIT_CODES} == set(Exit)
    for code in Exit:
        assert f" {int(code)} " in overview()


@pytest.mark.parametrize("name", [name for _, commands in COMMANDS for name, _ in commands])
def test_every_command_explains_itself(name: str, cli: Cli) -> None:
    said = cli(name, "--help")
    assert said.code == 0
    assert f"Usage: callboard {name}" in said.out
    assert "--json" in said.out and "--dsn" in said.out


def test_no_command_shows_the_overview_and_is_wrong_usage() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "callboard"], capture_output=True, text=True, check=False, cwd=ROOT, env=environment()
    )
    assert done.returncode == 2 and "usage: callboard COMMAND" in done.stdout


def test_an_unknown_command_is_wrong_usage_in_one_line(cli: Cli) -> None:
    said = cli("frobnicate")
    assert said.code == 2 and "frobnicate" in said.one_line()


def test_an_unknown_command_is_a_problem_object_with_json(cli: Cli) -> None:
    said = cli("frobnicate", "--json")
    assert said.code == 2 and not said.out
    assert said.problem["type"] == "usage" and said.problem["exit_code"] == 2
