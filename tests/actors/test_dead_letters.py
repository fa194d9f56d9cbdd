"""G6: what cannot be handled is a dead letter with a reason, and whoever asked is told."""

from typing import Any

import pytest

from callboard.actors.context import Context
from callboard.actors.directives import Fatal, Reject
from callboard.actors.spec import Child
from callboard.actors.system import AskFailed
from callboard.actors.testing import TestKit
from callboard.mailbox.message import Message
from callboard.mailbox.request import Request
from tests.actors.world import Note, Once, Probe, notes, send_all, tree

pytestmark = pytest.mark.anyio

ONE = "/t/p:1"


def script(_probe: Probe, note: Note, ctx: Context) -> None:
    match note.text:
        case "bug":
            raise RuntimeError("bug")
        case "reject":
            raise Reject("no")
        case "fatal":
            raise Fatal("broken")
        case "end":
            ctx.stop()
        case "cancelled":
            ctx.stop("cancelled", "by hand")


class Lost(Message, tag="engine_test.lost"):
    """Nobody makes an actor for this."""


@pytest.mark.parametrize(
    ("address", "first", "message", "reason", "why"),
    [
        (ONE, None, Note("bug"), "failed", "target-failed"),
        (ONE, Note("a"), Note("bug"), "failed", "target-failed"),
        (ONE, Note("a"), Note("fatal"), "failed", "target-failed"),
        (ONE, Note("a"), Note("reject"), "rejected", "rejected"),
        (ONE, Note("a"), Lost(), "rejected", "rejected"),
        (ONE, None, Lost(), "no-such-actor", "no-such-actor"),
        ("/t/unknown", None, Note("a"), "no-such-actor", "no-such-actor"),
        ("/t/p", None, Note("a"), "no-such-actor", "no-such-actor"),
        ("/t/p:1/deeper", None, Note("a"), "no-such-actor", "no-such-actor"),
        ("/t/q:1", None, Note("a"), "no-such-actor", "no-such-actor"),
    ],
)
async def test_g6_the_reason_is_on_record_and_the_asker_is_told(
    address: str, first: Note | None, message: Request[Any], reason: str, why: str
) -> None:
    async with TestKit(tree(script, actor=Once)) as kit:
        if first is not None:
            await kit.send(address, first)
        answer = await kit.client.ask(address, message, seconds=5)
        assert isinstance(answer, AskFailed) and answer.why == why
        (letter,) = await kit.store.dead_letters()
        assert (letter.reason, letter.envelope.recipient) == (reason, address)
        assert letter.detail and letter.at > 0
        await kit.settle()
        assert await kit.store.peek(address) == []


@pytest.mark.parametrize("how", ["end", "cancelled"])
async def test_g6_an_actor_that_has_ended_refuses_everything(how: str) -> None:
    async with TestKit(tree(script)) as kit:
        await send_all(kit, ONE, [how, "too late"])
        await kit.settle()
        (letter,) = await kit.store.dead_letters()
        assert (letter.reason, letter.envelope.message()) == ("recipient-ended", Note("too late"))
        answer = await kit.client.ask(ONE, Note("asked"), seconds=5)
        assert isinstance(answer, AskFailed) and answer.why == "target-ended"
        assert len(await kit.store.dead_letters()) == 1, "who is told needs no dead letter"
        outcomes = [turn.outcome for turn in await kit.store.turns(ONE)]
        assert outcomes == ["done", "dead", "refused"]
        assert await notes(kit, ONE) == [how]


async def test_g6_an_unreadable_body_is_a_dead_letter_and_blames_nobody() -> None:
    async with TestKit(tree(script)) as kit:
        await kit.send(ONE, Note("a"))
        for body in ('{"type":"engine_test.note","text":7}', "not json", '{"type":"x\\u0000y"}', '{"text":"no type"}'):
            envelope = await kit.client.envelope(ONE, Note("b"))
            envelope.body = body
            await kit.store.send([envelope])
        await kit.send(ONE, Note("c"))
        assert [letter.reason for letter in await kit.store.dead_letters()] == ["unreadable"] * 3
        assert await notes(kit, ONE) == ["a", "b", "c"] or await notes(kit, ONE) == ["a", "no type", "c"]
        row = await kit.row(ONE)
        assert row is not None and row.incarnation == 1


async def test_g6_an_actors_own_message_to_nowhere_is_a_dead_letter_too() -> None:
    def sends(_probe: Probe, _note: Note, ctx: Context) -> None:
        ctx.send("/t/nowhere", Note("x"))

    async with TestKit(tree(sends)) as kit:
        await kit.send(ONE, Note())
        (letter,) = await kit.store.dead_letters()
        assert (letter.reason, letter.envelope.sender) == ("no-such-actor", ONE)
        assert kit.nodes[0].life is not None and not kit.nodes[0].life.cells.seen


async def test_g6_everything_sent_is_somewhere() -> None:
    """A mixed load: each message is handled once, or a dead letter, or still there with a reason."""
    async with TestKit(tree(script, Child(Probe, "single"), actor=Once)) as kit:
        texts = ["a", "bug", "b", "reject", "c", "fatal", "d", "end", "e"]
        for key in range(5):
            await send_all(kit, f"/t/p:{key}", texts)
        await kit.advance(seconds=30)
        for key in range(5):
            turns = [turn for turn in await kit.store.turns(f"/t/p:{key}") if turn.type == "engine_test.note"]
            assert [turn.outcome for turn in turns] == [
                "done", "dead", "done", "dead", "done", "dead", "done", "done", "dead",
            ]  # fmt: skip
        assert kit.store.tables.messages == {}
