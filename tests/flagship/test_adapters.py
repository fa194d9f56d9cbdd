"""The kill tests again, for loops that are not Callboard's: killed anywhere, they go on where they were."""

import signal

import pytest

from callboard.actors.agent.events import ToolCallCompleted

from .conftest import Desk

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(900)]

FINISHED = {"status": "completed", "answer": "done after 1 answers"}
ANSWERS = (
    '{"refund":"RF-B","amount":6400} {"order_id":"B-1","status":"delivered"} {"order_id":"B-2","status":"delivered"}'
)


async def killed_mid_approval(desk: Desk, host: str) -> None:
    """Dies while it waits; another process approves; a third goes on."""
    first = await desk.serve(HOST=host)
    await desk.end(desk.spawn("create", "refund", "A-8891", HOST=host))
    await desk.until("select 1 from callboard.decision where status = 'pending'")
    first.send_signal(signal.SIGKILL)
    await desk.end(first)
    assert await desk.rows("select * from refund") == []

    assert await desk.end(desk.spawn("approve", "A-8891", HOST=host)) == 0
    assert await desk.rows("select * from refund") == []
    assert await desk.output("resume", "A-8891", HOST=host) == FINISHED, desk.logs()
    await one_refund(desk, "A-8891")
    assert await desk.rows("select what, count(*) from model_call group by what order by what") == [
        ("refund A-8891 #0", 1),
        ("refund A-8891 #1", 1),
    ]


async def killed_mid_tool(desk: Desk, host: str) -> None:
    """Dies between the refund's effect and its record."""
    first = await desk.serve(HOST=host, KILL_AFTER_EFFECT="1")
    await desk.end(desk.spawn("create", "refund", "T", HOST=host))
    await desk.until("select 1 from callboard.decision where status = 'pending'")
    assert await desk.end(desk.spawn("approve", "T", HOST=host)) == 0
    assert await desk.end(first) == -signal.SIGKILL
    assert len(await desk.rows("select * from refund")) == 1

    assert await desk.output("resume", "T", HOST=host) == FINISHED, desk.logs()
    await one_refund(desk, "T", attempts=2)
    assert len(await desk.rows("select * from model_call")) == 2, "what the model said was on record"


async def killed_mid_model_call(desk: Desk, host: str) -> None:
    """Dies in the model call that has the refund's result before it: that one is made again, and nothing else."""
    first = await desk.serve(HOST=host, KILL_IN_MODEL="#1")
    await desk.end(desk.spawn("create", "refund", "M", HOST=host))
    await desk.until("select 1 from callboard.decision where status = 'pending'")
    assert await desk.end(desk.spawn("approve", "M", HOST=host)) == 0
    assert await desk.end(first) == -signal.SIGKILL

    assert await desk.output("resume", "M", HOST=host) == FINISHED, desk.logs()
    await one_refund(desk, "M")
    assert await desk.rows("select what, count(*) from model_call group by what order by what") == [
        ("refund M #0", 1),
        ("refund M #1", 2),
    ]


async def gated_call_first(desk: Desk, host: str) -> None:
    """A batch whose first call waits: the others execute before anybody decides, and not again afterwards."""
    first = await desk.serve(HOST=host)
    await desk.end(desk.spawn("create", "batch", "B", HOST=host))
    await desk.until("select 1 from callboard.decision where status = 'pending'")
    await desk.until("select 1 where (select count(*) from effect) = 2")
    await desk.until("select 1 where (select count(*) from callboard.journal where type = 'tool.completed') = 2")
    assert await desk.rows("select * from refund") == []
    pending = (await desk.runs.snapshot("B")).pending
    assert pending is not None and len(pending.executed_sibling_results) == 2
    first.send_signal(signal.SIGKILL)
    await desk.end(first)

    assert await desk.end(desk.spawn("approve", "B", HOST=host)) == 0
    assert await desk.output("resume", "B", HOST=host) == {"status": "completed", "answer": ANSWERS}, desk.logs()
    await one_refund(desk, "B")
    assert await desk.rows("select what, count(*) from effect group by what order by what") == [("B-1", 1), ("B-2", 1)]


async def one_refund(desk: Desk, run: str, *, attempts: int = 1) -> None:
    """Exactly one effect, under one key, and a journal that says so."""
    assert len(await desk.rows("select * from refund")) == 1
    tried = await desk.rows("select count(*), count(distinct key) from attempt")
    assert tried == [(attempts, 1)]
    events = [recorded.event for recorded in await desk.runs.events(run)]
    outcomes = [event for event in events if isinstance(event, ToolCallCompleted)]
    assert len([event for event in outcomes if event.tool == "issue_refund"]) == 1
    verification = await desk.runs.verify(run)
    assert verification.ok, verification.differences


async def test_flagship_native_killed_mid_model_call(desk: Desk) -> None:
    await killed_mid_model_call(desk, "native")


async def test_flagship_native_killed_mid_tool_after_the_approval(desk: Desk) -> None:
    await killed_mid_tool(desk, "native")


async def test_flagship_native_af09_gated_call_first(desk: Desk) -> None:
    await gated_call_first(desk, "native")


async def test_flagship_vanilla_af13_killed_mid_approval(desk: Desk) -> None:
    await killed_mid_approval(desk, "loop")


async def test_flagship_vanilla_killed_mid_tool(desk: Desk) -> None:
    await killed_mid_tool(desk, "loop")


async def test_flagship_vanilla_killed_mid_model_call(desk: Desk) -> None:
    await killed_mid_model_call(desk, "loop")


async def test_flagship_vanilla_af09_gated_call_first(desk: Desk) -> None:
    await gated_call_first(desk, "loop")


async def test_flagship_langgraph_af13_killed_mid_approval(desk: Desk) -> None:
    await killed_mid_approval(desk, "graph")


async def test_flagship_langgraph_killed_mid_tool(desk: Desk) -> None:
    await killed_mid_tool(desk, "graph")


async def test_flagship_langgraph_killed_mid_model_call(desk: Desk) -> None:
    await killed_mid_model_call(desk, "graph")


async def test_flagship_langgraph_af09_gated_call_first(desk: Desk) -> None:
    await gated_call_first(desk, "graph")
