"""The examples of the README and of the guide for actors run as they stand."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"

TICKETS = """
import anyio
from callboard.actors.testing import TestKit

async def main() -> None:
    async with TestKit(TREE) as kit:
        for key, cents in ((1, 100), (2, 9_900)):
            await kit.send(f"/shop/ticket:{key}", Opened(cents))
            await kit.advance(seconds=2)
            row = await kit.row(f"/shop/ticket:{key}")
            print((await kit.state(f"/shop/ticket:{key}", TicketState)).outcome, row.status)

anyio.run(main)
"""


def test_the_example_of_the_readme_runs_and_prints_what_it_says(tmp_path: Path) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    example = tmp_path / "example.py"
    example.write_text(code, encoding="utf-8")
    done = subprocess.run([sys.executable, str(example)], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "awaiting_approval {'order_id': 'A-8891', 'amount': 6400}",
        "Refund RF-A-8891 processed.",
    ]


def test_the_example_of_the_guide_for_actors_runs(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "ACTORS.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    example = tmp_path / "example.py"
    example.write_text(code + TICKETS, encoding="utf-8")
    done = subprocess.run([sys.executable, str(example)], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["yes completed", "no completed"]
