"""S14: a dead letter is settled once: sent again or discarded. The loser learns who settled it."""

import anyio
import msgspec
import pytest

from callboard.mailbox.envelope import DeadLetter, Envelope
from callboard.mailbox.errors import CallboardError, Conflict, MailboxFull, NotFound, UsageError
from callboard.persistence.operating import AuditEntry
from callboard.persistence.store import Session, Store
from tests.contract.build import AGENT, OTHER, dead, message, next_id, turn, work, write
from tests.contract.world import World

pytestmark = pytest.mark.anyio

ANN = AuditEntry("ann", "requeue", "dead-letter:1", channel="cli")
BOB = AuditEntry("bob", "discard", "dead-letter:1", channel="http")


async def bury(store: Store, node: Session, envelope: Envelope | None = None, **fields: str) -> DeadLetter:
    """A message that was given up, as it is listed."""
    given_up = envelope or message()
    await write(node, work(given_up.shard, sends=[given_up]))
    letter = msgspec.structs.replace(dead(given_up), **fields)
    await write(node, work(given_up.shard, acks=[given_up.id], turns=[turn(given_up, outcome="dead")], dead=[letter]))
    [found] = await store.dead_letters(limit=1)
    assert found.envelope.id == given_up.id
    return found


def again(letter: DeadLetter) -> Envelope:
    return msgspec.structs.replace(letter.envelope, id=next_id(), deliveries=0, failures=0, sender_seq=0)


async def test_s14_a_dead_letter_has_a_number_by_which_it_is_found(store: Store, node: Session) -> None:
    first, second = await bury(store, node), await bury(store, node)
    assert 0 < first.number < second.number
    assert await store.dead_letter(first.number) == first
    assert (first.settled, first.settled_at, first.settled_by) == ("", 0.0, "")
    assert await store.dead_letter(second.number + 1) is None
    assert await store.dead_letter(1 << 70) is None


async def test_s14_a_page_of_dead_letters_goes_on_where_the_last_one_ended(store: Store, node: Session) -> None:
    letters = [await bury(store, node, message(address)) for address in (AGENT, OTHER, AGENT, AGENT)]
    numbers = [letter.number for letter in letters]
    assert [letter.number for letter in await store.dead_letters()] == numbers[::-1]
    assert [x.number for x in await store.dead_letters(before=numbers[2], limit=1)] == [numbers[1]]
    assert [x.number for x in await store.dead_letters(recipient=AGENT, before=numbers[3])] == [numbers[2], numbers[0]]
    await store.discard(numbers[3], BOB)
    assert [letter.number for letter in await store.dead_letters(open_only=True, limit=2)] == [numbers[2], numbers[1]]
    opened = await store.dead_letters(recipient=AGENT, open_only=True)
    assert [letter.number for letter in opened] == [numbers[2], numbers[0]]
    assert len(await store.dead_letters()) == 4, "what is settled is kept"


async def test_s14_requeueing_sends_the_message_and_says_so_in_one_transaction(store: Store, node: Session) -> None:
    letter = await bury(store, node)
    envelope = again(letter)
    settled = await store.requeue(letter.number, envelope, ANN)
    assert (settled.settled, settled.settled_by) == ("requeued", "ann") and settled.settled_at > 0
    assert settled.envelope == letter.envelope, "what was given up stays as it was"
    [view] = await store.peek(AGENT)
    assert (view.envelope.id, view.state, view.envelope.body) == (envelope.id, "ready", letter.envelope.body)
    [row] = await store.audit(object="dead-letter:1")
    assert (row.who, row.action, row.channel) == ("ann", "requeue", "cli")
    assert await store.dead_letter(letter.number) == settled


async def test_s14_discarding_sends_nothing(store: Store, node: Session) -> None:
    letter = await bury(store, node)
    settled = await store.discard(letter.number, BOB)
    assert (settled.settled, settled.settled_by) == ("discarded", "bob") and settled.settled_at > 0
    assert await store.peek(AGENT) == []
    assert [row.who for row in await store.audit(object="dead-letter:1")] == ["bob"]


async def test_s14_the_loser_learns_who_settled_it_and_changes_nothing(store: Store, node: Session) -> None:
    letter = await bury(store, node)
    await store.discard(letter.number, BOB)
    for late in (store.requeue(letter.number, again(letter), ANN), store.discard(letter.number, ANN)):
        with pytest.raises(Conflict, match="discarded by bob"):
            await late
    assert await store.peek(AGENT) == []
    assert [row.who for row in await store.audit(object="dead-letter:1")] == ["bob"]


async def test_s14_of_many_at_once_one_settles_it(store: Store, node: Session) -> None:
    letter = await bury(store, node)
    outcomes: list[str] = []

    async def settle(number: int) -> None:
        try:
            if number % 2:
                await store.requeue(letter.number, again(letter), ANN)
            else:
                await store.discard(letter.number, BOB)
            outcomes.append("settled")
        except Conflict:
            outcomes.append("refused")

    async with anyio.create_task_group() as group:
        for number in range(8):
            group.start_soon(settle, number)
    assert sorted(outcomes) == ["refused"] * 7 + ["settled"]
    found = await store.dead_letter(letter.number)
    assert found is not None
    assert len(await store.peek(AGENT)) == (1 if found.settled == "requeued" else 0)
    assert len(await store.audit(object="dead-letter:1")) == 1


async def test_s14_what_is_not_there_is_not_settled(store: Store, node: Session) -> None:
    letter = await bury(store, node)
    for nothing in (store.discard(letter.number + 1, BOB), store.requeue(letter.number + 1, again(letter), ANN)):
        with pytest.raises(NotFound, match="callboard dead"):
            await nothing
    assert await store.audit(object="dead-letter:1") == []


async def test_s14_a_full_mailbox_leaves_the_dead_letter_open(world: World, node: Session) -> None:
    store = world.store
    letter = await bury(store, node)
    if hasattr(store, "_intake"):
        store._intake._mailbox_limit = 1
    else:
        store._mailbox_limit = 1  # type: ignore[attr-defined]
    await write(node, work(sends=[message()]))
    with pytest.raises(MailboxFull):
        await store.requeue(letter.number, again(letter), ANN)
    found = await store.dead_letter(letter.number)
    assert found is not None and found.settled == ""
    assert len(await store.peek(AGENT)) == 1 and await store.audit(object="dead-letter:1") == []


async def test_s14_an_id_that_is_taken_leaves_the_dead_letter_open(store: Store, node: Session) -> None:
    letter = await bury(store, node)
    taken = message()
    await write(node, work(sends=[taken]))
    with pytest.raises(CallboardError):
        await store.requeue(letter.number, msgspec.structs.replace(again(letter), id=taken.id), ANN)
    found = await store.dead_letter(letter.number)
    assert found is not None and found.settled == "" and await store.audit(object="dead-letter:1") == []


async def test_s14_nobody_settles_namelessly(store: Store, node: Session) -> None:
    letter = await bury(store, node)
    with pytest.raises(UsageError):
        await store.discard(letter.number, AuditEntry("", "discard", "dead-letter:1"))
    assert await store.dead_letter(letter.number) == letter


async def test_s14_what_is_given_up_on_purpose_is_settled_from_the_beginning(store: Store, node: Session) -> None:
    letter = await bury(store, node, reason="discarded", settled="discarded", settled_by="ann")
    assert (letter.settled, letter.settled_by) == ("discarded", "ann") and letter.settled_at == letter.at > 0
    assert await store.dead_letters(open_only=True) == []
    with pytest.raises(Conflict, match="discarded by ann"):
        await store.requeue(letter.number, again(letter), BOB)
