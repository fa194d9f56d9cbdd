"""Closing an account over real tables: taken once or taken back once, and all as it was where it cannot be closed."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from callboard.actors.node import Node, NodeSettings
from callboard.actors.spec import Child, Supervisor, Tree
from callboard.crm.closing import DeskClosing
from callboard.crm.offboarding import STEPS, Offboarder, Offboarding, Refused, Step
from callboard.persistence.port import RealPort
from callboard.persistence.postgres import PostgresStore
from callboard.persistence.postgres.database import Database

pytestmark = pytest.mark.anyio

ACCOUNT, EMAIL = "noor.haddadi", "noor.haddadi@example.org"
SETTINGS = NodeSettings(lease_seconds=1.0, beat_seconds=0.2, drain_seconds=0.5)


async def ask(owner: Database, key: str = "key-1") -> str:
    sql = "INSERT INTO crm.offboarding (account_id, reason, approval, idempotency_key) VALUES (%s, 'leaves', 'd', %s)"
    row = await owner.row(f"{sql} RETURNING offboarding_id", (ACCOUNT, key))
    assert row is not None
    return str(row["offboarding_id"])


async def order_something(owner: Database) -> None:
    await owner.execute(
        "INSERT INTO crm.sales_order SELECT '#S99999', account_id, 'pending', line1, line2, city, state, country,"
        " postcode, '{}' FROM crm.account WHERE account_id = %s",
        (ACCOUNT,),
    )


async def write_ticket(owner: Database) -> None:
    await owner.execute("INSERT INTO crm.ticket (ticket_id, from_email, subject) VALUES ('T-1', %s, 'Bye')", (EMAIL,))


async def things(owner: Database) -> list[list[dict[str, Any]]]:
    """The account and its subscriptions, as somebody sees them."""
    return [
        await owner.rows(
            "SELECT subscription_id, status, renews, paid_until, paused_at FROM crm.subscription"
            " WHERE account_id = %s ORDER BY 1",
            (ACCOUNT,),
        ),
        await owner.rows("SELECT status, email, line1 FROM crm.account WHERE account_id = %s", (ACCOUNT,)),
    ]


async def state(owner: Database) -> str:
    [row] = await owner.rows("SELECT state FROM crm.offboarding")
    return str(row["state"])


async def notes(owner: Database) -> list[str]:
    return [row["body"] for row in await owner.rows("SELECT body FROM crm.activity WHERE ticket_id = 'T-1'")]


async def exports(owner: Database) -> list[dict[str, Any]]:
    return await owner.rows("SELECT content, withdrawn_at IS NOT NULL AS withdrawn FROM crm.contact_export")


async def test_all_three_steps_leave_the_account_closed_its_data_written_out_and_nothing_that_renews(
    small: Database, small_owner: Database
) -> None:
    closing, one = DeskClosing(small), await ask(small_owner)
    assert [opened.offboarding for opened in await closing.asked(10)] == [one]
    for step in STEPS:
        await closing.take(one, step)
    await closing.finish(one, "")
    subscriptions, [account] = await things(small_owner)
    assert {row["status"] for row in subscriptions} == {"cancelled"}
    assert account["status"] == "closed"
    [export] = await exports(small_owner)
    assert export["content"]["account"]["email"] == EMAIL and not export["withdrawn"]
    assert (await state(small_owner), await closing.asked(10)) == ("done", [])


async def test_a_step_that_is_taken_by_many_at_once_is_taken_once(small: Database, small_owner: Database) -> None:
    closing, one = DeskClosing(small), await ask(small_owner)
    async with anyio.create_task_group() as group:
        for _ in range(6):
            group.start_soon(closing.take, one, "export")
    assert len(await exports(small_owner)) == 1
    assert len(await small_owner.rows("SELECT 1 FROM crm.offboarding_step")) == 1


async def test_an_order_that_was_made_meanwhile_keeps_the_account_open_and_all_is_put_back_as_it_was(
    small: Database, small_owner: Database
) -> None:
    await write_ticket(small_owner)
    before = await things(small_owner)
    closing, one = DeskClosing(small), await ask(small_owner)
    await closing.take(one, "cancel_subscriptions")
    await closing.take(one, "export")
    await order_something(small_owner)
    with pytest.raises(Refused, match="#S99999"):
        await closing.take(one, "close")
    for _ in range(2):
        for step in reversed(STEPS):
            await closing.undo(one, step, "close: an order is on its way")
        await closing.finish(one, "close: an order is on its way")
    assert await things(small_owner) == before
    assert await exports(small_owner) == [{"content": {}, "withdrawn": True}]
    assert await state(small_owner) == "undone"
    assert len(await notes(small_owner)) == 1 and "an order is on its way" in (await notes(small_owner))[0]
    [ticket] = await small_owner.rows("SELECT status, handed_over <> '' AS left FROM crm.ticket")
    assert ticket == {"status": "escalated", "left": True}
    for step in STEPS:  # from a node that was thought dead
        await closing.take(one, step)
    assert await things(small_owner) == before
    assert await closing.asked(10) == []
    assert await ask(small_owner, "key-2"), "it can be asked for again"


async def test_an_account_that_is_being_put_back_stays_so_whoever_takes_it_up(
    small: Database, small_owner: Database
) -> None:
    closing, one = DeskClosing(small), await ask(small_owner)
    await closing.take(one, "cancel_subscriptions")
    await closing.undo(one, "close", "close: no")
    [opened] = await closing.asked(10)
    assert (opened.offboarding, opened.undoing, opened.why) == (one, True, "close: no")
    await closing.take(one, "export")
    assert await exports(small_owner) == []


class Mortal(DeskClosing):
    """Its node dies when the `nth` call of them all has had its effect, and before anybody hears of it."""

    def __init__(self, database: Database, nth: int) -> None:
        super().__init__(database)
        self.nth = nth
        self.count = 0
        self.dies = anyio.Event()

    async def take(self, offboarding: str, step: Step) -> None:
        try:
            await super().take(offboarding, step)
        finally:
            await self._had_effect()

    async def undo(self, offboarding: str, step: Step, why: str) -> None:
        await super().undo(offboarding, step, why)
        await self._had_effect()

    async def finish(self, offboarding: str, why: str) -> None:
        await super().finish(offboarding, why)
        await self._had_effect()

    async def _had_effect(self) -> None:
        self.count += 1
        if self.count == self.nth:
            self.dies.set()
            await anyio.sleep_forever()


@asynccontextmanager
async def node(store: PostgresStore, closing: DeskClosing) -> AsyncIterator[anyio.CancelScope]:
    actors = (
        Child(Offboarder, "offboarder", args=(closing,)),
        Child(Offboarding, "offboarding", args=("/crm/offboarder", 0.2)),
    )
    made = Node(store, Tree(Supervisor("crm", actors)), RealPort(), SETTINGS)
    async with anyio.create_task_group() as group:
        group.start_soon(made.run)
        await made.ready.wait()
        yield group.cancel_scope
        made.stop()


@pytest.mark.parametrize("nth", range(1, 8))
async def test_an_account_ends_the_same_wherever_a_node_dies_on_postgres(
    made: str, small: Database, small_owner: Database, nth: int
) -> None:
    await write_ticket(small_owner)
    await order_something(small_owner)
    before = await things(small_owner)
    await ask(small_owner)
    async with PostgresStore(made) as store:
        with anyio.fail_after(120):
            closing = Mortal(small, nth)
            async with node(store, closing) as scope:
                await closing.dies.wait()
                scope.cancel()
            async with node(store, DeskClosing(small)):
                while await state(small_owner) != "undone":  # noqa: ASYNC110 - rows raise no event here
                    await anyio.sleep(0.02)
        assert await store.dead_letters() == []
    assert await things(small_owner) == before
    assert await exports(small_owner) == [{"content": {}, "withdrawn": True}]
    steps = await small_owner.rows("SELECT step, state FROM crm.offboarding_step ORDER BY step")
    assert steps == [
        {"step": "cancel_subscriptions", "state": "compensated"},
        {"step": "close", "state": "failed"},
        {"step": "export", "state": "compensated"},
    ]
    assert len(await notes(small_owner)) == 1
