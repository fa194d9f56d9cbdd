"""S4: acknowledging, retrying, releasing and dropping must hit their messages, or the unit fails."""

import pytest

from callboard.mailbox.envelope import Envelope
from callboard.persistence.store import Session, Store
from callboard.persistence.unit import Unit
from tests.contract.build import AGENT, OTHER, SHARD, dead, message, refused, retry, unit, waiting, work, write

pytestmark = pytest.mark.anyio

FAR = "/crm/ticket:77"


async def test_s4_acknowledging_deletes_exactly_the_message(node: Session) -> None:
    first, second = message(), message()
    await write(node, work(sends=[first, second]))
    await write(node, unit(acks=[first.id]))
    assert await waiting(node) == [second.id]


async def test_s4_acknowledging_a_missing_message_fails_the_unit(store: Store, node: Session) -> None:
    assert await refused(node, unit(acks=[404], sends=[message(OTHER)])) == {0}
    assert await store.actor(AGENT) is None
    assert await waiting(node, OTHER) == []


async def test_s4_one_missing_message_among_several_fails_the_unit(node: Session) -> None:
    there = message()
    await write(node, work(sends=[there]))
    assert await refused(node, unit(acks=[there.id, 404])) == {0}
    assert await waiting(node) == [there.id]


async def test_s4_a_message_is_acknowledged_once(node: Session) -> None:
    once = message()
    await write(node, work(sends=[once]))
    await write(node, unit(acks=[once.id]))
    assert await refused(node, unit(expected=1, acks=[once.id])) == {0}


async def test_s4_two_units_of_a_batch_cannot_both_acknowledge_a_message(node: Session) -> None:
    once, reply = message("/sys/tool", shard=SHARD), message()
    await write(node, work(sends=[once]))
    again = message()
    left_out = await refused(node, work(acks=[once.id], sends=[reply]), work(acks=[once.id], sends=[again]))
    assert len(left_out) == 1
    assert len(await waiting(node)) == 1


async def test_s4_a_unit_touches_a_message_once(node: Session) -> None:
    waits, held = message(), message()
    await write(node, work(sends=[waits], holds=[held]))
    for attempt in (
        work(acks=[waits.id, waits.id]),
        work(acks=[waits.id], retries=[retry(waits)]),
        work(retries=[retry(waits), retry(waits)]),
        work(releases=[held.id], drops=[held.id]),
        work(releases=[held.id, held.id]),
    ):
        assert await refused(node, attempt) == {0}
    assert await waiting(node) == [waits.id]


async def test_s4_a_workers_reply_comes_only_with_the_end_of_its_message(node: Session) -> None:
    call = message("/sys/tool", shard=SHARD)
    await write(node, work(sends=[call]))
    await write(node, work(acks=[call.id], sends=[message()]))
    assert await refused(node, work(acks=[call.id], sends=[message()])) == {0}
    assert len(await waiting(node)) == 1


async def test_s4_acknowledging_in_another_shard_fails_the_unit(node: Session) -> None:
    elsewhere = message(FAR)
    assert elsewhere.shard != SHARD
    await write(node, work(sends=[elsewhere]))
    assert await refused(node, unit(acks=[elsewhere.id])) == {0}
    assert await waiting(node, FAR) == [elsewhere.id]


def _attempts(there: Envelope) -> list[Unit]:
    return [work(acks=[there.id]), work(retries=[retry(there)])]


async def test_s4_a_held_message_is_neither_acknowledged_nor_retried(store: Store, node: Session) -> None:
    held = message()
    await write(node, work(holds=[held]))
    for attempt in _attempts(held):
        assert await refused(node, attempt) == {0}
    (view,) = await store.peek(AGENT)
    assert (view.state, view.envelope.failures) == ("held", 0)


@pytest.mark.parametrize("kind", ["releases", "drops"])
async def test_s4_a_message_that_is_not_held_is_neither_released_nor_dropped(node: Session, kind: str) -> None:
    waits = message()
    await write(node, work(sends=[waits]))
    for identifier in (waits.id, 404):
        attempt = work()
        setattr(attempt, kind, [identifier])
        assert await refused(node, attempt) == {0}
    assert await waiting(node) == [waits.id]


