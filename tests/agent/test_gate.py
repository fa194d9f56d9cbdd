"""The gate: a pure function of what the model asked for and what the tools are."""

from typing import Any

import pytest

from callboard import tool
from callboard.actors.agent.events import RequestedCall
from callboard.actors.agent.gate import Go, Hold, Refuse, judge


@tool
async def look(n: int) -> int:
    """Look."""
    return n


@tool(side_effect=True, requires_approval=lambda a: "too much" if a["amount"] > 100 else False)
async def pay(amount: int, to: str = "cash") -> int:
    """Pay."""
    return amount


TOOLS = {"look": look, "pay": pay}


def call(name: str, arguments: dict[str, Any] | None = None, problem: str = "") -> RequestedCall:
    return RequestedCall("c", name, arguments or {}, problem)


def test_a_call_without_a_rule_against_it_goes_with_converted_arguments() -> None:
    verdict = judge(call("look", {"n": "7"}), TOOLS)
    assert isinstance(verdict, Go)
    assert (verdict.tool, verdict.arguments.plain) == (look, {"n": 7})


def test_a_rule_holds_it_and_says_why() -> None:
    verdict = judge(call("pay", {"amount": 101}), TOOLS)
    assert isinstance(verdict, Hold)
    assert (verdict.reason, verdict.arguments.plain) == ("too much", {"amount": 101, "to": "cash"})
    assert isinstance(judge(call("pay", {"amount": 100}), TOOLS), Go)


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        (call("nonsense"), "unknown tool: nonsense; known are look, pay"),
        (call("pay", problem="not valid JSON"), "invalid arguments: not valid JSON"),
        (call("nonsense", problem="not valid JSON"), "unknown tool: nonsense; known are look, pay"),
        (call("pay"), "invalid arguments: argument 'amount' is missing, expected int"),
        (call("pay", {"amount": 1, "extra": 2}), "invalid arguments: unknown argument 'extra' (expected: amount, to)"),
    ],
)
def test_what_cannot_be_called_is_refused_in_words_for_the_model(asked: RequestedCall, error: str) -> None:
    assert judge(asked, TOOLS) == Refuse(error)


def test_without_tools_every_call_is_refused() -> None:
    assert judge(call("look"), {}) == Refuse("unknown tool: look; known are none")


def test_the_rule_does_not_see_what_does_not_fit_its_types() -> None:
    seen: list[Any] = []

    def rule(arguments: dict[str, Any]) -> bool:
        seen.append(arguments["n"])
        return True

    @tool(requires_approval=rule)
    async def f(n: int) -> int:
        """F."""
        return n

    assert isinstance(judge(call("f", {"n": "x"}), {"f": f}), Refuse)
    assert isinstance(judge(call("f", {"n": "3"}), {"f": f}), Hold)
    assert seen == [3]


@pytest.mark.parametrize("fault", [ZeroDivisionError, SystemError, RecursionError])
def test_a_rule_that_fails_holds(fault: type[Exception]) -> None:
    def rule(arguments: dict[str, Any]) -> bool:
        raise fault("\x00bad\ud800")

    @tool(requires_approval=rule)
    async def f(n: int) -> int:
        """F."""
        return n

    verdict = judge(call("f", {"n": 1}), {"f": f})
    assert isinstance(verdict, Hold)
    assert fault.__name__ in verdict.reason and "\x00" not in verdict.reason
    verdict.reason.encode()
