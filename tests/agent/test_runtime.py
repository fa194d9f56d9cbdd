"""The runtime as its users meet it: a few lines, with and without `async with`, on the memory store."""

from decimal import Decimal
from typing import Any

import anyio
import pytest

from callboard import Budget, FunctionLLM, InMemoryStore, LLMResponse, NodeSettings, Runtime, ScriptedLLM, tool
from callboard.actors.agent.events import RunStarted
from callboard.actors.agent.runs import NotAwaiting, RunNotFound, RunStands
from callboard.actors.llm.client import ChatMessage
from callboard.actors.system import Pause, Resume
from callboard.mailbox.errors import AlreadyDecided, Conflict, UsageError
from callboard.mailbox.lane import Lane

from .stage import Stage, asks, says, script, verified

pytestmark = pytest.mark.anyio


class Desk:
    """A tool that remembers what it did."""

    def __init__(self) -> None:
        self.refunds: list[tuple[str, int]] = []

        @tool(side_effect=True, requires_approval=lambda a: a["amount"] > 5000)
        async def issue_refund(order_id: str, amount: int, idempotency_key: str) -> dict[str, Any]:
            """Refund an order. Needs approval above 5000."""
            self.refunds.append((order_id, amount))
            return {"refunded": amount}

        self.tools = [issue_refund]


def refund(amount: int) -> LLMResponse:
    return asks(("issue_refund", {"order_id": "A-8891", "amount": amount}))


async def test_the_example_of_the_readme_runs() -> None:
    desk = Desk()
    llm = ScriptedLLM([refund(100), says("Refunded.")])
    async with Runtime(store=InMemoryStore(), llm=llm, tools=desk.tools) as runtime:
        run = await runtime.start(goal="Refund order A-8891, item arrived damaged.")
        await verified(runtime, run.id)
    assert (run.state.status, run.state.final_answer) == ("completed", "Refunded.")
    assert desk.refunds == [("A-8891", 100)]
    assert llm.last_messages[0] == ChatMessage("user", "Refund order A-8891, item arrived damaged.")


async def test_without_async_with_each_call_is_a_node_for_its_run() -> None:
    desk = Desk()
    runtime = Runtime(InMemoryStore(), script(refund(9000), says("ok")), desk.tools)
    run = await runtime.start("go")
    assert run.state.status == "awaiting_approval"
    assert desk.refunds == []
    await runtime.approve(run.id, "ann")
    state = await runtime.resume(run.id)
    assert (state.status, state.final_answer, desk.refunds) == ("completed", "ok", [("A-8891", 9000)])
    await verified(runtime, run.id)


async def test_create_records_without_executing_and_resume_executes() -> None:
    llm = script(says("ok"))
    runtime = Runtime(InMemoryStore(), llm)
    run = await runtime.create("go", requested_by="mara")
    state = await runtime.get_state(run)
    assert (state.status, state.step, state.goal, state.requested_by) == ("running", 0, "go", "mara")
    assert llm.call_count == 0
    assert (await runtime.resume(run)).status == "completed"
    assert llm.call_count == 1


async def test_resume_is_idempotent_for_finished_and_parked_runs() -> None:
    desk = Desk()
    llm = script(refund(9000), says("ok"))
    runtime = Runtime(InMemoryStore(), llm, desk.tools)
    run = await runtime.start("go")
    before = await runtime.events(run.id)
    for _ in range(3):
        assert (await runtime.resume(run.id)).status == "awaiting_approval"
    assert await runtime.events(run.id) == before
    await runtime.approve(run.id, "ann")
    for _ in range(3):
        assert (await runtime.resume(run.id)).status == "completed"
    assert (llm.call_count, len(desk.refunds)) == (2, 1)


async def test_runs_by_their_own_name_are_created_once() -> None:
    llm = script(says("ok"))
    async with Runtime(InMemoryStore(), llm) as runtime:
        assert (await runtime.start("go", run_id="ticket-7")).id == "ticket-7"
        assert (await runtime.start("go", run_id="ticket-7")).state.status == "completed"
        with pytest.raises(Conflict):
            await runtime.create("something else", run_id="ticket-7")
    assert llm.call_count == 1


