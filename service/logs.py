"""Logging of long-running commands: to stderr, as text or as JSON lines; passwords are taken out on the way."""

import json
import logging
import re
import sys
from datetime import UTC, datetime
from textwrap import indent
from typing import Any

from .log_context import fields_of
from .safe import safe
from .settings import Settings

_SECRETS = (
    (re.compile(r"(://[^\s:/@]{0,128}:)[^\s\"'<>]{1,256}@"), r"\1***@"),
    (re.compile(r"(?i)((?:password|api[_-]?key|token|secret|authorization)['\"]?\s{0,9}[=:]\s{0,9})"
                r"(?:'[^'\n]{0,4096}'|\"[^\"\n]{0,4096}\"|(?:(?:bearer|basic)\s+)?[^\s'\",;]{1,4096})"),
     r"\1***"),
)  # fmt: skip
"""What is hidden. All of it begins with a fixed text and is bounded: where a pattern could begin anywhere, a long word
that a customer wrote would keep the event loop busy for minutes (`test_a_long_word_is_logged_at_once`)."""

MESSAGE_CHARS = 16_384
TRACEBACK_CHARS = 65_536


def hide_secrets(text: str) -> str:
    """`text` without passwords of URLs and without values of keys that are called like secrets."""
    for pattern, replacement in _SECRETS:
        text = pattern.sub(replacement, text)
    return text


def _cut(text: str, limit: int) -> str:
    """At most so much of it: the beginning, and the end, where an exception says what it is."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]} [{len(text) - 2 * half} characters are left out] {text[-half:]}"


class TextFormatter(logging.Formatter):
    """`12:04:31.123 WARNING actors.node: …`, one line a record but for tracebacks."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).strftime("%H:%M:%S.%f")[:-3]
        line = f"{at} {record.levelname.lower()} {record.name.removeprefix('callboard.')}: {safe(_message(record))}"
        if record.exc_info:
            # Indented: an error's text may have lines, and none of them may look like a record of ours.
            line += "\n" + indent(safe(_traceback(self, record.exc_info), lines=True), "  ", bool)
        return line


class JsonFormatter(logging.Formatter):
    """One JSON object a line.

    Always there: `ts` (RFC 3339, UTC), `level`, `event` (what kind of line it is; the same for every line that is
    written at one place of the program), `message`, `logger`, `pid`. Where known: `node`, `run_id`, `actor`, `msg_id`,
    `msg_type`, `attempt`, `trace_id`, `traceback`. What a message, a model or a customer says is in none of them.
    """

    def format(self, record: logging.LogRecord) -> str:
        entry = {
            "ts": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": event_of(record),
            "message": _message(record),
            "logger": record.name,
            "pid": record.process,
            **fields_of(record),
            **(getattr(record, "fields", None) or {}),
        }
        if record.exc_info:
            entry["traceback"] = _traceback(self, record.exc_info)
        return json.dumps(entry, default=str)


def event_of(record: logging.LogRecord) -> str:
    """What kind of line this is, from the text that its author wrote, without what was filled in: `node_serves`."""
    words = re.sub(r"%[-+ #0]*[\d.*]*[a-zA-Z]", " ", record.msg[:400]) if isinstance(record.msg, str) else ""
    return "_".join(re.findall(r"[a-z]+", words.lower()))[:80] or record.name.rpartition(".")[2]


def _message(record: logging.LogRecord) -> str:
    return hide_secrets(_cut(record.getMessage(), MESSAGE_CHARS))


def _traceback(formatter: logging.Formatter, error: Any) -> str:
    return hide_secrets(_cut(formatter.formatException(error), TRACEBACK_CHARS))


def configure_logging(settings: Settings) -> None:
    """Send what is logged to stderr, from the level of `settings` on; other libraries from warnings on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if settings.log_json else TextFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("callboard").setLevel(settings.log_level.upper())
