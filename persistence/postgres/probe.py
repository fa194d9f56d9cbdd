"""What a database is like from where we stand, for `callboard doctor`; and names for a shell that completes a word.

Both only look, and both work where the store itself would not open: as a role with few rights, on a server that is too
old, in a database without our tables. A part that cannot be found out is None, and the reason is kept beside it.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Literal

import msgspec
import psycopg

from ...mailbox.errors import CallboardError
from .connect import Link, conninfo
from .schema import version
from .sql import statement

NAME = "callboard doctor"
ROUND_TRIP_SECONDS = 10.0
"""A notification that takes longer is taken for lost: a busy server is no broken one."""
PROBE_SECONDS = 5.0
COMPLETION_MILLISECONDS = 200
"""The longest that a completion may keep the server busy."""


class Server(msgspec.Struct, frozen=True):
    """The server and who we are to it."""

    version: str
    number: int
    encoding: str
    role: str
    database: str
    read_only: bool
    """It follows another server, or recovers."""
    durable: bool
    max_connections: int
    connections: int
    can_create: bool
    """Whether the role could make the schema."""


class Rights(msgspec.Struct, frozen=True):
    """What the role may do with the schema."""

    owns: bool
    owner: str
    usage: bool
    unreadable: list[str]
    """Tables that it may not read."""
    unwritable: list[str]


class Nodes(msgspec.Struct, frozen=True):
    """Who serves."""

    alive: int
    silent: int
    """Nodes whose lease has run out and that nobody has taken over yet."""
    shards_unserved: int


class Database(msgspec.Struct, frozen=True):
    """All that was found out."""

    server: Server
    clock_skew_seconds: float
    """How much the server's clock is ahead of ours."""
    answers_in_seconds: float
    schema_version: int | None
    """None: there are no tables."""
    schema_expected: int
    rights: Rights | None
    nodes: Nodes | None
    notified_in_seconds: float | None
    """None: what was sent did not arrive."""
    problems: list[str]
    """What could not be found out, and why."""


async def look_at(dsn: str, clock: Callable[[], float]) -> Database:
    """Find out what a database is like; `clock` is this machine's time.

    Raises:
        StoreUnavailable: nobody answers there, or not to this role.
    """
    link = await Link.open(dsn, NAME)
    try:
        return await _look(link, dsn, clock)
    finally:
        await link.close()


async def _look(link: Link, dsn: str, clock: Callable[[], float]) -> Database:
    problems: list[str] = []

    async def ask(query: str) -> list[tuple[Any, ...]]:
        try:
            return await link.run(query, seconds=PROBE_SECONDS)
        except CallboardError as error:
            problems.append(str(error))
            return []

    [(text, number, encoding, *rest)] = await link.run("probe_server", seconds=PROBE_SECONDS)
    await ask("probe_time")  # prepared by the first, so that only the second is a measurement
    before = clock()
    [(theirs,)] = await link.run("probe_time", seconds=PROBE_SECONDS)
    after = clock()
    rights = [Rights(*row) for row in await ask("probe_rights")]
    versions = await ask("version") if rights and rights[0].usage else []
    found = versions[0][0] or None if versions else None
    nodes = [Nodes(*row) for row in await ask("probe_nodes")] if found == version() else []
    return Database(
        server=Server(text, number, encoding.decode(), *rest),
        clock_skew_seconds=theirs - (before + after) / 2,
        answers_in_seconds=after - before,
        schema_version=found,
        schema_expected=version(),
        rights=rights[0] if rights else None,
        nodes=nodes[0] if nodes else None,
        notified_in_seconds=await _round_trip(link, dsn, clock, problems),
        problems=problems,
    )


async def _round_trip(link: Link, dsn: str, clock: Callable[[], float], problems: list[str]) -> float | None:
    ear: Link | None = None
    try:
        [(pid,)] = await link.run("probe_session", seconds=PROBE_SECONDS)
        ear = await Link.open(dsn, NAME)
        await ear.listen(f"callboard_doctor_{pid}")
        before = clock()
        await link.run("probe_notify", seconds=PROBE_SECONDS)
        async for _ in ear.notifications(ROUND_TRIP_SECONDS):
            return clock() - before
    except CallboardError as error:
        problems.append(str(error))
    finally:
        if ear is not None:
            await ear.close()
    return None


Kind = Literal["run", "approval", "approved", "actor"]
_QUERIES: dict[Kind, tuple[str, dict[str, str]]] = {
    "run": ("complete_runs", {}),
    "approval": ("complete_approvals", {"status": "pending"}),
    "approved": ("complete_approvals", {"status": "approved"}),
    "actor": ("complete_actors", {}),
}


def names_like(dsn: str, kind: Kind, beginning: str, limit: int) -> list[str]:
    """Names that begin like this, some of them where there are many; none at all where anything goes wrong."""
    query, params = _QUERIES[kind]
    text, names = statement(query)
    values = {**params, "beginning": beginning, "limit": limit}
    with suppress(psycopg.Error, CallboardError, UnicodeError):
        given = conninfo(dsn, "callboard completion")
        options = f"-c statement_timeout={COMPLETION_MILLISECONDS} -c default_transaction_read_only=on"
        with psycopg.connect(given, autocommit=True, options=options) as connection:
            cursor = psycopg.RawCursor(connection)
            return [row[0] for row in cursor.execute(text, [values[name] for name in names])]
    return []


__all__ = ["Database", "Kind", "Nodes", "Rights", "Server", "look_at", "names_like"]
