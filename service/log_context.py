"""Which message a log line is about: what the handler that runs was given, without anybody having to say it.

The runtime tells a `Blame` what runs. `LoggedBlame` passes that on and keeps it in a context variable, so that what is
logged while a handler runs (by it, by a library it uses) carries the run, the actor, the message, the attempt and the
trace. A line that is written when the handler has ended brings its envelope itself (`extra={"envelope": …}`).

Only ids are taken from an envelope, never what it says.
"""

import logging
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any

from ..actors.blame import Blame
from ..mailbox.envelope import Envelope, traceparent_of
from .telemetry import current_trace_id

_HANDLED: ContextVar[Envelope | None] = ContextVar("handled", default=None)


class _Process:
    """What is the same for all lines of this process."""

    def __init__(self) -> None:
        self.node = ""
        self.runs = ""


PROCESS = _Process()


def log_as(node: str, runs: str = "") -> None:
    """From now on this process's lines are of this node; `runs`: the address of the pool whose instances are runs."""
    PROCESS.node, PROCESS.runs = node, runs


class LoggedBlame:
    """A `Blame` whose handlers' log lines say which message they handle."""

    def __init__(self, blame: Blame) -> None:
        self._blame = blame
        self.clear, self.tick = blame.clear, blame.tick

    def enter(self, envelope: Envelope) -> None:
        _HANDLED.set(envelope)
        self._blame.enter(envelope)

    def leave(self) -> None:
        self._blame.leave()
        _HANDLED.set(None)

    def hold(self, envelope: Envelope) -> int:
        _HANDLED.set(envelope)
        return self._blame.hold(envelope)

    def release(self, slot: int) -> None:
        self._blame.release(slot)
        _HANDLED.set(None)


def fields_of(record: logging.LogRecord) -> Mapping[str, Any]:
    """What a line is about, as far as that is known."""
    fields: dict[str, Any] = {"node": PROCESS.node} if PROCESS.node else {}
    envelope = getattr(record, "envelope", None) or _HANDLED.get()
    if isinstance(envelope, Envelope):
        run = _run_id(envelope)
        # Of the span that runs here; a line that comes after it goes by what has caused it.
        trace = current_trace_id() or traceparent_of(envelope)[3:35]
        fields |= {
            **({"run_id": run} if run else {}),
            "actor": envelope.recipient,
            "msg_id": envelope.id,
            "msg_type": envelope.type,
            "attempt": envelope.failures + 1,
            **({"trace_id": trace} if trace else {}),
        }
    return fields


def _run_id(envelope: Envelope) -> str:
    """The run that a message is to, or (to a worker) from."""
    for address in (envelope.recipient, envelope.sender):
        pool, colon, key = address.partition(":")
        if colon and pool == PROCESS.runs:
            return key.partition("/")[0]
    return ""
