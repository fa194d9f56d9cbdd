"""The frame's lines as text: they fit any width, and lose what matters least first."""

from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callboard.persistence.rows import Member
from callboard.service.operations.principal import ALL_SCOPES, Principal, Scope
from callboard.service.operations.watching import AttentionLine, Sum
from callboard.tui import frame_lines as lines
from callboard.tui.frame_lines import Masthead, Tab
from callboard.tui.live import State
from callboard.tui.text import Line, cells, piece
from callboard.tui.times import clock, relative, short_span, span

NOW = 1_796_040_271.0
BUSY = AttentionLine(
    at=NOW, to_decide=7, sums=[Sum("EUR", Decimal("1276.40")), Sum("USD", Decimal("12.00"))], oldest_at=NOW - 724,
    next_expiry_at=NOW + 1_700, dead=3, escalated=1, retrying=3, failed=2, running=3_541, idle=6_862, total=10_412,
    counted_at=NOW, nodes=[Member(1, 1, "b", "up", 0.1, 32), Member(2, 1, "c", "dead", 9.0, 0)],
)  # fmt: skip
LIVE = State(link="live", answered_at=100.0, latency_seconds=0.003, store_ahead=NOW - 100.0, looked_at=100.0)


def text(parts: Line) -> str:
    return "".join(one.text for one in parts)


def head(width: int, state: State = LIVE, monotonic: float = 100.2, **more: object) -> str:
    principal = Principal("mara", "tui", "desk", frozenset({"read", "approve"}))
    given = {"frozen_seconds": None, "principal": principal} | more
    of = Masthead("prod-eu", BUSY, state, monotonic, NOW, "utc", **given)  # type: ignore[arg-type]
    return text(lines.masthead(of, width))


@given(width=st.integers(1, 220), age=st.floats(0, 1e6), environment=st.text(max_size=40))
@settings(max_examples=200, deadline=None)
def test_no_line_is_wider_than_the_screen_where_the_screen_is_wide_enough_at_all(
    width: int, age: float, environment: str
) -> None:
    of = Masthead(environment, BUSY, LIVE, 100.0 + age, NOW, "utc", Principal("mara"), None)
    assert cells(lines.masthead(of, width)) <= max(width, 16)
    assert cells(lines.attention(BUSY, NOW + age, width)) <= max(width, 20)
    lost = State(link="lost", lost_at=100.0, tries=4, next_try_at=103.0)
    assert cells(lines.banner(lost, 100.0 + age, NOW, "utc", width)) <= max(width, 40)


def test_the_masthead_at_the_two_sizes() -> None:
    wide = "callboard  prod-eu  1 node" + " " * 39 + "● live 0.2s   db 3ms   12:04:31 UTC   mara · approver"
    assert head(118) == wide
    middle = "callboard  prod-eu  1 node" + " " * 8 + "● live 0.2s   12:04:31 UTC   mara · approver"
    assert head(78) == middle
    assert head(40).startswith("callboard  prod-eu") and "● live" in head(40)
    assert head(20) == "● live 0.2s"


def test_what_is_old_is_said_to_be_old_and_what_is_frozen_to_be_frozen() -> None:
    assert "◷ 9s old" in head(118, monotonic=109.0)
    assert "‖ frozen 2m   ● live" in head(118, frozen_seconds=130.0)
    assert "◷ connecting" in head(118, State())
    assert "✗ database lost" in head(118, State(link="lost")) and "db " not in head(118, State(link="lost"))


@pytest.mark.parametrize(
    ("scopes", "word"),
    [({"read"}, "viewer"), ({"read", "operate"}, "operator"), ({"read", "approve"}, "approver"), (ALL_SCOPES, "admin")],
)
def test_the_role_is_the_greatest_right(scopes: set[Scope], word: str) -> None:
    assert lines.role_word(Principal("mara", scopes=frozenset(scopes))) == word


