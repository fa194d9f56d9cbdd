"""A run as one trace: which spans there are, whose child each is, over crashes, retries and days of waiting."""

from typing import Any

import anyio
import anyio.lowlevel
import pytest
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBasedTraceIdRatio

from callboard import TransientModelError, tool
from callboard.actors.tracing import AMBIENT
from callboard.mailbox.envelope import Envelope, traceparent_of
from callboard.service.telemetry import current_trace_id
from callboard.service.telemetry.spans import current_traceparent
from tests.agent.stage import Stage, asks, attempts, says, script
from tests.operate.tracer import Recorder, Spans, add_traced, recorded

pytestmark = pytest.mark.anyio

DAY = 86_400.0


@tool
def look_up(order: str) -> dict[str, Any]:
    """Look an order up."""
    return {"order": order, "owner": "Zoe"}


@tool(side_effect=True, requires_approval=True)
def refund(order: str, idempotency_key: str) -> dict[str, Any]:
    """Refund an order."""
    return {"refunded": order}


def two_calls() -> Any:
    both = asks(("look_up", {"order": "A-1"}), ("refund", {"order": "A-1"}), input_tokens=70, output_tokens=7)
    return script(both, says("refunded", input_tokens=90, output_tokens=9))


def tree(spans: Spans) -> list[tuple[str, str]]:
    """Each span with its parent, in the order of their beginnings; of two that begin together, the parent first."""
    placed = sorted(spans.all, key=lambda span: (span.begins, bool(span.parent)))
    return [(span.name, spans.parent(span)) for span in placed]


async def test_a_run_is_one_tree_over_two_nodes_a_kill_and_two_days_of_waiting_for_a_person() -> None:
    first, second = Recorder(), Recorder()
    async with Stage(two_calls(), [look_up, refund], nodes=0) as stage:
        victim = await add_traced(stage, first)
        run = await stage.begin("refund it", run_id="r1")
        assert (await stage.state(run)).status == "awaiting_approval"
        await stage.kill(victim)
        await stage.advance(2 * DAY)
        await add_traced(stage, second)
        await stage.advance(60)
        await stage.approve(run)
        assert (await stage.state(run)).status == "completed"
    spans = recorded(first, second)
    whole = spans.one("invoke_agent")
    assert tree(spans.trace(whole)) == [
        ("invoke_agent", ""),
        ("turn run.start", "invoke_agent"),
        ("chat", "turn run.start"),
        ("turn model.answered", "invoke_agent"),
        ("execute_tool look_up", "turn model.answered"),
        ("turn tool.answered", "invoke_agent"),
        ("turn approval.release", "invoke_agent"),
        ("execute_tool refund", "turn model.answered"),
        ("turn tool.answered", "invoke_agent"),
        ("chat", "turn tool.answered"),
        ("turn model.answered", "invoke_agent"),
    ]
    held, releases = spans.one("execute_tool refund"), spans.one("turn approval.release")
    assert spans.by_id[held.parent] == spans.named("turn model.answered")[0], "the turn that held it, not a later one"
    decided = spans.one("turn approval.decided")
    assert decided.trace != whole.trace and releases.links == (decided.trace,), "what a person did is a link"
    ids = {span.id for span in recorded(first).all}
    assert held.id not in ids and spans.named("chat")[0].id in ids, "both nodes have a part of it"


async def test_spans_speak_the_genai_conventions() -> None:
    recorder = Recorder()
    async with Stage(two_calls(), [look_up, refund], nodes=0) as stage:
        await add_traced(stage, recorder)
        run = await stage.begin("refund it", run_id="r1")
        await stage.approve(run)
    spans = recorded(recorder)
    chat = spans.named("chat")[0].said
    assert chat["gen_ai.operation.name"] == "chat" and chat["gen_ai.conversation.id"] == "r1"
    assert chat["gen_ai.provider.name"] == "_OTHER", "a scripted model has no vendor"
    assert (chat["gen_ai.usage.input_tokens"], chat["gen_ai.usage.output_tokens"]) == (70, 7)
    assert chat["gen_ai.response.finish_reasons"] == ("end_turn",) and chat["callboard.outcome"] == "done"
    called = spans.one("execute_tool refund").said
    assert called["gen_ai.operation.name"] == "execute_tool" and called["gen_ai.tool.name"] == "refund"
    assert called["gen_ai.tool.type"] == "function" and called["gen_ai.conversation.id"] == "r1"
    assert called["gen_ai.tool.call.id"].endswith("r1.2") and called["callboard.call.approved"] is True
    whole = spans.one("invoke_agent").said
    assert whole["gen_ai.operation.name"] == "invoke_agent"
    assert whole["callboard.run.status"] == "completed" and whole["callboard.run.tokens"] == 176
    assert "error.type" not in whole and "gen_ai.usage.input_tokens" not in whole, "the calls' tokens would count twice"


