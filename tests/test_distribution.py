"""How several processes share the tests: the lists name what there is, and whatever a test says can be sent."""

from pathlib import Path

import pytest
from xdist.scheduler import LoadFileScheduling

from tests.conftest import encodable
from tests.distribution import LONG, MAX_WORKERS, PROCESSES, Sharing, workers

TESTS = Path(__file__).parent


@pytest.mark.parametrize("name", [*PROCESSES, *LONG])
def test_what_is_given_a_place_exists(name: str) -> None:
    assert list(TESTS.glob(f"{name.rstrip('/')}*"))


def test_files_that_start_nodes_are_one_unit_and_every_other_file_is_one_of_its_own() -> None:
    sharing = object.__new__(Sharing)
    units = {
        sharing._split_scope(f"tests/{file}::test_a[b::c]")
        for file in ("field/test_processes.py", "demo/test_demo.py", "service/test_daemon.py")
    }
    assert len(units) == 1
    assert sharing._split_scope("tests/service/test_http.py::test_a") == "tests/service/test_http.py"
    assert issubclass(Sharing, LoadFileScheduling)


def test_one_server_that_the_environment_names_is_used_by_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TEST_DATABASE_URL", raising=False)
    assert workers() <= MAX_WORKERS
    monkeypatch.setenv("TEST_DATABASE_URL", "postgresql://somewhere")
    assert workers() == 0


def test_a_report_that_shows_halves_of_surrogate_pairs_can_be_sent() -> None:
    report = {"sections": [("log", "\ud800 and \xe4")], "when": "call", "duration": 0.1, "item_index": None}
    assert encodable(report) == {**report, "sections": [("log", "\\ud800 and \xe4")]}
