"""Logging of long-running commands: to stderr, as text or as JSON lines; passwords are taken out on the way."""

import json
import logging
import re
import sys
from datetime import UTC, datetime

from .safe import safe
from .settings import Settings

_SECRETS = (
    (re.compile(r"(\w+://[^\s:/@]+:)[^\s@]+@"), r"\1***@"),
    (re.compile(r"(?i)\b((?:ssl)?password|api[_-]?key|token|secret|authorization)(['\"]?\s*[=:]\s*['\"]?)[^\s'\",;]+"),
     r"\1\2***"),
)  # fmt: skip


def hide_secrets(text: str) -> str:
    """`text` without passwords of URLs and without values of keys that are called like secrets."""
    for pattern, replacement in _SECRETS:
        text = pattern.sub(replacement, text)
    return text


class TextFormatter(logging.Formatter):
    """`12:04:31.123 WARNING actors.node: …`, one line a record but for tracebacks."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).strftime("%H:%M:%S.%f")[:-3]
        line = f"{at} {record.levelname.lower()} {record.name.removeprefix('callboard.')}: {safe(_message(record))}"
        if record.exc_info:
            line += "\n" + safe(hide_secrets(self.formatException(record.exc_info)), lines=True)
        return line


class JsonFormatter(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        entry = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "pid": record.process,
            "message": _message(record),
        }
        if record.exc_info:
            entry["traceback"] = hide_secrets(self.formatException(record.exc_info))
        return json.dumps(entry)


def _message(record: logging.LogRecord) -> str:
    return hide_secrets(record.getMessage())


def configure_logging(settings: Settings) -> None:
    """Send what is logged to stderr, from the level of `settings` on; other libraries from warnings on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if settings.log_json else TextFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("callboard").setLevel(settings.log_level.upper())
