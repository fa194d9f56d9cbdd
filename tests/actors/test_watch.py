"""Whoever watches is told once, when the end is one for good. Named after the recorded facts where there is one."""

from typing import Any

import pytest

from callboard.actors import watching
from callboard.actors.actor import Actor, on
from callboard.actors.context import Context
from callboard.actors.spec import Child
from callboard.actors.system import Cancel, Resume, Stop, Terminated
from callboard.actors.testing import TestKit
from callboard.mailbox.errors import UsageError
from callboard.mailbox.lane import Lane
from callboard.mailbox.message import Message
from tests.actors.peers import A, B, C, Do, at_rest, do, heard, outcomes, world
from tests.actors.world import SETTINGS, Tool, address_of

pytestmark = pytest.mark.anyio

TERMINATED = "sys.terminated"


async def test_m1_a_normal_end_is_told_too() -> None:
    async with TestKit(world()) as kit:
        await do(kit, A, f"watch {B}")
        assert await heard(kit, A) == [f"{B} 0 unknown there is no such actor"]
        await do(kit, B, "note there")
        await do(kit, A, f"watch {B}")
        await do(kit, B, "end completed all done")
        assert (await heard(kit, A))[1:] == [f"{B} 1 completed all done"]
        await at_rest(kit, A, B)


async def test_m1_a_cancel_and_a_failure_for_good_are_told() -> None:
    async with TestKit(world(restart="temporary")) as kit:
        for address in (B, C):
            await do(kit, address, "note there")
            await do(kit, A, f"watch {address}")
        await kit.client.send(B, Cancel(by="ann"), lane=Lane.SYSTEM)
        await do(kit, C, "fatal")
        assert await heard(kit, A) == [f"{B} 1 cancelled cancelled by ann", f"{C} 1 failed Fatal: broken"]


async def test_a_restart_is_no_end_and_a_stop_is_none_either() -> None:
    async with TestKit(world(Child(Still, "single"))) as kit:
        await do(kit, B, "note there")
        await do(kit, A, f"watch {B}; watch /t/single")
        await do(kit, B, "fatal")
        await kit.client.send("/t/single", Stop(1), lane=Lane.SYSTEM)
        await kit.advance(seconds=30)
        assert await heard(kit, A) == []
        await do(kit, B, "end completed")
        assert await heard(kit, A) == [f"{B} 2 completed"]


class Still(Actor[Any], kind="watch-test-still"):
    """Does nothing."""

    @on
    def do(self, message: Do, ctx: Context) -> None: ...


async def test_m2_l7_watching_one_that_has_ended_tells_at_once_how_it_ended() -> None:
    async with TestKit(world(restart="temporary")) as kit:
        for address, order in ((B, "end completed well"), (C, "fatal"), ("/t/p:d", "end cancelled enough")):
            await do(kit, address, "note there")
            await do(kit, address, order)
        await do(kit, A, f"watch {B}; watch {C}; watch /t/p:d")
        assert sorted(await heard(kit, A)) == [
            f"{B} 1 completed well",
            f"{C} 1 failed Fatal: broken",
            "/t/p:d 1 cancelled enough",
        ]


async def test_m2_l7_watching_nobody_tells_at_once() -> None:
    async with TestKit(world()) as kit:
        await do(kit, A, f"watch {B}; watch /t/nowhere; watch /t/p")
        assert sorted(await heard(kit, A)) == [
            "/t/nowhere 0 unknown there is no such actor",
            "/t/p 0 unknown there is no such actor",
            f"{B} 0 unknown there is no such actor",
        ]
        assert await kit.row(B) is None
        await at_rest(kit, A)


async def test_m3_watching_twice_tells_once() -> None:
    async with TestKit(world()) as kit:
        await do(kit, B, "note there")
        await do(kit, A, f"watch {B}; watch {B}")
        await do(kit, A, f"watch {B}")
        await do(kit, B, "end completed")
        assert await heard(kit, A) == [f"{B} 1 completed"]
        await do(kit, A, "note alive")
        assert (await heard(kit, A))[-1] == "alive"


async def test_m3_each_watcher_is_told() -> None:
    async with TestKit(world()) as kit:
        await do(kit, C, "note there")
        await do(kit, A, f"watch {C}")
        await do(kit, B, f"watch {C}")
        await do(kit, C, "end completed")
        assert await heard(kit, A) == await heard(kit, B) == [f"{C} 1 completed"]


async def test_m4_after_unwatch_nothing_is_handled_even_if_it_is_queued() -> None:
    async with TestKit(world()) as kit:
        await do(kit, B, "note there")
        await do(kit, A, f"watch {B}")
        await do(kit, A, "park")
        await kit.client.send(A, Do(f"unwatch {B}"), lane=Lane.REPLY)
        await do(kit, B, "end completed")
        assert TERMINATED in [view.envelope.type for view in await kit.store.peek(A)]
        await kit.client.send(A, Resume(), lane=Lane.SYSTEM)
        await kit.settle()
        assert await heard(kit, A) == []
        assert await outcomes(kit, A, TERMINATED) == ["refused"]
        await at_rest(kit, A, B)


