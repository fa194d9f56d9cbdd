"""S4, its exception: a charge with the end of a process need not hit, and is no retry."""

import pytest

from callboard.persistence.store import Session, Store
from tests.contract.build import AGENT, message, retry, unit, waiting, work, write

pytestmark = pytest.mark.anyio

FAR = "/crm/ticket:77"


async def losses(store: Store, address: str = AGENT) -> dict[int, int]:
    return {view.envelope.id: view.envelope.losses for view in await store.peek(address)}


async def test_s4_a_charge_is_one_loss_more_for_each_time_a_message_is_named(store: Store, node: Session) -> None:
    waits, held, spared = message(), message(), message()
    await write(node, work(sends=[waits, spared], holds=[held]))
    await write(node, work(charges=[waits.id]), work(charges=[waits.id, held.id, waits.id]))
    assert await losses(store) == {waits.id: 3, held.id: 1, spared.id: 0}
    assert await waiting(node) == [waits.id, spared.id], "it waits where it was"


async def test_s4_a_charge_of_a_message_that_is_gone_does_nothing(store: Store, node: Session) -> None:
    gone, elsewhere = message(), message(FAR)
    await write(node, work(sends=[gone, elsewhere]))
    await write(node, work(acks=[gone.id]))
    await write(node, work(charges=[gone.id, elsewhere.id, 404]))
    assert await losses(store) == {}
    assert await losses(store, FAR) == {elsewhere.id: 0}, "a charge touches its own shard only"


async def test_s4_a_retry_of_the_batch_sets_what_a_charge_has_counted(store: Store, node: Session) -> None:
    waits = message()
    await write(node, work(sends=[waits]))
    again = retry(waits)
    again.losses = 7
    await write(node, unit(retries=[again]), work(charges=[waits.id]))
    assert await losses(store) == {waits.id: 7}
