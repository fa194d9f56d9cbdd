"""What an actor puts aside is kept, in order, whatever happens, and comes back before what came after it."""

from typing import Any

import anyio
import msgspec
import pytest

from callboard.actors.actor import Actor, on
from callboard.actors.context import Context, WorkerContext
from callboard.actors.spec import Child, Supervisor
from callboard.actors.system import AskFailed, Resume, Terminated
from callboard.actors.testing import TestKit
from callboard.mailbox.errors import UsageError
from callboard.mailbox.lane import Lane
from callboard.mailbox.message import Message
from callboard.persistence.unit import Unit
from tests.actors.peers import A, Ask, Do, Peer, Said, do, heard
from tests.actors.world import SETTINGS, Answer, Call, Note, Tool, address_of, spy_on_commits

pytestmark = pytest.mark.anyio

ONE = "/t/s:1"


class Shelf(msgspec.Struct):
    """Whether it is open, and what came."""

    open: bool = False
    got: list[str] = []


class Keeper(Actor[Shelf], kind="stash-test-keeper"):
    """Puts everything aside until it is opened; "close" closes it again, "shut" also puts that message aside."""

    stash_limit = 500

    @on(creates=True)
    def note(self, message: Note, ctx: Context) -> None:
        match message.text:
            case "open":
                self.state.open = True
                ctx.unstash_all()
            case "close":
                self.state.open = False
            case "shuffle":
                # Once back, it is put aside again behind the others' backs.
                ctx.unstash_all()
                ctx.stash()
            case "bug":
                ctx.stash()
                raise RuntimeError("bug")
            case "end":
                ctx.stop()
            case text if text.startswith("send "):
                ctx.send(ctx.address, Note(text[5:]))
            case text if text.startswith("later "):
                ctx.schedule("k", 1, Note(text[6:]))
            case text if self.state.open:
                self.state.got.append(text)
            case _:
                ctx.stash()
                ctx.stash()  # once is enough


def shelves(actor: type[Actor[Any]] = Keeper, *others: Child) -> Supervisor:
    return Supervisor("t", (Child(actor, "s", pool=True), Child(Peer, "p", pool=True), *others), max_restarts=100)


async def put(kit: TestKit, *texts: str, address: str = ONE) -> None:
    """Send all of them at once."""
    await kit.store.send([await kit.client.envelope(address, Note(text)) for text in texts])


async def got(kit: TestKit, address: str = ONE) -> list[str]:
    return (await kit.state(address, Shelf)).got


async def stashed(kit: TestKit, address: str = ONE) -> int:
    row = await kit.row(address)
    assert row is not None
    return int(msgspec.json.decode(row.bonds or "{}").get("stashed", 0))


async def turns(kit: TestKit, address: str = ONE) -> list[str]:
    return [turn.outcome for turn in await kit.store.turns(address)]


@pytest.mark.parametrize("at_once", [True, False])
async def test_what_was_put_aside_comes_back_in_order_before_what_came_after(at_once: bool) -> None:
    async with TestKit(shelves()) as kit:
        texts = ["a", "b", "c", "open", "d", "e"]
        if at_once:
            await put(kit, *texts)
            await kit.settle()
        else:
            for text in texts:
                await kit.send(ONE, Note(text))
        assert await got(kit) == ["a", "b", "c", "d", "e"]
        assert await stashed(kit) == 0
        assert kit.store.tables.messages == {}
        assert (await turns(kit)).count("stashed") == 3 and (await turns(kit)).count("done") == 6


async def test_nothing_is_held_up_by_what_was_put_aside() -> None:
    async with TestKit(shelves()) as kit:
        await put(kit, "a", "b")
        await kit.advance(seconds=1)
        await put(kit, "send c", "later d")
        await kit.advance(seconds=2)
        assert (await got(kit), await stashed(kit)) == ([], 4)
        assert [(view.state, view.envelope.id) for view in await kit.store.peek(ONE)] == [
            ("stashed", view.envelope.id) for view in await kit.store.peek(ONE)
        ]
        await kit.send(ONE, Note("open"))
        assert await got(kit) == ["a", "b", "c", "d"], "the timer's message too: it is handled once, now"


async def test_field_12_a_crash_loses_nothing_and_keeps_the_order() -> None:
    async with TestKit(shelves(), nodes=2, settings=SETTINGS) as kit:
        await kit.advance(seconds=2)
        address = address_of(kit, kit.nodes[0], "/t/s")
        texts = [str(n) for n in range(450)]
        await put(kit, *texts, address=address)
        await kit.settle()
        assert await stashed(kit, address) == 450
        await kit.crash(kit.nodes[0])
        await kit.advance(seconds=5)
        await put(kit, "open", "last", address=address)
        await kit.advance(seconds=5)
        assert await got(kit, address) == [*texts, "last"]
        assert kit.store.tables.messages == {}


