"""G3, G7, G8 and rule 9: nodes die, freeze and wake, the store goes away; nothing is lost, charged, or done twice."""

import pytest
from anyio.lowlevel import checkpoint

from callboard.actors.context import Context, WorkerContext
from callboard.actors.node import Node
from callboard.actors.spec import Child
from callboard.actors.testing import TestKit
from callboard.mailbox.message import Message
from tests.actors.world import (
    SETTINGS,
    Answer,
    Call,
    Note,
    Probe,
    Tools,
    address_of,
    answers,
    notes,
    send_all,
    shards,
    tree,
)

pytestmark = pytest.mark.anyio

LEASE = SETTINGS.lease_seconds


def taken_over(node: Node) -> list[tuple[int, str]]:
    assert node.life is not None
    return [(number, by) for number, by, _ in node.life.ownership.taken_over]


async def two_nodes(kit: TestKit) -> tuple[Node, Node]:
    await kit.advance(seconds=2)
    first, second = kit.nodes
    assert [shards(kit, node) for node in kit.nodes] == [128, 128]
    return first, second


async def test_g7_a_killed_node_is_taken_over_at_once_by_its_lock() -> None:
    async with TestKit(tree(), nodes=2, settings=SETTINGS) as kit:
        first, second = await two_nodes(kit)
        number = kit.session(first).number
        address = address_of(kit, first)
        await kit.send(address, Note("a"))
        before = kit.port.elapsed
        await kit.crash(first)
        assert kit.port.elapsed == before
        assert taken_over(second) == [(number, "lock")]
        await kit.send(address, Note("b"))
        assert await notes(kit, address) == ["a", "b"]
        assert shards(kit, second) == 256


async def test_g7_the_node_with_the_highest_number_is_watched_by_the_one_with_the_lowest() -> None:
    """The watchers stand in a ring: also the last one's death is noticed by its lock, not only after a lease."""
    async with TestKit(tree(), nodes=2, settings=SETTINGS) as kit:
        first, second = await two_nodes(kit)
        number, before = kit.session(second).number, kit.port.elapsed
        assert number > kit.session(first).number
        await kit.crash(second)
        assert kit.port.elapsed == before
        assert taken_over(first) == [(number, "lock")]


async def test_g7_a_frozen_node_is_taken_over_by_its_lease_and_not_before() -> None:
    async with TestKit(tree(), nodes=2, settings=SETTINGS) as kit:
        first, second = await two_nodes(kit)
        number = kit.session(first).number
        kit.freeze(first)
        await kit.advance(seconds=LEASE - SETTINGS.beat_seconds)
        assert taken_over(second) == []
        await kit.advance(seconds=3 * SETTINGS.beat_seconds)
        assert taken_over(second) == [(number, "lease")]


async def test_g3_a_frozen_node_that_wakes_commits_nothing_and_joins_anew() -> None:
    handled: list[int] = []

    def script(_probe: Probe, _note: Note, ctx: Context) -> None:
        handled.append(ctx.node)

    async with TestKit(tree(script), nodes=2, settings=SETTINGS) as kit:
        first, second = await two_nodes(kit)
        address = address_of(kit, first)
        old, heir = kit.session(first).number, kit.session(second).number
        await kit.send(address, Note("first"))
        await kit.client.send(address, Note("a"))
        while len(handled) == 1:
            await checkpoint()
        kit.freeze(first)
        await kit.settle()
        assert (handled, await notes(kit, address)) == ([old, old], ["first"]), "handled, and not committed"
        await kit.advance(seconds=LEASE + 1)
        assert handled == [old, old, heir]
        await kit.thaw(first)
        await kit.advance(seconds=3)
        assert await notes(kit, address) == ["first", "a"]
        assert [turn.node for turn in await kit.store.turns(address)] == [old, heir]
        assert kit.session(first).number not in (old, heir)
        assert [shards(kit, node) for node in kit.nodes] == [128, 128]


async def test_g3_a_turn_in_hand_when_its_node_is_superseded_is_done_by_the_heir_alone() -> None:
    async def slowly(ctx: Context) -> None:
        await ctx.port.sleep(4)

    async with TestKit(tree(lambda _p, _n, ctx: slowly(ctx)), nodes=2, settings=SETTINGS) as kit:
        first, second = await two_nodes(kit)
        address = address_of(kit, first)
        await kit.send(address, Note("a"))
        heir = kit.session(second).number
        kit.freeze(first)
        await kit.advance(seconds=20)
        await kit.thaw(first)
        await kit.advance(seconds=5)
        assert await notes(kit, address) == ["a"]
        assert [turn.node for turn in await kit.store.turns(address)] == [heir]
        assert await kit.store.dead_letters() == []


async def test_g8_a_kill_every_second_charges_nothing_and_loses_nothing() -> None:
    """Rule 7, in its first form: the death of a process is charged to no message."""

    async def slowly(ctx: Context) -> None:
        await ctx.port.sleep(0.4)

    async with TestKit(tree(lambda _p, _n, ctx: slowly(ctx)), nodes=2, settings=SETTINGS) as kit:
        await kit.advance(seconds=1)
        texts = [str(n) for n in range(40)]
        for number in range(3):
            await send_all(kit, f"/t/p:{number}", texts)
        for n in range(12):
            await kit.advance(seconds=1)
            await kit.crash(kit.nodes[n % 2])
            await kit.join()
        await kit.advance(seconds=40)
        for number in range(3):
            assert await notes(kit, f"/t/p:{number}") == texts
            assert {turn.outcome for turn in await kit.store.turns(f"/t/p:{number}")} == {"done"}
        assert await kit.store.dead_letters() == []


