"""Whatever is wrong with what was given: one clear line, the right exit code, and nothing half done."""

from pathlib import Path
from urllib.parse import urlsplit

import anyio
import pytest

from callboard.persistence.postgres import create_schema
from tests.service.conftest import APP, Cli, execute, query

NOWHERE = "postgresql://someone:hunter2@127.0.0.1:1/none"
ALL = [
    ("runs",),
    ("show", "x"),
    ("replay", "x"),
    ("verify", "x"),
    ("approvals",),
    ("approve", "x", "--amount", "1"),
    ("deny", "x", "--reason", "r"),
    ("submit", APP, "goal"),
    ("run", APP, "goal"),
    ("tell", "x", "hello"),
    ("cancel", "x"),
    ("init-db",),
    ("node", APP),
    ("daemon", APP),
]


@pytest.mark.parametrize("command", ALL, ids=lambda command: command[0])
def test_a_database_that_does_not_answer_is_exit_75(command: tuple[str, ...], cli: Cli) -> None:
    said = cli(*command, "--log-level=error" if command[0] in ("node", "daemon") else "--json", dsn=NOWHERE)
    assert said.code == 75 and not said.out
    assert "hunter2" not in said.err and "127.0.0.1" in said.err
    assert said.err.count("\n") == 1


def test_a_database_that_is_not_there_is_exit_75(cli: Cli, dsn: str) -> None:
    said = cli("runs", dsn=urlsplit(dsn)._replace(path="/gone").geturl())
    assert said.code == 75 and "does not exist" in said.one_line()


@pytest.mark.parametrize(
    "wrong", ["nonsense", "host=x nonsense=1", "mysql://a/b", "postgresql://a:hunter2@b/c?wrong=1"]
)
def test_a_dsn_that_is_none_is_exit_2_and_is_not_shown(wrong: str, cli: Cli) -> None:
    said = cli("runs", dsn=wrong)
    assert said.code == 2 and "postgresql://user:password@host" in said.one_line()
    assert "hunter2" not in said.err


@pytest.mark.parametrize("command", [("runs",), ("submit", APP, "goal"), ("node", APP), ("daemon", APP)])
def test_a_database_without_the_schema_says_what_to_run(command: tuple[str, ...], cli: Cli, dsn: str) -> None:
    said = cli(*command, dsn=dsn)
    assert said.code == 1 and "callboard init-db" in said.one_line()
    assert query(dsn, "SELECT count(*) FROM pg_namespace WHERE nspname = 'callboard'") == [(0,)]


@pytest.mark.parametrize(("version", "advice"), [(999, "newer callboard"), (0, "callboard init-db")])
def test_a_schema_of_another_age_is_exit_1_and_says_what_to_run(version: int, advice: str, cli: Cli, dsn: str) -> None:
    anyio.run(create_schema, dsn)
    execute(dsn, "DELETE FROM callboard.schema_version")
    execute(dsn, f"INSERT INTO callboard.schema_version VALUES ({version}, now())")
    for command in (("runs",), ("submit", APP, "goal"), ("node", APP), ("daemon", APP)):
        said = cli(*command, dsn=dsn)
        assert said.code == 1 and advice in said.one_line()
    assert query(dsn, "SELECT count(*) FROM callboard.message") == [(0,)]


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("nowhere.to_be:found", ("no module 'nowhere'",)),
        ("tests.service.missing:app", ("no module 'tests.service.missing'",)),
        ("tests.service.desk_app:ap", ("no such attribute", "offers app")),
        ("tests.service.desk_app:issue_refund", ("has a Tool there", "offers app")),
        ("tests.service.conftest:ROOT", ("Path there", "holds no App")),
        ("tests.service.desk_app", ("expected module:attribute",)),
        (":app", ("expected module:attribute",)),
        ("", ("expected module:attribute",)),
    ],
)
@pytest.mark.parametrize("command", ["run", "submit"])
def test_an_unknown_application_names_what_was_given_and_what_is_offered(
    command: str, name: str, parts: tuple[str, ...], cli: Cli, shared: str
) -> None:
    said = cli(command, name, "goal", dsn=shared)
    assert said.code == 2
    for part in (repr(name), *parts):
        assert part in said.one_line()


BROKEN = {
    "unannotated": (
        "from callboard import tool\n\n@tool\nasync def pay(amount):\n    '''Pay.'''\n",
        ("tool 'pay'", "'amount'", "no annotation", "unannotated.py:3"),
    ),
    "raises": ("raise RuntimeError('no config\\nfile')", ("RuntimeError: no config file", "raises.py:1")),
    "lacks": ("import not_installed_here", ("No module named 'not_installed_here'", "lacks.py:1")),
    "torn": ("def broken(:\n", ("SyntaxError", "torn.py:1")),
    "leaves": ("import sys\nsys.exit(3)", ("SystemExit", "leaves.py:2")),
}