def test_the_attention_line_at_the_sizes() -> None:
    wide = text(lines.attention(BUSY, NOW, 158))
    assert wide.startswith(
        "◆ 7 to decide  €1,276.40 + $12.00 · oldest 12m 04s · next expiry 28m  ✗ 3 dead  ▲ 1 escalated  ✗ 2 failed"
        "  ↻ 3 retrying"
    )
    assert wide.endswith("● 3,541  ○ 6,862")
    narrow = text(lines.attention(BUSY, NOW, 78))
    assert narrow.startswith("◆ 7 to decide €1,276.40 + $12.00 oldest 12m  ✗ 3  ▲ 1  ✗ 2  ↻ 3")
    assert "10,412 actors" in narrow
    tiny = text(lines.attention(BUSY, NOW, 40))
    assert tiny.startswith("◆ 7 to decide") and "✗ 3" in tiny


def test_nothing_that_waits_is_said_in_words() -> None:
    quiet = AttentionLine(at=NOW, running=2, idle=5, total=7, counted_at=NOW)
    assert text(lines.attention(quiet, NOW, 118)).startswith("✓ nothing waits for you")
    assert text(lines.attention(None, NOW, 118)) == "reading …"
    dead = AttentionLine(at=NOW, dead=1)
    assert text(lines.attention(dead, NOW, 118)).split("  ")[0] == "○ nothing to decide"


def test_the_banner_at_the_sizes() -> None:
    lost = State(link="lost", lost_at=100.0, tries=4, next_try_at=125.2)
    said = text(lines.banner(lost, 122.0, NOW - 23, "utc", 118))
    assert said == (
        "✗ Database lost 22s ago. You see 12:04:08Z. Nothing is lost; decisions are off. Retry 4 in 3s, ctrl+r now"
    )
    assert text(lines.banner(lost, 122.0, NOW - 23, "utc", 78)) == (
        "✗ Database lost 22s ago. Decisions are off. Retry 4 in 3s, ctrl+r now"
    )
    assert text(lines.banner(lost, 122.0, NOW, "utc", 58)) == "✗ Database lost 22s ago. Retry 4 in 3s, ctrl+r"


def test_the_row_of_screens_is_short_where_there_is_little_room() -> None:
    tabs = [
        Tab(1, "Actors", "Actors", None, True),
        Tab(2, "Approvals", "Approve", piece("7", "needs"), False),
        Tab(3, "Dead letters", "Dead", piece("3", "bad"), False),
    ]
    for width, expected in (
        (60, " 1 Actors   2 Approvals 7   3 Dead letters 3  "),
        (40, " 1 Actors   2 Approve 7   3 Dead 3  "),
        (35, " 1 Actors  2 Approve 7  3 Dead 3 "),
        (20, " 1 Actors  2 7  3 3 "),
    ):
        assert "".join(text(shown) for _, shown in lines.screens(tabs, width)) == expected


@pytest.mark.parametrize(
    ("seconds", "long", "short"),
    [(0, "0s", "0s"), (0.4, "0s", "0s"), (59, "59s", "59s"), (724, "12m 04s", "12m"), (5_400, "1h 30m", "1h30"),
     (21_480, "5h 58m", "5h58"), (40_000, "11h 06m", "11h"), (-5, "0s", "0s")],
)  # fmt: skip
def test_lengths_of_time(seconds: float, long: str, short: str) -> None:
    assert span(seconds) == long and short_span(seconds) == short


def test_moments() -> None:
    assert relative(NOW - 724, NOW) == "12m 04s ago" and relative(NOW + 8, NOW) == "in 8s"
    assert relative(NOW, NOW + 0.3) == "now" and relative(0.0, NOW) == "" and clock(0.0, "utc") == ""
    assert clock(NOW, "utc", now=NOW) == "12:04:31Z"
    assert clock(NOW - 86_400, "utc", now=NOW) == "2026-11-29 12:04:31Z"
    assert clock(NOW + 0.114, "utc", now=NOW, millis=True) == "12:04:31.114Z"
