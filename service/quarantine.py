"""A node's quarantine: each suspect message in a process of its own.

    start     `python -m callboard.service.quarantine_process`; it opens the application and says that it is ready
    try       the trial goes in, the verdict comes out, in frames on its stdin and stdout
    end       whatever happens: the process is gone when `try_message` returns

A process for each trial, not one for many: what an earlier one left behind (memory that was written over, a thread that
still runs) must not condemn a later one. What ended it is read from how it ended: an exit or a fault of its own is a
verdict, a signal that only others send is none. A handler that sends itself such a signal is not found out.
"""

import logging
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress

import anyio
import anyio.abc
import msgspec
from anyio.streams.buffered import BufferedByteReceiveStream

from ..actors.quarantine import CALLS_AT_ONCE, Died, Overran, Trial, Undecided, Verdict, decode_verdict
from ..persistence.port import Port
from .settings import Settings, child_environment

log = logging.getLogger(__name__)

START_SECONDS = 60.0
"""How long the application may take to open there."""
GRACE_SECONDS = 5.0
"""How much longer than its limit a trial may take, and how long a process may take to end after its verdict."""
END_SECONDS = 30.0
"""How long one that has closed its stdout may take to end: on a busy machine the system takes its time for that."""
MAX_FRAME_BYTES = 64 * 1024 * 1024
LENGTH_BYTES = 4
READY = b"ready"

FROM_OUTSIDE = {signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT}
"""Signals that nothing in a handler raises by mistake; the kernel's own, when memory is short, is among them."""


class Setup(msgspec.Struct, frozen=True):
    """What a quarantine process is told first."""

    app: str
    options: dict[str, str]
    label: str


def how_it_ended(code: int) -> str:
    """An exit code of a process, for people."""
    if code >= 0:
        return f"it exited with code {code}"
    try:
        return f"it was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"it was ended by signal {-code}"


class QuarantineProcess:
    """Where the suspects of one node are tried: a `callboard.actors.quarantine.Quarantine`."""

    def __init__(
        self, app: str, options: Mapping[str, str], settings: Settings, dsn: str, *, label: str, port: Port
    ) -> None:
        self._setup = Setup(app, dict(options), f"{label}/quarantine")
        self._environment = child_environment(settings, dsn)
        self._port = port
        self._turns = anyio.Semaphore(1)
        self._calls = anyio.Semaphore(CALLS_AT_ONCE)

    async def try_message(self, trial: Trial) -> Verdict:
        """See `Quarantine.try_message`."""
        async with self._calls if trial.is_call else self._turns:
            envelope = trial.envelope
            log.warning("message %s (%s) is tried in quarantine", envelope.id, envelope.type)
            try:
                verdict = await self._try_alone(trial)
            except OSError as error:
                verdict = Undecided(f"a quarantine process cannot be started: {error}")
            log.warning("message %s in quarantine: %s", envelope.id, _told(verdict))
            return verdict

    async def _try_alone(self, trial: Trial) -> Verdict:
        process = await anyio.open_process(
            [sys.executable, "-m", "callboard.service.quarantine_process"],
            stderr=None,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=self._environment,
        )
        try:
            return await self._converse(process, trial)
        finally:
            with anyio.CancelScope(shield=True):
                if process.returncode is None:
                    with suppress(ProcessLookupError):  # it ended in this moment
                        process.kill()
                await process.aclose()

    async def _converse(self, process: anyio.abc.Process, trial: Trial) -> Verdict:
        assert process.stdin is not None and process.stdout is not None
        answers = BufferedByteReceiveStream(process.stdout)
        ready: bytes | None = None
        with anyio.move_on_after(START_SECONDS):
            await _send(process.stdin, msgspec.msgpack.encode(self._setup))
            ready = await _receive(answers)
        if ready != READY:
            return Undecided("the application did not open in a quarantine process")
        answer: bytes | None = None
        with anyio.move_on_after(trial.seconds + GRACE_SECONDS) as limit:
            await _send(process.stdin, msgspec.msgpack.encode(trial))
            answer = await _receive(answers)
        if answer is not None:
            with anyio.move_on_after(GRACE_SECONDS):
                await process.wait()
            return decode_verdict(answer)
        if not limit.cancelled_caught:
            # It has closed its stdout: nearly always by ending.
            with anyio.move_on_after(END_SECONDS):
                return _judge(await process.wait())
        return Overran(trial.seconds)


def _judge(code: int) -> Verdict:
    how = how_it_ended(code)
    return Undecided(how) if -code in FROM_OUTSIDE else Died(how)


def _told(verdict: Verdict) -> str:
    match verdict:
        case Died(how):
            return f"to blame, {how}"
        case Overran(seconds):
            return f"not done within {seconds:g} s"
        case Undecided(how):
            return f"undecided, {how}"
        case _:
            return "it came through"


async def _send(stream: anyio.abc.ByteSendStream, content: bytes) -> None:
    with suppress(anyio.BrokenResourceError):  # it has ended: that shows where its answer is read
        await stream.send(len(content).to_bytes(LENGTH_BYTES, "big") + content)


async def _receive(stream: BufferedByteReceiveStream) -> bytes | None:
    """One frame; None where there comes none."""
    try:
        length = int.from_bytes(await stream.receive_exactly(LENGTH_BYTES), "big")
        if length > MAX_FRAME_BYTES:
            return None
        return await stream.receive_exactly(length)
    except (anyio.EndOfStream, anyio.IncompleteRead, anyio.BrokenResourceError, anyio.ClosedResourceError):
        return None
