"""kill -9 of the UI in every state: what it had not committed has not happened, and who looks next sees the truth."""

import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.made_database import made_database
from tests.service.conftest import until

from .conftest import Desk
from .program import LEDGER
from .terminal import Terminal
from .walk import approve, arm, ask_amount, begin_denial, fill, go_to_approvals, open_request

UNDER_WAY = (
    "select 1 from pg_stat_activity where datname = current_database() and application_name = 'callboard client'"
    " and state <> 'idle'"
)
"""A server goes on with a statement whose client is gone."""
OUTCOME = (
    "select status, array(select a.after from callboard.audit a where a.object = d.id and a.action = 'decide')"
    " from callboard.decision d where id = %s"
)
"""Of an approval, as of one moment."""


@pytest.fixture(scope="module")
def waiting(server_dsn: str) -> Iterator[tuple[Desk, list[str]]]:
    """A desk whose two requests are decided by no test of those that have this."""
    with made_database(server_dsn) as dsn, ExitStack() as stack:
        found = Desk(dsn, stack)
        found.execute(LEDGER)
        found.daemon()
        yield found, [found.request("pay 480.00 to Ann", "one"), found.request("pay 20.00 to Bo", "two")]


def half_typed(seen: Terminal) -> None:
    open_request(seen)
    ask_amount(seen)
    fill(seen, "48", "that is not")
    seen.until("48 ")


def armed(seen: Terminal) -> None:
    open_request(seen)
    arm(seen)


def deny_typed(seen: Terminal) -> None:
    open_request(seen)
    begin_denial(seen, "ask for photos")


def batch(seen: Terminal) -> None:
    go_to_approvals(seen)
    seen.press("*")
    seen.until("2 marked")
    seen.press("A")
    seen.until("500.00")


@pytest.mark.parametrize(
    "state", [go_to_approvals, open_request, half_typed, armed, deny_typed, batch], ids=lambda state: state.__name__
)
def test_a_ui_that_is_killed_has_done_nothing_that_it_had_not_sent(
    waiting: tuple[Desk, list[str]], state: Callable[[Terminal], None]
) -> None:
    desk, ids = waiting
    seen = desk.tui()
    state(seen)
    seen.kill()
    assert seen.process.returncode == -signal.SIGKILL
    assert [desk.status(one) for one in ids] == ["pending", "pending"]
    assert [desk.audit(one) for one in ids] == [[], []] and desk.paid() == 0
    again = desk.tui()
    again.until("2 to decide")
    go_to_approvals(again)
    again.press("q")
    assert again.wait() == 0


def test_a_ui_that_is_killed_as_it_sends_has_decided_wholly_or_not_at_all(desk: Desk) -> None:
    desk.daemon()
    asked = desk.request("pay 480.00 to Ann hold 60", "sent")
    seen = desk.tui()
    armed(seen)
    seen.press("enter")
    seen.kill()
    until(lambda: not desk.rows(UNDER_WAY), "what it had sent is done")
    ((status, decided),) = desk.rows(OUTCOME, asked)
    again = desk.tui()
    if decided:
        assert decided == ["approved"] and status in ("approved", "released")
        again.until("take it back")
        desk.until_run("sent", "completed")
        assert desk.paid() == 1
    else:
        assert status == "pending"
        again.until("1 to decide")
        approve(again)  # the request is open to whoever comes next
        desk.until_run("sent", "completed")
        assert desk.paid() == 1
    again.kill()
    assert [row["after"] for row in desk.audit(asked) if row["action"] == "decide"] == ["approved"]


def test_a9_a_hold_survives_kill_9_of_ui_and_daemon_and_u_always_prevents_the_call(desk: Desk) -> None:
    daemon = desk.daemon()
    asked = desk.request("pay 480.00 to Ann hold 60", "held")
    seen = desk.tui()
    approve(seen)
    ((release_at,),) = desk.rows("select release_at from callboard.decision where id = %s", asked)
    seen.kill()
    daemon.process.kill()
    daemon.wait()
    assert desk.status(asked) == "approved"
    again = desk.tui()
    again.until("take it back")
    again.press("u")
    desk.until_status(asked, "pending")
    again.kill()
    desk.daemon()
    until(lambda: desk.rows("select 1 where clock_timestamp() > %s + interval '1 second'", release_at), "it is over")
    assert desk.status(asked) == "pending" and desk.paid() == 0


def test_a9_a_hold_that_nobody_takes_back_is_let_go_by_whatever_node_comes_next(desk: Desk) -> None:
    daemon = desk.daemon()
    asked = desk.request("pay 480.00 to Ann hold 30", "orphan")
    seen = desk.tui()
    approve(seen)
    seen.kill()
    daemon.process.kill()
    daemon.wait()
    ((release_at,),) = desk.rows("select release_at from callboard.decision where id = %s", asked)
    until(lambda: desk.rows("select 1 where clock_timestamp() > %s", release_at), "the hold is over")
    assert desk.paid() == 0, "nobody was there to let it go"
    desk.daemon()
    desk.until_run("orphan", "completed")
    assert desk.paid() == 1 and desk.status(asked) == "released"


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGHUP], ids=lambda sign: sign.name)
@pytest.mark.parametrize("state", [half_typed, deny_typed], ids=lambda state: state.__name__)
def test_a_signal_while_something_is_typed_restores_the_terminal_and_decides_nothing(
    waiting: tuple[Desk, list[str]], state: Callable[[Terminal], None], sign: signal.Signals
) -> None:
    desk, ids = waiting
    seen = desk.tui()
    state(seen)
    seen.process.send_signal(sign)
    assert seen.wait() == 0
    until(seen.is_restored, "the terminal is as it was")
    assert [desk.status(one) for one in ids] == ["pending", "pending"]
    assert [desk.audit(one) for one in ids] == [[], []] and desk.paid() == 0
