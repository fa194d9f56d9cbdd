"""A turn happens wholly and once, or not at all; what a handler raises decides what becomes of its message."""

from typing import Any

import msgspec
import pytest

from callboard.actors.actor import Actor, Stateless, on
from callboard.actors.context import Context, Event
from callboard.actors.directives import Fatal, Reject
from callboard.actors.spec import Child, Supervisor
from callboard.actors.testing import TestKit
from callboard.mailbox.address import shard_of
from callboard.mailbox.errors import StoreUnavailable
from callboard.mailbox.message import Message
from callboard.persistence.rows import ActorRow
from callboard.persistence.store import NodeInfo
from callboard.persistence.unit import Unit
from tests.actors.world import Answer, Note, Notes, Once, Probe, notes, send_all, tree

pytestmark = pytest.mark.anyio

ONE = "/t/p:1"
OTHER = "/t/p:other"


def failing(times: dict[str, int], error: BaseException) -> Any:
    """A script that raises `error` the first so many times for a text."""

    def script(_probe: Probe, note: Note, ctx: Context) -> None:
        if ctx.address == ONE:
            ctx.send(OTHER, Note(f"from {note.text}"))
        if times.get(note.text, 0) > 0:
            times[note.text] -= 1
            raise error

    return script


# --- G1 --------------------------------------------------------------------------------------------------------------


async def test_g1_a_failed_turn_leaves_nothing_and_its_retry_sees_the_old_state() -> None:
    async with TestKit(tree(failing({"a": 1}, RuntimeError("bug")))) as kit:
        await kit.send(ONE, Note("first"))
        await kit.send(ONE, Note("a"))
        assert await notes(kit, ONE) == ["first"]
        assert "from a" not in await notes(kit, OTHER)
        await kit.advance(seconds=1)
        assert await notes(kit, ONE) == ["first", "a"]


async def test_g1_a_failed_turn_in_the_same_batch_as_a_good_one_undoes_only_itself() -> None:
    def script(_probe: Probe, note: Note, _ctx: Context) -> None:
        if note.text == "bad":
            raise Reject("no")

    async with TestKit(tree(script)) as kit:
        await send_all(kit, ONE, ["a", "bad", "b"])
        await kit.settle()
        assert await notes(kit, ONE) == ["a", "b"]
        assert [letter.reason for letter in await kit.store.dead_letters()] == ["rejected"]


@pytest.mark.parametrize("nth", range(1, 6))
async def test_g1_a_commit_whose_answer_is_lost_counts_once(nth: int) -> None:
    def script(_probe: Probe, note: Note, ctx: Context) -> None:
        if ctx.address == ONE:
            ctx.send(OTHER, Note(note.text))

    async with TestKit(tree(script)) as kit:
        commits = 0

        def lost(_number: int) -> bool:
            nonlocal commits
            commits += 1
            return commits == nth

        kit.store.lost_answer = lost
        for text in "abc":
            await kit.send(ONE, Note(text))
        await kit.advance(seconds=5)
        assert commits >= nth
        assert await notes(kit, ONE) == ["a", "b", "c"]
        assert await notes(kit, OTHER) == ["a", "b", "c"]
        assert await kit.store.dead_letters() == []
        assert [turn.outcome for turn in await kit.store.turns(ONE)] == ["done"] * 3


async def test_g1_every_answer_lost_for_a_while_still_counts_once() -> None:
    async with TestKit(tree()) as kit:
        lost = iter([True] * 7)
        kit.store.lost_answer = lambda _number: next(lost, False)
        await send_all(kit, ONE, list("abcdef"))
        await kit.advance(seconds=20)
        assert await notes(kit, ONE) == list("abcdef")


async def test_g1_a_unit_that_was_left_out_is_read_again_and_done_on_the_new_state() -> None:
    async with TestKit(tree()) as kit:
        await kit.send(ONE, Note("a"))
        shard = shard_of(ONE)
        row = kit.store.tables.actors[shard, ONE]
        # Behind the node's back, as after a take-over that it has not heard of yet.
        state = msgspec.msgpack.encode(Notes(["behind"]))
        kit.store.tables.actors[shard, ONE] = msgspec.structs.replace(row, state=state, version=row.version + 1)
        await kit.send(ONE, Note("b"))
        assert await notes(kit, ONE) == ["behind", "b"]


async def test_g1_a_unit_that_is_left_out_for_long_does_not_spin() -> None:
    async with TestKit(tree()) as kit:
        tries = 0
        commit = kit.session(kit.nodes[0]).commit

        async def refuse(units: Any) -> Any:
            nonlocal tries
            result = await commit([unit for unit in units if unit.actor is None or unit.actor.address != ONE])
            for index, unit in enumerate(units):
                if unit.actor is not None and unit.actor.address == ONE:
                    tries += 1
                    result.rejected[index] = "somebody else's"
            return result

        kit.session(kit.nodes[0]).commit = refuse  # type: ignore[method-assign]
        await kit.send(ONE, Note("a"))
        await kit.advance(seconds=30)
        assert 3 < tries < 15
        kit.session(kit.nodes[0]).commit = commit  # type: ignore[method-assign]
        await kit.advance(seconds=31)
        assert await notes(kit, ONE) == ["a"]


# --- turns that wait -------------------------------------------------------------------------------------------------


