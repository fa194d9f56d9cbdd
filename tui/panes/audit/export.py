"""The audit trail as a file: one row a line, as `callboard audit --jsonl` has it, in the working directory.

The file is made for its owner alone, and never in the place of one that is there.
"""

import json
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from callboard.persistence.operating import AuditRow
from callboard.service.operations.audit_records import audit_item

MODE = 0o600


def file_name(now: float) -> str:
    """Of an export made at that moment."""
    return f"callboard-audit-{datetime.fromtimestamp(now, UTC):%Y%m%d-%H%M%S}.jsonl"


def write(rows: Sequence[AuditRow], folder: Path, now: float) -> Path:
    """Write the rows, oldest last as they are shown; where.

    Raises:
        OSError: it cannot be written there, or a file of that name is there already.
    """
    path = folder / file_name(now)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
    with os.fdopen(os.open(path, flags, MODE), "w", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps(audit_item(row)) + "\n")  # plain ASCII: nothing in it moves a terminal
    return path
