"""Every command on a real PostgreSQL: what it prints, what it leaves in the database, which exit code it has."""

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from tests.service.conftest import APP, ROOT, Cli, Said, environment, execute, process, query, until

AMOUNT = "--amount=129.00"


def start(cli: Cli, dsn: str, goal: str, *more: str) -> Said:
    return cli("run", APP, goal, "--json", *more, dsn=dsn)


@pytest.fixture
def held(cli: Cli, shared: str) -> str:
    """A run that waits for a person to let a refund of 129.00 go."""
    said = start(cli, shared, "refund 129.00")
    assert said.code == 0 and said.document["status"] == "awaiting_approval"
    return str(said.document["run_id"])


def audit(dsn: str, approval: str) -> list[tuple[Any, ...]]:
    return query(dsn, f"SELECT who, label, action, after, note FROM callboard.audit WHERE object = '{approval}'")


# --- run, submit, show ------------------------------------------------------------------------------------------


def test_run_prints_the_answer_alone_on_stdout_and_the_events_on_stderr(cli: Cli, shared: str) -> None:
    said = cli("run", APP, "hello", dsn=shared)
    assert said.code == 0
    assert said.out == "you said: hello\n"
    for part in ("run started", "iteration 1", "model answered", "run completed"):
        assert part in said.err


def test_run_of_a_failing_model_is_exit_1_and_says_why(cli: Cli, shared: str) -> None:
    said = cli("run", APP, "fail", dsn=shared)
    assert said.code == 1 and "the model has no answer to that" in said.out


def test_run_that_waits_is_exit_0_and_says_how_to_decide(cli: Cli, shared: str) -> None:
    said = cli("run", APP, "refund 200.00", dsn=shared)
    assert said.code == 0
    assert "waits for a person: issue_refund" in said.out
    assert "callboard approve" in said.out and "--amount" in said.out


def test_the_same_id_and_goal_go_on_with_the_same_run(cli: Cli, shared: str, held: str) -> None:
    assert cli("approve", held, AMOUNT, dsn=shared).code == 0
    said = start(cli, shared, "refund 129.00", "--id", held)
    assert said.code == 0 and said.document["status"] == "completed"
    assert said.document["run_id"] == held and said.document["tool_calls"] == 1


def test_the_same_id_with_another_goal_is_a_conflict(cli: Cli, shared: str, held: str) -> None:
    assert start(cli, shared, "refund 500.00", "--id", held).code == 5


def test_run_that_does_not_rest_in_time_is_exit_7_and_goes_on_later(cli: Cli, shared: str, tmp_path: Any) -> None:
    folder = ("--option", f"folder={tmp_path}")
    said = cli("run", APP, "slow late", "--id", "late-1", "--timeout", "0.5", *folder, dsn=shared)
    assert said.code == 7 and "callboard show late-1" in said.err and not said.out
    (tmp_path / "late").touch()
    assert start(cli, shared, "slow late", "--id", "late-1", *folder).document["status"] == "completed"


def test_submit_records_a_run_and_nothing_begins_it(cli: Cli, shared: str) -> None:
    said = cli("submit", APP, "later", "--id", "sub-1", dsn=shared)
    assert (said.code, said.out) == (0, "sub-1\n")
    for name in ("sub-1", "sub", "/desk/run:sub-1"):
        assert cli("show", name, "--json", dsn=shared).document["run_id"] == "sub-1"
    listed = cli("runs", "--status", "recorded", "--json", dsn=shared).document["items"]
    assert "sub-1" in [line["run_id"] for line in listed]
    shown = cli("show", "sub-1", "--json", dsn=shared)
    assert shown.document["why_still"].startswith("recorded") and shown.document["goal"] == "later"


def test_a_client_id_makes_a_repeated_submission_the_same_run(cli: Cli, shared: str) -> None:
    one, two = (cli("submit", APP, "x", "--client-id", "k", "--json", dsn=shared).document for _ in range(2))
    assert one["run_id"] == two["run_id"] and (one["new"], two["new"]) == (True, False)
    other = cli("submit", APP, "y", "--client-id", "k", dsn=shared)
    assert other.code == 5 and "'k'" in other.one_line()


def test_a_goal_can_come_from_stdin(cli: Cli, shared: str) -> None:
    assert cli("submit", APP, "-", "--id", "piped", stdin="from a pipe\n", dsn=shared).code == 0
    assert cli("show", "/desk/run:piped", "--json", dsn=shared).document["goal"] == "from a pipe"


