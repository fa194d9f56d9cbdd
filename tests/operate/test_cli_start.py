"""What most commands do not need, they do not load: runs' inside is a third of what starting one costs."""

import json
import subprocess
import sys

import pytest

from tests.service.conftest import ROOT, environment

_LOADED = """
import json, sys
from callboard.service.cli import main
try:
    main(sys.argv[1:])
except SystemExit:
    pass
print(json.dumps(sorted(sys.modules)), file=sys.stderr)
"""


@pytest.mark.parametrize("command", ["runs", "approvals", "actors", "mailbox"])
def test_a_list_loads_nothing_of_what_runs_are_made_of(command: str, shared: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _LOADED, command, "--json"],
        env=environment(shared) | {"PYTHONPATH": f"{ROOT / '.src'}:{ROOT}"}, cwd=ROOT,
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert json.loads(done.stdout)["schema"] == {"mailbox": "callboard.mailboxes/1"}.get(
        command, f"callboard.{command}/1"
    )
    loaded = set(json.loads(done.stderr.splitlines()[-1]))
    heavy = ("agent.run", "agent.runs", "agent.events", "guard.patterns", "supervisor", "schemas")
    assert not {f"callboard.actors.{name}" for name in heavy} & loaded
