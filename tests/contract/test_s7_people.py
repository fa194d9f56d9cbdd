"""S7: decisions that need several people, bar some, wait out a release hold, or are taken back. Nobody counts twice."""

from collections.abc import Callable
from typing import Any

import anyio
import pytest

from callboard.mailbox.errors import AlreadyDecided, Conflict, NotAllowed, NotFound, SignaturesMoved, UsageError
from callboard.persistence.rows import Decision, TakeBack, signatures_of
from callboard.persistence.store import Session, Store
from callboard.persistence.unit import Move
from tests.contract.build import DESK, decision, message, refused, unit, verdict, waiting, write
from tests.contract.world import World

pytestmark = pytest.mark.anyio

CHECKS = '[{"check":"stock","ok":false,"detail":"none left"}]'


async def gate(node: Session, identifier: str = "d1", **fields: object) -> None:
    held = message()
    await write(node, unit(f"/desk/agent:of-{identifier}", decisions=[decision(identifier, held.id, **fields)]))


async def row(store: Store, identifier: str = "d1") -> Decision:
    found = await store.decision(identifier)
    assert found is not None
    return found


async def at_once(count: int, act: Callable[[int], Any]) -> list[str]:
    """What `count` people get who act in the same moment: "won", or the error."""
    outcomes = [""] * count

    async def one(n: int) -> None:
        try:
            await act(n)
            outcomes[n] = "won"
        except Conflict as error:
            outcomes[n] = str(error)

    async with anyio.create_task_group() as group:
        for n in range(count):
            group.start_soon(one, n)
    return outcomes


async def test_s7_what_a_policy_asks_for_is_read_as_it_was_written(store: Store, node: Session) -> None:
    asked: dict[str, Any] = {
        "policy": "big+taint", "risk": "high", "needed": 2, "not_requester": True, "hold_seconds": 30.0,
        "provenance": '[{"path":"amount"}]', "checks": CHECKS, "replaces": "d0", "diff": "[]", "edited_by": '["eve"]',
    }  # fmt: skip
    await gate(node, **asked)
    found = await row(store)
    assert {name: getattr(found, name) for name in asked} == asked
    assert (found.signatures, found.hold_id) == ("", 0)
    assert await store.decisions(status="pending") == [found]


async def test_s7_of_two_that_are_needed_the_first_leaves_it_pending_and_tells_nobody(
    world: World, store: Store, node: Session
) -> None:
    await gate(node, needed=2)
    first = await store.decide(verdict(by="ann", note="fine", label="desk"), message(DESK))
    assert (first.status, first.decided_by, first.release_at) == ("pending", "", 0.0)
    [signed] = signatures_of(first)
    assert (signed.by, signed.label, signed.note) == ("ann", "desk", "fine")
    assert abs(signed.at - await store.now()) < 60
    assert await waiting(node, DESK) == []
    assert await world.audit("d1") == [("ann", "desk", "sign", "pending", "pending", "fine")]
    notice = message(DESK)
    second = await store.decide(verdict(by="bob", seen=1), notice)
    assert (second.status, second.decided_by) == ("approved", "ann, bob")
    assert [one.by for one in signatures_of(second)] == ["ann", "bob"]
    assert await waiting(node, DESK) == [notice.id]
    assert [entry[2] for entry in await world.audit("d1")] == ["sign", "decide"]


async def test_s7_nobody_counts_twice(world: World, store: Store, node: Session) -> None:
    await gate(node, needed=2)
    await store.decide(verdict(by="ann"), message(DESK))
    with pytest.raises(AlreadyDecided, match=r"approved by ann before \(1 of 2\)"):
        await store.decide(verdict(by="ann", seen=1), message(DESK))
    found = await row(store)
    assert (found.status, len(signatures_of(found)), await waiting(node, DESK)) == ("pending", 1, [])
    assert len(await world.audit("d1")) == 1


async def test_s7_one_no_ends_it_however_many_have_approved(store: Store, node: Session) -> None:
    await gate(node, needed=3)
    await store.decide(verdict(by="ann"), message(DESK))
    denied = await store.decide(verdict(by="bob", status="denied", note="no"), message(DESK))
    assert (denied.status, denied.decided_by, [s.by for s in signatures_of(denied)]) == ("denied", "bob", ["ann"])
    with pytest.raises(AlreadyDecided, match="denied by bob"):
        await store.decide(verdict(by="cy"), message(DESK))
    assert len(await waiting(node, DESK)) == 1


