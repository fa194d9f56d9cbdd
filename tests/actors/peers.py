"""Actors that do to each other what a test tells them, in one line of text, and remember what they heard.

A `Peer` obeys `Do` and answers `Ask`. What an `Ask` says is done like a `Do`; "say X" answers it with X, "later" keeps
it to be answered by "answer X", anything else answers nothing.
"""

from typing import Any

import msgspec

from callboard.actors.actor import Actor, on
from callboard.actors.context import Context, Ref
from callboard.actors.directives import Fatal, Reject
from callboard.actors.retry import RetryPolicy
from callboard.actors.spec import Child, Supervisor
from callboard.actors.system import AskFailed, Terminated
from callboard.actors.testing import TestKit
from callboard.mailbox.lane import Lane
from callboard.mailbox.message import Message
from callboard.mailbox.request import Request

A, B, C = "/t/p:a", "/t/p:b", "/t/p:c"


class Said(Message, tag="peers_test.said"):
    """An answer."""

    text: str = ""


class Ask(Request[Said], tag="peers_test.ask"):
    """A question, which is an order too."""

    text: str = ""


class Do(Message, tag="peers_test.do"):
    """An order."""

    text: str = ""


class Memory(msgspec.Struct):
    """What a peer remembers."""

    heard: list[str] = []
    asks: list[int] = []
    answers: list[int] = []
    """Which ask each outcome was for."""
    kept: list[tuple[str, int]] = []
    lives: int = 0


class Peer(Actor[Memory], kind="peers-test-peer"):
    """See the module."""

    retry = RetryPolicy(max_failures=2)
    stash_limit = 20

    def on_start(self, ctx: Context) -> None:
        self.state.lives += 1

    @on(creates=True)
    def do(self, message: Do, ctx: Context) -> None:
        for order in message.text.split("; "):
            self.obey(order, ctx)

    @on(creates=True)
    def asked(self, message: Ask, ctx: Context) -> None:
        for order in message.text.split("; "):
            self.obey(order, ctx)

    @on
    def heard(self, message: Said | AskFailed | Terminated, ctx: Context) -> None:
        match message:
            case Said(text):
                self.state.heard.append(text)
            case AskFailed(why, _):
                self.state.heard.append(f"failed: {why}")
            case Terminated(address, incarnation, status, reason):
                self.state.heard.append(f"{address} {incarnation} {status} {reason}".rstrip())
        if ctx.answers:
            self.state.answers.append(ctx.answers)
            assert ctx.correlation == ctx.answers

    def obey(self, order: str, ctx: Context) -> None:
        match order.split():
            case ["ask", to, seconds, *text]:
                self.state.asks.append(ctx.ask(to, Ask(" ".join(text).replace(",", ";")), timeout=float(seconds)))
            case ["say", *text]:
                ctx.reply(Said(" ".join(text)))
            case ["later"]:
                self.state.kept.append(ctx.reply_to)
            case ["answer", *text]:
                ctx.reply_later(self.state.kept.pop(0), Said(" ".join(text)))
            case ["note", *text]:
                self.state.heard.append(" ".join(text))
            case ["watch", to]:
                ctx.watch(to)
            case ["unwatch", to]:
                ctx.unwatch(to)
            case ["spawn", to, *how]:
                assert ctx.spawn(to, again="again" in how, watch="watch" in how) == Ref[Any](to)
            case ["send", to, *text]:
                ctx.send(to, Do(" ".join(text).replace(",", ";")))
            case ["end", status, *reason]:
                ctx.stop(status, " ".join(reason))
            case ["park"]:
                ctx.park("told to")
            case ["bug"]:
                raise RuntimeError("bug")
            case ["reject"]:
                raise Reject("no")
            case ["fatal"]:
                raise Fatal("broken")


def world(*others: Child | Supervisor, restart: Any = "permanent") -> Supervisor:
    """`/t` with a pool of peers, and whatever else."""
    return Supervisor("t", (Child(Peer, "p", pool=True, restart=restart), *others), max_restarts=1000)


async def do(kit: TestKit, to: str, text: str) -> None:
    """Tell a peer what to do, and let it happen."""
    await kit.send(to, Do(text))


async def send_together(kit: TestKit, to: str, *texts: str, lane: Lane = Lane.NORMAL) -> None:
    """Send without letting anything happen in between."""
    await kit.store.send([await kit.client.envelope(to, Do(text), lane=lane) for text in texts])


async def memory(kit: TestKit, address: str) -> Memory:
    """What a peer remembers."""
    return await kit.state(address, Memory)


async def heard(kit: TestKit, address: str) -> list[str]:
    """What a peer has heard."""
    return (await memory(kit, address)).heard


async def outcomes(kit: TestKit, address: str, type: str) -> list[str]:
    """The outcomes of an actor's turns for one type of message."""
    return [turn.outcome for turn in await kit.store.turns(address) if turn.type == type]


async def at_rest(kit: TestKit, *addresses: str) -> None:
    """Check that nothing is left over: no message, no timer, no dead letter, no bond."""
    assert kit.store.tables.messages == {}
    assert kit.store.tables.timers == {}
    assert await kit.store.dead_letters() == []
    for address in addresses:
        row = await kit.row(address)
        assert row is not None
        assert set(msgspec.json.decode(row.bonds or "{}")) <= {"drawn"}, row.bonds
