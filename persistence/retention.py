"""What is old enough to go: the retention's part of a store. The contract suite names its tests by:

    S22 What an open run, child, ask, timer, decision, dead letter or fork still needs is never removed. What is removed
        goes whole (a run with its journal, turns and decisions), in one transaction with the audit row that tells of
        it; a client id is known for seven days, whatever was removed. Looking for what may go changes nothing, and
        removing it twice removes it once.

Looking and removing are two calls, so that whoever archives can make sure that the archive is durable in between. What
may go is judged again by the second one.
"""

from collections.abc import Sequence
from typing import Literal, Protocol, get_args

import msgspec

from .operating import AuditEntry

OldKind = Literal[
    "runs", "turns", "dead-letters", "decisions", "client-ids", "answers", "client-mailboxes", "audit"
]  # fmt: skip
"""runs: actors with a key that have ended, with all beneath them and all that they left. turns: those of workers,
outside askers and actors without a key. dead-letters: settled ones. decisions: closed ones, but for those that go with
a run. client-ids, answers, client-mailboxes: what is kept for seven days, or for one, at any rate. audit: the trail."""
OLD_KINDS: tuple[OldKind, ...] = get_args(OldKind)


class Old(msgspec.Struct, frozen=True):
    """Something that may go."""

    key: str
    """By which it is removed; opaque."""
    rows: int
    bytes: int
    """Of its rows, as the store keeps them."""
    record: str = ""
    """All of it as a JSON document, where that was asked for and it is archived at all."""


class OldPage(msgspec.Struct, frozen=True):
    """What may go, of a stretch of all there is."""

    items: list[Old]
    after: str
    """From where to go on."""
    end: bool
    """There is no more."""


class Removed(msgspec.Struct, frozen=True):
    """What was removed."""

    items: int = 0
    rows: int = 0
    bytes: int = 0


class RetentionStore(Protocol):
    """The retention's part of a store."""

    async def old(
        self, kind: OldKind, *, before: float, after: str = "", limit: int = 500, records: bool = False
    ) -> OldPage:
        """What of a kind ended before that time (seconds since 1970) and may go; `limit` things are looked at, most of
        which may be there to stay. `records`: with what an archive holds of each."""
        ...

    async def remove_old(self, kind: OldKind, keys: Sequence[str], *, before: float, entry: AuditEntry) -> Removed:
        """Remove these in one transaction, those that may go still; the `after` of the audit row says how many.

        Raises:
            StoreError: the role may not (callboard_runtime may not remove from the audit trail).
        """
        ...
