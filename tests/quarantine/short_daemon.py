"""A daemon that loses patience with a stuck node after seconds instead of minutes: `python -m … DSN_IN_ENV FOLDER`."""

import sys

import anyio

from callboard.service.cli.terminal import print_json_line
from callboard.service.daemon import Daemon
from callboard.service.logs import configure_logging
from callboard.service.settings import read_settings

STUCK_SECONDS = 15.0
"""A busy machine keeps a node from turning for some seconds, and that is no reason to end it."""


def main() -> int:
    settings = read_settings(nodes=2, drain_seconds=1.0)
    configure_logging(settings)
    options = {"folder": sys.argv[1]}
    daemon = Daemon("tests.quarantine.boxes:app", settings, options, print_json_line, stuck_seconds=STUCK_SECONDS)
    return anyio.run(daemon.run)


if __name__ == "__main__":
    sys.exit(main())
