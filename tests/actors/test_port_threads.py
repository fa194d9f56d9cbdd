"""Blocking code in threads: its outcome comes back, whatever it is, and code that never returns keeps no process."""

import contextvars
import subprocess
import sys
import threading
from typing import Any

import anyio
import pytest

from callboard.persistence.port import RealPort

pytestmark = pytest.mark.anyio

WHO: contextvars.ContextVar[str] = contextvars.ContextVar("who", default="nobody")

NEVER_RETURNS = """
import threading
import anyio
from callboard.persistence.port import RealPort

async def main() -> None:
    begun = threading.Event()

    def never() -> None:
        begun.set()
        threading.Event().wait()

    async with anyio.create_task_group() as group:
        group.start_soon(RealPort().in_thread, never)
        while not begun.is_set():
            await anyio.sleep(0.01)
        group.cancel_scope.cancel()
    print("over")

anyio.run(main)
"""


def raises(error: BaseException) -> Any:
    raise error


async def test_the_outcome_and_the_context_of_blocking_code_are_its_callers() -> None:
    WHO.set("ann")
    assert await RealPort().in_thread(lambda one, two: (one + two, WHO.get()), 1, 2) == (3, "ann")
    assert await RealPort().in_thread(threading.current_thread) is not threading.current_thread()
    with pytest.raises(KeyError, match="x"):
        await RealPort().in_thread(raises, KeyError("x"))


@pytest.mark.parametrize("error", [StopIteration(5), StopAsyncIteration(), SystemExit(3)])
async def test_whatever_blocking_code_raises_its_caller_waits_no_longer(error: BaseException) -> None:
    with anyio.fail_after(60), pytest.raises(RuntimeError if isinstance(error, StopIteration) else type(error)):
        await RealPort().in_thread(raises, error)


async def test_who_is_cancelled_does_not_wait_for_the_thread_and_others_have_its_place() -> None:
    begun, go, ended = threading.Event(), threading.Event(), threading.Event()

    def slow() -> None:
        begun.set()
        go.wait(60)
        ended.set()

    port = RealPort()
    for _ in range(60):  # more than there are threads at once
        with anyio.CancelScope() as scope:
            scope.cancel()
            await port.in_thread(slow)
    with anyio.fail_after(120):
        assert await port.in_thread(lambda: "next") == "next"
        async with anyio.create_task_group() as group:
            group.start_soon(port.in_thread, slow)
            assert await port.in_thread(begun.wait, 60)
            group.cancel_scope.cancel()
        assert not ended.is_set()
        go.set()
        assert await port.in_thread(ended.wait, 60)


def test_blocking_code_that_never_returns_keeps_no_process() -> None:
    done = subprocess.run(
        [sys.executable, "-c", NEVER_RETURNS], capture_output=True, text=True, timeout=200, check=False
    )
    assert (done.returncode, done.stdout.strip()) == (0, "over"), done.stderr
