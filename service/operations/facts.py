"""Gathering what the store knows of an actor, for `why` to tell what it waits for. Reads only."""

import msgspec

from ...mailbox.address import parent_of, shard_of
from ...persistence.rows import ActorRow, Member, MessageView
from ...persistence.store import Store
from .lookup import KIND, run_id_of
from .why import Facts, in_turn

LOOKED_AT = 1_000
"""Messages of one mailbox, and calls of one actor, that are looked at: enough to say what is in the way."""


class Holder(msgspec.Struct, frozen=True):
    """The node that serves a shard."""

    shard: int
    node: int
    """Its number; 0: nobody serves it."""
    label: str = ""
    status: str = ""
    heard_seconds: float = 0.0
    """How long ago it was last heard of."""
    shards: int = 0
    """How many it serves."""

    @property
    def text(self) -> str:
        """In a word."""
        if not self.node:
            return "nobody"
        return f"node {self.node} ({self.label})" if self.label else f"node {self.node}"


def holder_of(shard: int, owner: Member | None) -> Holder:
    """Who serves a shard, as it is shown."""
    if owner is None:
        return Holder(shard, 0)
    return Holder(shard, owner.number, owner.label, owner.status, owner.beat_age_seconds, owner.shards)


async def facts_of(store: Store, address: str, row: ActorRow | None, *, limit: int = LOOKED_AT) -> Facts:
    """All that is to be known of one actor, whether it exists yet or has only messages, or what is left of them."""
    shard, parent = shard_of(address), parent_of(address)
    waiting = await store.peek(address, limit=limit)
    # Held calls in a worker's mailbox are decisions of the runs that made them, whichever they are.
    asker = "" if row is None and any(view.state == "held" for view in waiting) else address
    return Facts(
        address=address,
        shard=shard,
        now=await store.now(),
        row=row,
        supervisor=await store.actor(parent) if parent else None,
        owner=await store.owner(shard),
        waiting=waiting,
        calls=await store.calls(address, limit=limit),
        timers=await store.timers(address),
        decisions=[
            *await store.decisions(status="pending", run=asker, limit=limit),
            *await store.decisions(status="approved", run=asker, limit=limit),
        ],
        dead=await store.dead_letters(recipient=address, open_only=True, limit=1) if row is None else (),
    )


def is_call(view: MessageView, recipient: ActorRow | None) -> bool:
    """Whether a message is one to a worker: it lies in the shard of whoever asked, and no actor has its address."""
    envelope = view.envelope
    if recipient is not None:
        return False
    if envelope.shard != shard_of(envelope.recipient) or view.state == "held":
        return True
    return bool(envelope.sender) and envelope.reply_to == envelope.sender and envelope.started


def state_of(view: MessageView, facts: Facts) -> str:
    """The state of a message as people see it: as the store has it, or `in turn`."""
    return "in turn" if in_turn(view, facts) else view.state


def run_of(facts: Facts) -> str:
    """The id of the run that these facts are of; "" where it is another kind of actor, or none."""
    return run_id_of(facts.address) if facts.row is not None and facts.row.kind == KIND else ""
