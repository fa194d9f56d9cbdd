"""ENGINE's rules 3, 4, 6 and 12, and the join and the leave of a node, as far as they are the engine's."""

from typing import Any

import pytest

from callboard.actors.context import Context
from callboard.actors.directives import Transient
from callboard.actors.spec import Child
from callboard.actors.testing import TestKit
from callboard.mailbox.address import shard_of
from callboard.mailbox.errors import BadRow
from callboard.persistence.unit import Unit
from tests.actors.test_workers import Log, calls
from tests.actors.world import (
    SETTINGS,
    Note,
    Probe,
    Tools,
    address_of,
    addresses,
    answers,
    notes,
    send_all,
    shards,
    spy_on_commits,
    tree,
)

pytestmark = pytest.mark.anyio

ONE = "/t/p:1"


async def test_rule_3_other_shards_get_messages_only() -> None:
    def script(_probe: Probe, note: Note, ctx: Context) -> None:
        if note.text == "go":
            for n in range(5):
                ctx.send(f"/t/p:new-{n}", Note("created by a message"))
            ctx.schedule("t", 1, Note("later"))

    units: list[Unit] = []
    async with TestKit(tree(script), nodes=2, settings=SETTINGS) as kit:
        await kit.advance(seconds=1)
        for node in kit.nodes:
            number = kit.session(node).number

            def seen(batch: list[Unit], number: int = number) -> None:
                for unit in batch:
                    assert kit.store.cluster.owners[unit.shard] == number
                units.extend(batch)

            spy_on_commits(kit, node, seen)
        await kit.send(ONE, Note("go"))
        await kit.advance(seconds=3)
        for n in range(5):
            assert await notes(kit, f"/t/p:new-{n}") == ["created by a message"]
    assert any(envelope.shard != unit.shard for unit in units for envelope in unit.sends)
    for unit in units:
        rows: list[Any] = [unit.actor or unit, *unit.turns, *unit.holds, *unit.events, *unit.timers]
        assert {row.shard for row in rows} == {unit.shard}
        assert all(shard_of(fire.address) == unit.shard for fire in unit.fires)


async def test_rule_4_a_message_that_is_gone_undoes_the_turn_that_would_acknowledge_it() -> None:
    async with TestKit(tree()) as kit:
        await kit.send(ONE, Note("a"))

        def take_it_away(units: list[Unit]) -> None:
            for unit in units:
                for identifier in unit.acks:
                    if unit.actor is not None and unit.actor.address == ONE:
                        kit.store.tables.delete(unit.shard, identifier)

        session = kit.session(kit.nodes[0])
        honest = session.commit
        spy_on_commits(kit, kit.nodes[0], take_it_away)
        await kit.send(ONE, Note("gone"))
        session.commit = honest  # type: ignore[method-assign]
        await kit.send(ONE, Note("b"))
        await kit.advance(seconds=1)
        assert await notes(kit, ONE) == ["a", "b"]


async def test_rule_4_a_worker_replies_only_together_with_the_end_of_its_message() -> None:
    log = Log(seconds=1)
    async with TestKit(tree(calls, Child(Tools, "tool", args=(log,)))) as kit:
        await kit.send(ONE, Note("call"))
        (view,) = await kit.store.peek("/t/tool")
        kit.store.tables.delete(view.envelope.shard, view.envelope.id)
        await kit.advance(seconds=3)
        assert log.ended == ["call"]
        assert await answers(kit, ONE) == []


async def test_rule_6_what_waits_is_found_again_when_its_shard_comes_back() -> None:
    down = True

    def script(_probe: Probe, note: Note, _ctx: Context) -> None:
        if note.text == "x" and down:
            raise Transient("not yet", after_seconds=6)

    async with TestKit(tree(script), settings=SETTINGS) as kit:
        await kit.send("/t/p:any", Note())
        first = kit.nodes[0]
        mine = [address for address, _ in zip(addresses(kit, first), range(20), strict=False)]
        for address in mine:
            await send_all(kit, address, ["x", "b"])
        await kit.advance(seconds=1)
        second = await kit.join()
        await kit.advance(seconds=1)
        moved = [address for address in mine if kit.store.cluster.owners[shard_of(address)] != 1]
        assert moved, "some have gone to the second node"
        await kit.leave(second)
        await kit.advance(seconds=1)
        assert shards(kit, first) == 256
        down = False
        await kit.advance(seconds=10)
        for address in mine:
            assert await notes(kit, address) == ["x", "b"]
        life = first.life
        assert life is not None and life.cells.seen == set()


