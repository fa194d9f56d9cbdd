"""A tool that asks for people when it is called (G4, G5): nothing was done, the same call waits, and goes once.

The deaths in between are told in test_killed_anywhere.py, at every commit.
"""

from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import msgspec
import pytest

from callboard import NeedsApproval, Tool, tool
from callboard.actors.agent.events import (
    ApprovalRequested,
    ToolAsked,
    ToolCallCompleted,
    ToolCallFailed,
    ToolCallInDoubt,
    ToolCallRequested,
)
from callboard.actors.agent.messages import ToolAsks
from callboard.actors.guard.profiles import PROFILES, Cap
from callboard.mailbox.errors import CallboardError
from callboard.service.trace import event_lines

from .stage import Stage, asks, budget, results, says, script

pytestmark = pytest.mark.anyio


@dataclass
class Till:
    """Pays; what is above its limit in sum only where people have agreed."""

    limit: int = 100
    paid: list[tuple[int, str, str]] = field(default_factory=list)
    """amount, key, approval"""
    called: list[str] = field(default_factory=list)
    """The approval of each attempt."""
    terms: dict[str, Any] = field(default_factory=dict)

    def tool(self, **options: Any) -> Tool:
        @tool(effect="money", **{"sums": {"amount": "EUR"}, **options})
        async def pay(amount: int, idempotency_key: str, approval: str) -> dict[str, int]:
            """Pay."""
            self.called.append(approval)
            if not approval and amount + sum(one for one, _, _ in self.paid) > self.limit:
                raise NeedsApproval(f"more than {self.limit} in all", **self.terms)
            self.paid.append((amount, idempotency_key, approval))
            return {"paid": amount}

        return pay


def pays(*amounts: int) -> Any:
    told = lambda messages: says(" | ".join(results(messages)))  # noqa: E731
    return script(asks(*(("pay", {"amount": amount}) for amount in amounts)), told)


# --- asked and let go ---------------------------------------------------------------------------------------------


async def test_g5_a_tool_that_asks_is_held_as_by_the_gate_and_goes_as_the_same_call_once_approved() -> None:
    till = Till()
    async with Stage(pays(150), [till.tool()]) as stage:
        run = await stage.begin(run_id="r")
        assert (await stage.state(run)).status == "awaiting_approval" and till.paid == []
        [asked] = await stage.of(run, ApprovalRequested)
        assert (asked.reason, asked.policy, asked.risk, asked.needed) == ("more than 100 in all", "tool", "medium", 1)
        assert (asked.call, asked.decision, asked.sums, asked.tool_call_id) == (1, "r.1", {"amount": "EUR"}, "c1")
        [row] = await stage.decisions(run)
        assert (row.id, row.status, row.kind, row.policy, row.reason) == (
            "r.1",
            "pending",
            "approval",
            "tool",
            "more than 100 in all",
        )
        await stage.approve(run)
        first, second = await stage.of(run, ToolCallRequested)
        assert first.idempotency_key == second.idempotency_key == asked.idempotency_key
        assert (first.decision, second.decision) == ("", "r.1")
        assert till.paid == [(150, first.idempotency_key, "r.1")] and till.called == ["", "r.1"]
        state = await stage.state(run)
        assert (state.status, state.tool_calls, state.calls, state.iterations) == ("completed", 1, 1, 2)
        [done] = await stage.of(run, ToolCallCompleted)
        assert done.attempt == 1 and await stage.of(run, ToolCallFailed) == []
        kinds = await stage.kinds(run)
        assert kinds[3:8] == [
            "ToolCallRequested",
            "ApprovalRequested",
            "ApprovalGranted",
            "ToolCallRequested",
            "ToolCallCompleted",
        ]


async def test_nobody_is_asked_where_the_tool_does_not_ask() -> None:
    till = Till()
    async with Stage(pays(50), [till.tool()]) as stage:
        run = await stage.begin()
        assert (await stage.state(run)).status == "completed"
        assert [approval for _, _, approval in till.paid] == [""]
        assert await stage.decisions(run) == []


async def test_a_call_that_the_gate_held_is_told_its_decision_too_and_is_not_asked_for_twice() -> None:
    till = Till()
    async with Stage(pays(150), [till.tool(requires_approval=True)]) as stage:
        run = await stage.begin(run_id="r")
        assert till.called == []
        await stage.approve(run)
        assert till.called == ["r.1"]
        assert len(await stage.of(run, ApprovalRequested)) == 1


