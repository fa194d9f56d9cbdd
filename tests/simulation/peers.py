"""Actors that pass tokens on: every hop is known beforehand, so what arrived can be compared with what must have.

A token's path is a pure function of its name and fuel. Each peer numbers what it sends, per receiver and lane, and
checks the numbers of what it gets: that is G2, seen from inside. A token may stumble once (a bug, or the world), or
make its turn wait; none of that may show in the state.
"""

from collections import Counter
from collections.abc import Awaitable, Iterator
from typing import Literal
from zlib import crc32

import msgspec

from callboard.actors.actor import Actor, on
from callboard.actors.context import Context, Event
from callboard.actors.directives import Transient
from callboard.actors.retry import RetryPolicy
from callboard.mailbox.lane import Lane
from callboard.mailbox.message import Message

from .outside import WORLD

PEERS = 5
QUICK = RetryPolicy(first_seconds=0.03, cap_seconds=0.2)
How = Literal["", "waits", "bug", "transient"]


class Token(Message, tag="sim.token"):
    """`seq` numbers what `origin` sends to this receiver in this lane, from 1; 0: not numbered."""

    name: str
    fuel: int
    origin: str
    seq: int = 0
    how: How = ""


class Relay(Message, tag="sim.relay"):
    """To a peer, from outside and then from itself: send one token to `target`, and go on with `left` less.

    So there is mostly more than one message on the way from this peer to that one: what order is about.
    """

    name: str
    left: int
    target: int


class Passed(Event, tag="sim.passed"):
    """Event: a token was here."""

    what: str


class PeerState(msgspec.Struct):
    seen: list[str] = []
    sent: dict[str, int] = {}
    got: dict[str, int] = {}
    wrong: list[str] = []


def peer(number: int) -> str:
    """Address of a peer."""
    return f"/w/peers/peer:{number}"


def _hash(*parts: object) -> int:
    return crc32(" ".join(map(str, parts)).encode())


def hops(name: str, fuel: int, at: int) -> Iterator[tuple[int, str]]:
    """(peer, what it sees) of every hop of a token that starts at peer `at`."""
    yield at, f"{name}/{fuel}"
    if fuel > 0:
        for target in targets(name, fuel):
            yield from hops(name, fuel - 1, target)


def targets(name: str, fuel: int) -> list[int]:
    """Where a token with so much fuel goes next: mostly one peer, sometimes two, sometimes the same twice."""
    chance = _hash(name, fuel)
    first = chance % PEERS
    return [first, (chance >> 8) % PEERS] if chance % 7 == 0 and fuel < 4 else [first]


def expected(tokens: list[tuple[str, int, int]], relays: list[Relay]) -> dict[int, Counter[str]]:
    """What each peer must have seen of these tokens (name, fuel, first peer) and relays."""
    seen: dict[int, Counter[str]] = {number: Counter() for number in range(PEERS)}
    for name, fuel, at in tokens:
        for number, what in hops(name, fuel, at):
            seen[number][what] += 1
    for relay in relays:
        seen[relay.target].update(f"{relay.name}-{left * 8}/0" for left in range(relay.left + 1))
    return seen


class Peer(Actor[PeerState], kind="sim-peer"):
    """Passes tokens on."""

    retry = QUICK

    @on(creates=True)
    def token(self, message: Token, ctx: Context) -> Awaitable[None] | None:
        what = f"{message.name}/{message.fuel}"
        self._number(message, ctx)
        self.state.seen.append(what)
        if message.fuel % 3 == 0:
            ctx.record(Passed(what))
        for target in targets(message.name, message.fuel) if message.fuel > 0 else ():
            self._send(message, target, ctx)
        if ctx.attempt > 1 and message.how != "bug":
            self.state.wrong.append(f"G8: {what} was charged with {ctx.attempt - 1} failures")
        match message.how:
            case "bug" if ctx.attempt == 1:
                raise RuntimeError("simulated bug")
            case "transient" if WORLD.stumble(ctx.message_id):
                raise Transient("simulated", after_seconds=0.04)
            case "waits":
                return ctx.port.sleep(0.01 + (message.fuel % 4) * 0.05)
        return None

    @on(creates=True)
    async def relay(self, message: Relay, ctx: Context) -> None:
        if message.left % 3 == 0:
            await ctx.port.sleep(0.03)
        self._put(message.name, message.left * 8, "waits" if message.left % 3 == 0 else "", message.target, ctx)
        if message.left:
            ctx.send(ctx.address, Relay(message.name, message.left - 1, message.target))

    def _put(self, name: str, number: int, how: How, target: int, ctx: Context) -> None:
        key = f"{target} {int(Lane.NORMAL)}"
        seq = self.state.sent[key] = self.state.sent.get(key, 0) + 1
        ctx.send(peer(target), Token(f"{name}-{number}", 0, ctx.address, seq, how))

    def _send(self, message: Token, target: int, ctx: Context) -> None:
        chance = _hash(message.name, message.fuel, target)
        lane = Lane.REPLY if chance % 5 == 0 else Lane.NORMAL
        how: How = ("bug", "transient", "waits", "waits")[(chance >> 4) % 4] if (chance >> 8) % 6 == 0 else ""
        key = f"{target} {int(lane)}"
        seq = self.state.sent[key] = self.state.sent.get(key, 0) + 1
        ctx.send(peer(target), Token(message.name, message.fuel - 1, ctx.address, seq, how), lane=lane)

    def _number(self, message: Token, ctx: Context) -> None:
        if not message.seq:
            return
        key = f"{message.origin} {ctx.envelope.lane}"
        got = self.state.got.get(key, 0)
        if message.seq != got + 1:
            self.state.wrong.append(f"G2: {ctx.address} got number {message.seq} of {key} after {got}")
        self.state.got[key] = message.seq
