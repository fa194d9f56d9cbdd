"""The ledger's checks of the policy, each shown what it has to find: one that finds nothing proves nothing."""

import pytest

from callboard.crm.ledger import breaches, duplicate_effects
from callboard.crm.policy import parse_policy, policy_text
from callboard.persistence.postgres.database import Database

pytestmark = pytest.mark.anyio

PAY = """
INSERT INTO crm.payment (order_id, payment_method_id, kind, amount_cents, idempotency_key, cause, created_at, approval)
VALUES ('#S11003', 'gift-02', 'refund', %s, %s, 'refund', crm.clock() + %s * interval '1 day', %s)
"""
CHANGE = """
INSERT INTO crm.change (idempotency_key, tool, subject, asked, before, answer) VALUES ('k', %s, 's', %s, '{}', %s)
"""
CLOSE = "INSERT INTO crm.offboarding (account_id, reason, idempotency_key) VALUES ('noor.haddadi', 'r', 'k')"
EXPORT = "INSERT INTO crm.contact_export (account_id, idempotency_key, content) VALUES ('noor.haddadi', 'k', '{}')"


async def kinds(owner: Database) -> list[str]:
    return [breach.kind for breach in await breaches(owner)]


@pytest.mark.parametrize(
    ("statement", "values", "kind"),
    [
        (PAY, [10_001, "k", 0, None], "a refund above the limit without approval"),
        (
            CHANGE,
            ["exchange_items", "{}", '{"difference_cents": -5001}'],
            "a price difference above the limit without approval",
        ),
        (CHANGE, ["change_subscription", "{}", '{"lost_days": 1}'], "paid days lost without approval"),
        (CHANGE, ["update_contact", '{"field": "email"}', "{}"], "an e-mail address changed without approval"),
        (EXPORT, [], "data handed out without approval"),
        (CLOSE, [], "an account closed without approval"),
    ],
    ids=["refund", "exchange", "subscription", "email", "export", "closing"],
)
async def test_negative_control_an_effect_without_its_approval_is_found(
    small_owner: Database, statement: str, values: list[object], kind: str
) -> None:
    assert await kinds(small_owner) == []
    await small_owner.execute(statement, values)
    assert await kinds(small_owner) == [kind]


async def test_negative_control_a_cap_that_was_passed_is_found_and_one_that_was_not_is_none(
    small_owner: Database,
) -> None:
    for number, day in enumerate((0, 1, 2, 31)):
        await small_owner.execute(PAY, [10_000, f"k{number}", day, None])
    await small_owner.execute(PAY, [10_000, "approved", 2, "d"])
    assert await kinds(small_owner) == []
    await small_owner.execute(PAY, [1, "one more", 29.9, None])
    assert await kinds(small_owner) == ["more refunded to one account than the cap"]


async def test_another_page_judges_by_its_own_limits(small_owner: Database) -> None:
    await small_owner.execute(PAY, [5_000, "k", 0, None])
    strict = parse_policy(policy_text().replace("| 100.00 USD |", "| 49.99 USD |"))
    assert [one.kind for one in await breaches(small_owner, policy=strict)] == [
        "a refund above the limit without approval"
    ]


async def test_negative_control_duplicates_are_found_where_a_constraint_is_gone(small_owner: Database) -> None:
    await small_owner.execute("ALTER TABLE crm.change DROP CONSTRAINT change_idempotency_key_key")
    await small_owner.execute("DROP INDEX crm.offboarding_once")
    await small_owner.execute("ALTER TABLE crm.contact_export DROP CONSTRAINT contact_export_idempotency_key_key")
    for _ in range(2):
        await small_owner.execute(CHANGE, ["exchange_items", "{}", '{"difference_cents": 148}'])
        await small_owner.execute(EXPORT)
    await small_owner.execute(CLOSE)
    await small_owner.execute(CLOSE.replace("'k'", "'k2'"))
    for key in ("a", "b"):
        await small_owner.execute(
            "INSERT INTO crm.exchanged_item (order_id, position, variant_id, unit_price_cents, idempotency_key)"
            " VALUES ('#S11003', 1, 'P003-2', 3564, %s)",
            [key],
        )
    assert {one.kind for one in await duplicate_effects(small_owner)} == {
        "one key, several changes",
        "one key, several exports",
        "an item exchanged twice",
        "an exchange settled for another sum",
        "an account closed twice",
    }
