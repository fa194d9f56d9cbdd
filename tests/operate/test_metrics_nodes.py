"""What nodes count is what happened: each message once, time and money as they are spent."""

from typing import Any

import pytest

from callboard import Budget, tool
from callboard.actors.context import Context, WorkerContext
from callboard.actors.directives import Fatal
from callboard.actors.node import Node
from callboard.actors.spec import Child, Supervisor
from callboard.actors.testing import TestKit
from callboard.mailbox.message import Message
from callboard.service.metric_names import FAMILIES
from callboard.service.metrics import NodeMetrics
from tests.actors.world import SETTINGS, Answer, Call, Note, Probe, Tools, address_of, send_all, shards, tree
from tests.agent.stage import Stage, asks, says, script

pytestmark = pytest.mark.anyio


class Nodes:
    """Makes each node of a test count by itself."""

    def __init__(self) -> None:
        self.all: list[NodeMetrics] = []

    def add_up(self) -> dict[str, Any]:
        """What all of them have counted."""
        total: dict[str, Any] = {}
        for metrics in self.all:
            for key, value in metrics.drain().items():
                if isinstance(value, list):
                    total[key] = [a + b for a, b in zip(total.get(key, [0] * len(value)), value, strict=True)]
                else:
                    total[key] = total.get(key, 0) + value
        return total


@pytest.fixture
def counting(monkeypatch: pytest.MonkeyPatch) -> Nodes:
    """Every node that is made from now on counts, by its own clock."""
    nodes, plain = Nodes(), Node.__init__

    def make(self: Node, *args: Any, **options: Any) -> None:
        plain(self, *args, **options)
        metrics = NodeMetrics(self.port.monotonic)
        nodes.all.append(metrics)
        self.measures = metrics

    monkeypatch.setattr(Node, "__init__", make)
    return nodes


def count_of(histogram: list[float]) -> int:
    return int(sum(histogram[:-1]))


async def test_each_message_is_counted_once_by_its_outcome(counting: Nodes) -> None:
    def raise_twice(_: Probe, note: Note, ctx: Context) -> None:
        if note.text == "bad" and ctx.envelope.failures < 2:
            raise ValueError("not yet")

    async with TestKit(tree(raise_twice)) as kit:
        counting.add_up()  # the tree's own messages
        address = address_of(kit, kit.nodes[0])
        await send_all(kit, address, ["a", "b", "bad"])
        await kit.advance(minutes=1)
        found = counting.add_up()
        assert found["messages_total done"] == 3  # not five: two turns of one message were undone
        assert found["retries_total engine-test-probe"] == 2
        assert count_of(found["handler_seconds engine-test-probe"]) == 5  # time is spent whatever comes of it


async def test_a_call_is_timed_by_its_worker_and_a_dead_letter_is_an_outcome(counting: Nodes) -> None:
    async def slow(call: Call, ctx: WorkerContext) -> Message:
        if call.text == "bad":
            raise ValueError("never")
        await ctx.port.sleep(0.7)
        return Answer(call.text)

    def ask(_: Probe, note: Note, ctx: Context) -> None:
        ctx.send("/t/tools", Call(note.text))

    async with TestKit(tree(ask, Child(Tools, "tools", args=(slow,)))) as kit:
        counting.add_up()
        address = address_of(kit, kit.nodes[0])
        await send_all(kit, address, ["good"])
        await kit.advance(seconds=1)
        *buckets, total = counting.add_up()["handler_seconds engine-test-tools"]
        assert total == pytest.approx(0.7)
        edges = [*FAMILIES["handler_seconds"].buckets, float("inf")]
        assert [edge for edge, count in zip(edges, buckets, strict=True) if count] == [1.0]
        await send_all(kit, address, ["bad"])
        await kit.advance(minutes=5)
        assert counting.add_up()["messages_total dead"] == 1


async def test_g7_a_take_over_is_timed_until_all_that_waits_there_was_read(counting: Nodes) -> None:
    async with TestKit(tree(), nodes=2, settings=SETTINGS) as kit:
        await kit.advance(seconds=2)
        first, second = kit.nodes
        assert [shards(kit, node) for node in kit.nodes] == [128, 128]
        assert "recovery_seconds" not in counting.add_up()
        await kit.crash(first)
        assert shards(kit, second) == 256
        found = counting.add_up()["recovery_seconds"]
        assert count_of(found) == 1 and found[-1] == 0.0  # by hand-driven time nothing takes any


