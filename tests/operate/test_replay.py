"""`replay`: a person understands a run from it alone, crashes included; and so does a program."""

import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.flagship.conftest import LEDGER
from tests.service.conftest import APP, ROOT, Cli, environment, execute

_UNSTEADY = (
    (re.compile(r"\b[0-9a-f]{64}\b"), "HASH"),
    (re.compile(r"@[0-9a-f]{12}\b"), "@VERSION"),
    (re.compile(r"\d{4}-\d\d-\d\dT[0-9:.]+Z"), "WHEN"),
    (re.compile(r" +\+?\b\d+(\.\d+)? (ms|s|min)\b( \d\d s)?"), " SPAN"),
)


def steady(text: str) -> str:
    """A text without what differs from run to run."""
    for pattern, word in _UNSTEADY:
        text = pattern.sub(word, text)
    return text


def program(dsn: str, folder: Path, *arguments: str, **more: str) -> int:
    """Run the program of the flagship tests to its end; its exit code."""
    env = {**environment(), "DATABASE_URL": dsn, "KILL_MARK": str(folder / "mark"), **more}
    command = [sys.executable, "-m", "tests.flagship.program", *arguments]
    return subprocess.run(command, env=env, cwd=ROOT, check=False, timeout=120, capture_output=True).returncode


@pytest.fixture
def crashed(database: str, tmp_path: Path) -> str:
    """A database with a run C: three refunds at once, killed between an effect and its record, and taken over."""
    execute(database, LEDGER)
    assert program(database, tmp_path, "start", "three C", "C", KILL_AFTER_EFFECT="1") == -signal.SIGKILL
    assert program(database, tmp_path, "resume", "C") == 0
    return database


def test_g7_replay_of_a_killed_run_says_who_went_on_what_was_kept_and_what_was_recovered(
    cli: Cli, crashed: str
) -> None:
    document = cli("replay", "C", "--json", dsn=crashed).document
    (move,) = document["moves"]
    assert move["before"] != move["after"] and move["answers"] == 1, "the paid answer was kept"
    finished = [e["event"] for e in document["events"] if e["type"] == "tool.completed"]
    recovered = [e for e in finished if e["recovered"]]
    assert recovered, "the call whose effect had happened was recovered, not made as another one"
    assert document["account"]["recovered"] >= len(recovered)
    assert move["calls"] + sum("sent under its key" in one for one in move["under_way"]) == 3

    text = cli("replay", "C", dsn=crashed).out
    assert f"── node {move['after']} goes on where node {move['before']} stopped" in text
    assert "kept, not done again: 1 model answer(s)" in text
    for one in move["under_way"]:
        assert f"was under way: {one}" in text
    assert text.count(f"[recovered by node {move['after']}]") == document["account"]["recovered"]
    assert f"went through nodes {move['before']}, {move['after']}" in text
    assert cli("verify", "C", dsn=crashed).code == 0


def test_the_time_of_a_killed_run_adds_up_to_its_length(cli: Cli, crashed: str) -> None:
    account = cli("replay", "C", "--json", dsn=crashed).document["account"]
    assert account["parts"]["changes of node"] > 0
    assert sum(account["parts"].values()) == pytest.approx(account["seconds"], abs=1e-6)


