"""The parameter `approval` and the terms of `NeedsApproval`: what can be declared, and how odd ones are read (G5)."""

from typing import Any

import pytest

from callboard import NeedsApproval, tool
from callboard.actors.agent.arguments import InvalidArguments
from callboard.actors.agent.events import ApprovalRequested, ToolAsked, ToolCallFailed
from callboard.actors.agent.question import terms_of_tool
from callboard.actors.agent.schema import BadTool

from .stage import Stage, asks, says, script

pytestmark = pytest.mark.anyio


def pays() -> Any:
    return script(asks(("pay", {"amount": 1})), says("ok"))


def test_models_are_not_told_of_the_parameter_and_cannot_give_it() -> None:
    @tool
    async def pay(amount: int, idempotency_key: str, approval: str | None = None) -> int:
        """Pay."""
        return amount

    assert list(pay.parameters["properties"]) == ["amount"]
    assert (pay.takes_key, pay.takes_approval, pay.unasked) == (True, True, None)
    with pytest.raises(InvalidArguments, match="unknown argument 'approval'"):
        pay.validate({"amount": 1, "approval": "r.1"})


def test_the_parameter_has_to_be_a_text() -> None:
    with pytest.raises(BadTool, match="parameter 'approval': the runtime fills it with text"):

        @tool
        async def pay(approval: bool) -> int:
            """Pay."""
            return 1


@pytest.mark.parametrize(
    ("reason", "terms"),
    [(" ", {}), ("x", {"risk": "never"}), ("x", {"needed": 0}), ("x", {"needed": True}), ("x", {"needed": 51})],
)
async def test_terms_that_cannot_be_are_the_tool_s_own_error(reason: str, terms: dict[str, Any]) -> None:
    @tool(side_effect=True)
    async def pay(amount: int, idempotency_key: str) -> int:
        """Pay."""
        raise NeedsApproval(reason, **terms)

    async with Stage(pays(), [pay]) as stage:
        run = await stage.begin()
        [failed] = await stage.of(run, ToolCallFailed)
        assert failed.final and failed.error.startswith("ValueError") and await stage.decisions(run) == []


class Odd(NeedsApproval):
    """One that says nothing, and what cannot be."""

    needed: Any = "many"
    risk: Any = object()

    def __init__(self) -> None:
        Exception.__init__(self)


async def test_an_own_kind_of_it_is_read_strictly() -> None:
    @tool(side_effect=True)
    async def pay(amount: int, idempotency_key: str) -> int:
        """Pay."""
        raise Odd

    async with Stage(pays(), [pay]) as stage:
        run = await stage.begin()
        [asked] = await stage.of(run, ApprovalRequested)
        assert (asked.reason, asked.risk, asked.needed) == ("pay asks for approval", "high", 50)
        await stage.deny(run)


def test_terms_are_bounded_whatever_a_message_says() -> None:
    terms = terms_of_tool(ToolAsked("x" * 100_000, "never", 1_000))
    assert (len(terms.reason) < 10_000, terms.risk, terms.needed) == (True, "high", 50)
