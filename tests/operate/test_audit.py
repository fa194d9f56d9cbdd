"""Who did that, who approved it, what waits for me: each from one command."""

import json
import subprocess
import sys

import pytest

from tests.service.conftest import APP, ROOT, Cli, environment, execute, query, until


@pytest.fixture
def me(cli: Cli, shared: str) -> str:
    """The principal of this terminal."""
    run = cli("submit", APP, "who am I", "--json", dsn=shared).document["run_id"]
    return str(cli("show", run, "--json", dsn=shared).document["requested_by"])


def test_audit_of_a_run_has_its_decisions_newest_first_with_who_from_where_and_why(
    cli: Cli, shared: str, me: str
) -> None:
    cli("run", APP, "refund 129.00", "--id", "paid", dsn=shared)
    cli("approve", "paid", "--amount", "129.00", "--note", "photo seen", "--by", "shift 2", dsn=shared)
    cli("run", APP, "refund 129.00", "--id", "paid", dsn=shared)
    items = cli("audit", "paid", "--json", dsn=shared).document["items"]
    assert [(row["action"], row["object"]) for row in items] == [
        ("move", "desk.run:paid.1"),
        ("decide", "desk.run:paid.1"),
        ("submit", "/desk/run:paid"),
    ]
    decision, submit = items[1], items[2]
    assert (decision["who"], decision["label"], decision["channel"]) == (me, "shift 2", "cli")
    assert (decision["before"], decision["after"], decision["note"]) == ("pending", "approved", "photo seen")
    assert decision["host"] and submit["channel"] == "cli" and submit["at"] < decision["at"]
    text = cli("audit", "paid", dsn=shared).out
    assert f"{me} (shift 2)" in text and "pending -> approved" in text and "photo seen" in text


def test_audit_of_a_run_has_nothing_of_another_whose_id_begins_like_it(cli: Cli, shared: str) -> None:
    for run in ("ab", "abc"):
        cli("run", APP, "hello", "--id", run, dsn=shared)
    items = cli("audit", "ab", "--json", dsn=shared).document["items"]
    assert {row["object"] for row in items} == {"/desk/run:ab"}


def test_audit_is_narrowed_by_who_and_what_and_says_where_there_is_more(cli: Cli, shared: str, me: str) -> None:
    for number in range(3):
        cli("run", APP, "hello", "--id", f"many-{number}", dsn=shared)
    said = cli("audit", "/desk/run:many", "--limit", "2", "--jsonl", dsn=shared)
    lines = [json.loads(line) for line in said.out.splitlines()]
    assert [line["object"] for line in lines] == ["/desk/run:many-2", "/desk/run:many-1"]
    assert {line["schema"] for line in lines} == {"callboard.audit.item/1"}
    assert "there are more" in cli("audit", "/desk/run:many", "--limit", "2", dsn=shared).err
    assert cli("audit", "--who", me, "--action", "submit", "--json", dsn=shared).document["items"]
    said = cli("audit", "--who", "nobody", dsn=shared)
    assert said.code == 0 and not said.out and "nothing of that kind" in said.err


def test_a_note_of_a_stranger_cannot_forge_a_row(cli: Cli, shared: str) -> None:
    cli("run", APP, "close 7", "--id", "forged", dsn=shared)
    cli("deny", "forged", "--reason", "no\n2026-01-01\tboss\tcli\tdecide\x1b[2J", dsn=shared)
    out = cli("audit", "forged", dsn=shared).out
    assert "\x1b" not in out and not any(line.startswith("2026-01-01\tboss") for line in out.splitlines())


# --- approvals --------------------------------------------------------------------------------------------------


def ids(document: dict[str, list[dict[str, str]]]) -> list[str]:
    return [one["id"] for one in document["items"]]


def test_mine_is_what_i_may_approve_and_have_not(cli: Cli, database: str) -> None:
    for run, goal in (("open", "close 7"), ("both", "close 101"), ("barred", "close 300")):
        assert cli("run", APP, goal, "--id", run, dsn=database).code == 0
    assert len(ids(cli("approvals", "--json", dsn=database).document)) == 3
    mine = ids(cli("approvals", "--mine", "--json", dsn=database).document)
    assert mine == ["desk.run:open.1", "desk.run:both.1"], "whoever asked for it cannot approve it"
    assert cli("approve", "both", dsn=database).code == 0
    assert ids(cli("approvals", "--mine", "--json", dsn=database).document) == ["desk.run:open.1"]
    assert "desk.run:both.1" in ids(cli("approvals", "--json", dsn=database).document), "it waits for another one"
    said = cli("approvals", "--mine", "--decided", dsn=database)
    assert said.code == 2 and "give one of them" in said.one_line()


