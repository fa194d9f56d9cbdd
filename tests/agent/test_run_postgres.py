"""Runs on PostgreSQL: what the memory store cannot show, since there everything is a value in a dict."""

from typing import Any

import anyio
import msgspec
import pytest

from callboard import AgentSpec, LLMResponse, NeedsApproval, NodeSettings, PostgresStore, Runtime, create_schema, tool
from callboard.actors.agent.events import ToolCallCompleted
from callboard.actors.llm.client import ToolCall
from callboard.mailbox.errors import AlreadyDecided

from .stage import asks, results, says, script, verified

pytestmark = pytest.mark.anyio


async def runtime(dsn: str, llm: Any, tools: Any, **options: Any) -> Runtime:
    await create_schema(dsn)
    return Runtime(PostgresStore(dsn), llm, tools, settings=NodeSettings(drain_seconds=0.5), **options)


async def test_g5_approve_deny_cancel_and_expire(dsn: str) -> None:
    done: list[int] = []

    @tool(side_effect=True, requires_approval=True)
    async def pay(amount: int) -> int:
        """Pay."""
        done.append(amount)
        return amount

    llm = script(asks(("pay", {"amount": 1}), ("pay", {"amount": 2})), says("ok"))
    async with await runtime(dsn, llm, [pay]) as desk:
        run = await desk.start("go")
        assert run.state.status == "awaiting_approval"
        await desk.approve(run.id, "ann", call=2)
        with pytest.raises(AlreadyDecided, match="ann"):
            await desk.deny(run.id, "bob", "no", call=2)
        assert (await desk.resume(run.id)).status == "awaiting_approval"
        await desk.deny(run.id, "ann", "no\x00\ud800")
        assert (await desk.resume(run.id)).status == "completed"
        assert (done, results(llm.last_messages)) == ([2], ["Error: approval denied: no\ufffd", '{"result":2}'])
        await verified(desk, run.id)

        second = await desk.start("again")
        await desk.approve(second.id, "ann", call=1, hold_seconds=60.0)
        await desk.cancel(second.id, by="ann", reason="wrong customer")
        assert (await desk.resume(second.id)).status == "cancelled"
        rows = await desk.store.decisions(run=desk.runs.address(second.id))
        assert [row.status for row in rows] == ["superseded"] * 2
        await verified(desk, second.id)
        assert done == [2]
        assert await desk.store.dead_letters() == []

    async with await runtime(dsn, llm, [pay], approval_seconds=0.3) as desk:
        third = await desk.start("once more")
        with anyio.fail_after(60):
            while not (await desk.state(third.id)).finished:
                await desk.port.sleep(0.05)
        assert [text.startswith("Error: approval expired") for text in results(llm.last_messages)] == [True, True]
        await verified(desk, third.id)


async def test_w05_whatever_is_said_can_be_stored(dsn: str) -> None:
    made: list[str] = []

    @tool(side_effect=True, requires_approval=lambda a: f"about {a['text']}")
    async def act(text: str) -> Any:
        """Act."""
        made.append(text)
        return {"\ud800": "\x00", "big": "x" * ((1 << 20) - 50)}

    call = ToolCall("\x00\ud800", "act", {"text": "a\x00\ud800"})
    llm = script(LLMResponse("\ud800\x00", [call, ToolCall("", "no\x00pe", {})]), says("\ud800\x00"))
    async with await runtime(dsn, llm, [act], system_prompt="\x00\ud800") as desk:
        run = await desk.start("go\x00\ud800", requested_by="\x00\ud800")
        assert run.state.status == "awaiting_approval"
        await desk.tell(run.id, "\x00\ud800", by="\x00\ud800")
        await desk.approve(run.id, "ann\x00", note="\x00\ud800")
        assert (await desk.resume(run.id)).final_answer == "\ufffd\x00"
        assert made == ["a\x00\ufffd"]
        assert sum(isinstance(event.event, ToolCallCompleted) for event in await desk.events(run.id)) == 1
        await verified(desk, run.id)


