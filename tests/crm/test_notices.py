"""Renewal notices over real tables, by a clock that is moved by hand."""

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

from callboard.crm import ledger
from callboard.crm.notices import DeskNotices
from callboard.crm.policy import parse_policy, policy_text
from callboard.crm.renewals import Due
from callboard.persistence.postgres.database import Database

from .hand_clock import take_clock

pytestmark = pytest.mark.anyio

SUB, EMAIL = "SUB-1001", "noor.haddadi@example.org"
POLICY = parse_policy(policy_text())
DAY = 86_400.0

Passes = Callable[..., Awaitable[None]]


@pytest.fixture
async def passes(small_owner: Database) -> Passes:
    made: Any = await take_clock(small_owner)
    await small_owner.execute("UPDATE crm.subscription SET renews = false")
    # At noon, so that the dates of what is due stay the same while the test runs.
    await small_owner.execute(
        "UPDATE crm.subscription SET renews = true, paid_until = date_trunc('day', crm.clock()) + interval '60.5 days'"
        " WHERE subscription_id = %s",
        (SUB,),
    )
    return made  # type: ignore[no-any-return]


async def next_one(notices: DeskNotices) -> Due:
    [due] = await notices.due(31, "", 10)
    return due


async def told(owner: Database) -> list[str]:
    rows = await owner.rows("SELECT recipient, body FROM crm.outbox ORDER BY outbox_id")
    assert {row["recipient"] for row in rows} <= {EMAIL}
    return [row["body"] for row in rows]


async def test_a_subscription_has_one_notice_thirty_days_before_it_renews_and_one_seven_days_before(
    small: Database, small_owner: Database, passes: Passes
) -> None:
    notices = DeskNotices(small, POLICY)
    first = await next_one(notices)
    assert (first.subscription, first.number) == (SUB, 1)
    assert 29.5 * DAY <= first.seconds <= 30.5 * DAY
    await passes(seconds=first.seconds)
    for _ in range(3):
        assert await notices.write(SUB, first.renews_on, 1)
    second = await next_one(notices)
    assert second.number == 2
    assert abs(second.seconds - 23 * DAY) < 60
    await passes(seconds=second.seconds)
    for _ in range(3):
        assert await notices.write(SUB, second.renews_on, 2)
    assert await notices.due(31, "", 10) == []
    bodies = await told(small_owner)
    assert len(bodies) == 2 and "9.90 USD" in bodies[0] and "reminder" in bodies[1]
    assert await ledger.duplicate_effects(small_owner) == []


async def test_the_next_period_has_notices_of_its_own(small: Database, small_owner: Database, passes: Passes) -> None:
    notices = DeskNotices(small, POLICY)
    await passes(days=31)
    assert await notices.write(SUB, (await next_one(notices)).renews_on, 1)
    await small_owner.execute("UPDATE crm.subscription SET paid_until = paid_until + interval '30 days'")
    await passes(days=30)
    due = await next_one(notices)
    assert due.number == 1 and await notices.write(SUB, due.renews_on, 1)
    assert len(await told(small_owner)) == 2


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE crm.subscription SET status = 'cancelled', renews = false WHERE renews",
        "UPDATE crm.subscription SET status = 'paused', paused_at = crm.clock() WHERE renews",
        "UPDATE crm.subscription SET renews = false",
        "UPDATE crm.subscription SET paid_until = paid_until + interval '1 day'",
        "UPDATE crm.account SET status = 'closed'",
    ],
)
async def test_nobody_is_told_of_a_renewal_that_is_not_to_be_any_more_though_its_timer_fires(
    small: Database, small_owner: Database, passes: Passes, change: str
) -> None:
    notices = DeskNotices(small, POLICY)
    due = await next_one(notices)
    await small_owner.execute(change)
    await passes(seconds=due.seconds)
    assert not await notices.write(SUB, due.renews_on, 1)
    assert await told(small_owner) == []


async def answers(owner: Database) -> None:
    await owner.execute("INSERT INTO crm.ticket (ticket_id, from_email, subject) VALUES ('T-1', %s, 'Hm')", (EMAIL,))
    await owner.execute(
        "INSERT INTO crm.message (ticket_id, author, trust, body) VALUES ('T-1', 'customer', 'untrusted', 'Keep it.')"
    )


async def bounces(owner: Database) -> None:
    await owner.execute("UPDATE crm.outbox SET bounced_at = crm.clock()")


async def pauses_for_a_day(owner: Database) -> None:
    await owner.execute("UPDATE crm.subscription SET status = 'paused', paused_at = crm.clock() WHERE renews")
    await owner.execute("UPDATE crm.subscription SET status = 'active', paused_at = NULL WHERE renews")


@pytest.mark.parametrize("happens", [answers, bounces, pauses_for_a_day])
async def test_there_is_no_second_notice_where_something_happened_after_the_first(
    small: Database, small_owner: Database, passes: Passes, happens: Callable[[Database], Awaitable[None]]
) -> None:
    notices = DeskNotices(small, POLICY)
    await passes(days=31)
    first = await next_one(notices)
    assert await notices.write(SUB, first.renews_on, 1)
    await passes(hours=1)
    await happens(small_owner)
    await passes(days=23)
    assert not await notices.write(SUB, first.renews_on, 2)
    assert len(await told(small_owner)) == 1


async def test_who_was_told_late_is_not_told_twice_on_one_day(
    small: Database, small_owner: Database, passes: Passes
) -> None:
    notices = DeskNotices(small, POLICY)
    await passes(days=56)
    due = await next_one(notices)
    assert (due.number, due.seconds) == (1, 0.0)
    assert await notices.write(SUB, due.renews_on, 1)
    assert await notices.due(31, "", 10) == []
    assert not await notices.write(SUB, due.renews_on, 2)


async def test_one_that_is_written_by_many_at_once_is_one_mail(
    small: Database, small_owner: Database, passes: Passes
) -> None:
    notices = DeskNotices(small, POLICY)
    await passes(days=31)
    due = await next_one(notices)
    async with anyio.create_task_group() as group:
        for _ in range(6):
            group.start_soon(notices.write, SUB, due.renews_on, 1)
    assert len(await told(small_owner)) == 1
