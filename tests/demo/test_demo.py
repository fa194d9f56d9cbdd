"""`callboard demo`: real node processes, a kill -9 in the middle of a refund, and a document of what came of it."""

import json
import os
import re
import subprocess
import sys

import pytest

from tests.stand import LEASE_SECONDS

ENVIRONMENT = {**os.environ, "CALLBOARD_LEASE_SECONDS": f"{LEASE_SECONDS:g}"}

pytestmark = pytest.mark.timeout(900)


def play(dsn: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "callboard", "demo", "--dsn", dsn, *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=800, check=False, env=ENVIRONMENT
    )


def test_the_demonstration_ends_with_one_refund_for_the_killed_one_and_says_so_in_one_document(dsn: str) -> None:
    done = play(dsn, "--yes", "--json", "--tickets", "12")
    assert done.returncode == 0, done.stderr[-3000:]
    document = json.loads(done.stdout)
    assert document["tickets"] == document["completed"] == 12
    assert document["held"] == document["approved"] == 1
    assert document["killed_nodes"] == 1
    assert document["duplicate_effects"] == document["lost_messages"] == 0
    assert document["refunds"] > 1
    assert isinstance(document["takeover_seconds"], float)
    assert document["invariants_ok"] is True
    assert all(check["ok"] for check in document["checks"])


def test_the_demonstration_tells_a_person_who_is_paid_what_and_why_it_asks(dsn: str) -> None:
    done = play(dsn, "--tickets", "3")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    for words in ("kill -9", "goes on", "[recovered]", "asks because", "above the limit of 100.00 USD", "digest"):
        assert words in done.stdout
    assert re.search(r"pay\s+[\d,]+\.\d\d USD", done.stdout)
    assert "no terminal to ask on" in done.stdout
    assert "\x1b" not in done.stdout, "no colours in a pipe"


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs a terminal to type on")
@pytest.mark.parametrize(("typed", "refunded"), [("yes", False), ("the amount", True)])
def test_on_a_terminal_only_the_typed_amount_approves(dsn: str, typed: str, refunded: bool) -> None:
    leader, follower = os.openpty()
    command = [sys.executable, "-m", "callboard", "demo", "--dsn", dsn, "--json", "--tickets", "2"]
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdin=follower, stdout=pipe, stderr=pipe, env=ENVIRONMENT)
    assert process.stderr is not None
    try:
        shown = b""
        while not (asked := re.search(rb"type ([\d.]+) to approve", shown)):
            piece = os.read(process.stderr.fileno(), 4096)
            assert piece, shown
            shown += piece
        os.write(leader, (asked[1] if typed == "the amount" else typed.encode()) + b"\n")
        out, err = process.communicate(timeout=800)
    finally:
        process.kill()
        process.wait()
        os.close(leader)
        os.close(follower)
    document = json.loads(out)
    assert process.returncode == 0, err
    assert (document["approved"], document["denied"]) == ((1, 0) if refunded else (0, 1))
    assert document["invariants_ok"] is True


def test_bad_input_is_one_clear_line_and_the_right_code(dsn: str) -> None:
    one_node = play(dsn, "--nodes", "1")
    assert one_node.returncode == 2
    unreachable = play("postgresql://localhost:1/nothing", "--yes")
    assert unreachable.returncode == 75
    assert "Traceback" not in unreachable.stderr
