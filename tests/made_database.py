"""A database with the schema in it, for as long as a block lasts."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import anyio
import psycopg
from psycopg import sql

from callboard.persistence.postgres import create_schema


@contextmanager
def made_database(server_dsn: str) -> Iterator[str]:
    """Its DSN."""
    name = f"test_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(server_dsn, autocommit=True) as connection:
        connection.execute(sql.SQL("create database {} template template0").format(sql.Identifier(name)))
        found = urlsplit(server_dsn)._replace(path=f"/{name}").geturl()
        anyio.run(create_schema, found)
        yield found
        connection.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))
