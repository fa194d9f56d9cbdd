"""After an outage: every session is back, the lock is held again, nothing is lost."""

from collections.abc import AsyncIterator

import pytest

from callboard.mailbox.errors import StaleEpoch, StoreUnavailable
from callboard.persistence.port import RealPort
from callboard.persistence.postgres import PostgresSession, PostgresStore
from callboard.persistence.store import NodeInfo, Wake
from tests.contract.build import AGENT, message, unit
from tests.postgres.conftest import Look, until

pytestmark = pytest.mark.anyio


@pytest.fixture
async def node(store: PostgresStore, port: RealPort) -> AsyncIterator[PostgresSession]:
    async with store.join(NodeInfo(boot="b", lease_seconds=30.0, beat_seconds=0.02), port) as session:
        await session.claim()
        await session.start_heart(lambda: True)
        yield session


async def cut(look: Look, purpose: str) -> int:
    [(count,)] = await look(
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = current_database() "
        "AND application_name LIKE %s",
        f"callboard node %{purpose}",
    )
    return int(count)


@pytest.mark.parametrize("purpose", ["commit", "read", "control", "listen", "watch", "heart"])
async def test_g8_any_session_can_be_cut(node: PostgresSession, store: PostgresStore, look: Look, purpose: str) -> None:
    assert await cut(look, purpose) == 1
    await until(node.reconnect)
    assert (await node.commit([unit(sends=[message()])])).rejected == {}
    assert len((await node.ready(range(256), per_actor=10, limit=10))[0]) == 1
    assert len(await node.owned()) == 256
    [member] = await node.members()

    async def beats() -> bool:
        [(age,)] = await look("SELECT extract(epoch FROM clock_timestamp() - beat_at) FROM callboard.heartbeat")
        return float(age) < 0.5

    await until(beats)
    assert (member.number, member.epoch) == (node.number, node.epoch)


async def test_g8_all_sessions_are_cut_and_the_lock_is_held_again(node: PostgresSession, look: Look) -> None:
    assert await cut(look, "") == 6
    with pytest.raises(StoreUnavailable):
        await node.commit([unit()])
    await until(node.reconnect)
    assert await look("SELECT callboard.lock_held(%s)", node.number) == [(True,)]

    async def both_hold_it() -> bool:
        [(count,)] = await look(
            "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ShareLock' AND granted"
        )
        return bool(count == 2)

    await until(both_hold_it)


async def test_s11_after_reconnecting_everything_is_looked_at(node: PostgresSession, look: Look) -> None:
    await cut(look, "listen")
    with pytest.raises(StoreUnavailable):
        await node.wake(60)
    await until(node.reconnect)
    assert await node.wake(0) == Wake(None, members_changed=True)
    assert await node.wake(0) is None


async def test_reconnecting_when_nothing_is_broken_wakes_nobody(node: PostgresSession) -> None:
    assert await node.reconnect()
    assert await node.wake(0) is None


async def test_after_an_outage_nobody_is_judged_by_a_lease_at_once(
    node: PostgresSession, store: PostgresStore, port: RealPort, look: Look
) -> None:
    async with store.join(NodeInfo(boot="other", lease_seconds=0.05), port) as other:
        member = next(member for member in await node.members() if member.number == other.number)
        await cut(look, "read")
        await until(node.reconnect)
        assert await node.take_over(member, by="lease") == set()


async def test_a_superseded_node_learns_it(node: PostgresSession, look: Look) -> None:
    await look("UPDATE callboard.node SET epoch = epoch + 1, status = 'dead', ended_at = now()")
    with pytest.raises(StaleEpoch):
        await node.reconnect()


async def test_leaving_gives_everything_back_though_the_sessions_were_cut(
    store: PostgresStore, port: RealPort, look: Look
) -> None:
    async with store.join(NodeInfo(boot="b"), port) as session:
        await session.claim()
        await cut(look, "")
    assert await look("SELECT count(*) FROM callboard.shard WHERE node IS NOT NULL") == [(0,)]
    assert await look("SELECT status FROM callboard.node") == [("left",)]


async def test_a_node_that_cannot_reach_the_database_is_told_so(made: str, port: RealPort) -> None:
    session = PostgresSession("postgresql://nobody@127.0.0.1:1/nowhere", NodeInfo(boot="b"), port)
    with pytest.raises(StoreUnavailable):
        await session.enter()
    await session.exit()
    assert AGENT