async def test_each_attempt_at_a_model_call_is_a_span_of_its_own() -> None:
    down, busy = TransientModelError("no route", kind="connect"), TransientModelError("later", kind="rate_limit")
    recorder = Recorder()
    async with Stage(attempts(down, busy, says("at last")), nodes=0) as stage:
        await add_traced(stage, recorder)
        run = await stage.begin("go")
        await stage.advance(300)
        assert (await stage.state(run)).status == "completed"
    spans = recorded(recorder)
    chats = spans.named("chat")
    assert [span.said.get("error.type") for span in chats] == ["connect", "rate_limit", None]
    assert [span.said.get("callboard.attempt", 1) for span in chats] == [1, 2, 3]
    assert [span.said["callboard.outcome"] for span in chats] == ["again", "again", "done"]
    assert [span.failed for span in chats] == [True, True, False]
    assert {spans.parent(span) for span in chats} == {"turn run.start"} and len({span.parent for span in chats}) == 1


async def test_each_attempt_at_a_tool_call_is_a_span_of_its_own() -> None:
    made: list[str] = []

    @tool
    def flaky(order: str) -> dict[str, Any]:
        """Works at the second attempt."""
        made.append(order)
        if len(made) == 1:
            raise ConnectionError("the words of the error")
        return {}

    recorder = Recorder()
    async with Stage(script(asks(("flaky", {"order": "A-1"})), says("done")), [flaky], nodes=0) as stage:
        await add_traced(stage, recorder)
        run = await stage.begin("go")
        await stage.advance(300)
        assert (await stage.state(run)).status == "completed"
    spans = recorded(recorder)
    first, second = spans.named("execute_tool flaky")
    assert (first.said["error.type"], first.said["callboard.outcome"]) == ("ConnectionError", "again")
    assert not second.failed and second.said["callboard.attempt"] == 2 and first.parent == second.parent


async def test_a_call_that_dies_with_its_node_is_made_anew_as_another_span_under_the_same_parent() -> None:
    begun = anyio.Event()
    waits = [True]

    @tool
    async def slow(order: str) -> dict[str, Any]:
        """Waits for ever at the first attempt."""
        begun.set()
        if waits.pop() if waits else False:
            await anyio.Event().wait()
        return {}

    first, second = Recorder(), Recorder()
    async with Stage(script(asks(("slow", {"order": "A-1"})), says("done")), [slow], nodes=0) as stage:
        victim = await add_traced(stage, first)
        run = await stage.begin("go")
        await begun.wait()
        await stage.kill(victim)
        await add_traced(stage, second)
        await stage.advance(60)
        assert (await stage.state(run)).status == "completed"
    spans = recorded(first, second)
    anew = spans.named("execute_tool slow")[-1]
    assert anew.said["callboard.outcome"] == "done" and anew.said["callboard.deliveries"] == 2
    assert spans.parent(anew) == "turn model.answered" and anew.trace == spans.one("invoke_agent").trace


async def test_a_run_that_fails_or_is_cancelled_says_so_in_its_own_span() -> None:
    recorder = Recorder()
    async with Stage(two_calls(), [look_up, refund], nodes=0) as stage:
        await add_traced(stage, recorder)
        cancelled = await stage.begin("refund it", run_id="gone")
        await stage.runtime.cancel(cancelled)
        await stage.settle()
        assert (await stage.state(cancelled)).status == "cancelled"
    whole = recorded(recorder).one("invoke_agent")
    assert whole.failed and whole.said["error.type"] == "cancelled" == whole.said["callboard.run.status"]


