"""Is the system healthy? A few checks over what the store has, each with what is so and what to do next.

Two questions in one answer: does the machinery run (database, schema, nodes, shards, clocks), and does somebody have to
do something (calls that wait for a person, what stands still, dead letters, queues that nobody serves). `bad` is what
keeps the system from doing its work; `warn` is work that waits for a person. A healthy system has no `bad`.

Looking changes nothing, and is a handful of statements with limits, whatever there is to look at.
"""

from collections.abc import Mapping
from shlex import quote
from typing import Any, Literal

import msgspec

from ...actors.supervisor import SupervisorActor
from ...mailbox.errors import SchemaMismatch, StoreUnavailable
from ...persistence.operating import Census
from ...persistence.port import Port, RealPort
from ...persistence.rows import ActorRow, Member
from ...persistence.store import Store
from ..trace_text import duration
from .redaction import redacted_text
from .views import moment

Level = Literal["ok", "warn", "bad"]

SLOW_SECONDS = 0.25
"""A database that takes longer to say its time is slow for everybody."""
SILENT_SECONDS = 10.0
"""A node without a beat for so long."""
SKEW_WARN_SECONDS, SKEW_BAD_SECONDS = 1.0, 60.0
"""This machine's clock and the database's. Nothing that is stored goes by this machine's; ids and logs do."""
WAITED_WARN_SECONDS, WAITED_BAD_SECONDS = 30.0, 300.0
"""For how long a message may be ready without being handled."""
LOOK_AGAIN_SECONDS = 1.0
"""Shards change hands within milliseconds: one without an owner is looked at twice."""
EXPIRY_SOON_SECONDS = 600.0
SAMPLE = (0, 85, 170)
"""Shards that are asked for where not all can be."""
EXAMPLES = 3
STANDING = ("escalated", "failed", "parked", "paused")
"""Statuses in which an actor waits for somebody, the worst first."""
_EXAMPLE_CHARS = 300
_BOXES = 20
"""Mailboxes that are looked at for the oldest message that somebody could handle."""
_PAGE, _PAGES = 500, 20
"""Actors of one kind that are looked at for the reasons why a few of them stand still."""


class Check(msgspec.Struct, frozen=True):
    """One thing that was looked at."""

    name: str
    level: Level
    text: str
    """What is so, in a sentence."""
    way_out: str = ""
    """A command to go on with; "" where nothing has to be done."""
    count: int = 0
    """How many there are of what the check is about."""
    examples: list[str] = []
    """A few of them: address or node, and why."""


class HealthReport(msgspec.Struct, frozen=True):
    """All checks, in the order in which an operator asks."""

    ok: bool
    """Nothing is bad."""
    at: float
    """By the database's clock; 0.0 where it did not answer."""
    checks: list[Check]

    def of(self, level: Level) -> list[Check]:
        """The checks that came out like this."""
        return [check for check in self.checks if check.level == level]


def report(at: float, checks: list[Check]) -> HealthReport:
    """The report that these checks make."""
    return HealthReport(all(check.level != "bad" for check in checks), at, checks)


def unreachable(error: StoreUnavailable | SchemaMismatch) -> HealthReport:
    """The report where the store could not even be opened."""
    if isinstance(error, SchemaMismatch):
        return report(0.0, [Check("schema", "bad", str(error), "callboard init-db")])
    return report(0.0, [Check("database", "bad", str(error), "callboard doctor")])


async def status(store: Store, port: Port | None = None) -> HealthReport:
    """Look at everything. Raises nothing for a database that is away: that is an answer."""
    port = port or RealPort()
    try:
        await store.now()  # opens a connection, which takes its time once
        began, wall = port.monotonic(), port.wall()
        now = await store.now()
        took = port.monotonic() - began
        machinery = [_database(took), _clock(now - (wall + took / 2))]
        try:
            return report(now, [*machinery, *await _looked_at(store, port)])
        except StoreUnavailable as error:
            return report(now, [*machinery, await _uncounted(store, error)])
    except StoreUnavailable as error:
        return unreachable(error)