async def test_siblings_go_on_while_one_waits() -> None:
    till = Till()
    async with Stage(pays(150, 60), [till.tool()]) as stage:
        run = await stage.begin(run_id="r")
        assert [amount for amount, _, _ in till.paid] == [60]
        assert (await stage.state(run)).status == "awaiting_approval"
        await stage.approve(run)
        assert [amount for amount, _, _ in till.paid] == [60, 150]
        assert (await stage.state(run)).final_answer == '{"paid":150} | {"paid":60}'


async def test_the_terms_of_the_tool_hold_two_people_and_a_note() -> None:
    till = Till(terms={"risk": "high", "needed": 2})
    async with Stage(pays(150), [till.tool()]) as stage:
        run = await stage.begin()
        [row] = await stage.decisions(run)
        assert (row.risk, row.needed) == ("high", 2)
        await stage.approve(run, "ann")
        assert till.paid == []
        with pytest.raises(CallboardError, match="ann"):
            await stage.approve(run, "ann")
        await stage.approve(run, "bob")
        assert [amount for amount, _, _ in till.paid] == [150]


async def test_checks_and_sources_are_shown_as_with_any_question() -> None:
    async def in_stock(amount: int) -> tuple[bool, str]:
        return amount < 200, f"{amount} of 200"

    till = Till()
    async with Stage(pays(150), [till.tool(checks=[in_stock])], guardrail_profile="standard") as stage:
        run = await stage.begin("pay 150")
        [row] = await stage.decisions(run)
        assert [one["detail"] for one in msgspec.json.decode(row.checks)] == ["150 of 200"]
        sources = [(one["path"], one["source"], one["trust"]) for one in msgspec.json.decode(row.provenance)]
        assert sources[0] == ("amount", "goal", "trusted")
        await stage.approve(run)
        assert [amount for amount, _, _ in till.paid] == [150]


# --- no, too late, changed ----------------------------------------------------------------------------------------


async def test_g5_what_is_denied_is_never_made_and_the_model_reads_why() -> None:
    till = Till()
    async with Stage(pays(150), [till.tool()]) as stage:
        run = await stage.begin()
        await stage.deny(run, "not today")
        state = await stage.state(run)
        assert (state.final_answer, state.tool_calls, till.paid) == ("Error: approval denied: not today", 0, [])


async def test_g5_nobody_decides_in_time() -> None:
    till = Till()
    async with Stage(pays(150), [till.tool()], approval_seconds=60.0) as stage:
        run = await stage.begin()
        await stage.advance(100)
        state = await stage.state(run)
        assert (state.status, till.paid) == ("completed", []) and "expired" in (state.final_answer or "")


async def test_an_edited_call_keeps_the_tool_s_terms_and_gets_another_key_and_decision() -> None:
    till = Till(terms={"risk": "high", "needed": 2})
    async with Stage(pays(150), [till.tool()]) as stage:
        run = await stage.begin(run_id="r")
        await stage.runs.edit(run, {"amount": 120}, "ann")
        await stage.settle()
        first, second = await stage.of(run, ApprovalRequested)
        assert (second.policy, second.risk, second.needed, second.replaces) == ("edit+tool", "high", 2, "r.1")
        assert second.by_tool == first.by_tool and second.idempotency_key != first.idempotency_key
        await stage.runs.edit(run, {"amount": 110}, "bob")
        await stage.settle()
        await stage.approve(run, "ann")
        assert till.paid == []
        await stage.approve(run, "bob")
        third = (await stage.of(run, ApprovalRequested))[-1]
        assert till.paid == [(110, third.idempotency_key, third.decision)] and third.needed == 2


async def test_a_check_that_changes_its_mind_asks_anew_and_the_tool_is_told_the_newer_decision() -> None:
    fine = [True]

    async def open_order(amount: int) -> bool:
        return fine[0]

    till = Till()
    async with Stage(pays(150), [till.tool(checks=[open_order])]) as stage:
        run = await stage.begin(run_id="r")
        fine[0] = False
        await stage.approve(run)
        assert till.paid == []
        fine[0] = True
        await stage.approve(run, "bob")
        second = (await stage.of(run, ApprovalRequested))[-1]
        assert [approval for _, _, approval in till.paid] == [second.decision] != ["r.1"]


