"""Turns and calls of any actor: where their spans belong, what they say of failures, and what they are never told."""

from typing import Any

import anyio
import msgspec
import pytest

from callboard.actors.actor import Actor, Worker, on
from callboard.actors.context import Context, WorkerContext
from callboard.actors.spec import Child, Supervisor
from callboard.actors.system import Cancel
from callboard.actors.testing import TestKit
from callboard.actors.tracing import AMBIENT, NO_SPAN, OFF
from callboard.mailbox.envelope import Headers, headers_of, traceparent_of, valid_traceparent, write_headers
from callboard.mailbox.lane import Lane
from callboard.mailbox.message import Message
from callboard.mailbox.request import Request
from tests.operate.tracer import Recorder, join_traced, recorded

pytestmark = pytest.mark.anyio

A, B, TOOL = "/t/a", "/t/b", "/t/tool"
TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
GOOD = f"00-{TRACE}-{SPAN}-01"


class Do(Message, tag="tracing_test.do"):
    """What to do."""

    what: str = ""


class Work(Message, tag="tracing_test.work"):
    """To the worker."""


class Worked(Message, tag="tracing_test.worked"):
    """From the worker."""


class Please(Request[Worked], tag="tracing_test.please"):
    """Asked of another actor."""


class Notes(msgspec.Struct):
    done: list[str] = []
    headers: list[str] = []


FAILS: list[str] = []
WAITS: list[anyio.Event] = []


class Doer(Actor[Notes], kind="tracing-test-doer"):
    @on
    def do(self, message: Do, ctx: Context) -> None:
        self.state.headers.append(ctx.envelope.headers)
        self.state.done.append(message.what)
        match message.what.split():
            case ["send", to]:
                ctx.send(to, Do("noted"))
            case ["work"]:
                ctx.send(TOOL, Work())
            case ["ask", to]:
                ctx.ask(to, Please(), timeout=60)
            case ["later", seconds]:
                ctx.schedule("later", float(seconds), Do("noted"))
            case ["every", seconds]:
                ctx.schedule("every", float(seconds), Do("noted"), every=float(seconds))
            case ["fail"] if FAILS:
                raise ValueError(FAILS.pop())

    @on
    async def please(self, message: Please, ctx: Context) -> None:
        ctx.reply(Worked())

    @on
    def worked(self, message: Worked, ctx: Context) -> None:
        self.state.done.append("worked")


class Waiter(Actor[Notes], kind="tracing-test-waiter"):
    @on
    async def do(self, message: Do, ctx: Context) -> None:
        await WAITS[-1].wait()


class Tool(Worker, kind="tracing-test-tool"):
    @on
    async def work(self, message: Work, ctx: WorkerContext) -> Message:
        if WAITS:
            await WAITS[-1].wait()
        return Worked()


TREE = Supervisor("t", (Child(Doer, "a"), Child(Doer, "b"), Child(Waiter, "waiter"), Child(Tool, "tool")))


@pytest.fixture(autouse=True)
def fresh() -> None:
    FAILS.clear()
    WAITS.clear()


async def test_what_a_turn_sends_goes_on_in_its_trace() -> None:
    recorder = Recorder()
    async with TestKit(TREE, nodes=0) as kit:
        await join_traced(kit, recorder)
        await kit.send(A, Do(f"send {B}"))
    spans = recorded(recorder)
    first, second = spans.named("turn tracing_test.do")
    assert (first.said["callboard.actor"], second.said["callboard.actor"]) == (A, B)
    assert (first.parent, second.parent) == ("", first.id) and second.trace == first.trace
    assert second.said["callboard.outcome"] == "done"


async def test_a_reply_of_a_worker_and_of_an_actor_goes_on_from_what_made_it() -> None:
    recorder = Recorder()
    async with TestKit(TREE, nodes=0) as kit:
        await join_traced(kit, recorder)
        await kit.send(A, Do("work"))
        await kit.send(A, Do(f"ask {B}"))
        assert (await kit.state(A, Notes)).done == ["work", "worked", f"ask {B}", "worked"]
    spans = recorded(recorder)
    assert [spans.parent(span) for span in spans.named("turn tracing_test.worked")] == [
        "call tracing_test.work",
        "turn tracing_test.please",
    ]
    assert {spans.parent(spans.one(name)) for name in ("call tracing_test.work", "turn tracing_test.please")} == {
        "turn tracing_test.do"
    }


async def test_a_failed_turn_ends_with_its_error_and_is_done_again_in_the_same_trace() -> None:
    recorder = Recorder()
    FAILS.append("the customer's words")
    async with TestKit(TREE, nodes=0) as kit:
        await join_traced(kit, recorder)
        await kit.send(A, Do("fail"))
        await kit.advance(minutes=2)
        assert (await kit.state(A, Notes)).done == ["fail"]
    failed, again = recorded(recorder).named("turn tracing_test.do")
    assert failed.failed and (failed.said["error.type"], failed.said["callboard.outcome"]) == ("ValueError", "again")
    assert not again.failed and (again.said["callboard.attempt"], again.said["callboard.outcome"]) == (2, "done")
    assert failed.trace == again.trace and failed.id != again.id
    assert "customer" not in repr(failed) and not failed.events


