"""The storms: tests that go on for long. `make test` leaves them out, `make soak` has them (`pytest --storms=only`).

Each proves at length what a shorter one proves in every run: the same kill at every place instead of at some, a
thousand rounds instead of a few. Nothing is only here. A test that is named on the command line runs in any case.
"""

from collections.abc import Sequence

import pytest

STORMS: dict[str, str] = {
    "tests/agent/test_approvals_race.py::test_taking_back_races": "the same race, hundreds of times",
    "tests/agent/test_everybody_at_once.py::": "everybody acts at once, for many seeds",
    "tests/agent/test_parity_retries.py::test_w26_": "a run of many thousand events",
    "tests/agent/test_provider_down.py::test_after_an_hour_": "an hour of retries",
    "tests/agent/test_provider_down.py::test_while_it_is_down_it_is_asked_": "hours of retries",
    "tests/bench/test_bench.py::test_tui_": "three measurements of a busy screen",
    "tests/crm/test_offboarding.py::test_an_account_ends_the_same_wherever_a_node_dies": "a death at every commit",
    "tests/demo/test_desk.py::test_the_desk_and_its_nodes_end_": "kills of a whole desk",
    "tests/evals/test_durability.py::test_a_tool_that_ignores_its_key_": "a SIGKILL at many commits, as a control",
    "tests/evals/test_durability.py::test_g1_g4_killed_before_a_commit": "a SIGKILL at many commits",
    "tests/field/test_processes.py::test_failure_07_": "waits for five leases",
    "tests/field/test_processes.py::test_failure_21_": "drains with twenty calls",
    "tests/flagship/test_adapters.py::": "kills of each adapter at each place",
    "tests/flagship/test_kill_and_resume.py::test_g4_killed_at_every_event_": "a kill at every event",
    "tests/flagship/test_two_nodes.py::": "two hundred runs on two nodes; a call of ten leases",
    "tests/quarantine/test_deadly_handlers.py::test_g6_": "processes that end in each of the ways there are",
    "tests/quarantine/test_deadly_handlers.py::test_rule_11_": "a loop that stands still, until its node is replaced",
    "tests/simulation/test_simulation.py::test_g1_to_g9_hold_whatever_goes_wrong": "a thousand seeds",
    "tests/simulation/test_simulation.py::test_how_many_processes_share_": "the same seeds, in several processes",
    "tests/soak/test_chaos.py::": "a desk whose nodes are killed, frozen and misled, and the same without the fence",
    "tests/soak/test_soak.py::": "storms of minutes",
    "tests/tui/e2e/test_decide_end_to_end.py::": "decisions in a real terminal, with a daemon behind it",
    "tests/tui/e2e/test_kill_the_ui.py::test_a9_": "a real terminal and its daemon that are killed in a hold",
    "tests/tui/e2e/test_kill_the_ui.py::test_a_ui_that_is_killed_as_it_sends_": "a real terminal, killed at many moments",
    "tests/tui/e2e/test_raw_bytes.py::": "every byte that reaches a real terminal, at each size",
    "tests/tui/e2e/test_tui_demo.py::": "the terminal UI on a desk at work, from one command",
    "tests/tui/test_dead.py::test_ten_thousand_are_walked_": "ten thousand rows by pages",
    "tests/tui/test_decide.py::test_a1_d1_ten_thousand_random_keys_": "ten thousand keys",
    "tests/tui/test_frame_dialog.py::test_a1_no_thousand_random_keys_": "thousands of keys",
    "tests/tui/test_runs.py::test_d9_a_run_of_ten_thousand_events_": "ten thousand events",
}
"""What the id of a test begins with, and why it takes so long."""

IN_EVERY_RUN: tuple[str, ...] = (
    "tests/crm/test_offboarding.py::test_an_account_ends_the_same_wherever_a_node_dies[it goes through-1]",
    "tests/flagship/test_adapters.py::test_flagship_langgraph_killed_mid_tool",
    "tests/flagship/test_adapters.py::test_flagship_native_killed_mid_tool_after_the_approval",
    "tests/flagship/test_kill_and_resume.py::test_g4_killed_at_every_event_of_a_run_with_three_parallel_refunds[3]",
    "tests/flagship/test_kill_and_resume.py::test_g4_killed_at_every_event_of_a_run_with_three_parallel_refunds[7]",
    "tests/flagship/test_two_nodes.py::test_g1_two_nodes_two_hundred_runs_of_ten_calls_leave_exactly_two_thousand_rows",
    "tests/quarantine/test_deadly_handlers.py::test_g6_a_call_that_ends_its_process_ends_as_a_dead_letter_and_its_caller_is_told[exit]",
    "tests/simulation/test_simulation.py::test_g1_to_g9_hold_whatever_goes_wrong[0]",
    "tests/tui/e2e/test_decide_end_to_end.py::test_d3_what_is_released_runs_exactly_once_and_u_is_too_late_then",
    "tests/tui/e2e/test_raw_bytes.py::test_a13_no_byte_that_a_terminal_obeys_or_hides_comes_from_data[(80, 24)]",
)
"""Of those: what is in every run all the same, as the shorter proof."""


def is_storm(nodeid: str) -> bool:
    """Whether a test is left out of an ordinary run."""
    return nodeid.startswith(tuple(STORMS)) and nodeid not in IN_EVERY_RUN


def stays(nodeid: str, which: str) -> bool:
    """Whether a test is run under `--storms=which`."""
    return which == "all" or is_storm(nodeid) == (which == "only")


def choose(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what `--storms` says; what is named by its id on the command line stays."""
    named: Sequence[str] = [argument for argument in config.args if "::" in argument]
    which: str = "all" if named else config.getoption("--storms")
    left_out = [item for item in items if not stays(item.nodeid, which)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if stays(item.nodeid, which)]
