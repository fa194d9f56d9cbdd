"""An actor that was parked as `provider_down` and is resumed: its message has its whole hour again."""

import pytest

from callboard.actors.directives import Transient
from callboard.actors.system import Resume
from callboard.actors.testing import TestKit
from callboard.mailbox.lane import Lane

from .test_failures import ONE, Failing, Hasty
from .world import Note, notes, tree

pytestmark = pytest.mark.anyio


async def status(kit: TestKit) -> str:
    row = await kit.row(ONE)
    assert row is not None
    return row.status


async def test_a_resume_gives_the_message_its_whole_time_anew_and_not_one_attempt() -> None:
    failing = Failing(Transient("the provider does not answer"))
    async with TestKit(tree(failing, actor=Hasty)) as kit:  # who is parked after two minutes
        await kit.send(ONE, Note("a"))
        await kit.send(ONE, Note("x"))
        await kit.advance(seconds=200)
        assert await status(kit) == "parked"
        for _ in range(2):
            await kit.client.send(ONE, Resume("jo"), lane=Lane.SYSTEM)
            await kit.advance(seconds=110)
            assert await status(kit) == "active"
            await kit.advance(seconds=80)
            assert await status(kit) == "parked"
        failing.error = None
        await kit.client.send(ONE, Resume("jo"), lane=Lane.SYSTEM)
        await kit.settle()
        assert await notes(kit, ONE) == ["a", "x"]
