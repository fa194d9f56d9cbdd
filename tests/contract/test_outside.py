"""What outside askers and inspectors use: numbers, mailboxes of their own, and looking without touching."""

import anyio
import anyio.lowlevel
import pytest

from callboard.mailbox.address import CLIENT_SHARD, shard_of
from callboard.persistence.store import Session, Store
from callboard.persistence.unit import Unit
from tests.contract.build import (
    AGENT,
    OTHER,
    actor,
    dead,
    ids,
    message,
    retry,
    unit,
    work,
    write,
)
from tests.contract.world import World

pytestmark = pytest.mark.anyio

SOON = 60.0
DAY_SECONDS = 86_400.0


async def client_address(store: Store) -> str:
    return f"/sys/client:{await store.lease_number('asker', seconds=60)}-x"


async def test_numbers_each_holder_has_its_own(store: Store) -> None:
    numbers = [await store.lease_number(f"client-{n}", seconds=60) for n in range(20)]
    assert len(set(numbers)) == 20
    assert all(1024 <= number <= 4095 for number in numbers)
    assert await store.lease_number("client-7", seconds=60) == numbers[7]


async def test_numbers_of_holders_at_once_differ(store: Store) -> None:
    numbers: list[int] = []

    async def lease(name: str) -> None:
        numbers.append(await store.lease_number(name, seconds=60))

    async with anyio.create_task_group() as group:
        for n in range(10):
            group.start_soon(lease, f"client-{n}")
    assert len(set(numbers)) == 10


async def test_numbers_are_not_reused_before_a_day_has_passed(world: World, store: Store) -> None:
    first = await store.lease_number("a", seconds=60)
    await world.pass_time(DAY_SECONDS)
    others = {await store.lease_number(f"b{n}", seconds=60) for n in range(10)}
    assert first not in others
    assert await store.lease_number("a", seconds=60) == first


async def test_numbers_a_renewed_lease_keeps_its_number(world: World, store: Store) -> None:
    first = await store.lease_number("a", seconds=60)
    for _ in range(3):
        await world.pass_time(DAY_SECONDS)
        assert await store.lease_number("a", seconds=60) == first
    assert await store.lease_number("b", seconds=60) != first


async def test_receive_takes_the_messages_out_in_order(world: World, store: Store, node: Session) -> None:
    address = await client_address(store)
    assert shard_of(address) == CLIENT_SHARD
    replies = [message(address, lane=1) for _ in range(3)]
    await write(node, unit(sends=[replies[1], replies[0], replies[2]]))
    found = await store.receive(address, seconds=0, port=world.port)
    assert found == replies
    assert await store.receive(address, seconds=0, port=world.port) == []


async def test_receive_waits_for_the_first_message(world: World, store: Store, node: Session) -> None:
    address, other = await client_address(store), "/sys/client:4095-other"
    reply = message(address, lane=1)
    found: list[int] = []

    async def receive() -> None:
        found.extend(ids(await store.receive(address, seconds=SOON, port=world.port)))

    with anyio.fail_after(SOON):
        async with anyio.create_task_group() as group:
            group.start_soon(receive)
            await anyio.lowlevel.checkpoint()
            await write(node, unit(sends=[reply, message(other)]))
            await node.notify([(CLIENT_SHARD, address)])
    assert found == [reply.id]


async def test_receive_finds_what_no_wake_up_told_of(world: World, store: Store, node: Session) -> None:
    address = await client_address(store)
    async with anyio.create_task_group() as group:
        group.start_soon(write, node, unit(sends=[message(address)]))
        assert len(await store.receive(address, seconds=SOON, port=world.port)) == 1


async def test_receive_gives_up_after_its_time(world: World, store: Store) -> None:
    with anyio.fail_after(SOON):
        assert await store.receive("/sys/client:2000-nobody", seconds=0.05, port=world.port) == []


async def test_receive_each_message_goes_to_one_of_two_readers(world: World, store: Store, node: Session) -> None:
    address = await client_address(store)
    await write(node, unit(sends=[message(address) for _ in range(20)]))
    found: list[int] = []

    async def receive() -> None:
        found.extend(ids(await store.receive(address, seconds=0, port=world.port)))

    async with anyio.create_task_group() as group:
        group.start_soon(receive)
        group.start_soon(receive)
    assert len(found) == len(set(found)) == 20


