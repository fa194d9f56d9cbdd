"""Spawning is idempotent by address; a new incarnation begins afresh, and never before the old one has ended."""

from typing import Any

import pytest

from callboard.actors.actor import Actor, on
from callboard.actors.context import Context, Ref
from callboard.actors.spec import Child, Supervisor
from callboard.actors.system import AskFailed, Terminated
from callboard.actors.testing import TestKit
from callboard.mailbox.errors import BadAddress
from callboard.mailbox.message import Message
from tests.actors.peers import A, Ask, B, Do, Peer, Said, do, heard, memory, world
from tests.actors.world import SETTINGS, Tool, address_of, addresses

pytestmark = pytest.mark.anyio


async def incarnation(kit: TestKit, address: str) -> tuple[int, str]:
    row = await kit.row(address)
    assert row is not None
    return row.incarnation, row.status


async def test_spawn_creates_once_and_starts_once() -> None:
    async with TestKit(world()) as kit:
        await do(kit, A, f"spawn {B}; spawn {B}")
        await do(kit, A, f"spawn {B} again")
        assert await incarnation(kit, B) == (1, "active")
        assert (await memory(kit, B)).lives == 1
        await do(kit, B, "note still itself")
        assert await heard(kit, B) == ["still itself"]
        assert kit.store.tables.messages == {} and await kit.store.dead_letters() == []


async def test_spawn_needs_no_message_that_creates() -> None:
    class Quiet(Actor[Any], kind="spawn-test-quiet"):
        @on
        def asked(self, message: Ask, ctx: Context) -> None:
            ctx.reply(Said("here"))

    async with TestKit(world(Child(Quiet, "q", pool=True))) as kit:
        await do(kit, A, "ask /t/q:1 600 x")
        await do(kit, A, "spawn /t/q:1; ask /t/q:1 600 x")
        assert await heard(kit, A) == ["failed: no-such-actor", "here"]


async def test_one_that_has_ended_stays_unless_again() -> None:
    async with TestKit(world()) as kit:
        await do(kit, A, f"spawn {B}")
        await do(kit, B, "note old; end completed done")
        await do(kit, A, f"spawn {B}")
        assert await incarnation(kit, B) == (1, "completed")
        assert await heard(kit, B) == ["old"]
        await do(kit, A, f"spawn {B} again")
        assert await incarnation(kit, B) == (2, "active")
        assert ((await memory(kit, B)).lives, await heard(kit, B)) == (1, []), "a fresh state"
        await do(kit, B, "note new")
        assert await heard(kit, B) == ["new"]
        assert await kit.store.dead_letters() == []


async def test_a_failure_for_good_can_be_spawned_again() -> None:
    async with TestKit(world(restart="temporary")) as kit:
        await do(kit, A, f"spawn {B} watch")
        await do(kit, B, "fatal")
        await do(kit, B, "note lost")
        assert [letter.reason for letter in await kit.store.dead_letters()] == ["recipient-failed", "failed"]
        await do(kit, A, f"spawn {B} again watch")
        assert await incarnation(kit, B) == (2, "active")
        await do(kit, B, "note found")
        assert await heard(kit, B) == ["found"]
        await do(kit, B, "end completed")
        assert await heard(kit, A) == [f"{B} 1 failed Fatal: broken", f"{B} 2 completed"]


async def test_events_and_numbers_go_on_over_incarnations() -> None:
    async with TestKit(world()) as kit:
        await do(kit, B, f"send {A} note one; end completed")
        await do(kit, A, f"spawn {B} again")
        await do(kit, B, f"send {A} note two")
        assert await heard(kit, A) == ["one", "two"]
        row = await kit.row(B)
        assert row is not None and (row.sent, row.incarnation) == (2, 2)


async def test_spawning_where_there_is_no_pool_is_a_dead_letter_and_told_to_a_watcher() -> None:
    class Single(Actor[Any], kind="spawn-test-single"):
        @on
        def do(self, message: Do, ctx: Context) -> None: ...

    inner = Supervisor("s", (Child(Single, "one"),))
    async with TestKit(world(inner, Child(Tool, "tool", args=(None,)))) as kit:
        await do(kit, A, "spawn /t/nowhere:1 watch; spawn /t/p watch; spawn /t/s:1 watch")
        letters = [(letter.envelope.type, letter.reason) for letter in await kit.store.dead_letters()]
        assert letters == [("sys.spawn", "no-such-actor")] * 3
        assert sorted(await heard(kit, A)) == [
            f"{address} 0 unknown there is no such actor" for address in ("/t/nowhere:1", "/t/p", "/t/s:1")
        ]
        await do(kit, A, "spawn /t/s/one")
        assert await incarnation(kit, "/t/s/one") == (1, "active"), "its supervisor's, and there already"