async def test_a_crash_in_the_middle_of_taking_it_up_again_repeats_and_loses_nothing() -> None:
    for nth in range(1, 9):
        async with TestKit(shelves(), nodes=2, settings=SETTINGS) as kit:
            await kit.advance(seconds=2)
            first = kit.nodes[0]
            address = address_of(kit, first, "/t/s")
            texts = [str(n) for n in range(50)]
            await put(kit, *texts, address=address)
            await kit.settle()
            commits, gone = 0, anyio.Event()

            async def before(
                number: int,
                operation: str,
                nth: int = nth,
                mine: int = kit.session(first).number,
                gone: anyio.Event = gone,
            ) -> None:
                nonlocal commits
                if operation == "commit" and number == mine:
                    commits += 1
                    if commits == nth:
                        await gone.wait()

            kit.store.before = before
            await put(kit, "open", "x", "y", address=address)
            await kit.settle()
            kit.session(first).crash()
            gone.set()
            await kit.crash(first)
            await kit.advance(seconds=10)
            assert await got(kit, address) == [*texts, "x", "y"]


@pytest.mark.parametrize("nth", range(1, 8))
async def test_a_lost_answer_to_a_commit_keeps_the_order(nth: int) -> None:
    async with TestKit(shelves()) as kit:
        await put(kit, "a", "b", "c")
        await kit.settle()
        commits = 0

        def lost(_number: int) -> bool:
            nonlocal commits
            commits += 1
            return commits == nth

        kit.store.lost_answer = lost
        await put(kit, "d", "open", "e", "send f", "g")
        await kit.advance(seconds=5)
        assert sorted(await got(kit)) == ["a", "b", "c", "d", "e", "f", "g"]
        assert [text for text in await got(kit) if text != "f"] == ["a", "b", "c", "d", "e", "g"]


async def test_a_sweep_that_is_older_than_the_taking_up_does_not_overtake_it() -> None:
    async with TestKit(shelves()) as kit:
        await put(kit, "a", "b")
        await kit.settle()
        number = kit.session(kit.nodes[0]).number
        session = kit.session(kit.nodes[0])
        ready = session.ready

        async def slow(*args: Any, **options: Any) -> Any:
            page = await ready(*args, **options)
            await kit.port.sleep(0.5)
            return page

        session.ready = slow  # type: ignore[method-assign]
        assert number
        await put(kit, "open", "c", "d")
        await kit.advance(seconds=0.2)
        await put(kit, "e")
        await kit.advance(seconds=10)
        assert await got(kit) == ["a", "b", "c", "d", "e"]


async def test_no_turn_begins_between_the_taking_up_and_what_comes_back() -> None:
    async with TestKit(shelves()) as kit:
        units: list[Unit] = []
        spy_on_commits(kit, kit.nodes[0], units.extend)
        await put(kit, "a", "b", "open", "c", "d")
        await kit.settle()
        opened = [unit for unit in units if unit.unstash]
        assert len(opened) == 1
        assert opened[0].turns[-1].version == 3, "the turn that takes up is the last of its unit"
        assert opened[0].stashes == (), "and what the unit had put aside before just stays"
        assert await got(kit) == ["a", "b", "c", "d"]


async def test_a_message_can_be_put_aside_again_and_with_its_own_taking_up() -> None:
    async with TestKit(shelves()) as kit:
        await put(kit, "a", "shuffle", "b")
        await kit.settle()
        assert await stashed(kit) == 3
        await put(kit, "open")
        await kit.settle()
        assert await got(kit) == ["a", "b"]
        assert await stashed(kit) == 1, "`shuffle` came back, brought nothing and put itself aside"


async def test_taking_up_nothing_costs_nothing() -> None:
    async with TestKit(shelves()) as kit:
        units: list[Unit] = []
        spy_on_commits(kit, kit.nodes[0], units.extend)
        await put(kit, "open", "a", "open", "b")
        await kit.settle()
        assert not any(unit.unstash for unit in units)
        row = await kit.row(ONE)
        assert row is not None and row.bonds == ""
        assert await got(kit) == ["a", "b"]


