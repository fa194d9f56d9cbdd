"""What careless handlers write, on PostgreSQL: it is their own actor's affair there too."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from secrets import token_hex
from typing import Any

import anyio
import msgspec
import pytest

from callboard.actors.client import Client
from callboard.actors.context import Context
from callboard.actors.directives import Park
from callboard.actors.node import Node, NodeSettings
from callboard.actors.spec import Tree
from callboard.actors.system import Resume
from callboard.mailbox.lane import Lane
from callboard.persistence.postgres import PostgresStore, create_schema
from tests.actors.test_attacks import ACTS, ONE, TWO, Memory
from tests.actors.world import Note, Probe, tree

pytestmark = pytest.mark.anyio


async def eventually(condition: Callable[[], Awaitable[bool]]) -> None:
    with anyio.fail_after(180):
        while not await condition():  # noqa: ASYNC110 - only the server knows
            await anyio.sleep(0.02)


@asynccontextmanager
async def desk(dsn: str, act: Callable[[Context], Any]) -> AsyncIterator[tuple[PostgresStore, Client]]:
    """A node on PostgreSQL whose probes do `act` when they are told "bad"."""

    def script(_probe: Probe, note: Note, ctx: Context) -> None:
        if note.text == "bad":
            act(ctx)

    await create_schema(dsn)
    async with PostgresStore(dsn) as store, anyio.create_task_group() as group:
        node = Node(store, Tree(tree(script)), settings=NodeSettings(drain_seconds=0.5))
        group.start_soon(node.run)
        await node.ready.wait()
        yield store, Client(store)
        group.cancel_scope.cancel()


async def test_an_actor_that_parks_at_its_very_first_message_is_parked_and_begins_when_it_is_resumed(dsn: str) -> None:
    parked = [Park("look")]

    def act(_ctx: Context) -> None:
        if parked:
            raise parked.pop()

    async with desk(dsn, act) as (store, client):
        await client.send(ONE, Note("bad"))

        async def has(state: str, texts: int) -> bool:
            row = await store.actor(ONE)
            found = msgspec.msgpack.decode(row.state, type=Memory).notes if row is not None and row.state else []
            return row is not None and row.status == state and len(found) == texts

        await eventually(lambda: has("parked", 0))
        await client.send(ONE, Resume("jo"), lane=Lane.SYSTEM)
        await eventually(lambda: has("active", 1))
        assert await store.dead_letters() == []


HARD = {
    name: act
    for name, act in ACTS.items()
    if not name.startswith(("an error", "park", "reject", "fatal", "again", "a directive"))
} | {
    "a huge key": lambda ctx: ctx.schedule(token_hex(20_000), 0, Note("tick")),
    "a huge address": lambda ctx: ctx.send("".join(f"/a:{token_hex(99)}" for _ in range(16)), Note("x")),
    "a lane of its own": lambda ctx: ctx.send(TWO, Note(), lane=7),
    "a negative release": lambda ctx: ctx.release(-(1 << 70)),
}


async def test_g7_whatever_a_handler_writes_is_its_own_actors_affair_on_postgres_too(dsn: str) -> None:
    acts = list(HARD.values())

    def act(ctx: Context) -> None:
        acts[int(ctx.address.rpartition(":")[2])](ctx)

    async with desk(dsn, act) as (store, client):
        for number in range(len(acts)):
            await client.send(f"/t/p:{number}", Note("ok"))
            await client.send(f"/t/p:{number}", Note("bad"))
        await client.send("/t/p:other", Note("alive"))

        async def all_began() -> bool:
            rows = [await store.actor(f"/t/p:{name}") for name in (*range(len(acts)), "other")]
            return all(row is not None and row.state for row in rows)

        await eventually(all_began)
        await client.send("/t/p:after", Note("alive"))

        async def goes_on() -> bool:
            return await store.actor("/t/p:after") is not None

        await eventually(goes_on)
        assert [member.number for member in [await store.owner(0)] if member is not None] == [1]
