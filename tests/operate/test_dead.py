"""`callboard dead` on real PostgreSQL: what was given up, sending it again once, and what may not be sent again."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from callboard.actors.client import Client
from callboard.actors.system import Resume
from callboard.mailbox.envelope import headers_of
from callboard.mailbox.lane import Lane
from callboard.persistence.postgres import PostgresStore
from callboard.persistence.postgres.database import Database
from callboard.persistence.postgres.invariants import breaches
from tests.operate.desk import PROBE, TOOL, Desk, Note
from tests.service.conftest import Cli, query, until


@pytest.fixture(scope="module")
def desk(shared: str) -> Iterator[Desk]:
    found = Desk(shared)
    with found.node():
        yield found


@pytest.fixture
def run(cli: Cli, desk: Desk) -> Callable[..., Any]:
    return lambda *words: cli(*words, dsn=desk.dsn)


def letter_for(run: Callable[..., Any], address: str) -> Any:
    """The newest dead letter of a mailbox, once there is one."""
    return until(lambda: run("dead", "--to", address, "--json").document["items"], "it was given up")[0]


def given_up(desk: Desk, run: Callable[..., Any], key: str, text: str = "reject") -> Any:
    desk.send(key, text)
    return letter_for(run, f"{PROBE}:{key}")


def test_s14_requeueing_sends_it_again_once_to_where_it_came_from_and_marks_it(
    desk: Desk, run: Callable[..., Any]
) -> None:
    [message] = desk.send("again", Note("reject", order="A-1"))
    letter = letter_for(run, f"{PROBE}:again")
    assert (letter["message_id"], letter["reason"], letter["settled"], letter["failures"]) == (
        message,
        "rejected",
        "",
        0,
    )
    shown = run("dead", "show", str(letter["number"]))
    assert "nobody wants this" in shown.out and f"callboard dead requeue {letter['number']}" in shown.out
    assert run("dead", "requeue", str(letter["number"])).code == 2, "nobody is there to confirm it"
    said = run("dead", "requeue", str(letter["number"]), "--note", "mended", "--yes", "--json").document
    assert (said["schema"], said["settled"]) == ("callboard.settled/1", "requeued")

    second = letter_for(run, f"{PROBE}:again")
    assert second["message_id"] == said["new_message_id"] != message
    assert second["requeued_from"] == letter["number"] and second["number"] != letter["number"]
    document = run("dead", "show", str(second["number"]), "--json").document
    assert document["requeue_count"] == 1 and document["body"]["value"]["order"] == "A-1"
    assert [one["id"] for one in document["caused_by"]] == [message], "its cause is the one that was given up"

    first = run("dead", "show", str(letter["number"]), "--json").document
    assert first["settled_by"] and first["settled_at"]
    late = run("dead", "requeue", str(letter["number"]), "--yes")
    assert late.code == 5 and f"was requeued by {first['settled_by']}" in late.one_line()
    audited = query(
        desk.dsn, f"select action, after, note from callboard.audit where object = 'dead-letter:{letter['number']}'"
    )
    assert audited == [
        ("requeue", f"message:{second['message_id']}", f"inspected.note for {PROBE}:again: mended"),
    ]


def test_s14_what_was_mended_is_handled_when_it_is_sent_again(desk: Desk, run: Callable[..., Any]) -> None:
    letter = given_up(desk, run, "mended")
    query_update(desk, letter["number"])
    said = run("dead", "requeue", str(letter["number"]), "--yes")
    assert said.code == 0 and "sent again as message" in said.out
    until(lambda: desk.notes("mended") == ["ok"], "it is handled")
    assert run("dead", "--to", f"{PROBE}:mended", "--json").document["items"] == []
    [all_] = run("dead", "--all", "--to", f"{PROBE}:mended", "--json").document["items"]
    assert all_["settled"] == "requeued"


def query_update(desk: Desk, number: int) -> None:
    """Pretend that what was wrong with a message was mended."""

    async def work(_: PostgresStore, __: Client) -> None:
        async with await Database.open(desk.dsn, size=1) as database:
            mended = "update callboard.dead_letter set body = replace(body, 'reject', 'ok') where number = %s"
            await database.execute(mended, [number])

    desk.ask(work)


def test_s14_discarding_settles_it_and_sends_nothing(desk: Desk, run: Callable[..., Any]) -> None:
    letter = given_up(desk, run, "left")
    assert run("dead", "discard", str(letter["number"]), "--yes", "--json").document["settled"] == "discarded"
    assert run("dead", "--to", f"{PROBE}:left", "--json").document["items"] == []
    assert desk.notes("left") == []
    late = run("dead", "requeue", str(letter["number"]), "--yes")
    assert late.code == 5 and "was discarded by" in late.err


def test_several_are_settled_at_once_and_the_first_that_may_not_stops_before_any(
    desk: Desk, run: Callable[..., Any]
) -> None:
    numbers = [str(given_up(desk, run, key)["number"]) for key in ("several-1", "several-2")]
    assert run("dead", "discard", *numbers, "999999", "--yes").code == 3
    assert [run("dead", "show", number, "--json").document["settled"] for number in numbers] == ["", ""]
    said = run("dead", "discard", *numbers, "--yes")
    assert said.out.splitlines() == [f"dead letter {number}: discarded" for number in numbers]


def test_a_dead_call_of_a_worker_is_not_sent_again_and_the_way_out_is_told(desk: Desk, run: Callable[..., Any]) -> None:
    desk.send("caller", "call reject")
    letter = letter_for(run, TOOL)
    said = run("dead", "requeue", str(letter["number"]), "--yes")
    assert said.code == 5 and "made again by whoever made it, and through its gate" in said.one_line()
    shown = run("dead", "show", str(letter["number"]), "--json").document
    assert shown["may_requeue"] is False and f"{PROBE}:caller" in shown["refusal"]
    assert "not again:" in run("dead", "show", str(letter["number"])).out
    assert run("dead", "discard", str(letter["number"]), "--yes").code == 0, "it may be left for good"
    told = letter_for(run, f"{PROBE}:caller")
    assert told["type"] == "sys.ask_failed", "who made it is told, and has no handler for that"


def test_the_runtimes_own_messages_are_not_sent_again(desk: Desk, run: Callable[..., Any]) -> None:
    desk.send("nobody-there", Resume("ann"), lane=Lane.SYSTEM)
    letter = letter_for(run, f"{PROBE}:nobody-there")
    assert (letter["type"], letter["reason"]) == ("sys.resume", "no-such-actor")
    said = run("dead", "requeue", str(letter["number"]), "--yes")
    assert said.code == 5 and "of the runtime itself" in said.err


def test_the_list_names_reason_and_detail_and_pages(desk: Desk, run: Callable[..., Any]) -> None:
    first, second = given_up(desk, run, "paged-1"), given_up(desk, run, "paged-2")
    said = run("dead", "--limit", "1", "--json").document
    assert [x["number"] for x in said["items"]] == [second["number"]] and said["complete"] is False
    page = run("dead", "list", "--before", str(second["number"]), "--limit", "1", "--json").document
    assert [x["number"] for x in page["items"]] == [first["number"]]
    assert "nobody wants this" in run("dead").out
    assert run("dead", str(first["number"])).out.startswith(f"dead letter {first['number']}")
    assert run("dead", "show", "999999").code == 3


def test_g6_after_all_of_this_nothing_is_lost(desk: Desk, run: Callable[..., Any]) -> None:
    letter = given_up(desk, run, "sound")
    run("dead", "requeue", str(letter["number"]), "--yes")

    async def sent(store: PostgresStore, _: Client) -> bool:
        found = await store.dead_letters(recipient=f"{PROBE}:sound")
        return len(found) == 2 and headers_of(found[0].envelope).requeued == letter["number"]

    until(lambda: desk.ask(sent), "it was given up again")

    async def look(_: PostgresStore, __: Client) -> list[str]:
        async with await Database.open(desk.dsn, size=1) as database:
            found = await breaches(database)
        return [f"{b.invariant}: {b.subject} {b.detail}" for b in found if b.invariant != "waiting_messages"]

    assert desk.ask(look) == []
