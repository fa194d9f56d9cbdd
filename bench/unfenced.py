"""The fence switched off, in one database of a bench or a test: so that who looks for breaches can be seen finding one.

Nothing of the runtime knows this switch: the functions of that database are made anew without their check of the epoch.
"""

from callboard.persistence.postgres.database import Database

_FENCED = """
SELECT p.oid::regprocedure::text AS name, pg_get_functiondef(p.oid) AS text FROM pg_proc p
WHERE p.pronamespace = 'callboard'::regnamespace AND p.prosrc LIKE '%was superseded: epoch%'
"""
_CHECK = "IF NOT FOUND THEN\n        RAISE EXCEPTION 'node % was superseded"


async def unfence(database: Database) -> list[str]:
    """Let superseded nodes commit in this database; the functions that were changed."""
    found = await database.rows(_FENCED)
    for row in found:
        assert _CHECK in row["text"], f"{row['name']} checks the epoch in words that are not known here"
        await database.execute(row["text"].replace(_CHECK, _CHECK.replace("NOT FOUND", "false")))
    return [str(row["name"]) for row in found]


_CUTS = """
SELECT p.oid::regprocedure::text AS name, pg_get_functiondef(p.oid) AS text FROM pg_proc p
WHERE p.pronamespace = 'callboard'::regnamespace AND p.proname = 'take_over'
"""
_CUT = "PERFORM pg_terminate_backend(a.pid) FROM"


async def let_sessions_live(database: Database) -> list[str]:
    """Let a take-over leave the sessions of whom it ends as they are, in this database; the functions changed.

    It cuts them for speed, and the fence is what keeps a zombie out. Cut sessions would hide that there is no fence.
    """
    found = await database.rows(_CUTS)
    for row in found:
        assert _CUT in row["text"], f"{row['name']} cuts sessions in words that are not known here"
        await database.execute(row["text"].replace(_CUT, "PERFORM a.pid FROM"))
    return [str(row["name"]) for row in found]
