"""What a daemon says of itself when it starts: what runs, on which schema, under which limits and rules."""

import hashlib
import logging
import platform
from importlib.metadata import PackageNotFoundError, version

import msgspec

from .configuration import read_configuration
from .setting_sources import FILE_KEYS
from .settings import SECRET, Settings
from .wiring import schema_version

log = logging.getLogger(__name__)


def banner(app: str, settings: Settings) -> None:
    """One line, with everything in it as fields where logs are JSON."""
    fields = {
        "event": "daemon_started",
        "app": app,
        "version": program_version(),
        "python": platform.python_version(),
        "schema_version": schema_version(),
        "policy_hash": policy_hash(),
        "settings": {name: getattr(settings, name) for name in FILE_KEYS if name not in SECRET},
    }
    log.info(
        "callboard %s, schema %d: %d node(s) of %s; lease %g s, drain %g s, rules %s",
        program_version(),
        schema_version(),
        settings.nodes,
        app,
        settings.lease_seconds,
        settings.drain_seconds,
        fields["policy_hash"],
        extra={"fields": fields},
    )


def program_version() -> str:
    """This program's version; "unknown" where it runs without having been installed."""
    try:
        return version("callboard")
    except PackageNotFoundError:
        return "unknown"


def policy_hash() -> str:
    """Twelve digits that tell whether two daemons have the same rules in their files; "none" where there is no file."""
    configuration = read_configuration()
    if not configuration.path:
        return "none"
    document = msgspec.json.encode(
        {"budget": configuration.budget, **configuration.tables}, order="deterministic", enc_hook=str
    )
    return hashlib.sha256(document).hexdigest()[:12]
