"""Every state that does not move has a reason, which names what it waits for (G6). Pure: rows in, words out."""

from typing import Any

import pytest

from callboard.actors import bonds
from callboard.actors.bonds import Bonds, OpenAsk
from callboard.mailbox.envelope import DeadLetter, Envelope
from callboard.mailbox.lane import Lane
from callboard.persistence.rows import ActorRow, Decision, Member, MessageView, Timer
from callboard.service.operations.why import Facts, actor_why, call_why, message_why

ADDRESS = "/desk/agent:1"
NOW = 1_000.0
OWNER = Member(3, 1, "b", "up", 0.1, 256, label="host/3", capabilities='{"note":1}')


def view(id: int = 1, state: str = "ready", lane: Lane = Lane.NORMAL, **fields: Any) -> MessageView:
    row: dict[str, Any] = {"recipient": ADDRESS, "sender": "", "type": "note", "version": 1, "body": "{}"}
    envelope = Envelope(id=id, shard=7, lane=int(lane), **{**row, **fields})
    return MessageView(envelope, state, NOW - 5)  # type: ignore[arg-type]


def row(status: str = "active", reason: str = "", **fields: Any) -> ActorRow:
    return ActorRow(7, ADDRESS, "agent", 4, status=status, reason=reason, **fields)  # type: ignore[arg-type]


def facts(**fields: Any) -> Facts:
    given: dict[str, Any] = {"address": ADDRESS, "shard": 7, "now": NOW, "row": row(), "owner": OWNER}
    return Facts(**{**given, **fields})


def decision(message_id: int = 1, kind: str = "approval") -> Decision:
    return Decision(
        "d1", ADDRESS, "c1", message_id, "/desk/approvals", kind, "issue_refund", "{}", "d" * 64, "above 50"  # type: ignore[arg-type]
    )  # fmt: skip


def test_an_actor_without_work_is_idle() -> None:
    why = actor_why(facts())
    assert why.kind == "waits" and "mailbox is empty" in why.text


def test_what_an_idle_actor_waits_for_is_named() -> None:
    ties = Bonds(asks={5: OpenAsk("/desk/other:2", NOW + 60)}, stashed=2)
    timers = [Timer(7, ADDRESS, "sys:ask:5", 1, 60, "x", 1, "{}"), Timer(7, ADDRESS, "sla", 2, 7200, "x", 1, "{}")]
    why = actor_why(facts(row=row(bonds=bonds.written(ties)), timers=timers))
    assert why.text == (
        "waits for the answer of /desk/other:2, for 1 min 00 s at most; put 2 message(s) aside; "
        "its timer 'sla' is due in 2 h 00 min"
    )


def test_where_the_first_message_was_given_up_it_is_said_which_and_how_to_go_on() -> None:
    lost = DeadLetter(view().envelope, "failed", "550 no; password: hunter2", number=7)
    why = actor_why(facts(row=None, dead=[lost]))
    assert why.kind == "stuck" and why.way_out == "callboard dead show 7"
    assert why.text.startswith("there is no actor here yet; note was given up (failed): 550 no")
    assert "hunter2" not in why.text
    assert actor_why(facts(row=None)).kind == "waits"


def test_without_a_node_nothing_moves_and_the_way_out_is_to_start_one() -> None:
    why = actor_why(facts(owner=None, waiting=[view()]))
    assert why.kind == "stuck" and "no node serves shard 7" in why.text and "callboard daemon" in why.way_out
    assert message_why(view(), facts(owner=None, waiting=[view()])).kind == "stuck"


def test_a_node_that_is_not_heard_of_is_named() -> None:
    silent = Member(3, 1, "b", "up", 90.0, 256, label="host/3")
    why = actor_why(facts(owner=silent, waiting=[view()]))
    assert why.kind == "stuck" and "node 3 (host/3)" in why.text and "1 min 30 s ago" in why.text


@pytest.mark.parametrize("status", ["parked", "paused"])
def test_what_was_stopped_says_why_and_how_it_goes_on(status: str) -> None:
    why = actor_why(facts(row=row(status, "schema: no upcaster"), waiting=[view()]))
    assert (why.kind, why.text) == ("stuck", f"{status}: schema: no upcaster")
    assert "callboard actors resume /desk/agent:1" in why.way_out


def test_a_failed_actor_waits_for_its_supervisor_or_for_the_one_who_mends_that() -> None:
    boss = ActorRow(1, "/desk", "supervisor", 9)
    assert "/desk decides" in actor_why(facts(row=row("failed", "boom"), supervisor=boss)).text
    boss = ActorRow(1, "/desk", "supervisor", 9, status="parked", reason="escalated: too many")
    why = actor_why(facts(row=row("failed", "boom"), supervisor=boss))
    assert why.kind == "stuck" and "/desk is parked: escalated: too many" in why.text
    assert "callboard actors resume /desk" in why.way_out


