"""The fence (S2) on real row locks, and what a cancelled caller leaves behind."""

from collections.abc import AsyncIterator
from functools import partial

import anyio
import psycopg
import pytest

from callboard.mailbox.address import shard_of
from callboard.mailbox.errors import StaleEpoch, StoreUnavailable
from callboard.persistence.port import RealPort
from callboard.persistence.postgres import PostgresSession, PostgresStore
from callboard.persistence.rows import Member
from callboard.persistence.store import NodeInfo
from tests.contract.build import AGENT, message, next_id, unit, waiting
from tests.postgres.conftest import Look, lock_is_free, until

pytestmark = pytest.mark.anyio

SHORT = NodeInfo(boot="short", lease_seconds=0.05)


@pytest.fixture
async def owner(store: PostgresStore, port: RealPort) -> AsyncIterator[PostgresSession]:
    async with store.join(SHORT, port) as session:
        await session.claim()
        yield session


async def as_member(heir: PostgresSession, node: PostgresSession) -> Member:
    return next(member for member in await heir.members() if member.number == node.number)


FENCED = {
    "fence": "SELECT callboard.fence(%s, %s)",
    "batch": "SELECT callboard.commit_batch(%s, %s, NULL, NULL, NULL, 0, NULL, NULL, NULL, NULL)",
}
"""What begins a transaction behind the fence; a batch of turns has it written out, as a call of it costs."""


@pytest.mark.parametrize("begin", FENCED)
async def test_s2_a_take_over_waits_for_the_commit_in_flight_and_reads_what_it_wrote(
    begin: str, *, made: str, store: PostgresStore, port: RealPort, owner: PostgresSession, look: Look
) -> None:
    late = next_id()
    async with store.join(NodeInfo(boot="heir"), port) as heir:
        member = await as_member(heir, owner)
        taken: list[set[int]] = []

        async def take_over() -> None:
            taken.append(await heir.take_over(member, by="lock"))

        # A commit in flight that outlives its node's process: begun, fenced, not yet over.
        async with await psycopg.AsyncConnection.connect(made) as flight, anyio.create_task_group() as group:
            await flight.execute(FENCED[begin].encode(), (owner.number, owner.epoch))
            await flight.execute(
                "INSERT INTO callboard.message SELECT %s, %s, %s, '', 2, 'note', 1, '{}', 0, 0, 0, now(), '', '', 0, "
                "0, false, 0, false, now()",
                (shard_of(AGENT), late, AGENT),
            )
            await owner.crash()
            await until(partial(lock_is_free, look, owner.number))
            group.start_soon(take_over)
            await until(partial(_waits_for_a_row, look))
            assert taken == []
            await flight.commit()
        assert len(taken[0]) == 256
        assert await waiting(heir) == [late]


async def _waits_for_a_row(look: Look) -> bool:
    [(count,)] = await look(
        "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE '%% control' "
        "AND wait_event_type = 'Lock' AND wait_event = 'transactionid'"
    )
    return bool(count)


async def test_g3_a_stale_epoch_commits_nothing(
    store: PostgresStore, port: RealPort, owner: PostgresSession, look: Look
) -> None:
    await look("UPDATE callboard.node SET epoch = epoch + 1, status = 'dead', ended_at = now()")
    with pytest.raises(StaleEpoch, match="superseded"):
        await owner.commit([unit()])
    assert await store.actor(AGENT) is None


async def test_s2_a_zombie_is_cut_off_and_learns_it_when_it_reconnects(
    store: PostgresStore, port: RealPort, owner: PostgresSession, look: Look
) -> None:
    async with store.join(NodeInfo(boot="heir"), port) as heir:
        await until(partial(_silent, heir))
        assert len(await heir.take_over(await as_member(heir, owner), by="lease")) == 256
        await until(partial(_has_no_session, owner, look))
        with pytest.raises(StoreUnavailable):
            await owner.commit([unit()])
        with pytest.raises(StaleEpoch):
            await owner.reconnect()
        assert await store.actor(AGENT) is None


async def _has_no_session(node: PostgresSession, look: Look) -> bool:
    named = f"callboard node {node.number} epoch {node.epoch} %"
    return not await look("SELECT 1 FROM pg_stat_activity WHERE application_name LIKE %s", named)


async def test_two_nodes_that_take_each_other_for_dead_do_not_deadlock(
    store: PostgresStore, port: RealPort, owner: PostgresSession
) -> None:
    async with store.join(SHORT, port) as other:
        first, second = await as_member(other, owner), await as_member(owner, other)
        await until(partial(_silent, other))
        outcomes: list[str] = []

        async def take_over(heir: PostgresSession, member: Member) -> None:
            try:
                await heir.take_over(member, by="lease")
                outcomes.append("took")
            except (StaleEpoch, StoreUnavailable):
                outcomes.append("lost")

        with anyio.fail_after(60):
            async with anyio.create_task_group() as group:
                group.start_soon(take_over, other, first)
                group.start_soon(take_over, owner, second)
        assert sorted(outcomes) == ["lost", "took"]


async def _silent(node: PostgresSession) -> bool:
    return all(member.beat_age_seconds > 0.1 for member in await node.members())


async def test_a_cancelled_caller_does_not_break_off_the_commit(store: PostgresStore, owner: PostgresSession) -> None:
    with anyio.CancelScope() as scope:
        scope.cancel()
        result = await owner.commit([unit(sends=[message()])])
        assert result.rejected == {}
    assert await store.actor(AGENT) is not None
    assert (await owner.commit([unit(expected=1)])).rejected == {}


async def test_a_number_is_not_used_again_while_it_owns_anything(
    store: PostgresStore, port: RealPort, look: Look
) -> None:
    await look("INSERT INTO callboard.node SELECT g, 7, '', '', 'left', 1, false, now(), now() - interval '1 hour' "
               "FROM generate_series(1, 1023) g")  # fmt: skip
    await look("UPDATE callboard.node SET ended_at = now() - interval '1 day' WHERE number IN (5, 6)")
    await look("UPDATE callboard.shard SET node = 5 WHERE id = 0")
    async with store.join(NodeInfo(boot="b"), port) as session:
        assert (session.number, session.epoch) == (6, 8)
