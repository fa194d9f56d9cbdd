"""S22: what is still needed is never removed; what is removed goes whole, with its audit row, and only once."""

import anyio
import msgspec
import pytest

from callboard.mailbox.address import shard_of
from callboard.mailbox.errors import UsageError
from callboard.persistence.operating import AuditEntry
from callboard.persistence.retention import OLD_KINDS, Old, OldKind, OldPage, Removed
from callboard.persistence.store import Session, Store
from callboard.persistence.unit import Unit
from tests.contract.build import (
    AGENT,
    DESK,
    OTHER,
    TOOL,
    actor,
    call,
    dead,
    decision,
    event,
    message,
    next_id,
    timer,
    turn,
    unit,
    verdict,
    work,
    write,
)  # fmt: skip
from tests.contract.world import World

pytestmark = pytest.mark.anyio

CHILD = f"{AGENT}/sub:2"
ENTRY = AuditEntry("ann", "prune", "retention", channel="cli")
DAY = 86_400.0


async def old(store: Store, kind: OldKind = "runs", *, before: float | None = None, records: bool = False) -> list[Old]:
    """All that may go, found in pages of one: a page's end is where mistakes are made."""
    before = await store.now() + 1 if before is None else before
    found: list[Old] = []
    after = ""
    while True:
        page: OldPage = await store.old(kind, before=before, after=after, limit=1, records=records)
        found += page.items
        if page.end:
            return found
        assert page.after != after
        after = page.after


async def remove(store: Store, items: list[Old], kind: OldKind = "runs", *, before: float | None = None) -> Removed:
    before = await store.now() + 1 if before is None else before
    return await store.remove_old(kind, [item.key for item in items], before=before, entry=ENTRY)


async def finish(node: Session, address: str = AGENT, *, status: str = "completed", **rows: object) -> None:
    """An actor that lived for one turn: it handled a message and recorded two events."""
    opened = message(address)
    await write(node, work(opened.shard, sends=[opened]))
    ended = unit(address, acks=[opened.id], turns=[turn(opened)], events=[event(1, address), event(2, address)])
    assert ended.actor is not None
    row = msgspec.structs.replace(ended.actor, status=status, events=2, reason="" if status == "completed" else "why")
    await write(node, msgspec.structs.replace(ended, actor=row, **rows))


async def test_s22_a_run_that_has_ended_goes_with_all_that_it_left(store: Store, node: Session) -> None:
    await finish(node)
    await finish(node, OTHER, status="cancelled")
    items = await old(store)
    assert [item.rows for item in items] == [4, 4] and all(item.bytes > 0 and not item.record for item in items)
    assert await store.actor(AGENT) is not None, "looking changes nothing"
    assert await store.audit() == []
    removed = await remove(store, items[:1])
    assert (removed.items, removed.rows) == (1, 4) and removed.bytes > 0
    assert await store.actor(AGENT) is None
    assert await store.journal(AGENT) == [] and await store.turns(AGENT) == []
    assert await store.actor(OTHER) is not None and len(await store.journal(OTHER)) == 2
    [row] = await store.audit()
    assert (row.who, row.action, row.object, row.channel) == ("ann", "prune", "retention", "cli")
    assert row.after.startswith("1 runs gone, 4 rows, ")


async def test_s22_removing_twice_removes_once(store: Store, node: Session) -> None:
    await finish(node)
    items = await old(store)
    assert (await remove(store, items)).items == 1
    assert await remove(store, items) == Removed()
    assert await remove(store, []) == Removed()
    assert len(await store.audit()) == 1, "nothing was done the second time, and nothing is said of it"


async def test_s22_two_who_remove_at_once_remove_once(store: Store, node: Session) -> None:
    for number in range(10):
        await finish(node, f"/desk/agent:many-{number}")
    items = await old(store)
    counts: list[int] = []

    async def one() -> None:
        counts.append((await remove(store, items)).items)

    async with anyio.create_task_group() as group:
        for _ in range(4):
            group.start_soon(one)
    assert sum(counts) == 10
    assert sum(int(row.after.split()[0]) for row in await store.audit()) == 10


