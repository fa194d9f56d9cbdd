"""One contender at work in a process of its own: orders in, answers out, and the CPU it used seen from outside."""

import os
import signal
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import IO, Any, Self

import anyio
import anyio.abc
import msgspec
from anyio.streams.buffered import BufferedByteReceiveStream

from callboard.bench.meter import family_cpu
from callboard.bench.peers.contenders import HERE, Contender

ANSWER_SECONDS = 240.0
"""How long an order may take: the slowest one takes 20 on a quiet machine."""
MAX_ANSWER_BYTES = 65_536


class Failed(Exception):
    """A contender broke off or did not answer in time; the message has its last words, in one line."""


class Process:
    """A running contender."""

    def __init__(self, process: anyio.abc.Process, complaints: IO[bytes]) -> None:
        self._process = process
        self._complaints = complaints
        assert process.stdout is not None
        self._answers = BufferedByteReceiveStream(process.stdout)
        self.versions: dict[str, str] = {}

    @classmethod
    @asynccontextmanager
    async def of(cls, contender: Contender, python: Path, dsn: str) -> AsyncIterator[Self]:
        """Start one on a database; it is gone with the block.

        Raises:
            Failed: it does not come up.
        """
        command = [str(python), str(HERE / "work.py"), str(HERE / contender.adapter), dsn, *contender.options]
        # Nothing of this process's paths: it is to find what its own interpreter has.
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "VIRTUAL_ENV", "PG"))}
        with tempfile.TemporaryFile() as complaints:
            process = await anyio.open_process(command, stderr=complaints, env=kept, start_new_session=True)
            try:
                here = cls(process, complaints)
                here.versions = msgspec.convert((await here._answer())["versions"], dict[str, str])
                yield here
            finally:
                with anyio.CancelScope(shield=True):
                    with suppress(ProcessLookupError):
                        os.killpg(process.pid, signal.SIGKILL)
                    await process.aclose()

    @property
    def cpu_seconds(self) -> float:
        """What it and its children have used."""
        return family_cpu(self._process.pid)

    async def order(self, do: str, count: int, at_once: int = 1) -> float:
        """Have something done; the seconds it took.

        Raises:
            Failed: it ended instead, or did not answer in time.
        """
        assert self._process.stdin is not None
        try:
            await self._process.stdin.send(msgspec.json.encode({"do": do, "count": count, "at_once": at_once}) + b"\n")
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            raise Failed(self._last_words()) from None
        return float((await self._answer())["seconds"])

    async def _answer(self) -> dict[str, Any]:
        """The next line of JSON; a library that prints something else is not asked for it."""
        try:
            with anyio.fail_after(ANSWER_SECONDS):
                while True:
                    line = await self._answers.receive_until(b"\n", MAX_ANSWER_BYTES)
                    with suppress(msgspec.DecodeError):
                        return msgspec.json.decode(line, type=dict[str, Any])
        except TimeoutError:
            raise Failed(f"no answer in {ANSWER_SECONDS:g} s") from None
        except (anyio.EndOfStream, anyio.IncompleteRead, anyio.DelimiterNotFound):
            raise Failed(self._last_words()) from None

    def _last_words(self) -> str:
        self._complaints.seek(0)
        lines = [line for line in self._complaints.read().decode(errors="replace").splitlines() if line.strip()]
        return " ".join(lines[-1].split())[:200] if lines else "it ended without a word"


def ours() -> Path:
    """The interpreter that has Callboard."""
    return Path(sys.executable)