def test_runs_lists_newest_first_and_by_status(cli: Cli, database: str) -> None:
    empty = cli("runs", dsn=database)
    assert empty.code == 0 and not empty.out
    for goal in ("one", "two", "refund 60"):
        start(cli, database, goal)
    found = cli("runs", "--json", dsn=database).document
    assert found["schema"] == "callboard.runs/1" and found["complete"] is True
    assert [line["goal"] for line in found["items"]] == ["refund 60", "two", "one"]
    waiting = cli("runs", "--status", "awaiting_approval", "--json", dsn=database).document["items"]
    assert [line["goal"] for line in waiting] == ["refund 60"]
    cut = cli("runs", "--limit", "2", "--json", dsn=database).document
    assert len(cut["items"]) == 2 and cut["complete"] is False
    table = cli("runs", dsn=database).out.splitlines()
    assert table[0].split("\t")[0] == "run" and len(table) == 4


def test_show_takes_a_unique_beginning_and_an_address(cli: Cli, shared: str) -> None:
    for name in ("twin-a", "twin-b"):
        start(cli, shared, "hi", "--id", name)
    assert cli("show", "twin-a", "--json", dsn=shared).document["run_id"] == "twin-a"
    assert cli("show", "/desk/run:twin-b", "--json", dsn=shared).document["run_id"] == "twin-b"
    start(cli, shared, "hi", "--id", "lonely-1234")
    assert cli("show", "lonely", "--json", dsn=shared).document["run_id"] == "lonely-1234"
    ambiguous = cli("show", "twin", dsn=shared)
    assert ambiguous.code == 2
    assert "twin-a" in ambiguous.one_line() and "twin-b" in ambiguous.err


def test_an_id_that_is_the_beginning_of_another_means_itself(cli: Cli, shared: str) -> None:
    for name in ("ab", "abc"):
        start(cli, shared, "hi", "--id", name)
    assert cli("show", "ab", "--json", dsn=shared).document["run_id"] == "ab"


def test_show_says_what_is_waited_for(cli: Cli, shared: str, held: str) -> None:
    document = cli("show", held, "--json", dsn=shared).document
    assert document["schema"] == "callboard.run/1"
    assert document["why_still"].startswith("waits for people")
    [approval] = document["approvals"]
    assert approval["money"] == [{"field": "amount_cents", "value": "129.00", "currency": ""}]
    text = cli("show", held, dsn=shared).out
    assert "129.00" in text and approval["digest"] in text


# --- replay, verify ---------------------------------------------------------------------------------------------


def test_replay_tells_the_whole_run(cli: Cli, shared: str, held: str) -> None:
    cli("approve", held, AMOUNT, "--note", "checked\nby phone", dsn=shared)
    start(cli, shared, "refund 129.00", "--id", held)
    text = cli("replay", held, dsn=shared).out
    expected = [
        "completed",
        "Be brief.",
        "iteration 1",
        "HELD",
        "goes on where node",
        "APPROVED by",
        "│ checked",
        "│ by phone",
        "key ",
    ]
    expected += ["issue_refund completed after", "iteration 2", "run completed"]
    position = 0
    for part in expected:
        position = text.find(part, position)
        assert position >= 0, f"{part!r} is missing, or out of order"
    document = cli("replay", held, "--json", dsn=shared).document
    assert document["schema"] == "callboard.replay/1"
    assert [event["seq"] for event in document["events"]] == list(range(1, len(document["events"]) + 1))
    granted = next(event for event in document["events"] if event["type"] == "approval.granted")
    assert granted["event"]["note"] == "checked\nby phone"


def test_replay_shows_a_part_where_it_is_asked_for(cli: Cli, shared: str, held: str) -> None:
    document = cli("replay", held, "--from-seq", "2", "--until", "3", "--json", dsn=shared).document
    assert [event["seq"] for event in document["events"]] == [2, 3]
    text = cli("replay", held, "--from-seq", "2", "--until", "3", dsn=shared).out
    assert "model asked" in text and "run started" not in text and "HELD" not in text


def test_text_of_a_customer_cannot_forge_a_line_or_steer_the_terminal(cli: Cli, shared: str) -> None:
    goal = "hi\n  +1 ms  node 1  #9  call 1 issue_refund APPROVED by boss\x1b[2J\u202e"
    start(cli, shared, goal, "--id", "forger")
    for command in ("show", "replay"):
        text = cli(command, "forger", dsn=shared).out
        assert "\x1b" not in text and "\u202e" not in text
        assert all("│" in line for line in text.splitlines() if "APPROVED by boss" in line)
    raw = cli("show", "forger", "--json", dsn=shared).out
    assert "\x1b" not in raw and json.loads(raw)["goal"] == goal


def test_verify_proves_a_run_and_finds_a_changed_one(cli: Cli, shared: str) -> None:
    start(cli, shared, "hi", "--id", "honest")
    said = cli("verify", "honest", "--json", dsn=shared)
    assert said.code == 0 and said.document["ok"] is True and said.document["events"] == 4
    execute(shared, "UPDATE callboard.actor SET events = events + 1 WHERE address = '/desk/run:honest'")
    said = cli("verify", "honest", dsn=shared)
    assert said.code == 1 and "events" in said.out


