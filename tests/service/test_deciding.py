"""Deciding through the service, on a real PostgreSQL: several people, take-backs, edits, and many at once."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import anyio
import pytest

from callboard.mailbox.errors import AlreadyDecided, NotAllowed, UsageError
from callboard.persistence.postgres import PostgresStore
from callboard.service.operations.argument_paths import REMOVED, parsed_changes, with_changes
from callboard.service.operations.decisions import Answer, Decisions
from callboard.service.operations.runs import Operations
from tests.service.conftest import APP, Cli, query

T = TypeVar("T")
YES = Answer("approved")
NOTED = Answer("approved", note="looked at it")


def as_(principal: str, dsn: str, work: Callable[[Decisions], Awaitable[T]]) -> T:
    """What somebody else does, on another machine."""

    async def session() -> T:
        async with PostgresStore(dsn) as store:
            return await work(Decisions(Operations(store, principal)))

    return anyio.run(session)


def held(cli: Cli, dsn: str, goal: str) -> tuple[str, str]:
    """A run that waits for people, and its approval."""
    document = cli("run", APP, goal, "--json", dsn=dsn).document
    assert document["status"] == "awaiting_approval"
    return document["run_id"], document["approvals"][0]["id"]


def go_on(cli: Cli, dsn: str, goal: str, run: str) -> Any:
    return cli("run", APP, goal, "--id", run, "--json", dsn=dsn).document


def shown(cli: Cli, dsn: str, approval: str) -> Any:
    return cli("approvals", "show", approval, "--json", dsn=dsn).document


# --- several people ---------------------------------------------------------------------------------------------


def test_two_people_approve_and_everything_shows_who_is_missing(cli: Cli, shared: str) -> None:
    run, approval = held(cli, shared, "close 100")
    said = cli("approve", approval, dsn=shared)
    assert said.code == 0 and "approved by 1 of 2" in said.out and "waits for 1 more" in said.out
    again = cli("approve", approval, dsn=shared)
    assert again.code == 5 and "(1 of 2)" in again.one_line()
    document = shown(cli, shared, approval)
    me = document["approved_by"][0]["by"]
    assert (document["status"], document["needed"], document["missing"]) == ("pending", 2, 1)
    assert document["approved_by"][0]["at"].endswith("Z")
    assert f"approved   1 of 2: {me}" in cli("approvals", "show", approval, dsn=shared).out
    assert "pending (1 of 2)" in cli("approvals", dsn=shared).out
    decided = as_("ann", shared, lambda decisions: decisions.decide(approval, YES))
    assert (decided.status, decided.decided_by) == ("approved", f"{me}, ann")
    assert go_on(cli, shared, "close 100", run)["status"] == "completed"
    text = cli("replay", run, dsn=shared).out
    assert f"APPROVED by {me}, ann" in text


def test_who_asked_may_not_approve_is_exit_4_and_says_so(cli: Cli, shared: str) -> None:
    _, approval = held(cli, shared, "close 300")
    said = cli("approve", approval, dsn=shared)
    assert said.code == 4 and "policy tool+four eyes wants somebody else" in said.one_line()
    document = shown(cli, shared, approval)
    assert document["may_not_approve"] == [document["requested_by"]]
    assert document["checks"] == [{"check": "customer_is_gone", "ok": False, "detail": "the customer still waits"}]
    text = cli("approvals", "show", approval, dsn=shared).out
    assert "not by" in text and "NOT customer_is_gone the customer still waits" in text
    with pytest.raises(UsageError, match=r"is of high risk .failed: customer_is_gone.; say in a note why"):
        as_("ann", shared, lambda decisions: decisions.decide(approval, YES))
    assert as_("ann", shared, lambda decisions: decisions.decide(approval, NOTED)).status == "approved"


# --- taking back ------------------------------------------------------------------------------------------------


def test_an_approval_is_taken_back_within_its_hold(cli: Cli, shared: str) -> None:
    run, approval = held(cli, shared, "close 200")
    said = cli("approve", approval, dsn=shared)
    why = "is of high risk (policy tool+slow); say in a note why it may go (--note"
    assert said.code == 2 and why in said.one_line()
    said = cli("approve", approval, "--note", "the customer called", dsn=shared)
    assert said.code == 0 and f"callboard take-back {approval} undoes it until" in said.out
    document = shown(cli, shared, approval)
    assert document["can_take_back"] is True and document["hold_seconds"] == 600.0
    assert f"until then: callboard take-back {approval}" in cli("approvals", "show", approval, dsn=shared).out
    back = cli("take-back", run, "--note", "wrong ticket", "--by", "desk", dsn=shared)
    assert back.code == 0 and "waits for people again" in back.out
    assert shown(cli, shared, approval)["status"] == "pending"
    again = cli("take-back", approval, dsn=shared)
    assert again.code == 5 and "no approval to take back" in again.one_line()
    kept = f"FROM callboard.audit WHERE object = '{approval}' ORDER BY number"
    rows = query(shared, f"SELECT label, action, before, after, note {kept}")
    assert rows[-1] == ("desk", "take back", "approved", "pending", "wrong ticket")
    go_on(cli, shared, "close 200", run)
    assert "TAKEN BACK" in cli("replay", run, dsn=shared).out


def test_what_went_cannot_be_taken_back_and_the_error_says_when(cli: Cli, shared: str) -> None:
    run, approval = held(cli, shared, "close 7")
    assert cli("approve", approval, dsn=shared).code == 0
    go_on(cli, shared, "close 7", run)
    for given in (run, approval):
        said = cli("take-back", given, dsn=shared)
        assert said.code == 5 and "let go at 20" in said.one_line()


# --- editing ----------------------------------------------------------------------------------------------------


def test_an_edit_without_a_node_is_recorded_and_nobody_can_approve_the_old_call(cli: Cli, shared: str) -> None:
    run, approval = held(cli, shared, "refund 129.00")
    said = cli("edit", approval, "--set", "amount_cents=6000", "--wait", "0", dsn=shared)
    assert said.code == 7 and not said.out and "recorded" in said.err
    late = cli("approve", approval, "--amount", "129.00", dsn=shared)
    assert late.code == 5 and "was superseded by" in late.one_line()
    go_on(cli, shared, "refund 129.00", run)
    late = cli("approve", approval, "--amount", "129.00", dsn=shared)
    new = cli("approvals", "show", run, "--json", dsn=shared).document
    assert late.code == 5 and f"asked anew as {new['id']}" in late.one_line()
    assert new["arguments"] == {"order_id": "A-1", "amount_cents": 6000} and new["replaces"] == approval
    assert new["diff"] == [{"path": "amount_cents", "before": 12900, "after": 6000}]
    text = cli("approvals", "show", new["id"], dsn=shared).out
    assert "amount_cents: 12900 -> 6000" in text and f"replaces   {approval}, changed by" in text
    assert cli("approve", new["id"], "--amount", "129.00", dsn=shared).code == 2
    assert cli("approve", new["id"], "--amount", "60.00", dsn=shared).code == 0
    done = go_on(cli, shared, "refund 129.00", run)
    assert done["status"] == "completed" and '"refunded":6000' in done["final_answer"]
    replayed = cli("replay", run, dsn=shared).out
    assert "CHANGED by" in replayed and "12900 -> 6000" in replayed


def test_an_edit_that_means_nothing_is_refused_before_anything_happens(cli: Cli, shared: str) -> None:
    _, approval = held(cli, shared, "close 8")
    for wrong in ((), ("--set", "ticket"), ("--set", "a.b=1"), ("--unset", "colour"), ("--set", "x=1", "--unset", "x")):
        said = cli("edit", approval, *wrong, dsn=shared)
        assert said.code == 2, said.err
        said.one_line()
    assert cli("edit", approval, "--set", "ticket=9", "--expect-digest", "0" * 12, dsn=shared).code == 5
    assert cli("edit", "nobody", "--set", "ticket=9", dsn=shared).code == 3
    assert shown(cli, shared, approval)["status"] == "pending"


# --- many at once -----------------------------------------------------------------------------------------------


def test_several_are_approved_at_once_with_one_result_each(cli: Cli, shared: str) -> None:
    (_, one), (_, two), (_, money) = (
        held(cli, shared, "close 1"),
        held(cli, shared, "close 2"),
        held(cli, shared, "refund 77"),
    )
    assert cli("deny", two, "--reason", "no", dsn=shared).code == 0
    wanted = (one, two, "nobody", money)
    said = cli("approve", *wanted, "--amount", f"{money}=77.00", "--json", dsn=shared)
    assert said.code == 5, "the first that failed"
    items = said.document["items"]
    assert said.document["schema"] == "callboard.decided/1"
    assert [item["given"] for item in items] == list(wanted)
    assert [item["ok"] for item in items] == [True, False, False, True]
    assert items[0]["approval"]["status"] == "approved"
    assert [item["problem"]["type"] for item in items if not item["ok"]] == ["already-decided", "not-found"]
    assert "denied by" in items[1]["problem"]["detail"]


def test_of_several_each_sum_of_money_is_still_asked_for(cli: Cli, shared: str) -> None:
    (_, one), (_, two) = held(cli, shared, "refund 51"), held(cli, shared, "refund 52")
    for amounts in ((), ("--amount", "51.00"), ("--amount", f"{one}=52.00", "--amount", f"{two}=51.00")):
        assert cli("approve", one, two, *amounts, dsn=shared).code == 2
    assert shown(cli, shared, one)["status"] == shown(cli, shared, two)["status"] == "pending"
    said = cli("approve", one, two, "--amount", f"{one}=51.00", dsn=shared)
    assert said.code == 2 and one in said.out and two in said.err
    assert shown(cli, shared, one)["status"] == "approved" and shown(cli, shared, two)["status"] == "pending"
    both = cli("deny", two, one, "--reason", "no", dsn=shared)
    assert both.code == 5 and two in both.out and "was approved by" in both.err


def test_one_call_or_digest_cannot_be_meant_of_several(cli: Cli, shared: str) -> None:
    (_, one), (_, two) = held(cli, shared, "close 3"), held(cli, shared, "close 4")
    for more in (("--call", "1"), ("--expect-digest", "a" * 12)):
        assert cli("approve", one, two, *more, dsn=shared).code == 2
    assert cli("approve", one, two, one, dsn=shared).out.count("\n") == 2, "named twice, decided once"


def test_the_same_in_python(cli: Cli, shared: str) -> None:
    (_, one), (_, two) = held(cli, shared, "close 300"), held(cli, shared, "close 100")
    requester = shown(cli, shared, one)["requested_by"]
    outcomes = as_(requester, shared, lambda decisions: decisions.decide_many([(one, YES), (two, YES), (two, YES)]))
    assert [type(outcome.error) for outcome in outcomes] == [NotAllowed, type(None), AlreadyDecided]
    assert outcomes[1].view is not None and outcomes[1].view.missing == 1


# --- paths ------------------------------------------------------------------------------------------------------


def test_values_are_json_where_they_can_be_read_as_that() -> None:
    found = parsed_changes(["a=40", "b=ann", 'c="40"', "d=null", "e=[1]", "f=x=y", "g="], ["h"])
    assert found == {"a": 40, "b": "ann", "c": "40", "d": None, "e": [1], "f": "x=y", "g": "", "h": REMOVED}


def test_paths_change_what_they_name_and_nothing_else() -> None:
    before = {"a": {"b": [{"c": 1}, {"c": 2}]}, "d.e": 5, "f": 6}
    changed = {"a.b[1].c": 9, "d.e": 7, "a.new": True, "f": REMOVED, "a.b[0]": REMOVED}
    assert with_changes(before, changed) == {"a": {"b": [{"c": 9}], "new": True}, "d.e": 7}
    assert before == {"a": {"b": [{"c": 1}, {"c": 2}]}, "d.e": 5, "f": 6}


@pytest.mark.parametrize(
    "path", ["a.x.y", "a.b[2]", "a.b.c", "f.g", "a..b", ".a", "a.", "[0]", "", "a.[0]", "a[b]", "a[0]x"]
)
def test_a_path_that_leads_nowhere_is_refused(path: str) -> None:
    with pytest.raises(UsageError, match=r"path|nowhere"):
        with_changes({"a": {"b": [{"c": 1}]}, "f": 6}, {path: 1})
