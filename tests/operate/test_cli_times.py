"""How a moment is said: one formatter, and pipes get exact times."""

import sys

import pytest

from callboard.mailbox.errors import SettingError
from callboard.service.cli.times import local, relative, span, utc, when

NOON = 1_796_040_000.0


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0, "0s"), (0.9, "0s"), (42, "42s"), (190, "3m10s"), (180, "3m"), (7_500, "2h5m"), (7_203, "2h"),
        (6 * 86_400 + 5, "6d"), (6 * 86_400 + 3_600, "6d1h"),
    ],
)  # fmt: skip
def test_a_length_of_time_is_said_in_its_two_greatest_units(seconds: float, said: str) -> None:
    assert span(seconds) == said


@pytest.mark.parametrize(
    ("at", "said"), [(NOON - 12, "12s ago"), (NOON + 240, "in 4m"), (NOON, "now"), (NOON + 0.4, "now"), (0, "")]
)
def test_relative_times_say_on_which_side_of_now_they_are(at: float, said: str) -> None:
    assert relative(at, NOON) == said


def test_utc_is_rfc_3339_and_never_is_nothing() -> None:
    assert utc(NOON) == "2026-11-30T12:00:00.000Z"
    assert utc(0) == local(0) == ""


def test_local_time_is_that_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    monkeypatch.setenv("TZ", "Asia/Kolkata")
    time.tzset()
    try:
        assert local(NOON) == "2026-11-30 17:30:00"
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize(("terminal", "said"), [(True, "1m ago"), (False, "2026-11-30T11:59:00.000Z")])
def test_times_are_relative_on_a_terminal_and_exact_in_a_pipe(
    terminal: bool, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal, raising=False)
    assert when(None, NOON)(NOON - 60) == said


def test_what_is_asked_for_wins_over_where_it_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    assert when("utc", NOON)(NOON) == "2026-11-30T12:00:00.000Z"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: False, raising=False)
    assert when("relative", NOON)(NOON - 60) == "1m ago"


def test_another_style_is_wrong_usage_that_names_those_there_are() -> None:
    with pytest.raises(SettingError, match="relative, local or utc, got 'swatch'"):
        when("swatch", NOON)
