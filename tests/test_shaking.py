"""`make test SHAKE=1`: what it delays is what the program uses, and nothing is delayed without it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SHAKING = Path(__file__).parent / "shaking"
LOOK = """
import asyncio, psycopg
print(psycopg.AsyncConnection.wait.__module__, asyncio.BaseEventLoop._run_once.__module__)
"""


@pytest.mark.parametrize("shake", ["1", ""])
def test_round_trips_and_event_loops_are_late_where_it_was_asked_for(shake: str) -> None:
    environment = os.environ | {"PYTHONPATH": str(SHAKING), "SHAKE": shake}
    said = subprocess.run(
        [sys.executable, "-c", LOOK], env=environment, capture_output=True, text=True, timeout=120, check=True
    )
    theirs = ["psycopg.connection_async", "asyncio.base_events"]
    assert said.stdout.split() == (["sitecustomize", "sitecustomize"] if shake else theirs)
