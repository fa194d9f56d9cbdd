"""The limit of time that the real port sets: what `anyio.fail_after` does."""

import anyio
import pytest

from callboard.persistence import port
from callboard.persistence.port import RealPort

pytestmark = pytest.mark.anyio
PORT = RealPort()


@pytest.fixture(params=["exact", "long"], autouse=True)
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both kinds of limits; those that count as long are looked at more often than in life."""
    if request.param == "long":
        monkeypatch.setattr(port, "LONG_SECONDS", 0.0)
        monkeypatch.setattr(port, "LOOK_SECONDS", 0.001)


async def test_what_takes_longer_is_cut_off_as_a_timeout() -> None:
    with pytest.raises(TimeoutError) as caught, PORT.deadline(0.001) as scope:
        await anyio.sleep_forever()
    assert scope is not None
    assert scope.cancelled_caught
    assert caught.value.__cause__ is None


async def test_what_is_done_in_time_and_what_has_no_limit_are_left_alone() -> None:
    with PORT.deadline(60.0) as scope:
        await anyio.lowlevel.checkpoint()
    assert scope is not None
    assert not scope.cancel_called
    with PORT.deadline(None) as none:
        await anyio.lowlevel.checkpoint()
    assert none is None


async def test_its_own_errors_and_those_of_the_block_stay_apart() -> None:
    with pytest.raises(KeyError), PORT.deadline(60.0):
        raise KeyError("of the block")
    with pytest.raises(TimeoutError, match="of the block"), PORT.deadline(60.0):
        raise TimeoutError("of the block")


async def test_a_cancellation_from_outside_is_no_timeout() -> None:
    with anyio.CancelScope() as outer:
        with PORT.deadline(60.0):
            outer.cancel()
            await anyio.sleep_forever()
    assert outer.cancelled_caught
    with PORT.deadline(60.0) as scope:
        assert scope is not None
        scope.cancel()
        await anyio.sleep_forever()  # cut off, but not by its time


async def test_limits_lie_within_each_other() -> None:
    with PORT.deadline(60.0) as outer:
        with pytest.raises(TimeoutError), PORT.deadline(0.001):
            await anyio.sleep_forever()
        await anyio.lowlevel.checkpoint()
    assert outer is not None
    assert not outer.cancel_called


async def test_many_limits_are_looked_at_together_and_only_while_there_are_any() -> None:
    one = RealPort()
    late: list[str] = []

    async def work(name: str, seconds: float) -> None:
        try:
            with one.deadline(seconds):
                await anyio.sleep_forever()
        except TimeoutError:
            late.append(name)

    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as group:
            group.start_soon(work, "never", 1_000.0)
            for name in ("a", "b"):
                group.start_soon(work, name, 0.001)
            while len(late) < 2:
                await anyio.lowlevel.checkpoint()
            scope.cancel()
    assert sorted(late) == ["a", "b"]
    limits = one._long
    if limits is not None:
        assert not limits.under_way
        while limits._timer is not None:
            await anyio.lowlevel.checkpoint()
    with pytest.raises(TimeoutError), one.deadline(0.001):  # and again where there is one
        await anyio.sleep_forever()
