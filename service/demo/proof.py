"""What must be true when the curtain falls, looked up in the ledger, the journals and the mailboxes."""

from collections.abc import Collection, Iterable

import msgspec

from callboard.actors.agent.events import ToolCallCompleted, ToolCallRequested
from callboard.actors.agent.runs import Recorded, Runs
from callboard.crm import ledger
from callboard.crm.app import AGENTS
from callboard.persistence.postgres.database import Database
from callboard.persistence.postgres.invariants import breaches

MAX_RUNS = 10_000
"""Of one demonstration, with those of the agents that were called."""


class Check(msgspec.Struct, frozen=True):
    """One thing that must be true."""

    name: str
    ok: bool
    detail: str


class Interrupted(msgspec.Struct, frozen=True):
    """The run whose node was killed, and how it went on."""

    run_id: str
    events: list[Recorded]
    recovered: ToolCallCompleted | None
    takeover_seconds: float | None
    """From the kill to the first fact that another node recorded about it, by the database's clock."""


async def find_interrupted(runs: Runs, run_ids: Collection[str], key: str, killed_at: float) -> Interrupted | None:
    """The run that was in the refund of this key, from the journals."""
    for run_id in await with_called(runs, run_ids):
        events = await runs.events(run_id)
        asked = [r for r in events if isinstance(r.event, ToolCallRequested) and r.event.idempotency_key == key]
        if not asked:
            continue
        done = [r for r in events if isinstance(r.event, ToolCallCompleted) and r.event.idempotency_key == key]
        after = [r.at for r in events if r.seq > asked[-1].seq and r.node != asked[-1].node]
        outcome = done[0].event if done else None
        assert outcome is None or isinstance(outcome, ToolCallCompleted)
        return Interrupted(run_id, events, outcome, round(min(after) - killed_at, 3) if after else None)
    return None


async def with_called(runs: Runs, run_ids: Collection[str]) -> list[str]:
    """These runs, and those of all agents that they have called."""
    rows = await runs.list(limit=MAX_RUNS)
    return [run_id for run_id, _ in rows if run_id.partition(".")[0] in run_ids]


async def prove(
    database: Database,
    runs: Runs,
    run_ids: Collection[str],
    *,
    denied: Collection[str],
    interrupted: Interrupted | None,
    outcomes_known: bool = True,
) -> tuple[list[Check], int, int]:
    """Every check, the number of duplicate effects, and of lost messages. `outcomes_known`: it is known how each ticket
    has to end, as it is not with a real model."""
    doubles = await ledger.duplicate_effects(database)
    outcomes = await ledger.outcomes(database, denied=denied)
    wrong = [f"{o.ticket_id} is {o.status}" for o in outcomes if not o.right]
    found = await breaches(database)
    # The outbox has a timer that never ends; what its next look left in the mailbox is nobody's loss.
    found = [b for b in found if b.invariant != "waiting_messages" or b.subject.startswith(AGENTS)]
    lost = [b for b in found if b.invariant in ("lost_messages", "waiting_messages")]
    other = [b for b in found if b not in lost]
    dead = await runs.store.dead_letters()
    unproved = [run_id for run_id in await with_called(runs, run_ids) if not (await runs.verify(run_id)).ok]
    checks = [
        Check("one effect for each key", not doubles, named(f"{d.kind}: {d.subject} {d.detail}" for d in doubles)),
        *([Check("every ticket decided rightly", not wrong, named(wrong))] if outcomes_known else []),
        Check("no message lost", not lost, named(f"{b.subject}: {b.detail}" for b in lost)),
        Check("no dead letter", not dead, named(f"{d.envelope.recipient}: {d.detail}" for d in dead)),
        Check("order, fence, gates, journals", not other, named(f"{b.invariant}: {b.subject}" for b in other)),
        Check("every run is the fold of its journal", not unproved, named(unproved)),
    ]
    if interrupted is not None:
        ok = interrupted.recovered is not None and interrupted.recovered.recovered
        detail = f"{interrupted.run_id}: the outcome was recorded by another node" if ok else interrupted.run_id
        checks.append(Check("the killed refund was recovered, not repeated", ok, detail))
    return checks, len(doubles), len(lost)


def named(texts: Iterable[str]) -> str:
    """Some of them by name, and how many more there are."""
    found = list(texts)
    return "; ".join(found[:5]) + (f"; and {len(found) - 5} more" if len(found) > 5 else "")
