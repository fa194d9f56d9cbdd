"""Timers fire once, not early, without drift, whoever owns their actor; a cancelled or replaced one never does."""

from typing import Any

import anyio
import pytest

from callboard.actors.bonds import TIMER_LIMIT
from callboard.actors.context import Context
from callboard.actors.system import Pause, Resume
from callboard.actors.testing import TestKit
from callboard.mailbox.address import shard_of
from callboard.mailbox.errors import UsageError
from callboard.mailbox.lane import Lane
from callboard.persistence.unit import Unit
from tests.actors.world import SETTINGS, Note, Probe, address_of, notes, send_all, spy_on_commits, tree

pytestmark = pytest.mark.anyio

ONE = "/t/p:1"


class Clock:
    """A script that sets timers as it is told, and notes when each fired."""

    def __init__(self) -> None:
        self.fired: list[tuple[str, float]] = []
        self.missed: list[int] = []

    def __call__(self, _probe: Probe, note: Note, ctx: Context) -> None:
        match note.text.split():
            case ["set", key, seconds]:
                ctx.schedule(key, float(seconds), Note(f"{key} {seconds}"))
            case ["every", key, seconds]:
                ctx.schedule(key, float(seconds), Note(key), every=float(seconds))
            case ["jitter", key, seconds]:
                ctx.schedule(key, float(seconds), Note(key), every=float(seconds), jitter=True)
            case ["loose", key, seconds]:
                ctx.schedule(key, float(seconds), Note(key), loose=True)
            case ["cancel", key]:
                ctx.cancel_timer(key)
            case _:
                self.fired.append((note.text, ctx.port.monotonic()))
                self.missed.append(ctx.missed)

    def since(self, start: float) -> list[tuple[str, Any]]:
        return [(text, pytest.approx(at - start)) for text, at in self.fired]


@pytest.mark.parametrize("seconds", [0, 0.5, 1.999, 2, 2.001, 3.7, 60])
async def test_a_timer_fires_once_and_not_early(seconds: float) -> None:
    clock = Clock()
    async with TestKit(tree(clock)) as kit:
        await kit.advance(seconds=0.3)
        start = kit.port.elapsed
        await kit.send(ONE, Note(f"set k {seconds}"))
        await kit.advance(seconds=seconds + 5)
        assert [text for text, _ in clock.fired] == [f"k {seconds}"]
        late = clock.fired[0][1] - start - seconds
        assert -1e-6 < late < 0.02  # a wall clock of 1.8e9 seconds has steps of 2.4e-7


async def test_a_timer_set_again_replaces_the_one_with_its_key_and_others_stay() -> None:
    clock = Clock()
    async with TestKit(tree(clock)) as kit:
        start = kit.port.elapsed
        for text in ("set k 1", "set other 1.5", "set k 4"):
            await kit.send(ONE, Note(text))
        await kit.advance(seconds=0.9)
        await kit.send(ONE, Note("set k 2"))
        await kit.advance(seconds=10)
        assert clock.since(start) == [("other 1.5", 1.5), ("k 2", 2.9)]
        assert kit.store.tables.timers == {}


async def test_a_cancelled_timer_does_not_fire() -> None:
    clock = Clock()
    async with TestKit(tree(clock)) as kit:
        await send_all(kit, ONE, ["set a 1", "set b 10", "cancel a"])
        await kit.settle()
        await kit.send(ONE, Note("cancel b"))
        await kit.send(ONE, Note("cancel nothing"))
        await kit.advance(seconds=20)
        assert clock.fired == []
        await send_all(kit, ONE, ["cancel a", "set a 1"])
        await kit.advance(seconds=5)
        assert len(clock.fired) == 1


async def test_a_timer_that_is_due_and_not_fired_yet_can_still_be_cancelled() -> None:
    clock = Clock()
    async with TestKit(tree(clock)) as kit:
        await kit.send(ONE, Note("set k 1"))

        async def before(_number: int, operation: str) -> None:
            if operation == "commit":
                await kit.port.sleep(3)  # the turn that cancels is written before the fire that falls due meanwhile

        kit.store.before = before
        await kit.advance(seconds=0.9)
        await kit.send(ONE, Note("cancel k"))
        await kit.advance(seconds=30)
        assert clock.fired == []


