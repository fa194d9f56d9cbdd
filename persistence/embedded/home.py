"""Where an embedded server keeps its data, when nobody says.

One directory for each working directory, so that two checkouts on one machine never share a server by accident, and
all programs started in one of them do.
"""

import hashlib
import os
from pathlib import Path


def default_root(directory: Path | None = None, *, home: Path | None = None) -> Path:
    """The embedded server's root for a working directory (the current one if not given); nothing is created.

    It lies under `home`, else under CALLBOARD_HOME if that is set. Otherwise under /var/lib/callboard for root, whose
    home directory no other account can enter (PostgreSQL never runs as root), and under the user's XDG data directory
    for everyone else.
    """
    directory = (directory or Path.cwd()).resolve()
    mark = hashlib.sha256(os.fsencode(directory)).hexdigest()[:10]
    return (home.absolute() if home else _home()) / f"{directory.name[:40] or 'root'}-{mark}"


def _home() -> Path:
    if given := os.environ.get("CALLBOARD_HOME"):
        return Path(given).absolute()
    if os.geteuid() == 0:
        return Path("/var/lib/callboard")
    data = os.environ.get("XDG_DATA_HOME", "")
    # the XDG rules: a relative path is to be ignored
    return (Path(data) if data.startswith("/") else Path.home() / ".local" / "share") / "callboard"
