"""What settling dead letters would do, for who is about to; and settling several, each with its own outcome.

The rules of one letter are `dead.DeadLetters`'; here it is told what they come to: what is known of the effects of the
message, where it would go and how many wait there, and why it may not go. Several are settled one after the other, a
little apart, so that an actor that was mended does not fall over what it is sent all at once.
"""

from collections.abc import AsyncIterator, Sequence
from typing import Literal

import msgspec

from ...mailbox.envelope import DeadLetter
from ...mailbox.errors import CallboardError, Conflict, StoreUnavailable, UsageError
from ...mailbox.ids import milliseconds_of
from .dead import (
    DeadDetail,
    DeadLetters,
    DeadLine,
    Settled,
    dead_line,
    is_workers_call,
    letter_of_number,
    require_settleable,
)
from .lookup import KIND, run_id_of
from .runs import Operations

RATE = 10.0
"""So many are sent again in a second, where nobody says how many."""
MAX_TOGETHER = 10_000
WAITING_LOOKED_AT = 1_000

Effects = Literal["none", "unknown"]


class Prospect(msgspec.Struct, frozen=True):
    """One dead letter, before it is settled."""

    letter: DeadLine
    sent_at: float
    """When the message was sent that was given up."""
    size: int
    """Bytes of its body."""
    waiting: int
    """Messages in the mailbox that it would go to."""
    effects: Effects
    known: str
    """What is known of its effects, in a sentence."""
    refusal: str = ""
    """Why it may not be settled so, and what to do instead; "" where it may."""


class Autopsy(msgspec.Struct, frozen=True):
    """One dead letter, with all that is known of its death."""

    detail: DeadDetail
    prospect: Prospect
    causation: int = 0
    """Id of the message in whose turn it was sent; 0: it came from outside."""
    run: str = ""
    """Id of the run that it is of: its actor's, or that of whoever made the call; "" where it is of none."""


class Outcome(msgspec.Struct, frozen=True):
    """What became of one of several."""

    number: int
    done: Settled | None = None
    refusal: str = ""
    """Why it was not settled, who was first for example."""


class Settling:
    """Settling dead letters, as one principal."""

    def __init__(self, operations: Operations) -> None:
        self.operations = operations
        self.store = operations.store
        self.dead = DeadLetters(operations)

    async def autopsy(self, number: int) -> Autopsy:
        """All about one. Raises NotFound."""
        detail = await self.dead.show(number)
        letter = await letter_of_number(self.store, number)
        prospect = await self._prospect(letter, refusal=detail.refusal)
        return Autopsy(detail, prospect, letter.envelope.causation, await self._run(detail.letter))

    async def _run(self, letter: DeadLine) -> str:
        for address in (letter.recipient, letter.sender):
            row = await self.store.actor(address) if address else None
            if row is not None:
                return run_id_of(address) if row.kind == KIND else ""
        return ""

    async def prospects(self, numbers: Sequence[int], *, requeue: bool) -> list[Prospect]:
        """What settling each of these would do; what may not be settled says why.

        Raises:
            UsageError: none, or more than MAX_TOGETHER. NotFound: one of them. NotAllowed: without `operate`.
        """
        self.operations.require("operate")
        numbers = list(dict.fromkeys(numbers))
        if not numbers:
            raise UsageError("which dead letters? give their numbers; `callboard dead` lists them")
        if len(numbers) > MAX_TOGETHER:
            raise UsageError(
                f"{len(numbers):,} dead letters at once; {MAX_TOGETHER:,} is the most: take a part of them"
            )
        found = []
        for number in numbers:
            letter = await letter_of_number(self.store, number)
            try:
                await require_settleable(self.store, letter, requeue=requeue)
                refusal = ""
            except Conflict as error:
                refusal = str(error)
            found.append(await self._prospect(letter, refusal=refusal))
        return found

    async def settle(
        self, numbers: Sequence[int], *, requeue: bool, note: str = "", rate: float = RATE
    ) -> AsyncIterator[Outcome]:
        """Settle these one after the other, and tell of each as it is done. What is refused (Conflict, NotFound,
        MailboxFull) is told of and does not stop those after it; `rate`: so many are sent again in a second.

        Raises:
            NotAllowed: without `operate`. StoreUnavailable: those not told of may be asked for again, as each is
            settled once.
        """
        self.operations.require("operate")
        act = self.dead.requeue if requeue else self.dead.discard
        for place, number in enumerate(dict.fromkeys(numbers)):
            if place and requeue:
                await self.operations.client.port.sleep(1.0 / rate)
            try:
                yield Outcome(number, await act(number, note=note))
            except StoreUnavailable:
                raise
            except CallboardError as error:
                yield Outcome(number, refusal=str(error))

    async def _prospect(self, letter: DeadLetter, *, refusal: str) -> Prospect:
        envelope = letter.envelope
        box = await self.store.mailboxes(prefix=envelope.recipient, order="address", limit=1)
        effects, known = await self._effects(letter)
        return Prospect(
            dead_line(letter),
            milliseconds_of(envelope.id) / 1000.0,
            len(envelope.body.encode(errors="replace")),
            box[0].depth if box and box[0].address == envelope.recipient else 0,
            effects,
            known,
            refusal,
        )

    async def _effects(self, letter: DeadLetter) -> tuple[Effects, str]:
        envelope = letter.envelope
        if await self.store.actor(envelope.recipient) is None and await is_workers_call(self.store, envelope):
            if envelope.started or envelope.deliveries:
                return "unknown", "it was a call to a worker that had begun: its effect may have happened"
            return "none", "it was a call to a worker that never began"
        if letter.reason in ("no-such-actor", "recipient-ended", "recipient-failed", "unreadable"):
            return "none", "none committed: no handler has seen it"
        return "none", "none committed: whatever its turns did was undone with them"
