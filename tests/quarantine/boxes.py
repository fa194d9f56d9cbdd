"""An application for tests with real processes: boxes that count what they handled, and a worker; some of it is deadly.

    ""          handled
    wait        handled after a moment
    exit        os._exit(3)
    segfault    reads address 0
    sys.exit    raises SystemExit
    stuck       never lets the event loop turn again
    call:HOW    sends a call to the worker, which does HOW: "", wait, exit, segfault, long (until a file is there),
                deadly-answer (the box exits when it handles that)

Each deadly handler writes down where it began, and each call of the worker does: that is the world's own account.
"""

import ctypes
import os
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import msgspec

from callboard import App, Supervisor, Surroundings
from callboard.actors.actor import Actor, Worker, on
from callboard.actors.context import Context, WorkerContext
from callboard.actors.spec import Child
from callboard.actors.system import AskFailed
from callboard.mailbox.message import Message

BOX = "/boxes/box"
WORKER = "/boxes/worker"


class Put(Message, tag="quarantine_test.put"):
    """To a box."""

    text: str
    how: str = ""


class Work(Message, tag="quarantine_test.work"):
    """To the worker."""

    text: str
    how: str


class Worked(Message, tag="quarantine_test.worked"):
    """From the worker."""

    text: str
    deadly: str = ""


class Contents(msgspec.Struct):
    handled: list[str] = []
    answers: list[str] = []


class Deadly:
    """Ends processes, and writes down that it did."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def note(self, name: str, text: str) -> None:
        with (self.folder / name).open("a") as notes:
            notes.write(f"{text} {os.getpid()}\n")

    def do(self, how: str, text: str) -> None:
        if how not in ("exit", "segfault", "sys.exit", "stuck"):
            return
        self.note("deaths", text)
        if how == "exit":
            os._exit(3)
        if how == "segfault":
            ctypes.string_at(0)
        if how == "sys.exit":
            sys.exit(4)
        while True:
            time.sleep(1)


class Box(Actor[Contents], kind="quarantine-test-box"):
    def __init__(self, deadly: Deadly) -> None:
        self.deadly = deadly

    @on(creates=True)
    async def put(self, message: Put, ctx: Context) -> None:
        self.state.handled.append(message.text)
        how, _, rest = message.how.partition(":")
        if how == "call":
            ctx.send(WORKER, Work(message.text, rest))
        elif how == "wait":
            await ctx.port.sleep(0.05)
        self.deadly.do(how, message.text)

    @on
    def worked(self, message: Worked | AskFailed, ctx: Context) -> None:
        self.state.answers.append(message.text if isinstance(message, Worked) else f"failed: {message.why}")
        if isinstance(message, Worked):
            self.deadly.do(message.deadly, message.text)


class Laborer(Worker, kind="quarantine-test-worker"):
    def __init__(self, deadly: Deadly) -> None:
        self.deadly = deadly

    @on
    async def work(self, message: Work, ctx: WorkerContext) -> Worked:
        self.deadly.note("calls", message.text)
        if message.how == "wait":
            await ctx.port.sleep(0.05)
        while message.how == "long" and not (self.deadly.folder / "go").exists():  # noqa: ASYNC110 - another process's word
            await anyio.sleep(0.05)
        self.deadly.do(message.how, message.text)
        return Worked(message.text, "exit" if message.how == "deadly-answer" else "")


@asynccontextmanager
async def open_boxes(surroundings: Surroundings) -> AsyncIterator[Supervisor]:
    deadly = Deadly(Path(surroundings.options["folder"]))
    children = (Child(Box, "box", pool=True, args=(deadly,)), Child(Laborer, "worker", args=(deadly,)))
    yield Supervisor("boxes", children)


app = App("boxes", open_boxes, runs=BOX)