async def test_s7_a_notice_that_does_not_name_all_who_approved_is_not_sent(store: Store, node: Session) -> None:
    await gate(node, needed=3)
    for name in ("ann", "bob"):
        await store.decide(verdict(by=name), message(DESK))
    with pytest.raises(SignaturesMoved):
        await store.decide(verdict(by="cy", seen=1), message(DESK))
    assert (await row(store)).status == "pending"
    decided = await store.decide(verdict(by="cy", seen=2), message(DESK))
    assert (decided.status, decided.decided_by) == ("approved", "ann, bob, cy")


@pytest.mark.parametrize("by", ["ann", "eve"])
async def test_s7_who_asked_or_changed_it_may_not_approve_and_may_deny(store: Store, node: Session, by: str) -> None:
    await gate(node, requested_by="ann", edited_by='["cy","eve"]', not_requester=True, policy="four-eyes")
    with pytest.raises(NotAllowed, match=f"cannot be approved by {by}.*by {by}, and policy four-eyes"):
        await store.decide(verdict(by=by), message(DESK))
    assert (await row(store)).signatures == "" and await waiting(node, DESK) == []
    assert (await store.decide(verdict(by=by, status="denied"), message(DESK))).status == "denied"


async def test_s7_who_asked_may_approve_where_no_policy_says_otherwise(store: Store, node: Session) -> None:
    await gate(node, requested_by="ann", edited_by='["ann"]')
    assert (await store.decide(verdict(by="ann"), message(DESK))).status == "approved"


@pytest.mark.parametrize("by", ["", "  "])
async def test_w24_a_word_of_nobody_is_refused(store: Store, node: Session, by: str) -> None:
    await gate(node)
    for status in ("approved", "denied"):
        with pytest.raises(UsageError, match="name of who decides"):
            await store.decide(verdict(by=by, status=status), message(DESK))
    await store.decide(verdict(hold_seconds=60.0), message(DESK))
    with pytest.raises(UsageError, match="name of who decides"):
        await store.take_back(TakeBack("d1", (await row(store)).hold_id, by), message(DESK))


async def test_s7_the_hold_is_the_longer_of_what_the_policy_and_the_approver_ask_for(
    store: Store, node: Session
) -> None:
    for identifier, asked, lasts in (("d1", 0.0, 30.0), ("d2", 10.0, 30.0), ("d3", 90.0, 90.0)):
        await gate(node, identifier, run=f"/desk/agent:{identifier}", hold_seconds=30.0)
        notice = message(DESK)
        decided = await store.decide(verdict(identifier, hold_seconds=asked), notice)
        assert decided.release_at == pytest.approx(decided.decided_at + lasts, abs=0.01)
        assert decided.hold_id == notice.id


async def test_s7_what_is_taken_back_is_pending_as_if_nobody_had_approved(
    world: World, store: Store, node: Session
) -> None:
    await gate(node, hold_seconds=30.0, needed=2)
    await store.decide(verdict(by="ann"), message(DESK))
    approved = await store.decide(verdict(by="bob", seen=1), message(DESK))
    notice = message(DESK)
    found = await store.take_back(TakeBack("d1", approved.hold_id, "ann", "wrong one", "desk"), notice)
    assert found == await row(store)
    assert (found.status, found.decided_by, found.decided_at, found.release_at) == ("pending", "", 0.0, 0.0)
    assert (found.signatures, found.note, found.hold_id) == ("", "", 0)
    assert notice.id in await waiting(node, DESK)
    assert (await world.audit("d1"))[-1] == ("ann", "desk", "take back", "approved", "pending", "wrong one")
    assert (await store.decide(verdict(by="ann"), message(DESK))).status == "pending"


async def test_s7_only_the_hold_that_was_seen_is_taken_back(store: Store, node: Session) -> None:
    await gate(node, hold_seconds=30.0)
    first = await store.decide(verdict(by="ann"), message(DESK))
    await store.take_back(TakeBack("d1", first.hold_id, "ann"), message(DESK))
    await store.decide(verdict(by="bob"), message(DESK))
    with pytest.raises(Conflict, match="approved anew by bob"):
        await store.take_back(TakeBack("d1", first.hold_id, "ann"), message(DESK))
    assert (await row(store)).status == "approved"


async def test_s7_what_is_not_in_a_hold_cannot_be_taken_back(store: Store, node: Session) -> None:
    await gate(node)
    with pytest.raises(Conflict, match="is pending"):
        await store.take_back(TakeBack("d1", 1, "ann"), message(DESK))
    with pytest.raises(NotFound, match="d9"):
        await store.take_back(TakeBack("d9", 1, "ann"), message(DESK))
    await store.decide(verdict(by="ann"), message(DESK))
    with pytest.raises(AlreadyDecided, match="approved by ann and let go at 20"):
        await store.take_back(TakeBack("d1", 0, "ann"), message(DESK))
    await gate(node, "d2", run="/desk/agent:2")
    await store.decide(verdict("d2", by="bob", status="denied"), message(DESK))
    with pytest.raises(AlreadyDecided, match="denied by bob"):
        await store.take_back(TakeBack("d2", 1, "ann"), message(DESK))
    assert len(await waiting(node, DESK)) == 2


