"""Runs that are killed, and go on elsewhere: nothing done is done again."""

import signal
import subprocess

import pytest

from callboard.actors.agent.events import ToolCallCompleted
from callboard.actors.node import NodeSettings

from .conftest import Desk

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(900)]


async def test_killed_mid_approval_another_process_approves_a_third_resumes_one_refund(desk: Desk) -> None:
    first = await desk.serve()
    await desk.end(desk.spawn("create", "refund", "A-8891"))
    await desk.until("select 1 from callboard.decision where status = 'pending'")
    first.send_signal(signal.SIGKILL)
    await desk.end(first)
    assert await desk.rows("select * from refund") == []

    assert await desk.end(desk.spawn("approve", "A-8891")) == 0
    assert await desk.rows("select * from refund") == [], "an approval is a record; nobody was there to act on it"
    assert (await desk.output("resume", "A-8891")) == {"status": "completed", "answer": "done after 1 answers"}

    assert len(await desk.rows("select * from refund")) == 1
    assert len(await desk.rows("select * from attempt")) == 1
    assert len(await desk.rows("select * from model_call")) == 2
    assert (await desk.runs.verify("A-8891")).ok


async def test_g4_killed_between_effect_and_record_one_ledger_row_and_the_journal_says_recovered(desk: Desk) -> None:
    first = await desk.serve(KILL_AFTER_EFFECT="1")
    await desk.end(desk.spawn("create", "three", "B"))
    assert await desk.end(first) == -signal.SIGKILL
    assert len(await desk.rows("select * from refund")) >= 1

    assert (await desk.output("resume", "B"))["status"] == "completed"
    refunds = await desk.rows("select what, count(*) from refund group by what order by what")
    assert refunds == [("B-1", 1), ("B-2", 1), ("B-3", 1)]
    events = [recorded.event for recorded in await desk.runs.events("B")]
    outcomes = [event for event in events if isinstance(event, ToolCallCompleted)]
    assert len(outcomes) == 3
    assert any(event.recovered for event in outcomes)
    attempts = dict(await desk.rows("select key, count(*) from attempt group by key"))
    assert len(attempts) == 3, "a repeated attempt has the same key"


EVENTS_OF_THREE = 11
"""RunStarted, 2 x (LLMCallRequested, LLMCallCompleted), 3 x (ToolCallRequested, ToolCallCompleted); RunCompleted."""


@pytest.mark.parametrize("number", range(1, EVENTS_OF_THREE + 2))
async def test_g4_killed_at_every_event_of_a_run_with_three_parallel_refunds(desk: Desk, number: int) -> None:
    first = desk.spawn("start", "three C", "C", KILL_AFTER_EVENT=str(number))
    assert await desk.end(first) == -signal.SIGKILL, desk.logs()
    state = await desk.output("resume", "C")
    assert state["status"] == "completed"

    assert await desk.rows("select what, count(*) from refund group by what order by what") == [
        ("C-1", 1),
        ("C-2", 1),
        ("C-3", 1),
    ]
    events = await desk.runs.events("C")
    assert len(events) == EVENTS_OF_THREE + 1
    assert [recorded.seq for recorded in events] == list(range(1, len(events) + 1))
    assert (await desk.runs.verify("C")).ok
    recorded_answers = await desk.rows("select what, count(*) from model_call group by what")
    assert {what for what, _ in recorded_answers} == {"three C #0", "three C #3"}
    assert sum(count for _, count in recorded_answers) <= 3, "only the call that was under way may be made again"


async def test_g7_take_over_after_kill_9_within_a_second_with_default_settings(desk: Desk) -> None:
    took: list[float] = []
    default = {"LEASE_SECONDS": f"{NodeSettings().lease_seconds}"}
    nodes = [await desk.serve(NODE_LABEL="0", **default)]
    # All but the first time are for a machine that had other things to do: without the lock each takes a lease.
    while not took or (took[-1] >= 1.0 and len(took) < 60):
        label = len(took)
        nodes.append(await desk.serve(NODE_LABEL=f"{label + 1}", **default))
        took.append(await take_over_seconds(desk, nodes.pop(0), f"{label}"))
    assert took[-1] < 1.0, took


async def take_over_seconds(desk: Desk, first: "subprocess.Popen[str]", label: str) -> float:
    """Kill the older of two nodes; how long it takes until its successor has everything.

    A machine that keeps the older one from beating for a lease has it taken over before, and it joins anew under
    another number: its label says which it has.
    """
    # The successor stands in line for the lock of the victim: from here on a death is seen when the kernel sees it.
    await desk.until(
        "select 1 from pg_locks w join pg_locks h using (locktype, database, classid, objid)"
        " join callboard.node n on n.number = h.objid::bigint"
        " where locktype = 'advisory' and not w.granted and h.granted and n.label = %s and n.status = 'up'"
        " and h.database = (select oid from pg_database where datname = current_database())"
        " and (select count(distinct node) from callboard.shard) = 2",
        label,
    )
    killed_at = (await desk.rows("select clock_timestamp()"))[0][0]
    first.send_signal(signal.SIGKILL)
    await desk.until("select 1 where not exists (select from callboard.node where label = %s and status = 'up')", label)
    [(ended_at,)] = await desk.rows("select max(ended_at) from callboard.node where label = %s", label)
    left = "select 1 from callboard.shard s join callboard.node n on n.number = s.node where n.label = %s"
    assert await desk.rows(left, label) == []
    if ended_at < killed_at:
        return float("inf")  # it was taken over for its silence, in the moment before it was killed
    return float((ended_at - killed_at).total_seconds())


async def test_g3_a_frozen_node_is_taken_over_and_commits_nothing_when_it_wakes(desk: Desk) -> None:
    lease = {"LEASE_SECONDS": "15"}  # both go on afterwards, and a call of one that is taken over is made again
    first, second = await desk.serve(**lease), await desk.serve(**lease)
    await desk.until("select 1 where (select count(distinct node) from callboard.shard) = 2")
    victim = (await desk.rows("select min(number) from callboard.node where status = 'up'"))[0][0]
    first.send_signal(signal.SIGSTOP)
    await desk.until("select 1 from callboard.node where number = %s and status = 'dead'", victim)
    await desk.end(desk.spawn("create", "ten", *[f"f{n}" for n in range(20)]))
    first.send_signal(signal.SIGCONT)
    done = "select 1 where (select count(*) from callboard.actor where kind = 'run' and status = 'completed') = 20"
    await desk.until(done)
    late = await desk.rows(
        "select 1 from callboard.turn t join callboard.node n on n.number = t.node"
        " where n.number = %s and n.status = 'dead' and t.at > n.ended_at",
        victim,
    )
    assert late == []
    counted = await desk.rows("select count(*), count(distinct what) from effect")
    assert counted == [(200, 200)]
    assert second.poll() is None
    assert first.poll() is None, "the node that woke joins anew, it does not die"