async def test_m4_unwatch_before_the_end_leaves_nothing_behind() -> None:
    async with TestKit(world()) as kit:
        await do(kit, B, "note there")
        await do(kit, A, f"watch {B}; unwatch {B}; unwatch {C}")
        await do(kit, B, "end completed")
        assert await heard(kit, A) == []
        assert await outcomes(kit, A, TERMINATED) == []
        await at_rest(kit, A, B)


async def test_m4_watched_again_after_unwatch_tells_once() -> None:
    async with TestKit(world()) as kit:
        await do(kit, B, "note there")
        await do(kit, A, f"watch {B}; unwatch {B}; watch {B}")
        await do(kit, B, "end completed")
        assert await heard(kit, A) == [f"{B} 1 completed"]
        await at_rest(kit, A, B)


async def test_each_incarnation_is_watched_anew() -> None:
    async with TestKit(world()) as kit:
        await do(kit, A, f"spawn {B} watch")
        await do(kit, B, "end completed once")
        await do(kit, A, f"spawn {B} again watch")
        await do(kit, B, "end completed twice")
        assert await heard(kit, A) == [f"{B} 1 completed once", f"{B} 2 completed twice"]


async def test_what_the_target_sent_before_its_end_comes_before_the_news_of_it() -> None:
    async with TestKit(world()) as kit:
        await do(kit, B, "note there")
        await do(kit, A, f"watch {B}")
        await do(kit, B, f"send {A} note result; end completed")
        assert await heard(kit, A) == ["result", f"{B} 1 completed"]


async def test_a_watcher_that_has_ended_is_not_told_and_not_missed() -> None:
    async with TestKit(world()) as kit:
        await do(kit, B, "note there")
        await do(kit, A, f"watch {B}")
        await do(kit, A, "end completed")
        await do(kit, B, "end completed")
        assert await heard(kit, A) == []
        await at_rest(kit, A, B)


async def test_one_watcher_too_many_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "WATCHER_LIMIT", 1)
    async with TestKit(world()) as kit:
        await do(kit, C, "note there")
        await do(kit, A, f"watch {C}")
        await do(kit, B, f"watch {C}")
        assert (await heard(kit, A), await heard(kit, B)) == ([], [f"{C} 1 refused 1 actors watch it already"])
        await do(kit, C, "end completed")
        assert (await heard(kit, A), len(await heard(kit, B))) == ([f"{C} 1 completed"], 1)


async def test_an_end_that_nobody_handles_is_a_dead_letter_and_told_no_more() -> None:
    class Deaf(Actor[Any], kind="watch-test-deaf"):
        @on(creates=True)
        def go(self, message: Do, ctx: Context) -> None:
            ctx.watch(B)

    async with TestKit(world(Child(Deaf, "d", pool=True))) as kit:
        await kit.send("/t/d:1", Do())
        assert [letter.envelope.type for letter in await kit.store.dead_letters()] == [TERMINATED]
        row = await kit.row("/t/d:1")
        assert row is not None and "watching" not in row.bonds


async def test_watching_oneself_or_a_worker_is_a_usage_error() -> None:
    seen: list[str] = []

    class Wrong(Actor[Any], kind="watch-test-wrong"):
        @on(creates=True)
        def go(self, message: Do, ctx: Context) -> None:
            for address in (ctx.address, "/t/tool"):
                with pytest.raises(UsageError, match="watch"):
                    ctx.watch(address)
            seen.append("both")

    async with TestKit(world(Child(Wrong, "w", pool=True), Child(Tool, "tool", args=(None,)))) as kit:
        await kit.send("/t/w:1", Do())
        assert seen == ["both"]


async def test_g1_exactly_one_across_take_overs_of_watcher_and_target() -> None:
    async with TestKit(world(), nodes=3, settings=SETTINGS) as kit:
        await kit.advance(seconds=3)
        watcher, target = (address_of(kit, node, "/t/p") for node in kit.nodes[:2])
        await do(kit, target, "note there")
        await do(kit, watcher, f"watch {target}")
        for node in kit.nodes[:2]:
            await kit.crash(node)
            await kit.advance(seconds=5)
        await do(kit, target, "end completed")
        await kit.advance(seconds=2)
        assert await heard(kit, watcher) == [f"{target} 1 completed"]
        await at_rest(kit, watcher, target)


async def test_the_message_says_what_it_is() -> None:
    told: list[Message] = []

    class Ear(Actor[Any], kind="watch-test-ear"):
        @on(creates=True)
        def go(self, message: Do, ctx: Context) -> None:
            ctx.watch(B)

        @on
        def terminated(self, message: Terminated, ctx: Context) -> None:
            assert ctx.sender == message.address
            told.append(message)

    async with TestKit(world(Child(Ear, "e", pool=True))) as kit:
        await do(kit, B, "note there")
        await kit.send("/t/e:1", Do())
        await do(kit, B, "end completed fine")
        assert told == [Terminated(B, 1, "completed", "fine")]
