"""Small rows for the contract tests. Ids count up over the whole run; every test has a store of its own."""

from collections.abc import Sequence
from itertools import count
from typing import Any

from callboard.mailbox.address import shard_of
from callboard.mailbox.envelope import DeadLetter, Envelope
from callboard.mailbox.lane import Lane
from callboard.persistence.rows import ActorRow, Decision, EventRow, Timer, TurnRow, Verdict
from callboard.persistence.store import Session
from callboard.persistence.unit import Retry, Unit

AGENT = "/desk/agent:1"
OTHER = "/desk/agent:2"
DESK = "/desk/approvals"
TOOL = "/sys/tool"
"""A worker: no actor ever has this address."""
SHARD = shard_of(AGENT)

_ids = count(1_000_000)


def next_id() -> int:
    return next(_ids)


def message(to: str = AGENT, **fields: Any) -> Envelope:
    row: dict[str, Any] = {
        "id": next_id(),
        "shard": shard_of(to),
        "recipient": to,
        "sender": "/desk/sender:1",
        "lane": int(Lane.NORMAL),
        "type": "note",
        "version": 1,
        "body": '{"type":"note"}',
    }
    return Envelope(**{**row, **fields})


def call(shard: int = SHARD, **fields: Any) -> Envelope:
    """A message to a worker, in the shard of the actor that asks."""
    return message(TOOL, shard=shard, **fields)


def actor(address: str = AGENT, version: int = 1, **fields: Any) -> ActorRow:
    return ActorRow(shard=shard_of(address), address=address, kind="agent", version=version, **fields)


def unit(address: str = AGENT, *, expected: int = 0, **rows: Any) -> Unit:
    """A turn of one actor: version `expected` becomes `expected + 1`."""
    return Unit(shard=shard_of(address), actor=actor(address, expected + 1), expected=expected, **rows)


def work(shard: int = SHARD, **rows: Any) -> Unit:
    """What a worker's call or a timer's fire writes: no actor."""
    return Unit(shard=shard, **rows)


def event(seq: int, address: str = AGENT, **fields: Any) -> EventRow:
    row: dict[str, Any] = {"type": "noted", "body": f'{{"n":{seq}}}'}
    return EventRow(shard=shard_of(address), address=address, seq=seq, **{**row, **fields})


def turn(envelope: Envelope, version: int = 1, outcome: str = "done") -> TurnRow:
    return TurnRow(
        shard=envelope.shard,
        id=envelope.id,
        recipient=envelope.recipient,
        sender=envelope.sender,
        type=envelope.type,
        lane=envelope.lane,
        sender_seq=envelope.sender_seq,
        version=version,
        outcome=outcome,
        causation=envelope.causation,
    )


def retry(envelope: Envelope, delay_seconds: float = 0.0, **fields: Any) -> Retry:
    row: dict[str, Any] = {"deliveries": 1, "failures": 1, "last_error": "it broke"}
    return Retry(id=envelope.id, delay_seconds=delay_seconds, **{**row, **fields})


def timer(key: str = "sla", delay_seconds: float = 0.0, *, address: str = AGENT, **fields: Any) -> Timer:
    row: dict[str, Any] = {"generation": 1, "type": "tick", "version": 1, "body": '{"type":"tick"}'}
    return Timer(shard=shard_of(address), address=address, key=key, delay_seconds=delay_seconds, **{**row, **fields})


def decision(identifier: str = "d1", message_id: int = 1, **fields: Any) -> Decision:
    row: dict[str, Any] = {
        "run": AGENT,
        "call": "call-1",
        "message_id": message_id,
        "approvals": DESK,
        "kind": "approval",
        "tool": "issue_refund",
        "arguments": '{"amount":9000}',
        "digest": "d" * 64,
        "reason": "amount above 5000",
        "requested_by": "agent",
    }
    return Decision(id=identifier, **{**row, **fields})


def verdict(identifier: str = "d1", **fields: Any) -> Verdict:
    row: dict[str, Any] = {"status": "approved", "digest": "d" * 64, "by": "ann"}
    return Verdict(decision=identifier, **{**row, **fields})


def dead(envelope: Envelope, reason: str = "failed", detail: str = "it broke five times") -> DeadLetter:
    return DeadLetter(envelope=envelope, reason=reason, detail=detail)


async def write(node: Session, *units: Unit) -> None:
    """Commit units that must all be taken."""
    result = await node.commit(units)
    assert result.rejected == {}


async def refused(node: Session, *units: Unit) -> set[int]:
    """Commit units; the places of those that were left out."""
    return set((await node.commit(units)).rejected)


async def waiting(node: Session, address: str = AGENT, limit: int = 10_000) -> list[int]:
    """The ids that wait in a mailbox, in order."""
    return [envelope.id for envelope in await node.mailbox(shard_of(address), address, limit=limit)]


def ids(envelopes: Sequence[Envelope]) -> list[int]:
    return [envelope.id for envelope in envelopes]