async def test_an_echo_tells_the_lag_of_wake_ups_and_a_deaf_node_shows_a_growing_one(counting: Nodes) -> None:
    async with TestKit(tree(), nodes=2, settings=SETTINGS) as kit:
        await kit.advance(seconds=6)
        assert all(metrics.drain()["listener_lag_seconds"] == 0.0 for metrics in counting.all)
        life = kit.nodes[0].life
        assert life is not None and life.echo.lag_seconds() == 0.0
        kit.store.wake_node = lambda *_: None  # type: ignore[method-assign]
        await kit.advance(seconds=20)
        assert 10.0 < life.echo.lag_seconds() <= 20.0
        assert counting.all[0].drain()["listener_lag_seconds"] >= 10.0


async def test_runs_tell_models_tools_decisions_and_budgets(counting: Nodes) -> None:
    @tool
    async def look(word: str) -> dict[str, Any]:
        """Look."""
        return {"seen": word}

    @tool(requires_approval=True)
    async def pay(amount: int) -> dict[str, Any]:
        """Pay."""
        return {"paid": amount}

    llm = script(
        asks(("look", {"word": "a"}), ("pay", {"amount": 1}), ("invented-by-the-model", {}), input_tokens=100),
        says("done", input_tokens=20, output_tokens=7, cost_usd="0.25"),
    )
    llm.model = "gpt-test"  # type: ignore[attr-defined]
    async with Stage(llm, [look, pay], budget=Budget(max_iterations=4)) as stage:
        first, second = await stage.begin(), await stage.begin()
        await stage.approve(first)
        await stage.deny(second)
        found = counting.add_up()
    assert found["model_calls_total gpt-test"] == 4
    assert found["model_tokens_total gpt-test input"] == 240
    assert found["model_tokens_total gpt-test output"] == 14
    assert found["model_cost_usd_total gpt-test"] == pytest.approx(0.5)
    assert found["tool_calls_total look answered"] == 2
    assert found["tool_calls_total pay answered"] == 1
    assert not [key for key in found if "invented" in key]
    assert found["approval_decisions_total approved"] == found["approval_decisions_total denied"] == 1
    ratio = found["budget_spent_ratio"]
    assert count_of(ratio) == 2 and ratio[-1] == pytest.approx(1.0)  # twice two of four iterations


async def test_a_decision_counts_when_it_takes_effect_also_when_time_or_second_thoughts_made_it(
    counting: Nodes,
) -> None:
    @tool(requires_approval=True)
    async def pay(amount: int) -> dict[str, Any]:
        """Pay."""
        return {"paid": amount}

    def decided() -> dict[str, float]:
        name = "approval_decisions_total "
        return {k.removeprefix(name): v for k, v in counting.add_up().items() if k.startswith(name)}

    async with Stage(script(asks(("pay", {"amount": 1})), says("done")), [pay], approval_seconds=100.0) as stage:
        run = await stage.begin()
        await stage.approve(run, hold_seconds=50.0)
        assert decided() == {}  # it can still be taken back
        await stage.runtime.take_back(run, "bob")
        await stage.settle()
        assert decided() == {"taken_back": 1}
        await stage.runtime.edit(run, "bob", {"amount": 2})
        await stage.settle()
        assert decided() == {"edited": 1}
        await stage.advance(200.0)
        assert decided() == {"expired": 1}


async def test_a_restart_and_an_escalation_are_counted(counting: Nodes) -> None:
    def fatal(_: Probe, note: Note, ctx: Context) -> None:
        if note.text == "bad":
            raise Fatal("broken")

    top = Supervisor("t", (Child(Probe, "p", args=(fatal,)),), max_restarts=2, within=600.0)
    async with TestKit(top) as kit:
        for times in (1, 2):
            await kit.send("/t/p", Note("bad"))
            await kit.advance(seconds=5)
            assert counting.add_up()["restarts_total engine-test-probe"] == 1, times
        await kit.send("/t/p", Note("bad"))
        await kit.advance(seconds=5)
        found = counting.add_up()
        assert found["escalations_total"] == 1
        assert "restarts_total engine-test-probe" not in found
