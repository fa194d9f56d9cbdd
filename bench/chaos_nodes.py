"""Node processes by slot: started again when they end, killed, frozen, robbed of memory, with what became of each.

A slot is a machine of a small site, with a network to the database of its own (`proxy.py`) and a wall clock of its own.
One node process after the other lives in it.
"""

import os
import resource
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import anyio.abc
from anyio.streams.text import TextReceiveStream

from callboard.bench.chaos_node import ClockFile, NodeOrder, dumps, read_event
from callboard.bench.daemons import StormFailed
from callboard.bench.proxy import Proxy

LOAD_SECONDS = 60.0
"""How long the process that forks them may take to load."""
READY_SECONDS = 90.0
END_SECONDS = 60.0
AGAIN_SECONDS = 0.5
"""After which a node is started again that ended before it served."""
LOOK_SECONDS = 0.02
SPENT = 70


@dataclass
class Life:
    """One node process."""

    label: str
    pid: int = 0
    number: int = 0
    """As which the database knows it, from when it serves."""
    ready_at: float = 0.0
    """By the monotonic clock, as all times here; 0: not yet."""
    why: str = ""
    """What was done to end it: a deed, "drained" or "" for nothing."""
    code: int | None = None


@dataclass
class Slot:
    """Where a node is to be."""

    number: int
    proxy: Proxy
    clock: ClockFile
    log: Path
    environment: dict[str, str]
    lives: list[Life] = field(default_factory=list)
    busy: str = ""
    """The deed that it is the victim of at this moment."""

    @property
    def life(self) -> Life:
        """The latest."""
        return self.lives[-1]

    def serves(self, seconds: float = 0.0) -> bool:
        """Whether its node has said so, that long ago at least, and lives."""
        life = self.life
        return life.code is None and 0 < life.ready_at <= time.monotonic() - seconds


