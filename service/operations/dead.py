"""Dead letters: what was given up, why, and sending it again where it came from, or leaving it for good.

A dead letter is settled once (S14), and its audit row is of the same transaction. Sent again, a message has a new id,
none of its failures, and the mark of what it was; its cause is the one that was given up. Not everything may be sent
again: an effect that may have happened is not repeated by hand, and a gated call passes the gate anew, so a worker's
call is brought back by its run only.
"""

from typing import Any

import msgspec

from ...actors.agent.messages import CallModel, CallTool, CheckCall
from ...actors.bonds import CLOCK
from ...mailbox.address import CLIENT_PREFIX, shard_of
from ...mailbox.envelope import DeadLetter, Envelope, headers_of, write_headers
from ...mailbox.errors import Conflict, NotFound, UsageError
from ...mailbox.lane import Lane
from ...mailbox.message import wire
from ...persistence.operating import Trail
from ...persistence.rows import ENDED
from ...persistence.store import Store
from .lookup import KIND, run_id_of
from .mailboxes import Mailboxes
from .message_views import trail_item
from .redaction import Body, body_of, redacted_text
from .runs import Operations
from .views import moment

RUNTIMES_OWN = "sys."
"""How the types of the runtime's own messages begin."""
WORKERS_TYPES = frozenset(wire(kind).name for kind in (CallModel, CallTool, CheckCall))
"""What runs ask of workers: with or without a gate, never sent by hand."""
SCANNED = 10_000
"""Dead letters that a list looks at, at most."""
_PAGE = 500
AGAIN = 50
"""How far back it is counted how often a message was sent again."""


class DeadLine(msgspec.Struct, frozen=True):
    """A dead letter in a list."""

    number: int
    message_id: int
    type: str
    recipient: str
    sender: str
    lane: str
    reason: str
    """One word (`mailbox.envelope.DeadLetter`)."""
    detail: str
    at: float
    failures: int
    deliveries: int
    last_error: str
    settled: str
    """requeued, discarded, or "" for nothing yet."""
    settled_at: float
    settled_by: str
    requeued_from: int
    """Number of the dead letter that it was before; 0: it was sent again by nobody."""


class DeadList(msgspec.Struct, frozen=True):
    """Dead letters, newest first; `complete` is false where there are older ones."""

    items: list[DeadLine]
    complete: bool


class DeadDetail(msgspec.Struct, frozen=True):
    """One dead letter."""

    letter: DeadLine
    body: Body
    caused_by: list[Trail]
    """What it came from, nearest first."""
    caused: list[Trail]
    requeue_count: int
    """How often it was sent again and given up once more before this."""
    may_requeue: bool
    refusal: str
    """Why it may not be sent again, and what to do instead; "" where it may."""


class Settled(msgspec.Struct, frozen=True):
    """What was done about a dead letter."""

    letter: DeadLine
    new_id: int = 0
    """Of the message that was sent; 0 for none."""