async def test_a_full_stash_parks_with_the_message_first_in_line() -> None:
    async with TestKit(shelves()) as kit:
        await put(kit, *[str(n) for n in range(500)], "one more", "another")
        await kit.settle()
        row = await kit.row(ONE)
        assert row is not None and row.status == "parked"
        assert row.reason == "it has put 500 messages aside, which is its limit; it must take some up again"
        views = await kit.store.peek(ONE, limit=1000)
        assert [view.state for view in views] == ["stashed"] * 500 + ["ready"] * 2
        await kit.client.send(ONE, Note("open"), lane=Lane.SYSTEM)
        await kit.client.send(ONE, Resume(), lane=Lane.SYSTEM)
        await kit.settle()
        assert await got(kit) == [*[str(n) for n in range(500)], "one more", "another"]


async def test_a_turn_that_fails_puts_nothing_aside() -> None:
    async with TestKit(shelves()) as kit:
        await put(kit, "bug")
        await kit.advance(seconds=2)
        assert [view.state for view in await kit.store.peek(ONE)] == ["retrying"]


async def test_an_end_refuses_what_was_put_aside() -> None:
    async with TestKit(shelves()) as kit:
        await put(kit, "a", "b", "end")
        await kit.settle()
        assert {letter.reason for letter in await kit.store.dead_letters()} == {"recipient-ended"}
        assert len(await kit.store.dead_letters()) == 2
        assert kit.store.tables.messages == {}


async def test_a_request_and_an_outcome_can_be_put_aside() -> None:
    closed = True
    got: list[str] = []

    class Both(Actor[Any], kind="stash-test-both"):
        @on(creates=True)
        def go(self, message: Do, ctx: Context) -> None:
            nonlocal closed
            match message.text:
                case "ask":
                    ctx.ask(A, Ask("say answer"), timeout=5)
                    ctx.watch("/t/p:none")
                    ctx.schedule("k", 1, Note("fired"))
                case "open":
                    closed = False
                    ctx.unstash_all()

        @on
        def heard(self, message: Said | AskFailed | Terminated | Note, ctx: Context) -> None:
            if closed:
                ctx.stash()
            else:
                got.append(type(message).__name__)
                assert bool(ctx.answers) == isinstance(message, Said)

        @on(creates=True)
        def asked(self, message: Ask, ctx: Context) -> None:
            if closed:
                ctx.stash()
            else:
                ctx.reply(Said("at last"))

    async with TestKit(shelves(Both)) as kit:
        await kit.send(ONE, Do("ask"))
        await do(kit, A, f"ask {ONE} 600 hello")
        await kit.advance(seconds=30)
        assert (got, await heard(kit, A)) == ([], [])
        await kit.send(ONE, Do("open"))
        assert sorted(got) == ["Note", "Said", "Terminated"]
        assert await heard(kit, A) == ["at last"]
        await kit.advance(seconds=10)
        assert len(got) == 3 and kit.store.tables.messages == {} and kit.store.tables.timers == {}


async def test_an_answer_straight_from_a_worker_can_be_put_aside() -> None:
    closed = True
    got: list[str] = []

    async def body(call: Call, _ctx: WorkerContext) -> Message:
        return Answer(call.text)

    class Caller(Actor[Any], kind="stash-test-caller"):
        @on(creates=True)
        def go(self, message: Note, ctx: Context) -> None:
            nonlocal closed
            if message.text == "open":
                closed = False
                ctx.unstash_all()
            else:
                ctx.send("/t/tool", Call(message.text))

        @on
        def answered(self, message: Answer | AskFailed, ctx: Context) -> None:
            if closed:
                ctx.stash()
            else:
                assert ctx.correlation and not ctx.answers
                got.append(message.text if isinstance(message, Answer) else message.why)

    async with TestKit(shelves(Caller, Child(Tool, "tool", args=(body,)))) as kit:
        await put(kit, "a", "b")
        await kit.settle()
        assert (got, await stashed(kit)) == ([], 2)
        await put(kit, "open")
        await kit.settle()
        assert sorted(got) == ["a", "b"]


async def test_a_message_of_the_system_lane_cannot_wait() -> None:
    seen: list[str] = []

    class Wrong(Actor[Any], kind="stash-test-wrong"):
        @on(creates=True)
        def go(self, message: Note, ctx: Context) -> None:
            with pytest.raises(UsageError, match="system lane"):
                ctx.stash()
            seen.append(message.text)

    async with TestKit(shelves(Wrong)) as kit:
        await kit.client.send(ONE, Note("now"), lane=Lane.SYSTEM)
        await kit.settle()
        assert seen == ["now"]
