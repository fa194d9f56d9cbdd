"""Gated calls: one decision, exactly once, about exactly what was shown (G5)."""

import asyncio
from collections import Counter
from typing import Any

import pytest

from callboard import Tool, tool
from callboard.actors.agent.events import (
    ApprovalDenied,
    ApprovalExpired,
    ApprovalGranted,
    ToolCallCompleted,
    ToolCallFailed,
    ToolCallRequested,
)
from callboard.actors.agent.runs import NotAwaiting
from callboard.actors.approval import Approvals, Decided, ExpiryDue, ExpiryWanted, Release
from callboard.mailbox.errors import AlreadyDecided, Conflict

from .stage import Stage, asks, results, says, script

pytestmark = pytest.mark.anyio


def pay_and_look() -> tuple[list[str], list[Tool]]:
    """A gated tool and a free one, and what they did."""
    done: list[str] = []

    @tool(side_effect=True, requires_approval=True)
    async def pay(amount: int, idempotency_key: str) -> dict[str, Any]:
        """Pay."""
        done.append(f"pay {amount}")
        return {"paid": amount}

    @tool
    async def look(n: int) -> int:
        """Look."""
        done.append(f"look {n}")
        return n

    return done, [pay, look]


def pay(amount: int = 1) -> tuple[str, dict[str, int]]:
    return "pay", {"amount": amount}


def look(n: int) -> tuple[str, dict[str, int]]:
    return "look", {"n": n}


async def test_g5_a_gated_call_first_in_a_batch_holds_nobody_up() -> None:
    done, tools = pay_and_look()
    llm = script(asks(pay(), look(2), look(3)), says("ok"))
    async with Stage(llm, tools) as stage:
        run = await stage.begin()
        assert Counter(done) == {"look 2": 1, "look 3": 1}
        snapshot = await stage.runs.snapshot(run)
        assert snapshot.pending is not None
        assert snapshot.pending.executed_sibling_results == {2: {"result": 2}, 3: {"result": 3}}
        await stage.approve(run)
        assert Counter(done) == {"pay 1": 1, "look 2": 1, "look 3": 1}
        assert results(llm.last_messages) == ['{"paid":1}', '{"result":2}', '{"result":3}']
        assert [m.tool_call_id for m in llm.last_messages if m.role == "tool"] == ["c1", "c2", "c3"]
        assert (await stage.state(run)).status == "completed"


async def test_g5_nothing_happens_before_the_decision_however_long_it_takes() -> None:
    done, tools = pay_and_look()
    llm = script(asks(pay()), says("ok"))
    async with Stage(llm, tools) as stage:
        run = await stage.begin()
        await stage.advance(300.0)
        assert (done, llm.call_count) == ([], 1)
        assert [row.status for row in await stage.decisions(run)] == ["pending"]
        await stage.approve(run)
        assert (done, llm.call_count) == (["pay 1"], 2)
        assert [row.status for row in await stage.decisions(run)] == ["released"]


async def test_g5_of_two_gated_siblings_one_must_be_named_and_only_that_one_goes() -> None:
    done, tools = pay_and_look()
    llm = script(asks(pay(1), pay(2)), says("ok"))
    async with Stage(llm, tools) as stage:
        run = await stage.begin()
        for attempt in (stage.runtime.approve(run, "ann"), stage.runtime.deny(run, "ann", "no")):
            with pytest.raises(NotAwaiting, match=r"1 \(pay\), 2 \(pay\)"):
                await attempt
        await stage.approve(run, call=2)
        assert done == ["pay 2"]
        assert (await stage.state(run)).status == "awaiting_approval"
        assert llm.call_count == 1
        await stage.deny(run, "too much")
        assert done == ["pay 2"]
        assert results(llm.last_messages) == ["Error: approval denied: too much", '{"paid":2}']