async def test_a_withdrawn_attempt_is_gone(dsn: str) -> None:
    calls: list[int] = []

    @tool
    async def look(n: int) -> int:
        """Look."""
        calls.append(n)
        raise ConnectionError("no route")

    llm = script(asks(("look", {"n": 1})))
    # So long that the cancel comes before the next attempt has failed as well: the one after that is withdrawn.
    async with await runtime(dsn, llm, [look], retry_base_delay_seconds=4.0) as desk:
        run = await desk.create("go")
        with anyio.fail_after(60):
            while not calls:
                await desk.port.sleep(0.01)
        await desk.cancel(run, reason="enough")
        state = await desk.resume(run, seconds=60)
        assert (state.status, state.failure_detail) == ("cancelled", "enough")
        assert await desk.store.peek(desk.runs.address(run)) == []
        await verified(desk, run)


async def test_two_pools_with_the_same_run_id_share_no_decision_and_no_key(dsn: str) -> None:
    keys: list[str] = []

    @tool(side_effect=True, requires_approval=True)
    async def pay(amount: int, idempotency_key: str) -> int:
        """Pay."""
        keys.append(idempotency_key)
        return amount

    llm = script(asks(("pay", {"amount": 1})), says("ok"))
    for name in ("agents", "others"):
        async with await runtime(dsn, llm, [pay], name=name) as desk:
            run = await desk.start("go", run_id="same")
            assert run.state.status == "awaiting_approval"
            await desk.approve("same", "ann")
            assert (await desk.resume("same")).status == "completed"
            await verified(desk, "same")
    assert len(set(keys)) == 2


async def test_g5_a_tool_asks_by_itself_two_agree_and_it_goes_once_under_its_key(dsn: str) -> None:
    calls: list[tuple[str, str]] = []

    @tool(side_effect=True)
    def pay(amount: int, idempotency_key: str, approval: str) -> int:
        """Pay."""
        calls.append((idempotency_key, approval))
        if not approval:
            raise NeedsApproval("much", risk="high", needed=2)
        return amount

    llm = script(asks(("pay", {"amount": 1})), says("ok"), asks(("pay", {"amount": 2})), says("ok"))
    async with await runtime(dsn, llm, [pay]) as desk:
        run = await desk.start("go", run_id="r")
        [row] = await desk.store.decisions(status="pending")
        assert (row.id, row.needed, row.risk, row.reason) == ("r.1", 2, "high", "much")
        await desk.approve("r", "ann")
        assert (await desk.resume("r")).status == "awaiting_approval" and len(calls) == 1
        await desk.approve("r", "bob")
        state = await desk.resume("r")
        assert (state.status, state.tool_calls) == ("completed", 1)
        assert calls == [(calls[0][0], ""), (calls[0][0], "r.1")]
        fork = await desk.fork(run.id, say="again")
        assert (await desk.resume(fork)).status == "awaiting_approval"
        await desk.cancel(fork, by="ann")
        assert (await desk.resume(fork)).status == "cancelled"
        for name in ("r", fork):
            await verified(desk, name)
        assert await desk.store.dead_letters() == [] and len(calls) == 3


class HowMany(msgspec.Struct):
    things: str
    at_least: int = 1


async def test_a_fork_and_a_child_run_on_postgres(dsn: str) -> None:
    child = script(asks(("look", {"n": 2})), says("42"))

    @tool
    async def look(n: int) -> int:
        """Look."""
        return n

    llm = script(asks(("expert", {"things": "ö"})), lambda m: says(m[-1].content), lambda m: says(m[-1].content))
    agents = [AgentSpec("expert", "Knows.", "", (look,), llm=child, request=HowMany)]
    async with await runtime(dsn, llm, [], agents=agents) as desk:
        run = await desk.start("go", run_id="o")
        assert run.state.final_answer == '{"answer":"42"}'
        assert (await desk.state("o.1")).goal == '{"at_least":1,"things":"ö"}'
        fork = await desk.fork("o", say="and now?")
        assert (await desk.resume(fork)).final_answer == "and now?"
        for name in ("o", "o.1", fork):
            await verified(desk, name)
        assert await desk.store.dead_letters() == []
