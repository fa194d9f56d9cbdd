"""The mailbox inspector on real PostgreSQL: each state is told from the others, with the reason and the way out (G6).

One desk, one node; what is looked at is never changed by looking.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from callboard.actors.client import Client
from callboard.actors.system import Pause, Resume
from callboard.mailbox.lane import Lane
from callboard.persistence.postgres import PostgresStore
from callboard.service.operations.facts import facts_of, state_of
from tests.operate.desk import PROBE, TOOL, Desk, Note
from tests.service.conftest import APP, Cli, query, until

TABLES = ("actor", "message", "turn", "journal", "timer", "dead_letter", "decision", "audit", "client_send")


@pytest.fixture(scope="module")
def desk(shared: str) -> Iterator[Desk]:
    found = Desk(shared)
    with found.node():
        yield found


@pytest.fixture
def run(cli: Cli, desk: Desk) -> Callable[..., Any]:
    return lambda *words: cli(*words, dsn=desk.dsn)


def states(run: Callable[..., Any], key: str) -> list[str]:
    said = run("mailbox", f"{PROBE}:{key}", "--json")
    return [message["state"] for message in said.document["messages"]] if said.code == 0 else []


def rows(desk: Desk) -> dict[str, Any]:
    whole = "select xmin::text || t::text as t from {} t"
    wanted = f"select coalesce(md5(string_agg(x.t, '|' order by x.t)), '') from ({whole}) x"
    return {table: query(desk.dsn, wanted.format(f"callboard.{table}")) for table in TABLES}


def test_g6_each_of_the_seven_states_is_a_state_of_its_own_with_its_reason(desk: Desk, run: Callable[..., Any]) -> None:
    [in_turn, ready] = desk.send("one", "wait", "ok")
    [scheduled] = desk.send("two", "ok", delay_seconds=600)
    [retrying] = desk.send("three", "fail order A-1")
    [stashed] = desk.send("four", "later")
    desk.send("five", "hold refund")
    [dead] = desk.send("six", "reject")
    until(lambda: query(desk.dsn, "select 1 from callboard.actor where address = '/t'"), "the tree has begun")
    until(lambda: states(run, "one") == ["in turn", "ready"], "the first is in its handler")
    until(lambda: states(run, "three") == ["retrying"], "it has failed")
    until(lambda: states(run, "four") == ["stashed"], "it was put aside")
    until(lambda: run("dead", "--json").document["items"], "it was given up")
    held = until(lambda: run("mailbox", f"{PROBE}:five", "--json").document["calls"], "the call is held")[0]["id"]

    def detail(message: int) -> Any:
        return run("mailbox", "show", str(message), "--json").document

    known = {
        "in turn": in_turn, "ready": ready, "scheduled": scheduled, "retrying": retrying, "stashed": stashed,
        "held": held, "dead": dead,
    }  # fmt: skip
    before = rows(desk)
    found = {state: detail(message) for state, message in known.items()}
    assert {state: document["state"] for state, document in found.items()} == {state: state for state in known}
    reasons = {state: f"{document['why']['kind']}: {document['why']['text']}" for state, document in found.items()}
    assert "in a handler of node" in reasons["in turn"] and "(desk/1)" in reasons["in turn"]
    assert reasons["ready"].startswith("moves: behind 1 older of the normal lane") and str(in_turn) in reasons["ready"]
    assert reasons["scheduled"].startswith("waits: scheduled: not before")
    assert reasons["retrying"].startswith("waits: attempt 2 in") and "it broke on order A-1" in reasons["retrying"]
    assert reasons["stashed"].startswith(f"waits: put aside by {PROBE}:four itself")
    assert reasons["held"].startswith("waits: held for a decision")
    assert reasons["dead"].startswith("stuck: given up (rejected)") and "nobody wants this" in reasons["dead"]
    assert found["dead"]["why"]["way_out"] == f"callboard dead show {found['dead']['dead_letter']}"
    assert found["retrying"]["line"]["attempt"] == 2 and found["retrying"]["line"]["due_at"] is not None
    assert found["in turn"]["holder"]["label"] == "desk/1" and found["in turn"]["holder"]["heard_seconds"] < 60
    text = run("mailbox").out + run("mailbox", f"{PROBE}:one").out + run("mailbox", "show", str(retrying)).out
    assert "desk/1" in text and "RuntimeError: it broke on order A-1" in text
    assert rows(desk) == before, "looking changes nothing"
    desk.gate.set()
    until(lambda: desk.notes("one") == ["wait", "ok"], "it goes on")


def test_mailboxes_are_listed_by_depth_by_age_and_by_address(desk: Desk, run: Callable[..., Any]) -> None:
    desk.send("listed-old", "ok", delay_seconds=500)
    desk.send("listed-deep", "ok", "ok", "ok", delay_seconds=500)

    def order(by: str) -> list[str]:
        said = run("mailbox", "--order", by, "--prefix", f"{PROBE}:listed", "--json")
        return [item["address"].rpartition(":")[2] for item in said.document["items"]]

    assert order("depth") == order("address") == ["listed-deep", "listed-old"]
    assert order("age") == ["listed-old", "listed-deep"]
    said = run("mailbox", "list", "--prefix", f"{PROBE}:listed", "--jsonl")
    lines = [json.loads(line) for line in said.out.splitlines()]
    assert [line["schema"] for line in lines] == ["callboard.mailboxes.item/1"] * 2
    assert (lines[0]["depth"], lines[0]["scheduled"], lines[0]["ready"], lines[0]["in_turn"]) == (3, 3, 0, 0)
    assert lines[0]["holder"]["node"] > 0 and "scheduled" in lines[0]["why"]["text"]
    assert run("mailbox", "--order", "wrong").code == 2


def test_a_message_tells_what_it_came_from_and_what_it_led_to(desk: Desk, run: Callable[..., Any]) -> None:
    [first] = desk.send("cause", "send effect")
    until(lambda: desk.notes("effect") == ["ok"], "both were handled")
    document = run("mailbox", "show", str(first), "--json").document
    assert (document["state"], document["recipient"]) == ("done", f"{PROBE}:cause")
    [led] = document["caused"]
    assert (led["recipient"], led["sender"], led["state"]) == (f"{PROBE}:effect", f"{PROBE}:cause", "done")
    up = run("mailbox", "show", str(led["id"]), "--json").document
    assert [(one["id"], one["state"]) for one in up["caused_by"]] == [(first, "done")]
    text = run("mailbox", "show", str(led["id"])).out
    assert f"↑ {first}" in text and "handled" in text


def test_the_key_under_which_it_came_is_shown_and_found(desk: Desk, run: Callable[..., Any]) -> None:
    [message] = desk.send("keyed", "ok", delay_seconds=500, client_id="order A-77")
    [found] = run("mailbox", "search", "--key", "order A-77", "--json").document["items"]
    assert found["id"] == message and found["id_text"] == str(message)
    assert run("mailbox", "show", str(message), "--json").document["client_id"] == "order A-77"
    assert "order A-77" in run("mailbox", "show", str(message)).out


def test_search_finds_by_text_type_state_and_addresses(desk: Desk, run: Callable[..., Any]) -> None:
    [one] = desk.send("sought", Note("ok", order="B-4711"), delay_seconds=500)

    def found(*words: str) -> list[int]:
        return [item["id"] for item in run("mailbox", "search", *words, "--json").document["items"]]

    assert found("B-4711") == found("B-4711", "--state", "scheduled", "--to", f"{PROBE}:sou") == [one]
    assert found("B-4711", "--state", "ready") == found("B-4711", "--type", "other") == []
    assert run("mailbox", "search").code == 2, "of everything is nothing"
    assert run("mailbox", "search", "x", "--state", "wrong").code == 2


def test_secrets_are_redacted_and_revealing_them_is_audited(desk: Desk, run: Callable[..., Any]) -> None:
    card = "4111 1111 1111 1111"
    [message] = desk.send("secret", Note("ok", order=f"card {card}", password="hunter2"), delay_seconds=500)
    shown = run("mailbox", "show", str(message))
    assert "hunter2" not in shown.out and card not in shown.out and "[redacted]" in shown.out
    assert "--reveal" in shown.out
    document = run("mailbox", "show", str(message), "--json").document
    assert document["body"]["redacted"] == ["order", "password"] and "1111" in document["body"]["value"]["order"]
    assert "hunter2" in run("mailbox", "show", str(message), "--reveal").out
    audited = query(desk.dsn, f"select action, channel from callboard.audit where object = 'message:{message}'")
    assert audited == [("reveal", "cli")]


def test_untrusted_text_moves_no_cursor_and_large_bodies_are_cut(desk: Desk, run: Callable[..., Any]) -> None:
    [message] = desk.send("evil", Note("ok", order="\x1b[2J" + "x" * 50_000), delay_seconds=500)
    said = run("mailbox", "show", str(message))
    assert "\x1b" not in said.out and "more characters" in said.out and len(said.out) < 25_000
    [line] = run("mailbox", "export", f"{PROBE}:evil").out.splitlines()
    assert len(line) > 50_000 and json.loads(line)["body"]["value"]["order"].endswith("xxx"), "the whole of it"


def test_export_is_audited_and_writes_a_line_a_message(desk: Desk, run: Callable[..., Any]) -> None:
    ids = desk.send("exported", "ok", Note("ok", password="hunter2"), delay_seconds=500)
    said = run("mailbox", "export", f"{PROBE}:exported")
    lines = [json.loads(line) for line in said.out.splitlines()]
    assert [line["id"] for line in lines] == ids and {line["schema"] for line in lines} == {"callboard.message/1"}
    assert "hunter2" not in said.out and "2 message(s)" in said.err
    audited = query(desk.dsn, f"select action, note from callboard.audit where object = '{PROBE}:exported'")
    assert audited == [("export", "2 message(s), redacted")]
    assert run("mailbox", "export", f"{PROBE}:nobody").code == 3


def test_a_waiting_message_is_discarded_by_its_owner_and_audited(desk: Desk, run: Callable[..., Any]) -> None:
    [spam] = desk.send("spammed", "ok", delay_seconds=500)
    assert run("mailbox", "discard", str(spam)).code == 2, "nobody is there to confirm it"
    said = run("mailbox", "discard", str(spam), "--reason", "spam", "--yes", "--json")
    assert (said.document["how"], said.code) == ("discarded", 0) and said.document["dead_letter"] > 0
    assert states(run, "spammed") == []
    letter = run("dead", "show", str(said.document["dead_letter"]), "--json").document
    assert (letter["reason"], letter["settled"], letter["message_id"]) == ("discarded", "discarded", spam)
    assert letter["detail"].endswith(": spam") and letter["settled_by"]
    audited = query(desk.dsn, f"select action, before, after from callboard.audit where object = 'message:{spam}'")
    assert audited == [("discard", "scheduled", "discarded")]
    assert run("mailbox", "show", str(spam), "--json").document["state"] == "dead"
    assert run("mailbox", "discard", str(spam), "--yes").code == 3


def test_what_parked_an_actor_goes_to_quarantine_and_the_actor_goes_on(desk: Desk, run: Callable[..., Any]) -> None:
    [poison, after] = desk.send("parked", "park", "ok")
    until(
        lambda: run("actors", "show", f"{PROBE}:parked", "--json").document["items"][0]["status"] == "parked", "parks"
    )
    document = run("mailbox", "show", str(after), "--json").document
    assert document["why"]["kind"] == "stuck" and "a person must look" in document["why"]["text"]
    assert f"callboard actors resume {PROBE}:parked" in document["why"]["way_out"]
    said = run("mailbox", "quarantine", str(poison), "--yes")
    assert said.code == 0 and "callboard dead requeue" in said.out
    assert run("actors", "resume", f"{PROBE}:parked").code == 0
    until(lambda: desk.notes("parked") == ["ok"], "the next one is handled")
    [letter] = run("dead", "--to", f"{PROBE}:parked", "--json").document["items"]
    assert (letter["reason"], letter["settled"]) == ("quarantined", "")


def test_a_held_message_and_a_workers_call_are_not_given_up(desk: Desk, run: Callable[..., Any]) -> None:
    desk.gate.clear()
    desk.send("holds", "hold x")
    [held] = until(lambda: run("mailbox", f"{PROBE}:holds", "--json").document["calls"], "the call is held")
    desk.send("calls", "call x")
    [call] = until(
        lambda: [x for x in run("mailbox", TOOL, "--json").document["messages"] if x["sender"] == f"{PROBE}:calls"],
        "the call was made",
    )
    for message, words in ((held["id"], "only a decision takes it away"), (call["id"], "whose effect may have begun")):
        for verb in ("discard", "quarantine"):
            said = run("mailbox", verb, str(message), "--yes")
            assert said.code == 5 and words in said.one_line(), said.err
    assert f"callboard actors cancel {PROBE}:calls" in run("mailbox", "discard", str(call["id"]), "--yes").err
    until(
        lambda: run("mailbox", "show", str(call["id"]), "--json").document["state"] == "in turn", "its start is noted"
    )
    desk.gate.set()


def test_a_held_call_of_a_run_names_its_decision(cli: Cli, database: str) -> None:
    held = cli("run", APP, "refund 129.00", "--json", dsn=database).document
    [call] = cli("mailbox", held["address"], "--json", dsn=database).document["calls"]
    document = cli("mailbox", "show", str(call["id"]), "--json", dsn=database).document
    assert document["state"] == "held" and document["run"] == held["run_id"]
    assert document["decision"] == held["approvals"][0]["id"] and document["recipient"] != held["address"]
    said = cli("mailbox", "discard", str(call["id"]), "--yes", dsn=database)
    assert said.code == 5 and f"callboard deny {document['decision']}" in said.err


def test_g6_actors_stuck_lists_what_stands_still_with_the_reason_and_the_next_command(
    desk: Desk, run: Callable[..., Any]
) -> None:
    desk.send("poor", "park")
    desk.send("behind", "fail on it", "ok")
    desk.send("fine", "ok")
    desk.send("sleeper", Note("ok"))
    until(lambda: desk.notes("sleeper") == ["ok"] and desk.notes("fine") == ["ok"], "they are done")
    desk.send("sleeper", Pause("ann", "a holiday"), lane=Lane.SYSTEM)
    desk.send("sleeper", "ok")

    def stuck(*words: str) -> dict[str, Any]:
        said = run("actors", "--stuck", PROBE, *words, "--json")
        return {item["address"].rpartition(":")[2]: item for item in said.document["items"]}

    until(lambda: {"poor", "sleeper"} <= stuck().keys(), "both are told of")
    found = stuck("--over-age", "3600")
    assert "fine" not in found and "behind" not in found
    assert found["poor"]["why"]["text"] == "parked: a person must look"
    assert found["sleeper"]["why"]["text"] == "paused by ann: a holiday" and found["sleeper"]["oldest_at"]
    assert found["sleeper"]["why"]["way_out"].endswith(f"callboard actors resume {PROBE}:sleeper")

    def behind() -> str:
        return str(stuck("--over-age", "0").get("behind"))

    until(lambda: "attempt 2" in behind(), "what waits too long is told of, too")
    text = run("actors", "--stuck").out
    assert f"{PROBE}:poor  parked" in text and f"→ mend the cause, then: callboard actors resume {PROBE}:poor" in text
    desk.send("poor", Resume("ann"), lane=Lane.SYSTEM)


def test_the_old_way_of_asking_still_works_and_a_typing_error_is_told(run: Callable[..., Any], desk: Desk) -> None:
    desk.send("old", "ok", delay_seconds=500)
    assert run("mailbox", f"{PROBE}:old", "--limit", "5", "--json").document["schema"] == "callboard.mailbox/1"
    assert run("mailbox", "--limit", "5", f"{PROBE}:old", "--json").document["schema"] == "callboard.mailbox/1"
    assert run("mailbox", "serach").code == 2


def test_who_may_only_look_gives_nothing_up(desk: Desk) -> None:
    from callboard.mailbox.errors import NotAllowed
    from callboard.service.operations.giving_up import GivingUp
    from callboard.service.operations.mailboxes import Mailboxes
    from callboard.service.operations.principal import Principal
    from callboard.service.operations.runs import Operations

    [message] = desk.send("looked-at", "ok", delay_seconds=500)

    async def look(store: PostgresStore, _: Client) -> None:
        viewer = Operations(store, Principal("vic", scopes=frozenset({"read"})))
        assert (await Mailboxes(viewer).message(message)).state == "scheduled"
        for refused in (
            GivingUp(viewer).discard(message),
            GivingUp(viewer).quarantine(message),
            Mailboxes(viewer).message(message, reveal=True),
            anext(Mailboxes(viewer).export(f"{PROBE}:looked-at")),
        ):
            with pytest.raises(NotAllowed):
                await refused
        assert await store.message(message) is not None
        assert await store.audit(object=f"message:{message}") == []

    desk.ask(look)


def test_in_turn_is_no_one_whose_node_is_not_there(database: str) -> None:
    desk = Desk(database)
    [message] = desk.send("alone", "ok")

    async def look(store: PostgresStore, _: Client) -> str:
        [view] = await store.peek(f"{PROBE}:alone")
        assert view.envelope.id == message
        return state_of(view, await facts_of(store, f"{PROBE}:alone", None))

    assert desk.ask(look) == "ready"
