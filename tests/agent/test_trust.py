"""What a tool does to the world, and how far its words can be relied on."""

from typing import Any

import pytest

from callboard.actors.agent.desk import agent_children
from callboard.actors.agent.schema import BadTool
from callboard.actors.agent.tool import tool
from callboard.actors.agent.trust import result_path

from .stage import says, script


def made(**options: Any) -> Any:
    @tool(**options)
    def look(x: int) -> dict[str, Any]:
        """Look."""
        return {"x": x}

    return look


@pytest.mark.parametrize(
    ("options", "effect", "side_effect", "on_doubt"),
    [
        ({}, "read", False, "retry"),
        ({"side_effect": True}, "write", True, "park"),
        ({"side_effect": False}, "read", False, "retry"),
        ({"effect": "read"}, "read", False, "retry"),
        ({"effect": "write"}, "write", True, "park"),
        ({"effect": "egress"}, "egress", True, "park"),
        ({"effect": "money", "side_effect": True}, "money", True, "park"),
    ],
)
def test_a_tool_declares_the_class_of_its_effect(
    options: dict[str, Any], effect: str, side_effect: bool, on_doubt: str
) -> None:
    found = made(**options)
    assert (found.effect, found.side_effect, found.on_doubt) == (effect, side_effect, on_doubt)


@pytest.mark.parametrize(
    "options",
    [
        {"effect": "read", "side_effect": True},
        {"effect": "money", "side_effect": False},
        {"effect": "harmless"},
        {"effect": ["read"]},
        {"side_effect": "yes"},
        {"side_effect": 1},
    ],
)
def test_effects_that_contradict_or_mean_nothing_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(BadTool, match="effect"):
        made(**options)


LABELS = {
    "orders[].id": "trusted",
    "orders[].note": "untrusted",
    "account": "trusted",
    "account.nickname": "untrusted",
    "by_sku.*.price": "trusted",
    'odd["a.b"]': "trusted",
    "grid[][].n": "trusted",
}


@pytest.mark.parametrize(
    ("path", "label"),
    [
        ("orders[0].id", "trusted"),
        ("orders[17].id.deeper[3]", "trusted"),
        ("orders[].id", "trusted"),
        ("orders[0].note", "untrusted"),
        ("orders[0].other", "untrusted"),
        ("orders[0]", "untrusted"),
        ("orders", "untrusted"),
        ("", "untrusted"),
        ("account", "trusted"),
        ("account.email", "trusted"),
        ("account.nickname", "untrusted"),
        ("account.nickname.first", "untrusted"),
        ("accounts", "untrusted"),
        ("by_sku.A-1.price", "trusted"),
        ("by_sku[0].price", "untrusted"),
        ("by_sku.A-1.text", "untrusted"),
        ('odd["a.b"]', "trusted"),
        ("odd.a.b", "untrusted"),
        ("grid[1][2].n", "trusted"),
        ("grid[1].n", "untrusted"),
        # a customer's own key is one part, whatever it looks like
        (["orders[0].id"], "untrusted"),
        (["account.email"], "untrusted"),
        (["orders", 0, "id"], "trusted"),
        (["orders", "0", "id"], "untrusted"),
        (["orders", "[]", "id"], "untrusted"),
        # no paths
        ("orders[0]id", "untrusted"),
        (".account", "untrusted"),
        ("account.", "untrusted"),
        ("account..x", "untrusted"),
        ("account[x]", "untrusted"),
        ('account["\\x"]', "untrusted"),
        ('account["', "untrusted"),
        ("account]", "untrusted"),
    ],
)
def test_trust_is_told_field_by_field_and_anything_unlisted_is_untrusted(path: Any, label: str) -> None:
    assert made(returns_trust=LABELS).trust_of(path) == label


def test_one_label_holds_for_all_of_a_result() -> None:
    assert made(returns_trust="trusted").trust_of("anything[0].x") == "trusted"
    assert made().trust_of("anything") == "untrusted"


@pytest.mark.parametrize(
    "parts", [["a", 0, "b"], ["a.b", "c"], ["[0]"], ['q"uote', "x"], ["", "y"], ["*"], ["\ud800.", 3]]
)
def test_a_written_path_is_read_as_what_it_was_made_of(parts: list[str | int]) -> None:
    labelled = made(returns_trust={result_path(parts): "trusted"})
    assert labelled.trust_of(result_path(parts)) == labelled.trust_of(parts) == "trusted"
    assert labelled.trust_of([*parts[:-1], "other"]) == ("trusted" if parts == ["*"] else "untrusted")


def test_of_equal_labels_distrust_wins() -> None:
    assert made(returns_trust={"*.a": "trusted", "b.*": "untrusted"}).trust_of("b.a") == "untrusted"
    assert made(returns_trust={"*.a": "trusted", "b.a": "untrusted"}).trust_of("b.a") == "untrusted"
    assert made(returns_trust={"*.a": "untrusted", "b.a": "trusted"}).trust_of("b.a") == "trusted"


@pytest.mark.parametrize(
    "labels",
    [{"a": "maybe"}, {"a..b": "trusted"}, {"": "trusted"}, {3: "trusted"}, {"summary": "trusted"}, ["a"], None, "most"],
)
def test_labels_that_mean_nothing_are_refused(labels: Any) -> None:
    with pytest.raises(BadTool, match="returns_trust"):
        made(returns_trust=labels)


def test_a_desk_s_rules_know_its_tools() -> None:
    look = made(effect="egress")
    children = agent_children("/desk", script(says("ok")), [look])
    rules = [argument for child in children for argument in child.args if type(argument).__name__ == "Rules"]
    assert rules
    assert all(rule.tools["look"] is look for rule in rules)
