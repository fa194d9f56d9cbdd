"""What a test gets when it asks for a database: an empty one, or one with the schema, and never somebody else's."""

from pathlib import Path

import psycopg
import pytest

from tests.made_database import made_database
from tests.server_folder import MEMORY, server_folder

TABLES = "select count(*) from pg_tables where schemaname = 'callboard'"


def _tables(dsn: str) -> int:
    with psycopg.connect(dsn) as connection:
        row = connection.execute(TABLES).fetchone()
        assert row is not None
        return int(row[0])


def test_a_database_is_empty_unless_the_schema_is_asked_for(dsn: str) -> None:
    assert _tables(dsn) == 0


def test_one_that_is_made_has_the_schema_and_is_the_one_that_the_test_has(made: str, dsn: str) -> None:
    assert made == dsn and _tables(made) > 10


def test_what_is_written_to_one_copy_is_in_no_other(server_dsn: str) -> None:
    with made_database(server_dsn) as one, made_database(server_dsn) as other:
        with psycopg.connect(one) as connection:
            connection.execute("drop schema callboard cascade")
        assert (_tables(one), _tables(other) > 10) == (0, True)
    with made_database(server_dsn) as later:
        assert _tables(later) > 10


@pytest.mark.parametrize(("room_bytes", "in_memory"), [(0, True), (2**80, False)])
def test_a_server_lies_in_memory_only_where_there_is_room(
    room_bytes: int, in_memory: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.server_folder.ROOM_BYTES", room_bytes)
    with server_folder("callboard-room-") as folder:
        assert folder.is_dir()
        assert folder.parent == (MEMORY if in_memory and MEMORY.is_dir() else Path("/tmp"))
    assert not folder.exists()
