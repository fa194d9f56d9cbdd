"""`callboard config`: what is in force, where it came from, and no password."""

from pathlib import Path

import pytest

from tests.service.conftest import Cli

DSN = "postgresql://ann:hunter2@h/db"


def test_config_says_each_setting_its_value_and_where_it_came_from(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "callboard.toml").write_text("[daemon]\nnodes = 3\n[budget]\nmax_iterations = 5\n")
    monkeypatch.setenv("CALLBOARD_LOG_JSON", "yes")
    said = cli("config", "show", "--json", dsn=DSN)
    assert said.document["schema"] == "callboard.config/1" and said.document["rules"] == ["budget"]
    found = {row["name"]: row for row in said.document["settings"]}
    assert (found["nodes"]["value"], found["nodes"]["origin"]) == (3, "callboard.toml: daemon.nodes")
    assert (found["log_json"]["value"], found["log_json"]["origin"]) == (True, "CALLBOARD_LOG_JSON")
    assert (found["beat_seconds"]["value"], found["beat_seconds"]["origin"]) == (0.25, "default")
    assert found["dsn"]["origin"] == "CALLBOARD_DSN" and "ann" in found["dsn"]["value"]
    lines = cli("config", "show", "--origin", dsn=DSN).out.splitlines()
    assert "daemon.nodes\t3\tcallboard.toml: daemon.nodes" in lines
    assert all("\t" in line for line in lines)
    assert "callboard.toml: daemon.nodes" not in cli("config", "show", dsn=DSN).out
    assert "callboard.toml: daemon.nodes" in cli("config", dsn=DSN).out


@pytest.mark.parametrize(
    "arguments", [("config",), ("config", "show"), ("config", "--json"), ("config", "show", "--json")]
)
def test_config_shows_no_password(cli: Cli, arguments: tuple[str, ...]) -> None:
    said = cli(*arguments, dsn=DSN)
    assert said.code == 0 and "hunter2" not in said.out + said.err


def test_a_setting_that_is_misspelled_is_an_error_of_every_command(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "callboard.toml").write_text("[daemon]\ndrain = 3\n")
    for command in (("config",), ("runs",)):
        said = cli(*command, dsn=DSN)
        assert said.code == 2 and "callboard.toml: daemon.drain" in said.one_line()
