"""Policies as code and as data: they close the gate and never open it, and what they cannot mean is said at once."""

import tomllib
from typing import Any

import pytest

from callboard import InMemoryStore, Runtime, tool
from callboard.actors.agent.events import Provenance
from callboard.actors.agent.policies import Policy, PolicyCall, policy, terms_of
from callboard.actors.agent.policy import MAX_NEEDED, Terms, merged
from callboard.actors.agent.policy_data import PolicyError, policies_from
from callboard.actors.agent.rules import Rules
from callboard.mailbox.errors import UsageError

from .stage import says, script


def call(tool: str = "issue_refund", **arguments: Any) -> PolicyCall:
    return PolicyCall(tool, arguments, "money", "ann", "billing", "r1", (Provenance("amount", "goal", "trusted"),))


def asked(one: Policy, about: PolicyCall) -> Terms | None:
    return merged(terms_of(Rules(policies=(one,)), about))


def rule(*when: dict[str, Any], **fields: Any) -> Policy:
    [found] = policies_from([{"tool": "issue_refund", "when": list(when), **fields}])
    return found


# --- as code ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (None, None),
        (False, None),
        (True, "policy rule asks for it"),
        ("too large", "too large"),
        (Terms("", "tool"), "policy rule asks for it"),
        (Terms("why"), "why"),
    ],
)
def test_a_function_says_terms_or_a_reason_or_nothing(said: Any, reason: str | None) -> None:
    @policy
    def rule(call: PolicyCall) -> Any:
        return said

    found = asked(rule, call(amount=1))
    assert (found and found.reason) == reason
    assert found is None or found.policy == "rule"


@pytest.mark.parametrize("error", [ValueError("no"), RecursionError(), SystemExit(3), StopIteration()])
def test_a_policy_that_raises_closes_the_gate_with_that_reason(error: BaseException) -> None:
    @policy
    def rule(call: PolicyCall) -> None:
        raise error

    found = asked(rule, call(amount=1))
    assert found is not None
    assert found.reason.startswith(f"policy rule failed: {type(error).__name__}") and found.risk == "high"


@pytest.mark.parametrize(
    "said",
    [
        7, object(), [], Terms("x", needed=0), Terms("x", needed=MAX_NEEDED + 1), Terms("x", needed=True),
        Terms("x", hold_seconds=-1), Terms("x", expires_seconds=float("nan")), Terms("x", risk="none"),  # type: ignore[arg-type]
        Terms("x", hold_seconds=float("inf")), Terms(None), Terms("x", policy=3), Terms("x", expires_seconds="1"),  # type: ignore[arg-type]
    ],
)  # fmt: skip
def test_a_policy_that_says_what_cannot_be_closes_the_gate(said: Any) -> None:
    @policy
    def rule(call: PolicyCall) -> Any:
        return said

    found = asked(rule, call(amount=1))
    assert found is not None and "what cannot be" in found.reason
    assert (found.needed, found.risk) == (1, "high")


def test_a_policy_cannot_change_what_it_looks_at() -> None:
    @policy
    def sly(call: PolicyCall) -> None:
        call.arguments["amount"] = 0  # type: ignore[index]
        call.arguments["lines"].append(1)

    about = call(amount=9, lines=[])
    assert terms_of(Rules(policies=(sly, sly)), about) == []
    assert about.arguments == {"amount": 9, "lines": []}


def test_an_async_function_is_refused_where_it_is_written() -> None:
    with pytest.raises(UsageError, match="a gate cannot wait"):

        @policy  # type: ignore[arg-type]
        async def rule(call: PolicyCall) -> bool:
            return True


def test_a_policy_of_any_class_will_do() -> None:
    class Mine:
        name = "mine\x00"

        def terms(self, call: PolicyCall) -> Terms | None:
            return Terms(f"for {call.requested_by} by {call.agent}: {call.provenance[0].source}\x00")

    found = asked(Mine(), call(amount=1))
    assert found is not None and (found.reason, found.policy) == ("for ann by billing: goal", "mine")


