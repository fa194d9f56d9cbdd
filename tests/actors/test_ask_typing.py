"""What a type checker refuses: asking with what is no request, without a time, or with another answer in mind."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

HEAD = """
from datetime import timedelta

from callboard.actors.client import Client
from callboard.actors.context import Context, Ref
from callboard.actors.system import AskFailed
from callboard.mailbox.message import Message
from callboard.mailbox.request import Request

class Quote(Message, tag="typing_test.quote"):
    price: int

class GetQuote(Request["Quote"], tag="typing_test.get_quote"):
    order: str

class Plain(Message, tag="typing_test.plain"):
    pass

DESK: Ref[GetQuote] = Ref("/t/desk")
OTHER: Ref[Plain] = Ref("/t/other")

"""

FINE = """
async def outside(client: Client) -> int:
    answer = await client.ask(DESK, GetQuote("1"), seconds=5)
    return 0 if isinstance(answer, AskFailed) else answer.price

def inside(ctx: Context) -> int:
    ctx.ask("/t/desk", GetQuote("1"), timeout=timedelta(hours=1))
    ctx.send(OTHER, Plain())
    ref: Ref[Plain] = ctx.spawn(OTHER, again=True, watch=True)
    return ctx.ask(DESK, GetQuote("1"), timeout=1.5)
"""

WRONG = {
    "a plain message": 'def f(ctx: Context) -> int: return ctx.ask("/t/desk", Plain(), timeout=1)',
    "no timeout": 'def f(ctx: Context) -> int: return ctx.ask("/t/desk", GetQuote("1"))',
    "another's request": 'def f(ctx: Context) -> int: return ctx.ask(OTHER, GetQuote("1"), timeout=1)',
    "a plain message from outside": 'async def f(c: Client) -> None: await c.ask("/t/desk", Plain(), seconds=1)',
    "no timeout from outside": 'async def f(c: Client) -> None: await c.ask("/t/desk", GetQuote("1"))',
    "another answer": 'async def f(c: Client) -> Plain | AskFailed: return await c.ask(DESK, GetQuote("1"), seconds=1)',
}


CONFIG = f"""
[mypy]
python_version = 3.11
mypy_path = {ROOT}/.src
strict = True
# What is asked for stands in these three; following everybody's libraries too takes ten times as long.
follow_imports = skip
[mypy-callboard.actors.*,callboard.mailbox.*,callboard.persistence.*]
follow_imports = silent
"""


@pytest.fixture(scope="module")
def complaints(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What mypy says of each snippet; one run for all of them."""
    folder = tmp_path_factory.mktemp("typing")
    config = folder / "mypy.ini"
    config.write_text(CONFIG)
    snippets = {"fine": FINE, **WRONG}
    names = {f"snippet_{n}": name for n, name in enumerate(snippets)}
    for module, name in names.items():
        (folder / f"{module}.py").write_text(HEAD + snippets[name])
    command = [sys.executable, "-m", "mypy", "--config-file", str(config), "--cache-dir", os.devnull]
    files = [str(folder / f"{module}.py") for module in names]
    # a process of its own: what mypy keeps in memory would slow the collector for all later tests
    done = subprocess.run([*command, *files], cwd=folder, capture_output=True, text=True, timeout=240, check=False)
    assert not done.stderr and done.returncode == 1, done.stderr or done.stdout
    return {
        name: "\n".join(line for line in done.stdout.splitlines() if f"{module}.py" in line)
        for module, name in names.items()
    }


def test_what_is_right_passes(complaints: dict[str, str]) -> None:
    assert complaints["fine"] == ""


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_a_type_error(complaints: dict[str, str], name: str) -> None:
    assert "error: " in complaints[name]
