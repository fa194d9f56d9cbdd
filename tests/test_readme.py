"""The examples of the README and of the guides for actors and for runs run as they stand."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from callboard.service.configuration import read_configuration

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
    done = subprocess.run([sys.executable, str(example)], capture_output=True, text=True, timeout=250, check=False)
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
    done = subprocess.run([sys.executable, str(example)], capture_output=True, text=True, timeout=250, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["yes completed", "no completed"]


AGENTS = (
    ["completed It is on its way.", "8 True"],
    ["simple 12"],
    ["Read volume 2. 4", "On mailboxes, volume 2"],
    ['{"order_id":"#W1","positions":[],"wish":"refund_damaged"}'],
    ["Then green. Blue."],
)
"""What the examples of the guide for runs print, in their order."""


@pytest.mark.parametrize("nth", range(len(AGENTS)))
def test_the_examples_of_the_guide_for_runs_run_and_print_what_they_say(nth: int, tmp_path: Path) -> None:
    text = (ROOT / "docs" / "AGENTS.md").read_text(encoding="utf-8")
    codes = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(codes) == len(AGENTS)
    example = tmp_path / "example.py"
    example.write_text(codes[nth], encoding="utf-8")
    done = subprocess.run([sys.executable, str(example)], capture_output=True, text=True, timeout=250, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == AGENTS[nth]


def test_the_tool_of_the_guide_that_asks_by_itself_runs_and_prints_what_it_says(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "TOOLS.md").read_text(encoding="utf-8")
    (code,) = [one for one in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "anyio.run(" in one]
    example = tmp_path / "example.py"
    example.write_text(code, encoding="utf-8")
    done = subprocess.run([sys.executable, str(example)], capture_output=True, text=True, timeout=250, check=False)
    assert done.returncode == 0, done.stderr
    waits = "awaiting_approval 80 of A-8891 are refunded already"
    assert done.stdout.splitlines() == [waits, "completed {'A-8891': 120}"]


def test_the_configuration_of_the_guide_for_runs_is_one(tmp_path: Path) -> None:
    (text,) = re.findall(r"```toml\n(.*?)```", (ROOT / "docs" / "AGENTS.md").read_text(encoding="utf-8"), re.DOTALL)
    file = tmp_path / "callboard.toml"
    file.write_text(text, encoding="utf-8")
    found = read_configuration(file)
    assert found.budget is not None and found.budget.max_duration_seconds == 300.0
