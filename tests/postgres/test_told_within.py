"""What is for somebody of this process is told within it, without the server; for everybody else nothing changes."""

from collections.abc import Sequence
from typing import Any

import anyio
import pytest

from callboard.mailbox.address import CLIENT_SHARD
from callboard.persistence.port import RealPort
from callboard.persistence.postgres import PostgresSession, PostgresStore, connect
from callboard.persistence.postgres import store as store_module
from callboard.persistence.postgres.listener import EARLY, Listener
from callboard.persistence.store import NodeInfo
from tests.contract.build import SHARD, message, unit
from tests.postgres.conftest import Look

pytestmark = pytest.mark.anyio

HANG_SECONDS = 60.0


def info(boot: str) -> NodeInfo:
    return NodeInfo(boot=boot, lease_seconds=30.0, beat_seconds=0.1)


async def settle(node: PostgresSession) -> None:
    """Take the wake-ups that joining and claiming caused."""
    while await node.wake(0.25) is not None:
        pass


async def woken(node: PostgresSession) -> bool:
    with anyio.fail_after(HANG_SECONDS):
        while True:
            wake = await node.wake(HANG_SECONDS)
            if wake is not None and (wake.shards is None or SHARD in wake.shards):
                return True


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Wake-ups that went to the server."""
    found: list[Any] = []
    original = connect.run

    async def run(connection: Any, query: str, params: Any, seconds: float) -> Sequence[Any]:
        if query == "wake_owners":
            found.append(params)
        return await original(connection, query, params, seconds)

    # Both ways there: of what a node has committed, and of what is sent from outside.
    monkeypatch.setattr(connect, "run", run)
    monkeypatch.setattr(store_module, "run", run)
    return found


async def test_s11_a_node_of_this_process_is_woken_without_the_server(
    store: PostgresStore, port: RealPort, said: list[Any]
) -> None:
    async with store.join(info("b"), port) as node:
        await node.claim()
        await settle(node)
        await store.send([message()])
        assert await woken(node)
    assert said == []


async def test_s11_a_shard_that_was_given_away_is_told_of_by_the_server(
    store: PostgresStore, port: RealPort, said: list[Any], dsn: str
) -> None:
    async with (
        PostgresStore(dsn) as elsewhere,
        store.join(info("a"), port) as node,
        elsewhere.join(info("b"), port) as other,
    ):
        await node.claim()
        await node.give([SHARD], other.number)
        await settle(other)
        await store.send([message()])
        assert len(said) == 1
        assert await woken(other)


async def test_s11_a_reply_to_an_asker_of_this_process_needs_no_server(
    store: PostgresStore, port: RealPort, said: list[Any]
) -> None:
    number = await store.lease_number("me", seconds=60)
    mine = f"/sys/client:{number}-a"
    async with store.join(info("b"), port) as node:
        await node.claim()
        reply = message(mine)
        found: list[int] = []

        async def receive() -> None:
            found.extend(e.id for e in await store.receive(mine, seconds=HANG_SECONDS, port=port, fresh=True))

        with anyio.fail_after(HANG_SECONDS):
            async with anyio.create_task_group() as group:
                group.start_soon(receive)
                await node.commit([unit(sends=[reply])])
                await node.notify([(CLIENT_SHARD, mine)])
    assert found == [reply.id]
    assert said == []


async def test_s11_a_reply_to_an_asker_elsewhere_is_told_by_the_server(
    store: PostgresStore, port: RealPort, said: list[Any], dsn: str
) -> None:
    async with PostgresStore(dsn) as elsewhere, store.join(info("b"), port) as node:
        await node.claim()
        number = await elsewhere.lease_number("them", seconds=60)
        await node.notify([(CLIENT_SHARD, f"/sys/client:{number}-a")])
    assert len(said) == 1


async def test_s11_where_the_listening_session_is_cut_the_asker_still_has_its_reply(
    store: PostgresStore, port: RealPort, look: Look
) -> None:
    async with store.join(info("b"), port) as node:
        await node.claim()
        for turn in range(2):
            mine = f"/sys/client:2000-{turn}"
            await node.commit([unit(f"/desk/agent:{turn}", sends=[message(mine)])])
            with anyio.fail_after(HANG_SECONDS):
                assert len(await store.receive(mine, seconds=HANG_SECONDS, port=port, fresh=True)) == 1
            await look(
                "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = current_database() "
                "AND application_name = 'callboard client replies'"
            )


async def test_news_before_the_waiting_is_remembered_and_bounded() -> None:
    listener = Listener("nowhere")
    for number in range(EARLY + 1):
        listener.tell(f"/sys/somebody-{number}")
    assert not (await listener.attend("/sys/somebody-0")).news, "the oldest is forgotten: who waits for it polls"
    assert (await listener.attend("/sys/somebody-1")).news
    assert not (await listener.attend("/sys/somebody-1")).news, "it is news once"
