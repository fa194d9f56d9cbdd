"""The embedded server: shared, survives kill -9, and is gone when nobody needs it."""
