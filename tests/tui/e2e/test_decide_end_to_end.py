"""From a request to the tool through the real UI: held, taken back, released; the ledger is counted after each."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.made_database import made_database
from tests.service.conftest import until

from .conftest import Desk
from .program import LEDGER
from .walk import approve, arm, begin_denial, go_to_approvals, open_request


@pytest.fixture(scope="module")
def desk(server_dsn: str) -> Iterator[Desk]:
    """One desk for the tests of this module: each decides on a request of its own, and none is left waiting."""
    with made_database(server_dsn) as dsn, ExitStack() as stack:
        found = Desk(dsn, stack)
        found.execute(LEDGER)
        found.daemon()
        yield found


def past(desk: Desk, at: object) -> None:
    """Wait until the database's clock is beyond a moment."""
    until(lambda: desk.rows("select 1 where clock_timestamp() > %s + interval '1 second'", at), "its time is over")


def test_d3_what_is_taken_back_within_its_hold_is_never_run(desk: Desk) -> None:
    before, asked = desk.paid(), desk.request("pay 480.00 to Ann hold 30", "back")
    seen = desk.tui()
    approve(seen)
    desk.until_status(asked, "approved")
    ((release_at,),) = desk.rows("select release_at from callboard.decision where id = %s", asked)
    seen.press("u")
    desk.until_status(asked, "pending")
    seen.gone("take it back")
    seen.until("1 to decide")
    past(desk, release_at)
    assert desk.paid() == before, "the hold that was taken back let the call go"
    assert desk.status(asked) == "pending"
    open_request(seen)
    begin_denial(seen, "not today")
    seen.press("enter")
    desk.until_status(asked, "denied")
    desk.until_run("back", "completed")
    assert desk.paid() == before
    seen.press("q")
    assert seen.wait() == 0
    assert [(row["action"], row["after"]) for row in desk.audit(asked)][:3] == [
        ("decide", "approved"),
        ("take back", "pending"),
        ("decide", "denied"),
    ]


def test_d3_what_is_released_runs_exactly_once_and_u_is_too_late_then(desk: Desk) -> None:
    before, asked = desk.paid(), desk.request("pay 480.00 to Ann hold 20", "once")
    seen = desk.tui()
    approve(seen)
    assert desk.paid() == before, "it ran while it could be taken back"
    desk.until_status(asked, "released")
    desk.until_run("once", "completed")
    assert desk.paid() == before + 1
    seen.gone("take it back")
    seen.press("u")
    seen.until(lambda text: "let go" in text or "too late" in text or "nothing" in text.lower())
    assert desk.status(asked) == "released"
    assert desk.rows("select payee, amount_cents from ledger order by at desc limit 1") == [("Ann", 48_000)]
    seen.press("q")
    assert seen.wait() == 0 and desk.paid() == before + 1


def test_a6_of_two_who_decide_at_once_one_wins_and_the_other_sees_who(desk: Desk) -> None:
    before, asked = desk.paid(), desk.request("pay 480.00 to Ann hold 20", "both")
    ana, bo = desk.tui_of("ana"), desk.tui_of("bo")
    for seen in (ana, bo):
        open_request(seen)
        arm(seen)
    for seen in (ana, bo):
        seen.press("enter")
    desk.until_status(asked, "approved")
    ((winner,),) = desk.rows("select decided_by from callboard.decision where id = %s", asked)
    loser = bo if winner == "ana" else ana
    loser.until(f"{winner} approved")
    assert [row["who"] for row in desk.audit(asked) if row["action"] == "decide"] == [winner]
    desk.until_run("both", "completed")
    assert desk.paid() == before + 1
    for seen in (ana, bo):
        seen.kill()


def test_a11_what_no_notification_told_of_is_shown_all_the_same(desk: Desk) -> None:
    seen = desk.tui()
    go_to_approvals(seen, shows="Nothing waits")
    ((text,),) = desk.rows("select pg_get_functiondef('callboard.tell'::regproc)")
    # Whoever is to be told is not: as when a connection between drops what it should forward.
    desk.execute(
        "create or replace function callboard.tell(_what text, _name text) returns void language sql as 'select'"
    )
    try:
        asked = desk.request("pay 17.00 to Bo", "mute")
        seen.until("17.00")
        seen.until("1 to decide")
    finally:
        desk.execute(text)
    open_request(seen, "17.00")
    begin_denial(seen, "no")
    seen.press("enter")
    desk.until_status(asked, "denied")
    seen.kill()
