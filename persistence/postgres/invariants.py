"""What must hold of a database, checked by looking: each check finds the rows that break it.

They are read-only and take no locks; the `AT_REST` ones are true only while nothing moves. The demonstration and the
flagship tests end with them; an operator may ask at any time.
"""

from typing import Final

import msgspec

from .database import Database
from .sql import queries

ALWAYS: Final = ("doubled_messages", "out_of_order", "ungated_calls", "stale_turns")
AT_REST: Final = ("lost_messages", "journal_gaps", "waiting_messages")


class Breach(msgspec.Struct, frozen=True):
    """Something that breaks an invariant."""

    invariant: str
    subject: str
    detail: str


async def breaches(database: Database, *, at_rest: bool = True) -> list[Breach]:
    """Everything that breaks an invariant; empty when all hold.

    `at_rest` includes the checks that hold only while nothing moves.
    """
    found: list[Breach] = []
    for name in (*ALWAYS, *(AT_REST if at_rest else ())):
        for row in await database.rows(queries()[name].decode()):
            subject, detail = row.values()
            found.append(Breach(name, str(subject), str(detail)))
    return found
