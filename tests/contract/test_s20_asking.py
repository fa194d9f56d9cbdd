"""S20: decisions that wait are listed by windows, in the order of asking, whatever is decided meanwhile."""

import pytest

from callboard.persistence.store import Session, Store
from tests.contract.build import decision, message, unit, verdict, write

pytestmark = pytest.mark.anyio


async def asked(node: Session, *ids: str) -> None:
    units = [unit(f"/desk/agent:of-{one}", decisions=[decision(one, message().id)]) for one in ids]
    for one in units:
        await write(node, one)


async def ids(store: Store, *, after: str = "", limit: int = 100) -> list[str]:
    return [one.id for one in await store.asking(after=after, limit=limit)]


async def test_s20_what_waits_for_a_decision_is_listed_page_by_page_in_the_order_of_asking(
    store: Store, node: Session
) -> None:
    await asked(node, "d3", "d1", "d2", "d5", "d4")
    assert await ids(store) == ["d3", "d1", "d2", "d5", "d4"]
    assert await ids(store, limit=2) == ["d3", "d1"] and await ids(store, limit=0) == []
    assert await ids(store, after="d1", limit=2) == ["d2", "d5"] and await ids(store, after="d4") == []


async def test_s20_a_page_goes_on_from_one_that_was_decided_meanwhile(store: Store, node: Session) -> None:
    await asked(node, "d1", "d2", "d3")
    await store.decide(verdict("d2", status="denied"), message("/desk/approvals"))
    assert await ids(store) == ["d1", "d3"] and await ids(store, after="d2") == ["d3"]


async def test_s20_another_mark_says_that_somebody_signed(store: Store, node: Session) -> None:
    await write(node, unit("/desk/agent:of-d1", decisions=[decision("d1", message().id, needed=2)]))
    [before] = await store.asking()
    assert await store.asking() == [before]
    await store.decide(verdict("d1"), message("/desk/approvals"))
    [after] = await store.asking()
    assert after.id == before.id and after.mark != before.mark


async def test_s20_decisions_are_read_by_their_ids_in_one_go(store: Store, node: Session) -> None:
    await asked(node, "d1", "d2", "d3")
    found = {row.id: row for row in await store.decisions_of(["d3", "nobody", "d1", "d1"])}
    assert set(found) == {"d1", "d3"} and found["d1"] == await store.decision("d1")
    assert await store.decisions_of([]) == []
