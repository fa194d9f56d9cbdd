"""The committer alone: what it takes into a batch, and what it does when the store will not have it."""

from collections.abc import Sequence
from typing import Any, cast

import anyio
import pytest

from callboard.actors.cell import Cell
from callboard.actors.committer import LOST_CAP_SECONDS, LOST_WHOLE, Committer
from callboard.actors.spec import Child
from callboard.actors.testing import ManualPort
from callboard.mailbox.errors import BadRow, StoreUnavailable
from callboard.persistence.store import Session
from callboard.persistence.unit import CommitResult, Unit
from tests.actors.world import Probe

pytestmark = pytest.mark.anyio


class Sink:
    """A session that keeps what is committed, and refuses units that acknowledge message 13."""

    def __init__(self) -> None:
        self.batches: list[list[Unit]] = []
        self.down_times = 0

    async def commit(self, units: Sequence[Unit]) -> CommitResult:
        if self.down_times:
            self.down_times -= 1
            raise StoreUnavailable("not now")
        if any(13 in unit.acks for unit in units):
            raise BadRow("unlucky")
        self.batches.append(list(units))
        return CommitResult({})


def committer(sink: Sink, port: ManualPort | None = None) -> Committer:
    made = Committer(cast(Session, sink), port or ManualPort())

    async def recover() -> None: ...

    made.recover = recover
    return made


def cell(unit: Unit) -> Cell:
    spec = Child(Probe, "p", pool=True)
    made = Cell("/t/p:1", 1, spec, spec.make, complete=True)
    made.unit = unit
    return made


async def nothing() -> None: ...


async def test_a_cell_that_was_thrown_away_does_not_keep_the_fresh_one_from_its_batch() -> None:
    sink = Sink()
    made = committer(sink)
    old, fresh = cell(Unit(1, acks=[1])), cell(Unit(1, acks=[2]))
    made.take_cell(old)
    old.unit = None
    made.take_cell(fresh)
    await made.between(nothing)
    assert [[unit.acks for unit in batch] for batch in sink.batches] == [[[2]]]


async def test_rule_12_bisecting_finds_every_culprit_and_commits_all_others() -> None:
    sink = Sink()
    made = committer(sink)
    told: dict[int, Any] = {}
    for n in range(40):
        # 13 stands twice, so that both halves of the batch have a culprit
        acks = [13] if n in (7, 31) else [100 + n]
        made.submit(Unit(1, acks=acks), lambda outcome, n=n: told.__setitem__(n, outcome))  # type: ignore[misc]
    await made.between(nothing)
    assert sorted(unit.acks[0] - 100 for batch in sink.batches for unit in batch) == [
        n for n in range(40) if n not in (7, 31)
    ]
    assert {n for n, outcome in told.items() if isinstance(outcome, BadRow)} == {7, 31}
    assert len(told) == 40


async def test_a_store_that_answers_everything_but_this_batch_is_asked_ever_less_often() -> None:
    sink, port = Sink(), ManualPort()
    sink.down_times = 100
    made = committer(sink, port)
    made.submit(Unit(1, acks=[1]))
    async with anyio.create_task_group() as group:
        group.start_soon(made.run)
        await port.advance(60)
        asked = 100 - sink.down_times
        assert 60 / LOST_CAP_SECONDS <= asked < 30
        sink.down_times = 0
        await port.advance(LOST_CAP_SECONDS)
        assert [unit.acks for unit in sink.batches[0]] == [[1]]
        group.cancel_scope.cancel()


@pytest.mark.parametrize("units", [1, 5])
async def test_g1_a_batch_whose_sender_has_no_more_time_is_written_by_the_next(units: int) -> None:
    sink = Sink()
    made = committer(sink)
    back = anyio.Event()
    doubts: list[bool] = []
    told: list[str | BadRow | None] = []
    made.recover = back.wait
    made.doubt = lambda: doubts.append(True)
    sink.down_times = 1
    for number in range(units):
        made.submit(Unit(1, acks=[100 + number]), told.append)
    with anyio.move_on_after(0.01):  # a drain whose time is over
        await made.between(nothing)
    assert sink.batches == [] and told == []
    back.set()
    await made.between(nothing)
    assert [unit.acks for unit in sink.batches[0]] == [[100 + number] for number in range(units)]
    assert told == [None] * units
    assert doubts, "what has landed the first time was handed over by nobody"


async def test_g1_the_other_half_of_a_batch_that_is_sent_by_halves_is_not_lost_with_the_first() -> None:
    sink = Sink()
    made = committer(sink)
    stays = anyio.Event()
    times: list[int] = []

    async def recover() -> None:
        times.append(1)
        if len(times) > LOST_WHOLE + 1:
            await stays.wait()

    made.recover = recover
    sink.down_times = LOST_WHOLE + 2
    for number in range(4):
        made.submit(Unit(1, acks=[100 + number]))
    port = made.port
    assert isinstance(port, ManualPort)
    async with anyio.create_task_group() as group:
        scope = anyio.CancelScope()

        async def drain() -> None:
            with scope:
                await made.between(nothing)

        group.start_soon(drain)
        await port.advance(60)
        assert len(times) == LOST_WHOLE + 2, "the first half waits"
        scope.cancel()
        await port.settle()
        stays.set()
        await made.between(nothing)
    assert sorted(unit.acks[0] for batch in sink.batches for unit in batch) == [100, 101, 102, 103]
