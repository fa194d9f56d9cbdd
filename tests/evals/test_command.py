"""`callboard eval`: data in, one JSON document out; what is missing is said, with exit code 2."""

import importlib.util
import json
from pathlib import Path

import pytest

from callboard.evals.dataset import Corpus
from callboard.service.cli.app import run_command
from tests.evals.texts import corpus, written


def test_guardrails_prints_one_json_document(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written(tmp_path, Corpus(corpus(1).attacks, corpus(1).benign))
    assert run_command(["eval", "guardrails", "--data", str(tmp_path), "--profile", "standard", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "callboard.eval.guardrails/1"
    (row,) = document["rows"]
    assert row["name"] == "standard" and row["attacks"]["carried"]["of"] == 4
    assert set(row["cells"][0]) == {"kind", "source", "rows", "detected", "raised", "carried", "unrelated"}


def test_guardrails_prints_tables_for_people(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written(tmp_path, Corpus(corpus(1).attacks, corpus(1).benign))
    assert run_command(["eval", "guardrails", "--data", str(tmp_path), "--profile", "off"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("signal\t")
    assert any(line.startswith("off\tattacks\t0.0 % [") for line in lines)


def test_a_measurement_is_drawn_and_reported_where_it_is_told_to_and_stdout_stays_one_document(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written(tmp_path, Corpus(corpus(1).attacks, corpus(1).benign))
    picture, folder = tmp_path / "one.svg", tmp_path / "report"
    command = ["eval", "guardrails", "--data", str(tmp_path), "--profile", "off", "--json"]
    assert run_command([*command, "--picture", str(picture), "--report", str(folder)]) == 0
    printed = capsys.readouterr()
    document = json.loads(printed.out)
    assert json.loads((folder / "guardrails.json").read_text()) == document
    assert picture.read_text() == (folder / "guardrails.svg").read_text()
    assert (
        f"wrote {picture}" in printed.err and "![guardrails](guardrails.svg)" in (folder / "guardrails.md").read_text()
    )
    assert run_command([*command, "--picture", str(tmp_path)]) == 2
    assert "cannot be written" in json.loads(capsys.readouterr().err)["detail"]


def test_eval_alone_lists_what_can_be_measured(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["eval", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [one["name"] for one in document["items"]] == [
        "guardrails",
        "peers",
        "injections",
        "agentdojo",
        "retail",
        "durability",
        "budget",
        "threat-model",
    ]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["guardrails", "--data", "/nowhere/at/all"], "is no folder"),
        (["guardrails"], "--data"),
        (["peers", "--data", "/nowhere/at/all"], "is no folder"),
        (["threat-model", "--docs", "/nowhere/at/all"], "--docs"),
        (["injections", "--profile", "paranoid"], "no guardrail profile is called 'paranoid'"),
    ],
)
def test_what_cannot_be_measured_is_said_with_exit_code_2(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["eval", *arguments, "--json"]) == 2
    printed = capsys.readouterr()
    assert said in json.loads(printed.err)["detail"] and not printed.out


@pytest.mark.skipif(importlib.util.find_spec("agentdojo") is not None, reason="it is installed")
def test_without_agentdojo_the_command_says_what_to_install(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["eval", "agentdojo"]) == 2
    assert "pip install agentdojo==0.1.35" in capsys.readouterr().err
