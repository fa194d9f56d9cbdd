"""Where settings come from, and what is said of wrong ones."""

import os
import pwd
from pathlib import Path

import pytest

from callboard.mailbox.errors import SettingError
from callboard.service.setting_sources import FILE_KEYS, SETTING_TABLES
from callboard.service.settings import _EXPECTED, Settings, child_environment, listen_address, read_settings


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("CALLBOARD_")]:
        monkeypatch.delenv(name)
    for name in ("DATABASE_URL", "NO_COLOR", "TERM", "CREDENTIALS_DIRECTORY"):
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
    for name in ("USER", "LOGNAME"):
        monkeypatch.setenv(name, "boss")
    assert read_settings().principal == pwd.getpwuid(os.geteuid()).pw_name
    with pytest.raises(SettingError):
        read_settings(principal="boss")
    monkeypatch.setenv("CALLBOARD_PRINCIPAL", "boss")
    with pytest.raises(SettingError):
        read_settings()


def test_a_child_reads_the_same_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = read_settings(nodes=3, drain_seconds=1.5, log_json=True, log_level="debug")
    for name, value in child_environment(settings, "postgresql://x/y").items():
        monkeypatch.setenv(name, value)
    read = read_settings()
    assert (read.nodes, read.drain_seconds, read.log_json, read.log_level) == (3, 1.5, True, "debug")
    assert read.dsn == "postgresql://x/y"


# --- the file, and where a value came from ---------------------------------------------------------------------------


def written(folder: Path, text: str, name: str = "callboard.toml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_a_flag_comes_before_a_variable_before_the_file_before_the_default_and_each_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (read_settings().nodes, read_settings().origin("nodes")) == (2, "default")
    written(tmp_path, "[daemon]\nnodes = 3\ndrain_seconds = 7\n[log]\njson = true\n")
    settings = read_settings()
    assert (settings.nodes, settings.drain_seconds, settings.log_json) == (3, 7.0, True)
    assert settings.origin("nodes") == "callboard.toml: daemon.nodes"
    assert settings.origin("log_json") == "callboard.toml: log.json"
    monkeypatch.setenv("CALLBOARD_NODES", "5")
    assert (read_settings().nodes, read_settings().origin("nodes")) == (5, "CALLBOARD_NODES")
    assert (read_settings(nodes=7).nodes, read_settings(nodes=7).origin("nodes")) == (7, "--nodes")
    assert read_settings(nodes=7).origin("drain_seconds") == "callboard.toml: daemon.drain_seconds"


def test_a_file_elsewhere_can_be_named_and_must_be_there_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALLBOARD_CONFIG", str(written(tmp_path, "[daemon]\nnodes = 4\n", "other.toml")))
    assert read_settings().nodes == 4
    assert read_settings().origin("nodes").endswith("other.toml: daemon.nodes")
    monkeypatch.setenv("CALLBOARD_CONFIG", str(tmp_path / "gone.toml"))
    with pytest.raises(SettingError, match=r"gone\.toml: there is no such file"):
        read_settings()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[daemon]\nnode = 3", r"callboard\.toml: daemon\.node: there is no such setting; did you mean daemon\.nodes"),
        ("[deamon]\nnodes = 3", r"deamon: there is no such table; did you mean daemon"),
        ("[daemon]\nnodes = '3 of them'", r"callboard\.toml: daemon\.nodes: expected a whole number"),
        ("[daemon]\nnodes = true", r"callboard\.toml: daemon\.nodes: expected a whole number"),
        ("[log]\njson = 1", r"callboard\.toml: log\.json: expected true or false"),
        ("[daemon]\nname = 5", r"callboard\.toml: daemon\.name: expected a name"),
        ("[daemon]\nhealth = '9464'", r"callboard\.toml: daemon\.health: expected HOST:PORT"),
        ("daemon = 3", r"daemon: expected a table"),
        ("[daemon\n", r"callboard\.toml: is not TOML"),
    ],
)
def test_a_mistake_in_the_file_names_the_file_the_key_and_what_was_probably_meant(
    text: str, said: str, tmp_path: Path
) -> None:
    written(tmp_path, text)
    with pytest.raises(SettingError, match=said):
        read_settings()