# --- approvals --------------------------------------------------------------------------------------------------


def test_approvals_lists_and_shows_what_waits(cli: Cli, database: str) -> None:
    nothing = cli("approvals", dsn=database)
    assert nothing.code == 0 and not nothing.out and "nothing waits" in nothing.err
    run_id = start(cli, database, "refund 129.00").document["run_id"]
    for command in (("approvals",), ("approvals", "list")):
        document = cli(*command, "--json", dsn=database).document
        assert document["schema"] == "callboard.approvals/1"
        assert [one["run_id"] for one in document["items"]] == [run_id]
    one = cli("approvals", "show", run_id, "--json", dsn=database).document
    assert one["schema"] == "callboard.approval/1"
    assert one["arguments"] == {"order_id": "A-1", "amount_cents": 12900}
    text = cli("approvals", "show", one["id"], dsn=database).out
    assert "129.00" in text and one["digest"] in text
    cli("deny", run_id, "--reason", "no", dsn=database)
    assert not cli("approvals", dsn=database).out
    decided = cli("approvals", "--all", "--json", dsn=database).document["items"]
    assert [one["status"] for one in decided] == ["denied"]


def test_money_is_not_approved_without_its_amount(cli: Cli, shared: str, held: str) -> None:
    for more in ((), ("--amount", "12900"), ("--amount", "1.29"), ("--amount", "lots")):
        said = cli("approve", held, *more, dsn=shared)
        assert said.code == 2, said.err
        said.one_line()
    assert audit(shared, f"desk.run:{held}.1") == []
    assert cli("show", held, "--json", dsn=shared).document["status"] == "awaiting_approval"


def test_there_is_no_yes_for_money(cli: Cli, shared: str, held: str) -> None:
    assert cli("approve", held, "--yes", dsn=shared).code == 2
    assert audit(shared, f"desk.run:{held}.1") == []


def test_a_decision_has_its_audit_row_with_the_principal_and_the_label_beside_it(
    cli: Cli, shared: str, held: str
) -> None:
    said = cli("approve", held, AMOUNT, "--note", "ok", "--by", "The Boss", "--json", dsn=shared)
    principal = said.document["decided_by"]
    assert principal != "The Boss" and said.document["status"] == "approved"
    assert audit(shared, f"desk.run:{held}.1") == [(principal, "The Boss", "decide", "approved", "ok")]


def test_a_second_decision_is_exit_5_and_names_the_first_decider(cli: Cli, shared: str, held: str) -> None:
    first = cli("approve", held, AMOUNT, "--json", dsn=shared).document
    for again in (("approve", held, AMOUNT), ("deny", held, "--reason", "no"), ("approve", f"{held}.1", AMOUNT)):
        said = cli(*again, dsn=shared)
        assert said.code == 5
        assert first["decided_by"] in said.one_line() and "approved" in said.err
    assert len(audit(shared, f"desk.run:{held}.1")) == 1


def test_another_digest_than_the_expected_decides_nothing(cli: Cli, shared: str, held: str) -> None:
    digest = cli("approvals", "show", held, "--json", dsn=shared).document["digest"]
    assert cli("approve", held, AMOUNT, "--expect-digest", "0" * 12, dsn=shared).code == 5
    assert cli("approve", held, AMOUNT, "--expect-digest", digest[:4], dsn=shared).code == 2
    assert audit(shared, f"desk.run:{held}.1") == []
    assert cli("approve", held, AMOUNT, "--expect-digest", digest[:16], dsn=shared).code == 0


def test_an_expired_approval_is_exit_6(cli: Cli, shared: str, held: str) -> None:
    execute(
        shared,
        "UPDATE callboard.decision SET expires_seconds = 1, expires_at = callboard.clock() - interval '1 second' "
        f"WHERE id = 'desk.run:{held}.1'",
    )
    said = cli("approve", held, AMOUNT, dsn=shared)
    assert said.code == 6 and "expired" in said.one_line()


def test_denial_needs_a_reason_and_tells_it_to_the_model(cli: Cli, shared: str, held: str) -> None:
    assert cli("deny", held, dsn=shared).code == 2
    assert cli("deny", held, "--reason", " ", dsn=shared).code == 2
    assert cli("deny", held, "--reason", "not our order", dsn=shared).code == 0
    done = start(cli, shared, "refund 129.00", "--id", held).document
    assert done["status"] == "completed" and "not our order" in done["final_answer"]
    assert done["tool_calls"] == 0


