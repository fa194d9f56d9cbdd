"""Completion, with the shells themselves: commands and options at no cost, names asked of the database."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from callboard.service.cli.completion import candidates, words_of
from callboard.service.cli.help_texts import pages
from tests.service.conftest import APP, ROOT, Cli, environment, until

NOWHERE = "postgresql://127.0.0.1:1/nothing"
_BASH = """
eval "$(callboard completion bash)"
COMP_LINE=$1 COMP_POINT=${#1}
complete -p callboard >&2
_callboard
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture(scope="module")
def on_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A PATH that has `callboard`, whatever is installed."""
    folder = tmp_path_factory.mktemp("bin")
    program = folder / "callboard"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m callboard "$@"\n')
    program.chmod(0o755)
    return str(folder)


def pressed(line: str, on_path: str, dsn: str = NOWHERE, cwd: Path = ROOT) -> list[str]:
    """What bash would offer at the end of a line."""
    env = environment(dsn)
    env["PATH"] = f"{on_path}:{env['PATH']}"
    env["PYTHONPATH"] = f"{ROOT / '.src'}:{ROOT}"
    done = subprocess.run(
        ["bash", "--norc", "-c", _BASH, "bash", line], capture_output=True, text=True, check=True, env=env, cwd=cwd
    )
    assert "-F _callboard callboard" in done.stderr, "the function is what bash calls"
    return [one for one in done.stdout.splitlines() if one]


def offered(line: str, on_path: str, dsn: str, cwd: Path = ROOT) -> list[str]:
    """What the database has for it: pressed again where a busy machine was too slow for a key, as a person would."""
    found: list[str] = until(lambda: pressed(line, on_path, dsn, cwd), f"something is offered for {line!r}")
    return found


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("callboard ap", ["approvals", "approve"]),
        ("callboard approvals s", ["show"]),
        ("callboard runs --lim", ["--limit"]),
        ("callboard runs --time ", ["relative", "local", "utc"]),
        ("callboard runs --color=al", ["--color=always"]),
        ("callboard runs --limit ", []),
        ("callboard completion ", ["bash", "zsh", "fish"]),
        ("callboard nonsense ", []),
        ("callboard help repl", ["replay"]),
    ],
)
def test_bash_completes_commands_options_and_choices(line: str, offered: list[str], on_path: str) -> None:
    assert pressed(line, on_path) == offered


def test_hidden_commands_are_not_offered(on_path: str) -> None:
    assert "node" not in pressed("callboard ", on_path)
    assert "complete" not in pressed("callboard co", on_path)


def test_bash_completes_runs_approvals_and_actors_that_there_are(on_path: str, cli: Cli, shared: str) -> None:
    run = cli("run", APP, "refund 480.00", "--id", "zebra-1", "--json", dsn=shared).document
    approval = run["approvals"][0]["id"]
    assert offered("callboard show zeb", on_path, shared) == ["zebra-1"]
    assert offered("callboard replay --json zeb", on_path, shared) == ["zebra-1"]
    assert offered("callboard approve ", on_path, shared) == [approval]
    # what bash takes for words ends at a colon, so what is offered goes on behind it
    assert offered("callboard actors show /desk/run:zeb", on_path, shared) == ["zebra-1"]
    assert offered("callboard actors show /desk/ru", on_path, shared) == ["/desk/run:zebra-1"]
    assert pressed("callboard take-back ", on_path, shared) == [], "nothing is held that could be taken back"


def test_an_id_that_somebody_chose_is_put_into_the_line_as_a_word_and_not_as_a_command(
    on_path: str, cli: Cli, database: str, tmp_path: Path
) -> None:
    evil = "evil;touch pwned $(touch pwned) `touch pwned` & * ' \" ~ | > pwned"
    assert cli("run", APP, "x", "--id", evil, dsn=database).code == 0
    [word] = offered("callboard tell evil", on_path, database, tmp_path)
    said = subprocess.run(
        ["bash", "--norc", "-c", f"printf %s {word}"], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert said.stdout == evil and not (tmp_path / "pwned").exists()
    assert words_of(f"callboard tell {word}")[-1] == evil, "and what was put there is completed again"


def test_no_more_than_fifty_names_are_offered(on_path: str, shared: str) -> None:
    import psycopg

    with psycopg.connect(shared, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO callboard.decision (id, run, call, message_id, approvals, kind, tool, arguments, digest, "
            "reason, status, requested_by, requested_at, expires_seconds, decided_by, note) "
            "SELECT 'many-' || n, '/desk/run:x', 'c', n, '/desk', 'approval', 't', '{}', 'd', 'r', 'pending', 'u', "
            "now(), 0, '', '' FROM generate_series(1, 120) n"
        )
        assert len(offered("callboard approve many-", on_path, shared)) == 50
        connection.execute("DELETE FROM callboard.decision WHERE id LIKE 'many-%'")


@pytest.mark.parametrize("dsn", [NOWHERE, "nonsense", "postgresql://127.0.0.1:1/?wrong=1"])
def test_whatever_is_wrong_nothing_is_offered_and_nothing_said(dsn: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "callboard", "complete", "bash", "callboard show "],
        capture_output=True, text=True, check=False, cwd=ROOT, env=environment(dsn), timeout=200,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_server_that_never_answers_is_given_up() -> None:
    import socket

    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        dsn = f"postgresql://127.0.0.1:{mute.getsockname()[1]}/x"
        done = subprocess.run(
            [sys.executable, "-m", "callboard", "complete", "bash", "callboard show "],
            capture_output=True, text=True, check=False, cwd=ROOT, env=environment(dsn), timeout=200,
        )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_completing_starts_no_embedded_server(tmp_path: Path) -> None:
    env = environment()
    env |= {"CALLBOARD_HOME": str(tmp_path / "home"), "PYTHONPATH": f"{ROOT / '.src'}:{ROOT}"}
    done = subprocess.run(
        [sys.executable, "-m", "callboard", "complete", "bash", "callboard show "],
        capture_output=True, text=True, check=True, cwd=tmp_path, env=env,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("", "") and not (tmp_path / "home").exists()


def test_completing_a_command_loads_no_library() -> None:
    code = (
        "import json, sys\nfrom callboard.service.cli import main\n"
        "try: main(['complete', 'bash', 'callboard runs --li'])\nexcept SystemExit: pass\n"
        "print(json.dumps(sorted(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT, env=environment()
    )
    loaded = {name.split(".")[0] for name in json.loads(done.stderr)}
    assert done.stdout == "--limit\n" and not loaded & {"typer", "psycopg", "msgspec", "anyio", "rich", "textual"}


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("callboard show ", ["callboard", "show", ""]),
        ("callboard  deny x --reason 'too much", ["callboard", "deny", "x", "--reason", "too much"]),
        ('callboard tell "a b" c', ["callboard", "tell", "a b", "c"]),
        ("callboard show a\\ b", ["callboard", "show", "a b"]),
        ("", [""]),
    ],
)
def test_a_line_that_is_not_finished_is_read_into_words(line: str, words: list[str]) -> None:
    assert words_of(line) == words


def test_an_argument_that_was_given_is_not_offered_again() -> None:
    assert candidates(["completion", "bash"], "", pages()) == []


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_the_script_of_another_shell_is_read_by_it(shell: str, tmp_path: Path) -> None:
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed here")
    script = tmp_path / "script"
    script.write_text(subprocess.run(
        [sys.executable, "-m", "callboard", "completion", shell], capture_output=True, text=True, check=True, cwd=ROOT
    ).stdout)  # fmt: skip
    subprocess.run([program, "-n", str(script)], check=True)


def test_an_unknown_shell_is_wrong_usage_that_names_those_there_are(cli: Cli) -> None:
    said = cli("completion", "tcsh")
    assert said.code == 2 and "bash, zsh or fish" in said.one_line()


def test_the_script_is_a_document_with_json(cli: Cli) -> None:
    found = cli("completion", "fish", "--json").document
    assert found["schema"] == "callboard.completion/1" and "complete -c callboard" in found["script"]
