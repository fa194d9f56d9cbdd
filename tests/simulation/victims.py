"""Actors that get bad messages: ones that always fail, cannot be read, or are of a type that nobody knows."""

import msgspec

from callboard.actors.actor import Actor, on
from callboard.actors.context import Context
from callboard.actors.directives import Fatal, Park, Reject
from callboard.actors.retry import RetryPolicy
from callboard.mailbox.message import Message

VICTIMS = 3
KINDS = ("bug", "reject", "fatal", "park", "unreadable", "unknown")


class Bad(Message, tag="sim.bad"):
    """Fails in this way, always."""

    how: str


class VictimState(msgspec.Struct):
    handled: int = 0


def victim(number: int) -> str:
    """Address of a victim."""
    return f"/w/victims/victim:{number}"


class Victim(Actor[VictimState], kind="sim-victim"):
    """Suffers."""

    retry = RetryPolicy(max_failures=3, first_seconds=0.02, cap_seconds=0.05)

    @on(creates=True)
    def bad(self, message: Bad, ctx: Context) -> None:
        self.state.handled += 1
        match message.how:
            case "bug":
                raise RuntimeError("simulated poison")
            case "reject":
                raise Reject("simulated")
            case "fatal":
                raise Fatal("simulated")
            case "park":
                raise Park("simulated")
