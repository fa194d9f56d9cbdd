"""One tool call: made once where a second time could do harm, and in doubt rather than repeated (G4)."""

import asyncio
from collections.abc import Callable
from typing import Any

import anyio
import pytest

from callboard import Fatal, Park, Reject, Runtime, Transient, tool
from callboard.actors.agent.events import (
    ToolCallCompleted,
    ToolCallFailed,
    ToolCallInDoubt,
    ToolCallSettled,
)
from callboard.actors.agent.tool_worker import ToolboxError, toolbox
from callboard.persistence.memory import MemoryStore

from .stage import Stage, asks, results, says, script

pytestmark = pytest.mark.anyio


class Bank:
    """A payment that can hang, and what it did."""

    def __init__(self, *, hang: int = 1) -> None:
        self.paid: list[int] = []
        self.attempts = 0
        self.hangs = hang
        """How many attempts hang after they have paid."""

    async def pay(self, amount: int) -> dict[str, int]:
        self.attempts += 1
        self.paid.append(amount)
        if self.attempts <= self.hangs:
            await anyio.sleep_forever()
        return {"paid": amount}

    def without_key(self, **options: Any) -> Any:
        @tool(name="pay", side_effect=True, **options)
        async def pay(amount: int) -> dict[str, int]:
            """Pay."""
            return await self.pay(amount)

        return pay

    def with_key(self, **options: Any) -> Any:
        keys: dict[str, int] = {}

        @tool(name="pay", side_effect=True, **options)
        async def pay(amount: int, idempotency_key: str) -> dict[str, int]:
            """Pay."""
            if idempotency_key in keys:
                self.attempts += 1
                return {"paid": amount}
            keys[idempotency_key] = amount
            return await self.pay(amount)

        return pay


def pays() -> Any:
    return script(asks(("pay", {"amount": 5})), says("ok"))


async def crashed(stage: Stage) -> str:
    """A run whose call was under way when its node was killed, taken over by another node."""
    run = await stage.begin()
    await stage.kill()
    await stage.add_node()
    await stage.advance(5)
    return run


async def test_g4_a_side_effect_without_key_that_a_crash_cut_off_is_in_doubt_and_not_repeated() -> None:
    bank = Bank()
    async with Stage(pays(), [bank.without_key()]) as stage:
        run = await crashed(stage)
        await stage.advance(60)
        assert bank.paid == [5]
        state = await stage.state(run)
        assert state.status == "awaiting_approval"
        waits = state.pending_approval
        assert waits is not None and waits.status == "in_doubt" and "did pay happen" in waits.reason
        row = (await stage.decisions(run))[0]
        assert (row.kind, row.status, row.tool, row.arguments) == ("in-doubt", "pending", "pay", '{"amount":5}')


async def test_g4_it_happened_says_a_person() -> None:
    bank = Bank()
    llm = pays()
    async with Stage(llm, [bank.without_key()]) as stage:
        run = await crashed(stage)
        await stage.approve(run, note="seen on the statement")
        assert (bank.paid, (await stage.state(run)).status) == ([5], "completed")
        assert "did happen" in results(llm.last_messages)[0]
        assert "seen on the statement" in results(llm.last_messages)[0]
        settled = (await stage.of(run, ToolCallSettled))[0]
        assert (settled.happened, settled.by) == (True, "ann")
        assert [row.status for row in await stage.decisions(run)] == ["released"]


async def test_g4_it_did_not_happen_says_a_person_and_it_is_made_again() -> None:
    bank = Bank()
    llm = pays()
    async with Stage(llm, [bank.without_key()]) as stage:
        run = await crashed(stage)
        bank.paid.clear()
        await stage.deny(run)
        assert (bank.paid, (await stage.state(run)).status) == ([5], "completed")
        assert results(llm.last_messages) == ['{"paid":5}']
        assert (await stage.of(run, ToolCallCompleted))[0].recovered is False


