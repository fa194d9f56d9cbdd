"""The runs that a run has called, as its journal names them: agents that it asked, and whom those asked in turn."""

from collections.abc import Iterable

from ...actors.agent import runs as _runs  # noqa: F401 - every type of event is known before a journal is read
from ...actors.agent.lineage_events import ChildStarted
from ...mailbox.message import Message, decode_tagged
from ...persistence.store import Store

CALLED = 100
"""How many of them are found, at most."""


async def called_runs(store: Store, address: str) -> list[str]:
    """Their addresses, in the order in which they were called, each before those that it has called itself."""
    found: list[str] = []
    queue = [address]
    while queue and len(found) < CALLED:
        run = queue.pop(0)
        if run != address:
            found.append(run)
        queue[:0] = [child for child in called_in(await events_at(store, run)) if child not in found]
    return found


async def events_at(store: Store, address: str) -> list[Message]:
    """All events of the journal at an address."""
    events: list[Message] = []
    seq = 0
    while page := await store.journal(address, after=seq):
        seq = page[-1].seq
        events += [decode_tagged(row.type, row.body) for row in page]
    return events


def called_in(events: Iterable[Message]) -> list[str]:
    """The addresses of the runs that a run has called itself."""
    return [event.child for event in events if isinstance(event, ChildStarted)]