async def test_g5_a_denial_reaches_the_model_with_its_reason_and_the_run_goes_on() -> None:
    done, tools = pay_and_look()
    llm = script(asks(pay(), look(2)), asks(look(3)), says("ok"))
    async with Stage(llm, tools) as stage:
        run = await stage.begin()
        await stage.deny(run, "not without a receipt", by="bob")
        denied = (await stage.of(run, ApprovalDenied))[0]
        assert (denied.approver, denied.reason) == ("bob", "not without a receipt")
        assert done == ["look 2", "look 3"]
        assert results(llm.last_messages)[0] == "Error: approval denied: not without a receipt"
        assert (await stage.state(run)).status == "completed"


async def test_g5_fifty_decide_at_once_and_one_wins() -> None:
    for winner in range(3):
        done, tools = pay_and_look()
        async with Stage(script(asks(pay()), says("ok")), tools) as stage:
            run = await stage.begin()

            async def decide(n: int, stage: Stage = stage, run: str = run, winner: int = winner) -> str:
                try:
                    if n % 2 == winner % 2:
                        await stage.runtime.approve(run, f"p{n}", call=1)
                    else:
                        await stage.runtime.deny(run, f"p{n}", "no", call=1)
                except AlreadyDecided as error:
                    return str(error)
                return f"won by p{n}"

            outcomes = await asyncio.gather(*(decide(n) for n in range(50)))
            await stage.settle()
            won = [outcome for outcome in outcomes if outcome.startswith("won")]
            assert len(won) == 1
            first = won[0].removeprefix("won ")
            assert all(first in outcome for outcome in outcomes)
            grants, denials = await stage.of(run, ApprovalGranted), await stage.of(run, ApprovalDenied)
            assert len(grants) + len(denials) == 1
            assert len(done) == len(grants)


async def test_g5_a_decision_about_other_arguments_does_nothing() -> None:
    done, tools = pay_and_look()
    async with Stage(script(asks(pay()), says("ok")), tools) as stage:
        run = await stage.begin()
        digest = (await stage.decisions(run))[0].digest
        before = await stage.events(run)
        for wrong in ("0" * 64, digest[:-1]):
            with pytest.raises(Conflict, match="look at it again"):
                await stage.approve(run, digest=wrong)
        assert (await stage.events(run), done) == (before, [])
        await stage.approve(run, digest=digest)
        assert done == ["pay 1"]


async def test_g5_an_approval_of_the_first_call_is_not_one_of_the_second() -> None:
    """A double click, or a stale page: the second call was never seen."""
    done, tools = pay_and_look()
    async with Stage(script(asks(pay(1)), asks(pay(2)), says("ok")), tools) as stage:
        run = await stage.begin()
        digest = (await stage.decisions(run))[0].digest
        await stage.approve(run, call=1, digest=digest)
        assert done == ["pay 1"]
        with pytest.raises(AlreadyDecided, match="ann"):
            await stage.approve(run, call=1, digest=digest)
        with pytest.raises(Conflict):
            await stage.approve(run, digest=digest)
        assert done == ["pay 1"]


async def test_nobody_decides_in_time_and_the_model_is_told() -> None:
    done, tools = pay_and_look()
    llm = script(asks(pay(), look(2)), says("ok"))
    async with Stage(llm, tools, approval_seconds=60.0) as stage:
        run = await stage.begin()
        await stage.advance(50)
        assert (await stage.state(run)).status == "awaiting_approval"
        await stage.advance(20)
        assert (await stage.state(run)).status == "completed"
        assert results(llm.last_messages)[0].startswith("Error: approval expired")
        assert [row.status for row in await stage.decisions(run)] == ["expired"]
        assert len(await stage.of(run, ApprovalExpired)) == 1
        with pytest.raises(AlreadyDecided):
            await stage.approve(run, call=1)
        assert done == ["look 2"]


async def test_a_decision_in_time_stops_the_expiry() -> None:
    done, tools = pay_and_look()
    async with Stage(script(asks(pay()), says("ok")), tools, approval_seconds=60.0) as stage:
        run = await stage.begin()
        await stage.advance(59)
        await stage.approve(run)
        await stage.advance(100)
        assert done == ["pay 1"]
        assert await stage.of(run, ApprovalExpired) == []


