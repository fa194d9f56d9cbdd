"""The flagship: real processes, real PostgreSQL, real kill -9, and a ledger that is counted afterwards."""