async def test_s4_retrying_a_missing_message_fails_the_unit(node: Session) -> None:
    assert await refused(node, unit(retries=[retry(message())], sends=[message(OTHER)])) == {0}
    assert await waiting(node, OTHER) == []


async def test_s4_releasing_lets_a_held_message_go_in_its_place(node: Session) -> None:
    first, held, last = message(), message(), message()
    await write(node, work(sends=[first], holds=[held]))
    await write(node, work(sends=[last]))
    assert await waiting(node) == [first.id, last.id]
    await write(node, unit(releases=[held.id]))
    assert await waiting(node) == [first.id, held.id, last.id]
    assert await refused(node, work(releases=[held.id])) == {0}


async def test_s4_dropping_deletes_a_held_message(store: Store, node: Session) -> None:
    held = message()
    await write(node, work(holds=[held]))
    await write(node, unit(drops=[held.id], dead=[dead(held, "denied", "no")]))
    assert await store.peek(AGENT) == []
    (letter,) = await store.dead_letters()
    assert (letter.envelope.id, letter.reason, letter.detail) == (held.id, "denied", "no")
    assert abs(letter.at - await store.now()) < 60
    assert await refused(node, work(drops=[held.id])) == {0}


async def test_s4_what_is_dropped_is_on_record_as_cancelled(store: Store, node: Session) -> None:
    held = message(sender_seq=5, causation=17)
    await write(node, work(holds=[held]))
    await write(node, unit(drops=[held.id]))
    (row,) = await store.turns(AGENT)
    assert (row.id, row.outcome, row.version, row.node) == (held.id, "cancelled", 0, node.number)
    assert (row.sender, row.sender_seq, row.causation, row.lane) == (held.sender, 5, 17, held.lane)


async def test_s4_withdrawing_takes_back_what_is_still_there(store: Store, node: Session) -> None:
    waits, held, gone = message(), message(), message()
    await write(node, work(sends=[waits, gone], holds=[held]))
    await write(node, work(acks=[gone.id]))
    await write(node, unit(withdraws=[waits.id, held.id, gone.id, 404]))
    assert await store.peek(AGENT) == []
    assert sorted((row.id, row.outcome) for row in await store.turns(AGENT)) == [
        (waits.id, "cancelled"),
        (held.id, "cancelled"),
    ]


async def test_s4_withdrawing_touches_its_own_shard_only(node: Session) -> None:
    elsewhere = message(FAR)
    await write(node, work(sends=[elsewhere]))
    await write(node, unit(withdraws=[elsewhere.id]))
    assert await waiting(node, FAR) == [elsewhere.id]


@pytest.mark.parametrize("withdraw_first", [True, False])
async def test_s4_what_a_unit_of_the_batch_acknowledges_is_not_taken_back(
    store: Store, node: Session, withdraw_first: bool
) -> None:
    call = message("/sys/tool", shard=SHARD)
    await write(node, work(sends=[call]))
    handled, taken_back = work(acks=[call.id], sends=[message()]), unit(withdraws=[call.id])
    await write(node, *((taken_back, handled) if withdraw_first else (handled, taken_back)))
    assert await store.turns("/sys/tool") == []
    assert len(await waiting(node)) == 1


async def test_s4_a_refused_unit_takes_nothing_back(node: Session) -> None:
    waits = message()
    await write(node, work(sends=[waits]))
    assert await refused(node, unit(expected=5, withdraws=[waits.id])) == {0}
    assert await waiting(node) == [waits.id]


async def test_s4_a_retry_keeps_the_message_and_counts(store: Store, node: Session) -> None:
    failing = message()
    await write(node, work(sends=[failing]))
    await write(
        node, work(retries=[retry(failing, 30.0, deliveries=3, failures=2, last_error="bad key", started=True)])
    )
    (found,) = await node.mailbox(SHARD, AGENT, limit=1)
    assert (found.deliveries, found.failures, found.last_error, found.started) == (3, 2, "bad key", True)
    assert 0 < found.delay_seconds <= 30
    (view,) = await store.peek(AGENT)
    assert view.state == "retrying"
