"""Failures of SEMANTICS §3 that show within a node, by hand-driven time. The numbers are those of that table."""

from collections.abc import Awaitable
from itertools import pairwise

import msgspec
import pytest

from callboard.actors.actor import Actor, on
from callboard.actors.context import Context
from callboard.actors.directives import Fatal
from callboard.actors.node import NodeSettings
from callboard.actors.retry import RetryPolicy
from callboard.actors.spec import Child, Supervisor
from callboard.actors.system import AskFailed, Cancel, Pause, Resume
from callboard.actors.testing import TestKit
from callboard.mailbox.address import shard_of
from callboard.mailbox.errors import MailboxFull
from callboard.mailbox.lane import Lane
from callboard.mailbox.message import Message
from callboard.mailbox.request import Request

pytestmark = pytest.mark.anyio


class Count(Message, tag="field_kit.count"):
    """Count; for so many seconds."""

    seconds: float = 0.0
    number: int = 0


class Flood(Message, tag="field_kit.flood"):
    """Send that many `Count`s to another one."""

    to: str
    amount: int


class Put(Message, tag="field_kit.put"):
    """Put aside, until told otherwise."""

    number: int


class Open(Message, tag="field_kit.open"):
    """Take up what was put aside."""


class Set(Message, tag="field_kit.set"):
    """Set the timer, or cancel it after `seconds` in a handler."""

    cancel: bool = False
    seconds: float = 0.0


class Rang(Message, tag="field_kit.rang"):
    """The timer's message."""


class Answered(Message, tag="field_kit.answered"):
    """The answer to a question."""

    hops: int


class Question(Request[Answered], tag="field_kit.question"):
    """Asked along `path`; whoever is at its end answers."""

    path: tuple[str, ...] = ()
    hops: int = 0


class Begin(Message, tag="field_kit.begin"):
    """Ask along that path."""

    path: list[str]


class Break(Message, tag="field_kit.break"):
    """Change the state, then raise."""


class End(Message, tag="field_kit.end"):
    """Be done."""


class Again(Message, tag="field_kit.again"):
    """See that there is an actor at that address, as its next incarnation where it was done."""

    address: str


class Seen(msgspec.Struct):
    """What a subject remembers."""

    numbers: list[int] = []
    open: bool = False
    rang: int = 0
    answers: list[str] = []
    asker: tuple[str, int] = ("", 0)


class Subject(Actor[Seen], kind="field-kit-subject"):
    """Does as it is told."""

    retry = RetryPolicy(max_failures=2)
    stash_limit = 20_000

    @on(creates=True)
    def count(self, message: Count, ctx: Context) -> Awaitable[None] | None:
        self.state.numbers.append(message.number)
        return ctx.port.sleep(message.seconds) if message.seconds else None

    @on(creates=True)
    def flood(self, message: Flood, ctx: Context) -> None:
        for number in range(message.amount):
            ctx.send(message.to, Count(0.0, number))

    @on(creates=True)
    def put(self, message: Put, ctx: Context) -> None:
        if self.state.open:
            self.state.numbers.append(message.number)
        else:
            ctx.stash()

    @on
    def opened(self, message: Open, ctx: Context) -> None:
        self.state.open = True
        ctx.unstash_all()

    @on(creates=True)
    def set(self, message: Set, ctx: Context) -> Awaitable[None] | None:
        if message.cancel:
            ctx.cancel_timer("alarm")
        else:
            ctx.schedule("alarm", 1.0, Rang())
        return ctx.port.sleep(message.seconds) if message.seconds else None

    @on
    def rang(self, message: Rang, ctx: Context) -> None:
        self.state.rang += 1

    @on(creates=True)
    def begin(self, message: Begin, ctx: Context) -> None:
        ctx.ask(message.path[0], Question(tuple(message.path[1:])), timeout=60)

    @on(creates=True)
    def question(self, message: Question, ctx: Context) -> None:
        if message.path:
            self.state.asker = ctx.reply_to
            ctx.ask(message.path[0], Question(message.path[1:], message.hops + 1), timeout=60)
        else:
            ctx.reply(Answered(message.hops))

    @on
    def answered(self, message: Answered | AskFailed, ctx: Context) -> None:
        text = str(message.hops) if isinstance(message, Answered) else message.why
        if self.state.asker[0]:
            to, self.state.asker = self.state.asker, ("", 0)
            ctx.reply_later(to, message)
        else:
            self.state.answers.append(text)

    @on
    def end(self, message: End, ctx: Context) -> None:
        ctx.stop()

    @on(creates=True)
    def again(self, message: Again, ctx: Context) -> None:
        ctx.spawn(message.address, again=True)

    @on(creates=True)
    def broken(self, message: Break, ctx: Context) -> None:
        self.state.numbers.append(-1)
        raise RuntimeError("told to")