async def test_an_approval_is_of_the_tool_that_asked_and_of_no_later_one() -> None:
    till = Till()
    async with Stage(pays(150), [till.tool()]) as stage:
        run = await stage.begin()
        await stage.kill()

        @tool(effect="money", name="pay")
        async def other(amount: int, idempotency_key: str, approval: str) -> int:
            """Pay otherwise."""
            till.paid.append((amount, idempotency_key, approval))
            return amount

        await stage.add_node(stage.beside(pays(150), [other]))
        await stage.approve(run)
        await stage.advance(60)
        [failed] = await stage.of(run, ToolCallFailed)
        assert "superseded" in failed.error and till.paid == []


async def test_the_trace_says_that_the_tool_itself_asked() -> None:
    till = Till()
    async with Stage(pays(150), [till.tool()]) as stage:
        run = await stage.begin(run_id="r")
        await stage.approve(run)
        told = [line.text for line in event_lines(await stage.runs.events(run))]
        assert "call 1 pay HELD by the tool itself, approval r.1 asked for" in told
        assert any(line.startswith("call 1 pay sent, let go by approval r.1; key ") for line in told)


# --- never in a circle, never a doubt -----------------------------------------------------------------------------


async def test_a_tool_that_asks_although_it_was_approved_is_an_error_for_the_model() -> None:
    calls: list[str] = []

    @tool(side_effect=True)
    def pay(amount: int, idempotency_key: str) -> int:
        """Pay."""
        calls.append(idempotency_key)
        raise NeedsApproval("always more")

    async with Stage(pays(1), [pay]) as stage:
        run = await stage.begin()
        await stage.approve(run)
        [failed] = await stage.of(run, ToolCallFailed)
        assert failed.error.startswith("always more (pay asks for an approval that it has") and failed.final
        assert (len(calls), (await stage.state(run)).status) == (2, "completed")


async def test_asking_is_no_attempt_that_failed_and_follows_one_that_did() -> None:
    outcomes: list[Exception | None] = [ConnectionError("away"), NeedsApproval("much"), ConnectionError("away"), None]
    seen: list[str | None] = []

    @tool(side_effect=True, attempts=2)
    async def pay(amount: int, idempotency_key: str, approval: str | None) -> int:
        """Pay."""
        seen.append(approval)
        outcome = outcomes.pop(0)
        if outcome is not None:
            raise outcome
        return amount

    async with Stage(pays(1), [pay]) as stage:
        run = await stage.begin(run_id="r")
        await stage.advance(60)
        assert (await stage.state(run)).status == "awaiting_approval"
        await stage.approve(run)
        await stage.advance(60)
        assert (await stage.state(run)).status == "completed"
        assert seen == [None, None, "r.1", "r.1"]
        assert [one.final for one in await stage.of(run, ToolCallFailed)] == [False, False]


async def test_g4_a_tool_without_key_that_asks_leaves_no_doubt() -> None:
    till: list[int] = []

    @tool(side_effect=True)
    async def pay(amount: int, approval: str) -> int:
        """Pay, at a bank that knows no keys."""
        if not approval:
            raise NeedsApproval("much")
        till.append(amount)
        return amount

    async with Stage(pays(7), [pay]) as stage:
        run = await stage.begin()
        await stage.approve(run)
        assert till == [7] and await stage.of(run, ToolCallInDoubt) == []


async def test_g4_what_was_in_doubt_and_is_made_again_is_told_the_same_approval() -> None:
    seen: list[str] = []
    box: list[Stage] = []

    @tool(side_effect=True)
    async def pay(amount: int, approval: str) -> int:
        """Pay, at a bank that knows no keys."""
        seen.append(approval)
        if not approval:
            raise NeedsApproval("much")
        if len(seen) == 2:
            await box[0].port.sleep(1e6)
        return amount

    async with Stage(pays(7), [pay]) as stage:
        box.append(stage)
        run = await stage.begin(run_id="r")
        await stage.approve(run)
        await stage.kill()
        await stage.add_node()
        await stage.advance(60)
        [doubt] = await stage.of(run, ToolCallInDoubt)
        assert doubt.decision != "r.1"
        for kept in ("r.1", "", "r.1"):  # an older release kept nothing of it
            keep_released(stage, run, kept)
            assert (await stage.runtime.verify(run)).ok
        keep_released(stage, run, "r.9")
        assert not (await stage.runtime.verify(run)).ok
        keep_released(stage, run, "r.1")
        await stage.deny(run)
        assert seen == ["", "r.1", "r.1"]
        assert (await stage.state(run)).status == "completed"


