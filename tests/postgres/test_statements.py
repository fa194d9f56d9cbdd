"""The SQL files: every statement is known by one name, is used, and has the parameters it is given."""

import re
from pathlib import Path

import callboard.persistence.postgres
from callboard.persistence.postgres.sql import keeps_plan, queries, statement

_PACKAGE = Path(callboard.persistence.postgres.__file__).parent


def test_every_statement_is_used_by_name() -> None:
    code = "".join(path.read_text() for path in _PACKAGE.glob("*.py"))
    unused = [name for name in queries() if f'"{name}"' not in code]
    assert unused == []


def test_parameters_are_numbered_in_order_and_once() -> None:
    text, names = statement("decide")
    assert names == (
        "id",
        "status",
        "digest",
        "by",
        "note",
        "hold_seconds",
        "label",
        "seen",
        "channel",
        "host",
        "notice",
    )
    assert re.findall(rb"\$\d+", text) == [f"${n + 1}".encode() for n in range(len(names))]
    text, names = statement("decisions_of_run")
    assert names == ("run", "status", "limit")
    assert text.count(b"$2") == 2


def test_no_value_is_ever_put_into_the_text_of_a_statement() -> None:
    for name in queries():
        assert b"%(" not in statement(name).text


def test_what_runs_for_each_message_keeps_its_plan_and_what_has_filters_does_not() -> None:
    hot = ("commit_batch", "ready", "load", "due", "members", "wake_owners", "accept_messages", "receive")
    assert [name for name in hot if not keeps_plan(name)] == []
    assert [name for name in ("actors", "turns", "decisions") if keeps_plan(name)] == []
