"""G3: what a node was told, or has read, before its shards went elsewhere must not count any more when it arrives.

Both were found by the simulation; these are the shortest ways there.
"""

from collections.abc import Sequence
from typing import Any

import anyio
import pytest

from callboard.actors.context import Context
from callboard.actors.ownership import Ownership
from callboard.actors.testing import ManualPort, TestKit, all_tasks_wait
from callboard.mailbox.address import shard_of
from callboard.mailbox.envelope import Envelope
from callboard.persistence.rows import Member
from callboard.persistence.store import NodeInfo
from tests.actors.world import SETTINGS, Note, Probe, tree

pytestmark = pytest.mark.anyio


class SlowSession:
    """Takes a dead node's shards over at once, and takes its time to say so."""

    number = 1

    def __init__(self, port: ManualPort) -> None:
        self.port = port
        self.shards: set[int] = set()
        self.answer = anyio.Event()
        self.seen = anyio.Event()

    async def members(self) -> list[Member]:
        shards = len(self.shards)
        return [Member(1, 1, "me", "up", 0.0, shards), Member(3, 1, "other", "up", 0.0, 256 - shards)]

    async def owned(self) -> set[int]:
        return set(self.shards)

    async def watch(self, _member: Member, *, seconds: float) -> bool:
        if self.shards:
            await self.port.sleep(seconds)
        return not self.shards

    async def take_over(self, _member: Member, *, by: str) -> set[int]:
        self.shards = set(range(256))
        taken = set(self.shards)
        self.seen.set()
        await self.answer.wait()
        return taken


async def test_g3_a_late_answer_brings_no_shard_back() -> None:
    port = ManualPort()
    session = SlowSession(port)
    ownership = Ownership(session, NodeInfo("me"), port, None)  # type: ignore[arg-type]

    async def hand_out(_to: int | None, count: int) -> None:
        given = set(sorted(ownership.owned)[:count])
        session.shards -= given
        ownership.owned -= given

    ownership.hand_out = hand_out
    async with anyio.create_task_group() as group:
        ownership.members = await session.members()
        group.start_soon(ownership.run_watch)
        await session.seen.wait()
        group.start_soon(ownership.run)
        await port.advance(1.0)
        session.answer.set()
        await all_tasks_wait()
        await port.advance(1.0)
        assert len(session.shards) == 128, "half of them were given away"
        assert ownership.owned == session.shards
        group.cancel_scope.cancel()


async def test_g3_a_late_read_begins_nothing_of_a_shard_that_left() -> None:
    handled: list[tuple[str, int]] = []

    def script(_probe: Probe, _note: Note, ctx: Context) -> None:
        handled.append((ctx.address, ctx.node))

    async with TestKit(tree(script), nodes=1, settings=SETTINGS) as kit:
        await kit.advance(seconds=1)
        first = kit.session(kit.nodes[0])
        ready, gate = first.ready, anyio.Event()

        async def late(shards: Sequence[int], **options: Any) -> tuple[list[Envelope], str]:
            found = await ready(shards, **options)
            if any(envelope.type == "engine_test.note" for envelope in found[0]):
                await gate.wait()
            return found

        first.ready = late  # type: ignore[method-assign]
        addresses = [f"/t/p:{number}" for number in range(20)]
        await kit.store.send([await kit.client.envelope(address, Note("a")) for address in addresses])
        await kit.settle()
        assert handled == [], "they are read, and the answer is on its way"
        await kit.join()
        await kit.advance(seconds=2)
        gate.set()
        await kit.advance(seconds=2)
        assert sorted(address for address, _ in handled) == sorted(addresses), "each was begun once"
        for address, number in handled:
            assert kit.store.cluster.owners[shard_of(address)] == number


class Refusing:
    """Sees a silent node, and is not yet allowed to take it over."""

    number = 1

    def __init__(self) -> None:
        self.asked = 0

    async def members(self) -> list[Member]:
        return [Member(1, 1, "me", "up", 0.0, 0), Member(3, 1, "silent", "up", 60.0, 256)]

    async def take_over(self, _member: Member, *, by: str) -> set[int]:
        self.asked += 1
        assert self.asked < 100, "it is asked for over and over"
        return set()


async def test_a_take_over_that_is_refused_is_asked_for_once_a_beat() -> None:
    port, session = ManualPort(), Refusing()
    ownership = Ownership(session, NodeInfo("me"), port, None)  # type: ignore[arg-type]
    ownership.draining = True
    async with anyio.create_task_group() as group:
        group.start_soon(ownership.run)
        with anyio.move_on_after(20):
            await port.advance(2.0)
        assert 0 < session.asked <= 2.0 / ownership.info.beat_seconds + 1
        group.cancel_scope.cancel()
