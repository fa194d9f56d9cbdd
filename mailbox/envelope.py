"""The envelope: one message on its way, with everything delivery needs and nothing else.

`id` orders the messages of one sender (see `ids`). `shard` is where the row lives: the recipient's shard, except for
a worker's message, which stays in the shard of the actor that asked, so that a node handles its own actors' model and
tool calls. `deliveries` counts how often a handler may have begun; `failures` how often one failed, which is the
message's own budget. `sender_seq` numbers what one sender sent, without gaps: that is how a loss would be seen.
"""

import re
from typing import Literal

import msgspec

from .lane import Lane
from .message import Message, decode, encode, wire


class Headers(msgspec.Struct, omit_defaults=True, frozen=True):
    """What a message may carry besides its body; stored as JSON in `Envelope.headers`."""

    deadline: float = 0.0
    """Seconds since 1970 by the store's clock until which the asker waits; 0: nobody waits by a clock."""
    missed: int = 0
    """Of a timer's message: how many due times passed before this one without a message of their own."""
    ask: bool = False
    """An actor's ask, or the answer to one: it counts only while that ask is open."""
    requeued: int = 0
    """Number of the dead letter that it was before an operator sent it again; 0: it never was one."""
    traceparent: str = ""
    """Whose work the sending was, where that is traced: a W3C trace context. See `traceparent_of`."""


_NO_HEADERS = Headers()
_encode_headers = msgspec.json.Encoder().encode
_decode_headers = msgspec.json.Decoder(Headers).decode


def headers_of(envelope: "Envelope") -> Headers:
    """What an envelope carries besides its body; the defaults where it cannot be read."""
    if not envelope.headers:
        return _NO_HEADERS
    try:
        return _decode_headers(envelope.headers)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return _NO_HEADERS


def write_headers(headers: Headers) -> str:
    """Headers as an envelope has them."""
    return "" if headers == _NO_HEADERS else _encode_headers(headers).decode()


_TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}", re.ASCII)


def valid_traceparent(text: str) -> str:
    """A W3C trace context as it was given, or "" for what is none: it may come from anywhere."""
    return text if len(text) == 55 and _TRACEPARENT.fullmatch(text) else ""


def traceparent_of(envelope: "Envelope") -> str:
    """The trace context that an envelope carries; "" for none, or for one that is malformed."""
    return valid_traceparent(headers_of(envelope).traceparent) if envelope.headers else ""


class Envelope(msgspec.Struct, gc=False):
    """One message in a mailbox. Treat as frozen, but for the counters, which its owner keeps."""

    id: int
    shard: int
    recipient: str
    sender: str
    lane: int
    type: str
    version: int
    body: str
    sender_seq: int = 0
    deliveries: int = 0
    failures: int = 0
    delay_seconds: float = 0.0
    """How long from the moment of the commit (or of the read) until it may be handled; its lane waits with it."""
    last_error: str = ""
    reply_to: str = ""
    correlation: int = 0
    """Id of the message that a reply answers; 0 where nobody waits."""
    causation: int = 0
    """Id of the message whose turn sent this one; 0 from outside."""
    started: bool = False
    """A worker's effect was about to begin: from here on its outcome is unknown until recorded."""
    sent_by_node: int = 0
    """Number of the node whose turn sent it; 0 from outside."""
    headers: str = ""
    """What few messages carry: JSON of `Headers`, or "" for none of it."""
    losses: int = 0
    """How often a process died while a handler of it ran; not a failure (`quarantine`)."""
    timeouts: int = 0
    """How often its turn was over the time limit; each is one of `failures` too."""
    failing_seconds: float = 0.0
    """When read: for how long it has been failing, from its first retry on; 0 where it never did."""

    def message(self) -> Message:
        """The message itself.

        Raises:
            UnknownMessage, BadMessage: see `callboard.mailbox.message.decode`.
        """
        return decode(self.type, self.version, self.body)


def seal(
    message: Message,
    *,
    id: int,
    shard: int,
    recipient: str,
    sender: str = "",
    lane: Lane = Lane.NORMAL,
    sender_seq: int = 0,
    reply_to: str = "",
    correlation: int = 0,
    causation: int = 0,
    sent_by_node: int = 0,
) -> Envelope:
    """Put a message into an envelope.

    Raises:
        BadMessage: when it cannot be stored.
    """
    name, version = wire(type(message))
    return Envelope(
        id=id,
        shard=shard,
        recipient=recipient,
        sender=sender,
        lane=int(lane),
        type=name,
        version=version,
        body=encode(message),
        sender_seq=sender_seq,
        reply_to=reply_to,
        correlation=correlation,
        causation=causation,
        sent_by_node=sent_by_node,
    )


class DeadLetter(msgspec.Struct):
    """A message that was given up, kept whole with the reason: it can be looked at, sent again, or discarded."""

    envelope: Envelope
    reason: str
    """One word of: failed, rejected, unreadable, no-such-actor, recipient-ended, recipient-failed, denied, worker_lost;
    and by an operator: discarded, quarantined."""
    detail: str
    at: float = 0.0
    """Seconds since 1970 by the store's clock; set by the store."""
    number: int = 0
    """Its name; set by the store."""
    settled: Literal["", "requeued", "discarded"] = ""
    """What somebody did about it; "" for nothing yet."""
    settled_at: float = 0.0
    settled_by: str = ""
