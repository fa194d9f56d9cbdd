"""Time driven by hand on a real PostgreSQL: both clocks of a story's own database run ahead by an interval.

The runtime and the desk each take the time from one SQL function. In the database of a story, and in no other, these
are replaced by ones that add a row's interval, for every session at once. So an hour passes by changing that row; the
database goes on as it would after an hour in which nothing was due.
"""

from datetime import timedelta

from callboard.persistence.postgres.database import Database

_TAKE = """
CREATE SCHEMA story;
CREATE TABLE story.clocks (ahead interval NOT NULL);
INSERT INTO story.clocks VALUES ('0');
-- Whoever asks for the time need not have a right to change it.
CREATE FUNCTION story.ahead() RETURNS interval LANGUAGE sql STABLE SECURITY DEFINER SET search_path = story AS
    'SELECT ahead FROM clocks';
GRANT USAGE ON SCHEMA story TO PUBLIC;
CREATE OR REPLACE FUNCTION callboard.clock() RETURNS timestamptz LANGUAGE sql VOLATILE AS
    'SELECT clock_timestamp() + story.ahead()';
CREATE OR REPLACE FUNCTION crm.clock() RETURNS timestamptz LANGUAGE sql STABLE AS
    'SELECT now() + story.ahead()';
"""


async def take_clocks(database: Database) -> None:
    """From now on the clocks of this database can be moved. `database` is opened as its owner."""
    await database.execute(_TAKE)


async def move_clocks(database: Database, by: timedelta) -> None:
    """Let `by` pass at once."""
    await database.execute("UPDATE story.clocks SET ahead = ahead + %s", [by])