async def test_nothing_that_was_said_is_in_any_span() -> None:
    secret = "sk-4711-Zoe"

    @tool
    def leaky(order: str) -> dict[str, Any]:
        """Fails with what it was given."""
        raise ValueError(f"cannot take {order}")

    calls = asks(("look_up", {"order": secret}), ("refund", {"order": secret}), ("leaky", {"order": secret}))
    recorder = Recorder()
    llm = script(calls, says(f"answer {secret}"))
    async with Stage(llm, [look_up, refund, leaky], nodes=0) as stage:
        await add_traced(stage, recorder)
        run = await stage.begin(f"goal {secret}", system_prompt=f"prompt {secret}")
        await stage.runtime.tell(run, f"told {secret}")
        await stage.advance(60)
        await stage.approve(run, note=f"note {secret}")
        assert (await stage.state(run)).status == "completed"
    spans = recorded(recorder)
    assert len(spans.all) > 12 and spans.named("execute_tool leaky")
    assert secret not in repr(spans.all) and "Zoe" not in repr(spans.all)
    assert not any(span.events for span in spans.all), "an event of an exception has its words"


async def test_a_tool_runs_in_its_own_span_which_logs_and_other_libraries_see(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AMBIENT, "traceparent", current_traceparent)  # as `traced` does for a process
    seen: list[str] = []

    @tool
    def plain(order: str) -> dict[str, Any]:
        """In a thread."""
        seen.append(current_trace_id())
        return {}

    @tool
    async def waiting(order: str) -> dict[str, Any]:
        """On the loop."""
        await anyio.lowlevel.checkpoint()
        seen.append(current_trace_id())
        return {}

    recorder = Recorder()
    calls = asks(("plain", {"order": "1"}), ("waiting", {"order": "1"}))
    async with Stage(script(calls, says("done")), [plain, waiting], nodes=0) as stage:
        await add_traced(stage, recorder)
        await stage.begin("go")
    assert seen == [recorded(recorder).one("invoke_agent").trace] * 2
    assert current_trace_id() == ""


async def test_who_does_not_sample_exports_nothing_and_says_so_in_what_is_sent() -> None:
    recorder = Recorder(sampler=ALWAYS_OFF)
    async with Stage(two_calls(), [look_up, refund], nodes=0) as stage:
        await add_traced(stage, recorder)
        run = await stage.begin("refund it", run_id="r1")
        held = _held(stage, (await stage.decisions(run))[0].message_id)
        assert int(traceparent_of(held)[-2:], 16) & 1 == 0 and traceparent_of(held)
        await stage.approve("r1")
    assert recorded(recorder).all == []


async def test_a_sampled_trace_is_whole_and_an_unsampled_one_is_not_there_at_all() -> None:
    recorder = Recorder(sampler=ParentBasedTraceIdRatio(0.5))
    async with Stage(two_calls(), [look_up, refund], nodes=0) as stage:
        await add_traced(stage, recorder)
        for number in range(12):
            await stage.begin("refund it", run_id=f"r{number}")
            await stage.approve(f"r{number}")
    spans = recorded(recorder)
    wholes = spans.named("invoke_agent")
    assert 0 < len(wholes) < 12
    for whole in wholes:
        assert len(spans.trace(whole).all) == 11
    traces = {whole.trace for whole in wholes}
    assert not [s for s in spans.all if s.name.startswith(("chat", "execute_tool")) and s.trace not in traces]


async def test_without_tracing_nothing_is_written_into_what_is_sent() -> None:
    async with Stage(two_calls(), [look_up, refund], nodes=1) as stage:
        run = await stage.begin("refund it", run_id="r1")
        assert _held(stage, (await stage.decisions(run))[0].message_id).headers == ""
        await stage.approve(run)
    recorder = Recorder()
    async with Stage(two_calls(), [look_up, refund], nodes=0) as stage:
        await add_traced(stage, recorder)
        run = await stage.begin("refund it", run_id="r1")
        held = _held(stage, (await stage.decisions(run))[0].message_id)
        assert traceparent_of(held), "or this proves nothing"


def _held(stage: Stage, message: int) -> Envelope:
    """A message that waits for a person, as it is stored."""
    return next(row.envelope for row in stage.store.tables.messages.values() if row.envelope.id == message)
