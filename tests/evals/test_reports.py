"""A report as a person reads it: tables, figures and a picture, and what cannot be drawn or written is said."""

import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import msgspec
import pytest

from callboard.evals.dataset import Corpus
from callboard.evals.guardrails import TextReport, measure
from callboard.evals.pictures import NoPicture, picture_of
from callboard.evals.recorded import RESULTS, NoResult, recorded
from callboard.evals.reports import CannotWrite, markdown_table, write_report
from callboard.evals.text_tables import signal_cell_table, signal_table, source_table, text_table
from tests.evals.texts import corpus


@pytest.fixture(scope="module")
def report() -> TextReport:
    """Of a few texts of our own, without its times."""
    measured = measure(Corpus(corpus(1).attacks, corpus(1).benign), ["off", "standard"])
    return msgspec.structs.replace(measured, milliseconds_per_text={})


def test_a_report_is_three_files_that_belong_together_and_are_the_same_every_time(
    report: TextReport, tmp_path: Path
) -> None:
    tables = [signal_table(report), signal_cell_table(report), text_table(report), source_table(report)]
    first = {path.name: path.read_bytes() for path in write_report(tmp_path / "new", "guardrails", report, tables)}
    again = {path.name: path.read_bytes() for path in write_report(tmp_path, "guardrails", report, tables)}
    assert first == again and set(first) == {"guardrails.json", "guardrails.md", "guardrails.svg"}
    assert msgspec.json.decode(first["guardrails.json"], type=TextReport) == report
    page = first["guardrails.md"].decode()
    assert "![guardrails](guardrails.svg)" in page and "`callboard.eval.guardrails/1`" in page
    assert ET.fromstring(first["guardrails.svg"].decode()).tag.endswith("svg")


def test_every_profile_is_shown_by_kind_and_by_source_with_its_interval(report: TextReport) -> None:
    by_source = [row for row in source_table(report)[1] if row[0] == "standard"]
    assert {(row[1], row[2]) for row in by_source} == {
        ("source-0", "attacks"),
        ("source-1", "attacks"),
        ("mails-0", "honest"),
        ("mails-1", "honest"),
    }
    assert all(re.fullmatch(r"[\d.]+ % \[[\d.]+–[\d.]+\]", cell) for row in by_source for cell in row[3:])
    columns, cells = signal_cell_table(report)
    assert {(row[0], row[1]) for row in cells} >= {("mail", "mails-0"), ("indirect_tool_output", "source-1")}
    assert columns[-1] == "detector, held out" and sum(int(row[2]) for row in cells) == 8


def test_the_parts_of_a_report_add_up_to_the_whole(report: TextReport) -> None:
    for row in report.rows:
        for parts in (row.attacks_by_kind, row.attacks_by_source):
            assert sum(one.carried.count for one in parts.values()) == row.attacks.carried.count
    for signal in report.signals:
        assert sum(cell.found.count for cell in signal.cells if cell.hostile) == signal.attacks.count
        held_out = sum(cell.found_held_out.of for cell in signal.cells)
        assert held_out == report.held_out_attacks + report.held_out_benign


def test_a_cell_cannot_break_out_of_its_table() -> None:
    table = markdown_table((("a", "b"), [("x|y", "two\nlines")]))
    assert table.splitlines() == ["| a | b |", "|---|---|", "| x\\|y | two lines |"]


@pytest.mark.parametrize("name", sorted(path.stem for path in RESULTS.glob("*.json")))
def test_every_kept_report_can_be_drawn_and_gives_the_same_picture_twice(name: str) -> None:
    document = recorded(name)
    picture = picture_of(document)
    assert picture == picture_of(json.loads(json.dumps(document)))
    assert sum(one.tag.endswith("text") for one in ET.fromstring(picture).iter()) > 10


def test_what_nobody_can_draw_or_write_is_said(report: TextReport, tmp_path: Path) -> None:
    with pytest.raises(NoPicture, match="there is no picture of"):
        picture_of({"schema": "callboard.status/1"})
    with pytest.raises(NoPicture, match="without a schema"):
        picture_of({})
    with pytest.raises(CannotWrite, match="cannot be called"):
        write_report(tmp_path, "../guardrails", report, [])
    (tmp_path / "file").write_text("")
    with pytest.raises(CannotWrite, match="cannot be made"):
        write_report(tmp_path / "file" / "below", "guardrails", report, [])
    (tmp_path / "x.json").mkdir()
    with pytest.raises(CannotWrite, match=r"x\.json cannot be written"):
        write_report(tmp_path, "x", report, [])


def test_a_kept_report_that_is_missing_or_damaged_is_said(tmp_path: Path) -> None:
    with pytest.raises(NoResult, match="cannot be read"):
        recorded("x", tmp_path)
    for text in ("[]", "{", "\x00"):
        (tmp_path / "x.json").write_text(text)
        with pytest.raises(NoResult, match="is no report"):
            recorded("x", tmp_path)