async def _looked_at(store: Store, port: Port) -> list[Check]:
    census = await _census(store, port)
    ready = census.messages.get("ready", 0)
    version, server = census.schema_version, census.server_version
    on = f"PostgreSQL {server}" if server[:1].isdigit() else server
    return [
        Check("schema", "ok", f"version {version}, which this program knows, on {on}", count=version),
        _nodes(census, ready),
        _shards(census),
        await _oldest(store, census, ready),
        await _standing(store, census),
        _approvals(census),
        await _dead(store, census),
    ]


async def _uncounted(store: Store, error: StoreUnavailable) -> Check:
    """There is too much to count in the time that looking may take: a few shards stand for all."""
    text = f"what waits could not be counted: {error}"
    owners = [await store.owner(shard) for shard in SAMPLE]
    if any(owner is not None and _serves(owner) for owner in owners):
        return Check("counts", "warn", f"{text}; nodes serve", "callboard mailbox")
    return Check("counts", "bad", f"{text}; no node serves the shards {SAMPLE}", "callboard daemon APP")


async def _census(store: Store, port: Port) -> Census:
    census = await store.census()
    if census.shards_unowned and any(_serves(member) for member in census.members):
        await port.sleep(LOOK_AGAIN_SECONDS)
        census = await store.census()
    return census


# --- the machinery -------------------------------------------------------------------------------------------------


def _database(seconds: float) -> Check:
    text = f"answers in {seconds * 1000:.0f} ms"
    if seconds > SLOW_SECONDS:
        return Check("database", "warn", f"{text}, which is slow")
    return Check("database", "ok", text)


def _clock(ahead: float) -> Check:
    """`ahead`: the database's clock against this machine's."""
    apart = abs(ahead)
    if apart < SKEW_WARN_SECONDS:
        return Check("clock", "ok", f"this machine's and the database's are {apart * 1000:.0f} ms apart")
    side = "behind" if ahead > 0 else "ahead of"
    text = f"this machine's clock is {duration(apart)} {side} the database's"
    return Check(
        "clock", "bad" if apart >= SKEW_BAD_SECONDS else "warn", text, "set it, by NTP say: timedatectl status"
    )


def _serves(member: Member) -> bool:
    return member.status in ("up", "draining") and member.beat_age_seconds <= SILENT_SECONDS


def _nodes(census: Census, ready: int) -> Check:
    serving = [member for member in census.members if _serves(member)]
    others = [member for member in census.members if not _serves(member)]
    examples = [_node(member) for member in others[:EXAMPLES]]
    if not serving:
        waits = f", and {ready} message(s) wait for one" if ready else ""
        return Check("nodes", "bad", f"no node serves{waits}", "callboard daemon APP", len(others), examples)
    draining = sum(member.status == "draining" for member in serving)
    text = f"{len(serving)} serve" + (f", {draining} of them draining" if draining else "")
    if not others:
        return Check("nodes", "ok", text, count=len(serving))
    return Check(
        "nodes",
        "warn",
        f"{text}; {len(others)} silent, which others take over within a lease",
        "callboard daemon APP (where it ran)",
        len(serving),
        examples,
    )


def _node(member: Member) -> str:
    label = f" ({member.label})" if member.label else ""
    heard = f"{member.status}, last heard {duration(member.beat_age_seconds)} ago"
    return f"node {member.number}{label}: {heard}, {member.shards} shards"


def _shards(census: Census) -> Check:
    missing = census.shards_unowned
    if not missing:
        return Check("shards", "ok", "each has an owner")
    text = f"{missing} of 256 have no owner: what is sent to actors there waits"
    return Check("shards", "bad", text, "callboard daemon APP", missing)


async def _oldest(store: Store, census: Census, ready: int) -> Check:
    """What could be handled and is not. Not what waits for an actor that stands still: that has a check of its own."""
    if not census.oldest_ready_at:
        return Check("queues", "ok", "nothing is ready that is not being handled")
    age = max(0.0, census.at - census.oldest_ready_at)
    if age < WAITED_WARN_SECONDS:
        return Check("queues", "ok", f"{ready} message(s) ready; the oldest has waited {duration(age)}", count=ready)
    boxes, served = [box for box in await store.mailboxes(order="age", limit=_BOXES) if box.ready], []
    for box in boxes:
        row = await store.actor(box.address)
        if row is None or row.status not in STANDING:
            served.append(box)
    if len(served) < len(boxes):
        age = max((census.at - box.oldest_at for box in served), default=0.0)
    if age < WAITED_WARN_SECONDS:
        text = f"{ready} message(s) ready; those that wait longest are for actors that stand still"
        return Check("queues", "ok", text, count=ready)
    examples = [f"{box.address}: {box.ready} ready, since {duration(census.at - box.oldest_at)}" for box in served]
    way_out = f"callboard mailbox {quote(served[0].address)}" if served else "callboard mailbox --order age"
    level: Level = "bad" if age >= WAITED_BAD_SECONDS else "warn"
    text = f"{ready} message(s) ready; the oldest has waited {duration(age)}"
    return Check("queues", level, text, way_out, ready, examples[:EXAMPLES])


