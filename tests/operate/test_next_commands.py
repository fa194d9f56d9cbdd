"""What is refused names a command that helps, and that command runs as it is printed."""

import json
import shlex

import pytest

from tests.service.conftest import APP, Cli, execute


@pytest.fixture(scope="module")
def runs(shared: str) -> str:
    return shared


def ran(cli: Cli, dsn: str, command: str) -> None:
    """The next command, as printed."""
    words = shlex.split(command)
    assert words[0] == "callboard", command
    said = cli(*words[1:], dsn=dsn)
    assert said.code == 0 and (said.out or said.err), (command, said)


def test_g5_each_refused_decision_names_a_command_that_shows_what_was_refused(cli: Cli, runs: str) -> None:
    cli("run", APP, "refund 129.00", "--id", "paid", dsn=runs)
    paid = "desk.run:paid.1"
    for amount in ((), ("--amount", "12.90"), ("--amount", "129,0")):
        said = cli("approve", "paid", *amount, "--json", dsn=runs)
        assert (said.code, said.problem["next"]) == (2, f"callboard approvals show {paid}"), said
    ran(cli, runs, f"callboard approvals show {paid}")
    assert cli("approve", "paid", "--amount", "129.00", "--note", "photo seen", dsn=runs).code == 0
    cli("run", APP, "refund 129.00", "--id", "paid", dsn=runs)
    late = cli("approve", paid, "--amount", "129.00", "--json", dsn=runs)
    assert late.code == 5 and "was approved by" in late.problem["detail"], "let go by the runtime, approved by a person"
    ran(cli, runs, late.problem["next"])
    assert "photo seen" in cli(*shlex.split(late.problem["next"])[1:], dsn=runs).out


def test_approvals_with_a_run_or_an_id_shows_that_one_as_mailbox_and_dead_do(cli: Cli, runs: str) -> None:
    cli("run", APP, "refund 77.00", "--id", "asked", dsn=runs)
    shown = cli("approvals", "show", "asked", dsn=runs)
    assert "approve desk.run:asked.1 --amount … " in shown.out, "how to decide is said where it is looked at"
    for words in (("asked",), ("desk.run:asked.1",), ("--time", "utc", "asked")):
        assert cli("approvals", *words, dsn=runs).out == shown.out
    listed = cli("approvals", dsn=runs)
    ran(cli, runs, listed.err.strip().partition(": ")[2])
    assert cli("approvals", "nosuch", dsn=runs).code == 3
    assert cli("approvals", "--all", "--json", dsn=runs).document["schema"] == "callboard.approvals/1"


def test_an_id_that_is_taken_names_the_run_and_no_key_that_nobody_gave(cli: Cli, runs: str) -> None:
    assert cli("submit", APP, "one thing", "--id", "taken", dsn=runs).code == 0
    said = cli("submit", APP, "another", "--id", "taken", "--json", dsn=runs)
    assert said.code == 5 and "client id" not in said.problem["detail"]
    ran(cli, runs, said.problem["next"])


def test_what_is_over_names_the_fork_as_the_way_on(cli: Cli, runs: str) -> None:
    cli("run", APP, "hello", "--id", "over", dsn=runs)
    said = cli("tell", "over", "more", "--json", dsn=runs)
    assert (said.code, said.problem["next"]) == (5, "callboard fork over --say TEXT")
    assert "first" not in said.problem["title"], "nobody was first; it is over"
    ran(cli, runs, said.problem["next"])


def test_g8_a_tampered_journal_is_named_with_exit_1_and_the_others_are_proved(cli: Cli, database: str) -> None:
    for run in ("whole", "broken", "cut"):
        assert cli("run", APP, "refund 10.00", "--id", run, dsn=database).code == 0
    assert cli("verify", "--all", dsn=database).code == 0
    execute(database, "alter table callboard.journal disable trigger user")
    change = "replace(body, 'done:', 'DONE:')"
    execute(database, f"update callboard.journal set body = {change} where address like '%:broken'")
    execute(database, "delete from callboard.journal where address like '%:cut' and seq = 3")
    said = cli("verify", "--all", dsn=database)
    told = said.out + said.err
    assert "cut: events: 8 counted, 7 in the journal; lost: 3" in told, "which event is gone is said"
    assert said.code == 1 and "broken" in told and "cut" in told and "whole" not in said.err, said
    items = [json.loads(line) for line in cli("verify", "--all", "--jsonl", dsn=database).out.splitlines()]
    assert len(items) >= 2 and {item["schema"] for item in items} == {"callboard.verification/1"}
    for run, code in (("whole", 0), ("broken", 1), ("cut", 1)):
        assert cli("verify", run, dsn=database).code == code, run
