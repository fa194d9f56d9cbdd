"""An actor at a glance: one word for what it is at, and one line that a person can act on. Pure, over a store's rows.

The words are in the order in which they need somebody; the first that is true is the one. What needs attention is told
by rows that are few (decisions, dead letters, failing messages, statuses), so that it can be found without looking
through the others: `WatchingStore.pressing` finds the same actors, by the same conditions.
"""

from collections.abc import Mapping
from typing import Any, Literal, get_args

import msgspec

from ...mailbox.address import name_of
from ...mailbox.errors import CallboardError
from ...persistence.rows import ActorStatus, declared_sums
from ...persistence.watching import Asked, Failing, Glance
from .lookup import KIND, run_id_of
from .money import sums_in
from .redaction import redacted_text

Word = Literal[
    "NEEDS YOU", "DEAD", "FAILED", "ESCALATED", "RETRY", "RECOVERING", "PARKED", "PAUSED", "HELD",
    "RUNNING", "WAITING", "IDLE", "STOPPED", "COMPLETED", "CANCELLED",
]  # fmt: skip
WORDS: tuple[Word, ...] = get_args(Word)
"""In the order of attention."""
ATTENTION: tuple[Word, ...] = WORDS[:9]
"""Those that need somebody, or soon may."""
LINE_CHARS = 160
ERROR_CHARS = 80

_STANDING: Mapping[str | None, Word] = {
    "failed": "FAILED", "escalated": "ESCALATED", "parked": "PARKED", "paused": "PAUSED",
}  # fmt: skip
_ENDINGS: Mapping[str, Word] = {"failed": "STOPPED", "cancelled": "CANCELLED"}
_OVER: Mapping[str | None, Word] = {"stopped": "STOPPED", "cancelled": "CANCELLED"}
STATUSES_OF: Mapping[Word, tuple[ActorStatus, ...]] = {
    "FAILED": ("failed",),
    "ESCALATED": ("escalated",),
    "PARKED": ("parked",),
    "PAUSED": ("paused",),
    "RUNNING": ("active",),
    "WAITING": ("active",),
    "IDLE": ("active",),
    "STOPPED": ("stopped", "completed"),
    "COMPLETED": ("completed",),
    "CANCELLED": ("cancelled", "completed"),
}
"""What status actors of a word can have, where not each."""


class ActorGlance(msgspec.Struct, frozen=True):
    """An actor at a glance."""

    address: str
    kind: str
    """"" where there is no actor yet: what would have made it fails, waits for a node, or was given up."""
    word: Word
    waiting: int = 0
    """Messages in its mailbox, 1,000 at most."""
    oldest_at: float = 0.0
    """When the oldest of them was sent; 0.0 for none."""
    spent: float | None = None
    """Of a run: the share of the limit that it has come nearest to; None: it has none."""
    doing: str = ""
    """One line: what it asks for, waits for or does, or who stopped it and why."""
    run_id: str = ""
    """Of a run."""
    decision: str = ""
    """Id of the oldest of its calls that wait for a person; of one in its release hold where none does."""
    reason: str = ""
    """Why it is not active, whole."""
    created_at: float = 0.0
    """0.0: not known."""


def glance_of(glance: Glance, now: float) -> ActorGlance:
    """A store's row as people look at it; `now` by the store's clock."""
    row, word = glance.row, word_of(glance)
    asked = glance.pending or glance.held
    return ActorGlance(
        address=row.address,
        kind=row.kind,
        word=word,
        waiting=glance.waiting,
        oldest_at=glance.oldest_at,
        spent=_spent(summary_of(row.summary), now),
        doing=doing_of(glance, word, now),
        run_id=run_id_of(row.address) if row.kind == KIND else "",
        decision="" if asked is None else asked.id,
        reason=redacted_text(row.reason),
        created_at=row.created_at,
    )


