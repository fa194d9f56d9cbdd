"""Events of several versions in one journal: whoever folds it sees the newest."""

from typing import Any

import msgspec
import pytest

from callboard.actors.actor import Actor, Worker, on
from callboard.actors.agent.runs import Runs
from callboard.actors.context import Context, Event, WorkerContext
from callboard.actors.spec import Child, Supervisor
from callboard.actors.testing import TestKit
from callboard.mailbox.message import Message, decode_tagged, upcast

pytestmark = pytest.mark.anyio


class Write(Message, tag="journal_test.write"):
    text: str


class Fold(Message, tag="journal_test.fold"):
    """To the worker that reads the writer's journal, as the model's worker does."""


class Folded(Message, tag="journal_test.folded"):
    texts: list[str]


class SaidThen(Event, tag="journal_test.said"):
    """Version 1."""

    text: str


class Said(Event, tag="journal_test.said.v2"):
    """Version 2: the text is words."""

    words: list[str]


@upcast("journal_test.said", 1)
def _(body: dict[str, Any]) -> dict[str, Any]:
    return {"words": body["text"].split()}


class Notes(msgspec.Struct):
    folded: list[str] = []
    failed: int = 0


class Writer(Actor[Notes], kind="journal-test-writer"):
    @on(creates=True)
    def write(self, message: Write, ctx: Context) -> None:
        ctx.record(SaidThen(message.text))
        ctx.record(Said([message.text]))

    @on
    def fold(self, message: Fold, ctx: Context) -> None:
        ctx.send("/j/reader", message)

    @on
    def folded(self, message: Folded, ctx: Context) -> None:
        self.state.folded = message.texts


class Reader(Worker, kind="journal-test-reader"):
    @on
    async def fold(self, message: Fold, ctx: WorkerContext) -> Folded:
        events = [decode_tagged(row.type, row.body) for row in await ctx.journal(ctx.caller)]
        return Folded([" | ".join(event.words) for event in events if isinstance(event, Said)])


TREE = Supervisor("j", (Child(Writer, "w", pool=True), Child(Reader, "reader")))


async def test_old_events_are_cast_up_when_a_journal_is_read() -> None:
    async with TestKit(TREE) as kit:
        await kit.send("/j/w:1", Write("a b"))
        assert [row.type for row in await kit.store.journal("/j/w:1")] == ["journal_test.said", "journal_test.said.v2"]
        events = [recorded.event for recorded in await Runs(kit.client, "/j/w").events("1")]
        assert events == [Said(["a", "b"]), Said(["a b"])]
        await kit.send("/j/w:1", Fold())
        assert (await kit.state("/j/w:1", Notes)).folded == ["a | b", "a b"]


async def test_g8_a_worker_that_meets_an_event_of_a_newer_version_leaves_its_call_uncharged() -> None:
    async with TestKit(TREE) as kit:
        await kit.send("/j/w:1", Write("a b"))
        newer = kit.store.tables.events["/j/w:1"][1]
        newer.type = "journal_test.said.v3"
        await kit.crash(kit.nodes[0])  # what it remembers of the journal too
        node = await kit.join()
        await kit.advance(seconds=10)
        await kit.send("/j/w:1", Fold())
        await kit.advance(minutes=10)
        (call,) = await kit.store.peek("/j/reader")
        assert call.envelope.failures == 0
        newer.type = "journal_test.said.v2"
        await kit.crash(node)
        await kit.join()  # a program that can read it
        await kit.advance(minutes=2)
        assert (await kit.state("/j/w:1", Notes)).folded == ["a | b", "a b"]
