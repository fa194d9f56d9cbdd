"""Edits: a person changes a held call's arguments. What runs is what was shown and approved, under a key of its own."""

import asyncio
from typing import Any

import msgspec
import pytest

from callboard import Tool, tool
from callboard.actors.agent.approval_events import ApprovalEdited, ApprovalEditRefused, Change
from callboard.actors.agent.digest import call_digest, decision_id, idempotency_key
from callboard.actors.agent.events import ApprovalRequested, Provenance, ToolCallRequested
from callboard.actors.agent.policies import PolicyCall, policy
from callboard.actors.agent.policy import Terms
from callboard.actors.agent.question import changes, said_by
from callboard.mailbox.errors import AlreadyDecided, Conflict, NotAllowed, UsageError
from callboard.persistence.rows import Decision, editors_of

from .stage import Stage, asks, results, says, script

pytestmark = pytest.mark.anyio


def paying(**options: Any) -> tuple[list[tuple[int, str]], list[Tool]]:
    """A gated tool that pays; what it paid, with the key."""
    paid: list[tuple[int, str]] = []

    @tool(side_effect=True, requires_approval=True, **options)
    async def pay(amount: int, to: str = "ann", *, idempotency_key: str) -> dict[str, Any]:
        """Pay."""
        paid.append((amount, idempotency_key))
        return {"paid": amount}

    return paid, [pay]


def once() -> Any:
    return script(asks(("pay", {"amount": 90})), says("ok"))


async def edit(stage: Stage, run: str, arguments: dict[str, Any], by: str = "ann", **more: Any) -> Decision:
    """Edit, and the question that comes of it."""
    old = await stage.runs.edit(run, arguments, by, **more)
    assert old.status == "superseded" and old.decided_by == by
    await stage.settle()
    found = await stage.runs.replacement(old, seconds=0)
    assert found is not None and found.replaces == old.id
    return found


async def test_what_runs_is_the_edited_call_and_the_model_is_told() -> None:
    paid, tools = paying()
    llm = once()
    async with Stage(llm, tools) as stage:
        run = await stage.begin()
        [old] = await stage.decisions(run)
        new = await edit(stage, run, {"amount": 40}, note="that is what was agreed")
        assert paid == [] and (await stage.state(run)).status == "awaiting_approval"
        assert new.status == "pending" and new.id != old.id
        assert (new.arguments, editors_of(new)) == ('{"amount":40,"to":"ann"}', ["ann"])
        assert msgspec.json.decode(new.diff) == [{"path": "amount", "before": 90, "after": 40}]
        canonical = new.arguments
        assert new.digest == call_digest(decision_id(run, 1), "pay", tools[0].version, canonical) != old.digest
        await stage.approve(run, "bob")
        assert paid == [(40, idempotency_key(run, 1, "pay", canonical))]
        [told] = results(llm.last_messages)
        assert told.endswith('\n{"paid":40}') and 'a person changed the arguments of the call to: {"amount":40}' in told
        [edited] = await stage.of(run, ApprovalEdited)
        assert (edited.decision, edited.replaced_by, edited.by) == (old.id, new.id, "ann")
        assert (edited.diff, edited.note) == ([Change("amount", 90, 40)], "that is what was agreed")
        [let_go] = await stage.of(run, ToolCallRequested)
        assert (let_go.decision, let_go.digest, let_go.arguments["amount"]) == (new.id, new.digest, 40)


async def test_the_question_that_was_edited_can_be_answered_no_more() -> None:
    paid, tools = paying()
    async with Stage(once(), tools) as stage:
        run = await stage.begin()
        [old] = await stage.decisions(run)
        await stage.kill()  # so the run cannot ask anew yet
        await stage.runs.edit(run, {"amount": 40}, "ann")
        for by in ("bob", "ann"):
            with pytest.raises(AlreadyDecided, match="superseded by ann"):
                await stage.runtime.approve(run, by, call=1)
        with pytest.raises(AlreadyDecided, match="superseded by ann"):
            await stage.runs.edit(run, {"amount": 41}, "bob")
        await stage.add_node()
        await stage.advance(5)
        with pytest.raises(Conflict, match="look at it again"):
            await stage.approve(run, "bob", digest=old.digest)
        assert paid == []
        await stage.approve(run, "bob")
        assert [amount for amount, _ in paid] == [40]