# --- what waits for a person ---------------------------------------------------------------------------------------


async def _standing(store: Store, census: Census) -> Check:
    """Actors that go on only when somebody does something. A supervisor that gave up takes all beneath it along."""
    counts = {
        (kind, status): count
        for kind, statuses in census.actors.items()
        for status, count in statuses.items()
        if status in STANDING and count
    }
    if not counts:
        return Check("stuck", "ok", "nothing is parked, paused or failed")
    supervisors = sum(count for (kind, _), count in counts.items() if kind == SupervisorActor.kind)
    escalated = sum(count for (_, status), count in counts.items() if status == "escalated")
    worst = sorted(counts, key=lambda key: (key[0] != SupervisorActor.kind, STANDING.index(key[1]), key[0]))
    text = ", ".join(f"{counts[key]} {key[0]} {key[1]}" for key in worst[:6])
    rows = [row for kind in dict.fromkeys(kind for kind, _ in worst) for row in await _still(store, kind)][:EXAMPLES]
    examples = [f"{row.address} {redacted_text(_said(row))}"[:_EXAMPLE_CHARS] for row in rows]
    level: Level = "bad" if supervisors or escalated else "warn"
    return Check("stuck", level, text, "callboard actors --stuck", sum(counts.values()), examples)


def _said(row: ActorRow) -> str:
    reason = row.reason or "no reason was given"
    return reason if reason.startswith(row.status) else f"{row.status}: {reason}"


async def _still(store: Store, kind: str) -> list[ActorRow]:
    """A few of one kind; page by page, as most of a kind have ended and are in the way."""
    found: list[ActorRow] = []
    after = ""
    for _ in range(_PAGES):
        rows = await store.actors(kind=kind, limit=_PAGE, after=after)
        found += [row for row in rows if row.status in STANDING]
        if len(found) >= EXAMPLES or len(rows) < _PAGE:
            break
        after = rows[-1].address
    return found[:EXAMPLES]


def _approvals(census: Census) -> Check:
    pending, held = census.decisions.get("pending", 0), census.decisions.get("approved", 0)
    if not pending:
        more = f"; {held} approved, not let go yet" if held else ""
        return Check("approvals", "ok", f"no call waits for a person{more}")
    waited = duration(census.at - census.oldest_pending_at)
    text = f"{pending} call(s) wait for a person, the oldest for {waited}"
    left = census.next_expiry_at - census.at
    if census.next_expiry_at:
        text += f"; the next one expires in {duration(left)}"
    soon = bool(census.next_expiry_at) and left < EXPIRY_SOON_SECONDS
    return Check("approvals", "warn" if soon else "ok", text, "callboard approvals", pending)


async def _dead(store: Store, census: Census) -> Check:
    if not census.dead:
        return Check("dead letters", "ok", "none is open")
    letters = await store.dead_letters(open_only=True, limit=EXAMPLES)
    said = [
        f"{one.envelope.recipient} {one.envelope.type}: {one.reason}: {redacted_text(one.detail)}" for one in letters
    ]
    examples = [text[:_EXAMPLE_CHARS] for text in said]
    return Check("dead letters", "warn", f"{census.dead} open", "callboard dead", census.dead, examples)


def health_document(found: HealthReport) -> dict[str, Any]:
    """`callboard.status/1`."""
    checks: list[Mapping[str, Any]] = [msgspec.to_builtins(check) for check in found.checks]
    return {"schema": "callboard.status/1", "ok": found.ok, "at": moment(found.at), "checks": checks}
