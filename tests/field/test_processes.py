"""Failures of SEMANTICS §3 that need real processes and a real PostgreSQL. The numbers are those of that table."""

import signal

import anyio
import psycopg
import pytest

from callboard.actors.client import Client
from callboard.actors.system import Cancel
from callboard.mailbox.errors import StoreUnavailable
from callboard.mailbox.lane import Lane

from .app import Do, note
from .conftest import Field

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(900)]


async def test_failure_05_stuck_executing_after_a_kill_is_handled_again_by_another_node(field: Field) -> None:
    await field.node()
    await field.node()
    await field.do("a", "wait")
    [(pid,)] = await field.until("select pid from began")
    field.running(pid).kill()
    await field.until(f"select 1 from began where pid <> {pid}")
    await note(field.dsn, "go")
    assert (await field.counted("a", 1)).done == 1
    await field.do("a", "")
    assert (await field.counted("a", 2)).done == 2
    turns = await field.store.turns("/field/counter:a")
    assert [turn.outcome for turn in turns] == ["done", "done"]
    assert await field.breaches() == []


async def test_failure_06_a_node_that_takes_its_dead_twins_name_is_not_taken_for_it(field: Field) -> None:
    orphan = await field.node("same-host/1", LEASE_SECONDS="4")
    await field.do("a", "")
    await field.counted("a", 1)
    orphan.send_signal(signal.SIGSTOP)
    await field.do("a", "sleep 0")
    await field.node("same-host/1", LEASE_SECONDS="4")
    await field.counted("a", 2)
    orphan.send_signal(signal.SIGCONT)
    await field.do("a", *[""] * 20)
    assert (await field.counted("a", 22)).done == 22
    assert await field.breaches() == []
    assert (await field.rows("select count(*) from callboard.dead_letter")) == [(0,)]


async def test_failure_07_a_handler_and_a_call_of_five_leases_run_once(field: Field) -> None:
    await field.node(LEASE_SECONDS="3", BEAT_SECONDS="0.1")
    await field.node(LEASE_SECONDS="3", BEAT_SECONDS="0.1")
    lost, attempt = -1, 0
    names: list[str] = []
    # A node that a busy machine keeps from beating for a lease is rightly taken over: once more, then. What it had
    # begun may still leave a row when it wakes, so each time has names of its own.
    while (now := await _lost_nodes(field)) != lost and attempt < 30:
        lost, attempt = now, attempt + 1
        names = [f"sleep 15.{attempt:03}", f"work /field/counter:b{attempt}", f"worked /field/counter:b{attempt}"]
        await field.do(f"a{attempt}", names[0])
        await field.do(f"b{attempt}", "work 15")
        await field.counted(f"a{attempt}", 1)
        await field.counted(f"b{attempt}", 1, answers=1)
    counted = "select what, count(*) from began where what = any(%s) group by what"
    found = sorted(await field.rows(counted, names))
    assert found == [(name, 1) for name in names], f"{lost} nodes were lost before"


async def _lost_nodes(field: Field) -> int:
    [(count,)] = await field.rows("select count(*) from callboard.node where status = 'dead'")
    return int(count)


async def test_failure_10_a_message_with_its_budget_spent_is_a_dead_letter_and_nothing_else(field: Field) -> None:
    """Also when its node is killed between its attempts."""
    for _ in range(2):
        await field.node()
    await field.do("a", "", "fail", "")
    for _ in range(3):
        await field.until(
            "select 1 from callboard.message where failures > 0 union select 1 from callboard.dead_letter"
        )
        field.processes[-1].kill()
        await field.node()
    assert (await field.counted("a", 2)).done == 2
    [letter] = await field.store.dead_letters()
    assert (letter.reason, letter.envelope.failures) == ("failed", 5)
    assert await field.rows("select id from callboard.message where failures >= 5") == []
    assert await field.breaches() == []


async def test_failure_21_sigterm_with_twenty_calls_running_finishes_or_returns_them_uncharged(field: Field) -> None:
    await field.node("first", DRAIN_SECONDS="25")
    quick, slow = [f"q{n}" for n in range(10)], [f"s{n}" for n in range(10)]
    for key in quick:
        await field.do(key, "work 2")
    for key in slow:
        await field.do(key, "work 600")
    await field.until("select 1 from began where what like 'work /%%' having count(*) = %s", 20)
    assert await field.end(field.processes[0], signal.SIGTERM) == 3  # work was given back
    assert await field.rows("select count(*) from began where what like 'worked %'") == [(10,)]
    waiting = await field.rows("select failures, losses, held from callboard.message where type = 'field.work'")
    assert waiting == [(0, 0, False)] * 10, "the ten slow ones are there, uncharged"
    assert await field.rows("select count(*) from callboard.dead_letter") == [(0,)]


async def test_failure_21_a_second_sigterm_is_immediate(field: Field) -> None:
    node = await field.node(DRAIN_SECONDS="60")
    await field.do("a", "work 600")
    await field.until("select 1 from began")
    node.send_signal(signal.SIGTERM)
    await field.until("select 1 from callboard.node where status = 'draining'")
    assert await field.end(node, signal.SIGTERM) == 128 + signal.SIGTERM


