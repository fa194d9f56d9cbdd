"""Retail tasks whose node dies at a commit: the end is the same, nothing is done twice, careless tools are noticed."""

from pathlib import Path

import msgspec
import pytest

from callboard.evals.retail_desk import RetailDesk
from callboard.evals.retail_keys import MemoryShop, keyed_tools
from callboard.evals.retail_kills import SIDES, Harm, Side, killed_at_every_commit
from callboard.evals.retail_survival import sampled
from callboard.evals.retail_tasks import RetailData, writes_of
from tests.evals.retail_shop import CANCEL, shop, task_of

pytestmark = pytest.mark.anyio


@pytest.fixture
def data(tmp_path: Path) -> RetailData:
    return shop(tmp_path)


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("task_id", ["move", "recolour", "question"])
async def test_g1_g4_wherever_the_node_dies_the_tables_are_those_of_a_direct_replay(
    data: RetailData, task_id: str, side: Side
) -> None:
    task = task_of(data, task_id)
    killed = await killed_at_every_commit(task, data.records, side)
    assert killed.harm == Harm(kills=killed.harm.kills)
    assert killed.harm.kills > 3 * len(task.calls), "a call is asked for, decided, made and recorded"
    # A model that was under way is asked again; where the commit landed, nothing that it says was lost.
    assert (killed.calls_made_again > 0) == (side == "before")


async def test_both_sides_are_killed_at_as_many_commits_and_twice_gives_the_same(data: RetailData) -> None:
    task = task_of(data, "cancel")
    before, after, again = [
        await killed_at_every_commit(task, data.records, side) for side in ("before", "after", "before")
    ]
    assert before.harm == after.harm and before == again


async def test_a_tool_that_ignores_its_key_is_noticed(data: RetailData) -> None:
    for task_id in ("cancel", "move"):
        harm = (await killed_at_every_commit(task_of(data, task_id), data.records, "before", careless=True)).harm
        # Each write is made and not on record yet at one of the commits.
        assert harm.repeated_effects == harm.other_tables == len(writes_of(task_of(data, task_id).calls))


async def test_a_key_that_comes_again_gets_the_first_answer_and_nothing_happens(data: RetailData) -> None:
    careful, careless = (MemoryShop(RetailDesk(data.records), careless=one) for one in (False, True))
    name, arguments = CANCEL
    first = await careful.call(name, arguments, "k")
    assert await careful.call(name, arguments, "k") == first and len(careful.tables().attempts) == 1
    assert (await careful.call(name, arguments, "l"))["code"] == "wrong_status"
    await careless.call(name, arguments, "k")
    assert (await careless.call(name, arguments, "k"))["code"] == "wrong_status"
    assert careful.keys == ["k", "l"] and careless.keys == ["k", "k"]


async def test_writing_tools_take_a_key_and_reading_ones_do_not(data: RetailData) -> None:
    tools = keyed_tools(MemoryShop(RetailDesk(data.records)))
    assert {one.takes_key for one in tools if one.side_effect} == {True}
    assert {one.takes_key for one in tools if not one.side_effect} == {False}
    assert not any("idempotency_key" in one.parameters["properties"] for one in tools)


def test_a_sample_has_one_task_of_each_kind_before_it_has_a_second(data: RetailData) -> None:
    assert [one.task_id for one in sampled(data.tasks, 2)] == ["cancel", "return"]
    again = msgspec.structs.replace(data.tasks[0], task_id="cancel once more")
    assert [one.task_id for one in sampled([again, *data.tasks], 4)] == [
        "cancel once more",
        "return",
        "move",
        "recolour",
    ]
    assert sampled(data.tasks, None) == list(data.tasks) and sampled(data.tasks, 0) == []
