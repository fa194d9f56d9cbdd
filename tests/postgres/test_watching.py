"""Watching (rule 9 and 10): a real process is killed, frozen, or only loses some of its connections."""

import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from functools import partial

import anyio
import pytest

from callboard.persistence.port import RealPort
from callboard.persistence.postgres import PostgresSession, PostgresStore
from callboard.persistence.rows import Member
from callboard.persistence.store import NodeInfo
from tests.postgres.conftest import Look, lock_is_free, until

pytestmark = pytest.mark.anyio

_VICTIM = """
import asyncio, sys
from callboard.persistence.port import RealPort
from callboard.persistence.postgres import PostgresStore
from callboard.persistence.store import NodeInfo

async def main():
    async with PostgresStore(sys.argv[1]) as store:
        info = NodeInfo(boot="victim", lease_seconds=8.0, beat_seconds=0.05)
        async with store.join(info, RealPort()) as session:
            await session.claim()
            await session.start_heart(lambda: True)
            print("up", flush=True)
            await asyncio.Event().wait()

asyncio.run(main())
"""


@contextmanager
def victim(dsn: str) -> Iterator["subprocess.Popen[str]"]:
    """A node in a process of its own, up and beating."""
    process = subprocess.Popen([sys.executable, "-c", _VICTIM, dsn], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        yield process
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


@pytest.fixture
async def watcher(store: PostgresStore, port: RealPort) -> AsyncIterator[PostgresSession]:
    async with store.join(NodeInfo(boot="watcher"), port) as session:
        await session.start_heart(lambda: True)
        yield session


async def member_called(node: PostgresSession, boot: str) -> Member:
    return next(member for member in await node.members() if member.boot == boot)


async def test_g7_a_killed_process_is_noticed_at_once_and_taken_over(
    made: str, watcher: PostgresSession, port: RealPort
) -> None:
    with victim(made) as process:
        member = await member_called(watcher, "victim")
        assert not await watcher.watch(member, seconds=0.05)
        assert await watcher.take_over(member, by="lock") == set()
        process.kill()
        started = port.monotonic()
        assert await watcher.watch(member, seconds=250)
        assert len(await watcher.take_over(member, by="lock")) == 256
        assert port.monotonic() - started < 100, "it was found by looking again, not noticed"
        assert await watcher.take_over(member, by="lock") == set()


async def test_g7_a_frozen_process_is_taken_over_by_its_lease(made: str, watcher: PostgresSession) -> None:
    with victim(made) as process:
        member = await member_called(watcher, "victim")
        assert await watcher.take_over(member, by="lease") == set()
        process.send_signal(signal.SIGSTOP)

        async def taken() -> bool:
            return len(await watcher.take_over(member, by="lease")) == 256

        await until(taken)
        process.send_signal(signal.SIGCONT)


async def test_rule_9_a_lock_that_was_never_seen_held_is_no_evidence(
    made: str, watcher: PostgresSession, look: Look
) -> None:
    with victim(made) as process:
        member = await member_called(watcher, "victim")
        process.kill()
        process.wait()
        await until(partial(lock_is_free, look, member.number))
        assert not await watcher.watch(member, seconds=0.05)


async def test_rule_9_what_another_connection_has_seen_is_no_evidence(
    made: str, watcher: PostgresSession, look: Look
) -> None:
    with victim(made) as process:
        member = await member_called(watcher, "victim")
        assert not await watcher.watch(member, seconds=0.05)
        process.kill()
        process.wait()
        await until(partial(lock_is_free, look, member.number))
        # As after a restart of the server: the watcher's connection is another one.
        await look("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE '%% watch'")
        await until(watcher.reconnect)
        assert not await watcher.watch(member, seconds=0.05)


async def test_rule_9_a_watcher_that_holds_the_lock_for_a_moment_is_not_the_member(
    made: str, watcher: PostgresSession, look: Look
) -> None:
    with victim(made) as process:
        member = await member_called(watcher, "victim")
        process.kill()
        process.wait()
        # Another watcher was granted the lock: exclusively, and that is how it is told from the member.
        await look("SELECT pg_advisory_lock(callboard.lock_class(), %s)", member.number)
        assert not await watcher.watch(member, seconds=0.05)


async def test_rule_10_one_cut_connection_is_no_death(made: str, watcher: PostgresSession, look: Look) -> None:
    with victim(made):
        member = await member_called(watcher, "victim")
        assert not await watcher.watch(member, seconds=0.05)
        [(ended,)] = await look(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = %s",
            f"callboard node {member.number} epoch {member.epoch} commit",
        )
        assert ended == 1
        assert not await watcher.watch(member, seconds=0.3)


async def test_a_returning_node_gets_its_lock_while_it_is_watched(
    watcher: PostgresSession, store: PostgresStore, port: RealPort, look: Look
) -> None:
    async with store.join(NodeInfo(boot="victim"), port) as node, anyio.create_task_group() as group:
        await node.start_heart(lambda: True)
        group.start_soon(partial(watcher.watch, await member_called(watcher, "victim"), seconds=250))
        await until(partial(_lock_is_waited_for, look, node.number))
        await look("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s",
                   f"callboard node {node.number} epoch {node.epoch} commit")  # fmt: skip
        started = port.monotonic()
        await until(node.reconnect)
        assert port.monotonic() - started < 100, "it waited until the watcher's look was over"
        group.cancel_scope.cancel()


async def _lock_is_waited_for(look: Look, number: int) -> bool:
    rows = await look(
        "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND objid = %s::bigint::oid AND NOT granted", number
    )
    return bool(rows)


async def test_rule_11_a_heart_whose_loop_is_dead_beats_no_more(
    watcher: PostgresSession, store: PostgresStore, port: RealPort, look: Look
) -> None:
    alive = [True]
    async with store.join(NodeInfo(boot="hung", lease_seconds=0.1, beat_seconds=0.02), port) as node:
        await node.claim()
        await node.start_heart(lambda: alive[0])
        member = await member_called(watcher, "hung")
        alive[0] = False

        async def taken() -> bool:
            return len(await watcher.take_over(member, by="lease")) == 256

        await until(taken)


async def test_the_servers_log_stays_quiet_while_waiting(watcher: PostgresSession, store: PostgresStore) -> None:
    # A timeout that reached the client would be an error in the log, several a second for each node.
    link = watcher._links["watch"]
    async with store.join(NodeInfo(boot="victim"), RealPort()) as node:
        assert await link.run("await_lock", {"number": node.number, "milliseconds": 20}) == [(False,)]
    [(free,)] = await link.run("await_lock", {"number": node.number, "milliseconds": 20_000})
    assert free
    [(held,)] = await link.run("lock_held", {"number": node.number})
    assert not held
