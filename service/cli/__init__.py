"""The command line: the entry point main and one file a command."""

import sys


def main() -> None:
    """Say that there are no commands in this checkout."""
    print("callboard: the command line is missing: service/cli holds no commands in this checkout.", file=sys.stderr)
    sys.exit(2)
