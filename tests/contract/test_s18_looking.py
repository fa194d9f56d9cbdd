"""S18: looking changes nothing, and costs no more than its limit allows. What there is to be seen, and the census."""

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import msgspec
import psycopg
import pytest

from callboard.mailbox.envelope import Envelope
from callboard.mailbox.errors import StoreUnavailable
from callboard.mailbox.ids import id_at
from callboard.persistence.memory import MemoryStore
from callboard.persistence.operating import MessageSearch, Trail
from callboard.persistence.store import Session, Store
from tests.contract.build import (
    AGENT,
    OTHER,
    SHARD,
    TOOL,
    call,
    dead,
    decision,
    message,
    next_id,
    retry,
    turn,
    unit,
    work,
    write,
)
from tests.contract.world import World
from tests.contract.world_postgres import PostgresWorld

pytestmark = pytest.mark.anyio


async def everything(world: World) -> dict[str, Any]:
    """All rows of a store, as they are."""
    if isinstance(world.store, MemoryStore):
        tables = vars(world.store.tables)
        rows = {name: value for name, value in tables.items() if name not in ("mailboxes", "recipients", "timer_order")}
        return {name: msgspec.json.encode(msgspec.to_builtins(_keyed(value))) for name, value in rows.items()}
    assert isinstance(world, PostgresWorld)
    found = {}
    for table in ("actor", "message", "turn", "journal", "timer", "dead_letter", "decision", "audit", "client_send"):
        found[table] = await world._execute(
            f"SELECT coalesce(md5(string_agg(x.t, '|' ORDER BY x.t)), '') FROM "
            f"(SELECT ctid::text || xmin::text || t::text AS t FROM callboard.{table} t) x".encode()
        )
    return found


def _keyed(value: Any) -> Any:
    return {str(key): row for key, row in value.items()} if isinstance(value, dict) else value


async def all_states(node: Session, world: World) -> dict[str, Envelope]:
    """One message in each state that a store knows."""
    ready, later, failed, held, aside = message(), message(delay_seconds=600.0), message(), call(), message(OTHER)
    gone = message()
    await write(node, work(sends=[ready, later, failed, gone], holds=[held]))
    await write(node, work(retries=[retry(failed, 60.0)]))
    await write(node, work(aside.shard, sends=[aside]))
    await write(node, unit(OTHER, stashes=[aside.id], turns=[turn(aside, outcome="stashed")]))
    await write(node, work(acks=[gone.id], turns=[turn(gone, 0, "dead")], dead=[dead(gone)]))
    return {"ready": ready, "scheduled": later, "retrying": failed, "held": held, "stashed": aside, "dead": gone}


async def test_s18_each_state_is_told_from_the_others(world: World, store: Store, node: Session) -> None:
    known = await all_states(node, world)
    for state, envelope in known.items():
        view = await store.message(envelope.id)
        trail = await store.trail(envelope.id, recipient=envelope.recipient)
        assert trail is not None and trail.state == state
        assert (view is None) if state == "dead" else (view is not None and view.state == state)
        found = await store.trail(envelope.id)
        assert found is None or found == trail, "ids of tests are of no real time"
    assert {view.envelope.id: view.state for view in await store.peek(AGENT)} == {
        known[state].id: state for state in ("ready", "scheduled", "retrying")
    }
    assert {view.state for view in await store.waiting("note")} == {"ready", "scheduled", "retrying"}


async def test_s18_looking_changes_nothing(world: World, store: Store, node: Session) -> None:
    known = await all_states(node, world)
    before = await everything(world)
    identifier = known["ready"].id
    looks: list[Callable[[], Awaitable[object]]] = [
        lambda: store.peek(AGENT),
        lambda: store.waiting("note"),
        lambda: store.calls(AGENT),
        store.mailboxes,
        lambda: store.mailboxes(order="age", prefix="/desk"),
        lambda: store.message(identifier),
        lambda: store.search(MessageSearch(text="note")),
        lambda: store.client_id(AGENT, identifier),
        lambda: store.trail(identifier),
        lambda: store.trail(known["dead"].id, recipient=AGENT),
        lambda: store.caused(identifier),
        store.dead_letters,
        lambda: store.dead_letters(open_only=True),
        lambda: store.dead_letter(1),
        store.census,
    ]
    for look in looks:
        await look()
    assert await everything(world) == before


