"""S19 on PostgreSQL: the name is held again after a cut, and lost only to one who was faster."""

import anyio
import pytest

from callboard.mailbox.errors import Conflict
from callboard.persistence.port import RealPort
from callboard.persistence.postgres import PostgresStore
from tests.postgres.conftest import Look, until

pytestmark = pytest.mark.anyio

_HELD = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND classid = 0x63616c6c AND granted"
_CUT = (
    "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
    "WHERE datname = current_database() AND application_name LIKE 'callboard instance %'"
)


async def test_s19_a_name_is_held_again_after_a_cut(
    store: PostgresStore, look: Look, port: RealPort, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("callboard.persistence.postgres.instance.LOOK_SECONDS", 0.05)

    async def held() -> bool:
        return await look(_HELD) == [(1,)]

    async with store.instance("desk", "host-1", port):
        assert await held()
        assert await look(_CUT) == [(1,)]
        await until(held)
        with pytest.raises(Conflict, match="host-1"):
            async with store.instance("desk", "host-2", port):
                pytest.fail("there are two")
    assert await look(_HELD) == [(0,)]


async def test_s19_who_loses_the_name_in_a_cut_is_told_who_has_it(
    store: PostgresStore, look: Look, port: RealPort, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("callboard.persistence.postgres.instance.LOOK_SECONDS", 0.5)

    async def hold_and_lose() -> None:
        async with store.instance("desk", "host-1", port):
            await look(_CUT)
            async with store.instance("desk", "host-2", port):
                with anyio.fail_after(30):
                    await anyio.sleep_forever()

    with pytest.raises(Conflict, match="host-2"):
        await hold_and_lose()