def test_of_all_terms_the_strictest_count() -> None:
    found = merged([
        Terms("a", "p", "low", 1, False, 60.0, 5.0),
        Terms("b", "q", "high", 3, True, 0.0, 1.0),
        Terms("c", "r", "medium", 2, False, None, 9.0),
    ])  # fmt: skip
    assert found == Terms("a; b; c", "p+q+r", "high", 3, True, 60.0, 9.0)
    assert merged([]) is None


# --- as data ----------------------------------------------------------------------------------------------------


def test_a_table_says_on_what_terms() -> None:
    text = """
        [[policy]]
        tool = "issue_refund"
        when = [{ field = "amount", above = 5000 }]
        needed = 2
        not_requester = true
        expires_seconds = 3600
        hold_seconds = 30
        risk = "high"
        reason = "a large refund"

        [[policy]]
        effect = "egress"
        name = "nothing leaves"
    """
    big, leaves = policies_from(tomllib.loads(text)["policy"])
    assert big.terms(call(amount=5001)) == Terms("a large refund", "issue_refund", "high", 2, True, 3600.0, 30.0)
    assert big.terms(call(amount=5000)) is None
    assert big.terms(call("other", amount=5001)) is None
    assert leaves.terms(call(amount=1)) is None
    assert leaves.terms(PolicyCall("mail", {}, "egress")) == Terms(
        "policy nothing leaves: every such call", leaves.name
    )


@pytest.mark.parametrize(
    ("condition", "holds", "not_"),
    [
        ({"above": 10}, [10.01, "10.5", 1e300, 11], [10, "9", -1]),
        ({"below": 10}, [9.99, -5, "9"], [10, 11]),
        ({"at_least": 10}, [10, "10.00", 11], [9.99]),
        ({"at_most": 10}, [10, 0], [10.01]),
        ({"above": 10, "at_most": 20}, [11, 20], [10, 21]),
        ({"equals": "EUR"}, ["EUR"], ["eur", 3, True]),
        ({"equals": 3}, [3, 3.0, "3"], [4, True]),
        ({"equals": True}, [True], [1, "true", False]),
        ({"one_of": ["EUR", 3, False]}, ["EUR", 3, False], ["USD", 0, 4]),
        ({"prefix": "ext-"}, ["ext-1", "EXT-2"], ["int-1"]),
        ({"suffix": "@rival.com"}, ["a@RIVAL.com"], ["a@rival.com.org"]),
        ({"missing": True}, [None], [0, "", False]),
        ({"missing": False}, [0, "", "x"], [None]),
    ],
)
def test_operators(condition: dict[str, Any], holds: list[Any], not_: list[Any]) -> None:
    one = rule({"field": "x", **condition})
    assert [value for value in holds if one.terms(call(x=value)) is None] == []
    assert [value for value in not_ if one.terms(call(x=value)) is not None] == []


@pytest.mark.parametrize("odd", ["many", [1], {"a": 1}, True, "NaN", "Infinity"])
def test_a_number_that_is_none_closes_the_gate(odd: Any) -> None:
    for operator in ("above", "below", "at_least", "at_most"):
        assert rule({"field": "x", operator: 10}).terms(call(x=odd)) is not None
    for operator in ("prefix", "suffix"):
        assert rule({"field": "x", operator: "y"}).terms(call(x=7)) is not None


def test_a_field_that_is_not_there_meets_no_condition_but_missing() -> None:
    for operator in ({"above": 1}, {"equals": "x"}, {"prefix": "x"}):
        assert rule({"field": "x", **operator}).terms(call(amount=1)) is None
    assert rule({"field": "x", "missing": True}).terms(call(amount=1)) is not None


