"""The desk as an application: what opening it leaves in the database."""

import anyio
import pytest

from callboard.actors.app import Surroundings
from callboard.actors.spec import Supervisor, Tree
from callboard.crm.app import open_desk
from callboard.mailbox.errors import UsageError
from callboard.persistence.postgres.database import Database

pytestmark = pytest.mark.anyio


async def test_three_nodes_that_open_the_desk_at_once_load_it_once_and_write_its_tickets_once(dsn: str) -> None:
    trees: list[Supervisor] = []

    async def open_it(label: str) -> None:
        async with open_desk(Surroundings(dsn, label, {"tickets": "4"})) as tree:
            trees.append(tree)

    async with anyio.create_task_group() as group:
        for label in ("n1", "n2", "n3"):
            group.start_soon(open_it, label)
    assert {Tree(tree).digest for tree in trees} == {Tree(trees[0]).digest}
    async with await Database.open(dsn) as database:
        found = await database.row("SELECT count(*) AS tickets, min(ticket_id) AS first FROM crm.ticket")
        assert found == {"tickets": 4, "first": "T-0001"}
        assert await database.row("SELECT count(*) AS n FROM crm.desk") == {"n": 1}


@pytest.mark.parametrize("count", ["0", "-1", "many", "100000"])
async def test_a_number_of_tickets_that_cannot_be_is_refused(dsn: str, count: str) -> None:
    with pytest.raises(UsageError, match="option tickets"):
        async with open_desk(Surroundings(dsn, "n1", {"tickets": count})):
            pytest.fail("it opened")
