"""Who may do what, on a real PostgreSQL: scopes of principals, roles of the database, and who may approve."""
