"""G1, G6: messages are given up while nodes die, answers get lost and handlers fail: each is handled once, or is a dead
letter, and never both."""

import random
from collections import Counter

import anyio
import pytest

from callboard.actors.context import Context
from callboard.actors.node import NodeSettings
from callboard.actors.system import DiscardMessage, Pause, Resume
from callboard.actors.testing import TestKit
from callboard.mailbox.errors import StoreUnavailable
from callboard.mailbox.lane import Lane
from callboard.persistence.memory import invariants
from tests.actors.world import Note, Probe, notes, tree

pytestmark = pytest.mark.anyio

ADDRESSES = [f"/t/p:{key}" for key in range(6)]
SETTINGS = NodeSettings(lease_seconds=1.5, beat_seconds=0.25, drain_seconds=1.0)


@pytest.mark.parametrize("seed", range(12))
async def test_g1_g6_each_message_is_handled_once_or_given_up_once_whatever_happens(seed: int) -> None:
    chance = random.Random(seed)

    def script(_probe: Probe, note: Note, _ctx: Context) -> object:
        if chance.random() < 0.2:
            raise RuntimeError("by chance")
        return anyio.lowlevel.checkpoint() if chance.random() < 0.5 else None

    async with TestKit(tree(script), nodes=2, settings=SETTINGS) as kit:  # type: ignore[arg-type]
        kit.store.lost_answer = lambda _: chance.random() < 0.1
        sent: list[str] = []
        for step in range(60):
            await _something(kit, chance, sent, step)
            await kit.advance(seconds=chance.random())
        kit.store.lost_answer = lambda _: False
        for address in ADDRESSES:
            await kit.client.send(address, Resume("ann"), lane=Lane.SYSTEM)
        await kit.until(lambda: _is_done(kit), seconds=3_600)
        handled = [text for address in ADDRESSES for text in await notes(kit, address)]
        letters = await kit.store.dead_letters(limit=10_000)
        dead = [letter.envelope.message().text for letter in letters if isinstance(letter.envelope.message(), Note)]  # type: ignore[attr-defined]
        assert Counter([*handled, *dead]) == Counter(sent)
        assert any(letter.reason == "discarded" for letter in letters) and len(handled) > len(sent) / 4
        assert {letter.settled for letter in letters if letter.reason == "discarded"} == {"discarded"}
        assert {letter.settled for letter in letters if letter.reason == "quarantined"} <= {""}
        assert invariants.violations(kit.store.tables, kit.store.cluster, kit.store.clock()) == []


async def _something(kit: TestKit, chance: random.Random, sent: list[str], step: int) -> None:
    """What may happen in a moment of a storm."""
    address = chance.choice(ADDRESSES)
    for number in range(chance.randrange(4)):
        sent.append(f"{step}.{number}")
        await kit.store.send([await kit.client.envelope(address, Note(sent[-1]))])
    waiting = [view for one in ADDRESSES for view in await kit.store.peek(one) if view.envelope.type.endswith("note")]
    if waiting and chance.random() < 0.6:
        victim = chance.choice(waiting).envelope
        wish = DiscardMessage(victim.id, "ann", "by chance", quarantine=chance.random() < 0.5)
        await kit.client.send(victim.recipient, wish, lane=Lane.SYSTEM)
    match chance.randrange(12):
        case 0:
            await kit.client.send(address, Pause("ann", "by chance"), lane=Lane.SYSTEM)
        case 1:
            await kit.client.send(address, Resume("ann"), lane=Lane.SYSTEM)
        case 2:
            await kit.crash(chance.choice(kit.nodes))
            await kit.join()
        case 3:
            kit.store.restart()
        case 4:
            node = chance.choice(kit.nodes)
            kit.nodes.remove(node)
            await kit.leave(node)
            await kit.join()
        case _:
            return


async def _is_done(kit: TestKit) -> bool:
    try:
        return not any([await kit.store.peek(address) for address in ADDRESSES])
    except StoreUnavailable:
        return False
