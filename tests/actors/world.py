"""What the engine's tests share: an actor and a worker that do as a test says, and how to find who owns an address.

`Probe` appends the text of each `Note` to its state, *then* runs the test's script, so that a script that raises shows
whether the turn was undone. `Tool` counts its calls outside of any state, as the world outside would.
"""

from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import msgspec

from callboard.actors.actor import Actor, Worker, on
from callboard.actors.context import Context, WorkerContext
from callboard.actors.node import Node, NodeSettings
from callboard.actors.retry import RetryPolicy
from callboard.actors.spec import Child, Supervisor
from callboard.actors.system import AskFailed
from callboard.actors.testing import TestKit
from callboard.mailbox.address import shard_of
from callboard.mailbox.lane import Lane
from callboard.mailbox.message import Message
from callboard.mailbox.request import Request
from callboard.persistence.unit import Unit

LEASE_SECONDS = 1.5
SETTINGS = NodeSettings(lease_seconds=LEASE_SECONDS, beat_seconds=0.25, drain_seconds=5.0)


class Note(Request["Answer"], tag="engine_test.note"):
    """Something to remember; a test may ask with it too."""

    text: str = ""


class Call(Message, tag="engine_test.call"):
    """To a worker."""

    text: str = ""


class Answer(Message, tag="engine_test.answer"):
    """From a worker, or from an actor that was asked."""

    text: str = ""


class Notes(msgspec.Struct):
    """What a probe remembers."""

    notes: list[str] = []
    answers: list[str] = []


Script = Callable[["Probe", Note, Context], Awaitable[None] | None]


def nothing(_probe: "Probe", _note: Note, _ctx: Context) -> None:
    """The script of a probe that only remembers."""


class Probe(Actor[Notes], kind="engine-test-probe"):
    """Remembers notes and answers."""

    def __init__(self, script: Script = nothing) -> None:
        self.script = script

    @on(creates=True)
    def note(self, message: Note, ctx: Context) -> Awaitable[None] | None:
        self.state.notes.append(message.text)
        return self.script(self, message, ctx)

    @on
    def answered(self, message: Answer | AskFailed, ctx: Context) -> None:
        self.state.answers.append(message.text if isinstance(message, Answer) else f"failed: {message.why}")


class Once(Probe, kind="engine-test-once"):
    """A probe whose messages have one attempt."""

    retry = RetryPolicy(max_failures=1)


Body = Callable[[Call, WorkerContext], Awaitable[Message | None]]


class Tool(Worker, kind="engine-test-tool"):
    """Runs the test's function."""

    def __init__(self, body: Body, *, records: bool = False) -> None:
        self.body = body
        self.records = records

    def records_start(self, message: Message) -> bool:
        return self.records

    @on
    async def call(self, message: Call, ctx: WorkerContext) -> Message | None:
        return await self.body(message, ctx)


class Tools(Tool, kind="engine-test-tools"):
    """A tool whose start is recorded."""

    def __init__(self, body: Body) -> None:
        super().__init__(body, records=True)


def tree(script: Script = nothing, *others: Child | Supervisor, actor: type[Probe] = Probe) -> Supervisor:
    """`/t` with a pool of probes `/t/p:…` and whatever else."""
    return Supervisor("t", (Child(actor, "p", pool=True, args=(script,)), *others), max_restarts=100)


def addresses(kit: TestKit, node: Node, prefix: str = "/t/p") -> Iterator[str]:
    """Addresses of a pool that this node owns."""
    number = kit.session(node).number
    for key in range(100_000):
        address = f"{prefix}:{key}"
        if kit.store.cluster.owners.get(shard_of(address)) == number:
            yield address


def address_of(kit: TestKit, node: Node, prefix: str = "/t/p") -> str:
    """The first of `addresses`."""
    return next(addresses(kit, node, prefix))


def shards(kit: TestKit, node: Node) -> int:
    """How many shards the store says a node has."""
    return len(kit.store.cluster.owned(kit.session(node).number))


async def notes(kit: TestKit, address: str) -> list[str]:
    """What a probe has remembered; nothing where there is none."""
    return (await kit.state(address, Notes)).notes if await kit.row(address) else []


async def answers(kit: TestKit, address: str) -> list[str]:
    """Which answers a probe got."""
    return (await kit.state(address, Notes)).answers


async def send_all(kit: TestKit, address: str, texts: list[str], *, lane: Lane = Lane.NORMAL) -> None:
    """Send notes from outside without letting anything happen in between."""
    envelopes = [await kit.client.envelope(address, Note(text), lane=lane) for text in texts]
    await kit.store.send(envelopes)


def spy_on_commits(kit: TestKit, node: Node, seen: Callable[[list[Unit]], Any]) -> None:
    """Call `seen` with each batch that a node commits."""
    session = kit.session(node)
    commit = session.commit

    async def spied(units: Any) -> Any:
        seen(list(units))
        return await commit(units)

    session.commit = spied  # type: ignore[method-assign]
