"""S7: a decision leaves `pending` once, to one verdict; the loser learns who decided."""

import anyio
import pytest

from callboard.mailbox.errors import AlreadyDecided, Conflict, NotFound
from callboard.persistence.store import Session, Store
from callboard.persistence.unit import Move
from tests.contract.build import AGENT, DESK, decision, message, refused, unit, verdict, waiting, write
from tests.contract.world import World

pytestmark = pytest.mark.anyio


async def gate(node: Session, identifier: str = "d1", **fields: object) -> int:
    """Hold a message for a decision; the message's id."""
    held = message()
    address = f"/desk/agent:of-{identifier}"
    await write(node, unit(address, decisions=[decision(identifier, held.id, **fields)]))
    return held.id


async def test_s7_a_request_is_read_as_it_was_written(store: Store, node: Session) -> None:
    held_id = await gate(node, expires_seconds=600.0)
    now = await store.now()
    found = await store.decision("d1")
    assert found is not None
    assert (found.status, found.message_id, found.run, found.approvals) == ("pending", held_id, AGENT, DESK)
    assert (found.kind, found.tool, found.arguments) == ("approval", "issue_refund", '{"amount":9000}')
    assert (found.digest, found.reason, found.requested_by) == ("d" * 64, "amount above 5000", "agent")
    assert abs(found.requested_at - now) < 60
    assert found.expires_at == pytest.approx(found.requested_at + 600.0, abs=0.01)
    assert await store.decision("d2") is None


@pytest.mark.parametrize("status", ["approved", "denied"])
async def test_s7_a_verdict_is_recorded_with_its_notice(store: Store, node: Session, status: str) -> None:
    await gate(node)
    notice = message(DESK)
    decided = await store.decide(verdict(status=status, note="looks right"), notice)
    assert (decided.status, decided.decided_by, decided.note) == (status, "ann", "looks right")
    assert abs(decided.decided_at - await store.now()) < 60
    assert await store.decision("d1") == decided
    assert await waiting(node, DESK) == [notice.id]


async def test_s7_an_approval_may_be_held_back_for_a_while(store: Store, node: Session) -> None:
    await gate(node)
    decided = await store.decide(verdict(hold_seconds=20.0), message(DESK))
    assert decided.release_at == pytest.approx(decided.decided_at + 20.0, abs=0.01)


async def test_s7_the_second_verdict_is_refused_with_the_name_of_the_first_decider(store: Store, node: Session) -> None:
    await gate(node)
    await store.decide(verdict(by="ann", status="denied"), message(DESK))
    with pytest.raises(AlreadyDecided, match="ann"):
        await store.decide(verdict(by="bob"), message(DESK))
    found = await store.decision("d1")
    assert found is not None
    assert (found.status, found.decided_by) == ("denied", "ann")
    assert len(await waiting(node, DESK)) == 1, "a refused verdict leaves no notice"


async def test_s7_of_fifty_deciders_at_once_one_wins_and_the_others_learn_who(store: Store, node: Session) -> None:
    await gate(node)
    winners: list[str] = []
    losses: list[str] = []

    async def decide(name: str) -> None:
        try:
            await store.decide(verdict(by=name, status="denied" if int(name[4:]) % 2 else "approved"), message(DESK))
            winners.append(name)
        except AlreadyDecided as error:
            losses.append(str(error))

    async with anyio.create_task_group() as group:
        for n in range(50):
            group.start_soon(decide, f"user{n:02}")
    assert len(winners) == 1
    assert len(losses) == 49
    assert all(winners[0] in loss for loss in losses)
    found = await store.decision("d1")
    assert found is not None
    assert found.decided_by == winners[0]
    assert len(await waiting(node, DESK)) == 1


