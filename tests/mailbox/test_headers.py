"""What few envelopes carry besides their body."""

import msgspec
import pytest

from callboard.mailbox.envelope import Headers, headers_of, seal, write_headers
from callboard.mailbox.message import Message


class Plain(Message, tag="headers_test.plain"):
    """Nothing in it."""


def test_headers_survive_and_none_are_no_text() -> None:
    envelope = seal(Plain(), id=1, shard=1, recipient="/t/p")
    assert envelope.headers == "" and headers_of(envelope) == Headers()
    assert write_headers(Headers()) == ""
    for headers in (Headers(deadline=1.5, ask=True), Headers(missed=3), Headers(ask=True)):
        assert headers_of(msgspec.structs.replace(envelope, headers=write_headers(headers))) == headers


@pytest.mark.parametrize("text", ["not json", "[]", '{"missed":"many"}', '{"deadline":{}}'])
def test_headers_that_cannot_be_read_are_none(text: str) -> None:
    envelope = seal(Plain(), id=1, shard=1, recipient="/t/p")
    assert headers_of(msgspec.structs.replace(envelope, headers=text)) == Headers()