async def test_a_turn_over_its_limit_is_cut_off_and_counts_as_a_bug() -> None:
    stuck = True
    cut: list[float] = []

    async def wait(ctx: Context) -> None:
        try:
            await ctx.port.sleep(1e6 if stuck else 5)
        except BaseException:
            cut.append(ctx.port.monotonic())
            raise

    def script(_probe: Probe, _note: Note, ctx: Context) -> Any:
        return wait(ctx)

    async with TestKit(tree(script)) as kit:
        await kit.send(ONE, Note("a"))
        await kit.advance(seconds=299)
        assert cut == []
        await kit.advance(seconds=1.5)
        assert len(cut) == 1
        (view,) = await kit.store.peek(ONE)
        assert (view.envelope.failures, view.state) == (1, "retrying") and "TurnOverLimit" in view.envelope.last_error
        stuck = False
        await kit.advance(seconds=10)
        assert await notes(kit, ONE) == ["a"]


async def test_turns_of_one_actor_never_overlap_and_others_go_on_meanwhile() -> None:
    running: list[str] = []
    overlaps: list[str] = []

    async def wait(note: Note, ctx: Context) -> None:
        if ctx.address in running:
            overlaps.append(note.text)
        running.append(ctx.address)
        await ctx.port.sleep(2)
        running.remove(ctx.address)

    def script(_probe: Probe, note: Note, ctx: Context) -> Any:
        return wait(note, ctx)

    async with TestKit(tree(script)) as kit:
        await send_all(kit, ONE, ["a", "b", "c"])
        await send_all(kit, OTHER, ["x"])
        await kit.advance(seconds=2.1)
        assert await notes(kit, ONE) == ["a"]
        assert await notes(kit, OTHER) == ["x"]
        await kit.advance(seconds=5)
        assert await notes(kit, ONE) == ["a", "b", "c"]
        assert overlaps == []


async def test_a_handler_that_fails_after_a_wait_is_undone_as_well() -> None:
    first = True

    async def wait(ctx: Context) -> None:
        nonlocal first
        await ctx.port.sleep(1)
        if first:
            first = False
            raise RuntimeError("bug")

    def script(_probe: Probe, _note: Note, ctx: Context) -> Any:
        return wait(ctx)

    async with TestKit(tree(script)) as kit:
        await kit.send(ONE, Note("a"))
        await kit.advance(seconds=10)
        assert await notes(kit, ONE) == ["a"]


# --- being started ---------------------------------------------------------------------------------------------------


class Began(Event, tag="engine_test.began"):
    incarnation: int


class Starting(Actor[Stateless], kind="engine-test-starting"):
    def on_start(self, ctx: Context) -> None:
        ctx.record(Began(ctx.incarnation))

    @on(creates=True)
    def note(self, message: Note, ctx: Context) -> None:
        ctx.reply(Answer(message.text))
        if message.text == "fatal":
            raise Fatal("on purpose")


async def test_on_start_runs_once_in_each_incarnation() -> None:
    spec = Supervisor("t", (Child(Starting, "s", pool=True), Child(Starting, "one")), max_restarts=9, backoff=None)
    async with TestKit(spec) as kit:
        for address in ("/t/s:1", "/t/one"):
            for text in ("a", "b", "fatal", "c"):
                await kit.send(address, Note(text))
            events = await kit.store.journal(address)
            assert [msgspec.json.decode(event.body)["incarnation"] for event in events] == [1, 2]
            assert [event.seq for event in events] == [1, 2]


async def test_an_event_and_a_message_of_a_failed_turn_are_not_numbered() -> None:
    calls = 0

    def script(_probe: Probe, note: Note, ctx: Context) -> None:
        nonlocal calls
        if ctx.address != ONE:
            return
        calls += 1
        ctx.record(Began(calls))
        ctx.send(OTHER, Note("x"))
        if calls == 2:
            raise RuntimeError("bug")

    async with TestKit(tree(script)) as kit:
        await send_all(kit, ONE, ["a", "b", "c"])
        await kit.advance(seconds=3)
        assert [event.seq for event in await kit.store.journal(ONE)] == [1, 2, 3]
        turns = [turn for turn in await kit.store.turns(OTHER) if turn.sender == ONE]
        assert [turn.sender_seq for turn in turns] == [1, 2, 3]


async def test_a_node_that_finds_no_store_to_join_says_so() -> None:
    kit = TestKit(tree())
    kit.store.down = True
    with pytest.raises(ExceptionGroup) as raised:
        async with kit:
            pass
    assert raised.group_contains(StoreUnavailable)


async def test_once_means_one_attempt() -> None:
    async with TestKit(tree(failing({"a": 9}, RuntimeError("bug")), actor=Once)) as kit:
        await kit.send(ONE, Note("first"))
        await kit.send(ONE, Note("a"))
        assert [letter.envelope.failures for letter in await kit.store.dead_letters()] == [1]


class _Unused(Message, tag="engine_test.unused"):
    """Known to the process, handled by nobody."""


async def test_g6_a_known_message_without_a_handler_is_rejected() -> None:
    async with TestKit(tree()) as kit:
        await kit.send(ONE, Note("a"))
        await kit.send(ONE, _Unused())
        assert [letter.reason for letter in await kit.store.dead_letters()] == ["rejected"]


async def test_two_nodes_never_disagree_about_a_row_they_both_hold() -> None:
    """The version check is the last line: here a second session writes with the same version."""
    async with TestKit(tree()) as kit:
        await kit.send(ONE, Note("a"))
        row = await kit.row(ONE)
        assert row is not None
        async with kit.store.join(NodeInfo("other"), kit.port) as other:
            stale = ActorRow(row.shard, row.address, row.kind, version=row.version, state=row.state)
            result = await other.commit([Unit(row.shard, actor=stale, expected=row.version - 1)])
            assert list(result.rejected) == [0]
