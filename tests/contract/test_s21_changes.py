"""S21: who listens hears of what is rare, and nothing of what is ordinary."""

import pytest

from callboard.persistence.operating import AuditEntry
from callboard.persistence.rows import TakeBack
from callboard.persistence.store import Session, Store
from callboard.persistence.unit import Move
from callboard.persistence.whispers import Hearing
from tests.contract.build import AGENT, DESK, call, dead, decision, message, turn, unit, verdict, work, write
from tests.contract.world import World

pytestmark = pytest.mark.anyio

SAID_SECONDS = 60.0
"""How long what was said may take at most, on a machine with much else to do."""
QUIET_SECONDS = 0.1


async def heard(ear: Hearing, world: World, store: Store, node: Session) -> set[str]:
    """All that was said until now: up to a mark that is said after it."""
    mark = decision(f"mark-{message().id}")
    await write(node, work(decisions=[mark]))
    found: set[str] = set()
    while (one := await ear.next(SAID_SECONDS, world.port)) is not None:
        if one == f"decision {mark.id}":
            return found
        found.add(one)
    raise AssertionError("the mark was not heard")


async def quiet(ear: Hearing, world: World) -> None:
    """Wait until nothing was said for longer than a store may keep back what comes in floods."""
    assert await ear.next(QUIET_SECONDS, world.port) is None


async def test_s21_what_happens_to_a_decision_is_heard(world: World, store: Store, node: Session) -> None:
    async with store.changes() as ear:
        held = call()
        await write(node, work(holds=[held], decisions=[decision("d1", held.id), decision("d2", needed=2)]))
        assert await heard(ear, world, store, node) == {"decision d1", "decision d2"}
        decided = await store.decide(verdict("d1", hold_seconds=60.0), message(DESK))
        assert await heard(ear, world, store, node) == {"decision d1"}
        await store.take_back(TakeBack("d1", decided.hold_id, "ann"), message(DESK))
        assert await heard(ear, world, store, node) == {"decision d1"}
        await store.decide(verdict("d2"), message(DESK))
        assert await heard(ear, world, store, node) == {"decision d2"}, "one of two has approved"
        await store.decide(verdict("d1"), message(DESK))
        await heard(ear, world, store, node)
        await write(node, work(releases=[held.id], moves=[Move("d1", "approved", "released")]))
        assert await heard(ear, world, store, node) == {"decision d1"}
        await write(node, work(moves=[Move("d2", "pending", "expired")]))
        assert await heard(ear, world, store, node) == {"decision d2"}


async def test_s21_dead_letters_are_heard_when_they_come_and_when_they_are_settled(
    world: World, store: Store, node: Session
) -> None:
    gone = message()
    await write(node, work(sends=[gone]))
    async with store.changes() as ear:
        await write(node, work(acks=[gone.id], turns=[turn(gone, 0, "dead")], dead=[dead(gone), dead(gone)]))
        numbers = {letter.number for letter in await store.dead_letters()}
        assert await heard(ear, world, store, node) == {f"dead {number}" for number in numbers}
        first, second = sorted(numbers)
        await quiet(ear, world)
        await store.discard(first, AuditEntry("ann", "discard", f"dead-letter:{first}"))
        assert await heard(ear, world, store, node) == {f"dead {first}"}
        await quiet(ear, world)
        await store.requeue(second, message(), AuditEntry("ann", "requeue", f"dead-letter:{second}"))
        assert await heard(ear, world, store, node) == {f"dead {second}"}


async def test_s21_a_status_is_heard_when_it_changes_and_only_then(world: World, store: Store, node: Session) -> None:
    await write(node, unit())
    async with store.changes() as ear:
        for version, status, says in ((1, "parked", True), (2, "parked", False), (3, "active", True)):
            await quiet(ear, world)
            one = unit(expected=version)
            assert one.actor is not None
            one.actor.status = status  # type: ignore[assignment]
            await write(node, one)
            assert await heard(ear, world, store, node) == ({f"actor {AGENT}"} if says else set())


async def test_s21_an_ordinary_turn_says_nothing(world: World, store: Store, node: Session) -> None:
    first, second = message(), message()
    async with store.changes() as ear:
        await write(node, unit(sends=[first, second]))
        for version, envelope in ((1, first), (2, second)):
            await write(node, unit(expected=version, acks=[envelope.id], turns=[turn(envelope, version + 1)]))
        await store.send([message()])
        assert await heard(ear, world, store, node) == set()


async def test_s21_what_was_refused_is_not_heard(world: World, store: Store, node: Session) -> None:
    await write(node, unit())
    async with store.changes() as ear:
        stale = unit(expected=7, decisions=[decision("never")])
        assert stale.actor is not None
        stale.actor.status = "failed"
        assert set((await node.commit([stale])).rejected) == {0}
        assert await heard(ear, world, store, node) == set()


async def test_s21_nodes_are_heard_joining_draining_and_leaving(world: World, store: Store, node: Session) -> None:
    async with store.changes() as ear:
        async with world.join("boot-2") as other:
            said = f"node {other.number}"
            assert await heard(ear, world, store, node) == {said}
            await other.draining()
            assert await heard(ear, world, store, node) == {said}
        assert await heard(ear, world, store, node) == {said}


async def test_s21_a_node_that_is_taken_over_is_heard(world: World, store: Store, node: Session) -> None:
    async with world.join("boot-2") as other:
        await other.claim()
        async with store.changes() as ear:
            await world.crash(other)
            [member] = [one for one in await node.members() if one.number == other.number]
            while not await node.take_over(member, by="lock") and (await store.alarms()).members[1:]:
                pass
            assert f"node {other.number}" in await heard(ear, world, store, node)


async def test_s21_all_who_listen_hear_the_same_and_nobody_after_that(
    world: World, store: Store, node: Session
) -> None:
    async with store.changes() as one, store.changes() as other:
        await write(node, work(decisions=[decision("d1")]))
        assert await heard(one, world, store, node) == {"decision d1"}
        assert await other.next(SAID_SECONDS, world.port) == "decision d1"
    await write(node, work(decisions=[decision("d2")]))
    async with store.changes() as late:
        assert await heard(late, world, store, node) == set()