async def test_s22_nothing_goes_that_ended_later(store: Store, node: Session, world: World) -> None:
    await finish(node)
    before = await store.now() - DAY
    assert await old(store, before=before) == []
    items = await old(store)
    assert await remove(store, items, before=before) == Removed(), "it is judged again"
    await world.pass_time(2 * DAY)
    assert len(await old(store, before=await store.now() - DAY)) == 1


@pytest.mark.parametrize("status", ["active", "failed", "parked", "paused", "escalated", "stopped"])
async def test_s22_a_run_that_has_not_ended_stays(store: Store, node: Session, status: str) -> None:
    await finish(node, status=status)
    assert await old(store) == []


async def test_s22_an_actor_without_a_key_stays(store: Store, node: Session) -> None:
    await finish(node, "/desk/office")
    assert await old(store) == []


async def test_s22_a_run_and_its_children_go_together_or_not_at_all(store: Store, node: Session) -> None:
    await finish(node)
    await finish(node, CHILD, status="active")
    await finish(node, AGENT + "1")  # begins alike, and is another one
    found = await old(store)
    assert [msgspec.json.decode(item.key)[1] for item in found] == [AGENT + "1"]
    child = msgspec.structs.replace(actor(CHILD, 2), status="completed", events=2)
    await write(node, Unit(shard=shard_of(CHILD), actor=child, expected=1))
    items = await old(store)
    assert sorted(item.rows for item in items) == [4, 8]
    assert (await remove(store, [item for item in items if item.rows == 8])).rows == 8
    assert await store.actor(CHILD) is None and await store.journal(CHILD) == []
    assert await store.actor(AGENT + "1") is not None


async def test_s22_a_run_that_changed_since_it_was_looked_at_stays(store: Store, node: Session) -> None:
    await finish(node)
    items = await old(store)
    row = msgspec.structs.replace(actor(AGENT, 2), status="completed", events=2)
    await write(node, Unit(shard=shard_of(AGENT), actor=row, expected=1))
    assert await remove(store, items) == Removed()
    assert await store.actor(AGENT) is not None


async def test_s22_a_run_stays_while_a_message_for_it_waits(store: Store, node: Session) -> None:
    await finish(node)
    late = message()
    await store.send([late])
    assert await old(store) == []
    await write(node, work(late.shard, acks=[late.id], turns=[turn(late, 0, "refused")]))
    assert len(await old(store)) == 1


@pytest.mark.parametrize("held", [False, True])
async def test_s22_a_run_stays_while_its_call_waits(store: Store, node: Session, *, held: bool) -> None:
    asked = call(sender=AGENT, reply_to=AGENT)
    await finish(node, holds=[asked] if held else [], sends=[] if held else [asked])
    assert await old(store) == []


async def test_s22_a_run_stays_while_it_has_a_timer(store: Store, node: Session) -> None:
    await finish(node, timers=[timer(delay_seconds=60.0)])
    assert await old(store) == []


async def test_s22_a_run_stays_while_a_decision_about_it_is_open(store: Store, node: Session) -> None:
    await finish(node, decisions=[decision("d1", next_id())])
    assert await old(store) == []
    assert await old(store, "decisions") == []
    await store.decide(verdict("d1", status="denied"), message(DESK))
    [item] = await old(store, records=True)
    assert item.rows == 5
    await remove(store, [item])
    assert await store.decision("d1") is None


@pytest.mark.parametrize("by", ["recipient", "sender"])
async def test_s22_a_run_stays_while_a_dead_letter_is_open(store: Store, node: Session, by: str) -> None:
    await finish(node)
    given_up = message() if by == "recipient" else message(TOOL, shard=shard_of(AGENT), sender=AGENT)
    await write(node, work(given_up.shard, sends=[given_up]))
    await write(
        node,
        work(given_up.shard, acks=[given_up.id], turns=[turn(given_up, 0, "dead")], dead=[dead(given_up)]),
    )
    assert await old(store) == []
    [letter] = await store.dead_letters()
    await store.discard(letter.number, ENTRY)
    assert len(await old(store)) == 1
    alone = await old(store, "dead-letters")
    assert len(alone) == (0 if by == "recipient" else 1), "a run's own goes with it"