async def test_looking_at_actors_by_kind_prefix_and_page(store: Store, node: Session) -> None:
    addresses = ["/crm/ticket:2", "/crm/ticket:10", "/crm/Ticket", "/crm/ticket-x", "/desk/agent:1", "/crm/ticket"]
    addresses = [address.lower() for address in addresses]
    units = [Unit(shard=shard_of(a), actor=actor(a)) for a in sorted(set(addresses), reverse=True)]
    for one in units:
        assert one.actor is not None
        one.actor.kind = "agent" if one.actor.address.startswith("/desk") else "ticket"
    await write(node, *units)
    ordered = sorted(set(addresses))
    assert [row.address for row in await store.actors()] == ordered
    assert [row.address for row in await store.actors(kind="agent")] == ["/desk/agent:1"]
    assert [row.address for row in await store.actors(prefix="/crm/ticket:")] == ["/crm/ticket:10", "/crm/ticket:2"]
    assert [row.address for row in await store.actors(limit=2)] == ordered[:2]
    assert [row.address for row in await store.actors(after=ordered[1])] == ordered[2:]
    assert await store.actors(prefix="/crm/t%") == [], "a prefix is text, not a pattern"
    assert await store.actors(prefix="/crm_") == []


async def test_looking_for_an_actor_that_does_not_exist(store: Store) -> None:
    assert await store.actor("/desk/nobody:1") is None
    assert await store.actors() == []
    assert await store.peek("/desk/nobody:1") == []
    assert await store.journal("/desk/nobody:1") == []


async def test_looking_into_a_mailbox_shows_all_states_and_touches_nothing(store: Store, node: Session) -> None:
    ready, retrying, held, system = message(), message(), message(), message(lane=0)
    await write(node, work(sends=[ready, retrying, system], holds=[held]))
    await write(node, work(retries=[retry(retrying, 60.0)]))
    for _ in range(2):
        found = await store.peek(AGENT)
        assert [(view.envelope.id, view.state) for view in found] == [
            (system.id, "ready"),
            (ready.id, "ready"),
            (retrying.id, "retrying"),
            (held.id, "held"),
        ]
    now = await store.now()
    assert all(abs(view.sent_at - now) < 60 for view in found)
    assert [view.envelope.id for view in await store.peek(AGENT, limit=2)] == [system.id, ready.id]


async def test_looking_for_what_waits_by_its_type(store: Store, node: Session) -> None:
    start = message(OTHER, type="run.start")
    again, held = message(type="run.start"), message(type="run.start")
    await write(node, work(start.shard, sends=[start]))
    await write(node, work(sends=[message(), again], holds=[held]))
    expected = [envelope.id for envelope in sorted([start, again], key=lambda envelope: (envelope.shard, envelope.id))]
    assert [view.envelope.id for view in await store.waiting("run.start")] == expected
    assert [view.envelope.id for view in await store.waiting("run.start", limit=1)] == expected[:1]
    assert await store.waiting("nothing.like.it") == []


async def test_looking_at_dead_letters_newest_first(store: Store, node: Session) -> None:
    lost = [message(AGENT), message(OTHER), message(AGENT)]
    for envelope in lost:
        await write(node, work(envelope.shard, sends=[envelope]))
        await write(node, work(envelope.shard, acks=[envelope.id], dead=[dead(envelope)]))
    assert [letter.envelope.id for letter in await store.dead_letters()] == ids(lost[::-1])
    assert [letter.envelope.id for letter in await store.dead_letters(recipient=AGENT)] == [lost[2].id, lost[0].id]
    assert [letter.envelope.id for letter in await store.dead_letters(limit=1)] == [lost[2].id]


async def test_the_stores_clock_is_in_seconds_since_1970(world: World, store: Store) -> None:
    before = await store.now()
    assert abs(before - world.port.wall()) < DAY_SECONDS
    await world.pass_time(10_000)
    assert await store.now() - before == pytest.approx(10_000, abs=200)
