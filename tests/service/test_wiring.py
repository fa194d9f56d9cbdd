"""Which database a DSN means."""

import pytest

from callboard.mailbox.errors import SettingError
from callboard.persistence import embedded
from callboard.service.settings import read_settings
from callboard.service.wiring import find_database

pytestmark = pytest.mark.anyio


@pytest.fixture
def embedded_server(monkeypatch: pytest.MonkeyPatch) -> str:
    dsn = "postgresql://callboard@/postgres?host=%2Fsomewhere&port=5432"
    monkeypatch.setattr(embedded, "ensure", lambda root: dsn)
    return dsn


async def test_a_dsn_means_itself(embedded_server: str) -> None:
    given = "postgresql://localhost/desk"
    assert await find_database(read_settings(dsn=given)) == given


async def test_embedded_and_a_name_means_that_database_of_the_embedded_server(embedded_server: str) -> None:
    found = await find_database(read_settings(dsn="embedded:callboard_demo_1"))
    assert "dbname=callboard_demo_1" in found
    assert "host=/somewhere" in found


async def test_what_is_no_dsn_is_refused_without_being_shown() -> None:
    with pytest.raises(SettingError, match="dsn: expected") as refused:
        await find_database(read_settings(dsn="pass word=secret"))
    assert "secret" not in str(refused.value)
