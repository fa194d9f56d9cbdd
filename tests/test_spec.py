"""docs/SPEC.md says what the program does: tables, columns, states, limits and codes are compared with the source."""

import re
from pathlib import Path

import msgspec
import pytest

from callboard.actors.committer import BATCH_UNITS
from callboard.actors.turn import MAX_TURN_BYTES, MAX_TURN_MESSAGES
from callboard.mailbox.address import MAX_DEPTH, MAX_KEY_BYTES, SHARDS
from callboard.mailbox.envelope import Headers
from callboard.mailbox.lane import Lane
from callboard.mailbox.message import MAX_BODY_BYTES

ROOT = Path(__file__).resolve().parent.parent
SQL = ROOT / "persistence" / "postgres"
SPEC = (ROOT / "docs" / "SPEC.md").read_text(encoding="utf-8")
SCHEMA = (SQL / "schema.sql").read_text(encoding="utf-8")

_NOT_COLUMNS = ("PRIMARY", "CHECK", "UNIQUE", "FOREIGN", "CONSTRAINT")


def tables() -> dict[str, set[str]]:
    """Each table of the schema with its columns: lines of its definition that begin with a name."""
    found = {}
    for name, body in re.findall(r"^CREATE TABLE callboard\.(\w+) \(\n(.*?)^\)", SCHEMA, re.MULTILINE | re.DOTALL):
        firsts = re.findall(r"^    (\w+) +", body, re.MULTILINE)
        found[name] = {word for word in firsts if word not in _NOT_COLUMNS}
    return found


def told() -> dict[str, str]:
    """Each table's row in the page."""
    return dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", SPEC, re.MULTILINE))


def test_the_reader_of_the_schema_finds_its_tables() -> None:
    assert len(tables()) == SCHEMA.count("CREATE TABLE") >= 18
    assert tables()["shard"] == {"id", "node"}
    assert {"failing_since", "held", "due_at"} <= tables()["message"]


@pytest.mark.parametrize("name", sorted(tables()))
def test_the_page_names_every_column_of_a_table_and_no_other(name: str) -> None:
    assert name in told(), f"docs/SPEC.md has no row for callboard.{name}"
    row = told()[name]
    named = set(re.findall(r"`(\w+)`", row))
    columns = tables()[name]
    if name == "dead_letter":  # said as what differs from `message`
        left_out = {"due_at", "held", "sent_at", "failing_since"}
        assert columns == (tables()["message"] - left_out) | (named - left_out - {"message"})
        return
    assert named == columns


def test_the_page_names_every_status() -> None:
    for name in ("node", "actor", "turn", "decision"):
        states = re.search(rf"CREATE TABLE callboard\.{name} \(.*?IN\s*\(([^)]*)\)", SCHEMA, re.DOTALL)
        assert states is not None
        for state in re.findall(r"'([\w-]+)'", states[1]):
            assert state in SPEC, f"{name}: {state}"


def test_the_page_names_the_codes_channels_and_calls_of_the_functions() -> None:
    functions = "\n".join(path.read_text(encoding="utf-8") for path in sorted((SQL / "functions").glob("*.sql")))
    assert set(re.findall(r"ERRCODE = '(CB\d+)'", functions)) == set(re.findall(r"`(CB\d+)`", SPEC))
    for channel in set(re.findall(r"pg_notify\('(callboard_[a-z]+)", functions)):
        assert f"`{channel}" in SPEC, channel
    calls = SPEC.partition("## 5. Calls")[2].partition("Errors of our own")[0]
    for call in re.findall(r"`(\w+)(?:\([^`]*\))?`", calls):
        assert call == "pending" or f"FUNCTION callboard.{call}(" in functions, call
    lock_class = re.search(r"lock_class\(\)[^']*'SELECT (\d+)'", functions)
    assert lock_class is not None and lock_class[1] in SPEC


def test_the_page_has_the_limits_lanes_and_headers_of_the_program() -> None:
    for number in (SHARDS, MAX_DEPTH, MAX_KEY_BYTES):
        assert f" {number} " in SPEC
    for number in (MAX_BODY_BYTES, MAX_TURN_BYTES, MAX_TURN_MESSAGES, BATCH_UNITS):
        assert f"{number:,}" in SPEC
    for lane in Lane:
        assert f"| {int(lane)} | {lane.name.lower()}" in SPEC
    for header in msgspec.structs.fields(Headers):
        assert f"`{header.name}`" in SPEC
