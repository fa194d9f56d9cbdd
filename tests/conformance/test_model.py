"""The model is right about OTP: played as OTP it shows every recording; as ours it differs where it should."""

from pathlib import Path

import pytest

from tests.conformance.cases import Case, Event, read
from tests.conformance.expectation import Expected, differs, expectation, problem
from tests.conformance.foretell import Model

HERE = Path(__file__).parent
RECORDED = read(HERE / "supervision_cases.json")
OURS = [case for case in [*RECORDED, *read(HERE / "extra_cases.json")] if case.disposition != "same"]
BY_ID = {case.id: case for case in [*RECORDED, *OURS]}


@pytest.mark.parametrize("case", RECORDED, ids=lambda case: case.id)
def test_as_otp_the_model_shows_what_was_recorded(case: Case) -> None:
    for step, (events, result) in zip(case.steps, Model(case, ours=False).run(), strict=True):
        assert not problem(Expected(step.expect, step.result, step.any_order), events, result)


@pytest.mark.parametrize("case", [case for case in OURS if case.disposition == "must_differ"], ids=lambda case: case.id)
def test_what_must_differ_is_expected_to_differ(case: Case) -> None:
    assert differs(case, [(expected.events, expected.result) for expected in expectation(case)])


@pytest.mark.parametrize("case", [case for case in RECORDED if case.disposition == "same"], ids=lambda case: case.id)
def test_as_ours_the_model_shows_the_same_where_ours_is_the_same(case: Case) -> None:
    for step, (events, result) in zip(case.steps, Model(case, ours=True).run(), strict=True):
        assert not problem(Expected(step.expect, step.result, step.any_order), events, result)


def events_of(id: str, step: int) -> tuple[Event, ...]:
    return expectation(BY_ID[id])[step - 1].events


def test_a_finished_sibling_is_not_expected_back() -> None:
    assert [event[1] for event in events_of("OFA-03", 3) if event[0] == "start"] == ["a", "c"]


def test_a_transient_supervisor_that_gave_up_is_expected_back() -> None:
    assert events_of("ESC-03", 2)[-4:] == (
        ("report", "root", "child_terminated", "shutdown", "mid"),
        ("start", "mid", 2),
        ("start", "x", 2),
        ("start", "y", 2),
    )


def test_the_restart_window_is_a_true_one() -> None:
    assert events_of("INT-05", 6)[-1] == ("start", "a", 3)


def test_the_instances_of_a_pool_have_a_counter_each() -> None:
    assert events_of("SIM-02", 6)[-1] == ("start", "i2", 2)


def test_a_clean_end_after_a_stop_request_is_no_error() -> None:
    assert not [event for event in events_of("SHU-10", 2) if event[0] == "report"]


def test_nothing_below_a_supervisor_outlives_it() -> None:
    order = events_of("SHU-07", 2)
    assert order.index(("exit", "x", 1, "killed")) < order.index(("exit", "mid", 1, "killed"))