async def test_s18_mailboxes_come_deepest_longest_waiting_or_by_address_first(
    world: World, store: Store, node: Session
) -> None:
    await write(node, work(message(OTHER).shard, sends=[message(OTHER)]))
    await world.pass_time(100)
    await all_states(node, world)
    boxes = await store.mailboxes()
    [first, second] = [box for box in boxes if box.address != TOOL]
    assert (first.address, first.depth, first.ready, first.scheduled, first.retrying, first.held) == (
        AGENT,
        3,
        1,
        1,
        1,
        0,
    )
    assert (second.address, second.depth, second.ready, second.stashed, first.failures) == (OTHER, 2, 1, 1, 1)
    [tool] = [box for box in boxes if box.address == TOOL]
    assert (tool.shard, tool.depth, tool.held, tool.stashed) == (SHARD, 1, 1, 0), "a worker's are where they were asked"
    assert [box.address for box in await store.mailboxes(order="age", limit=1)] == [OTHER]
    assert [box.address for box in await store.mailboxes(order="address")] == sorted(box.address for box in boxes)
    assert [box.address for box in await store.mailboxes(prefix="/sys")] == [TOOL]
    assert second.oldest_at < first.oldest_at - 90


async def test_s18_messages_are_found_by_all_that_is_given(store: Store, node: Session) -> None:
    one = message(body='{"type":"note","order":"A-8891"}', causation=7, correlation=8)
    other = message(OTHER, type="other", sender="/shop/till:3", body='{"order":"A-8892"}')
    late = message(delay_seconds=60.0)
    await store.send([one, other, late], ["order A-8891", "", ""])

    async def found(**wanted: Any) -> list[int]:
        return [view.envelope.id for view in await store.search(MessageSearch(**wanted))]

    assert await found() == [one.id, other.id, late.id]
    assert await found(text="A-8891") == [one.id]
    assert await found(text="a-8891") == [] and await found(text="A%") == [], "as it is written"
    assert await found(type="other") == [other.id]
    assert await found(recipient="/desk/agent:1") == [one.id, late.id]
    assert await found(sender="/shop/") == [other.id]
    assert await found(state="scheduled") == [late.id]
    assert await found(causation=7) == await found(correlation=8) == [one.id]
    assert await found(client_id="order A-8891") == [one.id] and await found(client_id="order") == []
    assert await found(text="A-889", type="other", sender="/shop") == [other.id]
    assert await found(text="A-8891", type="other") == []
    assert len(await store.search(MessageSearch(), limit=2)) == 2


async def test_s18_the_client_id_of_a_message_is_told(store: Store, node: Session) -> None:
    one, same, none = message(), message(), message()
    assert await store.send([one], ["order 1"]) == [True]
    assert await store.send([same], ["order 1"]) == [False]
    await store.send([none])
    assert await store.client_id(AGENT, one.id) == "order 1"
    assert await store.client_id(AGENT, same.id) == await store.client_id(AGENT, none.id) == ""
    assert await store.client_id(OTHER, one.id) == ""


async def test_s18_what_a_message_came_from_and_what_came_of_it_is_told(store: Store, node: Session) -> None:
    now = await store.now()
    first = message(id=id_at(now), sender="")
    handled = message(OTHER, id=id_at(now + 0.001), sender=AGENT, causation=first.id)
    asked = call(id=id_at(now + 0.002), sender=AGENT, causation=first.id, reply_to=AGENT)
    unrelated = message(OTHER, id=id_at(now + 0.003), sender=AGENT, causation=asked.id)
    await store.send([first])
    sent = [handled, asked, unrelated]
    await write(node, unit(AGENT, acks=[first.id], turns=[turn(first)], sends=sent))
    await write(node, unit(OTHER, acks=[handled.id], turns=[turn(handled)]))
    found = await store.caused(first.id)
    assert [(trail.id, trail.state, trail.recipient) for trail in found] == [
        (handled.id, "done", OTHER),
        (asked.id, "ready", TOOL),
    ]
    assert await store.caused(first.id, limit=1) == found[:1]
    assert await store.trail(handled.id) == found[0] == await store.trail(handled.id, recipient=OTHER)
    up = await store.trail(found[0].causation, recipient=found[0].sender)
    assert isinstance(up, Trail) and (up.id, up.causation, up.state) == (first.id, 0, "done")
    assert await store.trail(id_at(now) + 999_999) is None
    assert await store.caused(unrelated.id) == []


