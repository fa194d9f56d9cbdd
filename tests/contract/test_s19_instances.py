"""S19: of all who want to be the one instance of a name, one is at a time."""

import pytest

from callboard.mailbox.errors import Conflict
from tests.contract.world import World

pytestmark = pytest.mark.anyio


async def test_s19_the_second_learns_who_is_the_first(world: World) -> None:
    async with world.store.instance("desk", "host-1 pid 12", world.port):
        with pytest.raises(Conflict, match="host-1 pid 12"):
            async with world.store.instance("desk", "host-2 pid 9", world.port):
                pytest.fail("there are two")
        async with world.store.instance("other desk", "host-2 pid 9", world.port):
            pass


async def test_s19_a_name_is_free_when_its_holder_is_done(world: World) -> None:
    async with world.store.instance("desk", "host-1", world.port):
        pass
    async with world.store.instance("desk", "host-2", world.port):
        pass


async def test_s19_a_name_is_free_when_its_holder_fails_and_the_failure_is_its_own(world: World) -> None:
    with pytest.raises(ZeroDivisionError):
        async with world.store.instance("desk", "host-1", world.port):
            raise ZeroDivisionError
    async with world.store.instance("desk", "host-2", world.port):
        pass
