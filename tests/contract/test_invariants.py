"""The invariants I1 to I14 on both stores: quiet on a life as it should be, and each one able to speak.

The stores check what a commit needs, not what it means; so a unit that no engine would write breaks most of them.
"""

from collections.abc import Awaitable, Callable

import pytest

from callboard.mailbox.address import CLIENT_PREFIX
from callboard.mailbox.lane import Lane
from callboard.persistence.rows import ActorRow, EventRow, TurnRow
from callboard.persistence.store import Session, Store
from callboard.persistence.unit import Fire, Move, Unit
from tests.contract.build import (
    AGENT,
    DESK,
    OTHER,
    SHARD,
    TOOL,
    actor,
    call,
    dead,
    decision,
    event,
    message,
    retry,
    timer,
    turn,
    unit,
    verdict,
    work,
    write,
)
from tests.contract.world import World

pytestmark = pytest.mark.anyio

SENDER = "/desk/sender:1"
SUPERVISOR = "/desk"


def of(node: Session, row: TurnRow) -> TurnRow:
    row.node = node.number
    return row


async def live(world: World, store: Store, node: Session) -> None:
    """A life as it should be: sent, stashed, handled, retried, given up, gated, asked, ticked, ended."""
    first, second, third = (message(sender_seq=n) for n in (1, 2, 3))
    ask = message(OTHER, sender=AGENT, sender_seq=1, reply_to=AGENT, causation=first.id)
    gated = call(sender=AGENT, sender_seq=2, causation=first.id)
    await write(node, Unit(SHARD, actor(SENDER, sent=3), sends=[first, second, third]))
    bonds = f'{{"asks":{{"{ask.id}":{{"target":"{OTHER}","deadline":1.0}}}},"tickers":{{"beat":5}}}}'
    began = unit(
        acks=[first.id], turns=[of(node, turn(first))], sends=[ask], holds=[gated], events=[event(1)],
        decisions=[decision(message_id=gated.id)],
        timers=[timer(f"sys:ask:{ask.id}", 60.0), timer("beat", 0.0, generation=5, period_seconds=60.0)],
    )  # fmt: skip
    began.actor = actor(sent=2, events=1, bonds=bonds)
    await write(node, began)
    await write(node, _next(began, stashes=[second.id], turns=[of(node, turn(second, 2, "stashed"))]))
    await write(node, work(retries=[retry(third)]), work(fires=[Fire(AGENT, "beat", 5)], sends=[message(sender="")]))
    await write(node, _next(began, unstash=True, acks=[third.id], turns=[turn(third, 3)]))
    await write(node, _next(began, acks=[second.id], turns=[turn(second, 4)]))
    reply = message(sender=OTHER, sender_seq=1, lane=int(Lane.REPLY), causation=ask.id, correlation=ask.id)
    asked = unit(OTHER, acks=[ask.id], turns=[turn(ask)], sends=[reply])
    asked.actor = actor(OTHER, sent=1, status="completed")
    await write(node, asked)
    await store.decide(verdict(), message(DESK))
    await write(node, work(releases=[gated.id], moves=[Move("d1", "approved", "released")]))
    await write(node, work(acks=[gated.id], turns=[turn(gated, 0)], sends=[message(sender=TOOL, causation=gated.id)]))
    ends = _next(began, acks=[reply.id], turns=[turn(reply, 5)])
    assert ends.actor is not None
    ends.actor.bonds = ""
    await write(node, ends)
    poison, dropped = message(), call()
    await write(node, work(sends=[poison], holds=[dropped]))
    await write(node, work(acks=[poison.id], turns=[turn(poison, 5, "dead")], dead=[dead(poison)]))
    await write(node, work(drops=[dropped.id], dead=[dead(dropped)]))


def _next(before: Unit, **rows: object) -> Unit:
    """The next turn of the actor of `before`, whose row goes on."""
    row = before.actor
    assert row is not None
    expected = row.version
    row.version += 1
    return Unit(SHARD, row, expected, **rows)  # type: ignore[arg-type]


async def test_a_life_as_it_should_be_breaks_no_invariant(world: World, store: Store, node: Session) -> None:
    await live(world, store, node)
    assert await world.violations() == []
    await node.leave()
    assert await world.violations() == []


Break = Callable[[World, Store, Session], Awaitable[None]]


async def _handled_and_waiting(_w: World, _s: Store, node: Session) -> None:
    only = message()
    await write(node, work(sends=[only]), work(turns=[turn(only, 0)]))


async def _ended_twice(_w: World, _s: Store, node: Session) -> None:
    only = message()
    await write(node, work(turns=[turn(only, 0, "cancelled"), turn(only, 7, "refused")]))


async def _dead_and_done(_w: World, _s: Store, node: Session) -> None:
    only = message()
    await write(node, work(turns=[turn(only, 0)], dead=[dead(only)]))


async def _dead_and_waiting(_w: World, _s: Store, node: Session) -> None:
    only = message()
    await write(node, work(sends=[only], dead=[dead(only)]))


