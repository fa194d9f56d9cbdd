"""G2: first in, first out for each sender and lane, wherever messages wait and whoever owns them."""

from collections.abc import Awaitable
from typing import Any

import anyio
import pytest

from callboard.actors import cells, reader
from callboard.actors.context import Context
from callboard.actors.directives import Transient
from callboard.actors.testing import TestKit
from callboard.mailbox.address import shard_of
from callboard.mailbox.errors import StoreUnavailable
from callboard.mailbox.lane import Lane
from tests.actors.world import SETTINGS, Note, Probe, address_of, addresses, notes, send_all, tree

pytestmark = pytest.mark.anyio

ONE = "/t/p:1"
SENDER = "/t/p:sender"


def sends(receiver: str, count: int, slow_seconds: float = 0.0) -> Any:
    """A script: whoever gets `go:N` sends `count` notes from N on to `receiver`, which takes a while for each."""

    def script(_probe: Probe, note: Note, ctx: Context) -> Awaitable[None] | None:
        if note.text.startswith("go:"):
            first = int(note.text[3:])
            for n in range(first, first + count):
                ctx.send(receiver, Note(f"{ctx.address} {n}"))
            return None
        return ctx.port.sleep(slow_seconds) if slow_seconds and ctx.address == receiver else None

    return script


