"""Checkpoints as text in a journal: fast enough for large ones, and what was kept before can be read."""

import base64
import time

import pytest

pytest.importorskip("langgraph", reason="needs the extra langgraph")

from callboard import InMemoryStore
from callboard.actors.adapters.langgraph.records import ThreadDeleted, WritesPut, _encoder, from_text, to_text
from callboard.actors.adapters.langgraph.saver import CallboardSaver
from callboard.actors.adapters.langgraph.shelf import open_shelf
from callboard.mailbox.errors import UsageError


def test_a_record_that_was_kept_in_base_85_is_read() -> None:
    for size in range(6):
        record = ThreadDeleted("t" * size)
        assert from_text(base64.b85encode(_encoder.encode(record)).decode()) == record
        assert from_text(to_text(record)) == record


def test_g10_a_checkpoint_of_fifty_megabytes_does_not_hold_the_event_loop() -> None:
    record = WritesPut("t", "", "c", "task", "", [(0, "channel", "bytes", b"\xff" * 50_000_000)])
    began = time.process_time()
    assert from_text(to_text(record)) == record
    assert time.process_time() - began < 20  # it took a minute


@pytest.mark.anyio
@pytest.mark.parametrize("thread", ["", "x" * 201, "\ud800"])
async def test_a_thread_that_cannot_be_called_so_is_told_how_it_can(thread: str) -> None:
    async with open_shelf(InMemoryStore(), serve=False) as shelf:
        with pytest.raises(UsageError, match="1 to 200 bytes"):
            await CallboardSaver(shelf).aget_tuple({"configurable": {"thread_id": thread}})