async def test_a_periodic_timer_does_not_drift_and_folds_what_it_missed() -> None:
    clock = Clock()
    async with TestKit(tree(clock), settings=SETTINGS) as kit:
        start = kit.port.elapsed
        await kit.send(ONE, Note("every k 0.7"))
        await kit.advance(seconds=7.1)
        assert clock.since(start) == [("k", 0.7 * n) for n in range(1, 11)]
        kit.store.down = True
        await kit.advance(seconds=20)
        kit.store.down = False
        await kit.advance(seconds=5)
        ticks = [(at - start) / 0.7 for _, at in clock.fired]
        assert len(ticks) < 20, "the missed ticks are one"
        assert ticks[12:] == pytest.approx([round(tick) for tick in ticks[12:]]), "and the others on their beat"
        # I11: those that fired and those that were folded are all there were.
        assert len(ticks) + sum(clock.missed) == int(32.1 / 0.7)
        assert sum(missed > 0 for missed in clock.missed) == 1
        await kit.send(ONE, Note("cancel k"))
        clock.fired.clear()
        await kit.advance(seconds=5)
        assert clock.fired == []


@pytest.mark.parametrize("how", ["crash", "leave"])
async def test_timers_survive_a_take_over(how: str) -> None:
    clock = Clock()
    async with TestKit(tree(clock), nodes=2, settings=SETTINGS) as kit:
        await kit.advance(seconds=2)
        first = kit.nodes[0]
        address = address_of(kit, first)
        start = kit.port.elapsed
        for text in ("set soon 1", "set late 30", "every tick 4"):
            await kit.send(address, Note(text))
        await kit.advance(seconds=0.5)
        await (kit.crash(first) if how == "crash" else kit.leave(first))
        await kit.advance(seconds=40)
        assert [at - start for text, at in clock.fired if text == "soon 1"] == pytest.approx([1], abs=0.02)
        assert [at - start for text, at in clock.fired if text == "late 30"] == pytest.approx([30], abs=0.02)
        ticks = [at - start for text, at in clock.fired if text == "tick"]
        assert ticks == pytest.approx([4.0 * n for n in range(1, 11)], abs=0.02)


async def test_a_lost_answer_to_a_fire_fires_it_once() -> None:
    for nth in range(1, 5):
        clock = Clock()
        async with TestKit(tree(clock)) as kit:
            await kit.send(ONE, Note("every k 2"))
            commits = 0

            def lost(_number: int, nth: int = nth) -> bool:
                nonlocal commits
                commits += 1
                return commits == nth

            kit.store.lost_answer = lost
            await kit.advance(seconds=9.5)
            assert [text for text, _ in clock.fired] == ["k"] * 4


async def test_many_timers_due_at_once_all_fire() -> None:
    clock = Clock()
    async with TestKit(tree(clock)) as kit:
        for n in range(300):
            await kit.client.send(f"/t/p:{n}", Note("set k 30"))
        await kit.advance(seconds=35)
        assert len(clock.fired) == 300


async def test_the_timers_of_a_shard_that_is_being_given_away_are_fired_by_its_new_owner() -> None:
    clock = Clock()
    async with TestKit(tree(clock), settings=SETTINGS) as kit:
        for n in range(40):
            await kit.client.send(f"/t/p:{n}", Note("every k 0.05"))
        await kit.advance(seconds=1)
        bad: list[Unit] = []

        async def before(number: int, operation: str) -> None:
            if operation == "give":
                await kit.port.sleep(0.3)

        kit.store.before = before

        def watch(node: Any) -> None:
            number = kit.session(node).number
            spy_on_commits(
                kit, node, lambda units: bad.extend(u for u in units if kit.store.cluster.owners[u.shard] != number)
            )

        watch(kit.nodes[0])
        watch(await kit.join())
        await kit.advance(seconds=4)
        assert bad == []
        assert len(clock.fired) > 40 * 30


@pytest.mark.parametrize(
    ("after", "every"), [(-1, 0), (float("nan"), 0), (float("inf"), 0), (1, -1), (1, float("nan"))]
)
async def test_a_timer_without_a_sensible_time_is_a_usage_error(after: float, every: float) -> None:
    seen: list[Exception] = []

    def script(_probe: Probe, _note: Note, ctx: Context) -> None:
        try:
            ctx.schedule("k", after, Note(), every=every)
        except UsageError as error:
            seen.append(error)

    async with TestKit(tree(script)) as kit:
        await kit.send(ONE, Note())
        assert len(seen) == 1
        assert await notes(kit, ONE) == [""]


# --- generations: what was cancelled is not handled ------------------------------------------------------------------


