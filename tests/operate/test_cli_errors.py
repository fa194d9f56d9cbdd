"""Errors as what, why and next; one line for people, one problem object for programs, one exit code for shells."""

import errno
import json
import os
import subprocess
import sys

import pytest

from callboard.mailbox import errors as e
from callboard.persistence.embedded import EmbeddedServerError
from callboard.service.cli.errors import Exit, described, problem_of, report
from callboard.service.operations.decisions import Expired
from tests.service.conftest import APP, ROOT, Cli, environment

CODES = [
    (e.UsageError("bad"), Exit.USAGE, "usage"),
    (e.SettingError("bad"), Exit.USAGE, "usage"),
    (e.NotFound("gone"), Exit.NOT_FOUND, "not-found"),
    (e.NotAllowed("no"), Exit.NOT_ALLOWED, "not-allowed"),
    (e.AlreadyDecided("dana did"), Exit.CONFLICT, "already-decided"),
    (e.Conflict("taken"), Exit.CONFLICT, "conflict"),
    (e.MailboxFull("full"), Exit.CONFLICT, "mailbox-full"),
    (Expired("late"), Exit.EXPIRED, "expired"),
    (e.StoreUnavailable("away"), Exit.UNAVAILABLE, "database-unavailable"),
    (EmbeddedServerError("no binaries"), Exit.UNAVAILABLE, "database-unavailable"),
    (e.SchemaMismatch("older"), Exit.FAILED, "schema-mismatch"),
    (e.StoreError("refused"), Exit.FAILED, "failed"),
    (e.UnknownMessage("which"), Exit.FAILED, "failed"),
    (TimeoutError("slow"), Exit.TIMED_OUT, "timed-out"),
    (KeyboardInterrupt(), Exit.INTERRUPTED, "interrupted"),
    (OSError(errno.EADDRINUSE, "Address already in use"), Exit.FAILED, "cannot-bind"),
    (PermissionError(errno.EACCES, "Permission denied", "/etc/x"), Exit.NOT_ALLOWED, "permission"),
    (OSError(errno.ENOSPC, "No space left on device"), Exit.FAILED, "disk-full"),
    (FileNotFoundError(errno.ENOENT, "No such file or directory", "data"), Exit.NOT_FOUND, "not-found"),
    (ModuleNotFoundError("No module named 'litestar'", name="litestar"), Exit.FAILED, "not-installed"),
    (ZeroDivisionError("x"), Exit.FAILED, "bug"),
]


@pytest.mark.parametrize(("error", "code", "name"), CODES, ids=lambda value: type(value).__name__)
def test_every_error_has_its_exit_code_and_its_name(
    error: BaseException, code: Exit, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert report(ExceptionGroup("tasks", [error]) if isinstance(error, Exception) else error, as_json=True) == code
    out, err = capsys.readouterr()
    problem = json.loads(err)
    assert not out and err.count("\n") == 1
    assert (problem["schema"], problem["code"], problem["exit_code"]) == ("callboard.problem/1", name, code)
    assert problem["title"] and problem["detail"] and "next" in problem


def test_no_class_of_ours_is_without_a_row() -> None:
    def beneath(kind: type[BaseException]) -> set[type[BaseException]]:
        return {kind}.union(*map(beneath, kind.__subclasses__()))

    for kind in beneath(e.CallboardError):
        if kind is e.CallboardError or kind.__module__.startswith("tests"):
            continue
        error = kind.__new__(kind)
        Exception.__init__(error, "what")
        assert described(error)[0].name != "bug", kind


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("older; run: callboard init-db", "callboard init-db"),
        ("no run 'x'; `callboard runs` lists them", "callboard runs"),
        ("nothing", "callboard doctor"),
    ],
)
def test_what_to_do_next_is_the_command_of_the_message_or_that_of_its_kind(message: str, said: str) -> None:
    assert problem_of(e.StoreUnavailable(message))["next"] == said


