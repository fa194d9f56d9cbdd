"""What must be true after a chaos run, looked up in the tables; and the judging, which is pure.

`look` reads, `judge` says what holds: a test hands it findings that were spoiled on purpose.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from callboard.actors.agent.runs import Runs
from callboard.actors.client import Client
from callboard.bench.chaos_load import DeskLoad
from callboard.crm import ledger
from callboard.crm.app import AGENTS
from callboard.persistence.postgres.database import Database
from callboard.persistence.postgres.invariants import ALWAYS, AT_REST, Breach, breaches, ended

NUMBERS = tuple(f"I{n}" for n in range(1, 15))


class Check(msgspec.Struct, frozen=True):
    """One thing that must be true."""

    name: str
    ok: bool
    detail: str = ""


class Refunds(msgspec.Struct, frozen=True):
    """What the ledger holds beside what it should: one refund for each ticket that is to get one."""

    expected: int
    made: int
    twice: list[str] = []
    missing: list[str] = []
    foreign: list[str] = []
    """Made, and no ticket of them should have got one."""
    attempts: int = 0
    """How often a refund was begun."""
    repeated: int = 0
    """Refunds that were begun more than once under their key."""

    @property
    def exact(self) -> bool:
        """Whether each was made exactly once and nothing else was."""
        return self.made == self.expected and not (self.twice or self.missing or self.foreign)


class Findings(msgspec.Struct, frozen=True):
    """Everything that was looked up, before anybody says whether it is right."""

    tickets: int
    unfinished: list[str]
    refunds: Refunds
    duplicates: list[str]
    policy: list[str]
    wrong_tickets: list[str]
    broken: list[Breach]
    dead: list[str]
    unproved: list[str]
    """Runs whose snapshot is not the fold of their journal."""
    changed_after_end: list[str]
    """Actors that had ended in an earlier look and are not as they were."""
    charged: list[str]
    """Failures that are charged to messages for actors, which only their own code can cause."""
    won_twice: list[str]
    """Decisions of which several people were told that their word counts, or another than the one on record."""
    refused: list[str]
    """What people were told who decided, and should not have been."""
    ended: list[str]
    """Nodes that ended though nobody had asked them to."""
    undrained: list[str]
    left: list[int] = []
    """Processes that are still there."""


_ATTEMPTS = """
SELECT coalesce(sum(n), 0)::bigint AS attempts, count(*) FILTER (WHERE n > 1) AS repeated
FROM (SELECT count(*) AS n FROM crm.attempt WHERE tool IN ('issue_refund', 'cancel_order') GROUP BY idempotency_key) a
"""


async def ended_actors(database: Database) -> dict[str, tuple[int, int]]:
    """A look at who has ended, for I10: a later look must find them as they were."""
    return await ended(database)


async def look(
    database: Database,
    load: DeskLoad,
    *,
    unfinished: Sequence[str],
    before: Mapping[str, tuple[int, int]],
    ended_nodes: Sequence[str],
    undrained: Sequence[str],
    left: Sequence[int],
) -> Findings:
    """Look all of it up, once nothing moves any more."""
    runs = Runs(Client(load.store), AGENTS)
    decided = await database.rows("SELECT id, run, status, decided_by FROM callboard.decision")
    denied = {_ticket(row["run"]) for row in decided if row["status"] == "denied"}
    outcomes = await ledger.outcomes(database, denied=denied)
    [counted] = await database.rows(_ATTEMPTS)
    found = await breaches(database)
    # Timers of the outbox and the like never end; what their last ring left in a mailbox is nobody's loss.
    found = [b for b in found if b.invariant not in AT_REST or b.subject.startswith(AGENTS)]
    after = await ended(database)
    return Findings(
        tickets=len(outcomes),
        unfinished=list(unfinished),
        refunds=refunds_of(outcomes, await ledger.refunds(database), counted["attempts"], counted["repeated"]),
        duplicates=[f"{d.kind}: {d.subject}: {d.detail}" for d in await ledger.duplicate_effects(database)],
        policy=[f"{b.kind}: {b.subject}: {b.detail}" for b in await ledger.breaches(database)],
        wrong_tickets=[_wrong(one) for one in outcomes if not one.right],
        broken=found,
        dead=[f"{letter.envelope.recipient}: {letter.reason}" for letter in await load.store.dead_letters()],
        unproved=[run_id for run_id, _ in await runs.list(limit=100_000) if not (await runs.verify(run_id)).ok],
        changed_after_end=changed(before, after),
        charged=sorted(load.charged_actors),
        won_twice=won_twice(load.races.won, {row["id"]: row["decided_by"] for row in decided}),
        refused=[f"{count} times {text}" for text, count in load.races.other.items()],
        ended=list(ended_nodes),
        undrained=list(undrained),
        left=list(left),
    )


def refunds_of(
    outcomes: Sequence[ledger.TicketOutcome], made: Sequence[ledger.Refund], attempts: int, repeated: int
) -> Refunds:
    """Hold the ledger's rows against what each ticket is to get."""
    expected = {one.ticket_id for one in outcomes if one.expected_refund_cents}
    counts = Counter(refund.ticket_id or f"order {refund.order_id}" for refund in made)
    return Refunds(
        expected=len(expected),
        made=len(made),
        twice=sorted(ticket for ticket, count in counts.items() if count > 1),
        missing=sorted(expected - counts.keys()),
        foreign=sorted(counts.keys() - expected),
        attempts=attempts,
        repeated=repeated,
    )