async def test_s7_an_approval_is_taken_back_or_let_go_never_both(store: Store, node: Session) -> None:
    await gate(node, hold_seconds=30.0)
    first = (await store.decide(verdict(), message(DESK))).hold_id
    ends = Move("d1", "approved", "approved", hold_id=first)
    await store.take_back(TakeBack("d1", first, "ann"), message(DESK))
    assert await refused(node, unit(DESK, moves=[ends])) == {0}
    second = (await store.decide(verdict(by="bob"), message(DESK))).hold_id
    assert await refused(node, unit(DESK, moves=[ends])) == {0}, "a late end of the first hold ends no other one"
    await write(node, unit(DESK, moves=[Move("d1", "approved", "approved", hold_id=second)]))
    with pytest.raises(AlreadyDecided, match="let go"):
        await store.take_back(TakeBack("d1", second, "bob"), message(DESK))
    found = await row(store)
    assert (found.status, found.hold_id, found.decided_by) == ("approved", 0, "bob")


async def test_s7_taking_back_races_with_letting_go_and_one_of_them_wins(store: Store, node: Session) -> None:
    for n in range(10):
        name = f"r{n}"
        await gate(node, name, run=f"/desk/agent:{name}", hold_seconds=30.0)
        hold = (await store.decide(verdict(name), message(DESK))).hold_id
        won: list[str] = []

        async def take_back(name: str = name, hold: int = hold, won: list[str] = won) -> None:
            try:
                await store.take_back(TakeBack(name, hold, "ann"), message(DESK))
                won.append("taken back")
            except AlreadyDecided:
                pass

        async def let_go(name: str = name, hold: int = hold, won: list[str] = won) -> None:
            moves = [Move(name, "approved", "approved", hold_id=hold)]
            if not (await node.commit([unit(f"/desk/other:{name}", moves=moves)])).rejected:
                won.append("let go")

        async with anyio.create_task_group() as group:
            for act in (take_back, let_go) if n % 2 else (let_go, take_back):
                group.start_soon(act)
        assert len(won) == 1
        assert (await row(store, name)).status == ("pending" if won == ["taken back"] else "approved")


async def test_s7_findings_are_kept_while_it_is_pending_and_change_nothing_else(store: Store, node: Session) -> None:
    await gate(node)
    before = await row(store)
    await write(node, unit(DESK, moves=[Move("d1", "pending", "pending", must=False, checks=CHECKS)]))
    found = await row(store)
    assert found.checks == CHECKS
    found.checks = ""
    assert found == before
    await store.decide(verdict(), message(DESK))
    late = Move("d1", "pending", "pending", must=False, checks="[]")
    await write(node, unit(DESK, expected=1, moves=[late]))
    assert (await row(store)).checks == CHECKS


async def test_s7_fifty_approve_at_once_where_three_are_needed_and_exactly_three_count(
    store: Store, node: Session
) -> None:
    await gate(node, needed=3)

    async def approve(n: int) -> None:
        while True:
            try:
                await store.decide(verdict(by=f"user{n:02}", seen=len(signatures_of(await row(store)))), message(DESK))
                return
            except SignaturesMoved:
                continue

    outcomes = await at_once(50, approve)
    assert outcomes.count("won") == 3
    found = await row(store)
    assert sorted(one.by for one in signatures_of(found)) == [
        f"user{n:02}" for n, o in enumerate(outcomes) if o == "won"
    ]
    assert all(found.decided_by in outcome for outcome in outcomes if outcome != "won")
    assert len(await waiting(node, DESK)) == 1


async def test_s7_one_person_who_clicks_fifty_times_counts_once(store: Store, node: Session) -> None:
    await gate(node, needed=2)
    outcomes = await at_once(50, lambda n: store.decide(verdict(by="ann"), message(DESK)))
    assert outcomes.count("won") == 1
    assert (await row(store)).status == "pending" and await waiting(node, DESK) == []


async def test_s7_an_edit_takes_the_question_away_before_anybody_else_can_answer_it(
    world: World, store: Store, node: Session
) -> None:
    await gate(node)
    outcomes = await at_once(
        20,
        lambda n: store.decide(verdict(by=f"user{n:02}", status="approved" if n % 2 else "superseded"), message(DESK)),
    )
    assert outcomes.count("won") == 1
    found = await row(store)
    assert found.status in ("approved", "superseded")
    assert all(found.decided_by in outcome for outcome in outcomes if outcome != "won")
    assert len(await waiting(node, DESK)) == 1 and len(await world.audit("d1")) == 1
