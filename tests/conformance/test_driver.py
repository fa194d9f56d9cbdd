"""The driver itself: what it takes for a file, when it says no, and what it makes of a commit."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from callboard.persistence.rows import ActorRow, EventRow
from callboard.persistence.unit import Unit
from tests.conformance.__main__ import main
from tests.conformance.cases import Case, NotCases, Step, read
from tests.conformance.cast import Cast
from tests.conformance.diary import Diary
from tests.conformance.expectation import Expected, overlap, problem
from tests.conformance.play import play_case
from tests.conformance.recorder import Recorder

HERE = Path(__file__).parent
TREE = {
    "id": "root",
    "kind": "supervisor",
    "strategy": "one_for_one",
    "max_restarts": 1,
    "within_seconds": 60,
    "children": [{"id": "Ä 1", "kind": "worker"}, {"id": "mid", "kind": "supervisor", "children": []}],
}
BOOT = {
    "do": "start_tree",
    "result": "ok",
    "expect": [["start", "root", 1], ["start", "Ä 1", 1], ["start", "mid", 1]],
}
CRASH = {
    "do": "crash",
    "target": "Ä 1",
    "reason": "r",
    "expect": [["exit", "Ä 1", 1, "r"], ["report", "root", "child_terminated", "r", "Ä 1"], ["start", "Ä 1", 2]],
}


def file_of(tmp_path: Path, *steps: dict[str, Any], disposition: str = "same", tree: Any = None) -> Path:
    case = {"id": "NEW-1", "tree": tree or TREE, "script": list(steps), "durable": {"disposition": disposition}}
    path = tmp_path / "cases.json"
    path.write_text(json.dumps({"schema": "supervision-cases/1", "cases": [case]}))
    return path


def case_of(tmp_path: Path, *steps: dict[str, Any], disposition: str = "same", tree: Any = None) -> Case:
    (case,) = read(file_of(tmp_path, *steps, disposition=disposition, tree=tree))
    return case


def run(*arguments: str) -> int:
    """The command, on a thread without an event loop."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(main, arguments).result()