async def test_s18_what_left_a_mailbox_lately_is_told_the_newest_first(world: World, node: Session) -> None:
    early, first, second, waits = (message() for _ in range(4))
    await world.store.send([early, first, second, waits])
    await write(node, unit(acks=[early.id], turns=[turn(early, 1)]))
    await world.pass_time(120)
    await write(node, unit(expected=1, stashes=[second.id], turns=[turn(second, 2, "stashed")]))
    await write(node, unit(expected=2, acks=[first.id], turns=[turn(first, 3)], unstash=True))
    await write(node, unit(expected=3, acks=[second.id], turns=[turn(second, 4)]))
    found = await world.store.handled(AGENT, seconds=60)
    assert [number for number, _ in found] == [second.id, first.id]
    assert [at for _, at in found] == pytest.approx([await world.store.now()] * 2, abs=60)
    assert [number for number, _ in await world.store.handled(AGENT, seconds=600)] == [second.id, first.id, early.id]
    assert [number for number, _ in await world.store.handled(AGENT, seconds=600, limit=1)] == [second.id]
    assert await world.store.handled(OTHER, seconds=600) == []


@pytest.mark.parametrize("limit", [0, -1])
async def test_s18_a_limit_below_one_finds_nothing(store: Store, node: Session, limit: int) -> None:
    await store.send([message(causation=5)])
    for found in (
        await store.mailboxes(limit=limit),
        await store.search(MessageSearch(), limit=limit),
        await store.caused(5, limit=limit),
        await store.dead_letters(open_only=True, limit=limit),
    ):
        assert found == []


async def test_s18_numbers_that_no_message_can_have_are_of_no_message(store: Store, node: Session) -> None:
    await store.send([message()])
    assert await store.message(1 << 70) is None
    assert await store.trail(next_id()) is None
    assert await store.search(MessageSearch(causation=1 << 70)) == []


async def test_s18_the_census_counts_everything_once(world: World, store: Store, node: Session) -> None:
    known = await all_states(node, world)
    await write(node, work(decisions=[decision("d1", known["held"].id, expires_seconds=50.0), decision("d2")]))
    await write(node, unit(AGENT, expected=0))
    counted = await store.census()
    assert counted.actors == {"agent": {"active": 2}}
    assert counted.messages == {"ready": 1, "scheduled": 1, "retrying": 1, "held": 1, "stashed": 1}
    assert counted.depths == {"agent": 4, TOOL: 1}
    assert counted.dead == 1 and counted.decisions == {"pending": 2, "approved": 0}
    assert 0 < counted.oldest_ready_at <= counted.at and 0 < counted.oldest_pending_at <= counted.at
    assert counted.at < counted.next_expiry_at <= counted.at + 50.0
    assert counted.shards_unowned == 0 and counted.server_version


async def test_s18_the_census_of_nothing_is_empty(store: Store) -> None:
    counted = await store.census()
    assert (counted.actors, counted.messages, counted.depths, counted.dead) == ({}, {}, {}, 0)
    assert (counted.oldest_ready_at, counted.oldest_pending_at, counted.next_expiry_at) == (0.0, 0.0, 0.0)
    assert counted.shards_unowned == 256


async def test_s18_looking_at_once_by_many_is_harmless(store: Store, node: Session) -> None:
    await store.send([message() for _ in range(20)])
    async with anyio.create_task_group() as group:
        for _ in range(8):
            group.start_soon(store.mailboxes)
            group.start_soon(store.census)
    assert len(await store.peek(AGENT)) == 20


async def test_s18_a_census_that_takes_too_long_is_given_up(
    world: World, contract_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not isinstance(world, PostgresWorld):
        return  # the memory store cannot be slow
    for limit in ("CENSUS_SECONDS", "WALK_SECONDS"):
        monkeypatch.setattr(f"callboard.persistence.postgres.inspecting.{limit}", 1.0)
    async with await psycopg.AsyncConnection.connect(contract_dsn) as slow:
        await slow.execute("LOCK TABLE callboard.message IN ACCESS EXCLUSIVE MODE")
        for look in (world.store.census, world.store.mailboxes):
            with anyio.fail_after(60), pytest.raises(StoreUnavailable):
                await look()
    monkeypatch.undo()
    assert (await world.store.census()).messages == {}, "the session is as good as before"
