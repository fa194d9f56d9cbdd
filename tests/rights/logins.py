"""Database users of a test: made with the rights that it is about, and gone with it."""

import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import quote, urlsplit

from callboard.persistence.postgres.database import Database


@asynccontextmanager
async def login(dsn: str, *roles: str, rights: str = "") -> AsyncIterator[str]:
    """The DSN of a new user that was granted these roles, and these rights on the database."""
    name = f"rights_{uuid.uuid4().hex[:8]}"
    async with await Database.open(dsn, size=1) as owner:
        await owner.execute(f"CREATE ROLE {name} LOGIN")
        try:
            for role in roles:
                await owner.execute(f"GRANT {role} TO {name}")
            if rights:
                await owner.execute(f"GRANT {rights} ON DATABASE {urlsplit(dsn).path.strip('/')} TO {name}")
            yield as_user(dsn, name)
        finally:
            await owner.execute(f"DROP OWNED BY {name} CASCADE")
            await owner.execute(f"DROP ROLE {name}")


def as_user(dsn: str, name: str) -> str:
    """The same database as another user."""
    parts = urlsplit(dsn)
    host = parts.netloc.rpartition("@")[2]
    return parts._replace(netloc=f"{quote(name)}@{host}").geturl()
