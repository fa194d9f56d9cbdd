"""Database roles of the runtime's schema: `roles.sql`, which says what each may do.

Neighbour: `schema.py` makes what the rights are about. A migration may bring tables that the roles have no rights on
yet, so both are made together (`callboard init-db --roles`).
"""

from .connect import STATEMENT_SECONDS, connect, run
from .errors import translated
from .sql import folder

RUNTIME = "callboard_runtime"
READER = "callboard_reader"
ROLES = (RUNTIME, READER)


def roles_sql() -> str:
    """The roles and their rights as SQL text."""
    return (folder() / "roles.sql").read_text(encoding="utf-8")


async def create_roles(dsn: str) -> None:
    """Make the roles and give them their rights; harmless when they are there. As the owner of the schema.

    Raises:
        StoreUnavailable: the database does not answer.
        StoreError: the user of `dsn` may not make roles, or does not own the schema.
    """
    connection = await connect(dsn, "callboard roles")
    try:
        with translated():
            async with connection.transaction():
                await run(connection, "lock_schema", None, STATEMENT_SECONDS)  # grants of several would collide
                await connection.execute(roles_sql().encode())
    finally:
        await connection.close()
