"""One word and one line for every actor: pure, over what a store tells."""

from typing import Any

import msgspec
import pytest

from callboard.persistence.rows import ActorStatus
from callboard.persistence.watching import Asked, Failing, Glance, Listed
from callboard.service.operations.glancing import ATTENTION, LINE_CHARS, WORDS, Word, doing_of, glance_of, short

NOW = 10_000.0
REFUND = Asked(
    "d1", "approval", "pending", "refund.issue", '{"amount_cents":48000,"currency":"EUR"}', NOW - 60, 0.0, ""
)
DOUBTED = msgspec.structs.replace(REFUND, kind="in-doubt")
MAIL = msgspec.structs.replace(REFUND, tool="mail.send", arguments='{"to":"x"}')
HELD = msgspec.structs.replace(REFUND, status="approved", release_at=NOW + 8, decided_by="mara")
BUSY = Failing("note", "/desk/agent:1", 2, 3, "Overloaded: 529 try later\nmore", NOW + 8, "")


def glance(
    status: ActorStatus | None = "active", *, reason: str = "", summary: dict[str, Any] | None = None, **fields: Any
) -> Glance:
    text = "" if summary is None else msgspec.json.encode(summary).decode()
    row = Listed("/desk/agent:1", fields.pop("kind", "run"), status, reason, text, 5.0)
    plain: dict[str, Any] = {
        "shard": 17, "bonds": "", "turned_at": 0.0, "waiting": 0, "waiting_free": 0, "ready": 0, "oldest_at": 0.0,
        "next_due_at": 0.0, "first": "", "losses": 0, "calls": 0, "served": True,
    }  # fmt: skip
    return Glance(row, **{**plain, **fields})


