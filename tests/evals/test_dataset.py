"""Reading and dividing: no template on both sides, and no file that is half read."""

from pathlib import Path

import pytest

from callboard.evals.dataset import (
    BadDataset,
    Corpus,
    by_source,
    by_technique,
    divided,
    fold_of,
    read_corpus,
    statistics,
)
from tests.evals.texts import corpus, row, written


def test_no_group_is_on_both_sides_of_the_split() -> None:
    training, held_out = divided(corpus(40).attacks)
    assert training and held_out
    assert not {one.group for one in training} & {one.group for one in held_out}


def test_the_side_of_a_group_depends_on_its_name_alone() -> None:
    few, many = divided(corpus(6).attacks)[1], divided(corpus(60).attacks)[1]
    known = {one.group for one in corpus(6).attacks}
    assert {one.group for one in few} == {one.group for one in many} & known
    assert [fold_of(name) for name in ("a", "b", "c", "d", "e")] == [2, 2, 2, 1, 2]  # or every published figure changes


def test_what_is_written_is_read_in_order_of_id(tmp_path: Path) -> None:
    data = corpus(3)
    shuffled = Corpus(data.attacks[::-1], data.benign[::-1])
    assert read_corpus(written(tmp_path, shuffled)) == data


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "line 2"),
        ('{"id": "x", "text": "t"}', "missing required field"),
        ('{"id": "a0-00", "text": "t", "source": "s", "kind": "k", "group": "g"}', "occurs twice"),
        ('{"id": "x", "text": 5, "source": "s", "kind": "k", "group": "g"}', "Expected `str`"),
        ('{"id": "x", "text": "' + "t" * (1 << 20) + '", "source": "s", "kind": "k", "group": "g"}', "longer than"),
    ],
)
def test_a_line_that_is_no_row_is_named_with_its_file(tmp_path: Path, line: str, said: str) -> None:
    written(tmp_path, Corpus(corpus(1).attacks[:1], corpus(1).benign))
    with (tmp_path / "attacks.jsonl").open("a") as file:
        file.write(line + "\n")
    with pytest.raises(BadDataset, match=said) as raised:
        read_corpus(tmp_path)
    assert "attacks.jsonl, line 2" in str(raised.value)


def test_a_missing_folder_a_missing_file_and_an_empty_one_are_said(tmp_path: Path) -> None:
    with pytest.raises(BadDataset, match="is no folder"):
        read_corpus(tmp_path / "nowhere")
    with pytest.raises(BadDataset, match=r"attacks\.jsonl cannot be read"):
        read_corpus(tmp_path)
    written(tmp_path, corpus(1))
    (tmp_path / "benign.jsonl").write_text("\n\n")
    with pytest.raises(BadDataset, match="holds no row"):
        read_corpus(tmp_path)


def test_statistics_count_rows_groups_and_what_is_held_out() -> None:
    found = statistics(corpus(6).attacks, by_source)
    assert [(one.name, one.rows, one.groups) for one in found] == [("source-0", 12, 4), ("source-1", 12, 4)]
    assert sum(one.held_out_rows for one in found) == len(divided(corpus(6).attacks)[1])


def test_a_technique_is_told_apart_by_its_source() -> None:
    same = [row("x", "t", group="g", source="one"), row("y", "t", group="g", source="two")]
    assert len({by_technique(one) for one in same}) == 2