async def test_g4_a_call_may_come_into_doubt_again_and_again() -> None:
    bank = Bank(hang=3)
    async with Stage(pays(), [bank.without_key()]) as stage:
        run = await crashed(stage)
        for _ in range(2):
            await stage.deny(run)
            await stage.kill()
            await stage.add_node()
            await stage.advance(5)
        assert len(await stage.of(run, ToolCallInDoubt)) == 3
        await stage.deny(run)
        assert (len(bank.paid), (await stage.state(run)).status) == (4, "completed")
        assert [row.status for row in await stage.decisions(run)] == ["denied"] * 3


async def test_g5_a_call_made_again_after_a_doubt_must_still_be_what_was_approved() -> None:
    bank = Bank()
    llm = pays()
    async with Stage(llm, [bank.without_key(requires_approval=True)]) as stage:
        run = await stage.begin()
        await stage.approve(run)
        await stage.kill()

        @tool(name="pay", side_effect=True, requires_approval=True)
        async def another(amount: int) -> dict[str, int]:
            """Pay ten times."""
            bank.paid.append(10 * amount)
            return {}

        await stage.add_node(stage.beside(llm, [another]))
        await stage.advance(5)
        state = await stage.state(run)
        assert state.pending_approval is None or state.pending_approval.status == "in_doubt"
        if state.pending_approval is not None:
            await stage.deny(run)
        assert bank.paid == [5]
        assert results(llm.last_messages)[0].startswith("Error: superseded")


async def test_g4_with_a_key_it_is_repeated_and_the_provider_knows_it() -> None:
    bank = Bank()
    async with Stage(pays(), [bank.with_key()]) as stage:
        run = await crashed(stage)
        assert (bank.paid, bank.attempts) == ([5], 2)
        completed = (await stage.of(run, ToolCallCompleted))[0]
        assert completed.recovered is True
        assert (await stage.state(run)).status == "completed"


async def test_g4_reconcile_is_asked_first_and_its_word_counts() -> None:
    for word in ({"paid": 5, "found": True}, None):
        bank = Bank()
        llm = pays()
        asked: list[Any] = []

        async def found(amount: int, asked: list[Any] = asked, word: Any = word) -> Any:
            asked.append(amount)
            return word

        async with Stage(llm, [bank.without_key(reconcile=found)]) as stage:
            run = await crashed(stage)
            assert (asked, (await stage.state(run)).status) == ([5], "completed")
            assert bank.paid == ([5] if word else [5, 5])
            assert ("found" in results(llm.last_messages)[0]) is bool(word)


@pytest.mark.parametrize("cut_off_by", ["crash", "timeout"])
@pytest.mark.parametrize("fault", ["raises", "hangs", "exits"])
async def test_g4_without_reconcile_s_word_a_person_decides(fault: str, cut_off_by: str) -> None:
    async def found(amount: int) -> Any:
        if fault == "hangs":
            await anyio.sleep_forever()
        if fault == "exits":
            raise SystemExit(2)
        raise ConnectionError("the bank is closed")

    bank = Bank()
    timeout = None if cut_off_by == "crash" else 2.0
    async with Stage(pays(), [bank.without_key(reconcile=found, timeout=timeout)]) as stage:
        run = await (crashed(stage) if cut_off_by == "crash" else stage.begin())
        await stage.advance(100)
        assert bank.paid == [5]
        waits = (await stage.state(run)).pending_approval
        assert waits is not None and waits.status == "in_doubt" and "reconcile failed" in waits.reason
        await stage.approve(run)
        assert (await stage.state(run)).status == "completed"


async def test_g4_a_side_effect_without_key_that_times_out_is_in_doubt() -> None:
    bank = Bank()
    async with Stage(pays(), [bank.without_key(timeout_seconds=2.0)]) as stage:
        run = await stage.begin()
        await stage.advance(1.9)
        assert (await stage.state(run)).status == "running"
        await stage.advance(60)
        waits = (await stage.state(run)).pending_approval
        assert waits is not None and "timed out after 2 s" in waits.reason
        assert bank.paid == [5]
        await stage.approve(run)
        assert (await stage.state(run)).status == "completed"


