"""MCP tools in an application: real node processes, each with a session of its own, opened and left in time."""

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

pytest.importorskip("mcp")

from tests.service.conftest import Cli, cli, database, environment, shared, until
from tests.service.test_daemon import is_alive, service
from tests.test_examples import EXAMPLES

__all__ = ["cli", "database", "shared"]  # fixtures

HEAD = """
import os, sys
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
from callboard import App, FunctionLLM, agent_tree
from callboard.actors.adapters.mcp import mcp_tools

HERE = Path(__file__).parent


def note(line):
    with (HERE / "notes").open("a") as file:
        file.write(line + "\\n")

"""
STUBBORN = """
import signal, sys
from pathlib import Path
signal.signal(signal.SIGTERM, signal.SIG_IGN)
(Path(__file__).parent / "server").write_text(str(__import__("os").getpid()))
while True:
    sys.stdin.readline()
    signal.sigtimedwait([], 0.05)
"""


def application(folder: Path, opening: str) -> Path:
    """A module `made` in `folder` whose application opens like that; what it notes."""
    body = textwrap.indent(textwrap.dedent(opening), "    ")
    text = f"{HEAD}@asynccontextmanager\nasync def open_it(surroundings):\n{body}\n"
    (folder / "made.py").write_text(text + "app = App('made', open_it, runs='/made/run')\n")
    (folder / "stubborn.py").write_text(STUBBORN)
    return folder / "notes"


def ran(folder: Path, *arguments: str, dsn: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "callboard", *arguments]
    return subprocess.run(
        command, cwd=folder, env=environment(dsn), capture_output=True, text=True, timeout=250, check=False
    )


def children(pid: int) -> list[int]:
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(child) for child in found.split()]


def status(cli: Cli, dsn: str) -> str:
    said = cli("show", "r1", "--json", dsn=dsn)
    assert said.code in (0, 75), said.err  # 75: a machine so busy that the database took seconds to let it in
    return str(said.document["status"]) if said.out else ""


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="looks at processes in /proc")
def test_a_daemon_serves_mcp_tools_each_node_over_a_session_of_its_own_until_it_drains(cli: Cli, database: str) -> None:
    app = "docs.examples.mcp_desk:app"
    with service("daemon", app, "--nodes", "2", "--json", dsn=database) as daemon:
        nodes = [daemon.event("ready")["pid"] for _ in range(2)]
        servers = {node: children(node) for node in nodes}
        assert all(len(found) == 1 for found in servers.values())
        assert cli("submit", app, "Reserve 2 lamps.", "--id", "r1", dsn=database).code == 0
        until(lambda: status(cli, database) == "awaiting_approval", "it waits")
        assert cli("approve", "r1", dsn=database).code == 0
        until(lambda: status(cli, database) == "completed", "it completes")
        replayed = cli("replay", "r1", dsn=database).out
        assert '"in_stock":3' in replayed.replace(" ", "")
        assert '"reserved":"2lamp"' in replayed.replace(" ", "")
        assert daemon.end() == 0
    everybody = [*nodes, *(server for found in servers.values() for server in found)]
    until(lambda: not any(is_alive(pid) for pid in everybody), "the servers end with their nodes")


def test_the_example_runs_from_its_folder(database: str) -> None:
    done = ran(EXAMPLES, "run", "mcp_desk:app", "Reserve 2 lamps.", dsn=database)
    assert done.returncode == 0, done.stderr
    assert "stock_reserve" in done.stdout


SERVERS = {
    "no such program": ("command=['/no/such/server', '--key', 'SECRET']", ("FileNotFoundError", "/no/such/server")),
    "a program that ends": ("command=[sys.executable, '-c', 'exit(3)']", ("starts in a shell",)),
    "nobody listens": ("url='http://u:SECRET@127.0.0.1:9/mcp?key=SECRET'", ("127.0.0.1:9/mcp", "listens")),
}


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("command", ["run", "node"])
def test_a_server_that_cannot_be_reached_is_one_line_with_application_server_and_way_out(
    command: str, server: str, database: str, tmp_path: Path
) -> None:
    arguments, parts = SERVERS[server]
    application(tmp_path, f"async with mcp_tools({arguments}, connect_seconds=60) as tools:\n    yield None")
    done = ran(tmp_path, command, "made:app", *(["goal"] if command == "run" else []), dsn=database)
    assert done.returncode == 1
    [line] = [line for line in done.stderr.splitlines() if line.startswith("callboard: ")]
    for part in ("'made'", "did not open", "made.py:", *parts):
        assert part in line
    assert "SECRET" not in done.stderr and "Traceback" not in done.stderr