CASES: list[tuple[Word, str, Glance]] = [
    ("NEEDS YOU", "refund.issue 480.00 EUR", glance(pending=REFUND)),
    ("NEEDS YOU", "in doubt: refund.issue 480.00 EUR", glance(pending=DOUBTED)),
    ("NEEDS YOU", "mail.send", glance(pending=MAIL)),
    ("NEEDS YOU", "pay", glance(pending=msgspec.structs.replace(REFUND, tool="pay", arguments=""))),
    ("DEAD", "failed: 550 mailbox unavailable", glance(dead=1, dead_reason="failed: 550 mailbox unavailable")),
    ("DEAD", "failed: no · and 2 more", glance(dead=3, dead_reason="failed: no")),
    (
        "DEAD",
        "mailer: failed: 550 no",
        glance(dead=1, dead_reason="failed: 550 no", dead_recipient="/desk/mailer"),
    ),
    ("FAILED", "ValueError: no", glance("failed", reason="ValueError: no")),
    ("FAILED", "no reason was given", glance("failed")),
    ("ESCALATED", "spent", glance("escalated", reason="escalated: spent")),
    ("RETRY", "note: Overloaded: 529 try later · attempt 3 · next 8s", glance(failing=BUSY, waiting=1, waiting_free=1)),
    (
        "RETRY",
        "model: llm 529 · 3/5 · next 8s",
        glance(failing=Failing("model.call", "/sys/model", 0, 3, "llm 529", NOW + 8, '{"max_attempts":5}')),
    ),
    (
        "RETRY",
        "order.lookup: a failure · attempt 1 · now",
        glance(failing=Failing("tool.call", "/sys/tools", 1, 0, "", NOW - 1, '{"tool":"order.lookup"}')),
    ),
    ("RECOVERING", "no node serves shard 17 · 3 wait", glance(served=False, waiting=3, waiting_free=3, ready=3)),
    ("RECOVERING", "no node serves shard 17 · 1 waits", glance(served=False, calls=1)),
    ("PARKED", "provider key is wrong", glance("parked", reason="parked: provider key is wrong")),
    ("PARKED", "schema: it cannot be read", glance("parked", reason="schema: it cannot be read")),
    ("PAUSED", "by mara · 22m ago", glance("paused", reason="paused by mara", turned_at=NOW - 22 * 60)),
    ("PAUSED", "by mara · lunch", glance("paused", reason="paused by mara: lunch")),
    ("HELD", "refund.issue 480.00 EUR · goes in 8s", glance(held=HELD)),
    ("HELD", "refund.issue 480.00 EUR · goes in 0s", glance(held=msgspec.structs.replace(HELD, release_at=NOW - 5))),
    ("RUNNING", "asks model", glance(summary={"status": "running", "asks_model": True, "tools": []})),
    ("RUNNING", "tool: order.lookup", glance(summary={"status": "running", "tools": ["order.lookup"]})),
    ("RUNNING", "tools: a, b", glance(summary={"asks_model": False, "tools": ["a", "b"]})),
    ("RUNNING", "handles note", glance(waiting=2, waiting_free=2, ready=1, first="note")),
    (
        "RUNNING",
        "handles note · its process died 2 times in it",
        glance(waiting=1, waiting_free=1, ready=1, first="note", losses=2),
    ),
    ("WAITING", "waits for expert: run r.1", glance(summary={"status": "running", "waits_for": "expert: run r.1"})),
    ("WAITING", "model provider does not answer", glance(summary={"status": "provider_down"})),
    ("WAITING", "decided; about to go on", glance(summary={"status": "awaiting_approval"})),
    ("WAITING", "note in 2m 00s", glance(waiting=1, waiting_free=1, next_due_at=NOW + 120, first="note")),
    ("WAITING", "put 2 aside", glance(waiting=2)),
    (
        "WAITING",
        "waits for the answer of /desk/boss",
        glance(bonds='{"asks":{"7":{"target":"/desk/boss","deadline":20000.0}}}'),
    ),
    ("IDLE", "", glance()),
    ("IDLE", "", glance(summary={"anything": [1]}, kind="mine")),
    ("STOPPED", "its supervisor stopped it", glance("stopped", reason="its supervisor stopped it")),
    (
        "STOPPED",
        "failed: 50 of 50 iterations are used",
        glance("completed", summary={"status": "failed", "detail": "50 of 50 iterations are used"}),
    ),
    ("COMPLETED", "refunded", glance("completed", summary={"status": "completed", "detail": "refunded"})),
    ("CANCELLED", "by ann", glance("cancelled", reason="by ann")),
    ("CANCELLED", "no more", glance("completed", summary={"status": "cancelled", "detail": "no more"})),
]  # fmt: skip


@pytest.mark.parametrize(("word", "doing", "seen"), CASES, ids=[f"{word} {doing}"[:50] for word, doing, _ in CASES])
def test_an_actor_is_told_in_a_word_and_a_line(word: Word, doing: str, seen: Glance) -> None:
    found = glance_of(seen, NOW)
    assert (found.word, found.doing) == (word, doing)


NOT_YET: list[tuple[Word, str, Glance]] = [
    ("DEAD", "failed: 550 no", glance(None, kind="", dead=1, dead_reason="failed: 550 no")),
    (
        "RETRY",
        "note: Overloaded: 529 try later · attempt 3 · next 8s",
        glance(None, kind="", failing=BUSY, waiting=1, waiting_free=1),
    ),
    (
        "RECOVERING",
        "no node serves shard 17 · 1 waits",
        glance(None, kind="", served=False, waiting=1, waiting_free=1, ready=1),
    ),
    ("RUNNING", "handles note", glance(None, kind="", waiting=1, waiting_free=1, ready=1, first="note")),
    (
        "WAITING",
        "note in 2m 00s",
        glance(None, kind="", waiting=1, waiting_free=1, next_due_at=NOW + 120, first="note"),
    ),
]


@pytest.mark.parametrize(("word", "doing", "seen"), NOT_YET, ids=[word for word, _, _ in NOT_YET])
def test_g6_who_is_not_there_yet_is_told_in_a_word_and_a_line(word: Word, doing: str, seen: Glance) -> None:
    found = glance_of(seen, NOW)
    assert (found.word, found.doing, found.kind, found.run_id, found.spent) == (word, doing, "", "", None)


