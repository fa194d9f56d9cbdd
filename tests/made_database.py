"""A database for as long as a block lasts: an empty one, or one with the schema in it.

The schema is made once on each server and copied from there, which takes half as long as making it; that it can be
made in an empty database, and brought up to date in an older one, is what tests/postgres/test_schema.py proves.
"""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import anyio
import psycopg
from psycopg import sql

from callboard.persistence.postgres import create_schema

_FILE_COPY_SINCE = 150_000
_models: dict[str, str] = {}
"""By server: the name of the database that is copied."""


@contextmanager
def empty_database(server_dsn: str, *, copy_of: str = "template0") -> Iterator[str]:
    """Its DSN. Dropped afterwards, whoever is still connected."""
    name = f"test_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(server_dsn, autocommit=True) as connection:
        _create(connection, name, copy_of)
        try:
            yield _at(server_dsn, name)
        finally:
            _drop(connection, name)


@contextmanager
def made_database(server_dsn: str) -> Iterator[str]:
    """Its DSN; it has the schema."""
    with empty_database(server_dsn, copy_of=_model(server_dsn)) as dsn:
        yield dsn


def forget_model(server_dsn: str) -> None:
    """Drop what was copied, on a server that is there after the tests."""
    if name := _models.pop(server_dsn, ""):
        with psycopg.connect(server_dsn, autocommit=True) as connection:
            _drop(connection, name)


def _model(server_dsn: str) -> str:
    if server_dsn not in _models:
        name = f"test_model_{uuid.uuid4().hex[:12]}"
        with psycopg.connect(server_dsn, autocommit=True) as connection:
            _create(connection, name, "template0")
            _models[server_dsn] = name
            anyio.run(create_schema, _at(server_dsn, name))
            # Nobody may be connected to what is copied.
            connection.execute(sql.SQL("alter database {} allow_connections false").format(sql.Identifier(name)))
    return _models[server_dsn]


def _create(connection: psycopg.Connection, name: str, copy_of: str) -> None:
    command = sql.SQL("create database {} template {}").format(sql.Identifier(name), sql.Identifier(copy_of))
    if connection.info.server_version >= _FILE_COPY_SINCE:
        command += sql.SQL(" strategy file_copy")  # on a server that syncs nothing: less work than through its log
    connection.execute(command)


def _drop(connection: psycopg.Connection, name: str) -> None:
    connection.execute(sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name)))


def _at(server_dsn: str, name: str) -> str:
    return urlsplit(server_dsn)._replace(path=f"/{name}").geturl()
