"""AgentDojo at our gate: what can be tested without it, and, where it is installed, a small part of it."""

import importlib.util

import pytest

from callboard.actors.agent.trust import labels_of
from callboard.evals.agentdojo import measure
from callboard.evals.dojo import offices, plain
from callboard.evals.dojo_labels import LABELS
from callboard.evals.packages import MissingPackage
from callboard.evals.profiles import EVERY_WRITE, compared
from callboard.evals.tables import dojo_table

installed = importlib.util.find_spec("agentdojo") is not None
needs_agentdojo = pytest.mark.skipif(not installed, reason="pip install agentdojo==0.1.35")
# Its libraries warn of their own old ways when they are loaded.
pytestmark = pytest.mark.filterwarnings("ignore")


def test_every_label_is_one_that_a_tool_could_have() -> None:
    for suite, tools in LABELS.items():
        for name, label in tools.items():
            labels_of(label.trust, f"{suite}.{name}")
    assert sum(len(tools) for tools in LABELS.values()) == 74


def test_every_profile_and_every_idea_is_compared_and_both_ends_are_there() -> None:
    names = [row.name for row in compared()]
    assert {"off", "validation", "lenient", "standard", "strict", EVERY_WRITE} <= set(names)
    assert compared(["strict"])[0].profile.name == "strict"


def test_values_of_its_models_become_json_values() -> None:
    assert plain({"a": (1, {"b"}), 2: None, "c": 1.5}) == {"a": [1, ["b"]], "2": None, "c": 1.5}


@pytest.mark.skipif(installed, reason="it is installed")
def test_without_it_the_error_says_what_to_install() -> None:
    with pytest.raises(MissingPackage, match=r"pip install agentdojo==0\.1\.35"):
        measure(["off"])


@needs_agentdojo
def test_negative_controls_off_lets_the_ceiling_land_and_holding_every_write_lets_nothing_act() -> None:
    report = measure(["off", "standard", EVERY_WRITE], suites=["banking"], user_tasks=3)
    off, standard, every = report.rows
    assert (report.pairs, off.landed.count, off.of_ceiling) == (27, report.ceiling, 1.0)
    assert off.landed.count >= 25 and off.tasks_done.count == 3 and off.writes_asked.count == 0
    assert every.landed.count == 0 and every.writes_asked.share == 1.0
    assert standard.landed.count < off.landed.count
    assert dojo_table(report)[1][2][1] == "0 of 27"


@needs_agentdojo
def test_every_tool_of_every_suite_has_a_label_and_takes_its_oracles_calls() -> None:
    for office in offices():
        assert office.tools.keys() == LABELS[office.name].keys()
        for task in office.user_tasks.values():
            for name, arguments in office.oracle(task, office.environment(task)):
                office.tools[name].validate(arguments)
