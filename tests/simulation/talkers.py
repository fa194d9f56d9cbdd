"""Actors that ask, answer late or never, put messages aside, and watch short-lived ones until they end.

Every ask must have exactly one outcome, every watch exactly one `Terminated`, and what was put aside must be handled
in its order once the door is open again.
"""

import msgspec

from callboard.actors.actor import Actor, on
from callboard.actors.context import Context
from callboard.actors.retry import RetryPolicy
from callboard.actors.system import AskFailed, Terminated
from callboard.mailbox.message import Message
from callboard.mailbox.request import Request

QUICK = RetryPolicy(first_seconds=0.03, cap_seconds=0.2)
ASKERS = 2
HELPERS = 2
MAYFLIES = 3
KINDS = ("now", "later", "never", "back", "bug", "stashed")


class Wonder(Message, tag="sim.wonder"):
    """To an asker: ask a helper in this way."""

    name: str
    helper: int
    kind: str


class Question(Request["Reply"], tag="sim.question"):
    """To a helper, or back to who asked."""

    kind: str


class Reply(Message, tag="sim.reply"):
    """To who asked."""

    kind: str


class Later(Message, tag="sim.later"):
    """Timer of a helper: answer now."""

    to: tuple[str, int]


class Note(Message, tag="sim.note"):
    """Number `seq` of what `origin` has told this helper, from 1."""

    origin: str
    seq: int


class Door(Message, tag="sim.door"):
    """While it is shut, a helper puts notes and questions aside."""

    is_open: bool


class Follow(Message, tag="sim.follow"):
    """To an asker: see that this mayfly is there, and wait for its end."""

    mayfly: int


class End(Message, tag="sim.end"):
    """To a mayfly: end, if first `seconds` in a handler."""

    seconds: float = 0.0
    status: str = "completed"


def asker(number: int) -> str:
    return f"/w/talk/asker:{number}"


def helper(number: int) -> str:
    return f"/w/talk/helper:{number}"


def mayfly(number: int) -> str:
    return f"/w/talk/mayfly:{number}"


class AskerState(msgspec.Struct):
    open: dict[str, str] = {}
    """Name of each question without an outcome, by its ask."""
    outcomes: dict[str, str] = {}
    follows: dict[str, int] = {}
    """How often each mayfly is followed."""
    ends: dict[str, list[str]] = {}
    """How each was said to have ended."""
    wrong: list[str] = []


class Asker(Actor[AskerState], kind="sim-asker"):
    """Asks, answers when asked back, and follows mayflies."""

    retry = QUICK

    @on(creates=True)
    def wonder(self, message: Wonder, ctx: Context) -> None:
        ask = ctx.ask(helper(message.helper), Question(message.kind), timeout=0.6)
        self.state.open[str(ask)] = message.name

    @on
    def answered(self, message: Reply | AskFailed, ctx: Context) -> None:
        ask = str(ctx.answers)
        name = self.state.open.pop(ask, None)
        if name is None:
            self.state.wrong.append(f"I6: ask {ask} has an outcome {message} that nobody waits for")
        elif name in self.state.outcomes:
            self.state.wrong.append(f"I6: {name} has a second outcome {message} after {self.state.outcomes[name]}")
        else:
            self.state.outcomes[name] = message.kind if isinstance(message, Reply) else f"failed: {message.why}"

    @on
    def asked_back(self, message: Question, ctx: Context) -> None:
        ctx.reply(Reply("back"))

    @on(creates=True)
    def follow(self, message: Follow, ctx: Context) -> None:
        address = mayfly(message.mayfly)
        follows = self.state.follows.get(address, 0)
        if follows == len(self.state.ends.get(address, [])):  # else it is being watched already
            self.state.follows[address] = follows + 1
        ctx.spawn(address, watch=True)

    @on
    def ended(self, message: Terminated, ctx: Context) -> None:
        ends = self.state.ends.setdefault(message.address, [])
        ends.append(message.status)
        if len(ends) > self.state.follows.get(message.address, 0):
            self.state.wrong.append(f"{ctx.address} was told {len(ends)} times of the end of {message.address}")


class HelperState(msgspec.Struct):
    shut: bool = False
    got: dict[str, int] = {}
    back: dict[str, tuple[str, int]] = {}
    """Whom to answer when the answer to one's own ask is there."""
    wrong: list[str] = []


class Helper(Actor[HelperState], kind="sim-helper"):
    """Answers in the way that it is asked for."""

    retry = QUICK

    @on(creates=True)
    def question(self, message: Question, ctx: Context) -> None:
        if message.kind == "stashed" and self.state.shut:
            ctx.stash()
            return
        match message.kind:
            case "later":
                ctx.schedule(f"later {ctx.message_id}", 0.1, Later(ctx.reply_to))
            case "back":
                ask = ctx.ask(ctx.sender, Question("now"), timeout=0.3)
                self.state.back[str(ask)] = ctx.reply_to
            case "bug" if ctx.attempt == 1:
                raise RuntimeError("simulated bug")
            case "never":
                return
            case _:
                ctx.reply(Reply(message.kind))

    @on
    def later(self, message: Later, ctx: Context) -> None:
        ctx.reply_later(message.to, Reply("later"))

    @on
    def answered(self, message: Reply | AskFailed, ctx: Context) -> None:
        to = self.state.back.pop(str(ctx.answers), None)
        if to is None:
            self.state.wrong.append(f"I6: ask {ctx.answers} of {ctx.address} has a second outcome {message}")
        else:
            ctx.reply_later(to, Reply("back"))

    @on(creates=True)
    def note(self, message: Note, ctx: Context) -> None:
        if self.state.shut:
            ctx.stash()
            return
        got = self.state.got.get(message.origin, 0)
        if message.seq != got + 1:
            self.state.wrong.append(f"G2: {ctx.address} got note {message.seq} of {message.origin} after {got}")
        self.state.got[message.origin] = message.seq

    @on(creates=True)
    def door(self, message: Door, ctx: Context) -> None:
        self.state.shut = not message.is_open
        if message.is_open:
            ctx.unstash_all()


class MayflyState(msgspec.Struct):
    ended: bool = False
    wrong: list[str] = []


class Mayfly(Actor[MayflyState], kind="sim-mayfly"):
    """Ends when it is told to."""

    retry = QUICK

    @on(creates=True)
    async def end(self, message: End, ctx: Context) -> None:
        if self.state.ended:
            self.state.wrong.append(f"I10: {ctx.address} was handled after its end")
        if message.seconds:
            await ctx.port.sleep(message.seconds)
        self.state.ended = True
        ctx.stop(message.status, "simulated")
