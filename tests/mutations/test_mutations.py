"""The list of mutations is true: texts that stand in the tree once, tests that exist, every guarantee and rule.

That the tests notice is what `python -m tests.mutations` shows, in minutes; `results.json` keeps which one did.
"""

import ast
import json
from functools import cache
from pathlib import Path

import pytest

from tests.mutations.all_mutations import MUTATIONS
from tests.mutations.mutation import GUARANTEES, ROOT, RULES, Mutation
from tests.mutations.trial import run_tests, try_out

RESULTS = Path(__file__).with_name("results.json")


@cache
def functions(file: str) -> frozenset[str]:
    """Names of the test functions of a file."""
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    return frozenset(
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    )


def test_each_text_stands_in_the_tree_once() -> None:
    assert {mutation.name: mutation.count() for mutation in MUTATIONS if mutation.count() != 1} == {}


def test_each_mutation_has_a_name_of_its_own_and_changes_something() -> None:
    assert len({mutation.name for mutation in MUTATIONS}) == len(MUTATIONS)
    assert all(mutation.text != mutation.replacement and mutation.tests for mutation in MUTATIONS)


def test_a_mutated_file_of_the_program_can_still_be_read() -> None:
    for mutation in MUTATIONS:
        if mutation.file.endswith(".py"):
            ast.parse((ROOT / mutation.file).read_text(encoding="utf-8").replace(mutation.text, mutation.replacement))


def test_every_guarantee_and_every_rule_is_broken_by_one() -> None:
    broken = {name for mutation in MUTATIONS for name in mutation.breaks}
    assert broken == {*GUARANTEES, *RULES}


def test_the_tests_that_are_to_notice_exist() -> None:
    for mutation in MUTATIONS:
        for test in mutation.tests:
            file, _, function = test.partition("::")
            assert (ROOT / file).is_file(), f"{mutation.name}: {file}"
            assert not function or function in functions(file), f"{mutation.name}: {test}"


def test_all_of_them_were_killed_when_they_were_last_run() -> None:
    results = json.loads(RESULTS.read_text(encoding="utf-8"))
    assert list(results) == [mutation.name for mutation in MUTATIONS]
    assert [name for name, result in results.items() if not result["killed_by"]] == []


def test_the_page_about_guarantees_names_those_of_each() -> None:
    page = (ROOT / "docs" / "GUARANTEES.md").read_text(encoding="utf-8")
    for mutation in MUTATIONS:
        assert f"`{mutation.name}`" in page, mutation.name


# --- how a trial judges, in a tree of one module and one test --------------------------------------------------------


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "pytest.ini").write_text("[pytest]\npythonpath = .\n")
    (tmp_path / "program.py").write_text("def limit() -> int:\n    return 7  # seven\n")
    (tmp_path / "test_program.py").write_text(
        "import program\n\ndef test_limit() -> None:\n    assert program.limit() == 7\n"
    )
    return tmp_path


def mutation(text: str, replacement: str, *tests: str) -> Mutation:
    return Mutation("m", ("G1",), "program.py", text, replacement, tests or ("test_program.py",))


def test_what_a_test_notices_is_killed_and_the_tree_is_as_before(tree: Path) -> None:
    before = (tree / "program.py").read_bytes()
    assert try_out(mutation("return 7", "return 8"), tree).killed_by == "test_program.py::test_limit"
    assert (tree / "program.py").read_bytes() == before
    assert run_tests(["test_program.py"], tree)[0] == 0


@pytest.mark.parametrize(
    ("text", "replacement", "test"),
    [
        ("# seven", "# 7", "test_program.py"),  # changes nothing
        ("def limit", "def limit(", "test_program.py"),  # cannot be imported
        ("return 7", "return 8", "test_program.py::test_that_is_gone"),
    ],
)
def test_what_no_test_notices_or_none_can_be_run_on_survives(
    tree: Path, text: str, replacement: str, test: str
) -> None:
    assert try_out(mutation(text, replacement, test), tree).killed_by == ""


@pytest.mark.parametrize("text", ["return 9", "e"])
def test_a_text_that_is_not_there_once_is_refused(tree: Path, text: str) -> None:
    with pytest.raises(ValueError, match="it has to once"):
        try_out(mutation(text, "x"), tree)