def keep_released(stage: Stage, run: str, decision: str) -> None:
    """Let the snapshot say that this decision had let its calls go."""
    row = next(one for one in stage.store.tables.actors.values() if one.address == stage.runs.address(run))
    state = msgspec.msgpack.decode(row.state)
    for call in state["run"]["pending"].values():
        call["released"] = decision
    row.state = msgspec.msgpack.encode(state)


async def test_a_word_of_a_message_that_is_not_the_call_any_more_changes_nothing() -> None:
    till = Till()
    async with Stage(pays(150), [till.tool()]) as stage:
        run = await stage.begin(run_id="r")
        late = ToolAsks(1, ToolAsked("late"))
        await stage.runtime.client.send(stage.runs.address(run), late)
        await stage.settle()
        await stage.approve(run)
        assert [one.reason for one in await stage.of(run, ApprovalRequested)] == ["more than 100 in all"]
        assert len(till.paid) == 1


async def test_a_run_that_is_cancelled_while_its_tool_makes_up_its_mind_asks_nobody() -> None:
    box: list[Stage] = []

    @tool(side_effect=True)
    async def pay(amount: int, idempotency_key: str) -> int:
        """Pay."""
        await box[0].port.sleep(10)
        raise NeedsApproval("much")

    async with Stage(pays(7), [pay]) as stage:
        box.append(stage)
        run = await stage.begin()
        await stage.runtime.cancel(run, by="ann", reason="enough")
        await stage.advance(20)
        assert (await stage.state(run)).status == "cancelled"
        [failed] = await stage.of(run, ToolCallFailed)
        assert failed.error == "much; the run was cancelled before anybody was asked"
        assert await stage.decisions(run) == []


async def test_a_run_that_is_cancelled_while_people_are_asked_makes_no_call() -> None:
    till = Till()
    async with Stage(pays(150), [till.tool()]) as stage:
        run = await stage.begin()
        await stage.runtime.cancel(run, by="ann", reason="enough")
        await stage.advance(5)
        [row] = await stage.decisions(run)
        assert ((await stage.state(run)).status, row.status, till.paid) == ("cancelled", "superseded", [])


async def test_a_fork_of_a_run_whose_tool_asked_asks_for_what_may_be_done_there_and_not_for_what_was_denied() -> None:
    till = Till()
    again = script(asks(("pay", {"amount": 150})), says("no"), asks(("pay", {"amount": 150})), says("ok"))
    async with Stage(again, [till.tool()]) as stage:
        await stage.begin(run_id="r")
        await stage.deny("r")
        await stage.runtime.fork("r", new_id="f", say="do it")
        await stage.settle()
        [asked] = await stage.of("f", ApprovalRequested)
        assert (asked.policy, asked.by_tool is not None) == ("tool", True)
        await stage.approve("f")
        assert [approval for _, _, approval in till.paid] == ["f.2"]


# --- counted once -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("yes", [True, False])
async def test_a_call_that_came_back_counts_once_against_caps_and_budget(yes: bool) -> None:
    caps = {"pay": {"amount": Cap(each=None, total=Decimal(1_000))}}
    capped = msgspec.structs.replace(PROFILES["validation"], name="capped", caps=caps)
    till = Till()
    llm = script(asks(("pay", {"amount": 150})), asks(("pay", {"amount": 50})), says("ok"))
    async with Stage(llm, [till.tool()], guardrail_profile=capped) as stage:
        run = await stage.begin(budget=budget(max_tool_calls=2))
        assert (await stage.state(run)).counted.amounts == {"pay.amount": Decimal(150)}
        if not yes:
            await stage.deny(run)
        else:
            await stage.approve(run)
            await stage.approve(run)  # the second one comes on top of the first
        state = await stage.state(run)
        assert (state.status, state.tool_calls) == ("completed", 2 if yes else 1)
        assert state.counted.amounts == {"pay.amount": Decimal(200 if yes else 50)}
