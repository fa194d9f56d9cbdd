"""`callboard record`: a run of a database becomes a file that answers as its model did."""

from pathlib import Path

import anyio
import pytest

from callboard.actors.agent.recorded import RecordedLLM
from callboard.actors.llm.client import ChatMessage

from .conftest import APP, Cli, until


def test_a_recorded_run_answers_from_its_file(cli: Cli, database: str, tmp_path: Path) -> None:
    ran = cli("run", APP, "hello there", "--json", dsn=database)
    assert ran.code == 0
    said = cli("record", ran.document["run_id"], dsn=database)
    assert said.code == 0
    (tmp_path / "run.jsonl").write_text(said.out, encoding="utf-8")
    llm = RecordedLLM.from_file(tmp_path / "run.jsonl")
    [turn] = llm.turns
    assert turn.asked == (ChatMessage("user", "hello there"),)
    assert anyio.run(llm.call, turn.asked, (), turn.system_prompt or "").content == ran.document["final_answer"]


@pytest.mark.parametrize("run", ["nobody"])
def test_a_run_that_is_not_there_is_named(cli: Cli, database: str, run: str) -> None:
    assert run in cli("record", run, dsn=database).one_line()


def test_a_fork_is_recorded_with_the_past_that_it_goes_on_from(cli: Cli, database: str, tmp_path: Path) -> None:
    origin = cli("run", APP, "hello there", "--json", dsn=database).document["run_id"]
    fork = cli("fork", origin, "--say", "and now?", "--json", dsn=database).document["run_id"]

    def done() -> bool:
        assert cli("run", APP, "bye", dsn=database).code == 0  # a node for a while, which works on what there is
        return bool(cli("show", fork, "--json", dsn=database).document["status"] == "completed")

    until(done, "the fork is completed")
    said = cli("record", fork, dsn=database)
    assert said.code == 0
    (tmp_path / "fork.jsonl").write_text(said.out, encoding="utf-8")
    first, second = RecordedLLM.from_file(tmp_path / "fork.jsonl").turns
    assert first.asked == (ChatMessage("user", "hello there"),)
    assert second.asked[-1] == ChatMessage("user", "and now?")
