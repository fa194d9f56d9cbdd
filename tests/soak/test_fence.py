"""A node process that is frozen in a turn and taken over commits nothing when it wakes; without the fence it does.

The second is the negative control: what finds nothing wrong in the first test would find it.
"""

import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from callboard.bench.unfenced import unfence
from callboard.persistence.postgres.database import Database
from tests.field.app import BEGAN, note
from tests.field.conftest import Field

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(900)]
SILENT = {"LEASE_SECONDS": "1500", "BEAT_SECONDS": "600"}
"""A node that looks so seldom whether it is still the owner that only the fence can stop it."""

SUPERSEDE = (
    "update callboard.node set epoch = epoch + 1, status = 'dead', ended_at = callboard.clock() where number = {}",
    "delete from callboard.heartbeat where node = {}",
    "update callboard.shard set node = null where node = {}",
)
"""What a take-over writes. It also cuts the connections of the one it ends, which would hide what the fence does."""


@pytest.fixture
async def field(made: str, tmp_path: Path) -> AsyncIterator[Field]:
    async with Field.open(made, tmp_path, BEGAN) as field:
        yield field


async def woken_after_a_take_over(field: Field) -> int:
    """Freeze a node in its turn, end it in the tables, let it go on; its number, once its commit was tried."""
    node = await field.node(**SILENT)
    [(number,)] = await field.rows("select number from callboard.node where status = 'up'")
    await field.do("a", "wait")
    await field.until("select 1 from began")
    node.send_signal(signal.SIGSTOP)
    async with await Database.open(field.dsn) as database:
        for statement in SUPERSEDE:
            await database.execute(statement.format(number))
    await note(field.dsn, "go")
    node.send_signal(signal.SIGCONT)
    # Either its turn lands, or it learns of its end and joins anew.
    await field.until(
        "select 1 from callboard.turn where type = 'field.do' union select 1 from callboard.node where number <> %s",
        number,
    )
    return int(number)


async def test_g3_a_frozen_node_that_wakes_commits_nothing_and_its_turn_is_done_once(field: Field) -> None:
    number = await woken_after_a_take_over(field)
    await field.counted("a", 1)
    assert await field.rows("select 1 from callboard.turn where type = 'field.do' and node = %s", number) == []
    assert [breach for breach in await field.breaches() if breach.number == "I4"] == []
    begun = await field.rows("select 1 from began where what = 'wait'")
    assert len(begun) == 2, "it was begun anew by who was in charge"


async def test_g3_fails_when_the_fence_is_off(field: Field) -> None:
    async with await Database.open(field.dsn) as database:
        changed = await unfence(database)
    assert any("commit_batch" in name for name in changed) and len(changed) >= 2
    number = await woken_after_a_take_over(field)
    assert await field.rows("select 1 from callboard.turn where type = 'field.do' and node = %s", number)
    assert any(breach.number == "I4" for breach in await field.breaches())
