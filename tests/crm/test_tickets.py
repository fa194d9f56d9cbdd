"""Tickets are made of the records, the same ones every time; the ledger's checks notice what is wrong."""

import pytest

from callboard.crm.ledger import duplicate_effects, outcomes
from callboard.crm.tickets import make_tickets
from callboard.crm.tools import desk_tools
from callboard.mailbox.errors import UsageError
from callboard.persistence.postgres.database import Database

pytestmark = pytest.mark.anyio

TEXTS = "SELECT ticket_id, from_email, subject, body FROM crm.ticket JOIN crm.message USING (ticket_id) ORDER BY 1"


async def test_the_same_seed_gives_the_same_tickets(retail_owner: Database) -> None:
    first = await make_tickets(retail_owner, 20, seed=5)
    texts = await retail_owner.rows(TEXTS)
    await retail_owner.execute("TRUNCATE crm.ticket CASCADE")
    assert await make_tickets(retail_owner, 20, seed=5) == first
    assert await retail_owner.rows(TEXTS) == texts
    await retail_owner.execute("TRUNCATE crm.ticket CASCADE")
    assert await make_tickets(retail_owner, 20, seed=6) != first


async def test_every_ticket_has_its_own_order_and_names_it(retail_owner: Database) -> None:
    cases = await make_tickets(retail_owner, 30, seed=1)
    cases += await make_tickets(retail_owner, 30, seed=1)
    assert len({case.ticket_id for case in cases}) == 60
    assert len({case.order_id for case in cases}) == 60
    for case, text in zip(cases, await retail_owner.rows(TEXTS), strict=True):
        assert case.order_id in text["subject"] + text["body"]


async def test_a_desk_that_is_too_small_says_so(small_owner: Database) -> None:
    with pytest.raises(UsageError, match="ask for fewer tickets"):
        await make_tickets(small_owner, 200)
    assert await small_owner.rows("SELECT * FROM crm.ticket") == []


async def test_unworked_tickets_are_not_right_unless_nobody_decided(small_owner: Database) -> None:
    cases = await make_tickets(small_owner, 12)
    assert not any(outcome.right for outcome in await outcomes(small_owner))
    everything = [case.ticket_id for case in cases if case.scenario != "cancel_pending"]
    assert all(
        outcome.right
        for outcome in await outcomes(small_owner, undecided=everything)
        if outcome.ticket_id in everything
    )


async def test_a_second_refund_of_one_item_is_noticed(small: Database, small_owner: Database) -> None:
    (case,) = await make_tickets(small_owner, 1)
    paid = await small.row(
        "SELECT p.order_id, p.payment_method_id, i.unit_price_cents AS amount_cents FROM crm.payment p"
        " JOIN crm.order_item i ON i.order_id = p.order_id AND i.position = %s WHERE p.order_id = %s",
        (case.item_position, case.order_id),
    )
    assert paid is not None
    for key in ("key-1", "key-2"):
        await small_owner.execute(
            "INSERT INTO crm.payment (order_id, payment_method_id, kind, amount_cents, idempotency_key, cause)"
            " VALUES (%(order_id)s, %(payment_method_id)s, 'refund', %(amount_cents)s, %(key)s, 'refund')",
            {**paid, "key": key},
        )
    kinds = {found.kind for found in await duplicate_effects(small_owner)}
    assert "refunded more than the ticket is worth" in kinds


async def test_mail_sent_twice_under_two_keys_is_noticed(small: Database, small_owner: Database) -> None:
    (case,) = await make_tickets(small_owner, 1)
    reply = next(tool for tool in desk_tools(small) if tool.name == "reply_to_customer")
    for key in ("key-1", "key-2"):
        await reply(ticket_id=case.ticket_id, text="Hello!", idempotency_key=key)
    assert [found.kind for found in await duplicate_effects(small_owner)] == ["the same mail twice"]
