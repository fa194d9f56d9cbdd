"""The retail desk in PostgreSQL: the rows of the desk in memory, an effect once for each key, and real kills."""

from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from callboard.evals.retail_desk import Tables
from callboard.evals.retail_kills import Harm, KilledTask
from callboard.evals.retail_marks import Marks
from callboard.evals.retail_play import replayed
from callboard.evals.retail_sigkill import CalmTask, Job, over_postgres
from callboard.evals.retail_sql import SCHEMA, SqlShop
from callboard.evals.retail_tasks import RetailData, customers_of
from callboard.persistence.postgres.database import Database
from tests.evals.retail_shop import CANCEL, RECOLOUR, shop, task_of

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(600)]


@pytest.fixture
def data(tmp_path: Path) -> RetailData:
    return shop(tmp_path)


@pytest.fixture
async def database(dsn: str) -> AsyncIterator[Database]:
    async with await Database.open(dsn) as opened:
        await opened.execute(SCHEMA)
        yield opened


async def test_a_play_begins_with_the_records_and_ends_with_the_rows_of_the_desk_in_memory(
    data: RetailData, database: Database
) -> None:
    for task in data.tasks:
        sql = SqlShop(database, task.task_id, data.records)
        await sql.open()
        assert await sql.tables() == Tables(data.records.users, data.records.orders, ())
        for number, (name, arguments) in enumerate(task.calls):
            await sql.call(name, arguments, f"key {number}")
        assert await sql.tables() == await replayed(task.calls, data.records), task.task_id


async def test_a_key_that_comes_again_at_the_same_time_has_one_effect_and_one_answer(
    data: RetailData, database: Database
) -> None:
    sql = SqlShop(database, "p", data.records)
    await sql.open(["ida_berg_1"])
    answers = []

    async def recolour() -> None:
        answers.append(await sql.call(*RECOLOUR, "key"))

    async with anyio.create_task_group() as group:
        for _ in range(4):
            group.start_soon(recolour)
    assert answers == [answers[0]] * 4 and answers[0]["status"].startswith("pending")
    assert await sql.keys() == ["key"]


async def test_plays_do_not_see_each_other_and_a_customer_who_is_not_there_is_not_found(
    data: RetailData, database: Database
) -> None:
    one, other = SqlShop(database, "one", data.records), SqlShop(database, "other", data.records)
    await one.open(["ole_berg_2"])
    await other.open(["ole_berg_2"])
    await one.call(*CANCEL, "key")
    assert (await other.tables()).orders["#W3"].status == "pending" and await other.keys() == []
    assert (await one.call("get_user_details", {"user_id": "ida_berg_1"}, ""))["code"] == "not_found"


async def test_money_is_whole_cents_in_columns(data: RetailData, database: Database) -> None:
    sql = SqlShop(database, "p", data.records)
    await sql.open(["ida_berg_1"])
    await sql.call(*RECOLOUR, "key")
    paid = await database.rows("SELECT kind, amount_cents FROM retail.payment WHERE order_id = '#W1' ORDER BY place")
    assert [(row["kind"], row["amount_cents"]) for row in paid] == [("charge", 4510), ("refund", 510)]
    card = await database.row("SELECT balance_cents FROM retail.payment_method WHERE payment_method_id = 'gift_card_1'")
    assert card == {"balance_cents": 1010}


def test_the_customers_of_a_task_are_those_that_its_calls_name_or_find(data: RetailData) -> None:
    assert customers_of(task_of(data, "cancel"), data.records) == ("ole_berg_2",)
    assert customers_of(task_of(data, "move"), data.records) == ("ida_berg_1",)
    assert customers_of(task_of(data, "question"), data.records) == ()
    # By their family name: who is found is not known before the tool has looked.
    assert customers_of(task_of(data, "recolour"), data.records) == ("ida_berg_1", "ole_berg_2")


@pytest.fixture
def done(data: RetailData, tmp_path: Path, server_dsn: str) -> list[CalmTask | KilledTask]:
    task, result = task_of(data, "cancel"), "/agents/tool"
    kills = [Job(task, "before", only=result), Job(task, "after", only=result), Job(task, "before", True, result)]
    jobs = [*map(Job, data.tasks), *kills]
    return anyio.run(
        lambda: over_postgres(server_dsn, data, jobs, processes=2, advance=lambda count=1: None, folder=tmp_path)
    )


def test_every_task_leaves_the_same_rows_and_a_real_kill_harms_none(done: list[CalmTask | KilledTask]) -> None:
    *calm, before, after, careless = done
    assert calm == [
        CalmTask(name, same=True, same_as_memory=True, rewarded=True)
        for name in ("cancel", "return", "move", "recolour", "question")
    ]
    assert before == after == KilledTask("cancel", Harm(kills=1))
    assert careless == KilledTask("cancel", Harm(kills=1, other_tables=1, repeated_effects=1))


async def test_a_commit_is_known_by_what_is_in_it_however_often_that_was_there_before() -> None:
    marks = Marks()
    for names in (["a", "b"], ["a"], ["a", "a"]):
        async with marks.around(names):
            pass
    assert marks.seen == ["a #1", "b #1", "a #2", "a #3", "a #4"]
