"""Asks, watches, timers and what was put aside, on PostgreSQL: all of it is in the rows, whatever becomes of a node."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio
import msgspec
import psycopg
import pytest

from callboard.actors.asking import timer_key
from callboard.actors.client import Client
from callboard.actors.node import Node, NodeSettings
from callboard.actors.spec import Child, Supervisor, Tree
from callboard.mailbox.message import Message
from callboard.persistence.postgres import PostgresStore, create_schema
from tests.actors.peers import A, B, C, Do, Memory, Peer, world
from tests.actors.test_stash import Keeper, Shelf
from tests.actors.world import Note

pytestmark = pytest.mark.anyio

SETTINGS = NodeSettings(drain_seconds=0.5)
PATIENCE_SECONDS = 180.0
SHELF = "/t/s:1"


class Desk:
    """A store, a client of it, and one node after the other."""

    def __init__(self, dsn: str, store: PostgresStore) -> None:
        self.dsn = dsn
        self.store = store
        self.client = Client(store)

    @asynccontextmanager
    async def node(self, *, drains: bool = True) -> AsyncIterator[None]:
        """A node, for as long as this lasts; without draining its tasks are cut off where they are."""
        peers = world()
        tree = Tree(Supervisor("t", (*peers.children, Child(Keeper, "s", pool=True)), max_restarts=100))
        node = Node(self.store, tree, settings=SETTINGS)
        async with anyio.create_task_group() as group:
            group.start_soon(node.run)
            await node.ready.wait()
            yield
            if drains:
                node.stop()
            else:
                group.cancel_scope.cancel()

    async def send(self, to: str, *messages: Message) -> None:
        await self.store.send([await self.client.envelope(to, message) for message in messages])

    async def heard(self, address: str) -> list[str]:
        row = await self.store.actor(address)
        return msgspec.msgpack.decode(row.state, type=Memory).heard if row is not None and row.state else []

    async def got(self) -> list[str]:
        row = await self.store.actor(SHELF)
        return msgspec.msgpack.decode(row.state, type=Shelf).got if row is not None and row.state else []

    async def bonds(self, address: str) -> dict[str, object]:
        row = await self.store.actor(address)
        return dict(msgspec.json.decode(row.bonds or "{}")) if row is not None else {}

    async def time_out(self, ask: int) -> None:
        """Have the time of an ask be over."""
        async with await psycopg.AsyncConnection.connect(self.dsn, autocommit=True) as connection:
            due = "UPDATE callboard.timer SET due_at = callboard.clock() WHERE key = %s"
            assert (await connection.execute(due, (timer_key(ask),))).rowcount == 1


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    with anyio.fail_after(PATIENCE_SECONDS):
        while not await condition():  # noqa: ASYNC110 - rows raise no event here
            await anyio.sleep(0.02)


@asynccontextmanager
async def desk(dsn: str) -> AsyncIterator[Desk]:
    await create_schema(dsn)
    async with PostgresStore(dsn) as store:
        yield Desk(dsn, store)


@pytest.mark.parametrize("drains", [True, False])
async def test_g1_bonds_survive_a_node(dsn: str, drains: bool) -> None:
    async with desk(dsn) as it:
        async with it.node(drains=drains):
            await it.send(B, Do("note there"))

            async def there() -> bool:
                return await it.heard(B) == ["there"]

            await until(there)  # whoever watches nobody is told at once
            await it.send(A, Do(f"ask {B} 600 later; ask {C} 600 say at once; ask {B} 600 nothing; watch {B}"))

            async def settled() -> bool:
                return await it.heard(A) == ["at once"] and "watchers" in await it.bonds(B)

            await until(settled)
            before = await it.bonds(A)
            assert isinstance(before["asks"], dict) and len(before["asks"]) == 2
        await it.time_out(max(map(int, before["asks"])))  # the last one; none while its first node might see it
        async with it.node():

            async def timed_out() -> bool:
                return await it.heard(A) == ["at once", "failed: timeout"]

            await until(timed_out)
            await it.send(B, Do("answer at last"), Do("end completed done"))

            async def told() -> bool:
                return len(await it.heard(A)) == 4 and not await it.store.peek(A)

            await until(told)
            assert (await it.heard(A))[2:] == ["at last", f"{B} 1 completed done"] or (await it.heard(A))[
                3
            ] == "at last"
            assert set(await it.bonds(A)) == {"drawn"}
            assert await it.store.dead_letters() == []


async def test_field_12_what_was_put_aside_survives_a_node_and_keeps_its_order(dsn: str) -> None:
    texts = [str(n) for n in range(300)]
    async with desk(dsn) as it:
        async with it.node(drains=False):
            await it.send(SHELF, *[Note(text) for text in texts])

            async def aside() -> bool:
                return (await it.bonds(SHELF)).get("stashed") == 300

            await until(aside)
            assert {view.state for view in await it.store.peek(SHELF)} == {"stashed"}
        async with it.node():
            await it.send(SHELF, Note("open"), Note("x"), Note("y"))

            async def all_there() -> bool:
                return len(await it.got()) == 302

            await until(all_there)
            assert await it.got() == [*texts, "x", "y"]
            assert await it.store.peek(SHELF) == []


async def test_a_timer_is_handled_in_its_generation_and_leaves_the_bonds(dsn: str) -> None:
    async with desk(dsn) as it, it.node():
        await it.send(SHELF, Note("open"), Note("later fired"), Note("a"))

        async def fired() -> bool:
            return await it.got() == ["a", "fired"]

        await until(fired)
        turns = [turn for turn in await it.store.turns(SHELF) if turn.sender == "/sys/clock"]
        assert [turn.outcome for turn in turns] == ["done"]
        assert await it.bonds(SHELF) == {"drawn": 1}


async def test_field_4_an_ended_actor_is_spawned_again_and_its_watcher_hears_of_each_end(dsn: str) -> None:
    async with desk(dsn) as it, it.node():
        for n in range(1, 6):
            await it.send(A, Do(f"spawn {B} again watch; send {B} end completed"))

            async def heard(n: int = n) -> bool:
                return await it.heard(A) == [f"{B} {k} completed" for k in range(1, n + 1)]

            await until(heard)
        assert await it.store.dead_letters() == []


def test_peers_are_what_the_tree_hosts() -> None:
    assert {spec.actor for spec in world().children if isinstance(spec, Child)} == {Peer}
