"""S8: a timer's fire happens once a generation and due time; what a turn cancelled does not fire."""

import anyio
import pytest

from callboard.persistence.rows import Timer
from callboard.persistence.store import Session
from callboard.persistence.unit import Fire
from tests.contract.build import AGENT, OTHER, SHARD, message, refused, timer, unit, waiting, work, write
from tests.contract.world import World

pytestmark = pytest.mark.anyio

FAR = "/crm/ticket:77"
SLACK_SECONDS = 60.0
"""How long a test may take by itself, in which periods are ten times as long."""


async def due(node: Session, within_seconds: float = 0.0, limit: int = 100) -> list[Timer]:
    return await node.due(range(256), within_seconds=within_seconds, limit=limit)


def fire(key: str = "sla", generation: int = 1, address: str = AGENT, periods: int = 1) -> Fire:
    return Fire(address, key, generation, periods)


async def test_s8_a_timer_is_read_as_it_was_set(node: Session) -> None:
    await write(node, unit(timers=[timer(delay_seconds=300.0, generation=7, lane=0, period_seconds=9.0)]))
    assert await due(node, 100.0) == []
    (found,) = await due(node, 310.0)
    assert 0 < found.delay_seconds <= 300
    assert found == timer(delay_seconds=found.delay_seconds, generation=7, lane=0, period_seconds=9.0)


async def test_s8_timers_are_due_soonest_first_within_a_bound(world: World, node: Session) -> None:
    await write(
        node,
        unit(timers=[timer("c", 3_000.0), timer("a", 1_000.0)]),
        unit(FAR, timers=[timer("b", 2_000.0, address=FAR)]),
    )
    assert [t.key for t in await due(node, 10_000.0)] == ["a", "b", "c"]
    assert [t.key for t in await due(node, 2_500.0)] == ["a", "b"]
    assert [t.key for t in await due(node, 10_000.0, limit=2)] == ["a", "b"]
    assert [t.key for t in await node.due([SHARD], within_seconds=10_000.0, limit=9)] == ["a", "c"]
    await world.pass_time(1_500)
    (overdue,) = await due(node)
    assert -600 < overdue.delay_seconds < -400


async def test_s8_a_timer_fires_once(node: Session) -> None:
    await write(node, unit(timers=[timer()]))
    await write(node, work(fires=[fire()], sends=[message()]))
    assert await refused(node, work(fires=[fire()], sends=[message()])) == {0}
    assert len(await waiting(node)) == 1
    assert await due(node, 1e6) == []


async def test_s8_of_two_fires_at_once_one_happens(world: World, node: Session) -> None:
    async with world.join("boot-2") as rival:
        refusals: list[int] = []

        async def attempt(session: Session) -> None:
            refusals.extend((await session.commit([work(fires=[fire()], sends=[message()])])).rejected)

        for expected in range(5):
            await write(node, unit(expected=expected, timers=[timer()]))
            async with anyio.create_task_group() as group:
                group.start_soon(attempt, node)
                group.start_soon(attempt, rival)
        assert len(refusals) == 5
        assert len(await waiting(node)) == 5


async def test_s8_two_units_of_a_batch_cannot_both_fire_a_timer(node: Session) -> None:
    await write(node, unit(timers=[timer()]))
    batch = [work(fires=[fire()], sends=[message()]) for _ in range(2)]
    assert len(await refused(node, *batch)) == 1
    assert len(await waiting(node)) == 1


async def test_s8_what_was_cancelled_does_not_fire(node: Session) -> None:
    await write(node, unit(timers=[timer("sla"), timer("other")]), unit(OTHER, timers=[timer("sla", address=OTHER)]))
    await write(node, unit(expected=1, timers_cancelled=["sla", "never-set"]))
    assert await refused(node, work(fires=[fire()], sends=[message()])) == {0}
    assert await waiting(node) == []
    assert sorted((t.address, t.key) for t in await due(node)) == [(AGENT, "other"), (OTHER, "sla")]


async def test_s8_what_was_set_anew_fires_only_as_the_new_one(node: Session) -> None:
    await write(node, unit(timers=[timer(generation=1)]))
    await write(node, unit(expected=1, timers=[timer(generation=2, body='{"type":"new"}')]))
    assert await refused(node, work(fires=[fire(generation=1)])) == {0}
    (found,) = await due(node)
    assert (found.generation, found.body) == (2, '{"type":"new"}')
    await write(node, work(fires=[fire(generation=2)]))


