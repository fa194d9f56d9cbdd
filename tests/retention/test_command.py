"""`callboard prune`, and the daemon's own retention, on PostgreSQL."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from callboard.persistence.port import RealPort
from callboard.persistence.postgres import PostgresStore, create_roles
from callboard.persistence.postgres.roles import RUNTIME
from callboard.service.retaining import INSTANCE, Retaining
from callboard.service.settings import read_settings
from tests.rights.logins import login
from tests.service.conftest import APP, Cli, execute, query

OLD = "40 days"
AGED = (
    f"update callboard.actor set created_at = created_at - interval '{OLD}', last_id = 1 where kind = 'run'",
    "alter table callboard.turn disable trigger append_only",
    "alter table callboard.journal disable trigger append_only",
    "alter table callboard.audit disable trigger append_only",
    f"update callboard.turn set at = at - interval '{OLD}'",
    f"update callboard.journal set at = at - interval '{OLD}'",
    f"update callboard.audit set at = at - interval '{OLD}'",
    f"update callboard.client_send set at = at - interval '{OLD}'",
)


@pytest.fixture
def aged(database: str, cli: Cli) -> str:
    """A database with a run that ended long ago."""
    assert cli("run", APP, "hello", "--id", "old", dsn=database).code == 0
    for statement in AGED:
        execute(database, statement)
    return database


def runs(dsn: str) -> list[str]:
    return [address for (address,) in query(dsn, "select address from callboard.actor where kind = 'run'")]


def test_it_removes_what_is_old_and_archives_it_first(aged: str, cli: Cli, tmp_path: Path) -> None:
    assert cli("run", APP, "hello", "--id", "new", dsn=aged).code == 0
    would = cli("prune", "--older-than", "30d", "--dry-run", "--json", dsn=aged).document
    assert would["schema"] == "callboard.pruned/1" and would["dry_run"] and would["complete"]
    assert {one["kind"]: one["items"] for one in would["kinds"]}["runs"] == 1
    assert len(runs(aged)) == 2 and query(aged, "select 1 from callboard.audit where action = 'prune'") == []

    file = tmp_path / "old.jsonl.gz"
    said = cli("prune", "--older-than", "30d", "--archive", str(file), "--yes", "--json", dsn=aged)
    assert said.code == 0
    done = {one["kind"]: one for one in said.document["kinds"]}
    assert done["runs"]["items"] == 1 and "audit" not in done
    assert [one.rpartition(":")[2] for one in runs(aged)] == ["new"]
    lines = [json.loads(line) for line in gzip.decompress(file.read_bytes()).splitlines()]
    assert len(lines) == said.document["archived"] and said.document["archive_bytes"] == file.stat().st_size
    [run] = [line for line in lines if line["schema"] == "callboard.archive.run/1"]
    assert run["kept"]["actors"][0]["address"].endswith(":old") and run["kept"]["journal"]
    rows = query(aged, "select who, channel, before, after from callboard.audit where action = 'prune' order by number")
    assert rows[0][1] == "cli" and rows[0][2].startswith("runs that ended before") and rows[0][3].startswith("1 runs")

    again = cli("prune", "--older-than", "30d", "--yes", dsn=aged)
    assert again.code == 0 and not again.out and "nothing that may go" in again.err
    assert cli("verify", "new", dsn=aged).code == 0
    assert cli("show", "old", dsn=aged).code == 3


def test_text_says_what_and_how_much(aged: str, cli: Cli) -> None:
    said = cli("prune", "--older-than", "30d", "--what", "runs", "--yes", dsn=aged)
    [line] = said.out.splitlines()
    assert line.startswith("runs\t1 gone\t") and line.endswith("kB")


@pytest.mark.parametrize(
    "arguments",
    [
        ("--older-than", "soon"), ("--older-than", "0d"), ("--older-than", "30d", "--what", "everything"),
        ("--older-than", "30d"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_and_nobody_is_asked_in_a_script(
    aged: str, cli: Cli, arguments: tuple[str, ...]
) -> None:
    assert cli("prune", *arguments, dsn=aged).code == 2
    assert len(runs(aged)) == 1


def test_a_file_that_is_there_is_refused_before_anything_goes(aged: str, cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "there"
    file.write_text("mine")
    said = cli("prune", "--older-than", "30d", "--archive", str(file), "--yes", dsn=aged)
    assert said.code == 2 and "give another name" in said.one_line()
    assert cli("prune", "--older-than", "30d", "--archive", str(tmp_path / "no" / "x"), "--yes", dsn=aged).code != 0
    assert file.read_text() == "mine" and len(runs(aged)) == 1


def test_the_runtime_role_prunes_all_but_the_trail(aged: str, cli: Cli) -> None:
    anyio.run(create_roles, aged)

    async def as_runtime(work: Callable[[str], None]) -> None:
        async with login(aged, RUNTIME) as dsn:
            await anyio.to_thread.run_sync(work, dsn)

    found: list[int] = []

    def work(dsn: str) -> None:
        found.append(cli("prune", "--older-than", "30d", "--yes", dsn=dsn).code)
        found.append(cli("prune", "--older-than", "30d", "--what", "audit", "--yes", dsn=dsn).code)

    anyio.run(as_runtime, work)
    assert found == [0, 1] and runs(aged) == []
    assert query(aged, "select 1 from callboard.audit where action = 'submit'") != []


def test_the_daemons_retention_works_one_at_a_time(aged: str) -> None:
    port = RealPort()

    async def two() -> None:
        one = Retaining(lambda: aged, 30.0, port, holder="one")
        async with PostgresStore(aged) as store, store.instance(INSTANCE, "another", port):
            assert await one.work(), "another one is at it"
            assert len(runs(aged)) == 1
        assert await one.work() and runs(aged) == []
        later = Retaining(lambda: "postgresql://127.0.0.1:1/none", 30.0, port, holder="two")
        assert await later.work(), "without a database it rests"

    anyio.run(two)
    [(channel,)] = query(aged, "select distinct channel from callboard.audit where action = 'prune'")
    assert channel == "daemon"


def test_the_daemons_retention_is_off_unless_it_is_asked_for_with_a_time_that_is_safe(cli: Cli, database: str) -> None:
    assert read_settings(dsn=database).retain_days == 0.0
    said = cli("daemon", APP, "--retain-days", "0.01", dsn=database)
    assert said.code == 2 and "--retain-days" in said.one_line()
