"""The stage of troubled actors shows each trouble it promises."""

import pytest

from callboard.persistence.memory import MemoryStore

from .trouble import CLERK, LONG, trouble

pytestmark = pytest.mark.anyio


async def test_everything_is_as_its_name_says() -> None:
    async with MemoryStore() as store, trouble(store) as it:
        await it.everything()
        [rejected, failed] = await it.letters(2)
        assert (failed.reason, failed.envelope.failures) == ("failed", 3)
        assert (rejected.reason, rejected.envelope.failures) == ("rejected", 0)
        assert len(await store.peek(f"{CLERK}:long")) == LONG + 1
        assert {row.status for row in await store.actors(limit=100)} >= {"active", "paused", "parked", "cancelled"}
