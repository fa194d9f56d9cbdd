"""S20: a window has the rows next to its cursor, each once, both ways; what needs attention is found by itself."""

from typing import Any

import pytest

from callboard.mailbox.address import shard_of
from callboard.mailbox.ids import id_at
from callboard.persistence.rows import ActorStatus
from callboard.persistence.store import Session, Store
from callboard.persistence.watching import Glance
from tests.contract.build import (
    AGENT,
    DESK,
    OTHER,
    call,
    dead,
    decision,
    event,
    message,
    next_id,
    retry,
    turn,
    unit,
    verdict,
    work,
    write,
)
from tests.contract.world import World

pytestmark = pytest.mark.anyio


def agent(key: object) -> str:
    return f"/desk/agent:{key}"


async def made(node: Session, *addresses: str, kind: str = "agent", **fields: Any) -> None:
    units = [unit(address) for address in addresses]
    for one in units:
        assert one.actor is not None
        one.actor.kind = kind
        for name, value in fields.items():
            setattr(one.actor, name, value)
    await write(node, *units)


async def turned(node: Session, address: str, version: int, **fields: Any) -> None:
    """One turn more of an actor; `version`: the one it has."""
    one = unit(address, expected=version)
    assert one.actor is not None
    for name, value in fields.items():
        setattr(one.actor, name, value)
    await write(node, one)


def addresses(rows: list[Glance]) -> list[str]:
    return [row.row.address for row in rows]


async def forward(store: Store, limit: int, **wanted: Any) -> list[str]:
    found: list[str] = []
    while rows := await store.window(after=found[-1] if found else "", limit=limit, **wanted):
        found += addresses(rows)
    return found


async def backward(store: Store, limit: int, **wanted: Any) -> list[str]:
    rows = await store.window(last=True, limit=limit, **wanted)
    found = addresses(rows)
    while rows := await store.window(before=found[0], limit=limit, **wanted) if found else []:
        found = [*addresses(rows), *found]
    return found


@pytest.mark.parametrize("limit", [1, 3, 7, 100])
async def test_s20_windows_give_every_actor_once_in_order_both_ways(store: Store, node: Session, limit: int) -> None:
    known = [agent(number) for number in range(17)]
    await made(node, *known)
    await made(node, "/desk", "/desk/approvals", kind="other")
    await turned(node, known[3], 1, status="parked")
    await turned(node, known[5], 1, status="completed")
    everyone = sorted([*known, "/desk", "/desk/approvals"])
    assert await forward(store, limit) == everyone
    assert await backward(store, limit) == everyone


async def test_s20_a_window_is_of_a_kind_a_prefix_and_statuses_and_without_those_that_are_shown_elsewhere(
    store: Store, node: Session
) -> None:
    await made(node, *(agent(number) for number in range(9)), "/desk/agents")
    await made(node, "/desk/boss", kind="boss")
    await turned(node, agent(2), 1, status="parked")
    await turned(node, agent(7), 1, status="failed")
    for read in (forward, backward):
        assert await read(store, 2, kind="boss") == ["/desk/boss"]
        assert await read(store, 2, prefix="/desk/agent:", statuses=["active"]) == [
            agent(number) for number in (0, 1, 3, 4, 5, 6, 8)
        ]
        assert await read(store, 2, statuses=["failed", "parked"]) == [agent(2), agent(7)]
        assert await read(store, 2, kind="agent", statuses=["parked"]) == [agent(2)]
        assert await read(store, 3, prefix="/desk/agent:", without=[agent(1), agent(8)]) == [
            agent(number) for number in (0, 2, 3, 4, 5, 6, 7)
        ]
        assert await read(store, 3, prefix="/nobody") == []


