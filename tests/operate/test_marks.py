"""Waits, changes of node, time and cost: found in a journal as they are."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pytest

from callboard import InMemoryStore, LLMClient, LLMResponse, Runtime
from callboard.actors.agent.budget import Budget
from callboard.actors.agent.events import (
    ApprovalExpired,
    ApprovalGranted,
    ApprovalRequested,
    ChildEnded,
    LLMCallCompleted,
    LLMCallFailed,
    LLMCallRequested,
    ProviderDown,
    ProviderWaited,
    RunCompleted,
    RunStarted,
    ToolCallCompleted,
    ToolCallInDoubt,
    ToolCallRequested,
    ToolCallSettled,
)
from callboard.actors.agent.runs import Recorded
from callboard.actors.llm.client import ChatMessage, ToolSpec
from callboard.actors.llm.provider import Provider
from callboard.mailbox.message import wire
from callboard.service.operations.runs import Operations
from callboard.service.operations.spending import UNNAMED, own_spending, spending_document
from callboard.service.trace import Teller
from callboard.service.trace_marks import Marks, Move, Wait, read_marks

BEGAN = 1_800_000_000.0


def journal(*told: tuple[float, int, Any]) -> list[Recorded]:
    """(seconds from the beginning, node, event) as a journal."""
    return [
        Recorded(seq, BEGAN + at, node, wire(type(event)).name, event) for seq, (at, node, event) in enumerate(told, 1)
    ]


START = RunStarted("r", "do it", BEGAN, Budget())
HELD = ApprovalRequested(1, 1, "pay", {"amount": 7}, "much", "r.1", "d", 5, "key")


def test_a_wait_for_a_person_is_one_line_with_how_long_and_what_came_of_it() -> None:
    events = journal(
        (0, 1, START),
        (1, 1, HELD),
        (1 + 2 * 3600 + 13 * 60, 1, ApprovalGranted(1, "r.1", "ann")),
    )
    _, waits, moves = read_marks(events)
    assert waits == [Wait("decision", 2, 3, 7980.0, "ann approved", 1, "r.1")] and not moves
    teller = Teller()
    lines = [line.text for event in events for line in teller.tell(event)]
    assert "  ┄┄ waited 2 h 13 min for a decision: ann approved ┄┄" in lines


def test_a_wait_that_nobody_ended_goes_on_or_expires() -> None:
    marks = Marks()
    for event in journal((0, 1, START), (1, 1, HELD)):
        assert not marks.feed(event)
    assert marks.open_waits(BEGAN + 61) == [Wait("decision", 2, 0, 60.0, "", 1, "r.1")]
    assert marks.account(BEGAN + 61).parts == {"callboard": 1.0, "people": 60.0}
    (wait,) = marks.feed(Recorded(3, BEGAN + 91, 1, "x", ApprovalExpired(1, 1, "pay", "r.1")))
    assert isinstance(wait, Wait) and (wait.seconds, wait.outcome) == (90.0, "nobody decided")
    assert not marks.open_waits(BEGAN + 99)


def test_a_call_in_doubt_waits_until_somebody_says_what_became_of_it() -> None:
    _, waits, _ = read_marks(
        journal(
            (0, 1, START),
            (1, 1, ToolCallRequested(1, 1, "pay", {}, "key", 5)),
            (2, 2, ToolCallInDoubt(1, 1, "pay", "r.1", "d", "its node died")),
            (302, 2, ToolCallSettled(1, 1, "pay", True, "bo")),
        )
    )
    (wait,) = waits
    assert (wait.kind, wait.seconds, wait.outcome) == ("in-doubt", 300.0, "bo said it had happened")


def test_a_provider_that_is_away_is_one_wait_however_often_it_was_tried() -> None:
    _, waits, _ = read_marks(
        journal(
            (0, 1, START),
            (0, 1, LLMCallRequested(1, 4)),
            (1, 1, LLMCallFailed(1, 1, "503")),
            (5, 1, ProviderWaited(1, "503", BEGAN + 5)),
            (3605, 1, ProviderDown(1, BEGAN + 1, "503")),
            (4005, 1, LLMCallCompleted(1, "hi", latency_ms=500)),
        )
    )
    assert waits == [Wait("provider", 4, 6, 4000.0, "the model answered")]


def test_a_back_off_is_a_wait_without_the_time_of_the_attempt_itself() -> None:
    _, waits, _ = read_marks(
        journal(
            (0, 1, START),
            (0, 1, LLMCallRequested(1, 4)),
            (1, 1, LLMCallFailed(1, 1, "429")),
            (31.5, 1, LLMCallCompleted(1, "hi", latency_ms=500, attempt=2)),
        )
    )
    assert waits == [Wait("retry", 3, 4, 30.0, "it was tried again")]


def test_a_change_of_node_names_what_is_kept_and_what_was_under_way() -> None:
    _, _, moves = read_marks(
        journal(
            (0, 1, START),
            (0, 1, LLMCallRequested(1, 4)),
            (1, 1, LLMCallCompleted(1, "")),
            (1, 1, ToolCallRequested(1, 1, "look", {}, "key-1", 5)),
            (1, 1, ToolCallRequested(1, 2, "pay", {}, "key-2", 6)),
            (2, 1, ToolCallCompleted(1, 1, "look", {})),
            (3.5, 2, ToolCallCompleted(1, 2, "pay", {}, recovered=True)),
        )
    )
    assert moves == [Move(7, 1, 2, 1.5, 1, 1, ["call 2 pay, sent under its key key-2"])]


def test_each_moment_of_a_run_is_counted_once() -> None:
    events = journal(
        (0, 1, START),
        (1, 1, LLMCallRequested(1, 4)),
        (3, 1, LLMCallCompleted(1, "")),
        (3, 1, HELD),
        (3, 1, ToolCallRequested(1, 2, "look", {}, "key-2", 6)),
        (7, 1, ToolCallCompleted(1, 2, "look", {})),
        (15, 1, ApprovalGranted(1, "r.1", "ann")),
        (15, 1, ToolCallRequested(1, 1, "pay", {}, "key", 5, decision="r.1")),
        (31, 2, ToolCallCompleted(1, 1, "pay", {}, recovered=True)),
        (31, 2, RunCompleted("done", 1, 0, Decimal(0))),
    )
    account = read_marks(events)[0].account(BEGAN + 999)
    assert account.seconds == 31.0, "a run that has ended takes no more time"
    assert account.parts == {
        "callboard": 1.0,
        "models": 2.0,
        "tools": 4.0,
        "people": 8.0,
        "changes of node": 16.0,
    }
    assert (account.recovered, account.nodes) == (1, [1, 2])


def test_cost_is_by_model_and_an_attempt_that_failed_counts_to_the_only_one_there_is() -> None:
    paid = Decimal("0.25")
    one = LLMCallCompleted(1, "", input_tokens=10, output_tokens=2, cost_usd=paid, model="small")
    events = [LLMCallFailed(1, 1, "cut", cost_usd=Decimal("0.05")), one, one]
    (spend,) = own_spending(events)
    assert (spend.model, spend.answers, spend.failed) == ("small", 2, 1)
    assert (spend.input_tokens, spend.output_tokens, spend.cost_usd) == (20, 4, Decimal("0.55"))
    other = LLMCallCompleted(2, "", cost_usd=paid, model="large")
    assert {one.model: one.cost_usd for one in own_spending([*events, other])} == {
        "small": Decimal("0.50"),
        "large": paid,
        UNNAMED: Decimal("0.05"),
    }


def test_what_a_child_spent_is_not_counted_as_the_run_s_own() -> None:
    ended = ChildEnded(1, "expert", "/desk/run:r.1", "completed", 3, 2, 100, 10, Decimal("1.5"))
    assert own_spending([START, ended]) == []


@pytest.mark.parametrize("events", [[], journal((0, 1, START))])
def test_a_journal_with_next_to_nothing_in_it_is_no_trouble(events: list[Recorded]) -> None:
    marks, waits, moves = read_marks(events)
    assert not waits and not moves
    assert marks.account().seconds == 0.0


class Named(LLMClient):
    model = "small-1"

    async def call(
        self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpec], system_prompt: str = ""
    ) -> LLMResponse:
        return LLMResponse("hi", input_tokens=1_000, output_tokens=10, cost_usd=Decimal("0.002"))


@pytest.mark.anyio
@pytest.mark.parametrize("llm", [Named(), Provider(Named())])
async def test_cost_names_the_model_that_answered_also_behind_a_provider_s_limits(llm: LLMClient) -> None:
    store = InMemoryStore()
    async with Runtime(store=store, llm=llm, tools=[]) as runtime:
        run = await runtime.start(goal="say hi")
        trace = await Operations(store, "me").trace(run.id)
    assert spending_document(trace.spending) == [
        {
            "model": "small-1",
            "run": None,
            "answers": 1,
            "failed_attempts": 0,
            "input_tokens": 1_000,
            "output_tokens": 10,
            "cost": {"value": "0.002", "currency": "USD"},
        }
    ]
    lines = [line.text for event in trace.events for line in Teller().tell(event)]
    assert any("model small-1 answered" in line and "0.002 USD" in line for line in lines)
