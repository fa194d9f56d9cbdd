"""The committer alone: what it takes into a batch, and what it does when the store will not have it."""

from collections.abc import Sequence
from typing import Any, cast

import anyio
import pytest

from callboard.actors.cell import Cell
from callboard.actors.committer import LOST_CAP_SECONDS, Committer
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
