"""What approvers are told: sentences from the records, which turn when the world does."""

import pytest

from callboard.actors.agent.events import Finding
from callboard.crm.tickets import make_tickets
from callboard.crm.tools import desk_tools
from callboard.persistence.postgres.database import Database

from .calls import APPROVED, delivered, named, refund
from .desk_loop import in_thread

pytestmark = pytest.mark.anyio

ORDER = {"order_id": "#S11299", "method": "card-03"}


async def found(database: Database, tool_name: str, **arguments: object) -> dict[str, Finding]:
    tool = named(desk_tools(database), tool_name)
    return {one.check: one for one in await tool.run_checks(tool.validate(arguments), in_thread)}


async def refund_findings(database: Database, **arguments: object) -> dict[str, Finding]:
    given = {"order_id": "#S11299", "amount_cents": 26_696, "payment_method_id": "card-03", "reason": "it broke"}
    return await found(database, "issue_refund", **{**given, **arguments})


async def write(owner: Database, ticket: str, email: str, body: str) -> None:
    await owner.execute(
        "INSERT INTO crm.ticket (ticket_id, from_email, subject) VALUES (%s, %s, 'Hello')", (ticket, email)
    )
    await owner.execute(
        "INSERT INTO crm.message (ticket_id, author, trust, body) VALUES (%s, 'customer', 'untrusted', %s)",
        (ticket, body),
    )


async def test_an_honest_refund_is_fine_in_every_respect_and_said_in_words(
    small: Database, small_owner: Database
) -> None:
    await write(small_owner, "T-1", "Noor.Haddadi@example.org", "the chair in #S11299 broke")
    findings = await refund_findings(small, order_version=1)
    assert [one for one in findings.values() if not one.ok] == []
    assert {name: one.detail for name, one in findings.items()} == {
        "customer": "order #S11299 is of Noor Haddadi <noor.haddadi@example.org>",
        "writer_owns_order": "T-1 names order #S11299 and comes from its owner",
        "order_unchanged": "order #S11299 is delivered, version 1",
        "paid_and_refunded": "372.34 USD was paid for order #S11299, 0.00 USD refunded so far",
        "amount_is_left": "372.34 USD of order #S11299 can still be refunded, 266.96 USD would be",
        "payment_method": "visa ending 4147 paid for the order",
        "refunds_of_30_days": "0 refunds of this account in 30 days, 0.00 USD in all",
    }


@pytest.mark.parametrize(
    ("email", "body", "ok"),
    [
        ("sami.haddadi@example.org", "about #S11299", True),
        ("bram.kessler@example.org", "about #S11299", False),
        ("noor.haddadi@example.org", "about #S112990", False),
        ("noor.haddadi@example.org", "about nothing", False),
    ],
    ids=["contact", "stranger", "longer number", "unnamed"],
)
async def test_it_is_told_whether_the_writer_is_of_the_orders_account(
    small: Database, small_owner: Database, email: str, body: str, ok: bool
) -> None:
    await write(small_owner, "T-1", email, body)
    assert (await refund_findings(small))["writer_owns_order"].ok is ok


async def test_what_happens_between_question_and_release_turns_a_check(small: Database, small_owner: Database) -> None:
    tools, before = desk_tools(small), await refund_findings(small, order_version=1)
    assert before["order_unchanged"].ok and before["paid_and_refunded"].ok and before["amount_is_left"].ok
    await refund(tools, ORDER, 20_000, "key-1", APPROVED)
    after = await refund_findings(small, order_version=1)
    assert not after["order_unchanged"].ok
    assert after["order_unchanged"].detail.endswith("changed since it was read (version 1, now 2)")
    assert not after["paid_and_refunded"].ok and not after["amount_is_left"].ok
    assert not after["refunds_of_30_days"].ok
    assert after["refunds_of_30_days"].detail.endswith("together with this it is above 300.00 USD")


async def test_a_method_that_did_not_pay_or_is_somebody_elses_is_told(small: Database) -> None:
    assert not (await refund_findings(small, payment_method_id="paypal-03"))["payment_method"].ok
    told = (await refund_findings(small, payment_method_id="card-01"))["payment_method"]
    assert told == Finding("payment_method", False, "card-01 is no payment method of the order's account")
    (one, *_) = await delivered(small, "marek.dunleavy")
    swap = {"order_id": one["order_id"], "positions": [1], "new_variant_ids": ["P008-3"]}
    fine = await found(small, "exchange_items", **swap, payment_method_id="gift-02")
    assert fine["account_method"].ok and fine["account_method"].detail.startswith("a gift card")


async def test_nothing_on_record_is_not_fine_and_no_error(small: Database) -> None:
    for order_id in ("#S99999", "x" * 5_000, "(", "#S1\\y*"):
        findings = await refund_findings(small, order_id=order_id)
        assert not any(one.ok for one in findings.values())
        assert not any("failed" in one.detail for one in findings.values())
    for tool, arguments in (
        ("offboard_account", {"account_id": "nobody", "reason": "x"}),
        ("update_contact", {"account_id": "nobody", "field": "city", "value": "York"}),
        ("export_contacts", {"account_id": "nobody"}),
    ):
        assert not (await found(small, tool, **arguments))["account_holder"].ok
    assert not (await found(small, "change_subscription", subscription_id="S", change="cancel"))["subscription"].ok


async def test_closing_and_subscriptions_are_told_with_what_goes(small: Database) -> None:
    closing = await found(small, "offboard_account", account_id="noor.haddadi", reason="moves away")
    assert closing["account_holder"].ok and closing["nothing_in_the_way"].ok
    assert closing["nothing_in_the_way"].detail.endswith("2 subscriptions would be cancelled")
    busy = await found(small, "offboard_account", account_id="ilse.vanterpool", reason="moves away")
    assert not busy["nothing_in_the_way"].ok
    stale = await found(small, "change_subscription", subscription_id="SUB-1001", change="cancel", version=9)
    assert not stale["subscription"].ok and "version 9, now 1" in stale["subscription"].detail


async def test_made_tickets_come_from_the_owners_except_where_they_are_not(
    small: Database, small_owner: Database
) -> None:
    for case in await make_tickets(small_owner, 5, above_limit=1):
        if case.scenario in ("damaged", "damaged_above_limit", "cancel_pending", "foreign_order"):
            findings = await found(small, "cancel_order", order_id=case.order_id)
            assert findings["writer_owns_order"].ok is (case.scenario != "foreign_order"), case