async def test_a_message_that_becomes_a_dead_letter_says_why() -> None:
    recorder = Recorder()
    async with TestKit(TREE, nodes=0) as kit:
        await join_traced(kit, recorder)
        await kit.send(A, Work())
    span = recorded(recorder).one("turn tracing_test.work")
    assert (span.said["callboard.outcome"], span.said["error.type"]) == ("dead", "rejected")


async def test_a_turn_that_was_not_taken_says_so_and_is_counted_as_done_once() -> None:
    recorder = Recorder()
    async with TestKit(TREE, nodes=0) as kit:
        await join_traced(kit, recorder)
        await kit.send(A, Do("noted"))
        # As a row that was read too early has it: the next commit expects another version than is on disk.
        row = next(row for row in kit.store.tables.actors.values() if row.address == A)
        row.version += 1
        await kit.send(A, Do("noted"))
        await kit.advance(seconds=5)
    spans = recorded(recorder).named("turn tracing_test.do")
    assert [span.said["callboard.outcome"] for span in spans] == ["done", "not_taken", "done"]
    assert spans[1].failed and spans[1].trace == spans[2].trace != spans[0].trace


async def test_a_turn_whose_commit_got_no_answer_and_landed_is_done_once() -> None:
    recorder = Recorder()
    async with TestKit(TREE, nodes=0) as kit:
        await join_traced(kit, recorder)
        await kit.send(A, Do("noted"))
        losing = [True]
        kit.store.lost_answer = lambda _: bool(losing) and losing.pop()
        await kit.send(A, Do("noted"))
        await kit.advance(seconds=5)
        assert (await kit.state(A, Notes)).done == ["noted"] * 2
    spans = recorded(recorder).named("turn tracing_test.do")
    assert [span.said["callboard.outcome"] for span in spans] == ["done", "done"] and not spans[1].failed
    assert spans[1].said["callboard.commit.answer_lost"] is True


async def test_a_node_that_was_superseded_says_that_its_turn_does_not_count() -> None:
    first, second = Recorder(), Recorder()
    WAITS.append(anyio.Event())
    async with TestKit(TREE, nodes=0) as kit:
        frozen = await join_traced(kit, first)
        await kit.send("/t/waiter", Do())
        kit.freeze(frozen)
        WAITS[-1].set()
        await kit.settle()  # the handler has ended, and its commit is under way for as long as the node is frozen
        await join_traced(kit, second)
        await kit.advance(minutes=2)
        await kit.thaw(frozen)
        await kit.advance(minutes=1)
    late, counts = (recorded(one).one("turn tracing_test.do") for one in (first, second))
    assert late.failed and late.said["error.type"] == late.said["callboard.outcome"] == "superseded"
    assert counts.said["callboard.outcome"] == "done" and counts.trace == late.trace


async def test_a_turn_that_is_interrupted_says_so() -> None:
    recorder = Recorder()
    WAITS.append(anyio.Event())
    async with TestKit(TREE, nodes=0) as kit:
        await join_traced(kit, recorder)
        await kit.send("/t/waiter", Do())
        await kit.client.send("/t/waiter", Cancel("ann", "enough"), lane=Lane.SYSTEM)
        await kit.settle()
        await kit.advance(seconds=5)
    outcomes = [span.said["callboard.outcome"] for span in recorded(recorder).named("turn tracing_test.do")]
    assert outcomes[0] == "interrupted" and "done" not in outcomes


async def test_a_call_that_is_given_back_says_so() -> None:
    recorder = Recorder()
    WAITS.append(anyio.Event())
    async with TestKit(TREE, nodes=0) as kit:
        node = await join_traced(kit, recorder)
        await kit.send(A, Do("work"))
        node.stop()
        await kit.advance(minutes=5)
    call = recorded(recorder).one("call tracing_test.work")
    assert call.failed and call.said["error.type"] == call.said["callboard.outcome"] == "cancelled"


@pytest.mark.parametrize("what", ["later 30", "every 30"])
async def test_a_timer_begins_a_trace_that_is_linked_to_who_set_it(what: str) -> None:
    recorder = Recorder()
    async with TestKit(TREE, nodes=0) as kit:
        await join_traced(kit, recorder)
        await kit.send(A, Do(what))
        await kit.advance(seconds=70)
    spans = recorded(recorder).named("turn tracing_test.do")
    setter, *fired = spans
    assert len(fired) == (1 if what.startswith("later") else 2)
    for span in fired:
        assert span.parent == "" and span.trace != setter.trace and span.links == (setter.trace,)
    assert len({span.trace for span in spans}) == len(spans), "a timer that goes on for ever is no trace that does"