@pytest.mark.parametrize("name", BROKEN)
def test_an_error_in_the_users_module_is_one_line_with_its_place(
    name: str, cli: Cli, shared: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, parts = BROKEN[name]
    (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    said = cli("run", f"{name}:app", "goal", dsn=shared)
    assert said.code == 2
    for part in parts:
        assert part in said.one_line()


def test_an_application_that_does_not_open_is_one_line(
    cli: Cli, shared: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shut.py").write_text(
        "from contextlib import asynccontextmanager\nfrom callboard import App\n\n"
        "@asynccontextmanager\nasync def open_it(surroundings):\n    raise KeyError('TOKEN')\n    yield\n\n"
        "app = App('shut', open_it, runs='/shut/run')\n"
    )
    monkeypatch.chdir(tmp_path)
    said = cli("run", "shut:app", "goal", dsn=shared)
    assert said.code == 1
    for part in ("'shut'", "KeyError", "shut.py:6"):
        assert part in said.one_line()


@pytest.mark.parametrize("given", ["nope", "\ud800", "x" * 500, "%", "' OR 1=1 --"])
@pytest.mark.parametrize("command", ["show", "replay", "verify", "tell", "cancel", "approve", "deny"])
def test_an_unknown_run_is_exit_3(command: str, given: str, cli: Cli, shared: str) -> None:
    more = {"tell": ["hello"], "deny": ["--reason", "r"]}.get(command, [])
    said = cli(command, given, *more, dsn=shared)
    assert said.code == 3
    assert "callboard" in said.one_line()


@pytest.mark.parametrize(("given", "code"), [("", 2), (" ", 2), ("/not/Right", 2), ("/desk/run:none", 3), ("/desk", 3)])
def test_a_name_that_cannot_be_a_run_is_refused(given: str, code: int, cli: Cli, shared: str) -> None:
    said = cli("show", given, dsn=shared)
    assert said.code == code, said.one_line()


TOO_LARGE = "x" * 1_100_000


@pytest.mark.parametrize(
    ("goal", "stdin"),
    [("", ""), ("  ", ""), ("-", "\n"), ("-", TOO_LARGE)],
    ids=["empty", "blank", "no-input", "large"],
)
@pytest.mark.parametrize("command", ["submit", "run"])
def test_a_malformed_message_is_exit_2_and_is_not_sent(
    command: str, goal: str, stdin: str, cli: Cli, shared: str
) -> None:
    before = query(shared, "SELECT count(*) FROM callboard.message WHERE type = 'run.start'")
    said = cli(command, APP, goal, stdin=stdin, dsn=shared)
    assert said.code == 2 and ("1,048,576 bytes" if stdin == TOO_LARGE else "needs a goal") in said.one_line()
    assert query(shared, "SELECT count(*) FROM callboard.message WHERE type = 'run.start'") == before


@pytest.mark.parametrize("id", ["x" * 300, "\ud800"])
def test_an_id_that_cannot_be_an_address_is_exit_2(id: str, cli: Cli, shared: str) -> None:
    assert cli("submit", APP, "goal", "--id", id, dsn=shared).code == 2


def test_a_note_of_any_length_is_not_taken(cli: Cli, shared: str) -> None:
    run_id = cli("run", APP, "close 1", "--json", dsn=shared).document["run_id"]
    assert cli("approve", run_id, "--note", "x" * 5_000, dsn=shared).code == 2
    assert query(shared, f"SELECT status FROM callboard.decision WHERE run LIKE '%:{run_id}'") == [("pending",)]


@pytest.mark.parametrize("option", ["novalue", "=x", ""])
def test_an_option_without_a_key_or_value_is_exit_2(option: str, cli: Cli, shared: str) -> None:
    said = cli("run", APP, "goal", "--option", option, dsn=shared)
    assert said.code == 2 and "key=value" in said.one_line()


def test_a_wrong_setting_is_exit_2_and_says_where_it_comes_from(
    cli: Cli, shared: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CALLBOARD_NODES", "many")
    said = cli("runs", dsn=shared)
    assert said.code == 2
    for part in ("CALLBOARD_NODES", "1 to 64", "'many'"):
        assert part in said.one_line()


def test_problems_are_objects_on_stderr_with_json(cli: Cli, shared: str) -> None:
    said = cli("show", "nope", "--json", dsn=shared)
    assert said.code == 3 and not said.out
    assert said.problem == {
        "schema": "callboard.problem/1",
        "type": "not-found",
        "title": "Nothing by that name",
        "detail": said.problem["detail"],
        "code": "not-found",
        "exit_code": 3,
        "next": "callboard runs",
    }
    assert "'nope'" in said.problem["detail"]