@pytest.mark.parametrize("fire_first", [True, False])
async def test_s8_a_timer_fired_and_set_anew_in_one_batch_has_fired_and_is_set(node: Session, fire_first: bool) -> None:
    await write(node, unit(timers=[timer(generation=1)]))
    fired = work(fires=[fire(generation=1)], sends=[message()])
    anew = unit(expected=1, timers=[timer(delay_seconds=600.0, generation=2)])
    await write(node, *((fired, anew) if fire_first else (anew, fired)))
    (found,) = await due(node, 1_000.0)
    assert found.generation == 2
    assert 500 < found.delay_seconds <= 600
    assert len(await waiting(node)) == 1


async def test_s8_a_fire_and_its_message_are_one(node: Session) -> None:
    await write(node, unit(timers=[timer()]))
    assert await refused(node, work(fires=[fire()], acks=[404], sends=[message()])) == {0}
    assert len(await due(node)) == 1
    assert await waiting(node) == []


async def test_s8_a_periodic_timer_stays_on_its_beat(world: World, node: Session) -> None:
    await write(node, unit(timers=[timer(delay_seconds=600.0, period_seconds=600.0)]))
    for _ in range(3):
        await world.pass_time(750)  # late by some minutes each time, never by a whole period
        (found,) = await due(node)
        late = -found.delay_seconds
        assert late > 0
        await write(node, work(fires=[fire()], sends=[message()]))
        (found,) = await due(node, 1e6)
        assert found.delay_seconds == pytest.approx(600.0 - late, abs=SLACK_SECONDS)
        await world.pass_time(-150)
    assert len(await waiting(node)) == 3


async def test_s8_a_periodic_timer_fires_once_for_each_due_time(world: World, node: Session) -> None:
    await write(node, unit(timers=[timer(period_seconds=60.0)]))
    await write(node, work(fires=[fire()], sends=[message()]))
    assert await refused(node, work(fires=[fire()], sends=[message()])) == {0}, "the next is due in a minute"
    await world.pass_time(61)
    await write(node, work(fires=[fire()], sends=[message()]))
    assert len(await waiting(node)) == 2


async def test_s8_missed_periods_fold_into_one_fire(world: World, node: Session) -> None:
    await write(node, unit(timers=[timer(delay_seconds=600.0, period_seconds=600.0)]))
    await world.pass_time(600 * 5 + 300)
    (found,) = await due(node)
    assert found.delay_seconds == pytest.approx(-2_700.0, abs=SLACK_SECONDS)
    await write(node, work(fires=[fire(periods=5)], sends=[message()]))
    assert await due(node) == []
    (found,) = await due(node, 1e6)
    assert found.delay_seconds == pytest.approx(300.0, abs=SLACK_SECONDS), "still on the beat of the first"


async def test_s8_a_fire_advances_by_the_periods_it_names_and_no_more(world: World, node: Session) -> None:
    await write(node, unit(timers=[timer(delay_seconds=600.0, period_seconds=600.0)]))
    await world.pass_time(600 * 5 + 300)
    assert await refused(node, work(fires=[fire(periods=6)])) == {0}, "the sixth is not due yet"
    await write(node, work(fires=[fire(periods=2)]))
    (found,) = await due(node)
    assert found.delay_seconds == pytest.approx(-1_500.0, abs=SLACK_SECONDS)
    await write(node, work(fires=[fire(periods=1)]))
    await write(node, work(fires=[fire(periods=2)]))
    assert await refused(node, work(fires=[fire()])) == {0}, "fires and what they folded are what has elapsed"


@pytest.mark.parametrize(("period_seconds", "periods"), [(60.0, 0), (60.0, -1), (0.0, 2), (0.0, 0), (60.0, 2**62)])
async def test_s8_a_fire_of_impossible_periods_is_refused(node: Session, period_seconds: float, periods: int) -> None:
    await write(node, unit(timers=[timer(period_seconds=period_seconds)]))
    assert await refused(node, work(fires=[fire(periods=periods)])) == {0}
    assert len(await due(node)) == 1


async def test_s8_timers_outlive_their_node(world: World, node: Session) -> None:
    await write(node, unit(timers=[timer()]))
    await node.leave()
    async with world.join("boot-2") as heir:
        assert [t.key for t in await due(heir)] == ["sla"]
        await write(heir, work(fires=[fire()], sends=[message()]))
