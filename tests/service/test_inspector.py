"""`callboard actors` and `callboard mailbox` on a real PostgreSQL: they say why nothing moves, and touch nothing."""

import pytest

from tests.service.conftest import APP, Cli, query


@pytest.fixture
def held(cli: Cli, shared: str) -> str:
    """The address of a run that waits for a person."""
    said = cli("run", APP, "refund 129.00", "--json", dsn=shared)
    assert said.document["status"] == "awaiting_approval"
    return str(said.document["address"])


def test_actors_lists_each_with_its_reason(cli: Cli, shared: str, held: str) -> None:
    said = cli("actors", "list", held, dsn=shared)
    assert said.code == 0
    assert held in said.out and "no node serves" in said.out
    [line] = cli("actors", "list", held, "--json", dsn=shared).document["items"]
    assert (line["address"], line["status"], line["why"]["kind"]) == (held, "active", "stuck")
    assert cli("actors", "--json", dsn=shared).document["schema"] == "callboard.actors/1"


def test_actors_list_says_when_there_are_more(cli: Cli, shared: str, held: str) -> None:
    said = cli("actors", "list", "--limit", "1", "--json", dsn=shared)
    assert len(said.document["items"]) == 1 and said.document["complete"] is False


def test_mailbox_shows_what_was_recorded_and_consumes_nothing(cli: Cli, shared: str) -> None:
    cli("submit", APP, "later", "--id", "inspected", dsn=shared)
    before = query(shared, "select count(*) from callboard.message")
    for _ in range(2):
        said = cli("mailbox", "/desk/run:inspected", "--json", dsn=shared)
        [message] = said.document["messages"]
        assert message["state"] == "ready" and message["lane"] == "normal" and "no node" in message["why"]["text"]
        assert said.document["actor"]["status"] is None
    assert query(shared, "select count(*) from callboard.message") == before
    assert "callboard daemon APP" in cli("mailbox", "/desk/run:inspected", dsn=shared).out


def test_mailbox_of_a_waiting_run_shows_the_held_call(cli: Cli, shared: str, held: str) -> None:
    said = cli("mailbox", held, "--json", dsn=shared)
    [call] = said.document["calls"]
    assert call["state"] == "held" and "issue_refund waits for a person" in call["why"]["text"]
    assert call["why"]["way_out"].startswith("callboard approvals show ")


def test_pause_and_resume_are_messages_that_wait_for_a_node(cli: Cli, shared: str, held: str) -> None:
    for command in ("pause", "resume"):
        assert cli("actors", command, held, dsn=shared).code == 0
    rows = query(shared, f"select type, lane from callboard.message where recipient = '{held}' order by id")
    assert rows == [("sys.pause", 0), ("sys.resume", 0)]


def test_all_at_a_place_and_below_are_paused_by_one_command_with_one_audit_row(
    cli: Cli, shared: str, held: str
) -> None:
    said = cli("actors", "pause", held, "--below", "--reason", "month end", "--json", dsn=shared)
    assert said.document == {
        "schema": "callboard.asked-below/1", "address": held, "asked": "pause", "actors": 1, "complete": True
    }  # fmt: skip
    assert "0 actor(s) told to go on" in cli("actors", "resume", held, "--below", dsn=shared).out
    rows = query(shared, f"select action, note from callboard.audit where object = '{held}' and action like '% below'")
    assert rows == [("pause below", "month end")]
    assert cli("actors", "pause", "/nowhere", "--below", dsn=shared).code == 3


def test_no_command_kills_where_chaos_is_said_to_be_off(
    cli: Cli, shared: str, held: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CALLBOARD_ALLOW_CHAOS", "false")
    said = cli("actors", "kill", held, dsn=shared)
    assert said.code == 4 and "allow_chaos" in said.one_line()


def test_what_is_not_there_is_exit_3_and_names_the_way_out(cli: Cli, shared: str) -> None:
    for command in (("actors", "show"), ("mailbox",), ("actors", "kill")):
        said = cli(*command, "/desk/run:nobody", dsn=shared)
        assert said.code == 3 and "callboard actors" in said.one_line()
    assert cli("mailbox", "no address", dsn=shared).code == 2
