"""`callboard doctor`: what is broken is found, said with what to do, and is exit 1; nothing secret is shown."""

import io
import sys
import uuid
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio
import msgspec
import psycopg
import pytest
from psycopg import sql

from callboard.persistence.postgres import probe
from callboard.persistence.postgres.probe import Database, Nodes, Rights, Server, look_at
from callboard.service.cli import checks
from callboard.service.cli.checks import Finding, facts_of, machine_findings
from callboard.service.settings import Settings
from tests.service.conftest import Cli, execute

WELL = Database(
    server=Server("18.1", 180_001, "UTF8", "desk", "crm", False, True, 100, 5, True),
    clock_skew_seconds=0.01,
    answers_in_seconds=0.002,
    schema_version=4,
    schema_expected=4,
    rights=Rights(True, "desk", True, [], []),
    nodes=Nodes(2, 0, 0),
    notified_in_seconds=0.003,
    problems=[],
)


@pytest.fixture
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that stands still for a moment makes neither a notification lost nor a clock wrong."""
    monkeypatch.setattr(probe, "ROUND_TRIP_SECONDS", 60.0)
    monkeypatch.setattr(probe, "PROBE_SECONDS", 60.0)
    monkeypatch.setattr(checks, "SKEW_SECONDS", 60.0)


def finding(database: Database, check: str, *, embedded: bool = False) -> Finding:
    [found] = [one for one in facts_of(database, embedded=embedded) if one.check == check]
    return found


def changed(**changes: Any) -> Database:
    return msgspec.structs.replace(WELL, **changes)


def server(**changes: Any) -> Database:
    return changed(server=msgspec.structs.replace(WELL.server, **changes))


def test_a_database_that_is_well_has_nothing_to_be_done() -> None:
    assert {(one.status, one.next) for one in facts_of(WELL, embedded=False)} == {("ok", "")}


@pytest.mark.parametrize(
    ("database", "check", "status", "way_out"),
    [
        (server(number=130_009), "server", "bad", "PostgreSQL 14"),
        (server(encoding="LATIN1"), "encoding", "bad", "ENCODING 'UTF8'"),
        (server(read_only=True), "writable", "bad", "primary"),
        (server(durable=False), "durable", "warn", "fsync"),
        (server(connections=95), "connections", "warn", "max_connections"),
        (changed(schema_version=None, rights=None), "schema", "bad", "callboard init-db"),
        (changed(schema_version=3), "schema", "bad", "callboard init-db"),
        (changed(schema_version=5), "schema", "bad", "newer callboard"),
        (changed(rights=Rights(False, "owner", True, ["message"], [])), "rights", "bad", "grant"),
        (changed(rights=Rights(False, "owner", False, [], [])), "rights", "bad", "grant"),
        (changed(rights=Rights(False, "owner", True, [], ["audit"])), "rights", "warn", "looking"),
        (changed(notified_in_seconds=None), "notify", "bad", "pooler"),
        (changed(clock_skew_seconds=-7.0), "clock", "warn", "NTP"),
        (changed(nodes=Nodes(0, 1, 256)), "nodes", "warn", "callboard daemon"),
        (changed(nodes=Nodes(1, 0, 3)), "nodes", "warn", "callboard status"),
        (changed(problems=["permission denied"]), "looking", "warn", "role"),
    ],
)
def test_what_is_not_well_is_said_with_what_to_do(database: Database, check: str, status: str, way_out: str) -> None:
    found = finding(database, check)
    assert found.status == status and way_out in found.next


def test_an_embedded_database_without_tables_is_only_warned_of() -> None:
    assert finding(changed(schema_version=None, rights=None), "schema", embedded=True).status == "warn"


@pytest.mark.usefixtures("unhurried")
def test_a_healthy_database_is_exit_0_and_found_out_for_real(cli: Cli, database: str) -> None:
    said = cli("doctor", "--json", dsn=database)
    assert said.code == 0, said.out
    found = {one["check"]: one for one in said.document["checks"]}
    assert said.document["schema"] == "callboard.doctor/1" and said.document["ok"] is True
    for check in ("dsn", "server", "encoding", "schema", "rights", "notify", "clock", "connections"):
        assert found[check]["status"] == "ok", found[check]
    assert "from CALLBOARD_DSN" in found["dsn"]["text"] and "owns the schema" in found["rights"]["text"]
    assert "round trip" in found["notify"]["text"] and "none alive" in found["nodes"]["text"]


def test_a_database_without_tables_is_exit_1_and_says_what_to_run(cli: Cli, dsn: str) -> None:
    said = cli("doctor", dsn=dsn)
    assert said.code == 1 and "✗ schema" in said.out and "callboard init-db" in said.out


def test_a_schema_of_another_age_is_exit_1(cli: Cli, database: str) -> None:
    execute(database, "DELETE FROM callboard.schema_version")
    execute(database, "INSERT INTO callboard.schema_version VALUES (999, now())")
    said = cli("doctor", dsn=database)
    assert said.code == 1 and "version 999" in said.out and "newer callboard" in said.out


def test_a_server_that_is_not_there_is_exit_1_and_its_password_is_not_shown(cli: Cli) -> None:
    said = cli("doctor", dsn="postgresql://someone:hunter2@127.0.0.1:1/none")
    assert said.code == 1 and "✗ database" in said.out and "127.0.0.1" in said.out
    assert "hunter2" not in said.out + said.err


def test_a_dsn_that_is_none_is_said_like_everywhere(cli: Cli) -> None:
    said = cli("doctor", dsn="nonsense")
    assert said.code == 2 and "postgresql://user:password@host" in said.one_line()


@pytest.fixture
def poor_role(database: str) -> Iterator[str]:
    """The DSN of a role that may connect, and nothing else."""
    role = f"poor_{uuid.uuid4().hex[:8]}"
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(sql.SQL("create role {} login").format(sql.Identifier(role)))
        yield urlsplit(database)._replace(netloc=f"{role}@").geturl()
        connection.execute(sql.SQL("drop owned by {}").format(sql.Identifier(role)))
        connection.execute(sql.SQL("drop role {}").format(sql.Identifier(role)))


@pytest.mark.usefixtures("unhurried")
def test_a_role_without_rights_is_exit_1_and_says_what_to_grant(cli: Cli, poor_role: str) -> None:
    said = cli("doctor", "--json", dsn=poor_role)
    found = {one["check"]: one for one in said.document["checks"]}
    assert said.code == 1 and found["rights"]["status"] == "bad" and "grant" in found["rights"]["next"]
    assert found["notify"]["status"] == "ok", "anybody may notify"


def test_a_role_that_only_reads_is_warned_of(cli: Cli, poor_role: str, database: str) -> None:
    role = urlsplit(poor_role).username
    execute(database, f"GRANT USAGE ON SCHEMA callboard TO {role}")
    execute(database, f"GRANT SELECT ON ALL TABLES IN SCHEMA callboard TO {role}")
    found = {one["check"]: one for one in cli("doctor", "--json", dsn=poor_role).document["checks"]}
    assert found["rights"]["status"] == "warn" and "not write" in found["rights"]["text"]
    assert found["schema"]["status"] == "ok"


def test_looking_changes_nothing_and_notices_the_skew_of_the_clocks(database: str) -> None:
    found = anyio.run(look_at, database, lambda: 0.0)
    assert found.clock_skew_seconds > 1_700_000_000, "the clock that was given was at the beginning of 1970"
    with psycopg.connect(database) as connection:
        assert connection.execute("SELECT count(*) FROM callboard.audit").fetchone() == (0,)


def test_keys_are_named_and_never_shown(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLM_API_KEY", "sk-very-secret")
    said = cli("doctor", "--offline")
    assert said.code == 0 and "LLM_API_KEY" in said.out and "very-secret" not in said.out + said.err


def test_without_a_key_it_is_said_what_to_set() -> None:
    [found] = [one for one in machine_findings(Settings(dsn="x"), {}) if one.check == "models"]
    assert found.status == "warn" and "LLM_API_KEY" in found.next


def test_a_full_disk_of_the_embedded_server_is_bad(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import shutil

    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(100, 99, 1))
    found = [one for one in machine_findings(Settings(home=str(tmp_path))) if one.check == "disk"]
    assert [one.status for one in found] == ["bad"] and "CALLBOARD_HOME" in found[0].next
    assert not [one for one in machine_findings(Settings(dsn="x")) if one.check == "disk"], "it has no server here"


def test_offline_asks_no_database(cli: Cli) -> None:
    said = cli("doctor", "--offline", dsn="postgresql://127.0.0.1:1/none")
    assert said.code == 0 and "database" not in said.out


def test_a_terminal_without_unicode_gets_words_for_glyphs(monkeypatch: pytest.MonkeyPatch) -> None:
    from callboard.service.cli.app import run_command

    monkeypatch.delenv("LLM_API_KEY", raising=False)
    plain = io.TextIOWrapper(io.BytesIO(), encoding="ascii", errors="backslashreplace")
    with redirect_stdout(plain):
        assert run_command(["doctor", "--offline"]) == 0
    plain.flush()
    said = plain.buffer.getvalue().decode("ascii")
    assert said.startswith("ok callboard") and "\\u" not in said and "!! models" in said and "-> set" in said


def test_a_small_terminal_is_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    import os
    import shutil

    monkeypatch.setattr(shutil, "get_terminal_size", lambda *_, **__: os.terminal_size((60, 15)))
    with redirect_stdout(_Terminal()):
        [found] = [one for one in machine_findings(Settings(dsn="x"), {"TERM": "xterm"}) if one.check == "terminal"]
    assert found.status == "warn" and "60x15" in found.text and "80x24" in found.next


class _Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def test_python_and_callboard_are_named(cli: Cli) -> None:
    said = cli("doctor", "--offline").out
    assert f"Python {sys.version_info.major}.{sys.version_info.minor}" in said