async def test_a_timer_leaves_nothing_behind_when_it_has_fired_or_was_set_without_tracing() -> None:
    recorder = Recorder()
    async with TestKit(TREE, nodes=0) as kit:
        await join_traced(kit, recorder)
        await kit.send(A, Do("later 30"))
        row = await kit.row(A)
        assert row is not None and "causes" in row.bonds
        await kit.advance(seconds=40)
        row = await kit.row(A)
        assert row is not None and "causes" not in row.bonds
    async with TestKit(TREE) as kit:
        await kit.send(A, Do("later 30"))
        row = await kit.row(A)
        assert row is not None and row.bonds and "causes" not in row.bonds


async def test_what_comes_from_a_traced_program_is_its_child() -> None:
    recorder = Recorder()
    async with TestKit(TREE, nodes=0) as kit:
        await join_traced(kit, recorder)
        await kit.client.send(A, Do(f"send {B}"))
        await _send(kit, A, Do("noted"), write_headers(Headers(traceparent=GOOD)))
    spans = recorded(recorder).named("turn tracing_test.do")
    assert len(spans) == 3 and [span.parent for span in spans if span.trace == TRACE] == [SPAN]


async def test_a_client_sends_the_context_of_what_its_process_does(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder()
    async with TestKit(TREE, nodes=0) as kit:
        await join_traced(kit, recorder)
        monkeypatch.setattr(AMBIENT, "traceparent", lambda: GOOD)
        await kit.send(A, Do("noted"))
    span = recorded(recorder).one("turn tracing_test.do")
    assert (span.trace, span.parent) == (TRACE, SPAN)


BAD = (
    "",
    "x",
    GOOD.upper(),
    GOOD[:-1],
    GOOD + "-more",
    GOOD.replace("-", "_"),
    f"ff-{TRACE}-{SPAN}-01",
    f"00-{'0' * 32}-{SPAN}-01",
    f"00-{TRACE}-{'0' * 16}-01",
    f"00-{TRACE}-{SPAN}-0\n",
    f"0٠-{TRACE}-{SPAN}-01",
    GOOD * 100_000,
)


@pytest.mark.parametrize("text", BAD, ids=range(len(BAD)))
async def test_a_malformed_context_is_ignored_and_the_message_handled(text: str) -> None:
    recorder = Recorder()
    async with TestKit(TREE, nodes=0) as kit:
        await join_traced(kit, recorder)
        await _send(kit, A, Do("noted"), msgspec.json.encode({"traceparent": text}).decode())
        assert (await kit.state(A, Notes)).done == ["noted"]
    span = recorded(recorder).one("turn tracing_test.do")
    assert span.parent == "" and not span.links and not span.failed
    assert valid_traceparent(text) == "" and valid_traceparent(GOOD) == GOOD


async def test_a_context_that_is_no_text_takes_no_other_header_with_it_than_it_must() -> None:
    async with TestKit(TREE) as kit:
        await _send(kit, A, Do("noted"), '{"traceparent":{"a":1}}')
        await _send(kit, A, Do("noted"), '{"tracestate":"a=b","traceparent":"nonsense"}')
        assert (await kit.state(A, Notes)).done == ["noted"] * 2


async def test_an_ask_keeps_its_headers_beside_the_context() -> None:
    recorder = Recorder()
    asked: list[Headers] = []

    class Asked(Actor[Any], kind="tracing-test-asked"):
        @on
        def please(self, message: Please, ctx: Context) -> None:
            asked.append(headers_of(ctx.envelope))
            assert traceparent_of(ctx.envelope)
            ctx.reply(Worked())

    async with TestKit(Supervisor("t", (Child(Doer, "a"), Child(Asked, "b"))), nodes=0) as kit:
        await join_traced(kit, recorder)
        await kit.send(A, Do(f"ask {B}"))
        assert (await kit.state(A, Notes)).done == [f"ask {B}", "worked"]
    assert asked[0].ask and asked[0].deadline > 0 and asked[0].traceparent


async def test_without_tracing_no_header_is_written_and_no_span_made() -> None:
    async with TestKit(TREE) as kit:
        await kit.send(A, Do(f"send {B}"))
        await kit.send(A, Do("work"))
        for address in (A, B):
            assert not any((await kit.state(address, Notes)).headers)
        assert kit.nodes[0].tracing is OFF
    assert not NO_SPAN.on and NO_SPAN.traceparent == ""


async def _send(kit: TestKit, to: str, message: Message, headers: str) -> None:
    envelope = await kit.client.envelope(to, message)
    envelope.headers = headers
    await kit.store.send([envelope])
    await kit.settle()