class DeadLetters:
    """The dead letters of one store, as one principal."""

    def __init__(self, operations: Operations) -> None:
        self.operations = operations
        self.store = operations.store

    async def find(
        self, *, open_only: bool = True, recipient: str = "", reason: str = "", before: int = 0, limit: int = 50
    ) -> DeadList:
        """Dead letters, newest first: those that nobody has settled unless all are asked for. `before`: a number to
        go on from. `recipient` is the beginning of an address. Looks at SCANNED of them at most, and says so."""
        self.operations.require("read")
        found: list[DeadLine] = []
        seen, whole = 0, False
        while len(found) <= limit and seen < SCANNED and not whole:
            page = await self.store.dead_letters(open_only=open_only, before=before, limit=_PAGE)
            found += [dead_line(one) for one in page if _fits(one, recipient, reason)]
            seen, whole = seen + len(page), len(page) < _PAGE
            before = page[-1].number if page else before
        return DeadList(found[:limit], complete=whole and len(found) <= limit)

    async def show(self, number: int, *, reveal: bool = False) -> DeadDetail:
        """One dead letter. `reveal`: nothing is redacted, which is audited.

        Raises:
            NotFound. NotAllowed: reveal takes `operate`.
        """
        self.operations.require("read")
        letter = await letter_of_number(self.store, number)
        if reveal:
            self.operations.require("operate")
            await self.store.note(self.operations.entry("reveal", f"dead-letter:{number}"))
        mailboxes = Mailboxes(self.operations)
        refusal = await refusal_of(self.store, letter)
        return DeadDetail(
            dead_line(letter),
            body_of(letter.envelope.body, reveal=reveal),
            await mailboxes.causes(letter.envelope.causation, letter.envelope.sender),
            (await mailboxes.caused(letter.envelope.id))[0],
            await self._requeued(letter),
            not refusal,
            refusal,
        )

    async def _requeued(self, letter: DeadLetter) -> int:
        count = 0
        before: DeadLetter | None = letter
        while before is not None and (number := headers_of(before.envelope).requeued) and count < AGAIN:
            count += 1
            before = await self.store.dead_letter(number)
        return count

    # --- settling ----------------------------------------------------------------------------------------------

    async def requeue(self, number: int, *, note: str = "") -> Settled:
        """Send a dead letter's message again, to where it came from, as one that never failed.

        Raises:
            NotFound. Conflict: somebody settled it before; or it may not be sent again (the text says what to do
            instead). MailboxFull: later. NotAllowed: without `operate`.
        """
        self.operations.require("operate")
        letter = await letter_of_number(self.store, number)
        await require_settleable(self.store, letter, requeue=True)
        envelope = await self._again(letter)
        entry = self.operations.entry(
            "requeue",
            f"dead-letter:{number}",
            before=letter.reason,
            after=f"message:{envelope.id}",
            note=_said(letter, note),
        )
        return Settled(dead_line(await self.store.requeue(number, envelope, entry)), envelope.id)

    async def discard(self, number: int, *, note: str = "") -> Settled:
        """Leave a dead letter for good: it is kept, and counts as settled. Raises as `requeue`."""
        self.operations.require("operate")
        letter = await letter_of_number(self.store, number)
        await require_settleable(self.store, letter, requeue=False)
        entry = self.operations.entry(
            "discard", f"dead-letter:{number}", before=letter.reason, after="discarded", note=_said(letter, note)
        )
        return Settled(dead_line(await self.store.discard(number, entry)))

    async def check(self, numbers: list[int], *, requeue: bool) -> list[DeadLine]:
        """The dead letters of these numbers, where each may be settled so: for who asks before doing it.

        Raises:
            UsageError: none. NotFound, Conflict, NotAllowed: as `requeue`, of the first that may not.
        """
        self.operations.require("operate")
        if not numbers:
            raise UsageError("which dead letters? give their numbers; `callboard dead` lists them")
        found = []
        for number in dict.fromkeys(numbers):
            letter = await letter_of_number(self.store, number)
            await require_settleable(self.store, letter, requeue=requeue)
            found.append(dead_line(letter))
        return found

    async def _again(self, letter: DeadLetter) -> Envelope:
        """The message of a dead letter under a new id, without what happened to it and who waited for its answer."""
        old = letter.envelope
        fresh = await self.operations.client.new_id()
        headers = msgspec.structs.replace(headers_of(old), requeued=letter.number, deadline=0.0, missed=0)
        asked = headers.ask and bool(old.reply_to)  # whoever asked was told that it has failed
        if asked:
            headers = msgspec.structs.replace(headers, ask=False)
        timed = old.sender == CLOCK  # its timer is over: as it is, it would mean nothing to its actor
        return msgspec.structs.replace(
            old,
            id=fresh,
            shard=shard_of(old.recipient),
            sender="" if timed else old.sender,
            sender_seq=0,
            deliveries=0,
            failures=0,
            delay_seconds=0.0,
            last_error="",
            reply_to="" if asked else old.reply_to,
            correlation=0 if timed else old.correlation,
            causation=old.id,
            started=False,
            sent_by_node=0,
            headers=write_headers(headers),
            losses=0,
            timeouts=0,
            failing_seconds=0.0,
        )


async def letter_of_number(store: Store, number: int) -> DeadLetter:
    """One dead letter as it is stored. Raises NotFound."""
    letter = await store.dead_letter(number)
    if letter is None:
        raise NotFound(f"no dead letter {number}; `callboard dead --all` lists them")
    return letter


async def require_settleable(store: Store, letter: DeadLetter, *, requeue: bool) -> None:
    """Go on only where it may be settled so. Raises Conflict: it was settled before, or may not be sent again."""
    if letter.settled:
        raise Conflict(
            f"dead letter {letter.number} was {letter.settled} by {letter.settled_by} at {moment(letter.settled_at)}; "
            "it is settled once"
        )
    if requeue and (refusal := await refusal_of(store, letter)):
        raise Conflict(refusal)