def test_a_name_that_the_server_does_not_have_is_a_usage_error(database: str, tmp_path: Path) -> None:
    server = f"command=[sys.executable, {str(EXAMPLES / 'mcp_stock_server.py')!r}], only=['cuont']"
    application(tmp_path, f"async with mcp_tools({server}, connect_seconds=100) as tools:\n    yield None")
    done = ran(tmp_path, "run", "made:app", "goal", dsn=database)
    assert done.returncode == 2
    assert "no tools ['cuont']; it has: count, reserve" in done.stderr


def test_an_application_that_never_opens_is_given_up(
    cli: Cli, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes = application(
        tmp_path,
        """
        async with anyio.create_task_group() as group:
            try:
                await anyio.sleep_forever()
            finally:
                note("left")
        yield None
        """,
    )
    monkeypatch.setattr("callboard.service.applications.OPEN_SECONDS", 0.3)
    monkeypatch.chdir(tmp_path)
    said = cli("run", "made:app", "goal", dsn=database)
    assert said.code == 1
    assert "application 'made' did not open within 0.3 s" in said.one_line()
    assert notes.read_text() == "left\n"
    sys.modules.pop("made")


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGINT])
def test_sigterm_while_it_opens_ends_what_it_has_started(sign: signal.Signals, database: str, tmp_path: Path) -> None:
    application(
        tmp_path,
        """
        async with mcp_tools(command=[sys.executable, str(HERE / "stubborn.py")], connect_seconds=60) as tools:
            yield None
        """,
    )
    with service("node", "made:app", dsn=database, PYTHONPATH=str(tmp_path)) as node:
        server = int(until(lambda: (tmp_path / "server").exists() and (tmp_path / "server").read_text(), "it starts"))
        assert node.end(sign) == 0
    until(lambda: not is_alive(server), "its server ends")


SERVES = """
try:
    yield agent_tree("made", FunctionLLM(lambda messages, tools, prompt: "yes"), [])
finally:
    {leaving}
"""


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGINT])
def test_a_run_followed_here_leaves_its_application_when_it_is_ended(
    sign: signal.Signals, database: str, tmp_path: Path
) -> None:
    opening = """
        async def slow(messages, tools, prompt):
            note("asked")
            await anyio.sleep_forever()
        try:
            yield agent_tree("made", FunctionLLM(slow), [])
        finally:
            await anyio.sleep(0.01)
            note("left")
        """
    notes = application(tmp_path, opening)
    with service("run", "made:app", "goal", dsn=database, PYTHONPATH=str(tmp_path)) as run:
        until(lambda: notes.exists() and "asked" in notes.read_text(), "the model is asked")
        assert run.end(sign) == 130
    assert notes.read_text() == "asked\nleft\n"


def test_an_application_that_never_closes_does_not_keep_a_drained_node(database: str, tmp_path: Path) -> None:
    application(tmp_path, SERVES.format(leaving="note('leaving'); await anyio.sleep_forever()"))
    start = (
        "import sys, callboard.service.applications as a; a.CLOSE_SECONDS = 0.3;"
        "from callboard.service.cli import main; sys.argv = ['callboard', 'node', 'made:app']; sys.exit(main())"
    )
    environ = {**environment(database), "PYTHONPATH": f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    node = subprocess.Popen(
        [sys.executable, "-c", start], env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert node.stdout is not None and '"ready"' in node.stdout.readline()
        node.send_signal(signal.SIGTERM)
        _, said = node.communicate(timeout=90)
    finally:
        node.kill()
    assert node.returncode == 0
    assert "application 'made' did not close within 0.3 s" in said
