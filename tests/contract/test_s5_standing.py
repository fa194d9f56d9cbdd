"""S5: the mailboxes of actors that stand still can be passed over, but for their system lane."""

import pytest

from callboard.mailbox.lane import Lane
from callboard.persistence.rows import STANDING, ActorStatus
from callboard.persistence.store import Session
from tests.contract.build import AGENT, OTHER, actor, ids, message, waiting, work, write

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("status", "reason", "passed_over"),
    [
        ("active", "", False),
        ("failed", "boom", False),
        ("completed", "", False),
        ("cancelled", "", False),
        ("parked", "a person must look", True),
        ("parked", "schema: unreadable", False),
        ("paused", "by jo", True),
        ("stopped", "shutdown", True),
        ("escalated", "too many", True),
    ],
)
async def test_s5_what_stands_still_gives_only_its_system_lane_where_it_is_passed_over(
    node: Session, status: ActorStatus, reason: str, passed_over: bool
) -> None:
    assert passed_over <= (status in STANDING)
    system, reply, normal = (message(lane=int(lane)) for lane in (Lane.SYSTEM, Lane.REPLY, Lane.NORMAL))
    beside = message(OTHER)
    await write(node, work(actor=actor(status=status, reason=reason)), work(sends=[normal, system, reply, beside]))
    everything = [system.id, reply.id, normal.id]
    found, _ = await node.ready(range(256), per_actor=10, limit=100, standing=False)
    assert [e.id for e in found if e.recipient == AGENT] == ([system.id] if passed_over else everything)
    assert beside.id in ids(found)
    found, _ = await node.ready(range(256), per_actor=10, limit=100)
    assert [e.id for e in found if e.recipient == AGENT] == everything
    assert await waiting(node) == everything


async def test_s5_pages_go_on_past_what_is_passed_over(node: Session) -> None:
    names = [f"{AGENT}/child:{n}" for n in range(6)]
    for name in names[::2]:
        await write(node, work(actor=actor(name, status="parked")))
    await write(node, work(sends=[message(name) for name in names for _ in range(3)]))
    found, cursor = [], ""
    while True:
        page, cursor = await node.ready(range(256), per_actor=3, limit=4, beyond=cursor, standing=False)
        found += page
        if not cursor:
            break
    assert sorted(e.recipient for e in found) == sorted(names[1::2] * 3)