async def _given_up_for_nothing(_w: World, _s: Store, node: Session) -> None:
    await write(node, work(turns=[turn(message(), 0, "dead")]))


async def _lost(_w: World, _s: Store, node: Session) -> None:
    await write(node, Unit(SHARD, actor(sent=2), sends=[message(sender=AGENT, sender_seq=2)]))


async def _version_made_twice(_w: World, _s: Store, node: Session) -> None:
    await write(node, unit(turns=[turn(message()), turn(message())]))


async def _version_not_written(_w: World, _s: Store, node: Session) -> None:
    await write(node, unit(turns=[turn(message()), turn(message(), 2)]))


async def _overtaken(_w: World, _s: Store, node: Session) -> None:
    one, two = message(sender_seq=1), message(sender_seq=2)
    await write(node, Unit(SHARD, actor(version=2), turns=[turn(two), turn(one, 2)]))


async def _repeated(_w: World, _s: Store, node: Session) -> None:
    one, two = message(sender_seq=1), message(sender_seq=1)
    await write(node, Unit(SHARD, actor(version=2), turns=[turn(one), turn(two, 2)]))


async def _written_after_the_end(world: World, _s: Store, node: Session) -> None:
    await write(node, work(turns=[of(node, turn(message(), 0))]))
    await node.leave()
    await world.end_earlier(node)


async def _caused_by_nothing(_w: World, _s: Store, node: Session) -> None:
    await write(node, work(sends=[message(causation=404)]))


async def _handled_though_caused_by_nothing(_w: World, _s: Store, node: Session) -> None:
    await write(node, unit(turns=[turn(message(causation=404))]))


async def _asked_for_ever(_w: World, _s: Store, node: Session) -> None:
    await write(node, Unit(SHARD, actor(bonds='{"asks":{"77":{"target":"/x","deadline":1.0}}}')))


async def _answered_twice(_w: World, _s: Store, node: Session) -> None:
    ask = message(OTHER, sender=AGENT)
    replies = [message(sender=OTHER, lane=int(Lane.REPLY), causation=ask.id) for _ in range(2)]
    await write(
        node,
        unit(OTHER, turns=[turn(ask)]),
        Unit(SHARD, actor(version=2), turns=[turn(reply, n) for n, reply in enumerate(replies, 1)]),
    )


async def _ran_without_a_release(_w: World, _s: Store, node: Session) -> None:
    gated = call()
    await write(node, unit(holds=[gated], decisions=[decision(message_id=gated.id)]))
    await write(node, work(releases=[gated.id]))
    await write(node, work(acks=[gated.id], turns=[turn(gated, 0)]))


async def _free_without_a_release(_w: World, store: Store, node: Session) -> None:
    gated = call()
    await write(node, unit(holds=[gated], decisions=[decision(message_id=gated.id)]))
    await store.decide(verdict(status="denied"), message(DESK))
    await write(node, work(releases=[gated.id]))


async def _called_twice(_w: World, _s: Store, node: Session) -> None:
    made = call()
    again = turn(made, 0)
    again.shard = (SHARD + 1) % 256
    await write(node, work(turns=[turn(made, 0), again]))


def _orphan(status: str) -> Break:
    async def bereave(_w: World, _s: Store, node: Session) -> None:
        parent = ActorRow(1, SUPERVISOR, "supervisor", 1, status=status, reason="too many")  # type: ignore[arg-type]
        await write(node, Unit(1, parent), unit("/desk/agent"))

    return bereave


async def _turned_after_the_end(_w: World, _s: Store, node: Session) -> None:
    await write(node, Unit(SHARD, actor(status="completed"), turns=[turn(message()), turn(message(), 2)]))


async def _ticker_not_set(_w: World, _s: Store, node: Session) -> None:
    await write(node, Unit(SHARD, actor(bonds='{"tickers":{"beat":5}}')))


async def _ticker_of_another_generation(_w: World, _s: Store, node: Session) -> None:
    beat = timer("beat", 60.0, generation=4, period_seconds=60.0)
    await write(node, Unit(SHARD, actor(bonds='{"tickers":{"beat":5}}'), timers=[beat]))


async def _mute(_w: World, _s: Store, node: Session) -> None:
    await write(node, Unit(SHARD, actor(status="parked")))


async def _unserved(world: World, store: Store, node: Session) -> None:
    await write(node, unit(sends=[message()]))
    await node.give([SHARD], None)


async def _events_missing(_w: World, _s: Store, node: Session) -> None:
    await write(node, Unit(SHARD, actor(events=2), events=[event(1)]))


def _lived(seq: int, what: str, incarnation: int) -> EventRow:
    body = f'{{"child":"agent","incarnation":{incarnation},"reason":""}}'
    return event(seq, type=f"sys.supervision.{what}", body=body)


async def _started_while_it_was_up(_w: World, _s: Store, node: Session) -> None:
    events = [_lived(1, "child_started", 1), _lived(2, "child_started", 2)]
    await write(node, Unit(SHARD, actor(events=2), events=events))