def subjects(**settings: object) -> TestKit:
    tree = Supervisor("f", (Child(Subject, "s", pool=True),))
    return TestKit(tree, settings=NodeSettings(lease_seconds=30.0, beat_seconds=5.0, **settings))  # type: ignore[arg-type]


async def seen(kit: TestKit, key: object = 1) -> Seen:
    return await kit.state(f"/f/s:{key}", Seen)


async def test_failure_01_passivation_loses_no_message() -> None:
    async with subjects(passivate_seconds=0.001) as kit:
        for turn in range(40):
            envelopes = [await kit.client.envelope(f"/f/s:{key}", Count(0, turn)) for key in range(50)]
            await kit.store.send(envelopes)
            await kit.advance(seconds=1.1)
        for key in range(50):
            assert (await seen(kit, key)).numbers == list(range(40))


async def test_failure_02_a_busy_actor_is_not_passivated() -> None:
    async with subjects(passivate_seconds=1.0) as kit:
        await kit.send("/f/s:1", Count(10.0, 7))
        await kit.advance(seconds=9)
        assert kit.nodes[0].life is not None
        assert "/f/s:1" in kit.nodes[0].life.cells.cells
        await kit.advance(seconds=2)
        assert (await seen(kit)).numbers == [7], "its turn was not taken from it"
        await kit.advance(seconds=5)
        assert "/f/s:1" not in kit.nodes[0].life.cells.cells, "idle, it goes"


async def test_failure_04_an_address_is_stopped_and_spawned_again_a_thousand_times() -> None:
    async with subjects() as kit:
        for incarnation in range(1, 1_001):
            await kit.send("/f/s:boss", Again("/f/s:1"))
            row = await kit.row("/f/s:1")
            assert row is not None and (row.incarnation, row.status) == (incarnation, "active")
            await kit.send("/f/s:1", End())
        row = await kit.row("/f/s:1")
        assert row is not None and (row.incarnation, row.status) == (1_000, "completed")
        assert await kit.store.dead_letters() == []


async def test_failure_11_a_start_that_always_fails_is_tried_along_the_curve_and_not_in_a_storm() -> None:
    tried: list[float] = []

    class Never(Actor[Seen], kind="field-kit-never"):
        def on_start(self, ctx: Context) -> None:
            tried.append(ctx.now)
            if len(tried) > 1:
                raise RuntimeError("no")

        @on
        def broken(self, message: Break, ctx: Context) -> None:
            raise Fatal("told to")

    tree = Supervisor("f", (Child(Never, "n"),), max_restarts=1_000)
    async with TestKit(tree) as kit:
        await kit.send("/f/n", Break())
        await kit.advance(minutes=5)
        waits = [after - before for before, after in pairwise(tried[1:])]
        expected = [2, 4, 8, 16, 32, 60, 60, 60]
        assert len(waits) >= 5
        for wait, curve in zip(waits, expected, strict=False):
            assert 0.75 * curve <= wait <= 1.25 * curve


async def test_failure_11_a_database_that_is_down_for_thirty_seconds_charges_nobody() -> None:
    async with subjects() as kit:
        await kit.send("/f/s:1", Count(5.0, 1))
        kit.store.down = True
        await kit.advance(seconds=30)
        kit.store.down = False
        await kit.advance(seconds=20)
        assert (await seen(kit)).numbers == [1]
        assert await kit.store.dead_letters() == []
        [turn] = await kit.store.turns("/f/s:1")
        assert turn.outcome == "done"


async def test_failure_12_ten_thousand_put_aside_survive_a_kill_and_come_back_in_order() -> None:
    many = 10_000
    async with subjects() as kit:
        for start in range(0, many, 500):
            envelopes = [await kit.client.envelope("/f/s:1", Put(number)) for number in range(start, start + 500)]
            await kit.store.send(envelopes)
            await kit.settle()
        assert len(await kit.store.peek("/f/s:1", limit=2 * many)) == many
        await kit.crash(kit.nodes[0])
        node = await kit.join()
        await kit.advance(seconds=40)  # nobody was there to see it die: the lease decides
        assert node.life is not None and len(node.life.cells.seen) < 1_000, "what is put aside is on disk only"
        await kit.client.send("/f/s:1", Open(), lane=Lane.REPLY)  # its mailbox is full, but for replies
        await kit.advance(seconds=5)
        assert (await seen(kit)).numbers == list(range(many))


async def test_failure_14_a_timer_cancelled_while_its_message_waits_is_not_handled() -> None:
    async with subjects() as kit:
        await kit.send("/f/s:1", Set())
        await kit.send("/f/s:1", Set(cancel=True, seconds=5.0))
        await kit.advance(seconds=2)
        assert [view.envelope.type for view in await kit.store.peek("/f/s:1")] == ["field_kit.set", "field_kit.rang"]
        await kit.advance(seconds=10)
        assert (await seen(kit)).rang == 0
        assert await kit.store.peek("/f/s:1") == []
        assert await kit.store.dead_letters() == []