@pytest.mark.parametrize("hold_seconds", [0.0, 50.0])
@pytest.mark.parametrize("approve", [True, False])
async def test_a_decision_races_the_expiry_and_one_of_them_counts(approve: bool, hold_seconds: float) -> None:
    """The expiry is on its way to the run when the decision is recorded."""
    done, tools = pay_and_look()
    async with Stage(script(asks(pay(), look(2)), says("ok")), tools, approval_seconds=60.0) as stage:
        run = await stage.begin()
        await stage.kill()
        await stage.advance(59)
        if approve:
            await stage.approve(run, hold_seconds=hold_seconds)
        else:
            await stage.deny(run)
        row = (await stage.decisions(run))[0]
        due = ExpiryDue(row.run, row.id, row.call, row.digest)
        await stage.runtime.client.send(row.approvals, due)
        await stage.advance(5)
        await stage.add_node()
        await stage.advance(10)
        if approve and hold_seconds:
            # It waits for the hold, and takes messages meanwhile.
            await stage.runtime.tell(run, "still there?")
            await stage.settle()
            assert "MessageTold" in await stage.kinds(run)
            assert done == ["look 2"]
            await stage.advance(hold_seconds)
        assert (await stage.state(run)).status == "completed"
        assert done == (["look 2", "pay 1"] if approve else ["look 2"])
        assert await stage.of(run, ApprovalExpired) == []


async def test_the_run_refuses_an_expiry_of_what_was_decided() -> None:
    """The row is the arbiter, not the order of messages."""
    done, tools = pay_and_look()
    async with Stage(script(asks(pay()), says("ok")), tools, approval_seconds=60.0) as stage:
        run = await stage.begin()
        await stage.advance(50)
        await stage.kill()
        await stage.approve(run)
        await stage.advance(100)
        await stage.add_node()
        await stage.advance(100)
        assert (await stage.state(run)).status == "completed"
        assert done == ["pay 1"]


async def test_a_release_hold_delays_the_call() -> None:
    done, tools = pay_and_look()
    async with Stage(script(asks(pay()), says("ok")), tools) as stage:
        run = await stage.begin()
        decision = await stage.approve(run, hold_seconds=30.0)
        assert decision.status == "approved" and decision.release_at == pytest.approx(stage.port.wall() + 30)
        await stage.advance(29)
        assert (done, (await stage.state(run)).status) == ([], "awaiting_approval")
        with pytest.raises(AlreadyDecided, match="ann"):
            await stage.approve(run, by="bob")
        await stage.advance(2)
        assert (done, (await stage.state(run)).status) == (["pay 1"], "completed")


async def test_g5_a_decision_is_recorded_while_no_node_runs() -> None:
    done, tools = pay_and_look()
    async with Stage(script(asks(pay()), says("ok")), tools) as stage:
        run = await stage.begin()
        await stage.kill()
        await stage.approve(run)
        with pytest.raises(AlreadyDecided, match="ann"):
            await stage.deny(run, by="bob")
        assert done == []
        await stage.add_node()
        await stage.advance(5)
        assert (done, (await stage.state(run)).status) == (["pay 1"], "completed")


async def test_g5_what_changed_between_approval_and_dispatch_is_superseded() -> None:
    done, tools = pay_and_look()
    llm = script(asks(pay()), says("ok"))
    async with Stage(llm, tools) as stage:
        run = await stage.begin()
        await stage.kill()
        await stage.approve(run)

        @tool(name="pay", side_effect=True, requires_approval=True)
        async def pay_another_way(amount: int, idempotency_key: str) -> dict[str, Any]:
            """Pay, but ten times as much."""
            done.append(f"pay {10 * amount}")
            return {"paid": 10 * amount}

        await stage.add_node(stage.beside(llm, [pay_another_way, tools[1]]))
        await stage.advance(5)
        assert done == []
        assert results(llm.last_messages)[0].startswith("Error: superseded")
        assert (await stage.state(run)).status == "completed"