def test_a_line_says_the_next_command_once(capsys: pytest.CaptureFixture[str]) -> None:
    report(e.StoreUnavailable("the database is away"), as_json=False)
    assert capsys.readouterr().err == "callboard: the database is away; next: callboard doctor\n"
    report(e.SchemaMismatch("there are no tables; run: callboard init-db"), as_json=False)
    assert capsys.readouterr().err == "callboard: there are no tables; run: callboard init-db\n"


def test_a_missing_extra_is_said_with_what_to_install(capsys: pytest.CaptureFixture[str]) -> None:
    report(ModuleNotFoundError("No module named 'litestar'", name="litestar.app"), as_json=False)
    said = capsys.readouterr().err
    assert "needs the extra [http]" in said and "pip install 'callboard[http]'" in said


@pytest.mark.parametrize(
    ("given", "parts"),
    [
        (("approvel",), ("no command 'approvel'", "did you mean approve or approvals?", "next: callboard --help")),
        (("token", "lst"), ("no command 'lst'", "did you mean list?", "next: callboard token --help")),
        (("runs", "--lmit", "3"), ("no option --lmit", "did you mean --limit?", "next: callboard runs --help")),
        (("actors", "list", "--knd=run"), ("no option --knd", "did you mean --kind")),
        (("show",), ("Missing argument 'RUN'", "next: callboard show --help")),
    ],
)
def test_what_was_mistyped_gets_what_was_perhaps_meant(
    given: tuple[str, ...], parts: tuple[str, ...], cli: Cli
) -> None:
    said = cli(*given)
    assert said.code == 2
    for part in parts:
        assert part in said.one_line()


def test_wrong_usage_that_a_command_finds_leads_to_its_help(cli: Cli) -> None:
    said = cli("runs", "--time", "swatch", "--json")
    assert said.code == 2 and said.problem["next"] == "callboard runs --help"


def test_what_resembles_nothing_gets_no_guess(cli: Cli) -> None:
    assert "did you mean" not in cli("xyzzy").one_line()


def test_a_mistyped_command_is_a_problem_object_with_jsonl_too(cli: Cli) -> None:
    said = cli("runs", "--jsonl", "--lmit", "3")
    assert said.problem["code"] == "usage" and said.problem["next"] == "callboard runs --help"


@pytest.mark.parametrize("command", ["runs", "--help", "runs --help", "completion bash", "actors --json"])
def test_a_reader_that_leaves_is_no_error_and_nothing_is_said(command: str, shared: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)  # gone before the first line
    done = subprocess.run(
        [sys.executable, "-m", "callboard", *command.split()],
        stdout=writing, stderr=subprocess.PIPE, text=True, cwd=ROOT, env=environment(shared), check=False, timeout=120,
    )  # fmt: skip
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, "") or (command == "runs" and done.stderr.startswith("no runs")), done


@pytest.mark.parametrize("given", [("approve", "x", "--yes"), ("approve", "x", "-y"), ("deny", "x", "--yes"),
                                   ("edit", "x", "--yes"), ("approve", "x", "--force")])  # fmt: skip
def test_nothing_that_says_yes_decides(given: tuple[str, ...], cli: Cli) -> None:
    said = cli(*given, dsn="postgresql://127.0.0.1:1/never-asked")
    assert said.code == 2 and "has no option" in said.one_line()


def test_money_is_not_approved_by_a_yes_on_stdin(cli: Cli, shared: str) -> None:
    held = cli("run", APP, "refund 480.00", "--json", dsn=shared)
    run = held.document["run_id"]
    assert held.document["approvals"], "the run waits for a person"
    for stdin in ("y\n", "yes\n", ""):
        said = cli("approve", run, stdin=stdin, dsn=shared)
        assert said.code == 2 and "amount" in said.one_line()
    assert cli("approvals", "show", run, "--json", dsn=shared).document["status"] == "pending"


def test_a_status_that_no_run_can_have_is_an_error_with_what_was_perhaps_meant(cli: Cli, shared: str) -> None:
    said = cli("runs", "--status", "complete", dsn=shared)
    assert said.code == 2
    assert "expected one of running, awaiting_approval" in said.err
    assert "did you mean 'completed'?" in said.err
