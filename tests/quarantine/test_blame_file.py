"""Rule 7: the file in which a process writes down what runs says the truth, or nothing."""

import os

import pytest

from callboard.actors.blame import MAX_ADDRESS_BYTES, SIZE, SLOT_BYTES, SLOTS, BlameFile, create, look, read
from callboard.mailbox.envelope import Envelope
from callboard.mailbox.errors import UsageError

PID = 4711
FIRST_AT = SIZE - SLOTS * SLOT_BYTES


def envelope(identifier: int, recipient: str = "/t/p:1", shard: int = 7) -> Envelope:
    return Envelope(identifier, shard, recipient, "", 2, "t", 1, "{}")


def running(memory: bytearray, pid: int = PID) -> list[tuple[int, int, str]]:
    report = read(bytes(memory), pid)
    return [] if report is None else sorted((one.message, one.shard, one.address) for one in report.running)


def test_what_runs_is_in_the_file_until_it_has_ended() -> None:
    memory = bytearray(SIZE)
    file = BlameFile(memory, PID)
    file.enter(envelope(1))
    waits = file.hold(envelope(2, "/t/p:2", 8))
    calls = file.hold(envelope(3, "/t/tool", 9))
    assert running(memory) == [(1, 7, "/t/p:1"), (2, 8, "/t/p:2"), (3, 9, "/t/tool")]
    file.leave()
    file.release(waits)
    assert running(memory) == [(3, 9, "/t/tool")]
    file.release(calls)
    assert running(memory) == []


def test_a_handler_that_waits_is_named_once_while_it_goes_on() -> None:
    memory = bytearray(SIZE)
    file = BlameFile(memory, PID)
    file.enter(envelope(1))
    file.hold(envelope(1))
    assert running(memory) == [(1, 7, "/t/p:1")]


def test_a_shorter_address_in_a_used_slot_has_nothing_of_the_longer_one() -> None:
    memory = bytearray(SIZE)
    file = BlameFile(memory, PID)
    file.enter(envelope(1, "/t/quite-a-long-name:with-a-key"))
    file.leave()
    file.enter(envelope(2, "/t/p:2"))
    assert running(memory) == [(2, 7, "/t/p:2")]


def test_a_slot_that_was_being_written_counts_as_nothing() -> None:
    before, after = bytearray(SIZE), bytearray(SIZE)
    file = BlameFile(before, PID)
    file.enter(envelope(0x0101_0101_0101_0101, "/t/p:1"))
    file.leave()
    BlameFile(after, PID).enter(envelope(0x0202_0202_0202_0202, "/t/p:2"))
    assert running(after)
    for written in (*range(1, 40), SLOT_BYTES - 1):
        torn = bytearray(before)
        torn[FIRST_AT : FIRST_AT + written] = after[FIRST_AT : FIRST_AT + written]
        assert running(torn) == [], f"a slot of which only {written} bytes were written was believed"


def test_a_full_file_takes_no_more_and_loses_nothing() -> None:
    memory = bytearray(SIZE)
    file = BlameFile(memory, PID)
    slots = [file.hold(envelope(number)) for number in range(1, SLOTS + 10)]
    assert slots.count(-1) == 10, "one slot is for the turn in hand"
    assert len(running(memory)) == SLOTS - 1
    for slot in slots:
        file.release(slot)
    assert running(memory) == []
    assert -1 not in [file.hold(envelope(number)) for number in range(1, SLOTS)]


def test_an_address_that_does_not_fit_is_not_written_down() -> None:
    memory = bytearray(SIZE)
    file = BlameFile(memory, PID)
    longest = "/" + "t" * (MAX_ADDRESS_BYTES - 1)
    file.enter(envelope(1, longest + "t"))
    file.release(file.hold(envelope(2, longest + "t")))
    assert running(memory) == []
    file.leave()
    file.enter(envelope(3, longest))
    assert running(memory) == [(3, 7, longest)]


def test_what_an_earlier_process_wrote_is_not_believed() -> None:
    memory = bytearray(SIZE)
    BlameFile(memory, PID).enter(envelope(1))
    assert read(bytes(memory), PID + 1) is None
    again = BlameFile(memory, PID + 1)
    assert running(memory, PID + 1) == []
    again.enter(envelope(2))
    assert running(memory, PID + 1) == [(2, 7, "/t/p:1")]


@pytest.mark.parametrize("content", [b"", b"x" * SIZE, bytes(SIZE), bytes(SIZE - 1)])
def test_what_is_no_such_file_says_nothing(content: bytes) -> None:
    assert read(content, PID) is None


def test_a_node_that_begins_anew_runs_nothing() -> None:
    memory = bytearray(SIZE)
    file = BlameFile(memory, PID)
    file.enter(envelope(1))
    file.hold(envelope(2))
    file.tick()
    file.clear()
    assert running(memory) == []
    report = read(bytes(memory), PID)
    assert report is not None and report.ticks == 1, "the loop still turns"


def test_the_parent_reads_what_was_written_through_the_descriptor() -> None:
    descriptor = create()
    try:
        assert look(descriptor, os.getpid()) is None, "nothing was written yet"
        file = BlameFile.inherited(descriptor)
        file.enter(envelope(5))
        file.tick()
        report = look(descriptor, os.getpid())
        assert report is not None
        assert [tuple(one) for one in report.running] == [(5, 7, "/t/p:1")]
        assert report.ticks == 1
    finally:
        os.close(descriptor)


def test_a_descriptor_of_something_else_is_refused() -> None:
    reading, writing = os.pipe()
    try:
        with pytest.raises(UsageError, match="no file for running handlers"):
            BlameFile.inherited(writing)
    finally:
        os.close(reading)
        os.close(writing)
