"""What must be true at the end of every story, whatever model played in it, looked up in the tables."""

from callboard.actors.agent.events import ToolCallRequested
from callboard.crm import ledger
from callboard.crm.app import AGENTS
from callboard.crm.policy import dollars, parse_policy, policy_text
from callboard.persistence.postgres.invariants import breaches
from callboard.persistence.rows import Decision

from .proof import Check, named
from .story_stage import Stage

_KEPT = "messages in order, held calls stayed held, journals whole"
_LET_GO = ("approved", "released")


async def prove_always(stage: Stage, *, dead_letters: bool = False) -> list[Check]:
    """The checks that hold with any model. `dead_letters`: some are part of the story."""
    doubles = await ledger.duplicate_effects(stage.owner)
    found = await breaches(stage.owner)
    # The outbox has a timer that never ends; what its next look left in the mailbox is nobody's loss.
    found = [b for b in found if b.invariant != "waiting_messages" or b.subject.startswith(AGENTS)]
    lost = [b for b in found if b.invariant in ("lost_messages", "waiting_messages")]
    other = [b for b in found if b not in lost]
    dead = [] if dead_letters else await stage.store.dead_letters()
    runs = [run_id for run_id, _ in await stage.runs.list(limit=1_000)]
    unproved = [run_id for run_id in runs if not (await stage.runs.verify(run_id)).ok]
    unasked = await _unasked(stage, runs)
    given_up = Check("no message was given up", not dead, named(d.envelope.recipient for d in dead))
    return [
        Check("nothing was done twice", not doubles, named(f"{d.kind}: {d.subject} {d.detail}" for d in doubles)),
        Check("no large refund without a person's yes", not unasked, named(unasked)),
        Check("no message was lost", not lost, named(f"{b.subject}: {b.detail}" for b in lost)),
        *([] if dead_letters else [given_up]),
        Check(_KEPT, not other, named(f"{b.invariant}: {b.subject}" for b in other)),
        Check("every run is what its journal says", not unproved, named(unproved)),
    ]


async def _unasked(stage: Stage, runs: list[str]) -> list[str]:
    """Refunds above the limit that nobody had let go before they were made."""
    limit = parse_policy(policy_text()).refund_limit_cents
    large = [one for one in await ledger.refunds(stage.owner) if one.cause == "refund" and one.amount_cents > limit]
    asked: dict[str, str] = {}
    for run_id in runs if large else ():
        for recorded in await stage.runs.events(run_id):
            if isinstance(event := recorded.event, ToolCallRequested) and event.decision:
                asked[event.idempotency_key] = event.decision
    missing = []
    for one in large:
        decision = await stage.store.decision(asked.get(one.idempotency_key, ""))
        if decision is None or not _was_let_go(decision):
            missing.append(f"{dollars(one.amount_cents, one.currency)} for order {one.order_id}")
    return missing


def _was_let_go(decision: Decision) -> bool:
    return decision.status in _LET_GO and bool(decision.decided_by)