async def test_rule_12_only_the_culprit_of_a_refused_batch_is_given_up() -> None:
    def script(_probe: Probe, note: Note, ctx: Context) -> None:
        if note.text == "bad":
            ctx.send("/t/p:2", Note("from bad"))
            ctx.sends[-1].sender = "a\0b"

    async with TestKit(tree(script)) as kit:
        neighbours = [f"/t/p:{n}" for n in range(100, 120)]
        await kit.send(ONE, Note("first"))
        envelopes = [await kit.client.envelope(address, Note("ok")) for address in neighbours]
        for text in ("a", "bad", "b"):
            envelopes.insert(len(envelopes) // 2, await kit.client.envelope(ONE, Note(text)))
        envelopes.sort(key=lambda envelope: envelope.id)
        await kit.store.send(envelopes)
        await kit.settle()
        for address in neighbours:
            assert await notes(kit, address) == ["ok"]
        assert await notes(kit, ONE) == ["first", "a"], "bad waits for its next attempt, b behind it"
        await kit.advance(seconds=60)
        assert await notes(kit, ONE) == ["first", "a", "b"]
        (letter,) = await kit.store.dead_letters()
        assert (letter.reason, letter.envelope.recipient, letter.envelope.failures) == ("failed", ONE, 5)
        assert "NUL" in letter.detail
        assert [turn.outcome for turn in await kit.store.turns(ONE) if "note" in turn.type] == [
            "done", "done", "dead", "done",
        ]  # fmt: skip


async def test_rule_12_a_refused_batch_of_one_actor_is_searched_turn_by_turn_and_then_runs_in_batches_again() -> None:
    def script(_probe: Probe, note: Note, ctx: Context) -> None:
        if note.text == "bad":
            ctx.schedule("nul \0", 0, Note())

    sizes: list[int] = []
    async with TestKit(tree(script)) as kit:
        await send_all(kit, ONE, [*map(str, range(10)), "bad", *map(str, range(10, 20))])
        await kit.advance(seconds=60)
        assert await notes(kit, ONE) == [str(n) for n in range(20)]
        spy_on_commits(kit, kit.nodes[0], lambda units: sizes.extend(len(unit.acks) for unit in units))
        await send_all(kit, ONE, [str(n) for n in range(10)])
        await kit.settle()
        assert max(sizes) == 10


async def test_rule_12_any_other_error_of_the_store_is_nobodys_fault() -> None:
    async with TestKit(tree()) as kit:
        kit.store.lost_answer = lambda _number: kit.port.elapsed < 20
        await kit.send(ONE, Note("a"))
        await kit.advance(seconds=40)
        assert await notes(kit, ONE) == ["a"]
        (turn,) = await kit.store.turns(ONE)
        assert (turn.outcome, await kit.store.dead_letters()) == ("done", [])


async def test_a_call_whose_answer_cannot_be_stored_is_not_repeated() -> None:
    log = Log()
    async with TestKit(tree(calls, Child(Tools, "tool", args=(log,)))) as kit:
        session = kit.session(kit.nodes[0])
        commit = session.commit

        async def refuse(units: Any) -> Any:
            if any(row.type == "engine_test.answer" for unit in units for row in (*unit.sends, *unit.turns)):
                raise BadRow("no room for this answer")
            return await commit(units)

        session.commit = refuse  # type: ignore[method-assign]
        await kit.send(ONE, Note("call"))
        await kit.advance(seconds=10)
        assert log.began == [("call", False)]
        assert await answers(kit, ONE) == ["failed: target-failed"]
        assert [letter.reason for letter in await kit.store.dead_letters()] == ["failed"]


# --- joining and leaving ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("nodes", "expected"), [(2, [128, 128]), (3, [84, 86, 86]), (4, [64, 64, 64, 64])])
async def test_nodes_that_join_get_their_share_in_good_order_under_load(nodes: int, expected: list[int]) -> None:
    async with TestKit(tree(), settings=SETTINGS) as kit:
        for n in range(60):
            for key in range(4):
                await kit.client.send(f"/t/p:{key}", Note(str(n)))
            await kit.advance(seconds=0.1)
            if n % 10 == 5 and len(kit.nodes) < nodes:
                await kit.join()
        await kit.advance(seconds=5)
        assert sorted(shards(kit, node) for node in kit.nodes) == expected
        for key in range(4):
            assert await notes(kit, f"/t/p:{key}") == [str(n) for n in range(60)]
        assert {node.life.ownership.taken_over == [] for node in kit.nodes if node.life} == {True}
        for node in kit.nodes:
            assert node.life is not None
            assert node.life.ownership.owned == kit.store.cluster.owned(kit.session(node).number)


async def test_a_node_that_leaves_hands_over_at_once_and_nothing_is_done_twice() -> None:
    async with TestKit(tree(), nodes=3, settings=SETTINGS) as kit:
        await kit.advance(seconds=3)
        first = kit.nodes[0]
        address = address_of(kit, first)
        await send_all(kit, address, ["a", "b"])
        await kit.leave(first)
        assert await notes(kit, address) == ["a", "b"]
        await kit.send(address, Note("c"))
        assert await notes(kit, address) == ["a", "b", "c"]
        assert sum(shards(kit, node) for node in kit.nodes[1:]) == 256
        assert [turn.outcome for turn in await kit.store.turns(address)] == ["done"] * 3


async def test_the_last_node_to_leave_leaves_its_shards_to_whoever_comes() -> None:
    async with TestKit(tree(), settings=SETTINGS) as kit:
        await kit.send(ONE, Note("a"))
        await kit.leave(kit.nodes[0])
        assert kit.store.cluster.owners == {}
        await kit.client.send(ONE, Note("b"))
        await kit.join()
        await kit.settle()
        assert await notes(kit, ONE) == ["a", "b"]


async def test_a_gift_whose_answer_is_lost_is_not_served_by_two() -> None:
    async with TestKit(tree(), settings=SETTINGS) as kit:
        await kit.send(ONE, Note("a"))
        session = kit.session(kit.nodes[0])
        give = session.give
        landed = False

        async def lossy(given: Any, to: int | None) -> None:
            nonlocal landed
            await give(given, to)
            if not landed:
                landed = True
                kit.store.restart()
                await session.owned()

        session.give = lossy  # type: ignore[assignment,method-assign]
        await kit.join()
        await kit.advance(seconds=4)
        assert landed
        for node in kit.nodes:
            assert node.life is not None
            assert node.life.ownership.owned == kit.store.cluster.owned(kit.session(node).number)
        await kit.send(ONE, Note("b"))
        assert await notes(kit, ONE) == ["a", "b"]


async def test_a_gift_that_never_arrived_is_served_again() -> None:
    async with TestKit(tree(), settings=SETTINGS) as kit:
        session = kit.session(kit.nodes[0])
        give = session.give
        failed = 0

        async def broken(given: Any, to: int | None) -> None:
            nonlocal failed
            failed += 1
            if failed == 1:
                kit.store.restart()
            await give(given, to)

        session.give = broken  # type: ignore[assignment,method-assign]
        await kit.join()
        await kit.advance(seconds=5)
        assert [shards(kit, node) for node in kit.nodes] == [128, 128]
        for key in range(10):
            await kit.send(f"/t/p:{key}", Note("a"))
            assert await notes(kit, f"/t/p:{key}") == ["a"]


async def test_a_guest_serves_its_shards_and_is_given_no_others() -> None:
    async with TestKit(tree(), settings=SETTINGS) as kit:
        await kit.leave(kit.nodes[0])
        shard = shard_of(ONE)
        guest = await kit.join(serves=frozenset({shard}))
        await kit.send(ONE, Note("a"))
        assert await notes(kit, ONE) == ["a"]
        await kit.join()
        await kit.advance(seconds=5)
        assert kit.store.cluster.owned(kit.session(guest).number) == {shard}


async def test_another_programs_messages_are_left_alone() -> None:
    async with TestKit(tree()) as kit:
        for address in ("/tt/p:1", "/other", "/tools"):
            await kit.client.send(address, Note("theirs"))
        await kit.advance(seconds=5)
        assert await kit.store.dead_letters() == []
        for address in ("/tt/p:1", "/other", "/tools"):
            assert len(await kit.store.peek(address)) == 1