def changed(before: Mapping[str, tuple[int, int]], after: Mapping[str, tuple[int, int]]) -> list[str]:
    """I10: who had ended and is not as it was; an actor of a new incarnation is another."""
    return [
        f"{address} was {one}, and is {after[address]}"
        for address, one in before.items()
        if address in after and after[address] != one and after[address][0] == one[0]
    ]


def won_twice(won: Mapping[str, Sequence[str]], decided_by: Mapping[str, str]) -> list[str]:
    """Decisions with several winners, or with another one than the row has."""
    return [
        f"{decision}: {', '.join(names)} were told so, and {decided_by.get(decision, 'nobody')} is on record"
        for decision, names in won.items()
        if len(names) > 1 or names[0] != decided_by.get(decision)
    ]


def invariants(found: Findings) -> dict[str, str]:
    """Each of I1 to I14 by its number: "holds", or what breaks it."""
    said: dict[str, list[str]] = {number: [] for number in NUMBERS}
    for breach in found.broken:
        said.setdefault(breach.number, []).append(f"{breach.invariant}: {breach.subject}: {breach.detail}")
    said["I8"] += found.duplicates
    said["I10"] += found.changed_after_end
    said["I12"] += found.charged
    return {number: named(texts) or "holds" for number, texts in said.items()}


def asked() -> frozenset[str]:
    """The numbers that some query, or a comparison of two looks, answers for."""
    return frozenset({*ALWAYS.values(), *AT_REST.values(), "I10", "I12"})


def judge(found: Findings) -> list[Check]:
    """What of it holds."""
    refunds = found.refunds
    wrong_money = [*refunds.twice, *refunds.missing, *refunds.foreign]
    broken = [f"{number}: {said}" for number, said in invariants(found).items() if said != "holds"]
    facts: list[tuple[str, Sequence[object]]] = [
        ("every ticket came to its end", found.unfinished),
        ("each refund exactly once", [] if refunds.exact else wrong_money or [f"{refunds.made} of {refunds.expected}"]),
        ("one effect for each key", found.duplicates),
        ("nothing without the approval it needs", found.policy),
        ("every ticket decided rightly", found.wrong_tickets),
        ("of people who decide at once, one wins", [*found.won_twice, *found.refused]),
        ("no invariant is broken", broken),
        ("no dead letter", found.dead),
        ("every run is the fold of its journal", found.unproved),
        ("no node ended by itself", found.ended),
        ("nodes that were asked to end did so with 0", found.undrained),
        ("no process is left", found.left),
    ]
    checks = [Check(name, not wrong, named([str(one) for one in wrong])) for name, wrong in facts]
    return [*checks, Check("there was something to do", found.tickets > 0)]


def named(texts: Sequence[str]) -> str:
    """Some of them, and how many more there are."""
    return "; ".join(texts[:4]) + (f"; and {len(texts) - 4} more" if len(texts) > 4 else "")


def _wrong(one: ledger.TicketOutcome) -> str:
    money = f"{one.refund_cents} of {one.expected_refund_cents} cents"
    return (
        f"{one.ticket_id} ({one.scenario}) is {one.status}, not {one.expected_status}; {money}; {one.replies} replies"
    )


def _ticket(run: str) -> str:
    return str(run).partition(":")[2].partition(".")[0]
