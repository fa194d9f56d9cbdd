"""What went into and out of a mailbox lately, and how deep it was: told from rows that are there anyway.

A handled message left its turn row, and the time it was sent is in its id; one that waits has both. So nothing has to
be sampled, and nothing is lost to a restart. Clocks of senders differ by milliseconds, which a minute does not show.
"""

from collections.abc import Sequence
from itertools import pairwise

import msgspec

from ...mailbox.address import shard_of
from ...mailbox.ids import milliseconds_of
from ...persistence.rows import MessageView
from ...persistence.store import Store
from .facts import LOOKED_AT as WAITING_LOOKED_AT

MINUTES = 10
LOOKED_AT = 10_000
"""Messages that were handled, at most: beyond that the minutes before are unknown."""


class Flow(msgspec.Struct, frozen=True):
    """The last MINUTES of a mailbox, oldest first."""

    arrived: list[int]
    """Messages that were sent to it, in each minute."""
    handled: list[int]
    """Messages that were handled or given up, in each minute."""
    depth: list[int]
    """Messages in it at the end of each minute."""
    complete: bool
    """False where more were handled, or wait, than are looked at: the numbers are too small then."""


async def flow_of(store: Store, address: str, waiting: Sequence[MessageView]) -> Flow:
    """The flow of an actor's mailbox, in which these messages wait."""
    rows = await store.handled(address, seconds=60.0 * MINUTES, limit=LOOKED_AT + 1)
    stays = [(view.sent_at, float("inf")) for view in waiting if view.envelope.shard == shard_of(address)]
    stays += [(milliseconds_of(number) / 1000.0, at) for number, at in rows[:LOOKED_AT]]
    whole = len(rows) <= LOOKED_AT and len(waiting) < WAITING_LOOKED_AT
    return measured(stays, await store.now(), complete=whole)


def measured(stays: Sequence[tuple[float, float]], now: float, *, complete: bool = True) -> Flow:
    """The flow of messages that were in a mailbox from and until these times (infinity: still)."""
    edges = [now - 60.0 * (MINUTES - place) for place in range(MINUTES + 1)]
    minutes = list(pairwise(edges))
    return Flow(
        arrived=[sum(begin < sent <= end for sent, _ in stays) for begin, end in minutes],
        handled=[sum(begin < left <= end for _, left in stays) for begin, end in minutes],
        depth=[sum(sent <= end < left for sent, left in stays) for _, end in minutes],
        complete=complete,
    )
