"""§4.12: what a node cannot read is left alone, said aloud after a while, and given to a node that can read it."""

import logging

import msgspec
import pytest

from callboard.actors.context import Context
from callboard.actors.node import Node
from callboard.actors.snapshot import kind_name
from callboard.actors.spec import Child, Supervisor, Tree
from callboard.actors.testing import TestKit
from callboard.actors.unroutable import ALERT_SECONDS
from callboard.mailbox.address import shard_of
from callboard.mailbox.message import known_types
from tests.actors.world import SETTINGS, Note, Probe, addresses, notes, send_all, shards, tree

pytestmark = pytest.mark.anyio

ONE = "/t/p:1"
FUTURE = "engine_test.from_the_future"


def publish(kit: TestKit, node: Node, **more: int) -> None:
    """Have a node say that it can read more than it can."""
    known = {**known_types(), kind_name("engine-test-probe"): 1, **more}
    row = kit.store.cluster.nodes[kit.session(node).number]
    row.info = msgspec.structs.replace(row.info, capabilities=msgspec.json.encode(known).decode())


def owner(kit: TestKit, address: str) -> int | None:
    return kit.store.cluster.owners.get(shard_of(address))


async def send_future(kit: TestKit, address: str) -> None:
    envelope = await kit.client.envelope(address, Note("new"))
    envelope.type = FUTURE
    await kit.store.send([envelope])
    await kit.settle()


async def test_what_no_node_can_read_waits_uncharged_and_is_told_after_five_minutes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING, logger="callboard")
    async with TestKit(tree()) as kit:
        await kit.send(ONE, Note("a"))
        began = await kit.store.now()
        await send_future(kit, ONE)
        await kit.advance(seconds=ALERT_SECONDS - 10)
        assert "unroutable" not in caplog.text
        life = kit.nodes[0].life
        assert life is not None
        ((_, unread),) = life.cells.unroutable.waiting.items()
        assert (unread.name, unread.version, unread.envelope.recipient) == (FUTURE, 1, ONE)
        assert unread.since == pytest.approx(began, abs=1)
        await kit.advance(seconds=30)
        assert caplog.text.count("unroutable") == 1
        (view,) = await kit.store.peek(ONE)
        assert view.envelope.last_error.startswith("unroutable: ") and FUTURE in view.envelope.last_error
        assert (view.envelope.failures, view.envelope.deliveries, view.envelope.failing_seconds) == (0, 0, 0)
        await kit.advance(seconds=600)
        assert caplog.text.count("unroutable") == 1


async def test_a_message_of_a_newer_version_is_given_to_a_node_that_knows_it_with_its_shard_only() -> None:
    async with TestKit(tree(), nodes=2, settings=SETTINGS) as kit:
        await kit.advance(seconds=6)
        old, new = kit.nodes
        mine = addresses(kit, old)
        first, second = next(mine), next(mine)
        publish(kit, new, **{FUTURE: 1})
        await kit.advance(seconds=1)
        await send_future(kit, first)
        await kit.send(second, Note("a"))
        await kit.advance(seconds=2)
        assert owner(kit, first) == kit.session(new).number
        assert owner(kit, second) == kit.session(old).number and shards(kit, old) >= 127
        (view,) = await kit.store.peek(first)
        assert (view.envelope.failures, view.envelope.deliveries) == (0, 0)


async def test_a_state_of_a_newer_version_goes_to_a_node_that_knows_it_and_its_bytes_stay() -> None:
    async with TestKit(tree(), nodes=2, settings=SETTINGS) as kit:
        await kit.advance(seconds=6)
        old, new = kit.nodes
        address = next(addresses(kit, old))
        publish(kit, new, **{kind_name("engine-test-probe"): 2})
        row = kit.store.tables.actors.get((shard_of(address), address))
        assert row is None
        await kit.send(address, Note("a"))
        row = kit.store.tables.actors[shard_of(address), address]
        row.state_version = 2
        state = row.state
        life = old.life
        assert life is not None
        life.cells.forget(life.cells.cells[address])
        await send_all(kit, address, ["b"])
        await kit.advance(seconds=2)
        assert owner(kit, address) == kit.session(new).number
        row = kit.store.tables.actors[shard_of(address), address]
        assert (row.state, row.version, row.status) == (state, 1, "active")


async def test_two_nodes_that_each_know_a_part_do_not_throw_a_shard_to_and_fro() -> None:
    async with TestKit(tree(), nodes=2, settings=SETTINGS) as kit:
        await kit.advance(seconds=6)
        for node in kit.nodes:
            publish(kit, node, **{FUTURE: 1})
        await kit.advance(seconds=1)
        address = next(addresses(kit, kit.nodes[0]))
        moves: list[int | None] = [owner(kit, address)]
        await send_future(kit, address)
        for _ in range(120):
            await kit.advance(seconds=0.5)
            if owner(kit, address) != moves[-1]:
                moves.append(owner(kit, address))
        assert 2 <= len(moves) <= 13, "at most once in five seconds"


async def test_a_busy_shard_is_given_away_when_its_handler_has_ended() -> None:
    ended: list[str] = []

    async def wait(ctx: Context) -> None:
        await ctx.port.sleep(5)
        ended.append(ctx.address)

    async with TestKit(tree(lambda _probe, _note, ctx: wait(ctx)), nodes=2, settings=SETTINGS) as kit:
        await kit.advance(seconds=6)
        old, new = kit.nodes
        # Two actors of one shard: one has a handler that waits, the other a message that cannot be read.
        first = next(addresses(kit, old))
        other = next(a for a in addresses(kit, old) if shard_of(a) == shard_of(first) and a != first)
        publish(kit, new, **{FUTURE: 1})
        await kit.send(first, Note("a"))
        await send_future(kit, other)
        await kit.advance(seconds=4)
        assert owner(kit, first) == kit.session(old).number and ended == []
        await kit.advance(seconds=3)
        assert owner(kit, first) == kit.session(new).number and ended == [first]
        assert await notes(kit, first) == ["a"]


async def test_a_message_to_an_address_that_only_a_newer_program_has_is_given_to_it() -> None:
    newer = Tree(Supervisor("t", (Child(Probe, "p", pool=True), Child(Probe, "q", pool=True))))
    async with TestKit(tree(), settings=SETTINGS) as kit:
        await kit.advance(seconds=2)
        await kit.client.send("/t/q:1", Note("nobody has it"))
        await kit.settle()
        assert [letter.reason for letter in await kit.store.dead_letters()] == ["no-such-actor"]
        await kit.join(tree=newer)
        await kit.advance(seconds=6)
        address = next(addresses(kit, kit.nodes[0], "/t/q"))
        await kit.client.send(address, Note("a"))
        await kit.advance(seconds=3)
        assert await notes(kit, address) == ["a"]
        assert len(await kit.store.dead_letters()) == 1
