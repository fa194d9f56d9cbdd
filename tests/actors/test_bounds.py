"""G10: a mailbox is bounded. Who sends from outside is told, what actors send waits in their own mailboxes."""

import msgspec
import pytest

from callboard.actors import cells, reader
from callboard.actors.actor import Actor, on
from callboard.actors.context import Context
from callboard.actors.node import Life, NodeSettings
from callboard.actors.spec import Child, Supervisor
from callboard.actors.testing import TestKit
from callboard.mailbox.errors import MailboxFull
from callboard.mailbox.lane import Lane
from callboard.mailbox.message import Message
from tests.actors.world import SETTINGS, Note, Probe, address_of, notes, tree

pytestmark = pytest.mark.anyio

SLOW = "/t/slow:1"
LIMIT = 300


class Flood(Message, tag="engine_test.flood"):
    """Send `count` messages each to the slow one, one turn after the other."""

    turns: int
    count: int
    seconds: float = 0.0


class Drop(Message, tag="engine_test.drop"):
    """One of a flood."""

    number: int = 0


class Counted(msgspec.Struct):
    count: int = 0
    last: dict[str, int] = {}


class Flooding(Actor[Counted], kind="engine-test-flooding"):
    @on(creates=True)
    async def flood(self, message: Flood, ctx: Context) -> None:
        await ctx.port.sleep(message.seconds)
        for _ in range(message.count):
            self.state.count += 1
            ctx.send(SLOW, Drop(self.state.count))
        if message.turns > 1:
            ctx.send(ctx.address, Flood(message.turns - 1, message.count, message.seconds))


class Slow(Actor[Counted], kind="engine-test-slow"):
    """Takes a hundredth of a second for each."""

    def __init__(self, seconds: float = 0.01) -> None:
        self.seconds = seconds

    @on(creates=True)
    async def drop(self, message: Drop, ctx: Context) -> None:
        await ctx.port.sleep(self.seconds)
        assert message.number == self.state.last.get(ctx.sender, 0) + 1 or not ctx.sender, "in order, none left out"
        self.state.last[ctx.sender] = message.number
        self.state.count += 1

    @on
    def note(self, message: Note, ctx: Context) -> None:
        ctx.reply(Note("alive"))


def flooding(seconds: float = 0.01) -> Supervisor:
    return Supervisor("t", (Child(Flooding, "f", pool=True), Child(Slow, "slow", pool=True, args=(seconds,))))


def bounded(*, limit: int = LIMIT) -> NodeSettings:
    return NodeSettings(lease_seconds=30, beat_seconds=5, mailbox_limit=limit)


def life_of(kit: TestKit, index: int = 0) -> Life:
    life = kit.nodes[index].life
    assert life is not None
    return life


async def handled(kit: TestKit) -> int:
    return (await kit.state(SLOW, Counted)).count if await kit.row(SLOW) else 0


def backlog(kit: TestKit) -> int:
    return sum(1 for (_, _), stored in kit.store.tables.messages.items() if stored.envelope.recipient == SLOW)


async def test_g10_a_flood_from_actors_is_held_back_at_the_limit_and_none_of_it_is_lost() -> None:
    async with TestKit(flooding(), settings=bounded()) as kit:
        for sender in range(10):
            await kit.client.send(f"/t/f:{sender}", Flood(turns=40, count=5, seconds=0.25))
        most = 0
        for _ in range(400):
            await kit.advance(seconds=0.5)
            most = max(most, backlog(kit))
            if await handled(kit) == 2000:
                break
        assert await handled(kit) == 2000
        # They send 200 in a second, of which 100 are handled; what comes before it is published is on top of the limit.
        assert LIMIT <= most <= LIMIT + 400
        assert await kit.store.dead_letters() == []
        turns = [turn for n in range(10) for turn in await kit.store.turns(f"/t/f:{n}")]
        assert len(turns) == 400