async def test_s7_other_arguments_than_those_on_record_are_refused(store: Store, node: Session) -> None:
    await gate(node)
    with pytest.raises(Conflict) as caught:
        await store.decide(verdict(digest="e" * 64), message(DESK))
    assert not isinstance(caught.value, AlreadyDecided)
    found = await store.decision("d1")
    assert found is not None
    assert found.status == "pending"
    assert await waiting(node, DESK) == []


async def test_s7_an_unknown_decision_is_not_found(store: Store, node: Session) -> None:
    with pytest.raises(NotFound, match="d9"):
        await store.decide(verdict("d9"), message(DESK))
    assert await waiting(node, DESK) == []


async def test_s7_what_has_expired_cannot_be_approved(world: World, store: Store, node: Session) -> None:
    await gate(node, expires_seconds=60.0)
    await world.pass_time(61)
    with pytest.raises(AlreadyDecided):
        await store.decide(verdict(), message(DESK))
    decided = await store.decide(verdict(status="expired", by="the clock"), message(DESK))
    assert decided.status == "expired"
    with pytest.raises(AlreadyDecided):
        await store.decide(verdict(), message(DESK))
    assert len(await waiting(node, DESK)) == 1


async def test_s7_what_has_no_expiry_can_be_decided_late(world: World, store: Store, node: Session) -> None:
    await gate(node)
    await world.pass_time(30 * 86_400)
    assert (await store.decide(verdict(), message(DESK))).status == "approved"


async def test_s7_a_move_is_a_compare_and_set_within_its_unit(store: Store, node: Session) -> None:
    await gate(node)
    move = Move("d1", "approved", "released", note="went out")
    assert await refused(node, unit(DESK, moves=[move])) == {0}
    await store.decide(verdict(), message(DESK))
    await write(node, unit(DESK, moves=[move]))
    found = await store.decision("d1")
    assert found is not None
    assert (found.status, found.decided_by, found.note) == ("released", "ann", "went out")
    assert await refused(node, unit(DESK, expected=1, moves=[move])) == {0}
    assert await refused(node, unit(DESK, expected=1, moves=[Move("d9", "approved", "released")])) == {0}


async def test_s7_a_move_that_need_not_hit_lets_its_unit_commit(store: Store, node: Session) -> None:
    await gate(node)
    await store.decide(verdict(by="ann", status="denied"), message(DESK))
    late = Move("d1", "pending", "superseded", note="too late", must=False)
    await write(node, unit(DESK, moves=[late, Move("d9", "pending", "superseded", must=False)]))
    found = await store.decision("d1")
    assert found is not None
    assert (found.status, found.decided_by, found.note) == ("denied", "ann", "")
    assert await store.decision("d9") is None


async def test_s7_two_units_of_a_batch_cannot_both_move_a_decision(store: Store, node: Session) -> None:
    await gate(node)
    move = Move("d1", "pending", "superseded")
    left_out = await refused(node, unit("/desk/agent:8", moves=[move]), unit("/desk/agent:9", moves=[move]))
    assert len(left_out) == 1


async def test_s7_decisions_are_listed_oldest_first(world: World, store: Store, node: Session) -> None:
    for identifier in ("d3", "d1", "d2"):
        await gate(node, identifier, run=f"/desk/agent:{identifier}")
        await world.pass_time(1)
    await store.decide(verdict("d1"), message(DESK))
    assert [d.id for d in await store.decisions()] == ["d3", "d1", "d2"]
    assert [d.id for d in await store.decisions(status="pending")] == ["d3", "d2"]
    assert [d.id for d in await store.decisions(status="approved")] == ["d1"]
    assert [d.id for d in await store.decisions(run="/desk/agent:d2")] == ["d2"]
    assert [d.id for d in await store.decisions(limit=2)] == ["d3", "d1"]


async def test_s7_decisions_can_be_made_while_no_node_runs(world: World, store: Store) -> None:
    async with world.join() as session:
        await gate(session)
    assert (await store.decide(verdict(), message(DESK))).status == "approved"
    assert [view.envelope.recipient for view in await store.peek(DESK)] == [DESK]
