"""The screen of actors on PostgreSQL: the same windows, filters and details as on the store in memory."""

from collections.abc import Iterator

import pytest

from callboard import PostgresStore
from tests.documented.stage import stage as documented

from .test_actors import looking

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def dsn(server_dsn: str) -> Iterator[str]:
    with documented(server_dsn) as copy:
        yield copy()


async def test_a_desk_in_postgres_is_listed_filtered_and_looked_at_closely(dsn: str) -> None:
    async with PostgresStore(dsn) as store, looking(store) as stage:
        await stage.until(lambda: "◆ NEEDS YOU" in stage.text and "crm" in stage.text)
        await stage.until(lambda: stage.pane.supervision.node("/crm/desk/agent") is not None)
        first = stage.keys[0]
        assert stage.pane.table.cursor_key == first
        for tab in ("Mailbox", "Transcript", "State", "Why"):
            await stage.press("right")
            await stage.until(lambda tab=tab: stage.pane.detail.tab == tab and stage.detail)  # type: ignore[misc]
        assert "no node serves shard" in stage.detail and "a decides" in stage.detail
        stage.pane.bar.put("state:needs address:/crm/desk/*")
        await stage.until(lambda: "state:needs" in stage.title and stage.pane._listing is not None)
        await stage.until(lambda: stage.keys and {one.word for one in stage.pane.listing.items} == {"NEEDS YOU"})
        stage.pane.bar.put("address:/nowhere/*")
        await stage.until(lambda: "0 of" in stage.text and not stage.keys)