async def test_s22_a_run_stays_while_a_fork_goes_on_from_its_journal(store: Store, node: Session) -> None:
    await finish(node)
    body = f'{{"type":"run.forked","run_id":"2","at":1.5,"origin":"{AGENT}","origin_seq":1,"state":{{}}}}'
    forked = event(1, OTHER, type="run.forked", body=body)
    await write(node, unit(OTHER, events=[forked]))
    assert await old(store) == []
    row = msgspec.structs.replace(actor(OTHER, 2), status="completed", events=1)
    await write(node, Unit(shard=shard_of(OTHER), actor=row, expected=1))
    [fork] = await old(store)
    assert msgspec.json.decode(fork.key)[1] == OTHER, "the fork goes first"
    await remove(store, [fork])
    assert len(await old(store)) == 1


async def test_s22_a_record_holds_all_of_a_run(store: Store, node: Session) -> None:
    await finish(node)
    await finish(node, CHILD)
    [item] = await old(store, records=True)
    record = msgspec.json.decode(item.record)
    assert {name: len(rows) for name, rows in record.items()} == {
        "actors": 2, "journal": 4, "turns": 2, "decisions": 0, "dead_letters": 0,
    }  # fmt: skip
    assert [row["address"] for row in record["actors"]] == [AGENT, CHILD]
    assert [(row["address"], row["seq"]) for row in record["journal"]] == [
        (AGENT, 1),
        (AGENT, 2),
        (CHILD, 1),
        (CHILD, 2),
    ]
    assert record["journal"][0]["body"] == '{"n":1}'


async def test_s22_an_id_can_begin_anew_once_its_run_is_gone(store: Store, node: Session) -> None:
    await finish(node)
    await remove(store, await old(store))
    await finish(node)
    assert [row.seq for row in await store.journal(AGENT)] == [1, 2]


async def test_s22_a_client_id_is_known_for_seven_days_whatever_goes(store: Store, node: Session, world: World) -> None:
    first = message()
    assert await store.send([first], ["key"]) == [True]
    row = msgspec.structs.replace(actor(), status="completed")
    await write(node, Unit(shard=first.shard, actor=row, expected=0, acks=[first.id], turns=[turn(first)]))
    assert (await remove(store, await old(store))).items == 1
    assert await old(store, "client-ids") == []
    assert await store.send([message()], ["key"]) == [False]
    await world.pass_time(7 * DAY + 60)
    items = await old(store, "client-ids")
    assert (await remove(store, items, "client-ids")).items == 1
    assert await store.send([message()], ["key"]) == [True]


async def test_s22_turns_of_workers_go_once_their_run_is_gone(store: Store, node: Session) -> None:
    asked = call(sender=AGENT, reply_to=AGENT)
    await finish(node, sends=[asked])
    await write(node, work(asked.shard, acks=[asked.id], turns=[turn(asked, 0)]))
    lone = call(sender="/desk/office")
    await write(node, work(lone.shard, sends=[lone]))
    await write(node, work(lone.shard, acks=[lone.id], turns=[turn(lone, 0)]))
    [item] = await old(store, "turns")
    assert msgspec.json.decode(item.key)[3] == lone.id, "a run's calls stay for as long as it does"
    await remove(store, await old(store))
    items = await old(store, "turns")
    assert (await remove(store, items, "turns")).items == 2
    assert await store.turns(TOOL) == []


async def test_s22_turns_of_an_actor_without_a_key_go_by_age(store: Store, node: Session, world: World) -> None:
    await finish(node, "/desk/office", status="active")
    await world.pass_time(2 * DAY)
    later = message("/desk/office")
    await write(node, work(later.shard, sends=[later]))
    await write(node, unit("/desk/office", expected=1, acks=[later.id], turns=[turn(later, 2)]))
    before = await store.now() - DAY
    items = await old(store, "turns", before=before)
    assert (await remove(store, items, "turns", before=before)).items == 1
    assert [row.version for row in await store.turns("/desk/office")] == [2]
    assert len(await store.journal("/desk/office")) == 2, "its journal stays"


