"""The PostgreSQL store: the only folder that speaks SQL and the only one that imports psycopg."""

from .connect import is_dsn, make_dsn_safe
from .roles import create_roles, roles_sql
from .schema import check_schema, create_schema, schema_sql
from .session import PostgresSession
from .store import PostgresStore

__all__ = [
    "PostgresSession",
    "PostgresStore",
    "check_schema",
    "create_roles",
    "create_schema",
    "is_dsn",
    "make_dsn_safe",
    "roles_sql",
    "schema_sql",
]
