"""G6: a message that an operator gives up is a dead letter, whoever waits for it is told, and what was done stays."""

import anyio
import pytest

from callboard.actors.context import Context, WorkerContext
from callboard.actors.directives import Park
from callboard.actors.spec import Child
from callboard.actors.system import AskFailed, DiscardMessage, Pause, Resume
from callboard.actors.testing import TestKit
from callboard.mailbox.lane import Lane
from callboard.persistence.memory import invariants
from tests.actors.world import Call, Note, Probe, Tool, notes, send_all, tree

pytestmark = pytest.mark.anyio

ONE = "/t/p:1"


async def discard(kit: TestKit, address: str, identifier: int, *, quarantine: bool = False) -> None:
    wish = DiscardMessage(identifier, "ann", "it is spam", quarantine)
    await kit.client.send(address, wish, lane=Lane.SYSTEM)
    await kit.settle()


async def waiting(kit: TestKit, address: str = ONE) -> list[tuple[int, str]]:
    return [(view.envelope.id, view.envelope.message().text) for view in await kit.store.peek(address)]  # type: ignore[attr-defined]


def sound(kit: TestKit) -> None:
    assert invariants.violations(kit.store.tables, kit.store.cluster, kit.store.clock()) == []


async def outcomes(kit: TestKit, address: str = ONE) -> list[str]:
    return [turn.outcome for turn in await kit.store.turns(address) if turn.type == "sys.discard_message"]


async def test_g6_a_message_of_a_paused_actor_is_given_up_without_it() -> None:
    async with TestKit(tree()) as kit:
        await kit.send(ONE, Note("a"))
        await kit.client.send(ONE, Pause("ann", "a break"), lane=Lane.SYSTEM)
        await send_all(kit, ONE, ["b", "spam", "c"])
        await kit.settle()
        [_, (spam, _), _] = await waiting(kit)
        await discard(kit, ONE, spam)
        assert [text for _, text in await waiting(kit)] == ["b", "c"]
        [letter] = await kit.store.dead_letters()
        assert (letter.envelope.id, letter.reason, letter.settled, letter.settled_by) == (
            spam, "discarded", "discarded", "ann",
        )  # fmt: skip
        assert letter.detail == "discarded by ann: it is spam"
        row = await kit.row(ONE)
        assert row is not None and row.status == "paused", "it was not asked"
        await kit.client.send(ONE, Resume("ann"), lane=Lane.SYSTEM)
        await kit.settle()
        assert await notes(kit, ONE) == ["a", "b", "c"]
        assert await outcomes(kit) == ["done"]
        sound(kit)


async def test_g6_what_parked_an_actor_is_put_into_quarantine_and_the_dead_letter_stays_open() -> None:
    def script(_probe: Probe, note: Note, _ctx: Context) -> None:
        if note.text == "poison":
            raise Park("a person must look")

    async with TestKit(tree(script)) as kit:
        await send_all(kit, ONE, ["poison", "b"])
        await kit.settle()
        [(poison, _), _] = await waiting(kit)
        await discard(kit, ONE, poison, quarantine=True)
        [letter] = await kit.store.dead_letters(open_only=True)
        assert (letter.envelope.id, letter.reason, letter.settled) == (poison, "quarantined", "")
        await kit.client.send(ONE, Resume("ann"), lane=Lane.SYSTEM)
        await kit.settle()
        assert await notes(kit, ONE) == ["b"]
        sound(kit)


async def test_g6_what_is_tried_again_and_again_is_given_up_and_the_next_one_has_its_turn() -> None:
    def script(_probe: Probe, note: Note, _ctx: Context) -> None:
        if note.text == "bad":
            raise RuntimeError("bad")

    async with TestKit(tree(script)) as kit:
        await send_all(kit, ONE, ["bad", "b"])
        await kit.settle()
        [(bad, _), _] = await waiting(kit)
        assert await notes(kit, ONE) == []
        await discard(kit, ONE, bad)
        assert await notes(kit, ONE) == ["b"], "at once, not after its back-off"
        [letter] = await kit.store.dead_letters()
        assert letter.envelope.id == bad and letter.envelope.failures >= 1 and "bad" in letter.envelope.last_error
        sound(kit)


async def test_g6_what_is_in_a_handler_is_waited_for_and_left_as_it_was_done() -> None:
    may_end = anyio.Event()

    async def wait() -> None:
        await may_end.wait()

    async with TestKit(tree(lambda *_: wait())) as kit:
        await send_all(kit, ONE, ["slow"])
        await kit.settle()
        [(slow, _)] = await waiting(kit)
        await discard(kit, ONE, slow)
        await kit.advance(seconds=1)
        assert await outcomes(kit) == [], "its handler is not done"
        may_end.set()
        await kit.advance(seconds=1)
        assert await notes(kit, ONE) == ["slow"] and await kit.store.dead_letters() == []
        assert await outcomes(kit) == ["refused"] and await kit.store.peek(ONE) == []
        sound(kit)