def test_paths_reach_into_objects_and_lists() -> None:
    about = call(address={"country": "FR"}, items=[{"price": 5}, {"price": 50}], tags=["a", "b"], grid=[[1], [9]])
    for found in (
        {"field": "address.country", "equals": "FR"},
        {"field": "items[].price", "above": 40},
        {"field": "tags[]", "equals": "b"},
        {"field": "grid[][]", "above": 8},
        # Asked of a list as if it were one of its items: what cannot be answered closes the gate.
        {"field": "items.price", "above": 60},
        {"field": "address[].country", "equals": "DE"},
        {"field": "address", "equals": "FR"},
        {"field": "tags", "one_of": ["c"]},
    ):
        assert rule(found).terms(about) is not None
    for none in (
        {"field": "address.city", "equals": "FR"},
        {"field": "items[].price", "above": 60},
    ):
        assert rule(none).terms(about) is None


def test_all_conditions_have_to_hold() -> None:
    one = rule({"field": "x", "above": 1}, {"field": "y", "equals": "EUR"})
    assert one.terms(call(x=2, y="EUR")) is not None
    assert one.terms(call(x=2, y="USD")) is None


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ({"tool": "t", "neded": 2}, "neded"),
        ({"tool": "t", "needed": 0}, "needed"),
        ({"tool": "t", "needed": "2"}, "needed"),
        ({"tool": "t", "risk": "huge"}, "risk"),
        ({"tool": "t", "hold_seconds": -1}, "hold_seconds"),
        ({"tool": "t", "expires_seconds": 1e12}, "expires_seconds"),
        ({"tool": ""}, "tool"),
        ({"needed": 2}, "needs `tool` or `effect`"),
        ({"effect": "magic"}, "effect"),
        ({"tool": "t", "when": [{"field": "a"}]}, "no operator"),
        ({"tool": "t", "when": [{"field": "a", "above": "5"}]}, "above"),
        ({"tool": "t", "when": [{"field": "a", "over": 5}]}, "over"),
        ({"tool": "t", "when": [{"field": "a", "above": 5, "below": 5}]}, "no number is above 5 and below 5"),
        ({"tool": "t", "when": [{"field": "a", "at_least": 9, "at_most": 8}]}, "no number"),
        ({"tool": "t", "when": [{"field": "a", "one_of": []}]}, "one_of"),
        ({"tool": "t", "when": [{"field": "a", "above": float("nan")}]}, "finite"),
        ({"tool": "t", "when": [{"field": "a", "equals": float("inf")}]}, "finite"),
        ({"tool": "t", "when": [{"field": "a..b", "above": 1}]}, "path"),
        ({"tool": "t", "when": [{"field": "[]", "above": 1}]}, "path"),
        ({"tool": "t", "when": [{"field": "a", "missing": True, "above": 1}]}, "stands alone"),
        ({"tool": "t", "when": {"field": "a"}}, "when"),
        (["tool"], "policy 1"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_when_it_is_read(data: Any, says: str) -> None:
    with pytest.raises(PolicyError, match="policy 1") as caught:
        policies_from([data])
    assert says in str(caught.value)


def test_one_table_instead_of_a_list_is_refused_with_the_way_out() -> None:
    with pytest.raises(PolicyError, match=r"\[\[policy\]\]"):
        policies_from({"tool": "t"})  # type: ignore[arg-type]


def test_two_policies_of_one_name_are_refused_and_unnamed_ones_are_told_apart() -> None:
    with pytest.raises(PolicyError, match=r"policy 2: .*already"):
        policies_from([{"tool": "a", "name": "x"}, {"tool": "b", "name": "x"}])
    assert [one.name for one in policies_from([{"tool": "a"}, {"tool": "a"}])] == ["a", "a-2"]


def test_a_policy_about_a_tool_that_there_is_not_is_refused_when_the_desk_is_made() -> None:
    @tool
    async def pay(amount: int) -> int:
        """Pay."""
        return amount

    def make(*data: dict[str, Any]) -> Runtime:
        return Runtime(InMemoryStore(), script(says("ok")), [pay], policies=policies_from(data))

    with pytest.raises(PolicyError, match="there is no tool 'pya' here; known are: pay"):
        make({"tool": "pay"}, {"tool": "pya"})
    assert [one.name for one in make({"tool": "pay"}, {"effect": "money"}).rules.policies] == ["pay", "money"]