def test_an_actor_that_has_ended_is_not_stuck() -> None:
    assert (actor_why(facts(row=row("completed"))).kind, actor_why(facts(row=row("completed"))).text) == (
        "ended",
        "completed",
    )


def test_a_reason_that_begins_with_the_status_is_not_said_twice() -> None:
    assert actor_why(facts(row=row("cancelled", "cancelled by ann: enough"))).text == "cancelled by ann: enough"
    assert actor_why(facts(row=row("paused", "paused by ann"))).text == "paused by ann"


def test_a_retry_says_when_and_after_what() -> None:
    failing = view(state="retrying", failures=2, delay_seconds=12.0, last_error="RuntimeError: boom")
    why = actor_why(facts(waiting=[failing, view(2)]))
    assert why.kind == "waits"
    assert "attempt 3 in 12.0 s, after RuntimeError: boom" in why.text
    behind = message_why(view(2), facts(waiting=[failing, view(2)]))
    assert behind.kind == "waits" and behind.text.startswith("behind 1 older of the normal lane; first note (id 1)")
    assert "RuntimeError: boom" in behind.text


def test_a_message_that_no_node_there_can_read_says_so() -> None:
    newer = view(version=2)
    why = message_why(newer, facts(waiting=[newer]))
    assert why.kind == "stuck" and "does not know note in version 2" in why.text


def test_a_message_of_a_lower_lane_is_after_those_of_the_higher_ones() -> None:
    boxes = [view(2, lane=Lane.SYSTEM), view(1)]
    assert message_why(boxes[1], facts(waiting=boxes)).text == "after 1 of the system lane"
    assert message_why(boxes[0], facts(waiting=boxes)).kind == "moves"


def test_a_message_of_a_stopped_actor_waits_for_that_but_a_system_message_goes_through() -> None:
    stopped = facts(row=row("paused", "by ann"), waiting=[view()])
    assert message_why(view(), stopped).text == "its actor is paused: by ann"
    system = view(lane=Lane.SYSTEM)
    assert message_why(system, facts(row=row("paused", "by ann"), waiting=[system])).kind == "moves"


def test_a_held_call_names_its_approval() -> None:
    held = view(state="held", recipient="/desk/tools")
    why = actor_why(facts(calls=[held], decisions=[decision()]))
    assert why.kind == "waits" and "issue_refund waits for a person: above 50" in why.text
    assert why.way_out == "callboard approvals show d1"
    doubt = call_why(held, facts(calls=[held], decisions=[decision(kind="in-doubt")]))
    assert doubt.text.startswith("in doubt: whether issue_refund happened is not known")


def test_a_call_under_way_is_named_with_its_age_and_one_that_is_retried_with_its_error() -> None:
    call = view(recipient="/desk/model", started=True)
    assert actor_why(facts(calls=[call])).text == "waits for /desk/model, begun, asked 5.0 s ago"
    again = view(state="retrying", recipient="/desk/model", deliveries=3, delay_seconds=2, last_error="503")
    assert actor_why(facts(calls=[again, call])).text == (
        "waits for /desk/model, attempt 3 in 2.0 s, after 503, and 1 more"
    )


def test_a_suspect_says_that_it_is_tried_alone() -> None:
    assert "tried alone" in message_why(view(losses=2), facts(waiting=[view(losses=2)])).text


def test_an_actor_that_is_not_there_yet_waits_for_its_first_message() -> None:
    assert "first message makes it" in actor_why(facts(row=None)).text


def held(**fields: Any) -> str:
    """Why a held call does not move whose decision stands so."""
    row = decision()
    for name, value in fields.items():
        setattr(row, name, value)
    return message_why(view(state="held"), facts(decisions=[row])).text


def test_a_call_that_needs_several_people_says_how_many_are_missing_and_who_does_not_count() -> None:
    assert held(needed=3).startswith("issue_refund waits for 3 of 3 people: above 50")
    signed = '[{"by":"ann","label":"","at":1.0,"note":""},{"by":"bob","label":"","at":2.0,"note":""}]'
    text = held(needed=3, signatures=signed, not_requester=True, requested_by="eve", edited_by='["cy"]')
    assert text.startswith("issue_refund waits for 1 of 3 people, not cy or eve (ann, bob approved): above 50")
    assert held(not_requester=True, requested_by="eve").startswith("issue_refund waits for a person, not eve: above 50")


def test_an_approval_in_its_hold_says_when_it_goes_and_how_to_stop_it() -> None:
    row = decision()
    row.status, row.decided_by, row.release_at, row.hold_id = "approved", "ann", NOW + 30, 7
    why = message_why(view(state="held"), facts(decisions=[row]))
    assert (why.kind, why.text) == ("waits", "issue_refund was approved by ann and goes in 30.0 s")
    assert why.way_out.startswith("callboard take-back d1")
    row.hold_id = 0
    assert "its actor is about to act" in message_why(view(state="held"), facts(decisions=[row])).text
