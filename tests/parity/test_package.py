"""What an installation is like: quiet, and at home on the oldest Python that it names (DA-010, W-42)."""

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("mailbox", "persistence", "actors", "crm", "evals", "service", "tui", ".src/callboard")

PROGRAM = """
import asyncio, logging
from callboard import InMemoryStore, LLMResponse, Runtime, ScriptedLLM
import callboard.actors.node, callboard.persistence.postgres, callboard.service.cli

run = asyncio.run(Runtime(InMemoryStore(), ScriptedLLM([Exception("x"), LLMResponse("ok")]),
                          retry_base_delay_seconds=0.0).start("go"))
known = {name: logger for name, logger in logging.root.manager.loggerDict.items() if name.startswith("callboard")}
own = [name for name, logger in known.items() if isinstance(logger, logging.Logger)]
assert "callboard.actors.node" in own, own
assert not logging.root.handlers
print([name for name in own if logging.getLogger(name).handlers], run.state.status)
"""


def test_da010_the_library_logs_by_the_names_of_its_modules_and_attaches_no_handler() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False, timeout=200)
    assert (done.returncode, done.stdout) == (0, "[] completed\n"), done.stderr


def test_w42_all_code_is_python_3_11() -> None:
    """The newest syntax that the oldest named Python reads, whatever Python these tests run on."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["requires-python"] == ">=3.11"
    files = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
    assert len(files) > 200
    for path in files:
        ast.parse(path.read_text(), str(path), feature_version=(3, 11))