async def test_failure_25_a_listener_that_dies_is_replaced_and_nobody_spins(field: Field) -> None:
    await field.node()
    await field.do("a", "")
    await field.counted("a", 1)
    listeners = (
        "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() "
        "and query ilike 'listen %' and pid <> pg_backend_pid()"
    )
    assert await field.rows(listeners), "there is a connection that listens"
    await field.do("a", "")
    await field.counted("a", 2)
    await field.until(
        "select 1 from pg_stat_activity where datname = current_database() and query ilike 'listen %'"
        " and pid <> pg_backend_pid()"
    )
    took: list[float] = []
    # By the poll alone each takes about a second, however often; a busy machine is quick enough for one of many.
    while not took or (min(took) >= 0.8 and len(took) < 60):
        began = anyio.current_time()
        await field.do("a", "")
        await field.counted("a", 3 + len(took))
        took.append(anyio.current_time() - began)
    assert min(took) < 0.8, "each of them was found by the next poll only"
    rates: list[float] = []
    # The server counts late, so that what was done before may count too; a spin would be seen each time.
    while not rates or (min(rates) >= 100 and len(rates) < 30):
        rates.append(await _transactions_a_second(field))
    assert min(rates) < 100, "a hundred transactions a second by an idle node would be a busy spin"


async def _transactions_a_second(field: Field) -> float:
    """Of the test's database, for a while."""
    look = (
        "select clock_timestamp(), xact_commit + xact_rollback from pg_stat_database where datname = current_database()"
    )
    [(began, before)] = await field.rows(look)
    await anyio.sleep(2)
    [(ended, after)] = await field.rows(look)
    return float((after - before) / (ended - began).total_seconds())


async def test_failure_26_no_commit_carries_a_notify_of_its_own(field: Field) -> None:
    """What wakes others runs after the commit, on a connection of its own: NOTIFY serialises the commits it is in."""
    found = await field.rows(
        "select p.proname from pg_proc p join pg_namespace n on n.oid = p.pronamespace "
        "where n.nspname = 'callboard' and p.prosrc ~* 'pg_notify|notify '"
    )
    notifying = {name for (name,) in found}
    assert notifying, "somebody wakes others"
    committing = await field.rows("select prosrc from pg_proc where proname like 'commit%' or proname = 'misfits'")
    assert committing
    for (source,) in committing:
        assert not any(name in source for name in notifying)


async def test_failure_29_a_cancel_reaches_the_call_and_its_result_never_lands(field: Field) -> None:
    await field.node()
    await field.do("a", "work 600")
    await field.until("select 1 from began")
    await field.client.send("/field/counter:a", Cancel(by="dana", reason="enough"), lane=Lane.SYSTEM)
    await field.until("select 1 from callboard.actor where address = '/field/counter:a' and status = 'cancelled'")
    await field.until("select 1 from callboard.turn where type = 'field.work' and outcome = 'cancelled'")
    assert await field.rows("select id from callboard.message where type = 'field.work'") == []
    # The place it took is free again: the call was stopped, not only forgotten.
    for number in range(64):
        await field.do(f"b{number}", "work 0")
    await field.until("select 1 from began where what like 'worked %' having count(*) = 64")
    assert (await field.count("a")).answers == 0


async def test_failure_29_a_cancel_reaches_a_waiting_handler_and_its_turn_never_lands(field: Field) -> None:
    await field.node()
    await field.do("a", "", "sleep 600")
    await field.until("select 1 from began")
    await field.client.send("/field/counter:a", Cancel(by="dana", reason="enough"), lane=Lane.SYSTEM)
    await field.until("select 1 from callboard.actor where address = '/field/counter:a' and status = 'cancelled'")
    assert (await field.count("a")).done == 1


async def test_failure_32_one_bad_message_does_not_block_its_actor(field: Field) -> None:
    await field.node()
    await field.do("a", "fail", "")
    assert (await field.counted("a", 1)).done == 1
    [letter] = await field.store.dead_letters()
    assert letter.reason == "failed"


async def test_failure_23_an_exception_is_seen_in_the_tables_and_by_who_looks(field: Field) -> None:
    await field.node()
    await field.client.send("/field/patient:a", Do("fail"))
    await field.until("select 1 from callboard.message where failures > 0")
    [view] = await field.store.peek("/field/patient:a")
    assert "told to fail" in view.envelope.last_error
    await field.do("a", "fail")
    await field.until("select 1 from callboard.dead_letter")
    [letter] = await field.store.dead_letters()
    assert "told to fail" in letter.detail


async def test_failure_31_a_failed_turn_leaves_no_trace_in_the_next_one(field: Field) -> None:
    await field.node()
    await field.do("a", "", "fail", "")
    assert (await field.counted("a", 2)).done == 2, "the failed turns counted too, and that was forgotten each time"


async def test_a_database_restart_and_a_client_outage_lose_no_send(field: Field) -> None:
    """A send that was accepted is there once; one that was cut off says so, and under its id it may be said again."""
    await field.node()
    async with field.store.__class__(field.dsn) as store:
        client = Client(store)

        async def send(number: int) -> None:
            while True:
                try:
                    await client.send("/field/counter:a", Do(), client_id=f"n{number}")
                    return
                except StoreUnavailable:
                    continue

        for number in range(20):
            await send(number)
            if number == 10:
                async with await psycopg.AsyncConnection.connect(field.dsn, autocommit=True) as connection:
                    await connection.execute(
                        "select pg_terminate_backend(pid) from pg_stat_activity "
                        "where datname = current_database() and pid <> pg_backend_pid()"
                    )
    assert (await field.counted("a", 20)).done == 20


async def test_a_node_that_is_out_of_memory_drains_and_says_so_to_who_keeps_it_alive(field: Field) -> None:
    node = await field.node()
    await field.do("a", "exhaust", "")
    assert await field.ended(node) == 70
    await field.node()
    assert (await field.counted("a", 2)).done == 2
    assert await field.rows("select count(*) from callboard.dead_letter") == [(0,)]