def by_sender(texts: list[str]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for text in texts:
        sender, _, number = text.rpartition(" ")
        found.setdefault(sender, []).append(int(number))
    return found


async def test_g2_one_sender_is_handled_in_order() -> None:
    async with TestKit(tree(sends(ONE, 50))) as kit:
        await send_all(kit, SENDER, [f"go:{n}" for n in range(0, 500, 50)])
        await kit.settle()
        assert by_sender(await notes(kit, ONE)) == {SENDER: list(range(500))}


async def test_g2_lanes_overtake_each_other_and_keep_their_own_order() -> None:
    async with TestKit(tree()) as kit:
        texts = [(lane, f"{lane.name} {n}") for n in range(3) for lane in (Lane.NORMAL, Lane.REPLY, Lane.SYSTEM)]
        envelopes = [await kit.client.envelope(ONE, Note(text), lane=lane) for lane, text in texts]
        await kit.store.send(envelopes)
        await kit.settle()
        assert await notes(kit, ONE) == [f"{lane} {n}" for lane in ("SYSTEM", "REPLY", "NORMAL") for n in range(3)]


async def test_g2_a_retry_keeps_its_place_and_blocks_its_lane_only() -> None:
    failed = False

    def script(_probe: Probe, note: Note, _ctx: Context) -> None:
        nonlocal failed
        if note.text == "x" and not failed:
            failed = True
            raise RuntimeError("bug")

    async with TestKit(tree(script)) as kit:
        await send_all(kit, ONE, ["a", "x", "b", "c"])
        await send_all(kit, ONE, ["urgent"], lane=Lane.REPLY)
        await kit.settle()
        await kit.client.send(ONE, Note("urgent too"), lane=Lane.REPLY)
        await kit.settle()
        assert await notes(kit, ONE) == ["urgent", "a", "urgent too"]
        await kit.advance(seconds=1)
        assert await notes(kit, ONE) == ["urgent", "a", "urgent too", "x", "b", "c"]


async def test_g2_a_retry_keeps_its_place_across_a_take_over() -> None:
    down = True

    def script(_probe: Probe, note: Note, _ctx: Context) -> None:
        if note.text == "x" and down:
            raise Transient("not yet", after_seconds=10)

    async with TestKit(tree(script), settings=SETTINGS) as kit:
        await send_all(kit, ONE, ["a", "x", "b"])
        await kit.settle()
        await kit.join()
        await kit.crash(kit.nodes[0])
        await kit.advance(seconds=5)
        assert await notes(kit, ONE) == ["a"], "the back-off goes on where it was"
        down = False
        await kit.advance(seconds=5.1)
        assert await notes(kit, ONE) == ["a", "x", "b"]


@pytest.mark.parametrize("window", [1, 3, 8])
async def test_rule_5_nothing_is_handed_over_past_what_waits_on_disk(
    monkeypatch: pytest.MonkeyPatch, window: int
) -> None:
    monkeypatch.setattr(reader, "WINDOW", window)
    monkeypatch.setattr(cells, "QUEUE_LIMIT", 5)
    monkeypatch.setattr(cells, "LOW_WATER", 2)
    async with TestKit(tree(sends(ONE, 7, slow_seconds=0.01))) as kit:
        for first in range(0, 140, 7):
            await kit.send(SENDER, Note(f"go:{first}"))
            await kit.advance(seconds=0.03)
            cell = kit.nodes[0].life and kit.nodes[0].life.cells.cells.get(ONE)
            assert cell and len(cell.queue) <= 5 + 7 + window
        await kit.advance(seconds=10)
        assert by_sender(await notes(kit, ONE)) == {SENDER: list(range(140))}


async def test_rule_5_a_window_smaller_than_the_backlog_is_never_taken_for_all_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its first messages on disk (read in windows), its last ones handed over: the last must wait for the first."""
    monkeypatch.setattr(reader, "WINDOW", 4)
    async with TestKit(tree(sends(ONE, 10, slow_seconds=0.01)), settings=SETTINGS) as kit:
        kit.store.down = True  # all of it is on disk before a node reads any
        await kit.advance(seconds=1)
        kit.store.down = False
        await send_all(kit, ONE, [f"client {n}" for n in range(60)])
        await kit.send(SENDER, Note("go:0"))
        await kit.advance(seconds=0.1)
        await kit.send(SENDER, Note("go:10"))
        await kit.advance(seconds=10)
        assert by_sender(await notes(kit, ONE)) == {"client": list(range(60)), SENDER: list(range(20))}


async def test_a_read_older_than_the_acknowledgement_brings_nothing_back() -> None:
    handled: list[str] = []

    def script(_probe: Probe, note: Note, _ctx: Context) -> None:
        handled.append(note.text)

    async with TestKit(tree(script)) as kit:
        session = kit.session(kit.nodes[0])
        ready, may_commit, may_read = session.ready, anyio.Event(), anyio.Event()
        seen: list[int] = []

        async def before(_number: int, operation: str) -> None:
            if operation == "commit":
                await may_commit.wait()

        async def slow_read(*args: Any, **kwargs: Any) -> Any:
            answer = await ready(*args, **kwargs)
            seen.append(len(answer[0]))
            if len(seen) == 2:
                await may_read.wait()
            return answer

        session.ready = slow_read  # type: ignore[method-assign]
        kit.store.before = before
        await kit.send(ONE, Note("a"))
        await kit.advance(seconds=1)
        assert seen == [1, 1], "the poll has read the message, which is in a turn that is not committed"
        may_commit.set()
        await kit.settle()
        assert await kit.store.peek(ONE) == []
        may_read.set()
        await kit.advance(seconds=5)
        assert handled == ["a"]


async def test_g2_senders_on_two_nodes_each_keep_their_order() -> None:
    async with TestKit(tree(), nodes=2, settings=SETTINGS) as kit:
        await kit.advance(seconds=1)
        here, there = (address_of(kit, node) for node in kit.nodes)
        receiver = next(other for other in addresses(kit, kit.nodes[0]) if other != here)
    async with TestKit(tree(sends(receiver, 5)), nodes=2, settings=SETTINGS) as kit:
        await kit.advance(seconds=1)
        for first in range(0, 100, 5):
            await kit.client.send(here, Note(f"go:{first}"))
            await kit.client.send(there, Note(f"go:{first}"))
            await kit.advance(seconds=0.03)
        await kit.advance(seconds=2)
        assert by_sender(await notes(kit, receiver)) == {here: list(range(100)), there: list(range(100))}


async def test_g2_what_a_sender_wrote_under_its_former_owner_is_not_overtaken() -> None:
    def script(_probe: Probe, note: Note, ctx: Context) -> None:
        if note.text.startswith("to "):
            ctx.send(note.text.split()[1], Note(note.text.split()[2]))

    async with TestKit(tree(script), nodes=2, settings=SETTINGS) as kit:
        await kit.advance(seconds=1)
        first, second = kit.nodes
        sender, receiver = address_of(kit, first), address_of(kit, second)
        await kit.send(receiver, Note("there"))
        await kit.advance(seconds=2)
        number = kit.session(second).number
        kit.store.wakes = lambda woken, _wake: () if woken == number else (0.0,)
        await kit.send(sender, Note(f"to {receiver} 1"))
        assert await notes(kit, receiver) == ["there"], "its node was not woken and has not polled yet"
        kit.store.wakes = lambda _woken, _wake: (0.0,)
        await kit.crash(first)
        await kit.send(sender, Note(f"to {receiver} 2"))
        await kit.advance(seconds=2)
        assert await notes(kit, receiver) == ["there", "1", "2"]


async def test_g2_nothing_is_handed_over_before_all_that_came_in_was_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first look at what came in takes many reads: what the sender does after one of them waits for the last."""
    monkeypatch.setattr(reader, "PAGE", 1)

    def script(_probe: Probe, note: Note, ctx: Context) -> None:
        if note.text.startswith("to "):
            ctx.send(note.text.split()[1], Note(note.text.split()[2]))

    async with TestKit(tree(script), nodes=2, settings=SETTINGS) as kit:
        await kit.advance(seconds=1)
        second, first = kit.nodes  # who came second has the lower shards, and shards are read in their order
        sender = min((a for a, _ in zip(addresses(kit, first), range(20), strict=False)), key=shard_of)
        theirs = sorted((a for a, _ in zip(addresses(kit, second), range(20), strict=False)), key=shard_of)
        between, receiver = [a for a in theirs[:-1] if shard_of(a) > shard_of(sender)], theirs[-1]
        assert len(between) > 5
        await kit.send(receiver, Note("there"))
        await kit.advance(seconds=2)
        number = kit.session(second).number
        kit.store.wakes = lambda woken, _wake: () if woken == number else (0.0,)
        await kit.send(sender, Note(f"to {receiver} 1"))
        assert await notes(kit, receiver) == ["there"], "its node was not woken and has not polled yet"
        kit.store.wakes = lambda _woken, _wake: ()
        for address in between:
            await kit.client.send(address, Note("read before what the receiver waits for"))
        await kit.client.send(sender, Note(f"to {receiver} 2"))
        await kit.crash(first)
        await kit.advance(seconds=5)
        assert await notes(kit, receiver) == ["there", "1", "2"]


async def test_g2_what_was_sent_by_a_commit_whose_answer_was_lost_is_not_overtaken() -> None:
    """The hard case: it lands after everything was read anew, and before it is sent again."""

    def script(_probe: Probe, note: Note, ctx: Context) -> None:
        if ctx.address == SENDER:
            ctx.send(ONE, Note(note.text))

    async with TestKit(tree(script)) as kit:
        await kit.send(SENDER, Note("0"))
        session = kit.session(kit.nodes[0])
        commit = session.commit
        lost: list[Any] = []

        async def late(units: Any) -> Any:
            if not lost:
                lost.extend(units)
                raise StoreUnavailable("no answer yet")
            session.commit = commit  # type: ignore[method-assign]
            await kit.port.sleep(0.1)  # what is read anew is read now
            await commit(lost)
            await kit.client.send(SENDER, Note("2"))
            return await commit(units)

        session.commit = late  # type: ignore[method-assign]
        await kit.send(SENDER, Note("1"))
        await kit.advance(seconds=0.2)
        assert await notes(kit, SENDER) == ["0", "1", "2"]
        await kit.advance(seconds=2)
        assert await notes(kit, ONE) == ["0", "1", "2"]


@pytest.mark.parametrize("crashes", [1, 4])
async def test_g2_order_survives_take_overs_under_way(crashes: int) -> None:
    async with TestKit(tree(sends(ONE, 5, slow_seconds=0.01)), nodes=2, settings=SETTINGS) as kit:
        await kit.advance(seconds=1)
        for first in range(0, 100, 5):
            await kit.client.send(SENDER, Note(f"go:{first}"))
            await kit.advance(seconds=0.03)
            if first % 25 == 0 and crashes:
                crashes -= 1
                await kit.crash(kit.nodes[crashes % 2])
                await kit.join()
        await kit.advance(seconds=10)
        assert by_sender(await notes(kit, ONE)) == {SENDER: list(range(100))}
        assert await kit.store.dead_letters() == []


async def test_g2_order_survives_a_join_and_a_leave_under_load() -> None:
    async with TestKit(tree(sends(ONE, 5, slow_seconds=0.01)), settings=SETTINGS) as kit:
        for first in range(0, 150, 5):
            await kit.client.send(SENDER, Note(f"go:{first}"))
            await kit.advance(seconds=0.03)
            if first == 30:
                await kit.join()
            if first == 100:
                await kit.leave(kit.nodes[0])
        await kit.advance(seconds=10)
        assert by_sender(await notes(kit, ONE)) == {SENDER: list(range(150))}
