"""When a call is attempted again, how often and how long after; and that no attempt lasts for ever."""

from typing import Any

import anyio
import pytest

from callboard import Transient, tool
from callboard.actors.agent.events import ToolCallFailed, ToolCallInDoubt
from callboard.actors.agent.options import Retries
from callboard.actors.agent.schema import BadTool

from .stage import Stage, asks, results, says, script
from .test_faults import http

pytestmark = pytest.mark.anyio


def looks() -> Any:
    return script(asks(("look", {"n": 1})), says("ok"))


class Failing:
    """A harmless tool that keeps failing, and when it was called."""

    def __init__(self, error: Exception, **options: Any) -> None:
        self.error = error
        self.times: list[float] = []
        self.clock: Any = lambda: 0.0

        @tool(name="look", **options)
        async def look(n: int) -> int:
            """Look."""
            self.times.append(self.clock())
            raise self.error

        self.tool = look

    async def attempts(self, seconds: float = 300, **options: Any) -> tuple[int, list[tuple[int, bool]]]:
        """Calls made, and what the journal says of each."""
        async with Stage(looks(), [self.tool], **options) as stage:
            self.clock = stage.port.monotonic
            run = await stage.begin()
            for _ in range(int(seconds)):
                await stage.advance(1)
            assert (await stage.state(run)).status == "completed"
            failed = await stage.of(run, ToolCallFailed)
            return len(self.times), [(event.attempt, event.final) for event in failed]


# --- how long an attempt may take


async def test_w18_a_tool_that_hangs_and_says_no_limit_holds_no_run_for_ever() -> None:
    begun: list[int] = []

    @tool
    async def look(n: int) -> int:
        """Look."""
        begun.append(n)
        await anyio.sleep_forever()
        return n

    llm = looks()
    async with Stage(llm, [look]) as stage:
        run = await stage.begin()
        await stage.advance(599)
        assert (len(begun), await stage.of(run, ToolCallFailed)) == (1, [])
        await stage.advance(3)
        assert len(begun) == 2
        for _ in range(3):
            await stage.advance(605)
        assert (len(begun), (await stage.state(run)).status) == (3, "completed")
        assert results(llm.last_messages) == ["Error: timed out after 600 s"]


async def test_w18_a_side_effect_that_the_desk_s_limit_cut_off_is_in_doubt() -> None:
    paid: list[int] = []

    @tool(side_effect=True)
    async def pay(amount: int) -> int:
        """Pay."""
        paid.append(amount)
        await anyio.sleep_forever()
        return amount

    async with Stage(script(asks(("pay", {"amount": 5})), says("ok")), [pay], tool_seconds=30.0) as stage:
        run = await stage.begin()
        await stage.advance(31)
        assert (paid, (await stage.state(run)).status) == ([5], "awaiting_approval")
        assert "timed out after 30 s" in (await stage.of(run, ToolCallInDoubt))[0].reason


@pytest.mark.parametrize(("own", "desk", "cut"), [(5.0, 60.0, True), (None, None, False), (100_000.0, 9.0, False)])
async def test_w18_a_tool_s_own_limit_wins_and_none_means_none(
    own: float | None, desk: float | None, cut: bool
) -> None:
    @tool(timeout_seconds=own, attempts=1)
    async def look(n: int) -> int:
        """Look."""
        await anyio.sleep_forever()
        return n

    async with Stage(looks(), [look], tool_seconds=desk) as stage:
        run = await stage.begin()
        await stage.advance(10 if desk else 650)
        assert (await stage.state(run)).status == ("completed" if cut else "running")


# --- which errors, and how often


@pytest.mark.parametrize("error", [ValueError("no such order"), http(404), http(401)])
async def test_w17_an_error_that_no_attempt_can_mend_is_told_at_once(error: Exception) -> None:
    assert await Failing(error).attempts(5) == (1, [(1, True)])


@pytest.mark.parametrize("error", [ConnectionError("no route"), http(503), RuntimeError("hm")])
async def test_da060_another_error_is_attempted_three_times(error: Exception) -> None:
    assert await Failing(error).attempts(20) == (3, [(1, False), (2, False), (3, True)])


async def test_da060_the_desk_says_how_often_and_a_tool_says_otherwise() -> None:
    assert (await Failing(OSError()).attempts(20, max_tool_attempts=2))[0] == 2
    assert (await Failing(OSError(), attempts=4).attempts(60, max_tool_attempts=2))[0] == 4
    assert (await Failing(OSError(), retry=Retries(cap_seconds=1.0)).attempts(20, max_tool_attempts=5))[0] == 5
    assert (await Failing(OSError(), retry=Retries(attempts=1)).attempts(5))[0] == 1


async def test_w17_a_tool_names_the_errors_after_which_it_is_not_attempted_again() -> None:
    class Closed(ConnectionError): ...

    assert (await Failing(Closed(), retry=Retries(attempts=9, no_retry=(Closed,))).attempts(5))[0] == 1
    assert (await Failing(OSError(), retry=Retries(attempts=4, no_retry=(Closed,))).attempts(60))[0] == 4


async def test_a_tool_s_own_waits_are_kept() -> None:
    failing = Failing(OSError(), retry=Retries(attempts=4, first_seconds=10.0, cap_seconds=15.0))
    await failing.attempts(60)
    waits = [later - earlier for earlier, later in zip(failing.times, failing.times[1:], strict=False)]
    assert len(waits) == 3
    # from half of the ceiling to all of it, which doubles up to the cap; time moves in seconds here
    assert 5 <= waits[0] <= 11
    assert all(7.5 <= wait <= 16 for wait in waits[1:])


@pytest.mark.parametrize("error", [http(429, retry_after="40"), Transient("busy", after_seconds=40.0)])
async def test_w17_a_wait_that_the_server_asks_for_wins(error: Exception) -> None:
    failing = Failing(error, retry=Retries(attempts=2, first_seconds=1.0))
    await failing.attempts(60)
    assert 39 <= failing.times[1] - failing.times[0] <= 42


@pytest.mark.parametrize(
    "retry",
    [
        Retries(attempts=0),
        Retries(attempts=True),
        Retries(first_seconds=-1.0),
        Retries(cap_seconds=0.0),
        Retries(cap_seconds=float("nan")),
        Retries(no_retry=(int,)),  # type: ignore[arg-type]
        Retries(no_retry=[ValueError]),  # type: ignore[arg-type]
        "often",
        1.5,
    ],
)
def test_retries_that_mean_nothing_are_refused(retry: Any) -> None:
    with pytest.raises(BadTool):
        Failing(OSError(), retry=retry)