async def test_a_gate_s_own_words_are_kept_storable() -> None:
    """The predicate is the user's code, and speaks of what the model sent."""

    @tool(requires_approval=lambda a: f"for {a['name']}" + "x" * 9000)
    async def greet(name: str) -> str:
        """Greet."""
        return name

    async with Stage(script(asks(("greet", {"name": "a\x00b\ud800c"})), says("ok")), [greet]) as stage:
        run = await stage.begin()
        assert (await stage.decisions(run))[0].reason.startswith("for ab\ufffdc")
        await stage.approve(run)
        assert (await stage.state(run)).status == "completed"


async def test_a_very_long_reason_is_cut() -> None:
    _, tools = pay_and_look()
    llm = script(asks(pay()), says("ok"))
    async with Stage(llm, tools) as stage:
        run = await stage.begin()
        await stage.deny(run, "no\x00" + "é" * 300_000)
        assert (await stage.state(run)).status == "completed"
        assert len(results(llm.last_messages)[0]) < 11_000


async def test_decisions_for_calls_that_no_longer_wait_are_for_nobody() -> None:
    done, tools = pay_and_look()
    async with Stage(script(asks(pay(1)), asks(pay(2)), says("ok")), tools) as stage:
        run = await stage.begin()
        first = (await stage.decisions(run))[0]
        await stage.deny(run)
        before = await stage.events(run)
        for call in ("1", "2", "3", "x", "-1"):
            for digest in (first.digest, ""):
                release = Release(first.id, call, digest, "eve")
                await stage.runtime.client.send(first.run, release)
        await stage.settle()
        assert (await stage.events(run), done) == (before, [])
        assert await stage.store.peek(first.run) == [], "no message is stuck"


async def test_the_approval_actor_need_not_be_up_before_it_is_spoken_to() -> None:
    """On another node the tree may come up later than a run's first gate; neither message may get lost."""
    _, tools = pay_and_look()
    async with Stage(script(asks(pay()), says("ok")), tools, nodes=0, approval_seconds=60.0) as stage:
        for message in (ExpiryWanted("d", "1", "x", 1.0), Decided("d", "/agents/run:x", "1", "x", "denied", "ann")):
            assert Approvals.handlers[type(message)].creates
        await stage.runtime.client.send("/agents/approvals", ExpiryWanted("d", "1", "x", 1.0))
        await stage.add_node()
        run = await stage.begin()
        await stage.advance(61)
        assert [row.status for row in await stage.decisions(run)] == ["expired"]
        stage.checked = False  # the first message came from nobody


async def test_every_let_go_call_names_its_approval() -> None:
    _, tools = pay_and_look()
    async with Stage(script(asks(pay(), look(2)), says("ok")), tools) as stage:
        run = await stage.begin()
        await stage.approve(run, note="fine")
        row = (await stage.decisions(run))[0]
        granted = (await stage.of(run, ApprovalGranted))[0]
        requested = {event.tool: event for event in await stage.of(run, ToolCallRequested)}
        assert (granted.decision, granted.approver, granted.note) == (row.id, "ann", "fine")
        assert (requested["pay"].decision, requested["pay"].digest) == (row.id, row.digest)
        assert (requested["look"].decision, requested["look"].digest) == ("", "")
        assert await stage.of(run, ToolCallFailed) == []
        assert len(await stage.of(run, ToolCallCompleted)) == 2


async def test_a_predicate_that_raises_closes_the_gate() -> None:
    @tool(requires_approval=lambda a: 1 / 0)
    async def f(n: int) -> int:
        """F."""
        return n

    llm = script(asks(("f", {"n": 1})), says("ok"))
    async with Stage(llm, [f]) as stage:
        run = await stage.begin()
        assert "ZeroDivisionError" in (await stage.decisions(run))[0].reason
        await stage.approve(run)
        assert results(llm.last_messages) == ['{"result":1}']
