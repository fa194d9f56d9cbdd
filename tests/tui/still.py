"""A still life: a desk in the middle of its day, made by real nodes under hand-driven time, then stopped for ever.

Every picture of it is the same on every machine: clocks stand, ids and chance are those of `ManualPort`. What is shown
was made by the runtime; nothing writes rows by hand.
"""

import copy
import functools
from dataclasses import replace
from typing import Any, cast

import anyio

from callboard.actors.spec import Child, Supervisor, Tree
from callboard.actors.system import Pause
from callboard.actors.testing import ManualPort, TestKit
from callboard.mailbox.lane import Lane
from callboard.persistence.memory import MemoryStore
from callboard.persistence.port import RealPort
from callboard.service.operations.decisions import Answer

from .desk import Desk, MovedPort
from .fallen import fallen
from .trouble import CLERK, MAILER, Clerk, Mail, Mailer, Press, Task


class StoppedPort(RealPort):
    """A port whose clocks stand; waiting takes its time all the same."""

    def __init__(self, at: float) -> None:
        super().__init__()
        self._at = at

    def wall(self) -> float:
        return self._at

    def monotonic(self) -> float:
        return self._at

    def random(self) -> float:
        return 0.5


def stopped(store: MemoryStore, port: ManualPort) -> MemoryStore:
    """What the store holds now, in a store that nobody changes any more; its nodes are up in it."""
    still = MemoryStore(StoppedPort(port.wall()))
    still.tables = copy.deepcopy(store.tables)
    still.cluster.owners = dict(store.cluster.owners)
    still.cluster.nodes = {number: copy.copy(node) for number, node in store.cluster.nodes.items()}
    return still


@functools.cache
def desk_life() -> MemoryStore:
    """Refunds, a payout and a letter wait for people; dead letters, retries, a pause, a parked actor; two nodes."""
    return anyio.run(_desk_life)


@functools.cache
def fallen_life() -> MemoryStore:
    """One run with everything a trace can have: a retry, a lost node, a take-over, an approval after a hold."""
    return anyio.run(_fallen_life)


async def _fallen_life() -> MemoryStore:
    async with fallen() as stage:
        return stopped(stage.store, stage.port)


async def _desk_life() -> MemoryStore:
    kit = TestKit(Supervisor("crm", ()), nodes=2)
    desk = Desk(kit.store, cast(MovedPort, kit.port), hold_seconds=60.0, model=None)
    kit.tree = _with_office(desk.runtime.tree)
    async with kit:
        await _troubles(kit)
        await _decided(kit, desk)
        await _waiting(kit, desk)
        return stopped(kit.store, kit.port)


def _with_office(tree: Tree) -> Tree:
    gate = anyio.Event()
    office = Supervisor(
        "office",
        (
            Child(Clerk, "clerk", pool=True, args=(gate,)),
            Child(Mailer, "mailer", pool=True),
            Child(Press, "press", args=(gate,)),
        ),
        max_restarts=1_000,
    )
    root = tree.root
    return Tree(replace(root, children=(*root.children, office)))


async def _troubles(kit: TestKit) -> None:
    clerk = "/crm" + CLERK
    await kit.send(f"/crm{MAILER}:3", Mail("550 5.1.1 mailbox unavailable", "press@chronicle.example"))
    await kit.advance(seconds=2)
    await kit.send(f"{clerk}:crm-5", Task("reject there is no account 77120"))
    await kit.send(f"{clerk}:us-7", Task("park the sum is odd"))
    await kit.send(f"{clerk}:eu-9", Task("ok"))
    await kit.client.send(f"{clerk}:eu-9", Pause("ann", "the customer is on the phone"), lane=Lane.SYSTEM)
    await kit.advance(seconds=5)
    await kit.send(f"{clerk}:eu-9", Task("ok", "A-20944"))
    await kit.advance(minutes=4)


async def _decided(kit: TestKit, desk: Desk) -> None:
    for amount, said in (("210.00", "denied"), ("34.90", "approved"), ("60.00", "taken back")):
        approval = await _asked(kit, desk.refund(amount, order=f"A-2{amount[:2]}07", wait=False))
        view = await desk.decisions("ana").find(approval)
        sums = tuple(str(one.value) for one in view.money)
        if said == "denied":
            await desk.decisions("ana").decide(approval, Answer("denied", note="ask for photos"))
        else:
            await desk.decisions("mara").decide(approval, Answer("approved", sums))
        await kit.advance(seconds=4)
        if said == "taken back":
            await desk.decisions("mara").take_back(approval, note="typo")
            await kit.settle()
            await desk.decisions("mara").decide(approval, Answer("denied", note="another order"))
        await kit.advance(minutes=2)


async def _waiting(kit: TestKit, desk: Desk) -> None:
    desk.delivered_days["A-20931"] = 41
    await _asked(kit, desk.refund("480.00", order="A-20931", wait=False))
    await kit.advance(minutes=8)
    await _asked(kit, desk.refund("89.90", order="A-20944", to="paypal_ilse_4242", wait=False))
    await kit.advance(minutes=3)
    await _asked(kit, desk.payout(67010, wait=False, by="sam"))
    await kit.advance(seconds=34)
    await _asked(kit, desk.mail(wait=False))
    await kit.advance(seconds=13)
    await _asked(kit, desk.refund("12.40", order="A-20950", wait=False))
    await kit.advance(seconds=11)
    await _asked(kit, desk.refund("24.00", order="A-20951", wait=False))
    await kit.send(f"/crm{CLERK}:eu-1", Task("fail upstream answered 503"))
    for task in ("later tomorrow", "wait", "ok", "ok"):
        await kit.send(f"/crm{CLERK}:eu-2", Task(task, "A-20931", "hunter2"))
    await kit.advance(seconds=20)


async def _asked(kit: TestKit, asking: Any) -> str:
    """Let a run go as far as its question; the id of that."""
    before = {row.id for row in await kit.store.decisions(status="pending", limit=1_000)}
    await asking
    await kit.settle()
    [new] = {row.id for row in await kit.store.decisions(status="pending", limit=1_000)} - before
    return new
