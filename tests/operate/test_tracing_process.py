"""Tracing of real processes: asked for as in every OpenTelemetry program, sent to a collector, and never in the way."""

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from callboard.actors.agent.messages import StartRun
from callboard.actors.agent.runs import Runs
from callboard.actors.tracing import AMBIENT, OFF
from callboard.persistence.port import RealPort
from callboard.persistence.rows import Verdict
from callboard.service import telemetry
from callboard.service.telemetry import traced, wanted
from tests.operate.tracer import Collector
from tests.service.desk_app import app
from tests.stand import ROOT, Stand

APP = "tests.service.desk_app:app"
SECRET = "Zoe-4711"
NODE = (
    "import sys, callboard.service.telemetry as telemetry\n"
    "from callboard.service.cli import main\n"
    "telemetry.FLUSH_SECONDS = 60.0\n"
    f"sys.argv = ['callboard', 'node', {APP!r}]\n"
    "sys.exit(main())"
)
"""`callboard node`, which waits longer than usual for a collector that shares a busy machine with it."""


@pytest.mark.parametrize(
    ("environ", "where"),
    [
        ({}, ""),
        ({"OTEL_SERVICE_NAME": "x"}, ""),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, "otlp"),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c:4318/v1/traces"}, "otlp"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": ""}, ""),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, "otlp"),
        ({"OTEL_TRACES_EXPORTER": " Console "}, "console"),
        ({"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, ""),
        ({"OTEL_TRACES_EXPORTER": "zipkin", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, ""),
        ({"OTEL_SDK_DISABLED": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, ""),
    ],
)
def test_tracing_is_on_where_the_usual_variables_ask_for_it(environ: Mapping[str, str], where: str) -> None:
    assert wanted(environ) == where


def test_an_exporter_that_nobody_knows_is_said_and_not_guessed(caplog: pytest.LogCaptureFixture) -> None:
    assert wanted({"OTEL_TRACES_EXPORTER": "zipkin"}) == ""
    assert "expected otlp, console or none, got 'zipkin'" in caplog.text


@pytest.mark.anyio
async def test_asked_for_and_not_installed_is_one_clear_line_and_no_tracing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name in [name for name in sys.modules if name.startswith("callboard.service.telemetry.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    async with traced("n", RealPort(), {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}) as tracing:
        assert tracing is OFF
    assert "pip install 'callboard[otel]'" in caplog.text and len(caplog.records) == 1


@pytest.mark.anyio
async def test_a_wrong_variable_of_the_library_stops_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "many")
    async with traced("n", RealPort(), {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}) as tracing:
        assert tracing is OFF
    assert "cannot begin: ValueError" in caplog.text


@pytest.mark.anyio
async def test_a_collector_that_does_not_answer_is_waited_for_a_moment_only(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from opentelemetry import trace  # noqa: F401 - so that its import is not in the time below

    others = set(threading.enumerate())
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{silent.getsockname()[1]}")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "200")
        monkeypatch.setattr(telemetry, "FLUSH_SECONDS", 0.3)
        async with traced("n", RealPort()) as tracing:
            assert tracing.on
            from callboard.mailbox.envelope import Envelope

            tracing.turn(Envelope(1, 1, "/t/a", "", 2, "t", 1, "{}"), 1).end("done")
            ends = time.monotonic()
        assert time.monotonic() - ends < 60, "the exporter's own time-out is 200 s"
        # It would try again and again beside the tests that come next, and say so in their logs.
        with silent.accept()[0] as answering:
            answering.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
            for thread in set(threading.enumerate()) - others:
                thread.join(60)
    assert "the last spans could not be sent within 0.3 s" in caplog.text
    assert AMBIENT.traceparent() == ""


def test_a_node_that_is_not_traced_imports_nothing_of_it() -> None:
    code = (
        "import sys, callboard.service.node_process, callboard.service.run_here, callboard.actors.traced\n"
        "print(sorted(name for name in sys.modules if name.startswith('opentelemetry')))"
    )
    said = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "[]"


def test_a_run_without_the_library_completes_and_says_what_is_missing(made: str, tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['opentelemetry'] = None\n"
        "from callboard.service.cli import main\n"
        f"sys.argv = ['callboard', 'run', {APP!r}, 'hello', '--json']\n"
        "sys.exit(main())"
    )
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("CALLBOARD_", "OTEL_"))}
    env = {**kept, "CALLBOARD_DSN": made, "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}
    command = [sys.executable, "-c", code]
    said = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert said.returncode == 0, said.stderr
    assert '"completed"' in said.stdout and "pip install 'callboard[otel]'" in said.stderr


@pytest.mark.anyio
async def test_one_tree_over_two_node_processes_and_a_decision_between_them(made: str, tmp_path: Path) -> None:
    with Collector.open() as collector:
        async with Stand.open(made, tmp_path) as stand:
            told = {
                "CALLBOARD_DSN": made,
                "OTEL_EXPORTER_OTLP_ENDPOINT": collector.endpoint,
                "OTEL_SERVICE_NAME": "support desk",
                "OTEL_BSP_SCHEDULE_DELAY": "200",
                "OTEL_EXPORTER_OTLP_TIMEOUT": "60",
                "CALLBOARD_DRAIN_SECONDS": "60",
            }
            runs = Runs(stand.client, app.runs)

            async def serve_until(status: str) -> None:
                node = stand.process([sys.executable, "-c", NODE], **told)
                await stand.said(node)
                await stand.so(lambda: _is(runs, status))
                node.terminate()
                assert await stand.ended(node) == 0, stand.logs()

            await runs.create(StartRun("close 7", system_prompt=SECRET, requested_by=SECRET), "r1")
            await serve_until("awaiting_approval")
            (asked,) = await stand.store.decisions(run=runs.address("r1"))
            await stand.client.decide(Verdict(asked.id, "approved", asked.digest, "ann", f"note {SECRET}"))
            await serve_until("completed")
            assert "traced, to an OTLP endpoint" in stand.logs()
    spans = collector.spans()
    whole = spans.one("invoke_agent")
    run = spans.trace(whole)
    assert whole.parent == "" and all(span.parent in run.by_id for span in run.all if span is not whole)
    called = run.one("execute_tool close_ticket")
    first, second = whole.source, run.named("turn run.start")[0].source
    assert first != second and {span.source for span in run.all} == {first, second}, "a part is of either process"
    assert called.source == first and run.by_id[called.parent].source == second, "the parent is of the other process"
    assert run.parent(called) == "turn model.answered" and called.said["callboard.call.approved"] is True
    assert run.one("turn approval.release").links == (spans.one("turn approval.decided").trace,)
    assert [run.parent(span) for span in run.named("chat")] == ["turn run.start", "turn tool.answered"]
    assert first.startswith("support desk ") and whole.begins <= min(span.begins for span in run.all)
    for word in (SECRET, "close 7", "Be brief", "closed"):
        assert word.encode() not in collector.raw()


async def _is(runs: Runs, status: str) -> bool:
    return (await runs.state("r1")).status == status
