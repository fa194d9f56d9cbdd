"""The HTTP API under /v1: over a memory store where that is enough, over real PostgreSQL where it is not."""
