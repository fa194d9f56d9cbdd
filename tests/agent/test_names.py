"""No two runs of any pools share the names of their decisions or the keys of their calls, whatever ids people give."""

import pytest

from callboard import tool
from callboard.actors.agent.record import scope_of
from callboard.mailbox.address import child

from .stage import Stage, asks, says, script

pytestmark = pytest.mark.anyio


async def test_a_run_whose_id_looks_like_another_pool_s_shares_nothing_with_it() -> None:
    keys: list[str] = []

    @tool(side_effect=True, requires_approval=True)
    async def pay(amount: int, idempotency_key: str) -> str:
        """Pay."""
        keys.append(idempotency_key)
        return "paid"

    model = script(asks(("pay", {"amount": 3})), says("ok"))
    async with Stage(model, [pay]) as stage:
        await stage.begin(run_id="desk2.run:r")
        await stage.approve("desk2.run:r")
        await stage.kill()
        other = stage.beside(model, [pay], name="desk2")
        await stage.add_node(other)
        await other.create("go", run_id="r")
        await stage.advance(30)
        await other.approve("r", "bob")
        await stage.advance(5)
        assert len({row.id for row in await stage.store.decisions()}) == 2
        assert len(set(keys)) == 2


def test_names_of_runs_of_different_addresses_differ() -> None:
    pools = ["/agents", "/crm/desk", "/crm/desk:7", "/crm/desk:7.x", "/crm/desk:7/x", "/crm-desk", "/x"]
    ids = ["r", "crm.desk.run:r", "7.run:r", "a:b", "a/b", "a.1", ":", "=", "crm/desk=7/run:r"]
    names = []
    for pool in pools:
        for key in ids:
            scope = scope_of(child(pool, "run", key))
            names.append(f"{scope}:{key}" if scope else key)
    assert len(set(names)) == len(names)
    assert scope_of("/agents/run:r") == "" and scope_of("/crm/desk/agent:r") == "crm.desk.agent"