async def test_s20_rows_that_come_and_go_meanwhile_neither_double_nor_hide_others(store: Store, node: Session) -> None:
    known = [agent(f"{number:03}") for number in range(0, 40, 2)]
    await made(node, *known)
    found: list[str] = []
    for step in range(10):
        rows = await store.window(after=found[-1] if found else "", limit=4)
        found += addresses(rows)
        # Behind the cursor, at it, and ahead of it; one leaves the list by its status.
        await made(node, agent(f"{step:03}x"), agent(f"{step * 4 + 1:03}y"))
        if step < 5:
            await turned(node, known[step * 3], 1, status="completed")
    assert len(found) == len(set(found)) and found == sorted(found)
    assert set(known) <= set(found), "whatever was there all the time is seen"
    back: list[str] = []
    for step in range(30):
        rows = await store.window(last=not back, before=back[0] if back else "", limit=4)
        back = [*addresses(rows), *back]
        await made(node, agent(f"{39 - step:03}z"), agent(f"{step:03}z0"))
    assert len(back) == len(set(back)) and back == sorted(back)
    assert set(known) <= set(back)


@pytest.mark.parametrize("limit", [0, -1])
async def test_s20_a_limit_below_one_finds_nothing(store: Store, node: Session, limit: int) -> None:
    await made(node, AGENT, status="parked")
    assert await store.window(limit=limit) == []
    assert await store.window(last=True, limit=limit) == []
    assert await store.newest(kind="agent", limit=limit) == []
    assert await store.pressing(limit=limit) == []


async def test_s20_what_is_no_text_is_of_nobody(store: Store, node: Session) -> None:
    await made(node, AGENT)
    assert addresses(await store.window(prefix="/")) == [AGENT]
    assert await store.window(prefix="/desk/agent:1/") == []
    assert await store.glances([]) == []
    assert await store.trends([]) == {}
    assert addresses(await store.glances([AGENT, AGENT, "/nobody:1"])) == [AGENT]


async def test_s20_a_glance_tells_a_mailbox_what_fails_and_who_serves_it(
    world: World, store: Store, node: Session
) -> None:
    await made(node, AGENT, OTHER, reason="why", summary='{"status":"running"}', bonds='{"drawn":1}')
    own, later, held, asked = message(), message(delay_seconds=600.0), message(), call(sender=AGENT, reply_to=AGENT)
    await write(node, work(sends=[own, later, held]), work(shard_of(OTHER), sends=[message(OTHER, type="other")]))
    await turned(node, AGENT, 1, reason="why", summary="{}", bonds="")
    one = unit(AGENT, expected=2, stashes=[held.id], turns=[turn(held, 3, "stashed")])
    await write(node, one)
    [glance] = await store.glances([AGENT])
    assert (glance.waiting, glance.waiting_free, glance.ready, glance.first, glance.served) == (3, 2, 1, "note", True)
    assert glance.oldest_at and glance.next_due_at > await store.now() + 500 and glance.turned_at
    assert glance.failing is None and glance.pending is None and glance.held is None and glance.dead == 0
    await write(node, work(sends=[asked]), work(retries=[retry(own, 60.0, last_error="own", deliveries=2)]))
    [glance] = await store.glances([AGENT])
    assert glance.failing is not None and (glance.failing.recipient, glance.failing.last_error) == (AGENT, "own")
    assert (glance.failing.failures, glance.failing.deliveries, glance.ready) == (1, 2, 0)
    await write(node, work(retries=[retry(asked, 5.0, last_error="call", failures=0)]))
    [glance] = await store.glances([AGENT])
    assert glance.failing is not None and (glance.failing.recipient, glance.failing.last_error) == (
        asked.recipient,
        "call",
    ), "the one that is tried first"
    [other] = await store.glances([OTHER])
    assert other.failing is None and other.first == "other"


async def test_s20_a_glance_has_what_people_are_asked_what_is_held_and_what_was_given_up(
    world: World, store: Store, node: Session
) -> None:
    await made(node, AGENT)
    first, second, gone = call(), call(), message()
    await write(
        node,
        work(holds=[first, second], sends=[gone], decisions=[decision("d1", first.id), decision("d2", second.id)]),
    )
    [glance] = await store.glances([AGENT])
    assert glance.pending is not None and (glance.pending.id, glance.pending.tool) == ("d1", "issue_refund")
    assert glance.pending.arguments == '{"amount":9000}' and glance.held is None
    await store.decide(verdict("d1", hold_seconds=600.0), message(DESK))
    [glance] = await store.glances([AGENT])
    assert glance.pending is not None and glance.pending.id == "d2"
    assert glance.held is not None and (glance.held.id, glance.held.decided_by) == ("d1", "ann")
    assert glance.held.release_at > await store.now() + 500
    await write(node, work(acks=[gone.id], turns=[turn(gone, 0, "dead")], dead=[dead(gone, "failed", "550 no")]))
    [glance] = await store.glances([AGENT])
    assert (glance.dead, glance.dead_reason) == (1, "failed: 550 no")