GOLDEN = """\
run golden  completed
  address       /desk/run:golden
  requested by  ME, model unspecified
  started       WHEN, SPAN to its last event
  spent         2 iteration(s), 1 tool call(s), 0 tokens in, 0 out, 0 USD
  budget        max_iterations 50, max_tokens 150000
  goal
      │ refund 129.00
 SPAN  node 1   #1    run started; tools: issue_refund@VERSION, close_ticket@VERSION, wait_for_file@VERSION
      system prompt
      │ Be brief.

iteration 1
 SPAN  node 1   #2    model asked
 SPAN  node 1   #3    model answered after SPAN, attempt 1 (0 in, 0 out, 0 USD)
      asks for issue_refund
      │ {
      │   "order_id": "A-1",
      │   "amount_cents": 12900
      │ }
 SPAN  node 1   #4    call 1 issue_refund HELD, approval desk.run:golden.1 asked for
      │ issue_refund needs approval for these arguments
      │ {
      │   "order_id": "A-1",
      │   "amount_cents": 12900
      │ }
      digest HASH
  ── node 2 goes on where node 1 stopped, SPAN after its last word ──
      kept, not done again: 1 model answer(s), 0 call(s)
      was under way: call 1 issue_refund, held for a decision
  ┄┄ waited SPAN for a decision: ME approved ┄┄
 SPAN  node 2   #5    call 1 APPROVED by ME after SPAN
      │ seen
 SPAN  node 2   #6    call 1 issue_refund sent, let go by approval desk.run:golden.1; key HASH
      │ {
      │   "order_id": "A-1",
      │   "amount_cents": 12900
      │ }
 SPAN  node 2   #7    call 1 issue_refund completed after SPAN, attempt 1
      │ {
      │   "refunded": 12900,
      │   "order": "A-1"
      │ }

iteration 2
 SPAN  node 2   #8    model asked
 SPAN  node 2   #9    model answered after SPAN, attempt 1 (0 in, 0 out, 0 USD)
      │ done: {"refunded":12900,"order":"A-1"}
 SPAN  node 2   #10   run completed
      │ done: {"refunded":12900,"order":"A-1"}

time  SPAN: PARTS
      went through nodes 1, 2
cost  0 USD
      unnamed model: 2 answer(s), 0 tokens in, 0 out, 0 USD
"""


def test_the_text_of_a_run_that_waited_for_a_person(cli: Cli, database: str) -> None:
    assert cli("run", APP, "refund 129.00", "--id", "golden", dsn=database).code == 0
    assert cli("approve", "golden", "--amount", "129.00", "--note", "seen", dsn=database).code == 0
    assert cli("run", APP, "refund 129.00", "--id", "golden", dsn=database).code == 0
    me = cli("show", "golden", "--json", dsn=database).document["requested_by"]
    text = steady(cli("replay", "golden", dsn=database).out)
    text = re.sub(rf"\b{re.escape(me)}\b", "ME", text)
    text = re.sub(r"^time SPAN: .*$", "time  SPAN: PARTS", text, flags=re.MULTILINE)
    # A call of a millisecond says how long it took.
    text = re.sub(r" \([\d.]+ (ms|s|min)( \d\d s)?\)$", "", text, flags=re.MULTILINE)
    assert text.splitlines() == GOLDEN.splitlines()


def test_a_part_is_told_from_and_until_an_event(cli: Cli, shared: str) -> None:
    cli("run", APP, "hello", "--id", "part", dsn=shared)
    text = cli("replay", "part", "--from", "2", "--until", "3", dsn=shared).out
    assert "model asked" in text and "run started" not in text and "run completed" not in text
    assert "cost  0 USD" in text, "the sums are those of the whole run"
    lines = cli("replay", "part", "--from", "2", "--until", "3", "--jsonl", dsn=shared).out.splitlines()
    assert len(lines) == 2 and all('"schema": "callboard.event/1"' in line for line in lines)
    document = cli("replay", "part", "--from", "4", "--json", dsn=shared).document
    assert [one["seq"] for one in document["events"]] == [4]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--from", "3", "--until", "2"), "--until 2 comes before --from 3"),
        (("--diff", "x", "--watch"), "--diff compares whole runs"),
        (("--watch", "--until", "2"), "--watch goes on with the run"),
        (("--json", "--jsonl"), "give one of them"),
    ],
)
def test_what_cannot_be_meant_is_wrong_usage(cli: Cli, shared: str, arguments: tuple[str, ...], words: str) -> None:
    said = cli("replay", "nobody", *arguments, dsn=shared)
    assert said.code == 2 and words in said.err