async def refusal_of(store: Store, letter: DeadLetter) -> str:
    """Why a message may not be sent again, and what to do instead; "" where it may."""
    envelope, what = letter.envelope, f"dead letter {letter.number}"
    if envelope.recipient.startswith(CLIENT_PREFIX):
        return f"{what} is the answer to a client that is gone; nobody would read it"
    if envelope.type.startswith(RUNTIMES_OWN):
        return (
            f"{what} is a message of the runtime itself ({envelope.type}), which meant what was so then; "
            f"say what shall happen now: callboard actors show {envelope.recipient}"
        )
    row = await store.actor(envelope.recipient)
    if row is None and await is_workers_call(store, envelope):
        return await _refusal_of_call(store, letter)
    if row is not None and row.status in ENDED:
        run = f"; go on from its history: callboard fork {run_id_of(row.address)}" if row.kind == KIND else ""
        return f"{what}: {row.address} is {row.status} and takes nothing any more{run}"
    return ""


async def is_workers_call(store: Store, envelope: Envelope) -> bool:
    """Whether a message without an actor at its address is a worker's: it lies where its caller does, and what is
    known to be handled there made no version of anything."""
    elsewhere = envelope.shard != shard_of(envelope.recipient)
    if elsewhere or envelope.started or envelope.type in WORKERS_TYPES:
        return True
    turns = await store.turns(envelope.recipient, limit=1)
    return any(turn.version == 0 and turn.outcome == "done" for turn in turns)


async def _refusal_of_call(store: Store, letter: DeadLetter) -> str:
    envelope = letter.envelope
    caller = await store.actor(envelope.sender) if envelope.sender else None
    begun = ", whose effect may have happened" if envelope.started or envelope.deliveries else ""
    text = (
        f"dead letter {letter.number} is a call to the worker {envelope.recipient}{begun}; it is made again by "
        "whoever made it, and through its gate"
    )
    if caller is None or caller.kind != KIND:
        return f"{text}: callboard actors show {envelope.sender or envelope.recipient}"
    run = run_id_of(caller.address)
    if caller.status in ENDED or '"failed"' in caller.summary:
        return f"{text}: callboard fork {run}"
    return f"{text}: callboard resume {run}, or callboard fork {run}"


def _fits(letter: DeadLetter, recipient: str, reason: str) -> bool:
    return letter.envelope.recipient.startswith(recipient) and reason in ("", letter.reason)


def _said(letter: DeadLetter, note: str) -> str:
    about = f"{letter.envelope.type} for {letter.envelope.recipient}"
    return f"{about}: {note}" if note else about


def dead_line(letter: DeadLetter) -> DeadLine:
    """A dead letter as it is listed."""
    envelope = letter.envelope
    return DeadLine(
        letter.number,
        envelope.id,
        envelope.type,
        envelope.recipient,
        envelope.sender,
        Lane(envelope.lane).name.lower(),
        letter.reason,
        redacted_text(letter.detail),
        letter.at,
        envelope.failures,
        envelope.deliveries,
        redacted_text(envelope.last_error),
        letter.settled,
        letter.settled_at,
        letter.settled_by,
        headers_of(envelope).requeued,
    )


def dead_item(line: DeadLine) -> dict[str, Any]:
    """A dead letter in a document."""
    times = {name: moment(getattr(line, name)) for name in ("at", "settled_at")}
    return {**msgspec.to_builtins(line), "message_id_text": str(line.message_id), **times}


def dead_letters_document(found: DeadList) -> dict[str, Any]:
    """`callboard.dead-letters/1`."""
    items = [dead_item(line) for line in found.items]
    return {"schema": "callboard.dead-letters/1", "complete": found.complete, "items": items}


def dead_letter_document(detail: DeadDetail) -> dict[str, Any]:
    """`callboard.dead-letter/1`."""
    return {
        "schema": "callboard.dead-letter/1",
        **dead_item(detail.letter),
        "body": msgspec.to_builtins(detail.body),
        "caused_by": [trail_item(one) for one in detail.caused_by],
        "caused": [trail_item(one) for one in detail.caused],
        "requeue_count": detail.requeue_count,
        "may_requeue": detail.may_requeue,
        "refusal": detail.refusal,
    }


def settled_document(settled: Settled) -> dict[str, Any]:
    """`callboard.settled/1`."""
    new = {"new_message_id": settled.new_id, "new_message_id_text": str(settled.new_id)} if settled.new_id else {}
    return {"schema": "callboard.settled/1", **dead_item(settled.letter), **new}