async def test_an_address_that_is_none_is_a_usage_error_and_a_ref_keeps_its_type() -> None:
    seen: list[Any] = []

    class Parent(Actor[Any], kind="spawn-test-parent"):
        @on(creates=True)
        def go(self, message: Do, ctx: Context) -> None:
            with pytest.raises(BadAddress):
                ctx.spawn("nowhere")
            ref: Ref[Do] = ctx.spawn(Ref[Do](B))
            seen.append(ref)
            ctx.send(ref, Do("note hello"))

    async with TestKit(world(Child(Parent, "parent", pool=True))) as kit:
        await kit.send("/t/parent:1", Do())
        assert seen == [Ref[Do](B)]
        assert await heard(kit, B) == ["hello"]


class Phoenix(Actor[Any], kind="spawn-test-phoenix"):
    """Spawns the same path so often, each time when the last one has ended."""

    rounds = 1_000
    told: list[Terminated]

    @on(creates=True)
    def go(self, message: Do, ctx: Context) -> None:
        Phoenix.told = []
        self._next(ctx)

    @on
    def over(self, message: Terminated, ctx: Context) -> None:
        Phoenix.told.append(message)
        if len(Phoenix.told) < self.rounds:
            self._next(ctx)

    def _next(self, ctx: Context) -> None:
        ctx.spawn(B, again=True, watch=True)
        ctx.send(B, Do("note once; end completed"))

    @on
    def failed(self, message: AskFailed, ctx: Context) -> None: ...


async def test_field_4_stop_and_spawn_the_same_path_a_thousand_times() -> None:
    async with TestKit(world(Child(Phoenix, "phoenix", pool=True))) as kit:
        await kit.send("/t/phoenix:1", Do())
        await kit.settle()
        assert [(message.incarnation, message.status) for message in Phoenix.told] == [
            (n, "completed") for n in range(1, 1001)
        ]
        assert await heard(kit, B) == ["once"]
        assert kit.store.tables.messages == {} and await kit.store.dead_letters() == []
        row = await kit.row(B)
        assert row is not None and row.bonds == ""


async def test_g1_spawning_survives_a_crash_and_happens_once() -> None:
    async with TestKit(world(), nodes=2, settings=SETTINGS) as kit:
        await kit.advance(seconds=2)
        parent = address_of(kit, kit.nodes[1], "/t/p")
        children = [address for _, address in zip(range(5), addresses(kit, kit.nodes[0]), strict=False)]
        kit.freeze(kit.nodes[0])
        await do(kit, parent, "; ".join(f"spawn {child} watch" for child in children))
        await kit.advance(seconds=10)
        for child in children:
            assert await incarnation(kit, child) == (1, "active")
            await do(kit, child, "end completed")
        await kit.thaw(kit.nodes[0])
        await kit.advance(seconds=5)
        assert sorted(await heard(kit, parent)) == sorted(f"{child} 1 completed" for child in children)


async def test_a_start_that_fails_is_tried_again_and_given_up_like_any_first_message() -> None:
    starts = 0

    class Broken(Actor[Any], kind="spawn-test-broken"):
        def on_start(self, ctx: Context) -> None:
            nonlocal starts
            starts += 1
            raise RuntimeError("no start")

        @on
        def do(self, message: Do, ctx: Context) -> None: ...

    async with TestKit(world(Child(Broken, "b", pool=True))) as kit:
        await do(kit, A, "spawn /t/b:1 watch")
        await kit.advance(minutes=5)
        assert starts == Broken.retry.max_failures
        assert [letter.reason for letter in await kit.store.dead_letters()] == ["failed"]
        assert await kit.row("/t/b:1") is None
        assert await heard(kit, A) == ["/t/b:1 0 unknown there is no such actor"]


def test_a_peer_is_an_actor_of_messages() -> None:
    assert all(issubclass(kind, Message) for kind in Peer.handlers)