async def test_g4_a_tool_that_cleans_up_when_it_is_cut_off_is_in_doubt_all_the_same() -> None:
    paid: list[int] = []

    @tool(side_effect=True, timeout=2.0)
    async def pay(amount: int) -> int:
        """Pay."""
        paid.append(amount)
        try:
            await anyio.sleep_forever()
        finally:
            raise ValueError("closed in a hurry")

    async with Stage(pays(), [pay]) as stage:
        run = await stage.begin()
        await stage.advance(60)
        waits = (await stage.state(run)).pending_approval
        assert waits is not None and waits.status == "in_doubt"
        assert paid == [5]
        stage.checked = True


async def test_g4_a_tool_whose_own_request_got_no_answer_is_in_doubt() -> None:
    paid: list[int] = []

    @tool(side_effect=True)
    async def pay(amount: int) -> int:
        """Pay."""
        paid.append(amount)
        raise TimeoutError("the bank did not answer")

    async with Stage(pays(), [pay]) as stage:
        run = await stage.begin()
        await stage.advance(60)
        waits = (await stage.state(run)).pending_approval
        assert waits is not None and "the bank did not answer" in waits.reason
        assert paid == [5]


async def test_g4_one_that_asks_to_be_parked_is_not_repeated_for_its_key_s_sake() -> None:
    bank = Bank()
    async with Stage(pays(), [bank.with_key(on_doubt="park", timeout=1.0)]) as stage:
        run = await stage.begin()
        await stage.advance(60)
        assert (bank.paid, bank.attempts) == ([5], 1)
        assert (await stage.state(run)).status == "awaiting_approval"


async def test_a_timeout_of_a_harmless_tool_is_tried_again_and_then_told() -> None:
    begun: list[int] = []

    @tool(timeout=2.0)
    async def look(n: int) -> int:
        """Look."""
        begun.append(n)
        await anyio.sleep_forever()
        return n

    llm = script(asks(("look", {"n": 1})), says("ok"))
    async with Stage(llm, [look]) as stage:
        run = await stage.begin()
        await stage.advance(60)
        assert len(begun) == 3
        assert results(llm.last_messages) == ["Error: timed out after 2 s"]
        assert [e.final for e in await stage.of(run, ToolCallFailed)] == [False, False, True]


async def test_an_error_of_a_side_effect_without_key_is_told_and_not_repeated() -> None:
    made: list[int] = []

    @tool(side_effect=True)
    async def pay(amount: int) -> int:
        """Pay."""
        made.append(amount)
        raise ValueError("no such account")

    llm = pays()
    async with Stage(llm, [pay]) as stage:
        run = await stage.begin()
        await stage.advance(60)
        assert (made, (await stage.state(run)).status) == ([5], "completed")
        assert results(llm.last_messages) == ["Error: ValueError: no such account"]


@pytest.mark.parametrize("kind", [Reject, Park, Fatal])
async def test_a_tool_that_says_it_is_hopeless_is_not_tried_again(kind: Callable[[str], Exception]) -> None:
    made: list[int] = []

    @tool
    async def look(n: int) -> int:
        """Look."""
        made.append(n)
        raise kind("closed for good")

    llm = script(asks(("look", {"n": 1})), says("ok"))
    async with Stage(llm, [look]) as stage:
        run = await stage.begin()
        await stage.advance(60)
        assert (made, (await stage.state(run)).status) == ([1], "completed")
        assert "closed for good" in results(llm.last_messages)[0]


async def test_a_tool_may_say_when_to_try_again() -> None:
    made: list[int] = []

    @tool(attempts=2)
    async def look(n: int) -> int:
        """Look."""
        made.append(n)
        try:
            raise Park("inside")
        except Park as error:
            raise Transient("busy", after_seconds=40.0) from error

    llm = script(asks(("look", {"n": 1})), says("ok"))
    async with Stage(llm, [look]) as stage:
        await stage.begin()
        await stage.advance(39)
        assert made == [1]
        await stage.advance(2)
        assert made == [1, 1]
        assert "busy" in results(llm.last_messages)[0]


