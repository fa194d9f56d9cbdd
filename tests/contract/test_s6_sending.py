"""S6: a message sent with a client id is accepted once; the same client id with another body is a Conflict."""

import anyio
import pytest

from callboard.mailbox.errors import Conflict, MailboxFull
from callboard.mailbox.lane import Lane
from callboard.persistence.store import Session, Store
from tests.contract.build import AGENT, OTHER, ids, message, waiting, work, write

pytestmark = pytest.mark.anyio

LIMIT = 10_000


async def test_s6_messages_from_outside_are_read_like_any_other(store: Store, node: Session) -> None:
    sent = [message(), message(OTHER)]
    assert await store.send(sent) == [True, True]
    found, _ = await node.ready(range(256), per_actor=5, limit=5)
    assert sorted(ids(found)) == ids(sent)


async def test_s6_without_a_client_id_nothing_is_the_same(store: Store, node: Session) -> None:
    for _ in range(2):
        assert await store.send([message()]) == [True]
        assert await store.send([message()], [""]) == [True]
    assert len(await waiting(node)) == 4


async def test_s6_sending_again_is_accepted_once(store: Store, node: Session) -> None:
    first = message()
    assert await store.send([first], ["c1"]) == [True]
    assert await store.send([message()], ["c1"]) == [False]
    assert await waiting(node) == [first.id]


async def test_s6_a_client_id_is_known_after_its_message_was_handled(store: Store, node: Session) -> None:
    first = message()
    await store.send([first], ["c1"])
    await write(node, work(acks=[first.id]))
    assert await store.send([message()], ["c1"]) == [False]
    assert await waiting(node) == []


async def test_s6_the_same_call_again_accepts_only_what_is_new(store: Store, node: Session) -> None:
    await store.send([message()], ["c1"])
    assert await store.send([message(), message(), message()], ["c0", "c1", "c2"]) == [True, False, True]
    assert len(await waiting(node)) == 3


async def test_s6_a_client_id_twice_in_a_call_is_accepted_once(store: Store, node: Session) -> None:
    assert await store.send([message(), message()], ["c1", "c1"]) == [True, False]
    assert len(await waiting(node)) == 1


async def test_s6_another_body_under_the_same_client_id_is_a_conflict(store: Store, node: Session) -> None:
    first = message()
    await store.send([first], ["c1"])
    with pytest.raises(Conflict, match="c1"):
        await store.send([message(OTHER), message(body='{"type":"note","more":1}')], ["c2", "c1"])
    assert await waiting(node) == [first.id]
    assert await waiting(node, OTHER) == []
    assert await store.send([message(OTHER)], ["c2"]) == [True], "the refused call left no client id behind"


async def test_s6_client_ids_of_different_recipients_are_different(store: Store, node: Session) -> None:
    assert await store.send([message(AGENT)], ["c1"]) == [True]
    assert await store.send([message(OTHER)], ["c1"]) == [True]


async def test_s6_of_many_senders_at_once_one_is_accepted(store: Store, node: Session) -> None:
    accepted: list[bool] = []

    async def send() -> None:
        accepted.extend(await store.send([message()], ["c1"]))

    async with anyio.create_task_group() as group:
        for _ in range(20):
            group.start_soon(send)
    assert sorted(accepted) == [False] * 19 + [True]
    assert len(await waiting(node)) == 1


async def test_s6_a_full_mailbox_refuses_more_and_keeps_what_it_has(store: Store, node: Session) -> None:
    await write(node, work(sends=[message() for _ in range(LIMIT)]))
    with pytest.raises(MailboxFull, match=AGENT):
        await store.send([message(OTHER), message()])
    assert await waiting(node, OTHER) == [], "nothing of a refused call is accepted"
    assert await store.send([message(OTHER)]) == [True]
    urgent = message(lane=int(Lane.SYSTEM))
    assert await store.send([urgent]) == [True], "replies and system messages always find room"
    assert (await waiting(node, limit=2 * LIMIT))[0] == urgent.id
    await write(node, work(acks=(await waiting(node, limit=101))))
    assert await store.send([message()]) == [True]


async def test_s6_sending_nothing_is_fine(store: Store) -> None:
    assert await store.send([]) == []
