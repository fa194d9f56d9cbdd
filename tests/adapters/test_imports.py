"""The core knows no SDK: neither LangGraph nor MCP is loaded by anything but their own adapters."""

import subprocess
import sys

PROGRAM = """
import sys
from callboard import Loop, LoopRuntime, Runtime, durable_loop
import callboard.service.cli, callboard.service.daemon, callboard.crm.app
print(sorted({name.partition(".")[0] for name in sys.modules} & {"langgraph", "langchain_core", "mcp"}))
"""


def test_af07_runtime_daemon_and_the_vanilla_loop_import_no_sdk() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=250, check=True)
    assert done.stdout.strip() == "[]"
