"""The metrics and the health of a real daemon, over HTTP: what its processes count, and what a kill -9 shows."""

import os
import signal
import urllib.request
from collections.abc import Callable
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from callboard.service.metric_names import FAMILIES
from tests.service.conftest import APP, Cli, until
from tests.service.test_daemon import service

Samples = dict[tuple[str, tuple[str, ...]], float]


def scrape(url: str) -> Samples:
    with urllib.request.urlopen(f"{url}/metrics", timeout=60) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        text = answer.read().decode()
    families = list(text_string_to_metric_families(text))
    assert {family.name for family in families} <= {f"callboard_{name.removesuffix('_total')}" for name in FAMILIES}
    return {
        (sample.name.removeprefix("callboard_"), tuple(sample.labels.values())): sample.value
        for family in families
        for sample in family.samples
    }


def test_a_scraped_daemon_tells_what_its_nodes_did_and_what_waits_and_a_kill_shows(
    cli: Cli, database: str, tmp_path: Path
) -> None:
    options = (
        "--nodes",
        "2",
        "--option",
        f"folder={tmp_path}",
        "--health",
        "127.0.0.1:0",
        "--drain-seconds",
        "60",
        "--json",
    )
    with service("daemon", APP, *options, dsn=database) as daemon:
        url = daemon.event("health")["url"]
        pids = {event["place"]: event["pid"] for event in (daemon.event("ready"), daemon.event("ready"))}

        def shows(condition: Callable[[Samples], bool], what: str) -> Samples:
            found: Samples = {}

            def look() -> bool:
                found.clear()
                found.update(scrape(url))
                return condition(found)

            until(look, what)
            return found

        assert cli("submit", APP, "say hello", "--id", "r1", dsn=database).code == 0
        assert cli("submit", APP, "refund 129.00", "--id", "r2", dsn=database).code == 0
        found = shows(
            lambda samples: (
                samples.get(("approvals_pending", ())) == 1.0
                and samples.get(("budget_spent_ratio_count", ())) == 1.0
                and samples.get(("model_calls_total", ("unnamed",))) == 2.0
                and samples.get(("node_processes", ())) == 2.0
                and samples.get(("nodes", ("up",))) == 2.0
                and samples.get(("actors", ("run", "completed"))) == 1.0
                and samples.get(("shards_without_owner", ())) == 0.0
                and samples.get(("mailbox_messages", ("held",))) == 1.0
                and samples.get(("messages_total", ("done",)), 0.0) > 4.0
                and samples.get(("handler_seconds_count", ("run",)), 0.0) >= 2.0
            ),
            "one run is completed and one waits",
        )
        assert found["up", ()] == found["database_up", ()] == 1.0
        assert found["dead_letters", ()] == 0.0
        assert not [labels for _, labels in found if any("/" in label for label in labels)]

        until(lambda: cli("health", "--url", f"{url}/readyz").code == 0, "it is ready")
        until(lambda: cli("status", dsn=database).code == 0, "it is healthy")
        assert "1 call(s) wait for a person" in cli("status", dsn=database).out

        before = found["messages_total", ("done",)]
        os.kill(pids[1], signal.SIGKILL)
        found = shows(
            lambda samples: (
                samples["node_process_restarts_total", ()] == 1.0
                and samples.get(("recovery_seconds_count", ()), 0.0) >= 1.0
                and samples["node_processes", ()] == 2.0
            ),
            "the other node took over, and a new one began",
        )
        assert found["messages_total", ("done",)] >= before, "counters do not fall when a process does"
        assert found["recovery_seconds_sum", ()] / found["recovery_seconds_count", ()] < 60.0, "it is seconds"
        found = shows(lambda samples: ("listener_lag_seconds", ()) in samples, "a wake-up came back")
        assert daemon.end() == 0
    assert cli("health", "--url", f"{url}/readyz").code == 1
    assert cli("status", dsn=database).code == 1  # nobody serves what waits
