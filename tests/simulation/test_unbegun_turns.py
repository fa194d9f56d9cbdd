"""A turn that is interrupted before it has begun leaves nothing behind; found by the simulation, as a warning."""

import asyncio
import gc
import warnings
from collections.abc import Awaitable

from callboard.actors.pump import _close


async def on_start() -> None:
    await asyncio.sleep(1)


async def after(rest: Awaitable[None]) -> None:
    await rest


def test_closing_a_turn_closes_what_it_was_to_await() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gc.collect()  # what the tests before this one have left is none of its business
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        _close(after(on_start()))
        gc.collect()
    assert [str(one.message) for one in said] == []
