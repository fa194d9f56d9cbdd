"""The store's clock as a node knows it: whatever the machine's own clock does, `ctx.now` goes on and never back."""

import pytest

from callboard.actors.clock import SYNC_SECONDS, StoreClock
from callboard.actors.context import Context
from callboard.actors.testing import START, ManualPort, TestKit
from tests.actors.world import Note, Probe, tree

pytestmark = pytest.mark.anyio


class Stepping(ManualPort):
    """A machine whose wall clock is set by somebody."""

    step = 0.0

    def wall(self) -> float:
        return super().wall() + self.step


def test_a_step_of_the_wall_clock_is_not_felt() -> None:
    port = Stepping()
    clock = StoreClock(port)
    clock.sync(START + 100, port.monotonic())
    assert clock.now() == START + 100
    port.step = -3600
    port.elapsed += 5
    assert clock.now() == START + 105
    port.step = 3600
    assert clock.now() == START + 105


def test_the_middle_between_question_and_answer_is_taken() -> None:
    port = ManualPort()
    clock = StoreClock(port)
    port.elapsed = 2.0
    clock.sync(5000.0, 1.0)
    assert clock.now() == 5000.5


def test_it_never_goes_back_also_where_the_stores_clock_does() -> None:
    port = ManualPort()
    clock = StoreClock(port)
    clock.sync(1000.0, 0.0)
    assert clock.now() == 1000.0
    clock.sync(990.0, 0.0)
    assert clock.now() == 1000.0
    port.elapsed = 9.0
    assert clock.now() == 1000.0
    port.elapsed = 11.0
    assert clock.now() == 1001.0


def test_the_first_answer_counts_even_where_the_machine_was_ahead() -> None:
    clock = StoreClock(ManualPort())
    assert clock.now() == START
    clock.sync(1000.0, 0.0)
    assert clock.now() == 1000.0


async def test_it_is_asked_again_every_ten_seconds() -> None:
    seen: list[float] = []

    def script(_probe: Probe, _note: Note, ctx: Context) -> None:
        seen.append(ctx.now)

    async with TestKit(tree(script)) as kit:
        real = kit.store.clock
        await kit.send("/t/p:1", Note())
        kit.store.clock = lambda: real() + 50.0  # type: ignore[method-assign]
        await kit.send("/t/p:1", Note())
        assert seen[1] == seen[0], "not asked yet"
        await kit.advance(seconds=SYNC_SECONDS)
        await kit.send("/t/p:1", Note())
        assert seen[2] - seen[0] == pytest.approx(SYNC_SECONDS + 50.0)