class Nest:
    """The process that forks nodes, and the slots that it fills."""

    def __init__(self, process: anyio.abc.Process, slots: list[Slot], folder: Path) -> None:
        self.process = process
        self.slots = slots
        self.folder = folder
        self.fallen: list[str] = []
        """Nodes that ended and nobody had asked them to, with their exit codes."""
        self.away: Callable[[], bool] = lambda: False
        """Whether the database is, or was a moment ago."""
        self._loaded = anyio.Event()
        self._ending = False
        self._group: anyio.abc.TaskGroup | None = None

    @classmethod
    @asynccontextmanager
    async def open(cls, slots: list[Slot], folder: Path) -> AsyncIterator["Nest"]:
        """One whose process is loaded; all of it is gone with the block, whatever happens."""
        command = [sys.executable, "-m", "callboard.bench.chaos_node"]
        with (folder / "nest.log").open("ab") as errors:
            process = await anyio.open_process(command, stderr=errors)
        nest = cls(process, slots, folder)
        try:
            async with anyio.create_task_group() as group:
                nest._group = group
                group.start_soon(nest._listen)
                with anyio.fail_after(LOAD_SECONDS):
                    await nest._loaded.wait()
                yield nest
                group.cancel_scope.cancel()
        finally:
            with anyio.CancelScope(shield=True):
                with suppress(ProcessLookupError):
                    process.kill()  # the kernel ends its nodes with it, those that are frozen too
                await process.wait()

    async def begin(self) -> None:
        """Fill every slot, and wait until all nodes serve."""
        for slot in self.slots:
            await self._begin(slot)
        await self.until(lambda: all(slot.serves() for slot in self.slots), READY_SECONDS, "every node serves")

    async def _begin(self, slot: Slot) -> None:
        life = Life(f"n{slot.number}.{len(slot.lives) + 1}")
        slot.lives.append(life)
        clock = str(self.folder / f"clock-{slot.number}")
        order = NodeOrder(life.label, str(slot.log), clock, slot.environment)
        assert self.process.stdin is not None
        await self.process.stdin.send(dumps(order))

    async def _listen(self) -> None:
        assert self.process.stdout is not None
        rest = ""
        async for text in TextReceiveStream(self.process.stdout, errors="replace"):
            *lines, rest = (rest + text).split("\n")
            for line in lines:
                self._said(read_event(line))
        if not self._ending:
            raise StormFailed(f"the process that forks nodes has ended\n{_tail(self.folder / 'nest.log')}")

    def _said(self, event: dict[str, object]) -> None:
        lives = {life.label: life for slot in self.slots for life in slot.lives[-1:]}
        match event.get("event"):
            case "loaded":
                self._loaded.set()
            case "begun" if life := lives.get(str(event["label"])):
                life.pid = int(str(event["pid"]))
            case "ready" if life := lives.get(str(event["label"])):
                life.number = int(str(event["node"]))
                life.ready_at = time.monotonic()
            case "ended":
                for slot in self.slots:
                    if slot.life.pid == event["pid"] and slot.life.code is None:
                        self._ended(slot, int(str(event["code"])))

    def _ended(self, slot: Slot, code: int) -> None:
        life = slot.life
        life.code = code
        if not life.why and not (code == SPENT and not life.ready_at and self.away()):
            said = _tail(slot.log).strip().splitlines()[-1:]
            self.fallen.append(f"{life.label} with {code}: {' '.join(said)[:300]}")
        if not self._ending and self._group is not None:
            self._group.start_soon(self._again, slot)

    async def _again(self, slot: Slot) -> None:
        if not slot.life.ready_at:
            await anyio.sleep(AGAIN_SECONDS)
        if not self._ending:
            await self._begin(slot)

    # --- what is done to them ------------------------------------------------------------------------------------

    def serving(self, seconds: float) -> list[Slot]:
        """Those that have served for so long, and to which nothing is being done."""
        return [slot for slot in self.slots if slot.serves(seconds) and not slot.busy]

    def living(self) -> list[int]:
        """Node processes that have not ended."""
        return [life.pid for slot in self.slots for life in slot.lives if life.code is None]

    def kill(self, slot: Slot) -> bool:
        """kill -9, without a word to it; False where it has ended just now."""
        try:
            os.kill(slot.life.pid, signal.SIGKILL)
        except ProcessLookupError:
            return False
        slot.life.why = "kill node"
        return True

    async def freeze(self, slot: Slot, seconds: float) -> None:
        """Stop it where it is, and let it go on after a while.

        Raises:
            ProcessLookupError: it has ended just now; so does `starve`.
        """
        life = slot.life
        try:
            os.kill(life.pid, signal.SIGSTOP)
            await anyio.sleep(seconds)
        finally:
            if life.code is None:
                with suppress(ProcessLookupError):
                    os.kill(life.pid, signal.SIGCONT)

    async def starve(self, slot: Slot, seconds: float) -> bool:
        """Give it no more memory than it has, and rather less; whether it ended by itself within `seconds`.

        It keeps what it has, and gets nothing new from the kernel: the next call of a model (`chaos_app`) finds none.
        One that has not ended by then is killed, as the kernel kills, or a daemon that watches it.
        """
        life = slot.life
        _, most = resource.prlimit(life.pid, resource.RLIMIT_AS)
        resource.prlimit(life.pid, resource.RLIMIT_AS, (_address_space(life.pid) // 2, most))
        life.why = "out of memory"
        end = time.monotonic() + seconds
        while life.code is None and time.monotonic() < end:  # noqa: ASYNC110 - another process raises no event
            await anyio.sleep(LOOK_SECONDS)
        if life.code is not None:
            return True
        with suppress(ProcessLookupError):
            os.kill(life.pid, signal.SIGKILL)
        return False

    async def drain(self) -> list[str]:
        """SIGTERM to all; which did not end with 0, and how they ended."""
        self._ending = True
        for slot in self.slots:
            if slot.life.code is None:
                slot.life.why = "drained"
                with suppress(ProcessLookupError):
                    os.kill(slot.life.pid, signal.SIGTERM)
        lives = [slot.life for slot in self.slots]
        with anyio.move_on_after(END_SECONDS):
            while any(life.code is None for life in lives):  # noqa: ASYNC110 - other processes raise no event
                await anyio.sleep(LOOK_SECONDS)
        return [f"{life.label} with {life.code}" for life in lives if life.code != 0]

    async def until(self, condition: Callable[[], bool], seconds: float, what: str) -> None:
        """Wait for something.

        Raises:
            StormFailed: it does not come true within `seconds`; with the end of the logs.
        """
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end:
                logs = "\n".join(_tail(slot.log) for slot in self.slots)
                raise StormFailed(f"not within {seconds:g} s: {what}\n{logs}")
            await anyio.sleep(LOOK_SECONDS)


def _address_space(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[0])
    return pages * resource.getpagesize()


def _tail(log: Path) -> str:
    return log.read_text(errors="replace")[-1_500:] if log.exists() else ""
