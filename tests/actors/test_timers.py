"""Timers fire once, not early, without drift, whoever owns their actor; a cancelled or replaced one never does."""

from typing import Any

import pytest

from callboard.actors.context import Context
from callboard.actors.testing import TestKit
from callboard.mailbox.errors import UsageError
from callboard.persistence.unit import Unit
from tests.actors.world import SETTINGS, Note, Probe, address_of, notes, send_all, spy_on_commits, tree

pytestmark = pytest.mark.anyio

ONE = "/t/p:1"


class Clock:
    """A script that sets timers as it is told, and notes when each fired."""

    def __init__(self) -> None:
        self.fired: list[tuple[str, float]] = []

    def __call__(self, _probe: Probe, note: Note, ctx: Context) -> None:
        match note.text.split():
            case ["set", key, seconds]:
                ctx.schedule(key, float(seconds), Note(f"{key} {seconds}"))
            case ["every", key, seconds]:
                ctx.schedule(key, float(seconds), Note(key), every=float(seconds))
            case ["cancel", key]:
                ctx.cancel_timer(key)
            case _:
                self.fired.append((note.text, ctx.port.monotonic()))

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
        clock.fired.clear()
        kit.store.down = True
        await kit.advance(seconds=20)
        kit.store.down = False
        await kit.advance(seconds=5)
        ticks = [(at - start) / 0.7 for _, at in clock.fired]
        assert len(ticks) < 10, "the missed ticks are one"
        assert ticks[1:] == pytest.approx([round(tick) for tick in ticks[1:]]), "and the others on their beat"
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
