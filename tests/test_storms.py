"""The long tests that an ordinary run leaves out: the list names what there is, and every one has a shorter sibling."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.storms import IN_EVERY_RUN, STORMS, choose, is_storm, stays

ROOT = Path(__file__).resolve().parent.parent
FILES = sorted({name.partition("::")[0] for name in (*STORMS, *IN_EVERY_RUN)})


@pytest.fixture(scope="module")
def everything() -> list[str]:
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-n", "0", "--storms=all", *FILES]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=250, check=False)
    assert done.returncode == 0, done.stdout[-2_000:] + done.stderr[-2_000:]
    return [line for line in done.stdout.splitlines() if "::" in line]


@pytest.mark.parametrize("start", STORMS)
def test_each_storm_is_a_test_that_exists(start: str, everything: list[str]) -> None:
    assert any(name.startswith(start) for name in everything)


@pytest.mark.parametrize("name", IN_EVERY_RUN)
def test_what_is_in_every_run_is_one_of_the_storms_and_exists(name: str, everything: list[str]) -> None:
    assert name in everything and name.startswith(tuple(STORMS)) and not is_storm(name)


def test_an_ordinary_run_and_the_storms_are_everything_and_share_nothing(everything: list[str]) -> None:
    ordinary, storms = ([name for name in everything if stays(name, which)] for which in ("no", "only"))
    assert sorted([*ordinary, *storms]) == sorted(everything)
    assert ordinary and storms and all(stays(name, "all") for name in everything)


def test_what_is_named_by_its_id_is_run(pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch) -> None:
    class Item:
        nodeid = "tests/soak/test_soak.py::test_a"

    items: list[Any] = [Item()]
    monkeypatch.setattr(pytestconfig, "args", ["tests/soak/test_soak.py::test_a"])
    choose(pytestconfig, items)
    assert len(items) == 1
    monkeypatch.setattr(pytestconfig, "args", ["tests/soak"])
    monkeypatch.setattr(pytestconfig.option, "storms", "no")
    monkeypatch.setattr(pytestconfig.hook, "pytest_deselected", lambda items: None)
    choose(pytestconfig, items)
    assert not items


def test_every_file_of_a_storm_has_tests_in_every_run_or_a_sibling_that_does(everything: list[str]) -> None:
    alone = [file for file in FILES if all(is_storm(name) for name in everything if name.startswith(file))]
    for file in alone:
        siblings = [path for path in (ROOT / file).parent.glob("test_*.py") if str(path.relative_to(ROOT)) not in alone]
        assert siblings, f"{file} is left out of ordinary runs, and nothing of its folder is in them"
