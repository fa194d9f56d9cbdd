"""What a tool says of its sums: which declarations can work, and that what is asked is as it was said at that time."""

from typing import Any, cast

import anyio
import pytest

from callboard import Tool, tool
from callboard.actors.agent.events import ApprovalRequested
from callboard.actors.agent.schema import BadTool
from callboard.crm.policy import parse_policy, policy_text
from callboard.crm.tools import money_tools
from callboard.persistence.postgres.database import Database
from callboard.persistence.rows import Decision, declared_sums
from callboard.service.operations.views import approval_view

from .stage import Stage, asks, says, script


def pay(sums: dict[str, str] | None = None, **options: Any) -> Tool:
    """A gated tool whose numbers are cents, and whose name for them says nothing."""
    said: dict[str, Any] = {} if sums is None else {"sums": sums}

    @tool(side_effect=True, **{"requires_approval": True, **said, **options})
    async def pay(units: int, to: str = "ann", *, idempotency_key: str) -> dict[str, int]:
        """Pay."""
        return {"paid": units}

    return pay


def shown(row: Decision) -> list[str]:
    """The sums of a question, as people see them."""
    return [one.text for one in approval_view(row, "1").money]


def once() -> Any:
    return script(asks(("pay", {"units": 48_000})), says("ok"))


@pytest.mark.parametrize(
    ("declared", "kept"),
    [
        ({"units": "USD cents"}, {"units": "USD minor"}),
        ({"units": "GBP pence"}, {"units": "GBP minor"}),
        ({"units": "JPY"}, {"units": "JPY"}),
        ({"units": "minor"}, {"units": "minor"}),
        ({"to[].units": "EUR"}, {"to[].units": "EUR"}),
        ({}, {}),
        (None, {}),
    ],
)
def test_a_sum_is_declared_by_its_currency_its_unit_or_both(
    declared: dict[str, str] | None, kept: dict[str, str]
) -> None:
    assert dict(pay(declared).sums) == kept


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        ({"amount": "USD"}, "'amount', which is no argument"),
        ({"units": "usd"}, "must be a currency, 'minor', or both"),
        ({"units": "dollars"}, "must be a currency"),
        ({"units": "USD dimes"}, "must be a currency"),
        ({"units": ""}, "must be a currency"),
        ({"units": 2}, "must be a currency"),
        ({"units..x": "USD"}, "no usable path"),
        ({"": "USD"}, "no usable path"),
        (["units"], "must be a mapping"),
        ({f"to.{number}": "USD" for number in range(40)}, "at most 32"),
    ],
)
def test_a_declaration_that_cannot_work_is_refused_when_it_is_made(declared: Any, said: str) -> None:
    with pytest.raises(BadTool, match=said):
        pay(declared)


def test_the_version_of_a_tool_is_that_of_its_code_and_not_of_how_it_is_shown() -> None:
    assert pay({"units": "USD cents"}).version == pay().version


def test_the_desk_s_refund_is_in_cents_of_the_policy_s_currency() -> None:
    policy = parse_policy(policy_text())
    refund, cancel = money_tools(cast(Database, None), policy=policy, node="n", after_effect=None)
    assert (dict(refund.sums), dict(cancel.sums)) == ({"amount_cents": f"{policy.currency} minor"}, {})


@pytest.mark.anyio
async def test_what_is_declared_is_asked_with_and_a_later_deploy_changes_nothing_of_it() -> None:
    async with Stage(once(), [pay({"units": "EUR cents"})]) as stage:
        run = await stage.begin()
        [row] = await stage.decisions(run)
        assert shown(row) == ["EUR 480.00"] and declared_sums(row.provenance) == {"units": "EUR minor"}
        assert [one.sums for one in await stage.of(run, ApprovalRequested)] == [{"units": "EUR minor"}]
        await stage.kill()
        await stage.add_node(stage.beside(once(), [pay({"units": "JPY"})]))
        await stage.advance(5)
        assert shown((await stage.decisions(run))[0]) == ["EUR 480.00"]


@pytest.mark.anyio
async def test_what_is_asked_anew_because_the_world_has_changed_is_shown_as_it_was() -> None:
    seen: list[bool] = [True]

    def fine() -> bool:
        return seen[0]

    async with Stage(once(), [pay({"units": "EUR cents"}, checks=fine)]) as stage:
        run = await stage.begin()
        await stage.kill()
        await stage.add_node(stage.beside(once(), [pay({"units": "JPY"}, checks=fine)]))
        await stage.advance(5)
        seen[0] = False
        await stage.approve(run, hold_seconds=0)
        old, new = await stage.decisions(run)
        assert (old.status, new.replaces, shown(new)) == ("superseded", old.id, ["EUR 480.00"])


@pytest.mark.anyio
async def test_a_changed_call_is_asked_for_with_what_its_tool_says_now() -> None:
    async with Stage(once(), [pay({"units": "EUR cents"})]) as stage:
        run = await stage.begin()
        [old] = await stage.decisions(run)
        await stage.runs.edit(run, {"units": 500}, "ann")
        await stage.settle()
        new = await stage.runs.replacement(old, seconds=0)
        assert new is not None and shown(new) == ["EUR 5.00"]


@pytest.mark.anyio
async def test_a_call_in_doubt_that_nobody_was_asked_about_is_shown_with_its_currency() -> None:
    @tool(name="pay", side_effect=True, on_doubt="park", timeout=1.0, sums={"units": "EUR cents"})
    async def hangs(units: int) -> dict[str, int]:
        """Pay."""
        await anyio.sleep_forever()
        return {"paid": units}

    async with Stage(once(), [hangs]) as stage:
        run = await stage.begin()
        await stage.advance(5)
        [row] = await stage.decisions(run)
        assert row.kind == "in-doubt" and shown(row) == ["EUR 480.00"]


@pytest.mark.anyio
async def test_a_tool_that_declares_nothing_is_asked_for_as_ever() -> None:
    async with Stage(once(), [pay()]) as stage:
        run = await stage.begin()
        [row] = await stage.decisions(run)
        assert (row.provenance, shown(row)) == ("", [])
        [event] = await stage.of(run, ApprovalRequested)
        assert event.sums == {}
