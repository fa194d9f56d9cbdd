"""G1, G4: a reply that its actor takes in the very unit that ends the call, and what becomes of it when that fails."""

from collections.abc import Sequence
from typing import ClassVar

import pytest

from callboard.actors.actor import on
from callboard.actors.context import Context, WorkerContext
from callboard.actors.node import Node
from callboard.actors.spec import Child, Supervisor
from callboard.actors.system import AskFailed
from callboard.actors.testing import TestKit
from callboard.mailbox.errors import BadRow
from callboard.mailbox.message import Message
from callboard.persistence.unit import CommitResult, Unit
from tests.actors.world import Answer, Call, Note, Probe, Tool, answers, notes, spy_on_commits, tree

pytestmark = pytest.mark.anyio

ONE = "/t/p:1"


class Asking(Probe, kind="engine-test-asking"):
    """Passes each note on to the tool; its `failures` next turns with an answer fail."""

    failures: ClassVar[int] = 0

    @on
    def answered(self, message: Answer | AskFailed, ctx: Context) -> None:
        super().answered(message, ctx)
        if type(self).failures:
            type(self).failures -= 1
            raise RuntimeError("not now")
        if self.state.answers[-1] == "nul":
            ctx.schedule("nul \0", 0, Note())


class Waiting(Probe, kind="engine-test-waiting"):
    """One whose handler of answers may wait."""

    @on
    async def answered(self, message: Answer | AskFailed, ctx: Context) -> None:  # type: ignore[override]
        await ctx.port.sleep(0.01)
        super().answered(message, ctx)


def ask(_probe: Probe, note: Note, ctx: Context) -> None:
    ctx.send("/t/tool", Call(note.text))


class Counted:
    """A tool that counts its calls."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    async def __call__(self, call: Call, _ctx: WorkerContext) -> Message:
        self.calls.append(call.text)
        return Answer(call.text)


def asking(tool: Counted, actor: type[Probe] = Asking) -> Supervisor:
    return tree(ask, Child(Tool, "tool", args=(tool,)), actor=actor)


def stored_answers(kit: TestKit, node: Node) -> list[str]:
    """Fills with the type of each answer that goes to a mailbox."""
    found: list[str] = []

    def look(units: list[Unit]) -> None:
        found.extend(
            envelope.body for unit in units for envelope in unit.sends if envelope.type == "engine_test.answer"
        )

    spy_on_commits(kit, node, look)
    return found


def refuse_first(kit: TestKit, node: Node, how: BadRow | str) -> None:
    """The first unit that takes an answer is left out (with a reason), or refused as a whole batch."""
    session = kit.session(node)
    commit, done = session.commit, False

    async def fake(units: Sequence[Unit]) -> CommitResult:
        nonlocal done
        taking = [i for i, unit in enumerate(units) if any(row.type == "engine_test.answer" for row in unit.turns)]
        if done or not taking:
            return await commit(units)
        if isinstance(how, BadRow):
            done = len(units) == 1
            raise how
        done = True
        rest = [unit for i, unit in enumerate(units) if i != taking[0]]
        assert not (await commit(rest)).rejected
        return CommitResult(rejected={taking[0]: how})

    session.commit = fake  # type: ignore[method-assign]


async def test_a_free_actor_takes_the_reply_in_the_unit_that_ends_the_call() -> None:
    tool = Counted()
    async with TestKit(asking(tool)) as kit:
        stored = stored_answers(kit, kit.nodes[0])
        await kit.send(ONE, Note("a"))
        assert await answers(kit, ONE) == ["a"]
        assert stored == []
        (call,) = await kit.store.turns("/t/tool")
        rows = await kit.store.turns(ONE)
        assert call.outcome == "done"
        assert [(row.type, row.outcome, row.causation) for row in rows][-1] == ("engine_test.answer", "done", call.id)


@pytest.mark.parametrize("how", ["it does not fit", BadRow("a value is refused")])
async def test_g4_where_that_unit_is_not_taken_the_reply_is_stored_alone_and_the_call_not_repeated(
    how: BadRow | str,
) -> None:
    tool = Counted()
    async with TestKit(asking(tool)) as kit:
        stored = stored_answers(kit, kit.nodes[0])
        refuse_first(kit, kit.nodes[0], how)
        await kit.send(ONE, Note("a"))
        await kit.advance(seconds=10)
        assert tool.calls == ["a"]
        assert await answers(kit, ONE) == ["a"]
        assert len(stored) == 1
        assert [turn.outcome for turn in await kit.store.turns("/t/tool")] == ["done"]


async def test_g4_a_turn_that_fails_on_the_short_way_is_done_again_with_the_stored_reply() -> None:
    tool = Counted()
    async with TestKit(asking(tool)) as kit:
        Asking.failures = 2
        await kit.send(ONE, Note("a"))
        await kit.advance(seconds=30)
        assert Asking.failures == 0
        assert tool.calls == ["a"]
        assert (await notes(kit, ONE), await answers(kit, ONE)) == (["a"], ["a"])


async def test_a_turn_whose_effects_the_store_refuses_is_charged_and_the_call_is_not_repeated() -> None:
    tool = Counted()
    async with TestKit(asking(tool)) as kit:
        await kit.send(ONE, Note("nul"))
        await kit.advance(seconds=120)
        assert tool.calls == ["nul"]
        assert await answers(kit, ONE) == []
        (letter,) = await kit.store.dead_letters()
        assert letter.envelope.type == "engine_test.answer"


async def test_a_handler_that_waits_gets_its_reply_by_way_of_the_mailbox() -> None:
    tool = Counted()
    async with TestKit(asking(tool, Waiting)) as kit:
        stored = stored_answers(kit, kit.nodes[0])
        await kit.send(ONE, Note("a"))
        await kit.advance(seconds=1)
        assert await answers(kit, ONE) == ["a"]
        assert len(stored) == 1


async def test_many_calls_of_one_actor_are_each_answered_once() -> None:
    tool = Counted()
    async with TestKit(asking(tool)) as kit:
        texts = [str(number) for number in range(100)]
        for text in texts:
            await kit.client.send(ONE, Note(text))
        await kit.advance(seconds=5)
        assert sorted(tool.calls) == sorted(await answers(kit, ONE)) == sorted(texts)
