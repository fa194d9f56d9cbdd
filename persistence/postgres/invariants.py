"""What must hold of a database, checked by looking: each check finds the rows that break it.

Neighbours: `queries/invariants.sql` has the queries; `memory/invariants.py` asks a memory store the same, and
tells in its docstring what each invariant means here and what rows cannot show. They are read-only and take no locks.
`AT_REST` ones are true only while nothing moves and before retention has removed anything. The demonstration and the
flagship tests end with them; an operator may ask at any time.
"""

from typing import Final

import msgspec

from .database import Database
from .sql import queries

ALWAYS: Final = {
    "doubled_messages": "I1",
    "misplaced_messages": "I1",
    "versions": "I2",
    "out_of_order": "I3",
    "stale_turns": "I4",
    "causeless_messages": "I5",
    "endless_asks": "I6",
    "answered_twice": "I6",
    "ungated_calls": "I7",
    "doubled_calls": "I8",
    "orphans": "I9",
    "turns_after_the_end": "I10",
    "dead_tickers": "I11",
    "mute_actors": "I13",
    "unordered_starts": "I14",
    "journal_gaps": "S9",
}
"""Number of the invariant (SEMANTICS 4.17; S: of the store) by the name of its query."""
AT_REST: Final = {"lost_messages": "I1", "unserved_messages": "I13", "waiting_messages": "I13"}


TWO_LOOKS: Final = ("I10", "I12")
"""Numbers of the invariants that show only in two looks: `ended`, `charges`."""


class Breach(msgspec.Struct, frozen=True):
    """Something that breaks an invariant."""

    invariant: str
    """Name of the query."""
    subject: str
    detail: str
    number: str = ""
    """Number of the invariant."""


async def breaches(database: Database, *, at_rest: bool = True) -> list[Breach]:
    """Everything that breaks an invariant; empty when all hold.

    `at_rest` includes the checks that hold only while nothing moves.
    """
    found: list[Breach] = []
    for name, number in (ALWAYS | (AT_REST if at_rest else {})).items():
        for row in await database.rows(queries()[name].decode()):
            subject, detail = row.values()
            found.append(Breach(name, str(subject), str(detail), number))
    return found


async def charges(database: Database) -> int:
    """How many failures are charged to messages, waiting or dead. I12: what is no failure leaves this as it is."""
    [row] = await database.rows(queries()["charges"].decode())
    [amount] = row.values()
    return int(amount)


async def ended(database: Database) -> dict[str, tuple[int, int]]:
    """Incarnation and version of each actor that has ended. I10: the same in a later look, or a new incarnation."""
    rows = await database.rows(queries()["ended_actors"].decode())
    return {str(row["address"]): (int(row["incarnation"]), int(row["version"])) for row in rows}