async def test_a_change_that_does_not_fit_is_refused_and_the_question_is_asked_again_as_it_was() -> None:
    paid, tools = paying()
    llm = once()
    async with Stage(llm, tools) as stage:
        run = await stage.begin()
        [old] = await stage.decisions(run)
        for wrong, why in (
            ({"amount": "much"}, "amount"),
            ({}, "amount"),
            ({"amount": 1, "colour": "red"}, "colour"),
            ({"amount": 90, "to": "ann"}, "nothing was changed"),
        ):
            new = await edit(stage, run, wrong)
            assert (new.arguments, new.digest, new.edited_by) == (old.arguments, old.digest, "")
            assert new.reason.startswith("ann wanted to change it") and why in new.reason
            assert new.reason.endswith("; pay always needs approval") and new.reason.count("wanted to") == 1
        assert len(await stage.of(run, ApprovalEditRefused)) == 4
        await stage.approve(run, "bob")
        assert [amount for amount, _ in paid] == [90]
        assert results(llm.last_messages) == ['{"paid":90}']


async def test_what_is_edited_passes_the_gate_anew() -> None:
    @policy
    def sums(call: PolicyCall) -> Terms | None:
        return Terms("a large sum", needed=2, not_requester=True) if call.arguments["amount"] > 100 else None

    paid, tools = paying()
    async with Stage(once(), tools, policies=[sums]) as stage:
        run = await stage.begin(requested_by="dan")
        new = await edit(stage, run, {"amount": 500}, by="eve")
        assert (new.needed, new.not_requester, new.policy) == (2, True, "edit+tool+sums")
        with pytest.raises(NotAllowed, match="changed by eve"):
            await stage.approve(run, "eve")
        await stage.approve(run, "ann")
        assert paid == []
        await stage.approve(run, "bob")
        assert [amount for amount, _ in paid] == [500]


async def test_nobody_who_ever_changed_a_call_may_approve_it_where_a_policy_wants_somebody_else() -> None:
    @policy
    def eyes(call: PolicyCall) -> Terms:
        return Terms("four eyes", not_requester=True)

    paid, tools = paying()
    async with Stage(once(), tools, policies=[eyes]) as stage:
        run = await stage.begin(requested_by="ann")
        await edit(stage, run, {"amount": 40}, by="eve")
        await edit(stage, run, {"amount": 40, "to": "cy"}, by="bob")
        new = await edit(stage, run, {"amount": "x"}, by="zed")  # does not fit: it changed nothing
        assert editors_of(new) == ["eve", "bob"]
        for barred in ("ann", "eve", "bob"):
            with pytest.raises(NotAllowed, match=f"cannot be approved by {barred}"):
                await stage.approve(run, barred)
        await stage.approve(run, "zed")
        assert [amount for amount, _ in paid] == [40]


async def test_who_edits_may_approve_where_no_policy_says_otherwise() -> None:
    paid, tools = paying()
    async with Stage(once(), tools) as stage:
        run = await stage.begin()
        await edit(stage, run, {"amount": 40}, by="ann")
        await stage.approve(run, "ann")
        assert [amount for amount, _ in paid] == [40]


async def test_an_edit_that_needs_no_person_any_more_is_asked_for_all_the_same() -> None:
    @policy
    def sums(call: PolicyCall) -> str | None:
        return "a large sum" if call.arguments["amount"] > 50 else None

    paid: list[int] = []

    @tool(side_effect=True)
    async def pay(amount: int) -> int:
        """Pay."""
        paid.append(amount)
        return amount

    async with Stage(once(), [pay], policies=[sums]) as stage:
        run = await stage.begin()
        new = await edit(stage, run, {"amount": 10})
        assert (paid, new.reason, new.policy) == ([], "ann changed the arguments", "edit")
        await stage.approve(run)
        assert paid == [10]