def test_every_word_is_in_a_case() -> None:
    assert {word for word, _, _ in CASES} == set(WORDS)


def test_what_needs_somebody_most_is_the_word() -> None:
    """Everything at once, and then one thing less each time."""
    fields: dict[str, Any] = {
        "pending": REFUND, "dead": 1, "failing": BUSY, "served": False, "waiting_free": 1, "waiting": 1, "ready": 1,
        "held": HELD,
    }  # fmt: skip
    found = [glance_of(glance(**fields), NOW).word]
    for gone in ({"pending": None}, {"dead": 0}, {"failing": None}, {"served": True}, {"held": None}):
        fields |= gone
        found.append(glance_of(glance(**fields), NOW).word)
    assert found == ["NEEDS YOU", "DEAD", "RETRY", "RECOVERING", "HELD", "RUNNING"]
    assert [glance_of(glance(status, failing=BUSY), NOW).word for status in ("failed", "escalated")] == [
        "FAILED",
        "ESCALATED",
    ]
    assert [glance_of(glance(status, failing=BUSY), NOW).word for status in ("parked", "paused")] == ["RETRY", "RETRY"]
    assert WORDS[:9] == ATTENTION and ATTENTION[-1] == "HELD"


def test_a_run_tells_its_id_its_decision_and_what_it_has_spent() -> None:
    seen = glance(summary={"spent": 0.2, "started_at": NOW - 30, "until": NOW + 30}, pending=REFUND, waiting=3)
    found = glance_of(seen, NOW)
    assert (found.run_id, found.decision, found.spent, found.waiting, found.created_at) == ("1", "d1", 0.5, 3, 5.0)
    assert glance_of(glance(summary={"spent": 0.2, "until": 0.0, "started_at": 1.0}, held=HELD), NOW).spent == 0.2
    assert glance_of(glance(summary={"spent": None, "until": 0.0}), NOW).spent is None
    assert glance_of(glance(summary={"spent": 7, "until": "x"}), NOW).spent == 1.0, "the last call may overshoot"
    assert glance_of(glance(kind="mine"), NOW).run_id == ""
    assert glance_of(glance(held=HELD), NOW).decision == "d1"


@pytest.mark.parametrize(
    "summary", ["[1]", "nothing", '"text"', '{"tools":null,"asks_model":"yes","waits_for":7}', "1e999"]
)
def test_an_actor_may_say_anything_of_itself(summary: str) -> None:
    seen = msgspec.structs.replace(glance(), row=Listed("/a", "k", "active", "", summary, 0.0), bonds="{not bonds")
    assert glance_of(seen, NOW).word in ("IDLE", "RUNNING", "WAITING")


def test_the_line_is_one_line_that_is_not_too_long_and_shows_no_secret() -> None:
    seen = glance("failed", reason=f"ValueError: no\nway  at\tall, password: hunter2 {'x' * 500}")
    line = doing_of(seen, "FAILED", NOW)
    assert line.startswith("ValueError: no way at all, password: [redacted] x") and len(line) == LINE_CHARS
    assert line.endswith("…")
    assert "hunter2" not in glance_of(seen, NOW).reason


def test_more_sums_than_fit_are_said_to_be_there() -> None:
    arguments = '{"lines":[{"price":1.50},{"price":2},{"price":3}]}'
    seen = glance(pending=msgspec.structs.replace(REFUND, tool="order", arguments=arguments))
    assert glance_of(seen, NOW).doing == "order 1.5 + 2 + …"


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (-3, "0s"),
        (0.4, "0s"),
        (8, "8s"),
        (59.6, "1m 00s"),
        (241, "4m 01s"),
        (1320, "22m"),
        (5400, "1h 30m"),
        (273_600, "3d 4h"),
    ],
)
def test_a_span_is_said_in_two_units_at_most(seconds: float, said: str) -> None:
    assert short(seconds) == said
