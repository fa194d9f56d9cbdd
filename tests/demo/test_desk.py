"""The open desk that `callboard tui --demo` looks at: everything there is to see is there, and nothing outlives it."""

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from callboard.crm.schema import install
from callboard.mailbox.errors import CallboardError
from callboard.service.demo.desk import OpenDesk, open_desk
from callboard.service.demo.desk_house import HouseOptions

QUICK = HouseOptions(think_seconds=0.05, every_seconds=0.5)
# One node is killed, with another beside it: nobody has to be silent to be taken over, nor should he be.
CALM = {"CALLBOARD_LEASE_SECONDS": "30"}
WAIT_SECONDS = 240.0

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def desk(server_dsn: str) -> Iterator[OpenDesk]:
    with open_desk(server_dsn, QUICK, CALM) as opened:
        yield opened


def rows(desk: OpenDesk, sql: str, *params: object) -> list[tuple[object, ...]]:
    with psycopg.connect(desk.dsn, autocommit=True) as connection:
        return connection.execute(sql.encode(), params).fetchall()


def until(desk: OpenDesk, sql: str) -> None:
    """Wait until a query has rows."""
    pause, end = threading.Event(), time.monotonic() + WAIT_SECONDS
    while not rows(desk, sql):
        assert time.monotonic() < end, f"never true: {sql}; {desk.log.read_text()[-2000:]}"
        pause.wait(0.1)


def test_several_calls_of_every_risk_wait_for_people(desk: OpenDesk) -> None:
    found = rows(
        desk, "select tool, risk, needed, checks, hold_seconds from callboard.decision where status = 'pending'"
    )
    assert len(found) >= 5
    assert {risk for _, risk, *_ in found} == {"low", "medium", "high"}
    assert {tool for tool, *_ in found} == {"issue_refund", "cancel_order"}
    grave = [checks for _, _, needed, checks, _ in found if needed == 2]
    assert any('"ok":false' in str(checks) and "approved already" in str(checks) for checks in grave)
    assert all(float(str(hold)) >= 10 for *_, hold in found), "every approval here can be taken back for a while"


def test_what_went_wrong_has_a_real_cause(desk: OpenDesk) -> None:
    errors = [str(error) for (error,) in rows(desk, "select last_error from callboard.dead_letter")]
    assert any("550" in error and "mailbox unavailable" in error for error in errors)
    found = rows(desk, "select address, status from callboard.actor where address like '/crm/office%%'")
    states = {address: status for address, status in found}  # noqa: C416 - rows are tuples of any length
    assert states["/crm/office/digest"] == "paused"
    assert states["/crm/office/labels"] == "escalated"
    assert states["/crm/office/returns:R-1042"] == "parked"
    feed = "recipient = '/crm/office/feed:warehouse' and last_error like '%%503%%'"
    assert rows(desk, f"select 1 from callboard.message where {feed}"), "the feed keeps trying"


def test_the_refund_in_which_a_node_was_killed_is_made_once(desk: OpenDesk) -> None:
    sql = "select address from callboard.journal where body like %s and body like %s"
    found = rows(desk, sql, '%"recovered":true%', '%"refunded":%')
    assert found, "another node has found out what became of the refund"
    ((made,),) = rows(
        desk,
        "select count(*) from crm.expectation e join crm.payment p using (order_id)"
        " where e.ticket_id = %s and p.cause = 'refund'",
        str(found[0][0]).rpartition(":")[2].partition(".")[0],  # the run of the ticket has called it
    )
    assert made == 1


def test_a_colleague_has_decided_and_people_are_told_so(desk: OpenDesk) -> None:
    done = {str(action) for (action,) in rows(desk, "select action from callboard.audit where who = 'dana'")}
    assert done >= {"decide", "pause", "take back"}
    assert rows(desk, "select 1 from callboard.decision where status = 'released' and decided_by = 'dana'")
    assert rows(desk, "select 1 from callboard.decision where status = 'denied' and decided_by = 'dana'")


def test_new_tickets_go_on_coming_in(desk: OpenDesk) -> None:
    (known,) = rows(desk, "select count(*) from callboard.actor where address like '/crm/desk/agent:%%'")
    until(
        desk, f"select 1 from callboard.actor where address like '/crm/desk/agent:%%' having count(*) > {known[0]} + 2"
    )


def test_the_desk_and_its_nodes_end_with_whoever_opened_it_even_by_kill_9(server_dsn: str) -> None:
    program = (
        "import sys, threading\nfrom callboard.service.demo.desk import open_desk\n"
        "from callboard.service.demo.desk_house import HouseOptions\n"
        f"with open_desk({server_dsn!r}, HouseOptions(think_seconds=0.05)) as desk:\n"
        "    print(desk.pid, desk.dsn, sep='|', flush=True)\n    threading.Event().wait()\n"
    )
    opener = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    try:
        assert opener.stdout is not None
        pid, _, dsn = opener.stdout.readline().strip().partition("|")
        pause, end = threading.Event(), time.monotonic() + WAIT_SECONDS
        while len(nodes := children(int(pid))) != 2:  # one was killed, and another takes its place
            assert time.monotonic() < end, nodes
            pause.wait(0.1)
        opener.send_signal(signal.SIGKILL)
        opener.wait()
        end = time.monotonic() + WAIT_SECONDS
        while any(alive(one) for one in (int(pid), *nodes)):
            assert time.monotonic() < end, "the desk outlives who opened it"
            pause.wait(0.1)
    finally:
        opener.kill()
        opener.wait()
        assert opener.stdout is not None
        opener.stdout.close()
    assert dsn


def children(pid: int) -> list[int]:
    return [int(one) for task in Path(f"/proc/{pid}/task").glob("*/children") for one in read(task).split()]


def alive(pid: int) -> bool:
    state = read(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()
    return bool(state) and state[0] != "Z"


def read(path: Path) -> str:
    """What the system says of a thread or a process; "" where it has ended meanwhile."""
    try:
        return path.read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):  # the one before it was opened, the other one while it was read
        return ""


def test_a_desk_that_cannot_be_opened_says_why() -> None:
    with (
        pytest.raises(CallboardError, match="cannot be opened"),
        open_desk("postgresql://localhost:1/nothing", QUICK),
    ):
        pass


@pytest.mark.anyio
async def test_the_small_desk_holds_enough_for_it_too(dsn: str) -> None:
    """Where the retail data are not installed: the same tickets are there, a large refund with a claim among them."""
    from callboard.crm.load import load
    from callboard.crm.small_desk import read_small_desk
    from callboard.crm.tickets import make_tickets
    from callboard.persistence.postgres.database import Database
    from callboard.service.demo.desk_play import ABOVE_LIMIT, SEED, TICKETS
    from callboard.service.demo.desk_terms import LARGE_CENTS

    async with await Database.open(dsn) as owner:
        await install(owner)
        await load(owner, read_small_desk())
        await make_tickets(owner, TICKETS, seed=SEED, above_limit=ABOVE_LIMIT)
        grave = await owner.row(
            "select count(*) as found from crm.expectation e join crm.message m using (ticket_id) join crm.order_item i"
            " on i.order_id = e.order_id and i.position = e.item_position"
            " where i.unit_price_cents > %s and m.body like '%%has approved%%'",
            (LARGE_CENTS,),
        )
    assert grave == {"found": 1}