def test_an_unknown_variable_with_our_prefix_is_an_error_with_a_suggestion(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALLBOARD_DRAIN_SECOND", "3")
    with pytest.raises(SettingError, match=r"^CALLBOARD_DRAIN_SECOND: .*did you mean CALLBOARD_DRAIN_SECONDS\?"):
        read_settings()
    monkeypatch.delenv("CALLBOARD_DRAIN_SECOND")
    monkeypatch.setenv("CALLBOARD_CACHE", "/tmp")
    read_settings()


def test_an_unknown_flag_is_an_error_with_a_suggestion() -> None:
    with pytest.raises(SettingError, match="did you mean nodes"):
        read_settings(nods=3)


def test_every_setting_can_be_written_in_every_place() -> None:
    assert set(FILE_KEYS) == set(Settings.__struct_fields__) - {"principal", "origins"} == set(_EXPECTED)
    assert {key.partition(".")[0] for key in FILE_KEYS.values()} == set(SETTING_TABLES)


@pytest.mark.parametrize("place", ["CALLBOARD_DSN_FILE", "CREDENTIALS_DIRECTORY", "file"])
def test_a_dsn_may_come_from_a_file_so_that_no_environment_holds_it(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://other/db") if place != "file" else None
    path = written(tmp_path, "postgresql://u:secret@h/db\n", "dsn")
    if place == "file":
        written(tmp_path, f"[database]\ndsn_file = '{path}'\n")
    else:
        monkeypatch.setenv(place, str(path if place == "CALLBOARD_DSN_FILE" else tmp_path))
    settings = read_settings()
    assert settings.dsn == "postgresql://u:secret@h/db"
    assert settings.origin("dsn") == (place if place != "file" else "callboard.toml: database.dsn_file")
    monkeypatch.setenv("NOTIFY_SOCKET", "/run/the/daemons/own")
    told = child_environment(settings, settings.dsn)
    assert "NOTIFY_SOCKET" not in told
    assert told["CALLBOARD_DSN"] == settings.dsn and "CALLBOARD_DSN_FILE" not in told


@pytest.mark.parametrize("text", ["", "  \n", "hunter2", "x" * 5000])
def test_a_file_that_holds_no_dsn_is_refused_and_never_shown(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CALLBOARD_DSN_FILE", str(written(tmp_path, text, "dsn")))
    with pytest.raises(SettingError, match="CALLBOARD_DSN_FILE") as caught:
        read_settings()
    assert "hunter2" not in str(caught.value)


def test_a_file_with_a_dsn_is_not_read_where_a_dsn_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path, "[database]\ndsn_file = '/gone'\n")
    with pytest.raises(SettingError, match=r"database\.dsn_file: /gone cannot be read"):
        read_settings()
    monkeypatch.setenv("CALLBOARD_DSN_FILE", "/gone/too")
    assert read_settings(dsn="postgresql://a/b").dsn == "postgresql://a/b"


@pytest.mark.parametrize(
    ("text", "address"),
    [("127.0.0.1:9464", ("127.0.0.1", 9464)), ("[::1]:0", ("::1", 0)), ("localhost:1", ("localhost", 1))],
)
def test_an_address_to_listen_on_is_host_and_port(text: str, address: tuple[str, int]) -> None:
    assert listen_address(text, "--health") == address


@pytest.mark.parametrize("text", ["9464", ":9464", "host:", "host:port", "host:70000", "::1:80", "host:-1", "host:٣"])
def test_anything_else_is_no_address(text: str) -> None:
    with pytest.raises(SettingError, match=r"^--health: expected HOST:PORT"):
        read_settings(health=text)


SECRET = "postgresql://u:SECRET@h/d"


@pytest.mark.parametrize(
    "text",
    [
        f'database = "{SECRET}"',
        f'database = ["{SECRET}"]',
        f'[database]\ndsn_file = "{SECRET}"',
        f'[database]\ndsn = "host=h"\ndsn_file = "{SECRET}"',
        '[database]\ndsn = "postgresql://u:SE@CRET@h/d"',
    ],
)
def test_a_dsn_in_a_wrong_place_is_refused_and_never_shown(text: str) -> None:
    Path("callboard.toml").write_text(text)
    with pytest.raises(SettingError, match=r"^callboard\.toml: database") as error:
        read_settings()
    assert "CRET" not in str(error.value)


@pytest.mark.parametrize(
    "text",
    [
        '[database]\ndsn_file = "a\\u0000b"',
        '[database]\nhome = "a\\u0000b"',
        '[daemon]\nname = "a\\u0000b"',
        '[daemon]\nname = "a\\u200bb"',
        '[daemon]\nhealth = "127.0.0.1\\n:80"',
    ],
)
def test_what_nobody_can_see_is_in_no_setting(text: str) -> None:
    Path("callboard.toml").write_text(text)
    with pytest.raises(SettingError, match=r"^callboard\.toml: d"):
        read_settings()


def test_a_name_that_is_no_text_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALLBOARD_NAME", os.fsdecode(b"\xff"))
    with pytest.raises(SettingError, match="CALLBOARD_NAME"):
        read_settings()


def test_files_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    (tmp_path / "dsn").write_text("\ufeffpostgresql://a/b\n")
    Path("callboard.toml").write_text(f'\ufeff[database]\ndsn_file = "{tmp_path}/dsn"')
    assert read_settings().dsn == "postgresql://a/b"
