"""Text of strangers on a terminal."""

import unicodedata

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from callboard.service.safe import safe


@pytest.mark.parametrize(
    ("hostile", "shown"),
    [
        ("\x1b[2J\x1b]0;owned\x07", "\\x1b[2J\\x1b]0;owned\\x07"),
        ("paid\r0.00", "paid\\r0.00"),
        ("a\nb\tc", "a\\nb\\tc"),
        ("\x9b31m", "\\x9b31m"),
        ("del\x7f", "del\\x7f"),
        ("\u202e000.84", "\\u202e000.84"),
        ("\u2066x\u2069", "\\u2066x\\u2069"),
        ("zero\u200bwidth", "zero\\u200bwidth"),
        ("line\u2028break", "line\\u2028break"),
        ("half \ud800", "half \\ud800"),
        ("tag \U000e0041", "tag \\U000e0041"),
    ],
)
def test_what_could_steer_a_terminal_is_shown_instead(hostile: str, shown: str) -> None:
    assert safe(hostile) == shown


def test_ordinary_text_of_any_script_stays() -> None:
    for text in ("Refund order A-8891", "Grüße, 東京", "“quoted” — 480.00 €", "✓ ▲"):
        assert safe(text) == text


def test_lines_and_tabs_stay_where_they_are_asked_for_and_nothing_else_does() -> None:
    assert safe("a\n\tb\r\x1b", lines=True) == "a\n\tb\\r\\x1b"


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.text(st.characters()))
def test_nothing_that_comes_out_steers(text: str) -> None:
    assert all(unicodedata.category(c) not in ("Cc", "Cf", "Cs", "Zl", "Zp") for c in safe(text))


@pytest.mark.parametrize("blank", ["\u3164", "\u2800", "\u115f", "\u034f"])
def test_a_letter_that_nobody_sees_is_shown(blank: str) -> None:
    assert safe(f"ACC-1{blank}") == f"ACC-1\\u{ord(blank):04x}"
