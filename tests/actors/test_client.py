"""Outside askers: sending once, asking with a limit, deciding."""

from typing import Any

import anyio
import pytest

from callboard.actors.client import Client
from callboard.actors.context import Context, Ref
from callboard.actors.testing import TestKit
from callboard.mailbox.errors import BadAddress, Conflict, MailboxFull, NotFound, StoreUnavailable
from callboard.mailbox.message import Message
from callboard.mailbox.request import Request
from callboard.persistence.rows import Verdict
from tests.actors.world import SETTINGS, Answer, Note, Probe, notes, tree

pytestmark = pytest.mark.anyio

ONE = "/t/p:1"


def echo(_probe: Probe, note: Note, ctx: Context) -> None:
    if note.text == "never":
        return
    if note.text.startswith("later"):
        ctx.schedule("later", 3, Note("now"))
        return
    ctx.reply(Answer(f"echo {note.text}"))


async def ask(kit: TestKit, message: Request[Any], *, seconds: float, pass_seconds: float = 0.0) -> Message | None:
    """Ask, and let time pass meanwhile; None where the limit came first."""
    got: list[Message | None] = []

    async def asking() -> None:
        try:
            got.append(await kit.client.ask(ONE, message, seconds=seconds))
        except TimeoutError:
            got.append(None)

    async with anyio.create_task_group() as group:
        group.start_soon(asking)
        await kit.settle()
        await kit.advance(seconds=pass_seconds)
        assert got, "neither an answer nor the limit"
    return got[0]


async def test_an_ask_gets_its_reply() -> None:
    async with TestKit(tree(echo)) as kit:
        assert await kit.client.ask(ONE, Note("a"), seconds=5) == Answer("echo a")
        assert await kit.client.ask(Ref[Note](ONE), Note("b"), seconds=5) == Answer("echo b")


async def test_an_ask_that_nobody_answers_ends_at_its_limit_and_is_handled_all_the_same() -> None:
    async with TestKit(tree(echo)) as kit:
        assert await ask(kit, Note("never"), seconds=2.5, pass_seconds=3) is None
        assert await notes(kit, ONE) == ["never"]


async def test_asks_at_the_same_time_get_their_own_replies() -> None:
    async with TestKit(tree(echo)) as kit:
        got: dict[str, Message] = {}

        async def one(text: str) -> None:
            got[text] = await kit.client.ask(ONE, Note(text), seconds=5)

        async with anyio.create_task_group() as group:
            for n in range(20):
                group.start_soon(one, str(n))
        assert got == {str(n): Answer(f"echo {n}") for n in range(20)}


async def test_a_reply_may_come_in_a_later_turn() -> None:
    waiting: list[tuple[str, int]] = []

    def script(_probe: Probe, note: Note, ctx: Context) -> None:
        if note.text == "ask":
            waiting.append(ctx.reply_to)
            ctx.schedule("later", 3, Note("now"))
        else:
            ctx.reply_later(waiting[0], Answer("at last"))

    async with TestKit(tree(script)) as kit:
        assert await ask(kit, Note("ask"), seconds=10, pass_seconds=4) == Answer("at last")


async def test_a_reply_survives_the_death_of_the_node_that_would_have_sent_it() -> None:
    async with TestKit(tree(echo), nodes=2, settings=SETTINGS) as kit:
        await kit.advance(seconds=2)
        for node in list(kit.nodes):
            kit.session(node).crash()
        for node in list(kit.nodes):
            await kit.crash(node)
        got: list[Message] = []

        async def asking() -> None:
            got.append(await kit.client.ask(ONE, Note("a"), seconds=30))

        async with anyio.create_task_group() as group:
            group.start_soon(asking)
            await kit.settle()
            await kit.join()
            await kit.advance(seconds=10)
        assert got == [Answer("echo a")]


async def test_without_anybody_waiting_a_reply_goes_nowhere() -> None:
    async with TestKit(tree(echo)) as kit:
        await kit.send(ONE, Note("a"))
        assert kit.store.tables.messages == {}
        assert await kit.store.dead_letters() == []


async def test_a_client_id_makes_a_repeated_send_the_same_send() -> None:
    async with TestKit(tree(echo)) as kit:
        other = Client(kit.store, kit.port)
        assert await kit.client.send(ONE, Note("a"), client_id="order 1")
        assert not await kit.client.send(ONE, Note("a"), client_id="order 1")
        assert not await other.send(ONE, Note("a"), client_id="order 1")
        with pytest.raises(Conflict, match="order 1"):
            await other.send(ONE, Note("b"), client_id="order 1")
        assert await other.send("/t/p:2", Note("b"), client_id="order 1"), "an id is the recipient's"
        await kit.settle()
        assert await notes(kit, ONE) == ["a"]


async def test_two_clients_never_make_the_same_id() -> None:
    async with TestKit(tree(echo)) as kit:
        clients = [Client(kit.store, kit.port) for _ in range(5)]
        ids = [(await client.envelope(ONE, Note())).id for client in clients for _ in range(50)]
        assert len(set(ids)) == len(ids)


async def test_a_clients_messages_are_handled_in_the_order_of_their_sending() -> None:
    async with TestKit(tree(echo)) as kit:
        for n in range(30):
            await kit.client.send(ONE, Note(f"later {n}"))
        await kit.settle()
        assert await notes(kit, ONE) == [f"later {n}" for n in range(30)]


async def test_errors_name_the_value_and_the_way_out() -> None:
    kit = TestKit(tree(echo))
    with pytest.raises(BadAddress, match="not an address"):
        await kit.client.send("nowhere", Note())
    with pytest.raises(NotFound, match="callboard approvals"):
        await kit.client.decide(Verdict("d1", "approved", "digest", "jo"))
    kit.store.down = True
    with pytest.raises(StoreUnavailable):
        await kit.client.send(ONE, Note())


async def test_g10_a_full_mailbox_refuses_what_comes_from_outside_and_takes_answers() -> None:
    kit = TestKit(tree(echo))
    for _ in range(10):
        await kit.store.send([await kit.client.envelope(ONE, Note()) for _ in range(1000)])
    with pytest.raises(MailboxFull, match="try again later"):
        await kit.client.send(ONE, Note())
    async with kit:
        assert await kit.client.ask(ONE, Note("a"), seconds=5) == Answer("echo a")


async def test_many_tasks_that_begin_at_once_lease_one_number_and_make_no_id_twice() -> None:
    async with TestKit(tree(echo)) as kit:
        client, leased, lease = Client(kit.store, kit.port), [], kit.store.lease_number

        async def counted(holder: str, *, seconds: float) -> int:
            leased.append(await lease(holder, seconds=seconds))
            return leased[-1]

        kit.store.lease_number = counted  # type: ignore[method-assign]
        ids: list[int] = []

        async def begin() -> None:
            ids.append(await client.new_id())

        async with anyio.create_task_group() as group:
            for _ in range(20):
                group.start_soon(begin)
        assert (len(leased), len(set(ids))) == (1, 20)


async def test_an_answer_may_be_waited_for_again_without_asking_again() -> None:
    async with TestKit(tree(echo)) as kit:
        asked = await kit.client.begin(ONE, Note("a"))
        assert await asked.answer(0.0) is None
        assert await asked.answer(5.0) == Answer("echo a")
        assert await notes(kit, ONE) == ["a"]
