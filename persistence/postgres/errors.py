"""What the database says, in the words of `mailbox.errors`: the only place that reads SQLSTATEs.

Which class an error gets decides who pays for it: BadRow fails one turn, StoreUnavailable is the platform's and is
tried again, StaleEpoch ends a node's life under this epoch. So a value that can never be stored must not look like an
outage (it would be tried for ever), nor an outage like a bad value (it would fail an innocent turn).
"""

import struct
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg_pool import PoolClosed, PoolTimeout, TooManyRequests

from ...mailbox.errors import (
    BadRow,
    CallboardError,
    Conflict,
    MailboxFull,
    SchemaMismatch,
    StaleEpoch,
    StoreError,
    StoreUnavailable,
)

MISFIT = "CB002"


class Misfit(StoreError):
    """Some unit of a batch does not fit what is stored; nothing was written."""


_OURS: dict[str, type[CallboardError]] = {
    "CB001": StaleEpoch,
    MISFIT: Misfit,
    "CB003": Conflict,
    "CB004": MailboxFull,
}

_DATA = ("22", "23", "54", "21")
"""Data exception, constraint, program limit (a key too long for its index), one row hit twice."""

_NO_SCHEMA = ("3F000", "42P01", "42883", "42703")
"""No such schema, table, function, column."""

_OUTAGE = ("08", "57", "53", "40", "55", "58", "25")
"""Connection, operator, resources, rollback (deadlock), locks, system, a server that is read only for now."""


@contextmanager
def translated() -> Iterator[None]:
    """Raise psycopg's errors as ours; the first line only, as later ones quote values."""
    try:
        yield
    except (PoolTimeout, PoolClosed, TooManyRequests) as error:
        raise StoreUnavailable(f"no connection to the database is free ({error}); try again") from error
    except psycopg.Error as error:
        raise translate(error) from error
    except (UnicodeEncodeError, struct.error, OverflowError, TypeError, AttributeError) as error:
        # Refused before it was sent: a lone surrogate, a number that does not fit 64 bits, a value of another type.
        raise BadRow(f"a value cannot be stored ({_reason(error)}); the turn that wrote it is at fault") from error


def translate(error: psycopg.Error) -> CallboardError:
    """Our error for one of psycopg's."""
    state = error.sqlstate or ""
    reason = _reason(error)
    if state in _OURS:
        return _OURS[state](reason)
    if state.startswith(_DATA) or (not state and isinstance(error, psycopg.DataError)):
        return BadRow(f"the database refused a value ({reason}); the turn that wrote it is at fault")
    if state in _NO_SCHEMA:
        return SchemaMismatch(f"the database lacks what this program needs ({reason}); run: callboard init-db")
    if state.startswith(_OUTAGE) or isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return StoreUnavailable(f"the database does not answer as it should ({reason}); nothing accepted is lost")
    return StoreError(f"the database refused a statement: {reason} (SQLSTATE {state or 'none'})")


def _reason(error: Exception) -> str:
    # An encoding error's text quotes nothing but a position and a code point.
    return (str(error).splitlines() or [type(error).__name__])[0][:300]
