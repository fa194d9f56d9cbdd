"""How long a node is there: by the store's clock since it joined, on both stores, and shown in System."""

import pytest

from callboard.persistence.rows import Member
from callboard.persistence.store import Session, Store
from callboard.tui.panes.system.rows import NODES, node_row
from tests.contract.conftest import contract_dsn, node, store, world
from tests.contract.world import World

__all__ = ["contract_dsn", "node", "store", "world"]  # fixtures of both stores
pytestmark = pytest.mark.anyio
UP = [one.key for one in NODES].index("up")


def up_for(member: Member, now: float) -> str:
    return "".join(part.text for part in node_row(member, now).cells[UP])


async def test_a_member_tells_since_when_it_is_there(world: World, store: Store, node: Session) -> None:
    [found] = (await store.alarms()).members
    assert 0 <= await store.now() - found.joined_at < 3_600
    await world.pass_time(3 * 86_400 + 4 * 3_600)
    [later] = (await store.alarms()).members
    assert later.joined_at == found.joined_at
    assert up_for(later, await store.now()) == "3d 4h"
    owner = await store.owner(0)
    assert owner is not None and owner.joined_at == found.joined_at


def test_what_is_gone_or_does_not_say_it_has_no_time() -> None:
    assert up_for(Member(1, 1, "b", "dead", 9.0, 0, joined_at=10.0), 100.0) == "·"
    assert up_for(Member(1, 1, "b", "up", 0.1, 0), 100.0) == "·"
    assert up_for(Member(1, 1, "b", "draining", 0.1, 0, joined_at=10.0), 100.0) == "1m 30s"
