"""The retail desk's tools: what they do to rows and money, what they refuse, and what they say about themselves."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from callboard.crm.desk import Payment
from callboard.evals.retail_reading import Reading
from callboard.evals.retail_rows import Item
from callboard.evals.retail_tools import EFFECTS, retail_tools
from callboard.evals.retail_writing import ITEMS_MODIFIED, Writing
from tests.evals.retail_shop import MOVED, Counter, shop

pytestmark = pytest.mark.anyio

ADDRESS = {**MOVED, "zip": "53111"}


@pytest.fixture
def counter(tmp_path: Path) -> Counter:
    return Counter(shop(tmp_path))


async def test_a_cancelled_order_is_paid_back_the_way_it_was_paid_and_only_once(counter: Counter) -> None:
    answer = await counter.writes.cancel_pending_order("#W1", "ordered by mistake")
    assert (answer["status"], answer["cancel_reason"]) == ("cancelled", "ordered by mistake")
    assert counter.desk.order("#W1").payments[1:] == (Payment("#W1", "gift_card_1", "refund", 4510),)
    assert counter.balance("ida_berg_1", "gift_card_1") == 500 + 4510
    assert (await counter.writes.cancel_pending_order("#W1", "ordered by mistake"))["code"] == "wrong_status"
    assert counter.balance("ida_berg_1", "gift_card_1") == 500 + 4510


async def test_items_of_a_pending_order_change_once_and_the_method_settles_the_difference(counter: Counter) -> None:
    made = await counter.writes.modify_pending_order_items("#W1", ["1101"], ["1104"], "gift_card_1")
    assert made["status"] == ITEMS_MODIFIED
    order = counter.desk.order("#W1")
    assert order.items == (Item("1104", 2500), Item("2201", 1500))
    assert order.payments[-1] == Payment("#W1", "gift_card_1", "refund", 510)
    assert counter.balance("ida_berg_1", "gift_card_1") == 1010
    again = await counter.writes.modify_pending_order_items("#W1", ["1104"], ["1101"], "gift_card_1")
    assert again["code"] == "wrong_status"


async def test_a_dearer_item_is_charged(counter: Counter) -> None:
    await counter.writes.modify_pending_order_items("#W1", ["1101"], ["1102"], "credit_card_1")
    assert counter.desk.order("#W1").payments[-1] == Payment("#W1", "credit_card_1", "charge", 1225)


@pytest.mark.parametrize(
    ("items", "new", "method", "code"),
    [
        (["1101"], ["1102"], "gift_card_1", "not_enough"),
        (["1101"], ["1103"], "credit_card_1", "not_possible"),  # not available
        (["1101"], ["2201"], "credit_card_1", "not_possible"),  # another product
        (["1101"], ["1101"], "credit_card_1", "not_possible"),  # no change
        (["1101", "2201"], ["1104"], "credit_card_1", "not_possible"),
        (["1101", "1101"], ["1104", "1104"], "credit_card_1", "not_found"),  # there is one only
        (["1102"], ["1104"], "credit_card_1", "not_found"),
        (["1101"], ["9999"], "credit_card_1", "not_found"),
        (["1101"], ["1104"], "paypal_2", "not_found"),  # somebody else's
        ([], [], "credit_card_1", "not_possible"),
    ],
)
async def test_what_cannot_be_swapped_is_refused_and_changes_nothing_but_is_on_record(
    counter: Counter, items: list[str], new: list[str], method: str, code: str
) -> None:
    before = counter.desk.tables()
    assert (await counter.writes.modify_pending_order_items("#W1", items, new, method))["code"] == code
    after = counter.desk.tables()
    assert after.same_rows(before)
    assert [attempt.outcome for attempt in after.attempts] == [code]
    assert after != before


async def test_delivered_items_are_exchanged_for_the_same_too_and_the_difference_is_written_down(
    counter: Counter,
) -> None:
    await counter.writes.exchange_delivered_order_items("#W2", ["1102"], ["1102"], "credit_card_1")
    order = counter.desk.order("#W2")
    assert order.status == "exchange requested" and order.asked is not None
    assert (order.asked.kind, order.asked.difference_cents) == ("exchange", 235)
    assert len(order.payments) == 1  # nothing is paid before the items are back


@pytest.mark.parametrize(
    ("method", "code"), [("credit_card_1", None), ("gift_card_1", None), ("paypal_2", "not_found")]
)
async def test_a_return_is_paid_to_the_first_method_or_a_gift_card(
    counter: Counter, method: str, code: str | None
) -> None:
    answer = await counter.writes.return_delivered_order_items("#W2", ["2201"], method)
    assert answer.get("code") == code
    assert counter.desk.order("#W2").status == ("delivered" if code else "return requested")


async def test_a_return_to_an_account_that_did_not_pay_is_refused(counter: Counter) -> None:
    order = counter.desk.order("#W2")
    by_gift_card = (Payment("#W2", "gift_card_1", "charge", 5500),)
    counter.desk.put_order(msgspec.structs.replace(order, payments=by_gift_card))
    answer = await counter.writes.return_delivered_order_items("#W2", ["2201"], "credit_card_1")
    assert answer["code"] == "not_possible"


async def test_another_method_pays_and_the_first_one_gets_its_money_back(counter: Counter) -> None:
    await counter.writes.modify_pending_order_payment("#W1", "credit_card_1")
    assert [(one.kind, one.payment_method_id) for one in counter.desk.order("#W1").payments] == [
        ("charge", "gift_card_1"),
        ("charge", "credit_card_1"),
        ("refund", "gift_card_1"),
    ]
    assert counter.balance("ida_berg_1", "gift_card_1") == 500 + 4510
    await counter.writes.cancel_pending_order("#W1", "no longer needed")  # pays nobody twice
    assert counter.desk.order("#W1").payments[3:] == (Payment("#W1", "credit_card_1", "refund", 4510),)
    assert counter.balance("ida_berg_1", "gift_card_1") == 500 + 4510


async def test_addresses_of_orders_and_customers_are_two_things(counter: Counter) -> None:
    await counter.writes.modify_pending_order_address("#W1", **ADDRESS)
    assert counter.desk.order("#W1").address.line1 == "7 Oak Lane"
    assert counter.desk.user("ida_berg_1").account.address.line1 == "1 Elm Road"
    await counter.writes.modify_user_address("ida_berg_1", **ADDRESS)
    assert counter.desk.user("ida_berg_1").account.address.postcode == "53111"
    assert (await counter.writes.modify_pending_order_address("#W2", **ADDRESS))["code"] == "wrong_status"


async def test_customers_are_found_by_mail_and_by_name_and_zip_code(counter: Counter) -> None:
    assert await counter.reads.find_user_id_by_email(" IDA@example.com") == {"user_id": "ida_berg_1"}
    assert await counter.reads.find_user_id_by_name_zip("ole", "Berg", "20095") == {"user_id": "ole_berg_2"}
    assert (await counter.reads.find_user_id_by_name_zip("Ole", "Berg", "1"))["code"] == "not_found"


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("3131.1 + 4777.75 - 0.05", "7908.80"),
        ("-2 * (3 + 1) / 4", "-2.00"),
        ("0.1 + 0.2", "0.30"),
        ("164.28", "164.28"),
    ],
)
async def test_sums_are_worked_out_without_floats(counter: Counter, expression: str, value: str) -> None:
    assert await counter.reads.calculate(expression) == {"result": value}


@pytest.mark.parametrize("expression", ["1 / 0", "2 ** 9", "open('x')", "True", "1 +", "'a' * 9", "1" * 201, ""])
async def test_what_is_no_sum_is_refused(counter: Counter, expression: str) -> None:
    assert (await counter.reads.calculate(expression))["code"] == "bad_expression"


def test_every_tool_is_there_with_its_effect(counter: Counter) -> None:
    tools = {one.name: one for one in retail_tools(counter.desk)}
    public = {name for kind in (Reading, Writing) for name in vars(kind) if not name.startswith("_")}
    assert set(tools) == public and len(tools) == 16
    assert {name for name, one in tools.items() if one.side_effect} == set(EFFECTS)
    assert tools["return_delivered_order_items"].effect == "money"


@pytest.mark.parametrize(
    ("tool", "path", "trust"),
    [
        ("get_user_details", "payment_methods[0].payment_method_id", "trusted"),
        ("get_user_details", "address.address1", "untrusted"),
        ("get_user_details", "address.zip", "untrusted"),
        ("get_user_details", "address.country", "trusted"),
        ("get_user_details", "first_name", "untrusted"),
        ("get_order_details", "items[1].item_id", "trusted"),
        ("get_order_details", "address.city", "untrusted"),
        ("modify_pending_order_address", "address.address2", "untrusted"),  # else an argument would be its own alibi
        ("modify_user_address", "address.city", "untrusted"),
        ("get_product_details", "variants[0].options.colour", "trusted"),
        ("get_product_details", "error", "untrusted"),
        ("calculate", "result", "untrusted"),
    ],
)
def test_free_text_is_untrusted_and_typed_fields_are_trusted(
    counter: Counter, tool: str, path: str, trust: str
) -> None:
    tools = {one.name: one for one in retail_tools(counter.desk)}
    assert tools[tool].trust_of(path) == trust


async def test_desks_of_the_same_records_do_not_see_each_other(tmp_path: Path) -> None:
    data = shop(tmp_path)
    first, second = Counter(data), Counter(data)
    untouched: Any = second.desk.tables()
    await first.writes.cancel_pending_order("#W3", "no longer needed")
    assert second.desk.tables() == untouched and data.records.orders["#W3"].status == "pending"