async def queued_behind(kit: TestKit, *texts: str) -> None:
    """Have the message of a timer wait in the mailbox behind these notes."""
    await kit.send(ONE, Note("set k 5"))
    await kit.client.send(ONE, Pause(), lane=Lane.SYSTEM)
    await send_all(kit, ONE, list(texts))
    await kit.advance(seconds=6)
    (*_, last) = [view.envelope for view in await kit.store.peek(ONE)]
    assert last.sender == "/sys/clock" and last.correlation > 0


async def resume(kit: TestKit) -> None:
    await kit.client.send(ONE, Resume(), lane=Lane.SYSTEM)
    await kit.settle()


async def clock_turns(kit: TestKit) -> list[str]:
    """The outcomes of an actor's turns for timers' messages."""
    return [turn.outcome for turn in await kit.store.turns(ONE) if turn.sender == "/sys/clock"]


async def test_field_14_a_timer_that_is_cancelled_while_its_message_is_queued_is_not_handled() -> None:
    clock = Clock()
    async with TestKit(tree(clock)) as kit:
        await queued_behind(kit, "cancel k", "other")
        await resume(kit)
        assert [text for text, _ in clock.fired] == ["other"]
        assert await clock_turns(kit) == ["refused"]
        assert await kit.store.dead_letters() == []
        assert kit.store.tables.messages == {}


async def test_field_14_nor_one_that_was_set_anew() -> None:
    clock = Clock()
    async with TestKit(tree(clock)) as kit:
        await queued_behind(kit, "set k 30")
        await resume(kit)
        assert clock.fired == []
        await kit.advance(seconds=31)
        assert [text for text, _ in clock.fired] == ["k 30"]
        assert await clock_turns(kit) == ["refused", "done"]


async def test_field_14_cancelled_and_set_anew_in_the_batch_of_its_message() -> None:
    clock = Clock()
    async with TestKit(tree(clock)) as kit:
        await queued_behind(kit, "cancel k", "set k 30", "cancel k", "set k 40")
        await resume(kit)
        assert clock.fired == []
        await kit.advance(seconds=60)
        assert [text for text, _ in clock.fired] == ["k 40"]


async def test_field_14_a_crash_between_the_cancel_and_its_message_does_not_bring_it_back() -> None:
    clock = Clock()
    async with TestKit(tree(clock), nodes=2, settings=SETTINGS) as kit:
        await kit.advance(seconds=2)
        await queued_behind(kit, "cancel k")
        owner = next(node for node in kit.nodes if ONE in [*addresses_of(kit, node)])
        await kit.client.send(ONE, Resume(), lane=Lane.SYSTEM)
        await kit.crash(owner)
        await kit.advance(seconds=10)
        assert clock.fired == []
        assert await clock_turns(kit) == ["refused"]


def addresses_of(kit: TestKit, node: Any) -> list[str]:
    """`ONE`, if this node owns it."""
    return [ONE] if kit.store.cluster.owners.get(shard_of(ONE)) == kit.session(node).number else []


async def test_a_timer_of_before_the_bonds_is_handled() -> None:
    clock = Clock()
    async with TestKit(tree(clock)) as kit:
        await kit.send(ONE, Note("set new 3"))
        await kit.send(ONE, Note("loose old 5"))
        row = await kit.row(ONE)
        assert row is not None and "old" not in row.bonds
        await kit.advance(seconds=6)
        assert [text for text, _ in clock.fired] == ["new 3", "old"]
        assert await clock_turns(kit) == ["done", "done"]


async def test_a_loose_timer_can_be_cancelled_until_it_has_fired_and_takes_the_place_of_another() -> None:
    clock = Clock()
    async with TestKit(tree(clock)) as kit:
        for text in ("loose k 5", "cancel k", "set k 3", "loose k 6"):
            await kit.send(ONE, Note(text))
        row = await kit.row(ONE)
        assert row is not None and row.bonds == '{"drawn":1}'
        await kit.advance(seconds=10)
        assert [text for text, _ in clock.fired] == ["k"]


async def test_a_failing_handler_does_not_use_a_timer_up() -> None:
    failures = 0

    def script(probe: Probe, note: Note, ctx: Context) -> None:
        nonlocal failures
        if note.text == "set":
            ctx.schedule("k", 1, Note("fired"))
        elif failures < 3:
            failures += 1
            raise RuntimeError("not yet")

    async with TestKit(tree(script)) as kit:
        await kit.send(ONE, Note("set"))
        await kit.advance(seconds=60)
        assert (failures, await notes(kit, ONE)) == (3, ["set", "fired"])
        row = await kit.row(ONE)
        assert row is not None and row.bonds == '{"drawn":1}'


