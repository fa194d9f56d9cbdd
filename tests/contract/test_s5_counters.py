"""S5 and S10: what a message carries besides its body, and what happened to it, comes out of every way of reading."""

from collections.abc import Awaitable, Callable

import pytest

from callboard.mailbox.address import shard_of
from callboard.mailbox.envelope import Envelope
from callboard.persistence.port import RealPort
from callboard.persistence.rows import ActorRow
from callboard.persistence.store import NodeInfo, Session, Store
from tests.contract.build import AGENT, SHARD, actor, dead, message, retry, unit, work, write
from tests.contract.world import World

pytestmark = pytest.mark.anyio

HEADERS = '{"deadline":1893456000.5}'
ASKER = "/sys/client:1024-1"
SLACK_SECONDS = 100.0
"""How long a test may take by itself, in which its times are hours."""
Way = Callable[[Store, Session], Awaitable[list[Envelope]]]


async def _ready(store: Store, node: Session) -> list[Envelope]:
    return (await node.ready([SHARD], per_actor=10, limit=10))[0]


async def _mailbox(store: Store, node: Session) -> list[Envelope]:
    return await node.mailbox(SHARD, AGENT, limit=10)


async def _peek(store: Store, node: Session) -> list[Envelope]:
    return [view.envelope for view in await store.peek(AGENT)]


async def _waiting(store: Store, node: Session) -> list[Envelope]:
    return [view.envelope for view in await store.waiting("note")]


WAYS: dict[str, Way] = {"ready": _ready, "mailbox": _mailbox, "peek": _peek, "waiting": _waiting}


@pytest.mark.parametrize("way", WAYS)
async def test_s10_headers_and_counters_come_out_of_every_way_of_reading(
    world: World, store: Store, node: Session, way: str
) -> None:
    sent = message(headers=HEADERS)
    await write(node, work(sends=[sent, message()]))
    await write(node, work(retries=[retry(sent, failures=3, deliveries=4, losses=2, timeouts=1)]))
    await world.pass_time(5_000)
    first, second = await WAYS[way](store, node)
    assert (first.headers, first.failures, first.deliveries, first.losses, first.timeouts) == (HEADERS, 3, 4, 2, 1)
    assert first.failing_seconds == pytest.approx(5_000.0, abs=SLACK_SECONDS)
    assert (second.headers, second.losses, second.timeouts, second.failing_seconds) == ("", 0, 0, 0.0)


async def test_s10_headers_of_held_and_outside_messages_come_out(store: Store, node: Session) -> None:
    held, asked = message("/sys/tool", shard=SHARD, headers=HEADERS), message(headers=HEADERS)
    await write(node, unit(holds=[held]))
    await store.send([asked])
    (view,) = await store.peek("/sys/tool")
    assert (view.state, view.envelope.headers) == ("held", HEADERS)
    (found,) = await _mailbox(store, node)
    assert found.headers == HEADERS


async def test_s10_headers_of_an_answer_come_out(store: Store, node: Session) -> None:
    await write(node, work(sends=[message(ASKER, headers=HEADERS)]))
    (answer,) = await store.receive(ASKER, seconds=0.0, port=RealPort())
    assert (answer.headers, answer.losses, answer.failing_seconds) == (HEADERS, 0, 0.0)


async def test_s10_a_new_message_begins_without_losses(store: Store, node: Session) -> None:
    await write(node, work(sends=[message(losses=3, timeouts=2, failing_seconds=7.0)]))
    (found,) = await _mailbox(store, node)
    assert (found.losses, found.timeouts, found.failing_seconds) == (0, 0, 0.0)


async def test_s10_a_dead_letter_keeps_headers_and_counters(store: Store, node: Session) -> None:
    given_up = message(headers=HEADERS, failures=5, losses=3, timeouts=2, failing_seconds=9.0)
    await write(node, work(sends=[given_up]))
    await write(node, work(acks=[given_up.id], dead=[dead(given_up)]))
    for letters in (await store.dead_letters(), await store.dead_letters(recipient=AGENT)):
        (letter,) = letters
        found = letter.envelope
        assert (found.headers, found.failures, found.losses, found.timeouts) == (HEADERS, 5, 3, 2)
        assert (found.failing_seconds, letter.reason) == (0.0, "failed")


async def test_s5_a_message_fails_since_its_first_retry(world: World, node: Session, store: Store) -> None:
    sent = message()
    await write(node, work(sends=[sent]))
    await world.pass_time(3_000)
    await write(node, work(retries=[retry(sent, failures=1, deliveries=1)]))
    await world.pass_time(3_000)
    await write(node, work(retries=[retry(sent, failures=2, deliveries=2)]))
    await world.pass_time(3_000)
    (found,) = await _mailbox(store, node)
    assert found.failing_seconds == pytest.approx(6_000.0, abs=SLACK_SECONDS)


async def test_s5_a_call_noted_as_begun_does_not_fail_yet(world: World, node: Session, store: Store) -> None:
    sent = message()
    await write(node, work(sends=[sent]))
    await write(node, work(retries=[retry(sent, failures=0, deliveries=1, last_error="", started=True)]))
    await world.pass_time(3_000)
    (found,) = await _mailbox(store, node)
    assert (found.started, found.failing_seconds) == (True, 0.0)
    await write(node, work(retries=[retry(sent, failures=0, deliveries=1)]))
    await world.pass_time(3_000)
    (found,) = await _mailbox(store, node)
    assert found.failing_seconds == 0.0, "nothing was counted"
    await write(node, work(retries=[retry(sent, failures=0, deliveries=2)]))
    await world.pass_time(3_000)
    (found,) = await _mailbox(store, node)
    assert found.failing_seconds == pytest.approx(3_000.0, abs=SLACK_SECONDS)


async def test_s10_bonds_come_out_of_every_way_of_reading(store: Store, node: Session) -> None:
    other = "/desk/agent:2"
    await write(node, unit(), unit(other))
    row = actor(version=2, bonds='{"asks":[7]}', summary='{"n":1}')
    batch = unit(other, expected=1)
    await write(node, unit(expected=1, sends=[message()]), batch)
    assert await read(store, node, AGENT) == [""] * 3
    row.version = 3
    third = unit(expected=2)
    third.actor = row
    await write(node, third)
    assert await read(store, node, AGENT) == [row.bonds] * 3
    assert await read(store, node, other) == [""] * 3
    (found,) = await node.load([(SHARD, AGENT)])
    assert found == row


async def read(store: Store, node: Session, address: str) -> list[str]:
    rows: list[ActorRow | None] = [
        await store.actor(address),
        *await node.load([(shard_of(address), address)]),
        *[row for row in await store.actors() if row.address == address],
    ]
    return [row.bonds for row in rows if row is not None]


async def test_s10_members_say_what_they_can_read(store: Store, node: Session) -> None:
    port = RealPort()
    async with store.join(NodeInfo("boot-2", capabilities='{"note":2}'), port) as other:
        members = {member.number: member.capabilities for member in await node.members()}
    assert members == {node.number: "", other.number: '{"note":2}'}
