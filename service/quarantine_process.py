"""One suspect message in this process: what a node starts to find out whether its handler ends its process.

It opens the application as a node does, but joins nothing and commits nothing. Frames (a length and a msgpack value)
come on stdin and go to what was stdout: a handler that prints, prints to stderr. It ends with the node that started it,
also where a handler does not let the event loop turn: a thread of its own waits for the end of stdin.
"""

import os
import sys
from collections.abc import Sequence
from typing import Any, BinaryIO

import anyio
import msgspec

from ..actors.app import Surroundings
from ..actors.client import Client
from ..actors.quarantine import Undecided, Verdict, decode_trial, rehearse
from ..mailbox.errors import CallboardError
from ..mailbox.message import Message
from ..mailbox.request import Request
from ..persistence.port import Port, RealPort
from ..persistence.rows import EventRow
from .applications import load_app, opened
from .configuration import read_configuration
from .logs import configure_logging
from .quarantine import LENGTH_BYTES, READY, Setup
from .settings import Settings, read_settings
from .wiring import open_store_at

ORPHANED = 70
ASKING_SECONDS = 3_600.0
"""For how long it leases a client's number; it lasts for one message."""


def main() -> int:
    """Try one message."""
    # Before anything of the application is imported: 0 and 1 are the handler's to do with what it likes.
    questions, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    settings = read_settings()
    configure_logging(settings)
    content = _read(questions)
    if content is None:
        return ORPHANED
    setup = msgspec.msgpack.decode(content, type=Setup)
    try:
        anyio.run(_serve, setup, settings, questions, answers)
    except CallboardError as error:
        sys.stderr.write(f"callboard: quarantine: {error}\n")
        return 1
    return 0


async def _serve(setup: Setup, settings: Settings, questions: BinaryIO, answers: BinaryIO) -> None:
    port = RealPort()
    surroundings = Surroundings(settings.dsn, setup.label, setup.options, read_configuration().tables)
    async with opened(load_app(setup.app), surroundings) as tree:
        _write(answers, READY)
        content = await port.in_thread(_read, questions)
        if content is None:
            return
        _end_with_parent(questions.fileno(), port)

        async def journal(address: str, *, after: int = 0) -> Sequence[EventRow]:
            async with open_store_at(settings.dsn) as store:
                return await store.journal(address, after=after)

        async def ask(address: str, request: Request[Any], *, seconds: float) -> Message:
            async with open_store_at(settings.dsn) as store:
                client = Client(store, port, number_seconds=ASKING_SECONDS)
                answer: Message = await client.ask(address, request, seconds=seconds)
                return answer

        verdict: Verdict
        try:
            verdict = await rehearse(decode_trial(content), tree, port, journal, ask)
        except CallboardError as error:
            # Not the handler's doing, so not an exit either: that would condemn it.
            verdict = Undecided(str(error))
        _write(answers, msgspec.msgpack.encode(verdict))


def _end_with_parent(questions: int, port: Port) -> None:
    def wait() -> None:
        while os.read(questions, 4_096):  # not through the buffer, whose lock the end of this process would want
            continue
        os._exit(ORPHANED)

    port.start_thread(wait, "parent")


def _read(stream: BinaryIO) -> bytes | None:
    """One frame; None at the end."""
    head = stream.read(LENGTH_BYTES)
    if len(head) < LENGTH_BYTES:
        return None
    length = int.from_bytes(head, "big")
    content = stream.read(length)
    return content if len(content) == length else None


def _write(stream: BinaryIO, content: bytes) -> None:
    stream.write(len(content).to_bytes(LENGTH_BYTES, "big") + content)
    stream.flush()


if __name__ == "__main__":
    sys.exit(main())
