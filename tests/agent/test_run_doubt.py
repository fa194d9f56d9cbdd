"""Calls whose outcome nobody knows: never blindly repeated; reconciled, or a person says what happened (G4)."""

from typing import Any

import anyio
import pytest

from callboard import tool
from callboard.actors.agent.events import ToolCallCompleted, ToolCallInDoubt, ToolCallSettled

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
        waits = (await stage.state(run)).pending_approval
        assert waits is not None and waits.status == "in_doubt" and "superseded" in waits.reason
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


async def test_g4_a_call_in_doubt_whose_tool_is_gone_is_in_doubt_still() -> None:
    bank = Bank()
    llm = pays()
    async with Stage(llm, [bank.without_key()]) as stage:
        run = await stage.begin()
        await stage.kill()
        await stage.add_node(stage.beside(llm))
        await stage.advance(5)
        waits = (await stage.state(run)).pending_approval
        assert waits is not None and "unknown tool" in waits.reason
        await stage.approve(run)
        assert ((await stage.state(run)).status, bank.paid) == ("completed", [5])


async def test_each_doubt_about_a_call_is_a_question_of_its_own() -> None:
    """Also where plain failures lie between them, which are counted anew for each attempt that was settled."""
    keys: set[str] = set()
    fates = iter(["hang", "fail", "hang", "fail", "hang", "pay"])

    @tool(side_effect=True, timeout=1.0, on_doubt="park")
    async def pay(amount: int, idempotency_key: str) -> int:
        """Pay."""
        keys.add(idempotency_key)
        match next(fates):
            case "hang":
                await anyio.sleep_forever()
            case "fail":
                raise ConnectionError("no route")
        return amount

    async with Stage(pays(), [pay]) as stage:
        run = await stage.begin()
        for doubt in range(1, 4):
            await stage.advance(10)
            assert len(await stage.of(run, ToolCallInDoubt)) == doubt
            await stage.deny(run)
        await stage.advance(10)
        assert len({row.id for row in await stage.decisions(run)}) == 3
        assert (len(keys), (await stage.state(run)).status) == (1, "completed")