async def test_a_retry_of_a_tool_survives_a_crash_with_its_count() -> None:
    keys: list[str] = []

    @tool(side_effect=True)
    async def pay(amount: int, idempotency_key: str) -> int:
        """Pay."""
        keys.append(idempotency_key)
        raise ConnectionError("no route")

    llm = pays()
    async with Stage(llm, [pay], retry_base_delay_seconds=10.0) as stage:
        run = await stage.begin()
        await stage.kill()
        await stage.add_node()
        await stage.advance(100)
        assert (len(keys), len(set(keys))) == (3, 1)
        failed = await stage.of(run, ToolCallFailed)
        assert [(event.attempt, event.final) for event in failed] == [(1, False), (2, False), (3, True)]


async def test_g8_a_crash_spends_no_attempt() -> None:
    bank = Bank(hang=4)

    @tool(attempts=1)
    async def look(n: int) -> int:
        """Look."""
        await bank.pay(n)
        return n

    async with Stage(script(asks(("look", {"n": 1})), says("ok")), [look]) as stage:
        run = await stage.begin()
        for _ in range(4):
            await stage.kill()
            await stage.add_node()
            await stage.advance(5)
        assert (bank.attempts, (await stage.state(run)).status) == (5, "completed")
        assert await stage.of(run, ToolCallFailed) == []


async def test_a_tool_that_was_removed_is_an_error_for_the_model() -> None:
    llm = script(asks(("act", {})), says("ok"))

    @tool(requires_approval=True)
    async def act() -> str:
        """Act."""
        return "done"

    async with Stage(llm, [act]) as stage:
        run = await stage.begin()
        await stage.kill()
        await stage.approve(run)
        await stage.add_node(stage.beside(llm))
        await stage.advance(5)
        assert (await stage.state(run)).status == "completed"
        assert results(llm.last_messages) == ["Error: unknown tool: act"]


async def test_arguments_reach_a_tool_as_its_types() -> None:
    got: list[Any] = []

    @tool
    async def look(n: int, names: list[str]) -> str:
        """Look."""
        got.append((n, names))
        return "ok"

    async with Stage(script(asks(("look", {"n": "5", "names": ["a"]})), says("ok")), [look]) as stage:
        await stage.begin()
    assert got == [(5, ["a"])]


async def test_g7_a_tool_slower_than_the_lease_runs_once_beside_another_node() -> None:
    begun: list[int] = []
    finish = anyio.Event()

    @tool(side_effect=True)
    async def pay(amount: int) -> int:
        """Pay."""
        begun.append(amount)
        await finish.wait()
        return amount

    async with Stage(pays(), [pay], nodes=2) as stage:
        run = await stage.begin()
        await stage.advance(30)
        assert begun == [5]
        finish.set()
        await stage.settle()
        assert ((await stage.state(run)).status, begun) == ("completed", [5])


async def test_a_sync_tool_that_times_out_is_not_waited_for() -> None:
    release = asyncio.Event()
    loop = asyncio.get_running_loop()

    @tool(timeout=0.05, attempts=1)
    def slow() -> str:
        """Wait in a thread."""
        asyncio.run_coroutine_threadsafe(release.wait(), loop).result()
        return "late"

    llm = script(asks(("slow", {})), says("ok"))
    async with Runtime(MemoryStore(), llm, [slow]) as runtime:
        run = await runtime.start("go")
        release.set()
    assert run.state.status == "completed"
    assert results(llm.last_messages) == ["Error: timed out after 0.05 s"]


def test_a_toolbox_takes_tools_only() -> None:
    with pytest.raises(ToolboxError, match="put @tool on the function"):
        toolbox([test_a_toolbox_takes_tools_only])  # type: ignore[list-item]