class Slow:
    """A tool's body that takes ten seconds and counts."""

    def __init__(self) -> None:
        self.began = 0

    async def __call__(self, call: Call, ctx: WorkerContext) -> Message:
        self.began += 1
        await ctx.port.sleep(10)
        return Answer(call.text)


def busy(_probe: Probe, note: Note, ctx: Context) -> None:
    match note.text:
        case "call":
            ctx.send("/t/tool", Call("done"))
        case "timer":
            ctx.schedule("later", 30, Note("fired"))


@pytest.mark.parametrize("nodes", [1, 2])
async def test_g8_an_outage_of_a_minute_charges_nothing_and_everything_goes_on(nodes: int) -> None:
    body = Slow()
    async with TestKit(tree(busy, Child(Tools, "tool", args=(body,))), nodes=nodes, settings=SETTINGS) as kit:
        await kit.advance(seconds=2)
        numbers = [kit.session(node).number for node in kit.nodes]
        mine = [address_of(kit, node) for node in kit.nodes]
        for address in mine:
            for text in ("call", "timer", "a"):
                await kit.client.send(address, Note(text))
        await kit.settle()
        envelopes = [await kit.client.envelope(address, Note("b")) for address in mine]
        await kit.store.send(envelopes)
        kit.store.down = True
        await kit.advance(seconds=60)
        kit.store.down = False
        await kit.advance(seconds=10)
        for address in mine:
            assert await notes(kit, address) == ["call", "timer", "a", "b", "fired"]
            assert await answers(kit, address) == ["done"]
            row = await kit.row(address)
            assert row is not None and (row.incarnation, row.status) == (1, "active")
        assert body.began == nodes, "calls that ran through the outage are not begun again"
        assert [kit.session(node).number for node in kit.nodes] == numbers, "nobody was taken over"
        assert await kit.store.dead_letters() == []


@pytest.mark.parametrize("operation", ["load", "mailbox", "ready", "due", "members", "commit", "owned", "claim"])
async def test_g8_an_outage_at_any_call_is_got_over(operation: str) -> None:
    """Each call to the store fails once, at its first use after the messages are there."""
    async with TestKit(tree(busy), settings=SETTINGS) as kit:
        await kit.send("/t/p:0", Note("warm"))
        hit = 0

        async def before(_number: int, called: str) -> None:
            nonlocal hit
            if called == operation and not hit:
                hit = 1
                kit.store.down = True

        envelopes = [await kit.client.envelope(f"/t/p:{n}", Note(str(n))) for n in range(5) for _ in range(3)]
        await kit.store.send(envelopes)
        kit.store.before = before
        await kit.advance(seconds=3)
        kit.store.down = False
        await kit.advance(seconds=5)
        for n in range(5):
            assert (await notes(kit, f"/t/p:{n}"))[-3:] == [str(n)] * 3


async def test_g8_an_outage_while_the_tree_is_booted_leaves_no_tree_unbooted() -> None:
    for nth in range(12):
        kit = TestKit(tree(busy, Child(Probe, "one")), settings=SETTINGS)
        calls = 0

        async def before(_number: int, _operation: str, kit: TestKit = kit, nth: int = nth) -> None:
            nonlocal calls
            calls += 1
            if calls == nth:
                kit.store.down = True

        kit.store.before = before
        async with kit:
            await kit.advance(seconds=2)
            kit.store.down = False
            await kit.advance(seconds=5)
            row = await kit.row("/t/one")
            assert row is not None and row.status == "active", f"outage at call {nth}"


async def test_rule_9_a_restart_of_the_server_frees_every_lock_and_takes_nobody_over() -> None:
    body = Slow()
    async with TestKit(tree(busy, Child(Tools, "tool", args=(body,))), nodes=3, settings=SETTINGS) as kit:
        await kit.advance(seconds=3)
        owners = dict(kit.store.cluster.owners)
        address = address_of(kit, kit.nodes[1])
        await kit.send(address, Note("call"))
        kit.store.restart()
        await kit.advance(seconds=12)
        assert kit.store.cluster.owners == owners
        assert [taken_over(node) for node in kit.nodes] == [[], [], []]
        assert body.began == 1
        assert await answers(kit, address) == ["done"]


async def test_g7_with_all_nodes_gone_the_next_one_takes_everything_over() -> None:
    async with TestKit(tree(), nodes=2, settings=SETTINGS) as kit:
        await two_nodes(kit)
        await kit.send("/t/p:1", Note("a"))
        for node in list(kit.nodes):
            kit.session(node).crash()
        for node in list(kit.nodes):
            await kit.crash(node)
        await kit.client.send("/t/p:1", Note("b"))
        node = await kit.join()
        await kit.advance(seconds=2 * LEASE)
        assert shards(kit, node) == 256
        assert await notes(kit, "/t/p:1") == ["a", "b"]


async def test_g7_neighbours_in_the_ring_that_die_together_are_both_taken_over() -> None:
    async with TestKit(tree(), nodes=3, settings=SETTINGS) as kit:
        await kit.advance(seconds=3)
        first, second, third = kit.nodes
        for node in (first, second):
            kit.session(node).crash()
        for node in (first, second):
            await kit.crash(node)
        await kit.advance(seconds=2 * LEASE)
        assert shards(kit, third) == 256
