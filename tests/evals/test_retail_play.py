"""Retail tasks through the real runtime: what asks, what an answer changes, and that the desk ends as it should."""

from pathlib import Path
from typing import Literal

import pytest

from callboard.evals.profiles import EVERY_WRITE, compared
from callboard.evals.retail_play import Played, play_task, replayed
from callboard.evals.retail_tasks import RetailData, RetailDataUnreadable, Walk, read_retail_data, walked
from tests.evals.retail_shop import CANCEL, RETURN, shop, task_of

pytestmark = pytest.mark.anyio


@pytest.fixture
def data(tmp_path: Path) -> RetailData:
    return shop(tmp_path)


async def played(
    data: RetailData,
    task_id: str,
    profile: str,
    *,
    walk: Walk = "listed",
    trust: Literal["trusted", "untrusted"] = "trusted",
    answered: bool = True,
) -> Played:
    (row,) = compared([profile])
    task = task_of(data, task_id)
    calls = walked(task, data.records, walk)
    plan = () if row.empty_plan else calls
    return await play_task(task.goal, calls, data.records, row.profile, trust=trust, plan=plan, answered=answered)


@pytest.mark.parametrize("profile", ["off", "validation", "lenient", "standard", "strict", EVERY_WRITE])
@pytest.mark.parametrize("task", ["cancel", "return", "move", "recolour", "question"])
async def test_with_an_approver_every_profile_leaves_the_tables_of_a_direct_replay(
    data: RetailData, profile: str, task: str
) -> None:
    run = await played(data, task, profile)
    assert run.tables == await replayed(task_of(data, task).calls, data.records)


async def test_a_gate_that_is_off_asks_nothing_and_one_on_every_write_asks_for_each(data: RetailData) -> None:
    assert (await played(data, "move", "off")).asked == ()
    every = await played(data, "move", EVERY_WRITE)
    assert every.writes == 2
    assert every.asked == (
        ("modify_user_address", "guardrail:plan"),
        ("modify_pending_order_address", "guardrail:plan"),
    )


async def test_where_nobody_answers_the_questions_expire_and_nothing_is_changed(data: RetailData) -> None:
    run = await played(data, "move", EVERY_WRITE, answered=False)
    assert len(run.asked) == 2 and run.tables.attempts == ()
    assert run.tables.same_rows(await replayed((), data.records))


async def test_an_address_in_the_customers_words_asks_only_where_these_are_not_trusted(data: RetailData) -> None:
    assert (await played(data, "move", "standard")).asked == ()
    asked = (await played(data, "move", "standard", trust="untrusted")).asked
    assert [rule for _, rule in asked] == ["guardrail:taint", "guardrail:taint"]


async def test_money_for_an_order_that_nobody_named_asks_until_it_is_looked_up(data: RetailData) -> None:
    assert (await played(data, "return", "standard")).asked == (("return_delivered_order_items", "guardrail:novel"),)
    assert (await played(data, "return", "standard", walk="looked up")).asked == ()


async def test_strict_asks_for_whatever_comes_after_a_customers_record(data: RetailData) -> None:
    (asked,) = (await played(data, "cancel", "strict", walk="looked up")).asked
    assert asked == ("cancel_pending_order", "guardrail:context")


def test_lookups_are_all_of_the_customer_and_the_products_wanted_once_and_before_the_write(data: RetailData) -> None:
    task = task_of(data, "recolour")
    assert walked(task, data.records, "looked up") == (
        task.calls[0],
        ("get_user_details", {"user_id": "ida_berg_1"}),
        ("get_order_details", {"order_id": "#W1"}),
        ("get_order_details", {"order_id": "#W2"}),
        ("get_product_details", {"product_id": "100"}),
        task.calls[1],
    )
    twice = walked(task_of(data, "move"), data.records, "looked up")
    assert [name for name, _ in twice].count("get_user_details") == 1


def test_a_goal_is_what_the_customer_knows_and_wants(data: RetailData) -> None:
    assert task_of(data, "cancel").goal == "You want your order #W3 cancelled.\nBe brief."


async def test_a_refused_write_is_replayed_as_refused(data: RetailData) -> None:
    tables = await replayed([RETURN, CANCEL, CANCEL], data.records)
    assert [one.outcome for one in tables.attempts] == ["done", "done", "wrong_status"]


def test_a_folder_without_the_files_is_named(tmp_path: Path) -> None:
    with pytest.raises(RetailDataUnreadable, match=r"has no db\.json"):
        read_retail_data(tmp_path)