async def test_g10_a_turn_that_sends_to_a_full_mailbox_is_not_taken_and_says_why_and_system_lanes_are_exempt() -> None:
    def script(_probe: Probe, note: Note, ctx: Context) -> None:
        ctx.send("/t/p:full", Note(note.text), lane=Lane.REPLY if note.text == "reply" else Lane.NORMAL)

    def only(probe: Probe, note: Note, ctx: Context) -> None:
        if ctx.address != "/t/p:full":
            script(probe, note, ctx)

    async with TestKit(tree(only)) as kit:
        life = life_of(kit)
        await kit.send("/t/p:full", Note("first"))
        life.pump.full = {"/t/p:full"}
        await kit.send("/t/p:1", Note("a"))
        (view,) = await kit.store.peek("/t/p:1")
        assert view.envelope.last_error.endswith("the mailbox of /t/p:full is full")
        assert view.envelope.failures == 0 and view.state == "retrying"
        await kit.send("/t/p:2", Note("reply"))
        assert await notes(kit, "/t/p:full") == ["first", "reply"]
        life.pump.full = set()
        await kit.advance(seconds=3)
        assert await notes(kit, "/t/p:full") == ["first", "reply", "a"]


async def test_an_actor_may_always_send_to_itself() -> None:
    def script(_probe: Probe, note: Note, ctx: Context) -> None:
        if note.text == "a":
            ctx.send(ctx.address, Note("b"))

    async with TestKit(tree(script)) as kit:
        life_of(kit).pump.full = {"/t/p:1"}
        await kit.send("/t/p:1", Note("a"))
        assert await notes(kit, "/t/p:1") == ["a", "b"]


async def test_g10_full_is_published_to_the_other_nodes_and_room_again_below_four_fifths() -> None:
    settings = NodeSettings(lease_seconds=1.5, beat_seconds=0.25, mailbox_limit=LIMIT)
    async with TestKit(flooding(0.05), nodes=2, settings=settings) as kit:
        await kit.advance(seconds=2)
        sender = address_of(kit, kit.nodes[0], "/t/f")
        await kit.client.send(sender, Flood(turns=1, count=1500))
        await kit.advance(seconds=4)
        assert life_of(kit, 0).pump.full == life_of(kit, 1).pump.full == {SLOW}
        await kit.until(lambda: _fewer(kit, LIMIT), seconds=120)
        assert await kit.session(kit.nodes[0]).full() == {SLOW}, "still more than four fifths"
        await kit.until(lambda: _fewer(kit, LIMIT * 4 // 5 - 1), seconds=60)
        await kit.advance(seconds=3)
        assert life_of(kit, 0).pump.full == life_of(kit, 1).pump.full == set()


async def _fewer(kit: TestKit, than: int) -> bool:
    return backlog(kit) < than


async def test_g10_who_takes_over_a_full_mailbox_takes_it_back_when_there_is_room() -> None:
    settings = NodeSettings(lease_seconds=1.5, beat_seconds=0.25, mailbox_limit=LIMIT)
    async with TestKit(flooding(0.01), settings=settings) as kit:
        await kit.client.send("/t/f:1", Flood(turns=1, count=1200))
        await kit.advance(seconds=2)
        assert life_of(kit).pump.full == {SLOW}
        await kit.crash(kit.nodes[0])
        await kit.join()
        await kit.advance(seconds=30)
        assert await handled(kit) == 1200 and life_of(kit).pump.full == set()


async def test_g10_a_flood_from_outside_is_refused_at_the_bound_and_memory_stays_flat(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cells, "QUEUE_LIMIT", 100)
    monkeypatch.setattr(reader, "WINDOW", 50)
    accepted = refused = most = 0
    async with TestKit(flooding(0.001), settings=SETTINGS) as kit:
        kit.store._intake._mailbox_limit = 1_000
        for _ in range(50):
            batch = [await kit.client.envelope(SLOW, Drop()) for _ in range(100)]
            try:
                await kit.store.send(batch)
                accepted += len(batch)
            except MailboxFull:
                refused += len(batch)
            await kit.advance(seconds=0.02)
            most = max(most, len(life_of(kit).cells.seen))
        assert refused and 1_000 <= accepted <= 2_500
        assert most <= 300, "a window or two, not all that waits"
        await kit.until(lambda: _fewer(kit, 1), seconds=120)
        assert await handled(kit) == accepted
        await kit.advance(seconds=2)
        assert life_of(kit).cells.seen == set()
