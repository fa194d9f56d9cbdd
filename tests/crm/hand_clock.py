"""A desk whose clock is moved by hand, and a call of a worker that needs no runtime."""

from collections.abc import Awaitable, Callable
from datetime import timedelta

from callboard.actors.context import WorkerContext
from callboard.mailbox.envelope import Envelope
from callboard.persistence.port import RealPort
from callboard.persistence.postgres.database import Database

_TAKE = """
CREATE TABLE crm.ahead (by interval NOT NULL);
INSERT INTO crm.ahead VALUES ('0');
GRANT SELECT ON crm.ahead TO PUBLIC;
CREATE OR REPLACE FUNCTION crm.clock() RETURNS timestamptz LANGUAGE sql STABLE AS
    'SELECT now() + (SELECT by FROM crm.ahead)';
"""


async def take_clock(owner: Database) -> Callable[..., Awaitable[None]]:
    """The desk's clock goes on by what `passes(days=…)` says."""
    await owner.execute(_TAKE)

    async def passes(**duration: float) -> None:
        await owner.execute("UPDATE crm.ahead SET by = by + %s", [timedelta(**duration)])

    return passes


def call_context() -> WorkerContext:
    """What a worker's handler is given."""

    async def no_journal(*_: object, **__: object) -> list[object]:
        return []

    envelope = Envelope(1, 1, "/crm/worker", "/crm/actor", 0, "t", 1, "")
    return WorkerContext(envelope, 1, RealPort(), no_journal)