def test_decided_says_who_when_why_and_what_came_of_it(cli: Cli, database: str) -> None:
    for run in ("yes", "no"):
        cli("run", APP, "refund 129.00", "--id", run, dsn=database)
    cli("approve", "yes", "--amount", "129.00", "--note", "photo seen", dsn=database)
    waits = cli("approvals", "--decided", "--json", dsn=database).document["items"]
    assert [(one["did"], one["outcome"]) for one in waits] == [("approved", "let go; not made yet")]
    cli("deny", "no", "--reason", "no photo", dsn=database)
    cli("run", APP, "refund 129.00", "--id", "yes", dsn=database)
    denied, approved = cli("approvals", "--decided", "--json", dsn=database).document["items"]
    assert (denied["did"], denied["note"], denied["outcome"]) == ("denied", "no photo", "not made; the model was told")
    assert (approved["did"], approved["note"]) == ("approved", "photo seen")
    assert approved["outcome"].startswith("ran once")
    assert approved["approval"]["schema"] == "callboard.approval/1" and approved["at"] < denied["at"]
    assert len(cli("approvals", "--decided", "--limit", "1", "--jsonl", dsn=database).out.splitlines()) == 1
    text = cli("approvals", "--decided", dsn=database).out
    assert "ran once" in text and "129.00" in text and "no photo" in text


def test_a_pipe_that_watches_approvals_gets_a_line_for_each_change(cli: Cli, database: str) -> None:
    cli("run", APP, "close 7", "--id", "first", dsn=database)
    command = [sys.executable, "-m", "callboard", "approvals", "--watch"]
    with subprocess.Popen(
        command, env=environment(database), cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as watcher:
        try:
            assert watcher.stdout is not None
            assert ids(json.loads(watcher.stdout.readline())) == ["desk.run:first.1"]
            assert cli("deny", "first", "--reason", "no", dsn=database).code == 0
            assert ids(json.loads(watcher.stdout.readline())) == []
        finally:
            watcher.kill()


# --- runs and their proofs --------------------------------------------------------------------------------------


def test_runs_are_narrowed_by_time_and_by_who_asked_and_summed_up(cli: Cli, database: str) -> None:
    cli("run", APP, "hello", "--id", "old", dsn=database)
    cli("run", APP, "close 7", "--id", "new", dsn=database)
    me = cli("show", "new", "--json", dsn=database).document["requested_by"]

    def found(*arguments: str) -> list[str]:
        return [one["run_id"] for one in cli("runs", *arguments, "--json", dsn=database).document["items"]]

    assert found("--since", "1h") == ["new", "old"] == found("--requested-by", me)
    assert found("--since", "2999-01-01") == [] == found("--requested-by", "nobody")
    assert found("--since", "1h", "--status", "completed") == ["old"]
    assert cli("runs", "--since", "yesterday", dsn=database).code == 2
    assert "2 run(s): 0 tokens, 0 USD" in cli("runs", dsn=database).err


def test_verify_all_proves_every_run_and_names_the_broken_ones(cli: Cli, database: str) -> None:
    for run in ("sound", "broken"):
        cli("run", APP, "hello", "--id", run, dsn=database)
    said = cli("verify", "--all", dsn=database)
    assert said.code == 0 and "2 run(s): each state is the fold of its journal, 8 events in all" in said.out
    execute(database, "UPDATE callboard.actor SET events = events + 1 WHERE address = '/desk/run:broken'")
    said = cli("verify", "--all", dsn=database)
    assert said.code == 1 and said.out.startswith("broken: events") and "1 of 2 runs are broken" in said.err
    document = cli("verify", "--all", "--json", dsn=database).document
    assert (document["ok"], document["runs"], document["events"]) == (False, 2, 8)
    assert [one["run_id"] for one in document["broken"]] == ["broken"]
    assert len(cli("verify", "--all", "--jsonl", dsn=database).out.splitlines()) == 2
    assert cli("verify", dsn=database).code == 2 and cli("verify", "sound", "--all", dsn=database).code == 2


def test_what_watches_changes_nothing(cli: Cli, database: str) -> None:
    cli("run", APP, "close 7", "--id", "r", dsn=database)
    until(lambda: query(database, "SELECT count(*) FROM callboard.decision")[0][0] == 1, "it asks")
    tables = ("message", "audit", "journal", "decision", "turn", "number_lease")
    counts = [query(database, f"SELECT count(*) FROM callboard.{table}") for table in tables]
    for command in (
        ("replay", "r"),
        ("show", "r"),
        ("show", "r", "--follow"),
        ("runs",),
        ("approvals", "--mine"),
        ("approvals", "--decided"),
        ("audit", "r"),
        ("verify", "--all"),
    ):
        assert cli(*command, dsn=database).code == 0
    assert [query(database, f"SELECT count(*) FROM callboard.{table}") for table in tables] == counts