@pytest.mark.parametrize("within", [True, False])
async def test_an_unknown_run_is_not_started_and_cannot_be_worked_on(within: bool) -> None:
    runtime = Runtime(InMemoryStore(), script())

    async def look() -> None:
        assert (await runtime.state("nobody")).status == "not_started"
        for attempt in (
            runtime.resume("nobody"),
            runtime.approve("nobody", "ann"),
            runtime.deny("nobody", "ann", "no"),
            runtime.approve("nobody", "ann", call=1),
            runtime.tell("nobody", "hello"),
            runtime.cancel("nobody"),
            runtime.events("nobody"),
            runtime.snapshot("nobody"),
            runtime.verify("nobody"),
            runtime.runs.rest("nobody"),
        ):
            with pytest.raises(RunNotFound) as raised:
                await attempt
            assert isinstance(raised.value, ValueError)

    if within:
        async with runtime:
            await look()
    else:
        await look()


async def test_defaults_are_recorded_and_a_run_may_override_them() -> None:
    async with Stage(script(says("ok")), model="m", system_prompt="be kind", max_steps=7, max_llm_attempts=2) as stage:
        plain = (await stage.events(await stage.begin()))[0]
        own = (await stage.events(await stage.begin(system_prompt="", max_steps=3, max_cost_usd=Decimal(5))))[0]
        whole = (await stage.events(await stage.begin(budget=Budget(max_tokens=9), requested_by="x")))[0]
    assert isinstance(plain, RunStarted) and isinstance(own, RunStarted) and isinstance(whole, RunStarted)
    assert (plain.model, plain.system_prompt, plain.max_llm_attempts) == ("m", "be kind", 2)
    assert plain.system_prompt_hash.startswith("sha256:") and plain.system_prompt_hash != own.system_prompt_hash
    assert plain.budget == Budget(max_iterations=7, max_cost_usd=Decimal("1.00"), max_tokens=None)
    assert (own.system_prompt, own.budget.max_iterations, own.budget.max_cost_usd) == ("", 3, Decimal(5))
    assert whole.budget == Budget(max_tokens=9)
    assert whole.requested_by == "x"


async def test_the_system_prompt_reaches_the_model() -> None:
    llm = script(says("ok"))
    await Runtime(InMemoryStore(), llm, system_prompt="be kind").start("go")
    assert llm.last_system_prompt == "be kind"


def test_two_tools_of_one_name_are_refused() -> None:
    desk = Desk()
    with pytest.raises(ValueError, match=r"duplicate tool names: \['issue_refund'\]"):
        Runtime(InMemoryStore(), script(), [*desk.tools, *desk.tools])


@pytest.mark.parametrize(
    ("goal", "options"),
    [
        ("  ", {}),
        ("x" * (1 << 20), {}),
        ("go", {"system_prompt": "ä" * (1 << 20)}),
        ("go", {"max_steps": 0}),
        ("go", {"max_steps": -1}),
        ("go", {"budget": Budget(max_tokens=0)}),
        ("go", {"budget": Budget(max_duration_seconds=0)}),
        ("go", {"budget": Budget(max_duration_seconds=float("nan"))}),
        ("go", {"max_cost_usd": Decimal(-1)}),
        ("go", {"budget": Budget(max_tool_calls=-1)}),
    ],
)
async def test_a_run_that_could_never_succeed_is_refused(goal: str, options: dict[str, Any]) -> None:
    runtime = Runtime(InMemoryStore(), script(says("ok")))
    with pytest.raises(UsageError):
        await runtime.create(goal, **options)
    assert await runtime.runs.list() == []


async def test_what_the_user_raises_inside_comes_out_as_it_is() -> None:
    with pytest.raises(KeyError, match="mine"):
        async with Runtime(InMemoryStore(), script()):
            raise KeyError("mine")


async def test_a_timeout_of_a_guest_comes_out_as_it_is() -> None:
    async def forever(*_: object) -> LLMResponse:
        await anyio.sleep_forever()
        raise AssertionError

    runtime = Runtime(InMemoryStore(), FunctionLLM(forever), settings=NodeSettings(drain_seconds=0.01))
    run = await runtime.create("go")
    said = ""
    for seconds in (0.05, 1, 5, 25, 60):  # a busy machine may not have begun it within the first
        with pytest.raises(TimeoutError) as caught:
            await runtime.resume(run, seconds=seconds)
        if "it is running" in (said := str(caught.value)):
            return
    raise AssertionError(said)


async def test_a_paused_run_says_why_it_does_not_move() -> None:
    desk = Desk()
    async with Runtime(InMemoryStore(), script(refund(9000), says("ok")), desk.tools) as runtime:
        run = await runtime.start("go")
        address = runtime.runs.address(run.id)
        await runtime.client.send(address, Pause("mara", "looking"))
        with anyio.fail_after(60):
            while (row := await runtime.store.actor(address)) is None or row.status != "paused":
                await anyio.lowlevel.checkpoint()
        await runtime.approve(run.id, "ann")
        with pytest.raises(RunStands, match="paused by mara: looking"):
            await runtime.resume(run.id)