def test_watching_a_run_that_has_ended_tells_it_and_ends_with_its_exit_code(cli: Cli, shared: str) -> None:
    cli("run", APP, "fail", "--id", "watched", dsn=shared)
    said = cli("replay", "watched", "--watch", dsn=shared)
    assert said.code == 1
    kinds = [line.split('"type": "')[1].split('"')[0] for line in said.out.splitlines()]
    assert kinds[0] == "run.started" and kinds[-1] == "run.failed"


# --- two runs ---------------------------------------------------------------------------------------------------


def diff(cli: Cli, dsn: str, one: str, other: str) -> dict[str, Any]:
    found: dict[str, Any] = cli("replay", one, "--diff", other, "--json", dsn=dsn).document
    assert found["schema"] == "callboard.diff/1"
    return found


def test_two_runs_that_did_the_same_are_equal_whatever_their_ids_and_times(cli: Cli, shared: str) -> None:
    for run in ("twin-1", "twin-2"):
        cli("run", APP, "refund 20.00", "--id", run, dsn=shared)
    found = diff(cli, shared, "twin-1", "twin-2")
    assert found["equal"] and len(found["same"]) == 5 and found["after"] == [[], []]
    text = cli("replay", "twin-1", "--diff", "twin-2", dsn=shared).out
    assert "the same in all 5 facts" in text and "they part" not in text


def test_two_runs_part_where_a_person_decided_otherwise(cli: Cli, shared: str) -> None:
    for run in ("yes", "no"):
        cli("run", APP, "refund 129.00", "--id", run, dsn=shared)
    assert cli("approve", "yes", "--amount", "129.00", dsn=shared).code == 0
    assert cli("deny", "no", "--reason", "photo\x1b[2J first", dsn=shared).code == 0
    for run in ("yes", "no"):
        cli("run", APP, "refund 129.00", "--id", run, dsn=shared)
    found = diff(cli, shared, "yes", "no")
    assert not found["equal"] and [fact["what"] for fact in found["same"]][-1] == "call 1 issue_refund held"
    one, other = (after[0] for after in found["after"])
    assert one["what"].startswith("call 1 approved by") and other["what"].startswith("call 1 issue_refund denied by")
    text = cli("replay", "yes", "--diff", "no", dsn=shared).out
    assert "the same in the first 3 facts" in text
    position = 0
    for part in ("they part", "call 1 approved by", "denied by", "│", "after that, run yes", "run completed", "spent"):
        position = text.find(part, position)
        assert position >= 0, f"{part!r} is missing, or out of order"
    assert "\x1b" not in text


def test_a_fork_is_compared_with_its_origin_from_where_it_left(cli: Cli, shared: str) -> None:
    cli("run", APP, "close 8", "--id", "stem", dsn=shared)
    assert cli("fork", "stem", "--at", "3", "--id", "branch", dsn=shared).code == 0
    assert cli("deny", "stem", "--reason", "no", dsn=shared).code == 0
    cli("run", APP, "close 8", "--id", "stem", dsn=shared)
    found = diff(cli, shared, "branch", "origin")
    assert [view["run_id"] for view in found["runs"]] == ["branch", "stem"]
    assert [fact["run"] for fact in found["same"]][:2] == ["stem", "stem"], "what it goes on from is its own past"
    assert any("denied by" in fact["what"] for fact in found["after"][1]), "that was not the branch's"
    assert not any("denied by" in fact["what"] for fact in [*found["same"], *found["after"][0]])
    document = cli("replay", "stem", "--json", dsn=shared).document
    assert [fork["run_id"] for fork in document["forks"]] == ["branch"]
    assert "fork  run branch, made by" in cli("replay", "stem", dsn=shared).out
    said = cli("replay", "stem", "--diff", "origin", dsn=shared)
    assert said.code == 2 and "run stem is no fork" in said.one_line()
    said = cli("replay", "stem", "--diff", "stem", dsn=shared)
    assert said.code == 2 and "compared with itself" in said.one_line()