# --- files -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "is not JSON"),
        ("[]", 'has no list "cases"'),
        ('{"schema": "letters/1", "cases": []}', "the schema 'letters/1'"),
        ('{"cases": [{"id": 3}]}', 'case 1 is no object with an "id"'),
        ('{"cases": [{"id": "A"}]}', '(A) has no "script"'),
        ('{"cases": [{"id": "A", "script": [{"do": "wait"}], "tree": {"id": "r", "kind": "x"}}]}', "the kind 'x'"),
        (
            '{"cases": [{"id":"A","tree": {"id": "r", "kind": "supervisor"},"script": [{"do": "x", "expect": [1]}]}]}',
            "step 1: 1 is no event",
        ),
    ],
)
def test_what_is_not_of_the_format_is_refused_with_a_sentence(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "cases.json"
    path.write_text(text)
    with pytest.raises(NotCases) as refused:
        read(path)
    assert says in str(refused.value)
    assert main([str(path)]) == 2


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    assert main([str(tmp_path / "none.json")]) == 2


def test_the_exit_code_and_the_last_line_tell_what_became_of_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(str(file_of(tmp_path, BOOT, CRASH)), "--store", "memory") == 0
    assert capsys.readouterr().out.splitlines() == ["1 passed, 0 failed"]
    wrong = {**CRASH, "expect": CRASH["expect"][:2]}
    assert run(str(file_of(tmp_path, BOOT, wrong)), "--store", "memory", "--case", "NEW-1") == 1
    failed, last = capsys.readouterr().out.splitlines()
    assert failed.startswith("NEW-1 (memory) step 2: events: expected exit/Ä 1/1/r")
    assert failed.endswith("start/Ä 1/2")
    assert last == "0 passed, 1 failed"


# --- what it says no to ----------------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_a_wrong_result_fails(tmp_path: Path) -> None:
    alive = {"do": "is_alive", "ids": ["root", "mid"], "result": {"root": True, "mid": False}}
    verdict = await play_case(case_of(tmp_path, BOOT, alive))
    assert (verdict.step, verdict.wrong[:6]) == (2, "result")


@pytest.mark.anyio
async def test_an_event_too_many_at_the_end_fails(tmp_path: Path) -> None:
    tree = {**TREE, "children": [{"id": "a", "kind": "worker", "script": {"crashes_after_start": {"ms": 30}}}]}
    boot = {"do": "start_tree", "expect": [["start", "root", 1], ["start", "a", 1]]}
    verdict = await play_case(case_of(tmp_path, boot, tree=tree))
    assert "came start/root/1 start/a/1 exit/a/1/crash" in verdict.wrong


@pytest.mark.anyio
async def test_a_case_that_must_differ_and_does_not_fails(tmp_path: Path) -> None:
    verdict = await play_case(case_of(tmp_path, BOOT, CRASH, disposition="must_differ"))
    assert verdict.wrong == "it shows what was recorded, which it must not"


@pytest.mark.anyio
async def test_an_unknown_step_fails_its_case_only(tmp_path: Path) -> None:
    verdict = await play_case(case_of(tmp_path, BOOT, {"do": "juggle"}))
    assert (verdict.step, verdict.wrong) == (2, "unknown step 'juggle'")


def test_only_the_order_within_an_id_counts_where_the_step_says_so() -> None:
    came = [("exit", "b", 1, "killed"), ("exit", "a", 1, "killed"), ("start", "a", 2)]
    wanted = (("exit", "a", 1, "killed"), ("start", "a", 2), ("exit", "b", 1, "killed"))
    assert not problem(Expected(wanted, None, any_order=True), came, None)
    assert problem(Expected(wanted, None, any_order=False), came, None)
    assert problem(Expected(wanted, None, any_order=True), came[::-1], None).startswith("events of a:")
    assert problem(Expected(wanted, None, any_order=True), [*came, ("start", "c", 1)], None).startswith("events of c:")


def test_two_incarnations_at_the_same_time_are_seen() -> None:
    assert not overlap([("start", "a", 1), ("exit", "a", 1, "r"), ("start", "a", 2)])
    assert overlap([("start", "a", 1), ("start", "a", 2), ("exit", "a", 1, "r")]) == "a #2 started while #1 was there"


# --- the recorder ----------------------------------------------------------------------------------------------------


class FakeCell:
    """As much of a cell as the recorder looks at."""

    def __init__(self, row: ActorRow, *events: EventRow) -> None:
        self.address = row.address
        self.row = row
        self.unit = Unit(row.shard, actor=row, events=list(events))


def recorder() -> Recorder:
    case = Case("X", "", TREE, (Step("start_tree", {}, (), None, any_order=False),), "same")
    diary = Diary()
    return Recorder(Cast(case, diary), diary)


def row(address: str, status: Any, incarnation: int = 1, reason: str = "") -> ActorRow:
    return ActorRow(1, address, "k", 1, incarnation, status, reason)


def event(address: str, type: str, **body: Any) -> EventRow:
    return EventRow(1, address, 1, f"sys.supervision.{type}@1", json.dumps(body))


def turn(watching: Recorder, cell: FakeCell, *, taken: bool = True) -> None:
    watching._turned(cell)  # type: ignore[arg-type]
    watching._landed(cell.unit, taken=taken)


def test_what_was_not_committed_did_not_happen() -> None:
    watching = recorder()
    turn(watching, FakeCell(row("/root", "active")), taken=False)
    assert watching.events == []
    turn(watching, FakeCell(row("/root", "active")))
    assert watching.events == [("start", "root", 1)]


def test_escalated_is_shutdown_only_after_a_give_up() -> None:
    for gave_up in (True, False):
        watching = recorder()
        turn(watching, FakeCell(row("/root/mid", "active")))
        events = [event("/root/mid", "gave_up", reason="too many", child="x")] if gave_up else []
        turn(watching, FakeCell(row("/root/mid", "escalated", reason="escalated: too many"), *events))
        reason = "shutdown" if gave_up else "escalated: too many"
        assert watching.events[-1] == ("exit", "mid", 1, reason)
        turn(
            watching,
            FakeCell(row("/root", "active"), event("/root", "child_terminated", child="mid", reason="escalated: x")),
        )
        assert watching.events[-1][3] == ("shutdown" if gave_up else "escalated: x")


def test_the_owner_is_told_when_the_root_stands_still() -> None:
    watching = recorder()
    turn(watching, FakeCell(row("/root", "active")))
    turn(watching, FakeCell(row("/root", "parked", reason="failed_to_start(a,Crash: init_failed)")))
    reason = "failed_to_start(a,init_failed)"
    assert watching.events[1:] == [("exit", "root", 1, reason), ("owner_notified", "root", 1, reason)]
