"""Where settings come from, and what is said of wrong ones."""

import os
import pwd

import pytest

from callboard.mailbox.errors import SettingError
from callboard.service.settings import Settings, child_environment, read_settings


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("CALLBOARD_")]:
        monkeypatch.delenv(name)
    for name in ("DATABASE_URL", "NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)


def test_flags_come_before_variables_and_those_before_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_settings().nodes == Settings().nodes
    monkeypatch.setenv("CALLBOARD_NODES", "5")
    assert read_settings(nodes=None).nodes == 5
    assert read_settings(nodes=7).nodes == 7


def test_database_url_is_the_last_place_to_look_for_a_dsn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://a/b")
    assert read_settings().dsn == "postgresql://a/b"
    monkeypatch.setenv("CALLBOARD_DSN", "postgresql://c/d")
    assert read_settings().dsn == "postgresql://c/d"
    assert read_settings(dsn="host=e").dsn == "host=e"


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("NODES", "many", "a whole number from 1 to 64"),
        ("NODES", "0", "a whole number from 1 to 64"),
        ("NODES", "2.5", "a whole number from 1 to 64"),
        ("LEASE_SECONDS", "-1", "seconds above 0"),
        ("LEASE_SECONDS", "nan", "seconds above 0"),
        ("BEAT_SECONDS", "5", "below half of the lease"),
        ("LOG_LEVEL", "loud", "debug, info, warning or error"),
        ("LOG_JSON", "perhaps", "true or false"),
        ("COLOR", "red", "auto, always or never"),
    ],
)
def test_an_error_says_the_key_what_was_expected_and_what_was_there(
    key: str, value: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"CALLBOARD_{key}", value)
    with pytest.raises(SettingError) as error:
        read_settings()
    for part in (f"CALLBOARD_{key}: expected", expected, value):
        assert part in str(error.value)


def test_a_wrong_flag_is_called_as_it_was_written() -> None:
    with pytest.raises(SettingError, match=r"^--drain-seconds: expected"):
        read_settings(drain_seconds=-1.0)


def test_a_dsn_that_is_none_is_refused_and_never_shown() -> None:
    with pytest.raises(SettingError) as error:
        read_settings(dsn="hunter2")
    assert "hunter2" not in str(error.value)


@pytest.mark.parametrize(("text", "value"), [("1", True), ("true", True), ("OFF", False), ("no", False)])
def test_truth_is_written_in_a_few_ways(text: str, value: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALLBOARD_LOG_JSON", text)
    assert read_settings().log_json is value


def test_no_color_and_dumb_terminals_are_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_settings().color == "auto"
    monkeypatch.setenv("TERM", "dumb")
    assert read_settings().color == "never"
    monkeypatch.setenv("CALLBOARD_COLOR", "always")
    assert read_settings().color == "always"
    monkeypatch.delenv("CALLBOARD_COLOR")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    assert read_settings().color == "never"


def test_nobody_can_say_who_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CALLBOARD_PRINCIPAL", "USER", "LOGNAME"):
        monkeypatch.setenv(name, "boss")
    assert read_settings().principal == pwd.getpwuid(os.geteuid()).pw_name
    with pytest.raises(SettingError):
        read_settings(principal="boss")


def test_a_child_reads_the_same_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = read_settings(nodes=3, drain_seconds=1.5, log_json=True, log_level="debug")
    for name, value in child_environment(settings, "postgresql://x/y").items():
        monkeypatch.setenv(name, value)
    read = read_settings()
    assert (read.nodes, read.drain_seconds, read.log_json, read.log_level) == (3, 1.5, True, "debug")
    assert read.dsn == "postgresql://x/y"
