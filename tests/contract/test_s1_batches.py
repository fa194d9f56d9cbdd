"""S1: a batch commits wholly or not at all; a unit that fails its check is left out wholly and named."""

import pytest

from callboard.mailbox.address import shard_of
from callboard.persistence.rows import Decision
from callboard.persistence.store import Session, Store
from callboard.persistence.unit import Move, Unit
from tests.contract.build import (
    AGENT,
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
    waiting,
    work,
    write,
)

pytestmark = pytest.mark.anyio


async def test_s1_a_unit_writes_all_its_rows(store: Store, node: Session) -> None:
    handled, given_up, out, held = message(), message(), message(OTHER), call()
    await write(node, work(sends=[handled, given_up]))
    await write(
        node,
        unit(
            acks=[handled.id, given_up.id],
            turns=[turn(handled), turn(given_up, outcome="dead")],
            sends=[out],
            holds=[held],
            dead=[dead(given_up)],
            events=[event(1), event(2)],
            timers=[timer(delay_seconds=60.0)],
            decisions=[decision(message_id=held.id)],
        ),
    )
    row = await store.actor(AGENT)
    assert row is not None
    assert row.version == 1
    assert await waiting(node) == []
    assert await waiting(node, OTHER) == [out.id]
    assert [(turn.id, turn.outcome) for turn in await store.turns(AGENT)] == [
        (handled.id, "done"),
        (given_up.id, "dead"),
    ]
    assert [(view.envelope.id, view.state) for view in await store.peek(TOOL)] == [(held.id, "held")]
    assert [letter.envelope.id for letter in await store.dead_letters(recipient=AGENT)] == [given_up.id]
    assert [event.seq for event in await store.journal(AGENT)] == [1, 2]
    assert [timer.key for timer in await node.due([SHARD], within_seconds=61.0, limit=10)] == ["sla"]
    found = await store.decision("d1")
    assert isinstance(found, Decision)
    assert found.status == "pending"


async def test_s1_a_refused_unit_leaves_out_all_its_rows(store: Store, node: Session) -> None:
    first, failing, gated = message(), message(), call()
    await write(
        node,
        unit(
            sends=[first, failing], holds=[gated], decisions=[decision(message_id=gated.id)], timers=[timer("old", 60)]
        ),
    )
    out, spawned, held = message(OTHER), message("/desk/agent:1/child:1"), call()
    bad = unit(
        expected=7,
        acks=[first.id],
        turns=[turn(first)],
        sends=[out, spawned],
        holds=[held],
        releases=[gated.id],
        retries=[retry(failing, 30.0)],
        dead=[dead(first)],
        events=[event(1)],
        timers=[timer("new", 1.0)],
        timers_cancelled=["old"],
        decisions=[decision("d2", held.id)],
    )
    result = await node.commit([bad])
    assert set(result.rejected) == {0}
    row = await store.actor(AGENT)
    assert row is not None
    assert row.version == 1
    found = await node.mailbox(SHARD, AGENT, limit=10)
    assert [(envelope.id, envelope.failures, envelope.delay_seconds) for envelope in found] == [
        (first.id, 0, 0.0),
        (failing.id, 0, 0.0),
    ]
    assert await waiting(node, OTHER) == await waiting(node, spawned.recipient) == []
    assert [view.envelope.id for view in await store.peek(TOOL) if view.state == "held"] == [gated.id]
    assert await store.turns(AGENT) == []
    assert await store.journal(AGENT) == []
    assert await store.dead_letters() == []
    assert [timer.key for timer in await node.due([SHARD], within_seconds=100.0, limit=10)] == ["old"]
    assert await store.decision("d2") is None


async def test_s1_units_beside_a_refused_one_commit(store: Store, node: Session) -> None:
    await write(node, unit(AGENT))
    good, other = "/desk/agent:3", "/crm/ticket:9"
    batch = [unit(good), unit(AGENT, expected=9), unit(other, sends=[message(good)]), work(acks=[404])]
    result = await node.commit(batch)
    assert set(result.rejected) == {1, 3}
    assert all(reason for reason in result.rejected.values())
    assert [row.version for row in await node.load([(shard_of(a), a) for a in (good, other)])] == [1, 1]
    assert len(await waiting(node, good)) == 1


async def test_s1_a_move_that_finds_another_status_leaves_out_its_unit(store: Store, node: Session) -> None:
    held = message()
    await write(node, unit(holds=[held], decisions=[decision(message_id=held.id)]))
    await store.decide(verdict(status="denied"), message("/desk/approvals"))
    bad = unit(expected=1, releases=[held.id], moves=[Move("d1", "approved", "released")])
    assert set((await node.commit([bad])).rejected) == {0}
    assert await waiting(node) == []
    found = await store.decision("d1")
    assert found is not None
    assert found.status == "denied"


async def test_s1_a_large_batch_commits(store: Store, node: Session) -> None:
    addresses = [f"/desk/agent:{n}" for n in range(1_000)]
    await write(node, *[unit(a, sends=[message(a)], events=[event(1, a)]) for a in addresses])
    rows = await node.load([(shard_of(a), a) for a in addresses])
    assert len(rows) == 1_000
    found, cursor = await node.ready(range(256), per_actor=5, limit=2_000)
    assert (len(found), cursor) == (1_000, "")


async def test_s1_an_empty_batch_and_an_empty_unit_are_harmless(store: Store, node: Session) -> None:
    assert (await node.commit([])).rejected == {}
    assert (await node.commit([Unit(shard=SHARD)])).rejected == {}


async def test_s1_what_was_committed_is_not_the_callers_to_change(store: Store, node: Session) -> None:
    sent, row = message(last_error="before"), actor(state=b"before")
    noted = event(1, type="before")
    await write(node, Unit(shard=SHARD, actor=row, sends=[sent], events=[noted]))
    sent.last_error = "after"
    row.state = b"after"
    noted.type = "after"
    (read,) = await node.mailbox(SHARD, AGENT, limit=1)
    read.deliveries = 99
    (loaded,) = await node.load([(SHARD, AGENT)])
    loaded.version = 99
    (read,) = await node.mailbox(SHARD, AGENT, limit=1)
    (loaded,) = await node.load([(SHARD, AGENT)])
    (found,) = await node.journal(AGENT)
    assert (read.last_error, read.deliveries) == ("before", 0)
    assert (loaded.state, loaded.version) == (b"before", 1)
    assert found.type == "before"