async def test_failure_18_a_flood_to_a_slow_actor_is_held_back_and_nothing_is_lost() -> None:
    """A tenth of it; `mailbox_limit` is small, so that it is full soon."""
    async with subjects(mailbox_limit=1_000) as kit:
        await kit.client.send("/f/s:slow", Count(250.0, -1))
        assert shard_of("/f/s:slow") != shard_of("/f/s:a"), "in two mailboxes, of two families"
        await kit.advance(seconds=2)
        for _ in range(30):
            await kit.client.send("/f/s:a", Flood("/f/s:slow", 100))
            await kit.advance(seconds=1.5)
        waiting = len(await kit.store.peek("/f/s:slow", limit=100_000))
        assert 1_000 <= waiting <= 1_000 + 400, "soft: what was sent before its owner looked came through"
        assert kit.nodes[0].life is not None
        assert len(kit.nodes[0].life.cells.seen) < 2_500
        held = await kit.store.peek("/f/s:a")
        assert held and "mailbox" in held[0].envelope.last_error and held[0].envelope.failures == 0
        await kit.advance(minutes=30)
        numbers = (await seen(kit, "slow")).numbers
        assert len(numbers) == 1 + 3_000
        assert numbers[1:] == list(range(100)) * 30
        assert await kit.store.dead_letters() == []


async def test_failure_18_a_full_mailbox_refuses_what_comes_from_outside() -> None:
    async with subjects() as kit:
        await kit.client.send("/f/s:slow", Count(250.0, -1))
        envelopes = [await kit.client.envelope("/f/s:slow", Count(0.0, number)) for number in range(9_998)]
        await kit.store.send(envelopes)
        await kit.client.send("/f/s:slow", Count())
        with pytest.raises(MailboxFull, match="/f/s:slow"):
            await kit.client.send("/f/s:slow", Count())
        await kit.client.send("/f/s:slow", Cancel(), lane=Lane.SYSTEM)  # who may stop it always finds room
        await kit.advance(seconds=1)
        row = await kit.row("/f/s:slow")
        assert row is not None and row.status == "cancelled"


@pytest.mark.parametrize("path", [["/f/s:1"], ["/f/s:2", "/f/s:1"], ["/f/s:2", "/f/s:3", "/f/s:1"]])
async def test_failure_19_who_asks_itself_or_in_a_circle_is_answered(path: list[str]) -> None:
    async with subjects() as kit:
        await kit.send("/f/s:1", Begin(path))
        await kit.advance(seconds=1)
        assert (await seen(kit)).answers == [str(len(path) - 1)]


async def test_failure_19_an_actor_with_open_asks_can_be_cancelled() -> None:
    async with subjects() as kit:
        await kit.send("/f/s:2", Pause())
        await kit.send("/f/s:2", Count())
        await kit.send("/f/s:1", Begin(["/f/s:2"]))
        await kit.client.send("/f/s:1", Cancel(), lane=Lane.SYSTEM)
        await kit.advance(seconds=1)
        row = await kit.row("/f/s:1")
        assert row is not None and row.status == "cancelled"
        await kit.advance(seconds=120)
        assert await kit.store.timers("/f/s:1") == [], "its asks ended with it"


async def test_failure_31_memory_is_never_ahead_of_the_row_after_a_failed_turn() -> None:
    async with subjects() as kit:
        await kit.send("/f/s:1", Count(0, 1))
        await kit.send("/f/s:1", Break())
        await kit.send("/f/s:1", Count(0, 2))
        await kit.advance(seconds=30)
        assert (await seen(kit)).numbers == [1, 2]


async def test_failure_34_every_standing_state_has_an_exit() -> None:
    async with subjects() as kit:
        await kit.send("/f/s:1", Count(0, 1))
        for stop in (Pause(by="ann"),):
            await kit.client.send("/f/s:1", stop, lane=Lane.SYSTEM)
            await kit.send("/f/s:1", Count(0, 2))
            assert (await seen(kit)).numbers == [1]
            await kit.client.send("/f/s:1", Resume(by="ann"), lane=Lane.SYSTEM)
            await kit.advance(seconds=2)
            assert (await seen(kit)).numbers == [1, 2]
        await kit.client.send("/f/s:1", Pause(by="ann"), lane=Lane.SYSTEM)
        await kit.client.send("/f/s:1", Cancel(by="ann"), lane=Lane.SYSTEM)
        await kit.advance(seconds=2)
        row = await kit.row("/f/s:1")
        assert row is not None and row.status == "cancelled", "also what stands still can be ended"