async def test_g6_what_fails_in_its_handler_is_given_up_where_it_waits_again() -> None:
    may_end = anyio.Event()

    async def fail() -> None:
        await may_end.wait()
        raise RuntimeError("bad")

    async with TestKit(tree(lambda *_: fail())) as kit:
        await send_all(kit, ONE, ["slow"])
        await kit.settle()
        [(slow, _)] = await waiting(kit)
        await discard(kit, ONE, slow)
        may_end.set()
        await kit.advance(seconds=0.5)
        [letter] = await kit.store.dead_letters()
        assert (letter.envelope.id, letter.reason) == (slow, "discarded") and await kit.store.peek(ONE) == []
        sound(kit)


async def test_g6_whoever_waits_for_the_answer_is_told() -> None:
    async with TestKit(tree()) as kit:
        await kit.send(ONE, Note("a"))
        await kit.client.send(ONE, Pause("ann", "a break"), lane=Lane.SYSTEM)
        answers: list[object] = []

        async def ask() -> None:
            answers.append(await kit.client.ask(ONE, Note("asked"), seconds=60, lane=Lane.NORMAL))

        async with anyio.create_task_group() as group:
            group.start_soon(ask)
            await kit.settle()
            [view] = await kit.store.peek(ONE)
            await discard(kit, ONE, view.envelope.id)
            await kit.advance(seconds=1)
        [answer] = answers
        assert isinstance(answer, AskFailed) and "ann" in answer.detail


async def test_g6_a_message_that_would_begin_an_actor_is_given_up_before_there_is_one() -> None:
    async with TestKit(tree(), nodes=0) as kit:
        envelope = await kit.client.envelope(ONE, Note("spam"))
        await kit.store.send([envelope])
        await kit.client.send(ONE, DiscardMessage(envelope.id, "ann"), lane=Lane.SYSTEM)
        await kit.join()
        await kit.settle()
        # The wish is read first, and heeded beside: either it was first, or the handler was.
        letters = await kit.store.dead_letters()
        assert ([x.reason for x in letters] == ["discarded"]) != (await notes(kit, ONE) == ["spam"])
        assert await kit.store.peek(ONE) == []
        sound(kit)


async def test_g6_what_is_not_there_any_more_is_left_as_it_is() -> None:
    async with TestKit(tree()) as kit:
        envelope = await kit.client.envelope(ONE, Note("a"))
        await kit.store.send([envelope])
        await kit.settle()
        await discard(kit, ONE, envelope.id)
        await discard(kit, ONE, 12345)
        assert await notes(kit, ONE) == ["a"] and await kit.store.dead_letters() == []
        assert await outcomes(kit) == ["refused", "refused"]
        sound(kit)


async def test_g6_what_its_actor_put_aside_is_not_given_up() -> None:
    def script(_probe: Probe, note: Note, ctx: Context) -> None:
        if note.text == "later":
            ctx.stash()

    async with TestKit(tree(script)) as kit:
        await send_all(kit, ONE, ["later"])
        await kit.settle()
        [view] = await kit.store.peek(ONE)
        assert view.state == "stashed"
        await discard(kit, ONE, view.envelope.id)
        assert [view.state for view in await kit.store.peek(ONE)] == ["stashed"]
        assert await outcomes(kit) == ["refused"] and await kit.store.dead_letters() == []


async def test_g4_a_workers_call_is_not_given_up_as_its_effect_may_have_begun() -> None:
    may_end = anyio.Event()
    calls = 0

    async def body(_call: Call, _ctx: WorkerContext) -> None:
        nonlocal calls
        calls += 1
        await may_end.wait()

    def script(_probe: Probe, _note: Note, ctx: Context) -> None:
        ctx.send("/t/tool", Call("x"))

    async with TestKit(tree(script, Child(Tool, "tool", args=(body,)))) as kit:
        await kit.send(ONE, Note("a"))
        [view] = await kit.store.peek("/t/tool")
        wish = await kit.client.envelope("/t/tool", DiscardMessage(view.envelope.id, "ann"), lane=Lane.SYSTEM)
        wish.shard = view.envelope.shard
        await kit.store.send([wish])
        await kit.settle()
        assert [v.envelope.id for v in await kit.store.peek("/t/tool")] == [view.envelope.id]
        may_end.set()
        await kit.advance(seconds=2)
        assert calls == 1 and await kit.store.dead_letters() == [] and await kit.store.peek("/t/tool") == []
        sound(kit)


async def test_g7_a_wish_whose_node_died_is_heeded_by_the_next_one() -> None:
    async with TestKit(tree()) as kit:
        [node] = kit.nodes
        await kit.send(ONE, Note("a"))
        await kit.client.send(ONE, Pause("ann", "a break"), lane=Lane.SYSTEM)
        await send_all(kit, ONE, ["spam", "b"])
        await kit.settle()
        [(spam, _), _] = await waiting(kit)
        await kit.crash(node)
        await discard(kit, ONE, spam)
        assert len(await kit.store.peek(ONE)) == 3, "nobody is there"
        await kit.join()
        await kit.advance(seconds=60)
        assert [text for _, text in await waiting(kit)] == ["b"]
        assert [letter.reason for letter in await kit.store.dead_letters()] == ["discarded"]
        sound(kit)
