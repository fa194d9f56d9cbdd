"""What is written of a message that is done with: its turn row, its dead letter, the answer to whoever waits.

The same for a turn of an actor, a call of a worker, and a message that nobody here can take. Nothing in here decides:
`failing` does for actors, `pool` for workers.
"""

from collections.abc import Sequence

from ..mailbox.address import shard_of
from ..mailbox.envelope import DeadLetter, Envelope, Headers, headers_of, seal, write_headers
from ..mailbox.ids import IdClock
from ..mailbox.lane import Lane
from ..mailbox.message import Message
from ..persistence.rows import turn_row
from ..persistence.unit import Retry, Unit
from .clock import StoreClock
from .system import AskFailed

_ANSWER = write_headers(Headers(ask=True))

_ASK_FAILED = {"no-such-actor": "no-such-actor", "recipient-ended": "target-ended", "rejected": "rejected"}


def answer_headers(traceparent: str = "", *, ask: bool = True) -> str:
    """Headers of what answers an ask, or a call."""
    if not traceparent:
        return _ANSWER if ask else ""
    return write_headers(Headers(ask=ask, traceparent=traceparent))


class Undeliverable(Exception):
    """A message that its actor cannot take; `why` is the dead letter's reason."""

    def __init__(self, why: str, detail: str) -> None:
        super().__init__(detail)
        self.why = why
        self.detail = detail


class Void(Exception):
    """A message that is acknowledged without a handler: its turn row says `outcome`, `sends` leave with it."""

    def __init__(self, outcome: str, sends: Sequence[Envelope] = ()) -> None:
        super().__init__(outcome)
        self.outcome = outcome
        self.sends = sends


class Outcomes:
    """Makes these rows and envelopes for one node."""

    def __init__(self, ids: IdClock, clock: StoreClock, node: int) -> None:
        self.ids = ids
        self.clock = clock
        self.node = node

    def handled(self, unit: Unit, envelope: Envelope, version: int, outcome: str) -> None:
        """Acknowledge a message in `unit`, with the row that says so."""
        forget_retry(unit, envelope.id)
        unit.acks.append(envelope.id)
        unit.turns.append(turn_row(envelope, version, outcome, self.node, self.clock.now()))

    def bury(self, unit: Unit, envelope: Envelope, why: str, detail: str, version: int = 0) -> None:
        """Make a message a dead letter in `unit`; one to an ended actor whose sender waits is just refused."""
        refused = why.startswith("recipient-") and envelope.reply_to
        self.handled(unit, envelope, version, "refused" if refused else "dead")
        if not refused:
            unit.dead = [*unit.dead, DeadLetter(envelope, why, plain(detail))]

    def answer(self, envelope: Envelope, message: Message) -> Envelope:
        """An envelope to whoever waits for the reply to `envelope`, from its recipient."""
        answer = seal(
            message,
            id=self.ids.next(),
            shard=shard_of(envelope.reply_to),
            recipient=envelope.reply_to,
            sender=envelope.recipient,
            lane=Lane.REPLY,
            correlation=envelope.id,
            causation=envelope.id,
        )
        if headers_of(envelope).ask:
            answer.headers = _ANSWER
        return answer

    def ask_failed(self, envelope: Envelope, why: str, detail: str) -> Envelope:
        """The answer to an asker who will get no other."""
        return self.answer(envelope, AskFailed(_ASK_FAILED.get(why, "target-failed"), plain(detail)))


def forget_retry(unit: Unit, identifier: int) -> None:
    """A message that was to be tried again has had its turn before that was written (the store was slow, say).

    Both in one unit the store would not take: a message is either there afterwards or not.
    """
    if unit.retries:
        unit.retries = [retry for retry in unit.retries if retry.id != identifier]


def retry_of(envelope: Envelope) -> Retry:
    """What is written of a message that stays and is tried again after its delay: its counters, as they are now."""
    return Retry(
        envelope.id,
        envelope.delay_seconds,
        envelope.deliveries,
        envelope.failures,
        envelope.last_error,
        started=envelope.started,
        losses=envelope.losses,
        timeouts=envelope.timeouts,
    )


def describe(error: BaseException) -> str:
    """An error in one bounded line, for rows that people read."""
    name = type(error).__name__
    try:
        text = str(error) or name
    except Exception:  # noqa: BLE001 - an error that cannot say what it is must not end the node that asks
        text = "its text cannot be made"
    return plain(text if text.startswith(name) else f"{name}: {text}")


def plain(text: str) -> str:
    """A text as every column takes it: bounded, without NUL and lone surrogates."""
    return str(text)[:2000].encode("utf-8", "replace").decode().replace("\x00", "")
