"""What the embedded server raises: one error, whose message names the cause and the way out."""

from callboard.mailbox.errors import CallboardError

OWN_SERVER = "set DATABASE_URL to a PostgreSQL of yours"


class EmbeddedServerError(CallboardError):
    """No embedded PostgreSQL can be had here; the message says why and what to do instead."""
