"""What comes from outside: messages with client ids, the bound of a mailbox, and numbers for clients' id clocks.

Invariant: a call's messages are all looked at before the first is put in, so that a refused call leaves nothing.
"""

from collections.abc import Sequence
from hashlib import sha256

import msgspec

from ...mailbox.envelope import Envelope
from ...mailbox.errors import BadRow, Conflict, MailboxFull, UsageError
from ...mailbox.ids import NUMBERS
from ...mailbox.lane import Lane
from .tables import Tables
from .values import check, check_text

CLIENT_NUMBERS = range(1024, NUMBERS)
REUSE_SECONDS = 600.0
"""When all numbers are used up, one is used again whose lease ran out longest ago, but not within this time."""
REMEMBER_SECONDS = 7 * 86_400.0
"""How long a client id is known."""


class _Known(msgspec.Struct, frozen=True):
    digest: bytes
    at: float
    id: int
    """Of the message."""


class _Lease(msgspec.Struct):
    number: int
    until: float


class Intake:
    """Accepts messages from outside and leases numbers to those who send them."""

    def __init__(self, tables: Tables, mailbox_limit: int) -> None:
        self._tables = tables
        self._mailbox_limit = mailbox_limit
        self._known: dict[tuple[str, str], _Known] = {}
        self._leases: dict[str, _Lease] = {}

    def accept(self, envelopes: Sequence[Envelope], client_ids: Sequence[str], now: float) -> list[bool]:
        """Put in the messages that are new; see `Store.send`.

        Raises:
            Conflict, MailboxFull, BadRow, UsageError: nothing was put in.
        """
        if client_ids and len(client_ids) != len(envelopes):
            raise UsageError(f"{len(client_ids)} client ids for {len(envelopes)} messages; give one for each, or none")
        self._forget(now)
        fresh: dict[tuple[str, str], _Known] = {}
        accepted: list[bool] = []
        for index, envelope in enumerate(envelopes):
            check(envelope)
            client_id = client_ids[index] if client_ids else ""
            check_text("client id", client_id)
            accepted.append(not client_id or self._is_new(envelope, client_id, fresh, now))
        new = [envelope for envelope, is_new in zip(envelopes, accepted, strict=True) if is_new]
        self.check(new)
        self._known.update(fresh)
        for envelope in new:
            self._tables.put(envelope, now)
        return accepted

    def check(self, envelopes: Sequence[Envelope]) -> None:
        """Whether these messages, all of them new, may be put in.

        Raises:
            MailboxFull, BadRow: not.
        """
        self._check_room(envelopes)
        self._check_ids(envelopes)

    def client_id(self, recipient: str, identifier: int) -> str:
        """The client id a message came under; "" for none that is known."""
        return next(
            (key[1] for key, known in self._known.items() if key[0] == recipient and known.id == identifier), ""
        )

    def _is_new(self, envelope: Envelope, client_id: str, fresh: dict[tuple[str, str], _Known], now: float) -> bool:
        key = (envelope.recipient, client_id)
        digest = sha256(f"{envelope.type} {envelope.version} {envelope.body}".encode()).digest()
        known = self._known.get(key) or fresh.get(key)
        if known is None:
            fresh[key] = _Known(digest, now, envelope.id)
            return True
        if known.digest != digest:
            raise Conflict(
                f"client id {client_id!r} was used for another message to {envelope.recipient}; take a new one"
            )
        return False

    def _check_room(self, envelopes: Sequence[Envelope]) -> None:
        # Replies and system messages always find room, or two full actors would starve each other's answers.
        counts: dict[tuple[int, str], int] = {}
        for envelope in envelopes:
            if envelope.lane != Lane.NORMAL:
                continue
            place = (envelope.shard, envelope.recipient)
            count = counts.get(place)
            count = self._tables.count(*place) if count is None else count
            if count >= self._mailbox_limit:
                raise MailboxFull(
                    f"{envelope.recipient} holds {count:,} messages of {self._mailbox_limit:,}; try again later"
                )
            counts[place] = count + 1

    def _check_ids(self, envelopes: Sequence[Envelope]) -> None:
        seen: set[tuple[int, int]] = set()
        for envelope in envelopes:
            key = (envelope.shard, envelope.id)
            if key in seen or key in self._tables.messages:
                raise BadRow(f"message {envelope.id} of shard {envelope.shard} is there already; ids are used once")
            seen.add(key)

    def known(self) -> list[tuple[tuple[str, str], float]]:
        """Recipient and client id of all that are known, and since when."""
        return [(key, known.at) for key, known in self._known.items()]

    def forget(self, recipient: str, client_id: str) -> None:
        """Know a client id no more."""
        self._known.pop((recipient, client_id), None)

    def _forget(self, now: float) -> None:
        while self._known:
            key, known = next(iter(self._known.items()))
            if now - known.at <= REMEMBER_SECONDS:
                return
            del self._known[key]

    def lease_number(self, holder: str, seconds: float, now: float) -> int:
        """A number for a client's id clock; see `Store.lease_number`.

        Raises:
            Conflict: all numbers are leased or were until minutes ago.
        """
        lease = self._leases.get(holder)
        if lease is None:
            lease = self._leases[holder] = _Lease(self._free_number(now), 0.0)
        lease.until = max(lease.until, now + seconds)
        return lease.number

    def _free_number(self, now: float) -> int:
        if len(self._leases) < len(CLIENT_NUMBERS):
            return CLIENT_NUMBERS[len(self._leases)]  # a lease that ran out keeps its row until its number is needed
        until, holder = min((lease.until, holder) for holder, lease in self._leases.items())
        if now - until <= REUSE_SECONDS:
            raise Conflict(f"all {len(CLIENT_NUMBERS)} client numbers are leased or were minutes ago; wait for one")
        return self._leases.pop(holder).number
