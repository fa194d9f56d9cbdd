"""Why a message was not delivered, in a sentence with the way out (G6). Pure: rows in, words out."""

import msgspec
import pytest

from callboard.mailbox.errors import StoreUnavailable
from callboard.mailbox.lane import Lane
from callboard.persistence.memory import MemoryStore
from callboard.persistence.operating import Census
from callboard.persistence.rows import ActorRow, Member
from callboard.service.operations.actors import Inspection
from callboard.service.operations.facts import holder_of, is_call, state_of
from callboard.service.operations.runs import Operations
from callboard.service.operations.why import SILENT_SECONDS, actor_why, in_turn, message_why
from tests.service.test_why import ADDRESS, OWNER, facts, row, view


def test_a_scheduled_message_says_when_and_keeps_back_what_is_behind_it() -> None:
    first, second = view(1, state="scheduled", delay_seconds=90.0), view(2)
    found = facts(waiting=[first, second])
    assert message_why(first, found).text == "scheduled: not before 1 min 30 s from now; its lane waits with it"
    behind = message_why(second, found)
    assert behind.kind == "waits" and "behind 1 older of the normal lane; first note (id 1): scheduled" in behind.text


def test_a_sender_that_is_held_back_by_a_full_mailbox_says_so() -> None:
    told = message_why(
        one := view(state="retrying", delay_seconds=2.0, last_error="MailboxIsFull: /desk/other holds 10,000"),
        facts(waiting=[one]),
    )
    assert told.kind == "waits" and "a mailbox that is full" in told.text and "/desk/other" in told.text
    assert told.way_out.startswith("callboard mailbox")


@pytest.mark.parametrize("status", ["paused", "parked", "failed"])
def test_of_two_obstacles_both_are_said_and_the_one_that_was_meant_comes_first(status: str) -> None:
    told = actor_why(facts(row=row(status, "the price list is wrong"), owner=None, waiting=[view()]))
    assert told.kind == "stuck" and told.text.startswith(f"{status}: the price list is wrong")
    assert "besides, no node serves shard 7" in told.text


def test_in_turn_is_what_is_first_of_an_actor_at_work_on_a_node_that_is_there() -> None:
    first, second, system = view(1), view(2), view(3, lane=Lane.SYSTEM)
    assert in_turn(first, facts(waiting=[first, second])) and not in_turn(second, facts(waiting=[first, second]))
    assert not in_turn(first, facts(waiting=[system, first])), "a system message goes before it"
    assert not in_turn(first, facts(waiting=[first], owner=None)), "nobody is there"
    assert not in_turn(first, facts(waiting=[first], row=row("paused", "by ann")))
    silent = msgspec.structs.replace(OWNER, beat_age_seconds=SILENT_SECONDS + 1)
    assert not in_turn(first, facts(waiting=[first], owner=silent))
    later = view(1, state="scheduled", delay_seconds=5.0)
    assert not in_turn(second, facts(waiting=[later, second])), "it waits behind one that is not due"
    unknown = view(1, type="another")
    assert not in_turn(unknown, facts(waiting=[unknown])), "its node does not know the type"
    suspect = view(1, losses=2)
    assert not in_turn(suspect, facts(waiting=[suspect])), "it is tried alone"


def test_a_call_is_in_turn_once_its_start_is_on_record() -> None:
    call = view(recipient="/desk/tool", sender=ADDRESS, reply_to=ADDRESS, started=True)
    assert state_of(call, facts()) == "in turn"
    waits = view(recipient="/desk/tool", sender=ADDRESS, reply_to=ADDRESS)
    assert state_of(waits, facts()) == "ready"


def test_a_call_is_told_from_a_message_to_an_actor_by_where_it_lies() -> None:
    call = view(recipient="/desk/tool", sender=ADDRESS, reply_to=ADDRESS)
    assert is_call(call, None) and not is_call(call, row())
    assert is_call(view(state="held", recipient="/desk/tool"), None)


def test_who_serves_a_shard_is_said_in_words() -> None:
    assert holder_of(7, None).text == "nobody"
    assert holder_of(7, OWNER).text == "node 3 (host/3)"
    assert holder_of(7, Member(4, 1, "b", "up", 0.1, 9)).text == "node 4"


@pytest.mark.anyio
@pytest.mark.parametrize("counted", [True, False])
async def test_what_stands_still_is_listed_also_where_counting_takes_too_long(
    counted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = MemoryStore()
    for one in (row("paused", "paused by ann"), ActorRow(9, "/desk/agent:2", "agent", 1)):
        store.tables.actors[one.shard, one.address] = one

    async def too_slow() -> Census:
        raise StoreUnavailable("counting took too long")

    if not counted:
        monkeypatch.setattr(store, "census", too_slow)
    lines, complete = await Inspection(Operations(store, "ann")).stuck()
    assert [line.address for line in lines] == [ADDRESS] and complete
