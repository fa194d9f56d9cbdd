"""The actor behind every recorded worker: it starts, crashes and stops as its script says, and notes what it does."""

from callboard.actors.actor import Actor, Stateless, on
from callboard.actors.context import Context
from callboard.actors.system import Stop
from callboard.mailbox.address import key_of
from callboard.mailbox.message import Message

from .behaviour import Behaviour, is_clean
from .diary import Diary


class Act(Message, tag="conformance.act"):
    """End, for this reason; nothing to another incarnation."""

    reason: str
    incarnation: int


class Crash(Exception):
    """An ordinary exception; its text is the recorded reason."""


def plain_crash(text: str) -> str:
    """A reason of ours as the recordings have it: without the class of the exception that carried it."""
    return text.replace(f"{Crash.__name__}: ", "")


class Player(Actor[Stateless], kind="conformance-player"):
    """One recorded worker; without an `id` an instance of a pool, which its key names."""

    def __init__(self, id: str, behaviour: Behaviour, scale: float, diary: Diary) -> None:
        self.id = id
        self.behaviour = behaviour
        self.scale = scale
        self.diary = diary

    def _note(self, what: str, ctx: Context, *more: str) -> None:
        self.diary.note(ctx.address, (what, self._name(ctx), ctx.incarnation, *more))

    def _name(self, ctx: Context) -> str:
        return self.id or key_of(ctx.address) or ""

    def _seconds(self, ms: float) -> float:
        return ms * self.scale / 1000.0

    async def on_start(self, ctx: Context) -> None:
        does = self.behaviour
        if does.start_takes:
            await ctx.port.sleep(self._seconds(does.start_takes))
        if does.fails(ctx.incarnation):
            self._note("start_failed", ctx, "init_failed")
            raise Crash("init_failed")
        if does.ignored(ctx.incarnation):
            self._note("start_ignored", ctx)
            ctx.ignore()
            return
        self._note("start", ctx)
        if does.crashes_after is None:
            return
        crash = Act(does.crash_reason, ctx.incarnation)
        if does.crashes_after:
            ctx.schedule("crash", self._seconds(does.crashes_after), crash)
        else:
            ctx.send(ctx.address, crash)

    async def on_stop(self, ctx: Context) -> None:
        does = self.behaviour
        if not does.traps:
            return
        message = ctx.envelope.message()
        reason = message.reason if isinstance(message, Stop) else "shutdown"
        self.diary.tell(ctx.address, ("stopping", self._name(ctx), ctx.incarnation, reason))
        if does.cleanup_takes:
            await ctx.port.sleep(self._seconds(does.cleanup_takes))
        if does.cleanup_exits_with and is_clean(does.cleanup_exits_with):
            ctx.stop(reason=does.cleanup_exits_with)
        elif does.cleanup_exits_with:
            raise Crash(does.cleanup_exits_with)

    @on
    def act(self, message: Act, ctx: Context) -> None:
        if message.incarnation != ctx.incarnation:
            return
        if is_clean(message.reason):
            ctx.stop(reason=message.reason)
        else:
            raise Crash(message.reason)
