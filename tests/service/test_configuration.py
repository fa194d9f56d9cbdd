"""`callboard.toml`: read whole, checked whole; a mistake is one sentence with file, key, and what it may be (AF-10)."""

from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from callboard import Budget, RuleClassifier
from callboard.actors.agent.configured import configured
from callboard.actors.agent.rules import Rules
from callboard.mailbox.errors import SettingError
from callboard.service.configuration import Configuration, read_configuration

WHOLE = """
[budget]
max_iterations = 50
max_tokens = 150000
max_duration_ms = 300000
max_cost_usd = "2.50"
max_tool_calls = 7

[guardrails]
profile = "strict"
loop_threshold = 5

[[policy]]
tool = "issue_refund"
needed = 2

[model]
spec = "ollama:qwen3"
[model.prices]
version = "1"
[model.prices.models."a"]
input = 0.15

[classifier]
normal_from = 1.0
simple = { max_iterations = 4 }
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "callboard.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_af10_a_budget_comes_from_the_file(tmp_path: Path) -> None:
    found = read_configuration(written(tmp_path, WHOLE))
    assert found.budget == Budget(50, 150_000, 300.0, Decimal("2.50"), 7)
    assert set(found.tables) == {"guardrails", "policy", "model", "classifier"}


def test_what_the_file_says_becomes_a_desk_s_rules(tmp_path: Path) -> None:
    rules = configured(read_configuration(written(tmp_path, WHOLE)).tables)
    assert (rules.guardrail, rules.guardrails["strict"].loop_threshold) == ("strict", 5)
    assert [policy.name for policy in rules.policies] == ["issue_refund"]
    assert isinstance(rules.classifier, RuleClassifier)
    assert (rules.classifier.normal_from, rules.classifier.simple) == (1.0, Budget(4, 40_000))


def test_a_classifier_can_be_switched_off() -> None:
    desk = Rules(classifier=RuleClassifier())
    assert configured({}, desk).classifier is desk.classifier
    assert configured({"classifier": {"use": "off"}}, desk).classifier is None


def test_no_file_says_nothing_and_one_that_was_named_must_be_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert read_configuration() == Configuration()
    written(tmp_path, "[budget]\nmax_iterations = 3\nmax_tokens = 'none'\nmax_duration_ms = 'none'")
    assert read_configuration().budget == Budget(3, None)
    with pytest.raises(SettingError, match=r"other\.toml: there is no such file"):
        read_configuration(tmp_path / "other.toml")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[budgets]", "budgets: there is no such table; did you mean budget"),
        ("budget = 3", "budget: expected a table, got 3"),
        ("[budget]\nmax_steps = 3", "budget.max_steps: there is no such key; budget has max_iterations, max_tokens"),
        ("[budget]\nmax_iterations = 0", 'budget.max_iterations: expected a whole number above 0, or "none", got 0'),
        ("[budget]\nmax_iterations = 1.5", "budget.max_iterations: expected a whole number above 0"),
        ("[budget]\nmax_iterations = true", "budget.max_iterations: expected a whole number above 0"),
        ("[budget]\nmax_duration_ms = -1", "budget.max_duration_ms: expected milliseconds above 0"),
        ("[budget]\nmax_duration_seconds = nan", "budget.max_duration_seconds: expected seconds above 0"),
        ("[budget]\nmax_cost_usd = 'much'", "budget.max_cost_usd: expected US dollars"),
        ("[budget]\nmax_duration_ms = 1\nmax_duration_seconds = 1", "give one of them"),
        ("[guardrails]\nprofile = 'hard'", "no guardrail profile is called 'hard'; there are off, validation"),
        ("[guardrails]\nprofil = 'off'", "guardrails have no 'profil'"),
        ("[policy]\ntool = 'x'", r"write \[\[policy\]\], with two brackets"),
        ("[[policy]]\ntool = 'x'\nneded = 2", "neded"),
        ("[model]\nspec = 3", "model.spec: expected a text"),
        ("[model]\nname = 'x'", "model.name: there is no such key; model has spec, prices"),
        ("[model.prices]\nx = 1", "a table of prices holds"),
        ("[classifier]\nuse = 'llm'", "classifier.use: expected 'rules' or 'off', got 'llm'"),
        ("[classifier]\nnormal_from = 'x'", "classifier.normal_from: expected a number, got 'x'"),
        ("[classifier.simple]\nmax_iterations = 0", "classifier.simple.max_iterations: expected"),
        ("[budget", "is not TOML"),
    ],
)
def test_a_mistake_is_one_sentence_that_names_file_and_key(tmp_path: Path, text: str, said: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(SettingError, match=said) as caught:
        read_configuration(path)
    assert str(caught.value).startswith(f"{path}: ") and "\n" not in str(caught.value)


def test_the_tables_of_the_configuration_are_plain_data(tmp_path: Path) -> None:
    tables: Mapping[str, Any] = read_configuration(written(tmp_path, WHOLE)).tables
    assert type(tables["policy"]) is list and type(tables["policy"][0]) is dict
