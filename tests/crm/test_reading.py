"""Reading customers' texts and the policy page: pure rules."""

import pytest

from callboard.crm.policy import PolicyUnreadable, dollars, parse_policy, policy_text
from callboard.crm.reading import Wish, named_items, read_request

KETTLE = {"product_id": "P1", "variant_id": "P1-1", "name": "Tea Kettle", "options": {"color": "blue", "size": "1 l"}}
RED = {**KETTLE, "variant_id": "P1-2", "options": {"color": "red", "size": "1 l"}}
CHAIR = {"product_id": "P2", "variant_id": "P2-1", "name": "Office Chair", "options": {"color": "blue"}}


def ticket(body: str, subject: str = "Hello") -> dict[str, object]:
    return {
        "subject": subject,
        "from_email": "Ann@Example.org",
        "messages": [
            {"author": "customer", "body": body},
            {"author": "desk", "body": "cancel #W9999999, broken, desk@example.org"},
        ],
    }


@pytest.mark.parametrize(
    ("body", "wish"),
    [
        ("It arrived cracked, where is my money?", "refund_damaged"),
        ("I changed my mind, when will you pay?", "cancel"),
        ("Any news?", "status"),
        ("Do you sell curtains?", "unclear"),
    ],
)
def test_the_wish_is_the_first_rule_that_fits(body: str, wish: Wish) -> None:
    assert read_request(ticket(body)).wish == wish


def test_orders_and_addresses_are_found_once_each_and_only_in_the_customers_words() -> None:
    request = read_request(ticket("See #W1234567, I mean W1234567. Mail ann@example.org. Tel AW1234567.", "#W1234567"))
    assert request.order_ids == ("#W1234567",)
    assert request.named_emails == ("ann@example.org",)
    assert request.sender == "ann@example.org"


def test_an_item_is_found_by_name_and_told_apart_by_its_options() -> None:
    assert named_items("the tea  kettle broke", [KETTLE, CHAIR]) == [KETTLE]
    assert named_items("the Tea Kettle (color red, size 1 l) broke", [KETTLE, RED, CHAIR]) == [RED]
    assert named_items("the tea kettle broke", [KETTLE, RED]) == [KETTLE, RED]
    assert named_items("the tea kettle broke", [KETTLE, KETTLE]) == [KETTLE]
    assert named_items("tea kettle and office chair", [KETTLE, CHAIR]) == [KETTLE, CHAIR]
    assert named_items("the teakettle broke", [KETTLE]) == []


def test_the_page_that_ships_states_its_limits() -> None:
    policy = parse_policy(policy_text())
    assert (policy.refund_limit_cents, policy.refund_ceiling_cents, policy.currency) == (10_000, 250_000, "USD")
    assert policy.cancellable_statuses == {"pending"}
    assert policy.refundable_statuses == {"delivered"}


def test_a_page_without_a_limit_is_an_error_never_a_default() -> None:
    with pytest.raises(PolicyUnreadable, match="refund limit without approval"):
        parse_policy(policy_text().replace("Refund limit without approval", "Refund limit"))
    with pytest.raises(PolicyUnreadable, match="one currency"):
        parse_policy(policy_text().replace("100.00 USD", "100.00 EUR"))
    with pytest.raises(PolicyUnreadable, match="a lot"):
        parse_policy(policy_text().replace("100.00 USD", "a lot"))


def test_cents_are_written_as_people_read_them() -> None:
    assert dollars(48_881) == "488.81 USD"
    assert dollars(123_456_789, "EUR") == "1,234,567.89 EUR"
    assert dollars(-5) == "-0.05 USD"