async def test_the_changed_values_are_said_by_the_editor_and_the_others_stay_where_they_came_from() -> None:
    before = [Provenance("to", "tool", "untrusted", "read#1.x"), Provenance("lines[0].sku", "goal", "trusted")]
    after = said_by("ann", [Change("lines[0]", {"sku": 1}, {"sku": 2})], before)
    assert after == [before[0], Provenance("lines[0]", "said", "trusted", "edited by ann")]
    _, tools = paying()
    async with Stage(once(), tools) as stage:
        run = await stage.begin()
        new = await edit(stage, run, {"amount": 40})
        told = (await stage.of(run, ApprovalRequested))[-1].provenance
        assert Provenance("amount", "said", "trusted", "edited by ann") in told
        assert '"origin":"edited by ann"' in new.provenance
        await stage.deny(run)


async def test_a_held_approval_is_taken_back_before_it_can_be_edited() -> None:
    paid, tools = paying()
    async with Stage(once(), tools) as stage:
        run = await stage.begin()
        await stage.approve(run, "ann", hold_seconds=60.0)
        with pytest.raises(AlreadyDecided, match="approved by ann"):
            await stage.runs.edit(run, {"amount": 40}, "bob")
        await stage.runtime.take_back(run, "bob")
        await edit(stage, run, {"amount": 40}, by="bob")
        await stage.approve(run, "ann")
        assert [amount for amount, _ in paid] == [40]


async def test_an_edit_survives_the_death_of_the_node_and_a_cancelled_run_ends_all_the_same() -> None:
    for cancel in (False, True):
        paid, tools = paying()
        async with Stage(once(), tools, approval_seconds=600.0) as stage:
            run = await stage.begin()
            await stage.kill()
            await stage.runs.edit(run, {"amount": 40}, "ann")
            if cancel:
                await stage.runtime.cancel(run, by="bob")
            await stage.add_node()
            await stage.advance(10)
            rows = await stage.decisions(run)
            if cancel:
                stage.checked = False  # the edit came to a run that had ended: a dead letter, as it should be
                assert (await stage.state(run)).status == "cancelled"
                assert all(row.status == "superseded" for row in rows) and paid == []
                continue
            assert [row.status for row in rows] == ["superseded", "pending"]
            await stage.advance(601)  # the new question has a whole time of its own, and that ends too
            assert (await stage.state(run)).status == "completed" and paid == []


async def test_of_twenty_who_edit_and_approve_at_once_one_is_first() -> None:
    for first in range(2):
        paid, tools = paying()
        async with Stage(once(), tools) as stage:
            run = await stage.begin()

            async def act(n: int, stage: Stage = stage, run: str = run, first: int = first) -> str:
                try:
                    if n % 2 == first:
                        await stage.runs.edit(run, {"amount": n}, f"p{n}", call=1)
                    else:
                        await stage.runtime.approve(run, f"p{n}", call=1)
                except AlreadyDecided as error:
                    return str(error)
                return "won"

            outcomes = await asyncio.gather(*(act(n) for n in range(20)))
            await stage.settle()
            assert outcomes.count("won") == 1
            rows = await stage.decisions(run)
            assert rows[0].status in ("released", "superseded")
            assert len(rows) == (1 if rows[0].status == "released" else 2)
            assert len(paid) == (rows[0].status == "released")


async def test_a_call_in_doubt_cannot_be_edited() -> None:
    _, tools = paying()
    async with Stage(once(), tools) as stage:
        run = await stage.begin()
        [row] = await stage.decisions(run)
        doubtful = msgspec.structs.replace(row, kind="in-doubt")
        stage.store.tables.decisions[row.id] = doubtful
        with pytest.raises(UsageError, match="nothing to edit"):
            await stage.runs.edit(run, {"amount": 40}, "ann")


async def test_runtime_edit_gives_the_new_question() -> None:
    _, tools = paying()
    async with Stage(once(), tools) as stage:
        run = await stage.begin()
        new = await stage.runtime.edit(run, "ann", {"amount": 40}, seconds=0)
        assert (new.status, editors_of(new)) == ("pending", ["ann"])


def test_changes_are_told_value_by_value() -> None:
    before = {"a": 1, "b": {"c": [1, 2], "d": None}, "e": [1], "f": True}
    after = {"a": 1.5, "b": {"c": [1, 3]}, "e": [1, 2], "f": 1, "g": "new"}
    assert changes(before, after) == [
        Change("a", 1, 1.5),
        Change("b.c[1]", 2, 3),
        Change("e", [1], [1, 2]),
        Change("f", True, 1),
        Change("g", None, "new"),
    ]
    assert changes(before, before) == []