async def test_s20_all_that_needs_attention_is_found_once_in_its_order(
    world: World, store: Store, node: Session
) -> None:
    asks, asked_later, gone, failed, gave_up, fails, calls, parks, paused, holds, quiet = (
        agent(name) for name in ("ask", "ask2", "gone", "fail", "up", "retry", "call", "park", "pause", "hold", "quiet")
    )
    await made(node, asks, asked_later, gone, failed, gave_up, fails, calls, parks, paused, holds, quiet)
    statuses: dict[str, ActorStatus] = {failed: "failed", gave_up: "escalated", parks: "parked", paused: "paused"}
    for address, status in statuses.items():
        await turned(node, address, 1, status=status)
    lost, again, third = message(gone), message(fails), call(shard_of(calls), sender=calls, reply_to=calls)
    await write(
        node, work(lost.shard, sends=[lost]), work(again.shard, sends=[again]), work(third.shard, sends=[third])
    )
    await write(
        node,
        work(lost.shard, acks=[lost.id], turns=[turn(lost, 0, "dead")], dead=[dead(lost)]),
        work(again.shard, retries=[retry(again, 60.0)]),
        work(third.shard, retries=[retry(third, 60.0)]),
    )
    for number, run in enumerate((holds, asks, asked_later, asks)):
        await write(node, work(decisions=[decision(f"d{number}", next_id(), run=run)]))
    await store.decide(verdict("d0", hold_seconds=60.0), message(DESK))
    assert await store.pressing() == [
        asks, asked_later, gone, failed, gave_up, fails, calls, parks, paused, holds
    ]  # fmt: skip
    assert await store.pressing(limit=3) == [asks, asked_later, gone]
    known = {row.row.address: row for row in await store.window()}
    assert set(known) == {*await store.pressing(), quiet}
    assert known[fails].failing and known[calls].failing and not known[quiet].failing


async def test_s20_what_nobody_serves_needs_attention_while_it_has_messages(
    world: World, store: Store, node: Session
) -> None:
    await made(node, AGENT, OTHER, agent("calls"))
    await write(node, work(sends=[message()]))
    asked = call(shard_of(agent("calls")), sender=agent("calls"), reply_to=agent("calls"))
    await write(node, work(asked.shard, sends=[asked]))
    assert await store.pressing() == []
    await node.leave()
    assert sorted(await store.pressing()) == sorted([AGENT, agent("calls")])
    glances = {row.row.address: row for row in await store.glances([AGENT, OTHER, agent("calls")])}
    assert not any(row.served for row in glances.values())
    assert (glances[AGENT].waiting_free, glances[agent("calls")].calls, glances[OTHER].calls) == (1, 1, 0)


async def test_s20_a_node_that_is_silent_serves_nobody(world: World, store: Store, node: Session) -> None:
    await made(node, AGENT)
    await write(node, work(sends=[message()]))
    await world.pass_time(30.0)
    assert await store.pressing() == [AGENT]
    [glance] = await store.glances([AGENT])
    assert not glance.served


# --- runs, newest first ----------------------------------------------------------------------------------------------


async def test_s20_actors_of_a_kind_come_newest_first_both_ways(world: World, store: Store, node: Session) -> None:
    order = [agent(name) for name in ("m", "c", "x", "a", "q")]
    for address in order:
        await made(node, address)
        await world.pass_time(1.0)
    await made(node, agent("z1"), agent("z2"), agent("z3"))
    await made(node, "/desk", kind="boss")
    for version, address in ((1, order[0]), (2, order[0]), (1, order[3])):
        await turned(node, address, version)
    whole = [one.address for one in await store.newest(kind="agent")]
    assert whole == [agent("z3"), agent("z2"), agent("z1"), *reversed(order)], "not by their last turns"
    for limit in (1, 2, 3):
        found = await store.newest(kind="agent", limit=limit)
        while more := await store.newest(kind="agent", after=(found[-1].created_at, found[-1].address), limit=limit):
            found += more
        assert [one.address for one in found] == whole
        back = await store.newest(kind="agent", last=True, limit=limit)
        while more := await store.newest(kind="agent", before=(back[0].created_at, back[0].address), limit=limit):
            back = [*more, *back]
        assert [one.address for one in back] == whole
    now = await store.now()
    assert all(0 <= now - one.created_at < 60 for one in found)


