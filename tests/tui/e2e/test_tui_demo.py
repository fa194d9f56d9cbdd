"""`callboard tui --demo`, as a newcomer runs it: alive in one command, gone with one key."""

import re
import sys
from pathlib import Path

from tests.service.conftest import environment, until

from .terminal import XTERM, terminal


def test_one_command_opens_the_ui_on_a_desk_at_work_which_ends_with_it(tmp_path: Path, server_dsn: str) -> None:
    env = {**environment(server_dsn), **XTERM, "TEXTUAL_ANIMATIONS": "none"}
    with terminal(sys.executable, "-m", "callboard", "tui", "--demo", environment=env) as seen:
        seen.until(lambda text: re.search(r"◆ [5-9]\d* to decide|◆ \d\d to decide", text), seconds=200)
        for word in ("NEEDS YOU", "DEAD", "ESCALATED", "RETRY", "PAUSED"):
            seen.until(word)
        house = children(seen.process.pid)
        assert house, "the desk is a process of its own"
        below = [pid for one in house for pid in children(one)]
        assert len(below) >= 2, "with a node process for each place"
        seen.press("q")
        assert seen.wait() == 0
        # Who ends last may still be a name in the table of processes, until somebody has taken note of it.
        until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in (*house, *below)), "nothing of it is left")
        assert seen.is_restored()
        said = seen.raw.decode(errors="replace")
        assert "has ended" in said and "--dsn" in said


def children(pid: int) -> list[int]:
    """The processes that a process has started."""
    return [int(one) for task in Path(f"/proc/{pid}/task").glob("*/children") for one in task.read_text().split()]
