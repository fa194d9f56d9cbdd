"""`callboard fork`, and the budget of `callboard.toml`, on a real PostgreSQL."""

from pathlib import Path

import pytest

from tests.service.conftest import APP, Cli, until


def until_begun(cli: Cli, dsn: str, fork: str) -> None:
    """Be a node until a fork has begun: one goes when its own run has ended, perhaps before it came to the fork."""

    def begun() -> bool:
        assert cli("run", APP, "hello", dsn=dsn).code == 0
        listed = {line["run_id"]: line for line in cli("runs", "--json", dsn=dsn).document["items"]}
        return str(listed[fork]["status"]) in ("awaiting_approval", "completed")

    until(begun, "the fork begins")


def test_a_run_is_forked_at_an_event_and_the_list_says_where_it_comes_from(cli: Cli, shared: str) -> None:
    origin = cli("run", APP, "hello", "--json", dsn=shared).document["run_id"]
    said = cli("fork", origin, "--at", "1", "--note", "what if", "--json", dsn=shared)
    assert said.code == 0 and said.document["origin"] == origin
    fork = said.document["run_id"]
    assert cli("show", fork, "--json", dsn=shared).document["status"] == "running"  # recorded; no node is there
    listed = {line["run_id"]: line for line in cli("runs", "--json", dsn=shared).document["items"]}
    assert listed[fork]["status"] == "recorded" and listed[fork]["origin"] == origin

    served = cli("run", APP, "hello", dsn=shared)  # a node for a while, which works on what there is
    assert served.code == 0
    assert cli("verify", origin, dsn=shared).code == 0


def test_what_cannot_be_forked_is_one_line_with_the_way_out(cli: Cli, shared: str) -> None:
    origin = cli("run", APP, "hello", "--json", dsn=shared).document["run_id"]
    for arguments, words in (
        ((origin, "--at", "99"), f"run {origin} has events 1 to"),
        ((origin, "--at", "0"), "cannot be forked at 0"),
        ((origin,), "say what its fork shall do"),
        (("nobody",), "no run 'nobody'"),
    ):
        said = cli("fork", *arguments, dsn=shared)
        assert said.code != 0 and words in said.one_line()
    told = cli("tell", origin, "and now?", dsn=shared)
    assert told.code != 0 and f"callboard fork {origin} --say TEXT" in told.one_line()


def test_af10_new_runs_have_the_budget_of_the_file(
    cli: Cli, shared: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "callboard.toml"
    file.write_text("[budget]\nmax_iterations = 1\n", encoding="utf-8")
    done = cli("run", APP, "close 7", "--json", dsn=shared)
    run = done.document["run_id"]
    assert cli("approve", run, dsn=shared).code == 0
    done = cli("run", APP, "close 7", "--id", run, "--json", dsn=shared)
    assert done.code == 1 and "1 of 1 iterations are used" in done.out
    submitted = cli("submit", APP, "hello", "--json", dsn=shared).document["run_id"]
    assert "max_iterations 1," in cli("replay", submitted, dsn=shared).out

    file.write_text("[budget]\nmax_steps = 1\n", encoding="utf-8")
    for command in ("run", "submit"):
        said = cli(command, APP, "hello", dsn=shared)
        assert said.code == 2 and "callboard.toml: budget.max_steps: there is no such key" in said.one_line()
    assert cli("daemon", APP, dsn=shared).code == 2


def test_a_replay_of_a_fork_says_what_it_is(cli: Cli, shared: str) -> None:
    origin = cli("run", APP, "refund 20.00", "--json", dsn=shared).document["run_id"]
    fork = cli("fork", origin, "--at", "1", "--note", "what if", "--json", dsn=shared).document["run_id"]
    until_begun(cli, shared, fork)
    said = cli("replay", fork, dsn=shared)
    assert f"forked from /desk/run:{origin} at its event 1" in said.out and "what if" in said.out
    assert f"held if asked for again: call 1 of run {origin}" in said.out


def test_a_replay_of_a_fork_says_that_its_origin_was_at_work(cli: Cli, shared: str) -> None:
    cli("run", APP, "refund 80.00", "--id", "waits", dsn=shared)
    assert cli("show", "waits", "--json", dsn=shared).document["status"] == "awaiting_approval"
    fork = cli("fork", "waits", "--at", "1", "--json", dsn=shared).document["run_id"]
    until_begun(cli, shared, fork)
    said = cli("replay", fork, dsn=shared)
    assert "every call with a side effect is held: run waits was still at work" in said.out
