"""A small desk on real PostgreSQL for the inspector's tests: actors that do as their message says, a worker, one node.

The node runs in a thread with an event loop of its own, so that commands may be run as people run them.
"""

import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import anyio
import msgspec

from callboard.actors.actor import Actor, Worker, on
from callboard.actors.client import Client
from callboard.actors.context import Context, WorkerContext
from callboard.actors.directives import Park, Reject
from callboard.actors.node import Node, NodeSettings
from callboard.actors.retry import RetryPolicy
from callboard.actors.spec import Child, Supervisor, Tree
from callboard.mailbox.address import shard_of
from callboard.mailbox.envelope import Envelope
from callboard.mailbox.lane import Lane
from callboard.mailbox.message import Message
from callboard.mailbox.request import Request
from callboard.persistence.postgres import PostgresStore

WAIT_SECONDS = 120.0
PROBE, TOOL = "/t/p", "/t/tool"


class Note(Request["Told"], tag="inspected.note"):
    """Do what `text` says; the other fields are there to be looked at."""

    text: str = ""
    order: str = ""
    password: str = ""


class Told(Message, tag="inspected.told"):
    """An answer."""

    text: str = ""


class Call(Message, tag="inspected.call"):
    """To the worker."""

    text: str = ""


class Remembered(msgspec.Struct):
    """What an actor has heard."""

    notes: list[str] = []


class Doer(Actor[Remembered], kind="inspected-doer"):
    """ok, wait (until the test lets go), fail (again and again), reject, park, later (put aside), hold, send, echo."""

    retry = RetryPolicy(max_failures=1_000, first_seconds=3_600.0, cap_seconds=7_200.0)

    def __init__(self, gate: threading.Event) -> None:
        self.gate = gate

    @on(creates=True)
    async def note(self, message: Note, ctx: Context) -> None:
        word, _, rest = message.text.partition(" ")
        if word == "later":
            ctx.stash()
            return
        self.state.notes.append(message.text)
        match word:
            case "wait":
                while not self.gate.is_set():  # noqa: ASYNC110 - another thread opens it
                    await anyio.sleep(0.02)
            case "fail":
                raise RuntimeError(f"it broke on {rest or 'purpose'}")
            case "reject":
                raise Reject("nobody wants this")
            case "park":
                raise Park("a person must look")
            case "hold":
                ctx.hold(TOOL, Call(rest))
            case "call":
                ctx.send(TOOL, Call(rest))
            case "send":
                ctx.send(f"{PROBE}:{rest}", Note("ok"))
            case "echo":
                ctx.reply(Told(rest))


class Tool(Worker, kind="inspected-tool"):
    """A call waits until the test lets go; `reject` is refused."""

    def __init__(self, gate: threading.Event) -> None:
        self.gate = gate

    def records_start(self, message: Message) -> bool:
        return True

    @on
    async def call(self, message: Call, ctx: WorkerContext) -> None:
        if message.text == "reject":
            raise Reject("no such order")
        while not self.gate.is_set():  # noqa: ASYNC110 - another thread opens it
            await anyio.sleep(0.02)


class Desk:
    """A database, and a node that can be started and stopped."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        self.gate = threading.Event()

    def _tree(self) -> Tree:
        children = (Child(Doer, "p", pool=True, args=(self.gate,)), Child(Tool, "tool", args=(self.gate,)))
        return Tree(Supervisor("t", children, max_restarts=100))

    @contextmanager
    def node(self) -> Iterator[None]:
        """A node, for as long as this lasts."""
        ready, end = threading.Event(), threading.Event()
        failed: list[BaseException] = []

        async def serve() -> None:
            async with PostgresStore(self.dsn) as store:
                node = Node(store, self._tree(), settings=NodeSettings(label="desk/1", drain_seconds=1.0))
                async with anyio.create_task_group() as group:
                    group.start_soon(node.run)
                    await node.ready.wait()
                    ready.set()
                    while not end.is_set():  # noqa: ASYNC110 - another thread sets it
                        await anyio.sleep(0.02)
                    node.stop()

        def run() -> None:
            try:
                anyio.run(serve)
            except BaseException as error:  # noqa: BLE001 - told to the test's thread
                failed.append(error)
            finally:
                ready.set()

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        assert ready.wait(WAIT_SECONDS) and not failed, failed
        try:
            yield
        finally:
            self.gate.set()
            end.set()
            thread.join(WAIT_SECONDS)

    def ask(self, question: Callable[[PostgresStore, Client], Awaitable[Any]]) -> Any:
        """What the store says."""

        async def session() -> Any:
            async with PostgresStore(self.dsn) as store:
                return await question(store, Client(store, number_seconds=60.0))

        return anyio.run(session)

    def send(
        self,
        key: str,
        *messages: Message | str,
        delay_seconds: float = 0.0,
        client_id: str = "",
        lane: Lane = Lane.NORMAL,
    ) -> list[int]:
        """Send to an actor; the ids of the messages."""

        async def work(store: PostgresStore, client: Client) -> list[int]:
            envelopes: list[Envelope] = []
            for message in messages:
                note = Note(message) if isinstance(message, str) else message
                envelope = await client.envelope(f"{PROBE}:{key}", note, lane=lane)
                envelope.delay_seconds = delay_seconds
                envelopes.append(envelope)
            await store.send(envelopes, [client_id] if client_id else ())
            return [envelope.id for envelope in envelopes]

        found: list[int] = self.ask(work)
        return found

    def notes(self, key: str) -> list[str]:
        """What an actor has done."""

        async def work(store: PostgresStore, _: Client) -> list[str]:
            row = await store.actor(f"{PROBE}:{key}")
            return [] if row is None or not row.state else msgspec.msgpack.decode(row.state, type=Remembered).notes

        found: list[str] = self.ask(work)
        return found


def shard(key: str) -> int:
    """The shard of an actor."""
    return shard_of(f"{PROBE}:{key}")
