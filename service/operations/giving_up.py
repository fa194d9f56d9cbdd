"""Giving a message up that waits: discarding it, or moving it to the dead letters to be looked at.

A message is given up by its owner (`actors.discarding`), as no one else may touch a shard's rows: what is asked here is
one system message, and the audit row with it in the same transaction. A held message is never given up but decided on;
a worker's call may have begun, and ends with whoever made it.
"""

from ...actors.system import DiscardMessage
from ...mailbox.address import CLIENT_PREFIX, shard_of
from ...mailbox.errors import Conflict, NotFound, UsageError
from ...mailbox.lane import Lane
from .actors import MessageLine, message_line
from .facts import holder_of, is_call, run_of
from .lookup import run_id_of
from .mailboxes import letter_of, why_of
from .message_views import GivenUp, How
from .runs import Operations

MAX_REASON_CHARS = 1_000
WAIT_SECONDS = 3.0
"""How long it is waited for the owner to do it, where there is one."""
_POLL_SECONDS = 0.1


class GivingUp:
    """Giving messages up, as one principal."""

    def __init__(self, operations: Operations) -> None:
        self.operations = operations
        self.store = operations.store

    async def discard(self, id: int, *, reason: str = "", seconds: float = WAIT_SECONDS) -> GivenUp:
        """Have a message given up for good; waits `seconds` at most for that to be done.

        Raises:
            NotFound: it does not wait. Conflict: it is held, put aside, or a worker's call. UsageError: too long a
            reason. NotAllowed: without `operate`.
        """
        return await self._give_up(id, reason, "discarded", seconds)

    async def quarantine(self, id: int, *, reason: str = "", seconds: float = WAIT_SECONDS) -> GivenUp:
        """Have a message put among the dead letters, to be looked at and sent again perhaps. Raises as `discard`."""
        return await self._give_up(id, reason, "quarantined", seconds)

    async def may_give_up(self, id: int) -> MessageLine:
        """The message, where it may be given up. Raises as `discard`."""
        self.operations.require("operate")
        view = await self.store.message(id)
        if view is None:
            raise NotFound(f"no message {id} waits; `callboard mailbox show {id}` says what became of it")
        why, facts = await why_of(self.store, view, {})
        envelope = view.envelope
        if view.state == "held":
            decision = next((one.id for one in facts.decisions if one.message_id == id), "")
            way = f"callboard deny {decision}" if decision else "it was decided on, and is about to go"
            raise Conflict(f"message {id} is held for a decision, and only a decision takes it away: {way}")
        if view.state == "stashed":
            raise Conflict(
                f"message {id} was put aside by {envelope.recipient} itself, which counts on it; "
                f"end that instead: callboard actors cancel {envelope.recipient}"
            )
        if is_call(view, await self.store.actor(envelope.recipient)):
            end = f"callboard cancel {run_id_of(envelope.sender)}" if run_of(facts) else (
                f"callboard actors cancel {envelope.sender}"
            )  # fmt: skip
            raise Conflict(
                f"message {id} is a call to the worker {envelope.recipient}, whose effect may have begun; it ends with "
                f"whoever made it: {end}"
            )
        if envelope.recipient.startswith(CLIENT_PREFIX):
            raise Conflict(f"message {id} is the answer to a client, which takes it or lets it expire within a day")
        return message_line(view, why, facts)

    async def _give_up(self, id: int, reason: str, how: How, seconds: float) -> GivenUp:
        if len(reason) > MAX_REASON_CHARS:
            raise UsageError(f"a reason may have {MAX_REASON_CHARS:,} characters")
        line = await self.may_give_up(id)
        verb = "discard" if how == "discarded" else "quarantine"
        entry = self.operations.entry(
            verb, f"message:{id}", before=line.state, after=how, note=f"{line.type} for {line.recipient}: {reason}"
        )
        client = self.operations.client.audited(entry)
        wish = DiscardMessage(id, self.operations.principal, reason, quarantine=how == "quarantined")
        await client.send(line.recipient, wish, lane=Lane.SYSTEM)
        return await self._outcome(line, how, seconds)

    async def _outcome(self, line: MessageLine, how: How, seconds: float) -> GivenUp:
        owner = await self.store.owner(shard_of(line.recipient))
        port = self.operations.client.port
        end = port.monotonic() + seconds
        while True:
            trail = await self.store.trail(line.id, recipient=line.recipient)
            if trail is not None and trail.state == "dead":
                letter = await letter_of(self.store, trail)
                number = 0 if letter is None else letter.number
                text = f"{how}: it is dead letter {number}"
                if how == "quarantined":
                    text += f"; look: callboard dead show {number}; send it again: callboard dead requeue {number}"
                return GivenUp(line.id, line.recipient, how, number, text)
            if trail is not None and trail.state in ("done", "refused", "cancelled", "late"):
                return GivenUp(line.id, line.recipient, how, 0, f"too late: it was handled before ({trail.state})")
            if owner is None or port.monotonic() >= end:
                break
            await port.sleep(_POLL_SECONDS)
        serves = holder_of(shard_of(line.recipient), owner)
        when = "when a node serves it (start one: callboard daemon APP)" if owner is None else (
            f"by {serves.text}, when it is out of its handler"
        )  # fmt: skip
        return GivenUp(line.id, line.recipient, how, 0, f"noted: it will be {how} {when}")