# --- depth over time -------------------------------------------------------------------------------------------------


async def test_s20_a_trend_tells_how_deep_a_mailbox_was(world: World, store: Store, node: Session) -> None:
    await made(node, AGENT, OTHER)
    now = await store.now()
    sent = [message(id=id_at(now) + number) for number in range(3)]
    await write(node, work(sends=sent))
    await world.pass_time(220.0)
    await write(node, work(acks=[sent[0].id], turns=[turn(sent[0], 2)]))
    await world.pass_time(150.0)
    await write(node, work(acks=[sent[1].id], turns=[turn(sent[1], 3)]), work(sends=[message()]))
    await world.pass_time(100.0)
    found = await store.trends([AGENT, OTHER])
    # Steps of 75 s, the last one now. 470 s ago three came, 250 s ago one went; 100 s ago one went and one came.
    assert found == {AGENT: [0, 3, 3, 3, 2, 2, 2, 2], OTHER: [0] * 8}


# --- counts ----------------------------------------------------------------------------------------------------------


async def test_s20_all_actors_are_counted_by_place_and_status(store: Store, node: Session) -> None:
    await made(node, *(agent(number) for number in range(5)), "/desk/agent:1/run:7")
    await made(node, "/desk", kind="boss")
    await turned(node, agent(0), 1, status="parked")
    await write(node, work(sends=[message(), message()]))
    asked = call(shard_of(OTHER), sender=OTHER, reply_to=OTHER)
    await write(node, work(asked.shard, sends=[asked]))
    found = {(one.place, one.keyed, one.kind, one.status): (one.actors, one.busy) for one in await store.tallies()}
    assert found == {
        ("/desk", False, "boss", "active"): (1, 0),
        ("/desk/agent", True, "agent", "active"): (5, 2),
        ("/desk/agent", True, "agent", "parked"): (1, 0),
    }


async def test_s20_alarms_are_counted(world: World, store: Store, node: Session) -> None:
    await made(node, AGENT, OTHER)
    await turned(node, OTHER, 1, status="paused")
    await write(node, work(decisions=[decision("d1", expires_seconds=600.0), decision("d2"), decision("d3")]))
    await store.decide(verdict("d3", hold_seconds=60.0), message(DESK))
    lost, again = message(), message()
    await write(node, work(sends=[lost, again]))
    await write(
        node, work(acks=[lost.id], turns=[turn(lost, 0, "dead")], dead=[dead(lost)], retries=[retry(again, 60.0)])
    )
    found = await store.alarms()
    assert [one.id for one in found.pending] == ["d1", "d2"]
    assert found.pending[0].expires_at > found.at + 500 and found.pending[1].expires_at == 0.0
    assert (found.to_decide, found.held, found.dead, found.failing) == (2, 1, 1, 1)
    assert (found.failed, found.escalated, found.parked, found.paused) == (0, 0, 0, 1)
    assert [member.number for member in found.members] == [node.number]


async def test_s20_looking_by_window_needs_no_journal_and_leaves_everything(store: Store, node: Session) -> None:
    await made(node, AGENT)
    await write(node, work(sends=[message()], events=[event(1)]))
    before = (await store.actor(AGENT), await store.peek(AGENT), await store.journal(AGENT))
    await store.window()
    await store.glances([AGENT])
    await store.pressing()
    await store.newest(kind="agent")
    await store.trends([AGENT])
    await store.tallies()
    await store.alarms()
    assert (await store.actor(AGENT), await store.peek(AGENT), await store.journal(AGENT)) == before
