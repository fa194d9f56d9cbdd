"""A statement that is sent to the server by its name, and what comes back: psycopg's cursor without its generality.

A cursor finds a dumper for each value, looks up how often a text was sent, describes the result, and makes a new state
for each call: as much work as all the rest of a small statement. Here a statement is prepared once a session under its
own name, and what it takes are the few types that `plain` knows; the server gives the others theirs.

Invariant: when `ask` returns or raises, the session has no statement under way, or it is closed.
"""

import asyncio
from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

import psycopg
from psycopg.adapt import Transformer
from psycopg.pq import ExecStatus, Format, TransactionStatus
from psycopg.pq.abc import PGconn, PGresult

from .arrays import Array, Columns

Row = tuple[Any, ...]
Connection = psycopg.AsyncConnection[Row]

_GOOD = (ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK)
_PLANS = {False: b"SET plan_cache_mode = force_custom_plan", True: b"SET plan_cache_mode = force_generic_plan"}


_BEYOND = 1 << 63


class _Known:
    """What a session was told."""

    __slots__ = ("keeps_plans", "prepared")

    def __init__(self) -> None:
        self.keeps_plans = False
        self.prepared: set[str] = set()


_known: WeakKeyDictionary[Connection, _Known] = WeakKeyDictionary()


class NotPlain(TypeError):
    """A value that only psycopg's cursors can send: of another type, or a number that does not fit 64 bits, which they
    call numeric, so that it can be compared with one that does."""


async def ask(
    connection: Connection, name: str, text: bytes, values: Sequence[Any], *, keeps_plan: bool, seconds: float
) -> list[Row]:
    """Run a statement and give back its rows; nobody may cancel it. The session has to commit by itself.

    Raises:
        NotPlain: before anything is sent.
        TimeoutError: no answer within `seconds`; the session is closed.
        psycopg.Error, UnicodeEncodeError.
    """
    data, formats = _plain(values)
    async with connection.lock:
        known = _known.get(connection)
        if known is None:
            known = _known[connection] = _Known()
        pgconn, deadline = connection.pgconn, asyncio.get_running_loop().time() + seconds
        try:
            if keeps_plan is not known.keeps_plans and pgconn.transaction_status == TransactionStatus.IDLE:
                # Not within a transaction, whose end may undo it; there a statement runs as the one before it.
                pgconn.send_query_params(_PLANS[keeps_plan], None)
                await _answer(pgconn, deadline)
                known.keeps_plans = keeps_plan
            if name not in known.prepared:
                pgconn.send_prepare(name.encode(), text)
                await _answer(pgconn, deadline)
                known.prepared.add(name)
            pgconn.send_query_prepared(name.encode(), data, formats, result_format=Format.BINARY)
            result = await _answer(pgconn, deadline)
        except psycopg.Error:
            raise  # the server's word, or the connection is gone by itself
        except BaseException:
            pgconn.finish()  # its answer is still to come, and would be taken for that of the next statement
            raise
    if not result.ntuples:
        return []
    transformer = Transformer(connection)
    transformer.set_pgresult(result)
    return transformer.load_rows(0, result.ntuples, tuple)


def _plain(values: Sequence[Any]) -> tuple[list[bytes | None] | None, list[Format] | None]:
    if not values:
        return None, None
    data: list[Any] = []
    formats: list[Format] = []
    for value in values:
        kind = type(value)
        how = Format.TEXT
        if (kind is int and -_BEYOND <= value < _BEYOND) or kind is float:
            data.append(repr(value).encode())
        elif kind is str:
            if "\0" in value:  # the wire's end of a text: the rest of it would be lost without a word
                raise psycopg.DataError("PostgreSQL text fields cannot contain NUL (0x00) bytes")
            data.append(value.encode())
        elif value is None:
            data.append(None)
        elif kind is bool:
            data.append(b"t" if value else b"f")
        elif kind is bytes:
            data.append(value)
            how = Format.BINARY
        elif isinstance(value, Array | Columns):
            data.append(value.data)
            how = Format.BINARY
        else:
            raise NotPlain(kind.__name__)
        formats.append(how)
    return data, formats


async def _answer(pgconn: PGconn, deadline: float) -> PGresult:
    """The last result of what was sent."""
    while pgconn.flush():
        await _ready(pgconn, deadline, writing=True)
        pgconn.consume_input()
    last: PGresult | None = None
    while True:
        while pgconn.is_busy():
            await _ready(pgconn, deadline)
            pgconn.consume_input()
        result = pgconn.get_result()
        if result is None:
            break
        last = result
    if pgconn.notify_handler is not None:
        while (notice := pgconn.notifies()) is not None:
            pgconn.notify_handler(notice)
    assert last is not None
    if last.status not in _GOOD:
        raise psycopg.errors.error_from_result(last)
    return last


async def _ready(pgconn: PGconn, deadline: float, *, writing: bool = False) -> None:
    loop = asyncio.get_running_loop()
    came: asyncio.Future[None] = loop.create_future()
    descriptor = pgconn.socket
    timer = loop.call_at(deadline, _expire, came)
    loop.add_reader(descriptor, _come, came)
    if writing:
        loop.add_writer(descriptor, _come, came)
    try:
        await came
    finally:
        timer.cancel()
        loop.remove_reader(descriptor)
        if writing:
            loop.remove_writer(descriptor)


def _come(came: "asyncio.Future[None]") -> None:
    if not came.done():
        came.set_result(None)


def _expire(came: "asyncio.Future[None]") -> None:
    if not came.done():
        came.set_exception(TimeoutError())
