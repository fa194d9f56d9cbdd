"""S13: audit rows are written in the transaction of what they tell of, or not at all."""

import pytest

from callboard.actors.client import Client
from callboard.mailbox.errors import BadRow, Conflict, UsageError
from callboard.mailbox.lane import Lane
from callboard.persistence.operating import AuditEntry
from tests.contract.build import message
from tests.contract.world import World

pytestmark = pytest.mark.anyio


def _entry(action: str = "tell", object: str = "/desk/clerk:1", **more: str) -> AuditEntry:
    return AuditEntry("ann", action, object, **more)


async def test_s13_a_message_and_its_audit_row_are_written_together(world: World) -> None:
    entry = _entry(label="Ann", channel="cli", host="desk-1", before="active", after="paused", note="why\nnot")
    sent = message()
    assert await world.store.send([sent], (), [entry]) == [True]
    [row] = await world.store.audit()
    assert (row.who, row.action, row.object) == ("ann", "tell", "/desk/clerk:1")
    assert (row.label, row.channel, row.host) == ("Ann", "cli", "desk-1")
    assert (row.before, row.after, row.note) == ("active", "paused", "why\nnot")
    assert row.at == pytest.approx(await world.store.now(), abs=60)
    assert [view.envelope.id for view in await world.store.peek(sent.recipient)] == [sent.id]


async def test_s13_a_message_that_is_refused_leaves_no_audit_row(world: World) -> None:
    await world.store.send([message(body='{"n":1}')], ["key"])
    with pytest.raises(Conflict):
        await world.store.send([message(body='{"n":2}')], ["key"], [_entry()])
    assert await world.store.audit() == []


async def test_s13_a_repeated_message_leaves_no_second_audit_row(world: World) -> None:
    for _ in range(2):
        await world.store.send([message()], ["key"], [_entry()])
    assert len(await world.store.audit()) == 1


async def test_s13_an_audit_row_that_cannot_be_stored_keeps_its_message_out(world: World) -> None:
    sent = message()
    with pytest.raises(BadRow):
        await world.store.send([sent], (), [_entry(note="a\0b")])
    assert await world.store.peek(sent.recipient) == []


@pytest.mark.parametrize("missing", [{"who": ""}, {"action": ""}, {"object": ""}])
async def test_s13_an_audit_row_names_who_did_what_to_what(world: World, missing: dict[str, str]) -> None:
    named = {"who": "ann", "action": "tell", "object": "/desk/clerk:1", **missing}
    sent = message()
    with pytest.raises(UsageError, match="names who"):
        await world.store.send([sent], (), [AuditEntry(**named)])
    assert await world.store.peek(sent.recipient) == []


async def test_s13_the_trail_is_newest_first_and_pages_by_number(world: World) -> None:
    for action in ("one", "two", "three"):
        await world.store.note(_entry(action))
    rows = await world.store.audit(limit=2)
    assert [row.action for row in rows] == ["three", "two"]
    assert rows[0].number > rows[1].number
    assert [row.action for row in await world.store.audit(before=rows[1].number)] == ["one"]
    assert await world.store.audit(limit=0) == await world.store.audit(limit=-1) == []


async def test_s13_the_trail_is_found_by_object_who_and_action(world: World) -> None:
    await world.store.note(_entry("pause", "/desk/clerk:1"))
    await world.store.note(_entry("pause", "/desk/clerk:2"))
    await world.store.note(AuditEntry("bob", "resume", "/desk/clerk:1"))
    assert [row.who for row in await world.store.audit(object="/desk/clerk:1")] == ["bob", "ann"]
    assert len(await world.store.audit(object="/desk/")) == 3
    assert [row.object for row in await world.store.audit(who="bob")] == ["/desk/clerk:1"]
    assert [row.object for row in await world.store.audit(action="pause", object="/desk/clerk:2")] == ["/desk/clerk:2"]
    assert await world.store.audit(object="/desk/clerk:1%") == []


async def test_s13_what_an_audited_client_sends_carries_its_row_and_ids_are_made_once(world: World) -> None:
    client = Client(world.store, world.port)
    from callboard.actors.system import Resume

    audited = client.audited(_entry("resume", "/desk/clerk:1"))
    for sender in (client, audited, client, audited):
        await sender.send("/desk/clerk:1", Resume(by="ann"), lane=Lane.SYSTEM)
    waiting = await world.store.peek("/desk/clerk:1")
    assert len({view.envelope.id for view in waiting}) == 4
    assert [row.action for row in await world.store.audit()] == ["resume", "resume"]