async def test_s22_only_settled_dead_letters_go(store: Store, node: Session) -> None:
    for _ in range(3):
        given_up = message("/desk/office")
        await write(node, work(given_up.shard, sends=[given_up]))
        letters = [turn(given_up, 0, "dead")]
        await write(node, work(given_up.shard, acks=[given_up.id], turns=letters, dead=[dead(given_up)]))
    numbers = [letter.number for letter in reversed(await store.dead_letters())]
    await store.discard(numbers[1], ENTRY)
    items = await old(store, "dead-letters")
    assert len(items) == 1 and (await remove(store, items, "dead-letters")).items == 1
    assert [letter.number for letter in await store.dead_letters()] == [numbers[2], numbers[0]]
    given_up = message("/desk/office")
    await write(node, work(given_up.shard, sends=[given_up]))
    await write(
        node, work(given_up.shard, acks=[given_up.id], turns=[turn(given_up, 0, "dead")], dead=[dead(given_up)])
    )
    assert (await store.dead_letters())[0].number > numbers[2], "a number is used once"


async def test_s22_the_trail_goes_by_age_and_its_numbers_are_used_once(
    store: Store, node: Session, world: World
) -> None:
    await store.note(AuditEntry("ann", "submit", AGENT))
    await store.note(AuditEntry("ann", "submit", OTHER))
    numbers = [row.number for row in await store.audit()]
    await world.pass_time(2 * DAY)
    before = await store.now() - DAY
    await store.note(AuditEntry("bob", "cancel", AGENT))
    items = await old(store, "audit", before=before, records=True)
    assert [msgspec.json.decode(item.record)["object"] for item in items] == [AGENT, OTHER]
    assert (await remove(store, items, "audit", before=before)).items == 2
    rows = await store.audit()
    assert [(row.who, row.action) for row in rows] == [("ann", "prune"), ("bob", "cancel")]
    assert rows[1].number > max(numbers)


async def test_s22_answers_and_mailboxes_from_outside_go_after_a_day(store: Store, node: Session, world: World) -> None:
    asker = "/sys/client:1024-abc"
    await store.begin_answer("ann", "key", b"x" * 32)
    await write(node, work(sends=[message(asker, sender=AGENT)]))
    kinds: tuple[OldKind, ...] = ("answers", "client-mailboxes")
    for kind in kinds:
        assert await old(store, kind) == []
    await world.pass_time(2 * DAY)
    for kind in kinds:
        items = await old(store, kind)
        assert (await remove(store, items, kind)).items == 1
        assert await old(store, kind) == []
    assert await store.peek(asker) == []


async def test_s22_the_feed_goes_on_past_what_was_removed(store: Store, node: Session) -> None:
    await finish(node)
    start = await store.feed("", limit=1)
    await finish(node, OTHER)
    await remove(store, [item for item in await old(store) if OTHER in item.key])
    await write(node, unit("/desk/agent:3", events=[event(1, "/desk/agent:3")]))
    page = await store.feed(start.cursor)
    assert [(one.address, one.seq) for one in page.events] == [(AGENT, 2), ("/desk/agent:3", 1)]


async def test_s22_what_breaks_no_invariant_before_breaks_none_after(store: Store, node: Session, world: World) -> None:
    await finish(node)
    await finish(node, OTHER)
    assert await world.violations() == []
    for kind in OLD_KINDS:
        await remove(store, await old(store, kind), kind)
    assert await world.violations() == []


async def test_s22_who_removes_is_named(store: Store, node: Session) -> None:
    await finish(node)
    [item] = await old(store)
    with pytest.raises(UsageError):
        await store.remove_old("runs", [item.key], before=await store.now() + 1, entry=AuditEntry("", "prune", "x"))
    assert await store.actor(AGENT) is not None
