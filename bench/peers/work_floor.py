"""The floor: what the bare server and driver take for the writes of a message, with nothing around them.

single  each message a transaction of three rows: one acknowledged, one state replaced, one message put in
group   two hundred messages a transaction, three statements for all of them
"""

import asyncio
import importlib
from typing import Any

PACKAGES = ("psycopg",)
GROUP = 200
ACTORS = 1_000
WAITING = 20_000
STATE = '{"n": 12345}'
BODY = '{"k": "hello", "n": 1}'
_TABLES = """
create table actor (id int primary key, version bigint not null, state jsonb not null) with (fillfactor = 70);
create table inbox (id bigint generated always as identity primary key, actor int not null, done timestamptz,
    body jsonb not null);
insert into actor select g, 0, '{"n": 0}' from generate_series(0, 999) g;
insert into inbox (actor, body) select g % 1000, '{"k": "hello", "n": 1}' from generate_series(1, 20000) g;
"""
_SINGLE = (
    "update inbox set done = now() where id = %(id)s",
    "update actor set version = version + 1, state = %(state)s where id = %(actor)s",
    "insert into inbox (actor, body) values (%(actor)s, %(body)s)",
)
_GROUP = (
    "update inbox set done = now() where id = any (%(ids)s)",
    "update actor set version = version + 1, state = %(state)s where id = any (%(actors)s)",
    "insert into inbox (actor, body) select a, %(body)s from unnest(%(actors)s::int[]) a",
)


class Work:
    """Messages, `way` by way."""

    def __init__(self, dsn: str, way: str) -> None:
        self._dsn = dsn
        self._way = way

    async def go(self, count: int, at_once: int) -> None:
        """`count` messages, on `at_once` connections."""
        each = GROUP if self._way == "group" else 1
        numbers = iter(range(0, count, each))

        async def some() -> None:
            connection = await importlib.import_module("psycopg").AsyncConnection.connect(self._dsn, autocommit=True)
            for number in numbers:
                await (self._group if each > 1 else self._single)(connection, number)
            await connection.close()

        await asyncio.gather(*(some() for _ in range(at_once)))

    async def _single(self, connection: Any, number: int) -> None:
        values = {"id": number % WAITING + 1, "actor": number % ACTORS, "state": STATE, "body": BODY}
        async with connection.transaction():
            for statement in _SINGLE:
                await connection.execute(statement, values)

    async def _group(self, connection: Any, number: int) -> None:
        ids = [one % WAITING + 1 for one in range(number, number + GROUP)]
        actors = [one % ACTORS for one in range(number, number + GROUP)]
        values = {"ids": ids, "actors": actors, "state": STATE, "body": BODY}
        async with connection.transaction():
            for statement in _GROUP:
                await connection.execute(statement, values)


async def opened(dsn: str, options: list[str]) -> Work:
    """Ready to go."""
    connection = await importlib.import_module("psycopg").AsyncConnection.connect(dsn, autocommit=True)
    await connection.execute(_TABLES)
    await connection.close()
    return Work(dsn, options[0])