def word_of(glance: Glance) -> Word:
    """The one word for an actor."""
    status = glance.row.status
    if glance.pending is not None:
        return "NEEDS YOU"
    if glance.dead:
        return "DEAD"
    if status in ("failed", "escalated"):
        return _STANDING[status]
    if glance.failing is not None:
        return "RETRY"
    if not glance.served and (glance.waiting_free or glance.calls):
        return "RECOVERING"
    if status in ("parked", "paused"):
        return _STANDING[status]
    if glance.held is not None:
        return "HELD"
    return _plain(glance)


def _plain(glance: Glance) -> Word:
    status, summary = glance.row.status, summary_of(glance.row.summary)
    if status in _OVER:
        return _OVER[status]
    if status == "completed":
        # A run that ends with a failure has ended in good order; a person would not call it completed.
        return _ENDINGS.get(str(summary.get("status", "")), "COMPLETED")
    if glance.ready or _under_way(summary):
        return "RUNNING"
    return "WAITING" if glance.waiting or _waits(glance, summary) else "IDLE"


def doing_of(glance: Glance, word: Word, now: float) -> str:
    """What an actor is at, in one line for a person."""
    return _line(_doing(glance, word, now))


def _doing(glance: Glance, word: Word, now: float) -> str:
    row, summary, said = glance.row, summary_of(glance.row.summary), ""
    match word:
        case "NEEDS YOU":
            said = _asks(glance.pending)
        case "DEAD":
            worker = "" if glance.dead_recipient in ("", row.address) else f"{name_of(glance.dead_recipient)}: "
            said = worker + glance.dead_reason + (f" · and {glance.dead - 1} more" if glance.dead > 1 else "")
        case "RETRY":
            said = _tries(glance.failing, row.address, now)
        case "RECOVERING":
            amount = glance.waiting_free + glance.calls
            said = f"no node serves shard {glance.shard} · {amount} {'waits' if amount == 1 else 'wait'}"
        case "PAUSED":
            by, _, why = row.reason.removeprefix("paused ").partition(": ")
            since = f" · {short(now - glance.turned_at)} ago" if glance.turned_at else ""
            said = f"{by}{since}{f' · {why}' if why else ''}"
        case "HELD":
            left = 0.0 if glance.held is None else max(0.0, glance.held.release_at - now)
            said = f"{_asks(glance.held)} · goes in {short(left)}"
        case "RUNNING":
            said = _runs(glance, summary)
        case "WAITING":
            said = _waits(glance, summary) or _scheduled(glance, now)
        case "FAILED" | "ESCALATED" | "PARKED" | "STOPPED" | "COMPLETED" | "CANCELLED":
            said = _ended(glance, word, summary)
    return said


# --- parts of the line -----------------------------------------------------------------------------------------------


def _asks(asked: Asked | None) -> str:
    """`refund.issue 480.00 EUR`."""
    if asked is None:
        return ""
    doubt = "in doubt: " if asked.kind == "in-doubt" else ""
    return f"{doubt}{asked.tool}{money_text(asked.arguments, asked.provenance)}"


def money_text(arguments: str, provenance: str = "") -> str:
    """The sums in a call's arguments, each after a blank, with their currencies where call or tool say them."""
    try:
        values = msgspec.json.decode(arguments) if arguments else {}
    except msgspec.MsgspecError:
        return ""
    sums = sums_in(values, declared_sums(provenance))
    shown = [f"{one.shown} {one.currency}".rstrip() for one in sums[:2]]
    return f" {' + '.join(shown)}{' + …' if len(sums) > 2 else ''}" if shown else ""


def _tries(failing: Failing | None, address: str, now: float) -> str:
    """`llm 529 overloaded · 3/5 · next 8s`."""
    if failing is None:
        return ""
    call = failing.recipient != address
    body = summary_of(failing.body)
    what = {"model.call": "model", "tool.call": str(body.get("tool", "tool"))}.get(failing.type, failing.type)
    attempt, limit = (failing.deliveries if call else failing.failures + 1), body.get("max_attempts")
    of = f"/{limit}" if isinstance(limit, int) and not isinstance(limit, bool) and limit > 0 else ""
    next_ = f"next {short(failing.due_at - now)}" if failing.due_at > now else "now"
    error = _first_line(failing.last_error)[:ERROR_CHARS] or "a failure"
    return f"{what}: {error} · {'attempt ' if not of else ''}{max(1, attempt)}{of} · {next_}"


