"""S20: what needs attention is told of somebody who can be looked at, also where that actor does not exist yet."""

import pytest

from callboard.mailbox.address import CLIENT_SHARD, shard_of
from callboard.mailbox.envelope import Envelope
from callboard.persistence.operating import AuditEntry
from callboard.persistence.store import Session, Store
from callboard.persistence.watching import Glance
from tests.contract.build import AGENT, OTHER, TOOL, call, dead, message, retry, turn, work, write
from tests.contract.test_s20_windows import addresses, agent, made
from tests.contract.world import World

pytestmark = pytest.mark.anyio


async def failing(node: Session, *envelopes: Envelope, delay_seconds: float = 60.0) -> None:
    for one in envelopes:
        await write(node, work(one.shard, sends=[one]))
        await write(node, work(one.shard, retries=[retry(one, delay_seconds, deliveries=2)]))


async def given_up(node: Session, *envelopes: Envelope, reason: str = "failed") -> None:
    for one in envelopes:
        await write(node, work(one.shard, sends=[one]))
        await write(
            node, work(one.shard, acks=[one.id], turns=[turn(one, 0, "dead")], dead=[dead(one, reason, "550 no")])
        )


async def known(store: Store, *wanted: str) -> dict[str, Glance]:
    return {row.row.address: row for row in await store.glances(list(wanted))}


async def test_s20_an_actor_whose_first_message_fails_needs_attention_though_it_is_not_there(
    store: Store, node: Session
) -> None:
    first, second = message(sender=OTHER), message()
    await made(node, OTHER)
    await failing(node, first, delay_seconds=600.0)
    await failing(node, second)
    assert await store.pressing() == [AGENT]
    [glance] = await store.glances([AGENT])
    assert (glance.row.kind, glance.row.status, glance.row.reason, glance.row.created_at) == ("", None, "", 0.0)
    assert (glance.waiting, glance.waiting_free, glance.ready, glance.first) == (2, 2, 0, "note")
    assert glance.failing is not None and glance.failing.recipient == AGENT
    assert (glance.failing.failures, glance.failing.deliveries, glance.failing.last_error) == (1, 2, "it broke")
    assert glance.failing.due_at < await store.now() + 100, "the one that is tried first"
    assert glance.oldest_at and glance.served and glance.turned_at == 0.0 and glance.dead == 0
    assert addresses(await store.window()) == [OTHER], "what is in order of address is what is there"
    assert (await known(store, OTHER))[OTHER].failing is None, "it only sent it"
    await made(node, AGENT)
    [glance] = await store.glances([AGENT])
    assert (glance.row.kind, glance.row.status, glance.waiting) == ("agent", "active", 2)


async def test_s20_an_actor_whose_first_message_was_given_up_needs_attention_until_that_is_settled(
    store: Store, node: Session
) -> None:
    await given_up(node, message(), message(), reason="rejected")
    assert await store.pressing() == [AGENT]
    [glance] = await store.glances([AGENT])
    assert (glance.row.status, glance.dead, glance.dead_reason) == (None, 2, "rejected: 550 no")
    assert (glance.dead_recipient, glance.waiting, glance.oldest_at, glance.turned_at) == (AGENT, 0, 0.0, 0.0)
    for letter in await store.dead_letters():
        await store.discard(letter.number, AuditEntry("ann", "cli", "discard", str(letter.number)))
    assert await store.pressing() == [] and await store.glances([AGENT]) == []


async def test_s20_a_first_message_that_nobody_serves_needs_attention(
    world: World, store: Store, node: Session
) -> None:
    await write(node, work(sends=[message()]))
    assert await store.pressing() == []
    assert (await known(store, AGENT))[AGENT].row.status is None, "whoever shows it sees how it goes on"
    await node.leave()
    assert await store.pressing() == [AGENT]
    glance = (await known(store, AGENT))[AGENT]
    assert (glance.served, glance.waiting_free, glance.calls) == (False, 1, 0)


@pytest.mark.parametrize("ends", ["fails", "is given up"])
async def test_s20_a_call_to_a_worker_is_told_of_its_caller(store: Store, node: Session, ends: str) -> None:
    await made(node, AGENT)
    await (failing if ends == "fails" else given_up)(node, call(sender=AGENT, reply_to=AGENT))
    assert await store.pressing() == [AGENT]
    found = await known(store, AGENT, TOOL)
    assert list(found) == [AGENT]
    if ends == "fails":
        fails = found[AGENT].failing
        assert fails is not None and fails.recipient == TOOL
    else:
        assert (found[AGENT].dead, found[AGENT].dead_recipient) == (1, TOOL)
        assert found[AGENT].dead_reason == "failed: 550 no"


async def test_s20_a_call_in_the_shard_of_its_workers_own_address_is_told_of_its_caller(
    store: Store, node: Session
) -> None:
    """One caller in so many as there are shards lives there, and is told from nobody else by the shard."""
    [caller] = [each for number in range(5_000) if shard_of(each := agent(f"c{number}")) == shard_of(TOOL)][:1]
    await made(node, caller)
    await failing(node, call(shard_of(TOOL), sender=caller, reply_to=caller))
    await given_up(node, call(shard_of(TOOL), sender=caller, reply_to=caller))
    assert await store.pressing() == [caller]
    found = await known(store, caller, TOOL)
    assert caller in found and (found[caller].dead, found[caller].failing is not None) == (1, True)
    assert TOOL not in found or (found[TOOL].dead, found[TOOL].failing) == (0, None)


async def test_s20_an_ask_of_an_actor_that_is_not_there_yet_is_told_of_that_one(store: Store, node: Session) -> None:
    """Also where both live in one shard, as an actor and those beneath it do."""
    below = f"{AGENT}/helper:1"
    assert shard_of(below) == shard_of(AGENT)
    await made(node, AGENT)
    asked = message(below, sender=AGENT, reply_to=AGENT)
    lost = message(below, sender=AGENT, reply_to=AGENT)
    await failing(node, asked)
    await given_up(node, lost)
    assert await store.pressing() == [below]
    found = await known(store, AGENT, below)
    assert (found[AGENT].failing, found[AGENT].dead) == (None, 0)
    assert found[below].failing is not None and (found[below].dead, found[below].waiting) == (1, 1)


async def test_s20_dead_calls_of_who_is_gone_are_told_of_the_worker(store: Store, node: Session) -> None:
    await made(node, AGENT)
    await given_up(
        node,
        call(sender=AGENT, reply_to=AGENT),
        call(sender="/desk/agent:gone", reply_to="/desk/agent:gone"),
        call(sender=AGENT, reply_to=AGENT),
    )
    assert await store.pressing() == [AGENT, TOOL]
    found = await known(store, AGENT, TOOL)
    assert (found[AGENT].dead, found[TOOL].dead, found[TOOL].row.status) == (2, 1, None)
    assert found[TOOL].dead_recipient == TOOL


async def test_s20_clients_are_nobody_to_look_at(world: World, store: Store, node: Session) -> None:
    client = "/sys/client:7"
    await given_up(node, message(client))
    await write(node, work(CLIENT_SHARD, sends=[message(client)]), work(sends=[message(sender=client)]))
    await node.leave()
    assert await store.pressing() == [AGENT]
    assert list(await known(store, client, AGENT)) == [AGENT]


async def test_s20_a_first_message_makes_nobody_busy_but_whom_it_is_for(store: Store, node: Session) -> None:
    await made(node, AGENT)
    below = f"{AGENT}/helper:1"
    await write(node, work(sends=[message(below, sender=AGENT)]))
    assert [(one.actors, one.busy) for one in await store.tallies()] == [(1, 0)]