async def _started_as_it_was_before(_w: World, _s: Store, node: Session) -> None:
    events = [_lived(1, "child_started", 1), _lived(2, "child_terminated", 1), _lived(3, "child_started", 1)]
    await write(node, Unit(SHARD, actor(events=3), events=events))


BREAKS: list[tuple[str, Break]] = [
    ("I1", _handled_and_waiting),
    ("I1", _ended_twice),
    ("I1", _dead_and_done),
    ("I1", _dead_and_waiting),
    ("I1", _given_up_for_nothing),
    ("I1", _lost),
    ("I2", _version_made_twice),
    ("I2", _version_not_written),
    ("I3", _overtaken),
    ("I3", _repeated),
    ("I4", _written_after_the_end),
    ("I5", _caused_by_nothing),
    ("I5", _handled_though_caused_by_nothing),
    ("I6", _asked_for_ever),
    ("I6", _answered_twice),
    ("I7", _ran_without_a_release),
    ("I7", _free_without_a_release),
    ("I8", _called_twice),
    *[("I9", _orphan(status)) for status in ("stopped", "parked", "escalated", "completed")],
    ("I10", _turned_after_the_end),
    ("I11", _ticker_not_set),
    ("I11", _ticker_of_another_generation),
    ("I13", _mute),
    ("I13", _unserved),
    ("I14", _started_while_it_was_up),
    ("I14", _started_as_it_was_before),
    ("S9", _events_missing),
]


@pytest.mark.parametrize(("number", "spoil"), BREAKS, ids=[f"{number}{spoil.__name__}" for number, spoil in BREAKS])
async def test_an_invariant_speaks_when_it_is_broken(
    world: World, store: Store, node: Session, number: str, spoil: Break
) -> None:
    await spoil(world, store, node)
    found = await world.violations()
    assert found
    assert {text.partition(" ")[0] for text in found} == {number}, found


async def test_i1_an_answer_that_an_asker_outside_has_taken_is_not_lost(world: World, node: Session) -> None:
    asked = message(sender="")
    asker = f"{CLIENT_PREFIX}1024-x"
    answer = message(asker, sender=AGENT, lane=int(Lane.REPLY), sender_seq=1, causation=asked.id)
    await write(node, work(sends=[asked]))
    await write(node, Unit(SHARD, actor(sent=1), acks=[asked.id], turns=[turn(asked)], sends=[answer]))
    assert await world.violations() == []
    assert [one.id for one in await world.store.receive(asker, seconds=0, port=world.port)] == [answer.id]
    assert [(one.id, one.outcome) for one in await world.store.turns(asker)] == [(answer.id, "done")]
    assert await world.violations() == []


async def test_i4_what_a_node_wrote_before_it_was_taken_over_was_its_own(world: World, node: Session) -> None:
    async with world.join("boot-2") as other:
        await node.give([SHARD], other.number)
        asked = message()
        await write(other, work(sends=[asked]))
        await write(other, Unit(SHARD, actor(), acks=[asked.id], turns=[of(other, turn(asked))]))
        await world.crash(other)
        [gone] = [member for member in await node.members() if member.number == other.number]
        assert await node.take_over(gone, by="lock") == {SHARD}
        assert await world.violations() == []


async def test_i14_a_child_is_started_again_after_it_was_down(world: World, node: Session) -> None:
    lives = [("child_started", 1), ("child_terminated", 1), ("child_started", 2), ("ended", 0), ("child_started", 3)]
    events = [_lived(seq, what, incarnation) for seq, (what, incarnation) in enumerate(lives, 1)]
    events[3].body = '{"incarnation":1,"how":"stopped","reason":""}'
    await write(node, Unit(SHARD, actor(events=5), events=events))
    assert await world.violations() == []


async def test_i14_a_child_that_is_up_and_told_of_again_was_not_started_twice(world: World, node: Session) -> None:
    await write(
        node, Unit(SHARD, actor(events=2), events=[_lived(1, "child_started", 1), _lived(2, "child_started", 1)])
    )
    assert await world.violations() == []


async def test_i2_who_failed_or_was_parked_has_a_version_without_a_turn(world: World, node: Session) -> None:
    await write(node, Unit(SHARD, actor(version=4), turns=[turn(message()), turn(message(), 3)]))
    assert await world.violations() == []


async def test_i12_failures_are_counted_waiting_or_dead(world: World, node: Session) -> None:
    waits, given_up = message(), message(failures=5)
    await write(node, work(sends=[waits, given_up]))
    await write(node, work(retries=[retry(waits, failures=2)]))
    await write(node, work(acks=[given_up.id], turns=[turn(given_up, 0, "dead")], dead=[dead(given_up)]))
    assert await world.charges() == 7


async def test_i10_who_has_ended_is_seen_in_two_looks(world: World, node: Session) -> None:
    await write(node, Unit(SHARD, actor(status="completed")), unit(OTHER))
    before = await world.ended()
    assert before == {AGENT: (1, 1)}
    await write(node, unit(OTHER, expected=1))
    assert await world.ended() == before
    await write(node, Unit(SHARD, actor(version=2, status="completed"), 1))
    assert await world.ended() != before