def _ended(glance: Glance, word: Word, summary: Mapping[str, Any]) -> str:
    """Why it stands or how it ended."""
    row = glance.row
    if row.status != "completed":
        return row.reason.removeprefix(f"{row.status}: ") or "no reason was given"
    said = str(summary.get("detail", ""))
    return f"failed: {said}" if word == "STOPPED" else said


def _under_way(summary: Mapping[str, Any]) -> bool:
    return bool(summary.get("asks_model") or summary.get("tools"))


def _runs(glance: Glance, summary: Mapping[str, Any]) -> str:
    tools = [str(tool) for tool in summary.get("tools") or []]
    if tools:
        return f"tool{'s' if len(tools) > 1 else ''}: {', '.join(tools)}"
    if summary.get("asks_model"):
        return "asks model"
    lost = f" · its process died {glance.losses} times in it" if glance.losses else ""
    return f"handles {glance.first}{lost}" if glance.first else ""


def _waits(glance: Glance, summary: Mapping[str, Any]) -> str:
    """What an actor waits for that nobody has put into its mailbox; "" for nothing but its next message."""
    if summary.get("status") == "provider_down":
        return "model provider does not answer"
    if summary.get("status") == "awaiting_approval":
        return "decided; about to go on"
    if waits_for := str(summary.get("waits_for", "")):
        return f"waits for {waits_for}"
    if not glance.bonds:
        return ""
    from ...actors import bonds
    from ...persistence.rows import ActorRow

    try:
        asks = bonds.read(ActorRow(glance.shard, glance.row.address, glance.row.kind, 1, bonds=glance.bonds)).asks
    except CallboardError:
        return ""  # of another release
    return next((f"waits for the answer of {ask.target}" for ask in asks.values()), "")


def _scheduled(glance: Glance, now: float) -> str:
    if glance.next_due_at > now:
        return f"{glance.first or 'a message'} in {short(glance.next_due_at - now)}"
    return f"put {glance.waiting} aside" if glance.waiting else ""


def summary_of(text: str) -> Mapping[str, Any]:
    """What an actor says of itself, which may be anything; {} where it is no JSON object."""
    try:
        found = msgspec.json.decode(text) if text else {}
    except msgspec.MsgspecError:
        return {}
    return found if isinstance(found, dict) else {}


def _spent(summary: Mapping[str, Any], now: float) -> float | None:
    """The share of a run's budget that is used: what it counted itself, or the time since, which goes on."""
    counted, until, started = summary.get("spent"), summary.get("until"), summary.get("started_at")
    shares = [float(counted)] if isinstance(counted, int | float) and not isinstance(counted, bool) else []
    if isinstance(until, int | float) and isinstance(started, int | float) and until > started > 0:
        shares.append((now - started) / (until - started))
    return max(0.0, min(1.0, max(shares))) if shares else None


def short(seconds: float) -> str:
    """A span in one or two units: `8s`, `4m 01s`, `1h 30m`, `3d 4h`."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole}s"
    if whole < 3_600:
        return f"{whole // 60}m {whole % 60:02d}s" if whole < 600 else f"{whole // 60}m"
    if whole < 86_400:
        return f"{whole // 3_600}h {whole % 3_600 // 60:02d}m"
    return f"{whole // 86_400}d {whole % 86_400 // 3_600}h"


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0].strip()


def _line(text: str) -> str:
    line = " ".join(redacted_text(text).split())
    return line if len(line) <= LINE_CHARS else f"{line[: LINE_CHARS - 1]}…"