async def test_a_paused_run_that_was_told_to_go_on_is_waited_for() -> None:
    desk, store = Desk(), InMemoryStore()
    async with Runtime(store, script(refund(9000)), desk.tools) as runtime:
        run = await runtime.start("go")
        address = runtime.runs.address(run.id)
        await runtime.client.send(address, Pause("mara", "looking"))
        with anyio.fail_after(60):
            while (row := await store.actor(address)) is None or row.status != "paused":
                await anyio.lowlevel.checkpoint()
        await runtime.approve(run.id, "ann")
    await runtime.client.send(address, Resume("mara"), lane=Lane.SYSTEM)
    with pytest.raises(TimeoutError, match="did not rest"):  # no node has read it yet
        await runtime.runs.rest(run.id, seconds=0.1)
    async with Runtime(store, script(refund(9000), says("ok")), desk.tools) as another:
        assert (await another.resume(run.id, seconds=120)).status == "completed"


async def test_resume_acts_upon_what_was_decided_before_it_rests() -> None:
    desk = Desk()
    runtime = Runtime(InMemoryStore(), script(refund(9000), says("ok")), desk.tools)
    run = await runtime.start("go")
    await runtime.approve(run.id, "ann", hold_seconds=0.1)
    assert (await runtime.resume(run.id)).status == "completed"


async def test_deciding_what_is_not_awaited_is_refused_and_names_who_was_first() -> None:
    desk = Desk()
    async with Runtime(InMemoryStore(), script(refund(9000), says("ok")), desk.tools) as runtime:
        run = await runtime.start("go")
        await runtime.approve(run.id, "ann")
        with pytest.raises(AlreadyDecided, match="ann"):
            await runtime.deny(run.id, "bob", "no", call=1)
        await runtime.resume(run.id)
        with pytest.raises(AlreadyDecided, match="ann"):
            await runtime.deny(run.id, "bob", "no", call=1)
        for late in (runtime.approve(run.id, "bob"), runtime.approve(run.id, "bob", call=2)):
            with pytest.raises(NotAwaiting, match="status=completed") as raised:
                await late
            assert isinstance(raised.value, ValueError)
        with pytest.raises(UsageError, match="who decides"):
            await runtime.approve(run.id, " ")
    assert len(desk.refunds) == 1


async def test_the_snapshot_is_one_document() -> None:
    desk = Desk()
    llm = script(asks(("issue_refund", {"order_id": "A", "amount": 9000}), input_tokens=7, cost_usd="0.5"), says("ok"))
    async with Runtime(InMemoryStore(), llm, desk.tools, model="m") as runtime:
        run = await runtime.start("go", requested_by="mara")
        snapshot = await runtime.snapshot(run.id)
        assert snapshot.run_id == run.id
        assert snapshot.context["usage"] == {"input_tokens": 7, "output_tokens": 0, "cost_usd": "0.5"}
        session = snapshot.context["session"]
        assert (session["requested_by"], session["model"]) == ("mara", "m")
        assert [message["role"] for message in snapshot.messages] == ["user", "assistant"]
        assert snapshot.sdk_state == {} and snapshot.saved_at > 1_600_000_000_000
        assert snapshot.pending is not None and snapshot.pending.arguments == {"order_id": "A", "amount": 9000}
        await runtime.deny(run.id, "ann", "no")
        await runtime.resume(run.id)
        assert (await runtime.snapshot(run.id)).pending is None


async def test_runs_are_listed_with_a_summary() -> None:
    desk = Desk()
    async with Runtime(InMemoryStore(), script(refund(9000), says("ok")), desk.tools) as runtime:
        first, second = [await runtime.start(f"goal {n}") for n in (1, 2)]
        await runtime.deny(second.id, "ann", "no")
        await runtime.resume(second.id)
        listed = dict(await runtime.runs.list())
        assert set(listed) == {first.id, second.id}
        assert listed[first.id]["status"] == "awaiting_approval"
        assert listed[first.id]["waits_for"].startswith("issue_refund: ")
        assert (listed[second.id]["status"], listed[second.id]["detail"]) == ("completed", "ok")
        some = [(await runtime.runs.list(limit=1))[0][0]]
        some += [(await runtime.runs.list(limit=1, after=some[0]))[0][0]]
        assert set(some) == set(listed)