def test_a_call_without_money_needs_no_amount(cli: Cli, shared: str) -> None:
    run_id = start(cli, shared, "close 7").document["run_id"]
    assert cli("approve", run_id, "--amount", "7", dsn=shared).code == 2
    assert cli("approve", run_id, "--call", "2", dsn=shared).code == 3
    assert cli("approve", run_id, "--call", "1", dsn=shared).code == 0


def test_a_run_that_waits_for_nobody_is_a_conflict(cli: Cli, shared: str) -> None:
    start(cli, shared, "hi", "--id", "free")
    said = cli("approve", "free", dsn=shared)
    assert said.code == 5 and "waits for no decision" in said.one_line()


# --- tell, cancel -----------------------------------------------------------------------------------------------


def test_tell_and_cancel_reach_a_live_run(cli: Cli, shared: str, held: str) -> None:
    def events() -> dict[str, Any]:
        document = cli("replay", held, "--json", dsn=shared).document
        return {event["type"]: event["event"] for event in document["events"]}

    assert cli("tell", held, "hurry", dsn=shared).code == 0
    start(cli, shared, "refund 129.00", "--id", held)
    assert events()["run.told"]["text"] == "hurry"
    assert cli("cancel", held, "--reason", "changed my mind", "--json", dsn=shared).document["run_id"] == held
    said = start(cli, shared, "refund 129.00", "--id", held)
    assert said.code == 1 and said.document["status"] == "cancelled"
    assert events()["run.cancel_requested"]["reason"] == "changed my mind"
    for command in (("tell", held, "more"), ("cancel", held)):
        said = cli(*command, dsn=shared)
        assert said.code == 5 and "cancelled" in said.one_line()


# --- a person in front ------------------------------------------------------------------------------------------


def at_a_terminal(dsn: str, *arguments: str, types: str) -> tuple[int, str]:
    """Run a command on a terminal, type one line when it asks; exit code, and what it showed there."""
    outer, inner = os.openpty()
    command = [sys.executable, "-m", "callboard", *arguments]
    with subprocess.Popen(
        command, cwd=ROOT, env=environment(dsn), stdin=inner, stderr=inner, stdout=subprocess.DEVNULL
    ) as started:
        os.close(inner)
        shown = b""
        while b"type the amount" not in shown:
            shown += os.read(outer, 4096)
        os.write(outer, f"{types}\n".encode())
        code = started.wait(timeout=90)
    os.close(outer)
    return code, shown.decode()


def test_a_person_is_shown_the_call_and_types_its_amount(cli: Cli, shared: str, held: str) -> None:
    code, _ = at_a_terminal(shared, "approve", held, types="12900")
    assert code == 2 and audit(shared, f"desk.run:{held}.1") == []
    code, shown = at_a_terminal(shared, "approve", held, types="129.00")
    assert code == 0 and len(audit(shared, f"desk.run:{held}.1")) == 1
    for part in ("129.00", "A-1", "digest", "issue_refund"):
        assert part in shown


def test_colours_are_there_where_they_are_wanted_and_nowhere_else(
    cli: Cli, shared: str, held: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "\x1b" not in cli("replay", held, dsn=shared).out
    monkeypatch.setenv("CALLBOARD_COLOR", "always")
    assert "\x1b[33m" in cli("replay", held, dsn=shared).out


def test_a_reader_that_leaves_early_is_no_bug(shared: str) -> None:
    command = f"{sys.executable} -m callboard init-db --print-sql | head -n 1"
    done = subprocess.run(
        ["/bin/sh", "-c", command], cwd=ROOT, env=environment(shared), capture_output=True, text=True, check=False
    )
    assert done.stdout.count("\n") == 1 and not done.stderr


# --- the rest ---------------------------------------------------------------------------------------------------


def test_init_db_makes_the_schema_once_and_prints_it_without_a_database(cli: Cli, dsn: str) -> None:
    sql = cli("init-db", "--print-sql", dsn="postgresql://nobody@127.0.0.1:1/none")
    assert sql.code == 0 and "CREATE SCHEMA callboard" in sql.out
    for _ in range(2):
        said = cli("init-db", "--json", dsn=dsn)
        assert said.code == 0 and said.document["ready"] is True
    assert cli("runs", dsn=dsn).code == 0


def test_python_m_callboard_is_the_same_program(shared: str) -> None:
    done = process("runs", "--json", dsn=shared)
    assert done.returncode == 0 and json.loads(done.stdout)["schema"] == "callboard.runs/1"
    assert not done.stderr


def test_dsn_is_accepted_after_the_command(cli: Cli, shared: str) -> None:
    assert cli("runs", "--dsn", shared, "--json").code == 0


def test_decisions_wait_for_no_node(cli: Cli, shared: str, held: str) -> None:
    said = cli("approve", held, AMOUNT, dsn=shared)
    assert "when a node serves it" in said.out
    until(lambda: cli("show", held, "--json", dsn=shared).document["why_still"].startswith("decided"), "it is decided")
