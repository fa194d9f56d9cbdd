"""Asks end once each, by the answer or by an AskFailed that says why. Named after the recorded facts, where any."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from callboard.actors.actor import Actor, Worker, on
from callboard.actors.bonds import ASK_LIMIT
from callboard.actors.context import Context, WorkerContext
from callboard.actors.spec import Child
from callboard.actors.system import AskFailed, Kill, Probe, Resume
from callboard.actors.testing import TestKit
from callboard.mailbox.errors import BadAddress, UsageError
from callboard.mailbox.lane import Lane
from callboard.mailbox.message import Message
from callboard.mailbox.request import Request
from tests.actors.peers import A, Ask, B, C, Do, Said, at_rest, do, heard, memory, outcomes, send_together, world
from tests.actors.world import SETTINGS, address_of

pytestmark = pytest.mark.anyio

SAID = "peers_test.said"


async def test_an_answer_is_a_message_and_names_its_ask() -> None:
    async with TestKit(world()) as kit:
        await do(kit, A, f"ask {B} 10 say one; ask {B} 10 say two; note asked")
        state = await memory(kit, A)
        assert state.heard == ["asked", "one", "two"]
        assert state.answers == state.asks and len(set(state.asks)) == 2
        await kit.advance(seconds=30)
        assert await heard(kit, A) == ["asked", "one", "two"]
        await at_rest(kit, A, B)


async def test_c1_a_target_that_fails_for_good_fails_the_ask_at_once() -> None:
    async with TestKit(world(restart="temporary")) as kit:
        await do(kit, A, f"ask {B} 600 later")
        await do(kit, B, "fatal")
        assert await heard(kit, A) == ["failed: target-failed"]
        await do(kit, A, f"ask {B} 600 say hello")
        assert await heard(kit, A) == ["failed: target-failed"] * 2, "it is failed for good: nobody would answer"
        assert (await memory(kit, A)).answers == (await memory(kit, A)).asks


@pytest.mark.parametrize(
    ("order", "why"), [("bug", "target-failed"), ("reject", "rejected"), ("fatal", "target-failed")]
)
async def test_c1_a_request_that_is_given_up_fails_the_ask(order: str, why: str) -> None:
    async with TestKit(world()) as kit:
        await do(kit, A, f"ask {B} 600 {order}")
        await kit.advance(seconds=20)
        assert await heard(kit, A) == [f"failed: {why}"]


async def test_c1_a_restart_of_the_target_does_not_fail_the_ask() -> None:
    async with TestKit(world()) as kit:
        await do(kit, A, f"ask {B} 600 later")
        await do(kit, B, "fatal")
        await kit.advance(seconds=20)
        assert await heard(kit, A) == []
        assert (await memory(kit, B)).lives >= 1
        await do(kit, B, "answer after all")
        assert await heard(kit, A) == ["after all"]


async def test_c1_a_target_that_ends_fails_what_it_deferred_and_what_comes_after() -> None:
    for status, why in (("completed", "target-ended"), ("cancelled", "cancelled")):
        async with TestKit(world()) as kit:
            await do(kit, A, f"ask {B} 600 later")
            await do(kit, B, f"end {status}")
            assert await heard(kit, A) == [f"failed: {why}"]
            await do(kit, A, f"ask {B} 600 say hello")
            assert await heard(kit, A) == [f"failed: {why}", "failed: target-ended"]
            await at_rest(kit, A, B)


async def test_c2_asking_nobody_fails_at_once() -> None:
    async with TestKit(world()) as kit:
        await do(kit, A, "ask /t/nowhere 600 say hello; ask /t/p 600 say hello")
        assert await heard(kit, A) == ["failed: no-such-actor"] * 2

    class Quiet(Actor[Any]):
        @on
        def asked(self, message: Ask, ctx: Context) -> None: ...

    async with TestKit(world(Child(Quiet, "q", pool=True))) as kit:
        await do(kit, A, "ask /t/q:1 600 say hello")
        assert await heard(kit, A) == ["failed: no-such-actor"]


async def test_c3_a_timeout_ends_the_ask_and_leaves_the_target_its_request() -> None:
    async with TestKit(world()) as kit:
        await do(kit, A, f"ask {B} 5 later")
        await kit.advance(seconds=4.9)
        assert await heard(kit, A) == []
        await kit.advance(seconds=0.2)
        assert await heard(kit, A) == ["failed: timeout"]
        assert len((await memory(kit, B)).kept) == 1
        assert (await memory(kit, A)).answers == (await memory(kit, A)).asks


async def test_c4_a_late_answer_is_dropped_and_counted() -> None:
    async with TestKit(world()) as kit:
        await do(kit, A, f"ask {B} 5 later")
        await kit.advance(seconds=10)
        await do(kit, B, "answer too late")
        assert await heard(kit, A) == ["failed: timeout"]
        assert await outcomes(kit, A, SAID) == ["late"]
        await at_rest(kit, A, B)


async def test_c4_of_an_answer_and_a_timeout_in_the_mailbox_at_once_one_is_handled() -> None:
    async with TestKit(world()) as kit:
        await do(kit, A, f"ask {B} 5 later; park")
        await do(kit, B, "answer just in time")
        await kit.advance(seconds=10)
        assert len(await kit.store.peek(A)) == 2
        await kit.client.send(A, Resume(), lane=Lane.SYSTEM)
        await kit.settle()
        assert await heard(kit, A) == ["just in time"]
        assert await outcomes(kit, A, "sys.ask_timed_out") == ["refused"]
        await at_rest(kit, A, B)


async def test_c5_asking_oneself_is_no_deadlock() -> None:
    async with TestKit(world()) as kit:
        await do(kit, A, f"ask {A} 600 say to myself")
        assert await heard(kit, A) == ["to myself"]
        await at_rest(kit, A)


async def test_c5_asking_back_is_no_deadlock() -> None:
    async with TestKit(world()) as kit:
        await do(kit, A, f"ask {B} 600 later, ask {A} 600 say fine")
        assert await heard(kit, B) == ["fine"]
        await do(kit, B, "answer done")
        assert await heard(kit, A) == ["done"]
        await at_rest(kit, A, B)


async def test_c5_a_circle_of_deferred_replies_fails_the_youngest_ask() -> None:
    async with TestKit(world()) as kit:
        await do(kit, A, f"ask {B} 600 later, ask {C} 600 later")
        await do(kit, C, f"ask {A} 600 later")
        assert await heard(kit, C) == ["failed: cycle"]
        assert (await memory(kit, C)).answers == (await memory(kit, C)).asks
        assert (await heard(kit, A), await heard(kit, B)) == ([], [])
        await do(kit, C, "answer c")
        await do(kit, B, "answer b")
        assert (await heard(kit, A), await heard(kit, B)) == (["b"], ["c"])
        await do(kit, A, "answer nobody waits")
        assert await outcomes(kit, C, SAID) == ["late"]
        await at_rest(kit, A, B, C)


async def test_c5_a_circle_closed_by_two_at_once_fails_one_ask() -> None:
    async with TestKit(world()) as kit:
        await send_together(kit, A, f"ask {B} 600 later")
        await send_together(kit, B, f"ask {A} 600 later")
        await kit.settle()
        both = [*await heard(kit, A), *await heard(kit, B)]
        assert both == ["failed: cycle"]
        ask = {A: (await memory(kit, A)).asks[0], B: (await memory(kit, B)).asks[0]}
        assert await heard(kit, max(ask, key=lambda address: ask[address])) == ["failed: cycle"]


async def test_c5_an_ask_of_oneself_that_is_deferred_is_a_circle() -> None:
    async with TestKit(world()) as kit:
        await do(kit, A, f"ask {A} 600 later")
        assert await heard(kit, A) == ["failed: cycle"]


async def test_c5_a_long_circle_is_found_and_a_chain_is_none() -> None:
    ring = [f"/t/p:{n}" for n in range(40)]
    async with TestKit(world()) as kit:
        for n, address in enumerate(ring[:-1]):
            await do(kit, address, f"ask {ring[n + 1]} 600 later")
        assert [await heard(kit, address) for address in ring] == [[]] * 40
        await do(kit, ring[-1], f"ask {ring[0]} 600 later")
        assert [await heard(kit, address) for address in ring] == [[]] * 39 + [["failed: cycle"]]


async def test_c5_a_dense_graph_of_asks_costs_a_bounded_number_of_probes() -> None:
    everybody = [f"/t/p:{n}" for n in range(8)]
    async with TestKit(world()) as kit:
        for address in everybody:
            await do(kit, address, "; ".join(f"ask {other} 600 later" for other in everybody if other != address))
        await kit.settle()
        probes = [o for address in everybody for o in await outcomes(kit, address, "sys.probe")]
        assert len(probes) <= 8 * 8 * 256
        await kit.advance(seconds=700)
        for address in everybody:
            state = await memory(kit, address)
            assert sorted(state.answers) == sorted(state.asks), "one outcome each"
        assert await kit.store.dead_letters() == []


@pytest.mark.parametrize("first", ["asked", "asks"])
async def test_c5_a_deferred_request_whose_turn_set_a_timer_is_not_part_of_a_circle(first: str) -> None:
    class Slow(Actor[Any], kind="ask-test-slow"):
        waiting: tuple[str, int]
        why = ""

        @on(creates=True)
        def asked(self, message: Ask, ctx: Context) -> None:
            ctx.schedule("soon", 3, Do("now"))
            Slow.waiting = ctx.reply_to

        @on(creates=True)
        def go(self, message: Do, ctx: Context) -> None:
            if message.text == "now":
                ctx.reply_later(Slow.waiting, Said("slowly"))
            else:
                ctx.ask(A, Ask(message.text), timeout=60)

        @on
        def heard(self, message: Said | AskFailed, ctx: Context) -> None:
            Slow.why = message.why if isinstance(message, AskFailed) else message.text

    async with TestKit(world(Child(Slow, "s", pool=True))) as kit:
        if first == "asked":
            await do(kit, A, "ask /t/s:1 60 x")
            await kit.send("/t/s:1", Do("later"))
        else:
            await kit.send("/t/s:1", Do("later; ask /t/s:1 60 x"))
        await kit.advance(seconds=5)
        assert await heard(kit, A) == ["slowly"]
        await do(kit, A, "answer at last")
        assert Slow.why == "at last"


async def test_the_deadline_shrinks_along_the_chain() -> None:
    seen: dict[str, float] = {}

    class Link(Actor[Any], kind="ask-test-link"):
        @on(creates=True)
        def asked(self, message: Ask, ctx: Context) -> None:
            seen[ctx.address] = ctx.deadline - ctx.now
            if message.text:
                ctx.ask(message.text, Ask(), timeout=timedelta(hours=1))

        @on(creates=True)
        def go(self, message: Do, ctx: Context) -> None:
            assert ctx.deadline == 0
            ctx.ask("/t/l:2", Ask("/t/l:3"), timeout=10)

        @on
        def failed(self, message: AskFailed, ctx: Context) -> None:
            seen[f"failed {ctx.address}"] = ctx.now

    async with TestKit(world(Child(Link, "l", pool=True))) as kit:
        await kit.send("/t/l:1", Do())
        assert seen == {"/t/l:2": pytest.approx(10, abs=0.01), "/t/l:3": pytest.approx(10, abs=0.01)}
        await kit.advance(seconds=11)
        assert {"failed /t/l:1", "failed /t/l:2"} <= set(seen)


async def test_c3_an_actor_with_open_asks_can_end_and_its_asks_die_with_it() -> None:
    async with TestKit(world()) as kit:
        await do(kit, A, f"ask {B} 5 later; end completed")
        await do(kit, B, "answer nobody")
        await kit.advance(seconds=10)
        assert await heard(kit, A) == []
        assert await outcomes(kit, A, SAID) == ["late"]
        await at_rest(kit, A, B)


async def test_an_outcome_whose_handler_fails_comes_again() -> None:
    failing = True

    class Shy(Actor[Any], kind="ask-test-shy"):
        @on(creates=True)
        def go(self, message: Do, ctx: Context) -> None:
            ctx.ask(B, Ask(message.text), timeout=5)

        @on
        def heard(self, message: Said | AskFailed, ctx: Context) -> None:
            if failing:
                raise RuntimeError("not yet")
            done.append(message)

    done: list[Message] = []
    async with TestKit(world(Child(Shy, "s", pool=True))) as kit:
        await kit.send("/t/s:1", Do("say hello"))
        await kit.send("/t/s:2", Do("later"))
        await kit.advance(seconds=6)
        failing = False
        await kit.advance(seconds=60)
        assert [getattr(m, "text", getattr(m, "why", "")) for m in done] == ["hello", "timeout"]
        await at_rest(kit, "/t/s:1", "/t/s:2")


async def test_an_outcome_without_a_handler_is_a_dead_letter_and_the_ask_is_over() -> None:
    class Deaf(Actor[Any], kind="ask-test-deaf"):
        @on(creates=True)
        def go(self, message: Do, ctx: Context) -> None:
            ctx.ask(B, Ask(message.text), timeout=5)

    async with TestKit(world(Child(Deaf, "d", pool=True))) as kit:
        await kit.send("/t/d:1", Do("say hello"))
        await kit.send("/t/d:2", Do("later"))
        await kit.advance(seconds=6)
        assert [letter.reason for letter in await kit.store.dead_letters()] == ["rejected"] * 2
        for address in ("/t/d:1", "/t/d:2"):
            row = await kit.row(address)
            assert row is not None and set(msgspec.json.decode(row.bonds)) == {"drawn"}


@pytest.mark.parametrize("how", ["crash", "leave"])
async def test_g1_asks_survive_a_take_over(how: str) -> None:
    async with TestKit(world(), nodes=2, settings=SETTINGS) as kit:
        await kit.advance(seconds=2)
        first = kit.nodes[0]
        asker = address_of(kit, first, "/t/p")
        await do(kit, asker, f"ask {B} 20 later; ask {C} 600 later")
        await (kit.crash(first) if how == "crash" else kit.leave(first))
        await kit.advance(seconds=5)
        await do(kit, C, "answer c")
        await kit.advance(seconds=30)
        state = await memory(kit, asker)
        assert state.heard == ["c", "failed: timeout"]
        assert state.answers == [state.asks[1], state.asks[0]]


async def test_a_lost_answer_to_a_commit_asks_once() -> None:
    for nth in range(1, 6):
        async with TestKit(world()) as kit:
            commits = 0

            def lost(_number: int, nth: int = nth) -> bool:
                nonlocal commits
                commits += 1
                return commits == nth

            await kit.settle()
            kit.store.lost_answer = lost
            await do(kit, A, f"ask {B} 60 say one")
            await kit.advance(seconds=5)
            assert await heard(kit, A) == ["one"]
            kit.store.lost_answer = lambda _: False
            await at_rest(kit, A, B)


async def test_too_many_open_asks_are_a_usage_error() -> None:
    seen: list[str] = []

    class Many(Actor[Any], kind="ask-test-many"):
        @on(creates=True)
        def go(self, message: Do, ctx: Context) -> None:
            for _ in range(ASK_LIMIT):
                ctx.ask(B, Ask("later"), timeout=60)
            with pytest.raises(UsageError, match="1,000 asks are open already"):
                ctx.ask(B, Ask("later"), timeout=60)
            for timeout in (0, -1, float("nan"), float("inf")):
                with pytest.raises(UsageError, match="timeout"):
                    ctx.ask(B, Ask(), timeout=timeout)
            with pytest.raises(BadAddress):
                ctx.ask("nowhere", Ask(), timeout=1)
            with pytest.raises(UsageError, match="is no Request"):
                ctx.ask(B, Do(), timeout=1)  # type: ignore[type-var]
            seen.append("all of it")

        @on
        def heard(self, message: AskFailed, ctx: Context) -> None:
            seen.append(message.why)

    async with TestKit(world(Child(Many, "m", pool=True))) as kit:
        await kit.send("/t/m:1", Do())
        assert seen == ["all of it"]
        await kit.advance(seconds=61)
        assert seen == ["all of it", *["timeout"] * ASK_LIMIT]


async def test_a_turn_that_fails_asks_nothing() -> None:
    async with TestKit(world()) as kit:
        await do(kit, A, "note there")
        await do(kit, A, f"ask {B} 60 say one; bug")
        await kit.advance(seconds=20)
        assert await kit.row(B) is None
        row = await kit.row(A)
        assert row is not None and row.bonds == ""
        assert kit.store.tables.timers == {}


async def test_turns_without_bonds_have_none() -> None:
    async with TestKit(world()) as kit:
        await do(kit, A, f"send {B} note hello")
        for address in (A, B):
            row = await kit.row(address)
            assert row is not None and row.bonds == ""


async def test_a_killed_target_keeps_the_ask_open_while_it_is_restarted() -> None:
    async with TestKit(world()) as kit:
        await do(kit, A, f"ask {B} 60 later")
        await kit.client.send(B, Kill(), lane=Lane.SYSTEM)
        await kit.advance(seconds=20)
        assert await heard(kit, A) == []
        await do(kit, B, "answer still here")
        assert await heard(kit, A) == ["still here"]


def test_a_request_is_typed_by_its_answer() -> None:
    assert issubclass(Ask, Request)
    assert Ask("x") == Ask("x")


@pytest.mark.parametrize("seconds", [0.0, 10.0])
async def test_a_worker_can_be_asked_too(seconds: float) -> None:
    class Slow(Worker, kind="ask-test-worker"):
        @on
        async def asked(self, message: Ask, ctx: WorkerContext) -> Said:
            await ctx.port.sleep(seconds)
            return Said(message.text)

    async with TestKit(world(Child(Slow, "tool"))) as kit:
        await do(kit, A, "ask /t/tool 5 hello")
        await kit.advance(seconds=20)
        assert await heard(kit, A) == ["failed: timeout" if seconds else "hello"]
        assert await outcomes(kit, A, SAID) == ["late" if seconds else "done"]
        assert (await memory(kit, A)).answers == (await memory(kit, A)).asks
        await at_rest(kit, A)


async def test_c5_a_probe_that_comes_back_when_its_first_ask_is_over_finds_no_circle() -> None:
    async with TestKit(world()) as kit:
        await do(kit, A, f"ask {C} 600 later")
        await do(kit, B, f"ask {A} 600 later")
        asked, first = (await memory(kit, B)).asks[0], (await memory(kit, A)).asks[0]
        over = Probe(asked, A, first=first + 1, youngest=asked, asker=B, budget=10)
        await kit.client.send(A, over, lane=Lane.SYSTEM)
        await kit.settle()
        assert await heard(kit, B) == []
        await kit.client.send(A, msgspec.structs.replace(over, first=first), lane=Lane.SYSTEM)
        await kit.settle()
        assert await heard(kit, B) == ["failed: cycle"], "as it would with one that is open"
