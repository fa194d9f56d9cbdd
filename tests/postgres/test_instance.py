"""S19 on PostgreSQL: the name is held again after a cut, and lost only to one who was faster."""

from functools import partial

import anyio
import pytest

from callboard.mailbox.errors import Conflict
from callboard.persistence.port import RealPort
from callboard.persistence.postgres import PostgresStore
from tests.postgres.conftest import Look, until

pytestmark = pytest.mark.anyio

_HOLDERS = (
    "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND classid = 0x63616c6c AND granted "
    "AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)
_CUT = (
    "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
    "WHERE datname = current_database() AND application_name LIKE 'callboard instance %'"
)


class LooksLater(RealPort):
    """The real machine, but who sleeps on it sleeps on until it may look."""

    def __init__(self) -> None:
        self.may_look = anyio.Event()

    async def sleep(self, seconds: float) -> None:
        await self.may_look.wait()
        await super().sleep(seconds)


async def _nobody_holds(look: Look) -> bool:
    return not await look(_HOLDERS)


async def test_s19_a_name_is_held_again_after_a_cut(
    store: PostgresStore, look: Look, port: RealPort, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("callboard.persistence.postgres.instance.LOOK_SECONDS", 0.05)

    async with store.instance("desk", "host-1", port):
        [before] = await look(_HOLDERS)

        async def held_again() -> bool:
            holders = await look(_HOLDERS)
            return bool(holders) and before not in holders

        assert await look(_CUT) == [(1,)]
        await until(held_again)
        with pytest.raises(Conflict, match="host-1"):
            async with store.instance("desk", "host-2", port):
                pytest.fail("there are two")
    await until(partial(_nobody_holds, look))


async def test_s19_who_loses_the_name_in_a_cut_is_told_who_has_it(
    store: PostgresStore, look: Look, port: RealPort, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("callboard.persistence.postgres.instance.LOOK_SECONDS", 0.05)
    slow = LooksLater()

    async def hold_and_lose() -> None:
        async with store.instance("desk", "host-1", slow):
            await look(_CUT)
            await until(partial(_nobody_holds, look))
            async with store.instance("desk", "host-2", port):
                slow.may_look.set()
                with anyio.fail_after(60):
                    await anyio.sleep_forever()

    with pytest.raises(Conflict, match="host-2"):
        await hold_and_lose()