async def test_the_ticks_of_an_actor_that_stands_still_are_one_when_it_goes_on() -> None:
    clock = Clock()
    async with TestKit(tree(clock)) as kit:
        start = kit.port.elapsed
        await kit.send(ONE, Note("every k 2"))
        await kit.client.send(ONE, Pause(), lane=Lane.SYSTEM)
        await kit.advance(seconds=100)
        assert len(await kit.store.peek(ONE)) <= 1
        await resume(kit)
        await kit.advance(seconds=5)
        assert len(clock.fired) <= 4
        assert len(clock.fired) + sum(clock.missed) == int((kit.port.elapsed - start) / 2)


async def test_a_tick_does_not_queue_up_behind_one_that_waits() -> None:
    clock = Clock()
    busy = anyio.Event()

    async def script(probe: Probe, note: Note, ctx: Context) -> None:
        clock(probe, note, ctx)
        if note.text == "busy":
            await busy.wait()

    async with TestKit(tree(script)) as kit:
        start = kit.port.elapsed
        await kit.send(ONE, Note("every k 2"))
        await kit.send(ONE, Note("busy"))
        await kit.advance(seconds=61)
        assert len(await kit.store.peek(ONE)) == 2, "the message in hand, and one tick"
        busy.set()
        await kit.advance(seconds=3)
        ticks = [text for text, _ in clock.fired if text == "k"]
        assert len(ticks) <= 4
        assert len(ticks) + sum(clock.missed) == int((kit.port.elapsed - start) / 2)


async def test_jitter_moves_the_beat_by_a_tenth_of_the_period_at_most() -> None:
    clock = Clock()
    async with TestKit(tree(clock)) as kit:
        start = kit.port.elapsed
        kit.port.random = lambda: 0.0  # type: ignore[method-assign]
        await kit.send("/t/p:early", Note("jitter early 100"))
        kit.port.random = lambda: 1.0  # type: ignore[method-assign]
        await kit.send("/t/p:late", Note("jitter late 100"))
        kit.port.random = lambda: 0.5  # type: ignore[method-assign]
        await kit.advance(seconds=320)
        assert [at - start for text, at in clock.fired if text == "early"] == pytest.approx([90, 190, 290])
        assert [at - start for text, at in clock.fired if text == "late"] == pytest.approx([110, 210, 310])


async def test_an_actor_has_a_thousand_timers_and_none_of_the_runtimes_keys() -> None:
    seen: list[str] = []

    def script(_probe: Probe, note: Note, ctx: Context) -> None:
        if note.text == "fired":
            return
        for n in range(TIMER_LIMIT):
            ctx.schedule(str(n), 5, Note("fired"), every=5 if n % 2 else 0)
        ctx.schedule("7", 5, Note("fired"))
        with pytest.raises(UsageError, match="1,000 timers already"):
            ctx.schedule("one more", 5, Note())
        for key in ("sys:k", "sys:"):
            with pytest.raises(UsageError, match="are the runtime's"):
                ctx.schedule(key, 5, Note())
            with pytest.raises(UsageError, match="are the runtime's"):
                ctx.cancel_timer(key)
        with pytest.raises(UsageError, match="jitter is for periods of 60 s or more"):
            ctx.schedule("k", 5, Note(), every=59, jitter=True)
        ctx.schedule("loose", 5, Note("fired"), loose=True)
        ctx.cancel_timer("0")
        ctx.schedule("one more", 5, Note("fired"))
        for n in range(TIMER_LIMIT):
            ctx.cancel_timer(str(n))
        seen.append("all of it")

    async with TestKit(tree(script)) as kit:
        await kit.send(ONE, Note("go"))
        assert seen == ["all of it"]
        await kit.advance(seconds=11)
        assert await notes(kit, ONE) == ["go", "fired", "fired"]


async def test_the_timers_of_an_actor_that_has_ended_are_gone() -> None:
    def script(_probe: Probe, note: Note, ctx: Context) -> None:
        if note.text == "end":
            ctx.stop()
        else:
            ctx.schedule("once", 5, Note("fired"))
            ctx.schedule("often", 5, Note("fired"), every=5)

    async with TestKit(tree(script)) as kit:
        await kit.send(ONE, Note("go"))
        await kit.client.send(ONE, Pause(), lane=Lane.SYSTEM)
        await send_all(kit, ONE, ["end"])
        await kit.advance(seconds=6)
        await resume(kit)
        await kit.advance(seconds=20)
        assert kit.store.tables.timers == {}
        assert await clock_turns(kit) == ["refused"]
        assert await kit.store.dead_letters() == []
