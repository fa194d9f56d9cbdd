"""The conversation, rebuilt from the journal: answers in the order of the calls, whoever came first."""

from collections.abc import Sequence

from callboard.actors.agent.budget import Budget
from callboard.actors.agent.events import (
    ApprovalDenied,
    ApprovalExpired,
    ApprovalGranted,
    ApprovalRequested,
    LLMCallCompleted,
    LLMCallRequested,
    MessageTold,
    RequestedCall,
    RunStarted,
    ToolCallCompleted,
    ToolCallFailed,
    ToolCallInDoubt,
    ToolCallRequested,
    ToolCallSettled,
)
from callboard.actors.agent.transcript import Transcript
from callboard.actors.llm.client import ChatMessage, ToolCall
from callboard.mailbox.message import Message

STARTED = RunStarted("r", "go", 0.0, Budget(), system_prompt="be kind")


def answered(*names: str, id: str = "c") -> LLMCallCompleted:
    calls = [RequestedCall(f"{id}{n}" if id else "", name, {"n": n}, opaque="o") for n, name in enumerate(names, 1)]
    return LLMCallCompleted(1, "thinking", calls)


def told(events: Sequence[Message]) -> list[tuple[str, str]]:
    transcript = Transcript()
    transcript.feed(events)
    return [(message.role, message.content) for message in transcript.messages]


def test_the_goal_comes_first_and_the_system_prompt_stands_beside() -> None:
    transcript = Transcript()
    transcript.feed([STARTED])
    assert (transcript.messages, transcript.system_prompt) == ([ChatMessage("user", "go")], "be kind")


def test_answers_come_in_the_order_of_the_calls() -> None:
    events = [
        STARTED,
        answered("a", "b", "c"),
        ToolCallRequested(1, 1, "a", {}, "k", 1),
        ToolCallCompleted(1, 3, "c", {"result": 3}),
        ToolCallCompleted(1, 1, "a", {"result": 1}),
        ToolCallFailed(1, 2, "b", "no", final=False),
        ToolCallFailed(1, 2, "b", "broken"),
    ]
    assert [role for role, _ in told(events)] == ["user", "assistant"]
    assert told([*events, LLMCallRequested(2, 2)])[2:] == [
        ("tool", '{"result":1}'),
        ("tool", "Error: broken"),
        ("tool", '{"result":3}'),
    ]


def test_each_answer_names_its_call_as_the_model_did() -> None:
    for name in ("c", ""):
        transcript = Transcript()
        transcript.feed([STARTED, answered("a", "a", id=name), LLMCallRequested(2, 2)])
        asked, *answers = transcript.messages[1:]
        assert asked.tool_calls[0] == ToolCall("c1" if name else "", "a", {"n": 1}, opaque="o")
        assert [answer.tool_call_id for answer in answers] == [call.id for call in asked.tool_calls]
        assert {answer.tool_name for answer in answers} == {"a"}


def test_what_people_decided_is_an_answer() -> None:
    events = [
        STARTED,
        answered("a", "b", "c", "d", "e"),
        ApprovalRequested(1, 1, "a", {}, "", "r.1", "d", 1),
        ApprovalGranted(1, "r.1", "ann"),
        ToolCallCompleted(1, 1, "a", {"ok": True}),
        ApprovalDenied(1, 2, "b", "r.2", "ann", "no receipt"),
        ApprovalDenied(1, 3, "c", "r.3", "ann"),
        ApprovalExpired(1, 4, "d", "r.4"),
        ToolCallInDoubt(1, 5, "e", "r.5", "d", "?"),
        ToolCallSettled(1, 5, "e", True, "ann", "seen"),
        LLMCallRequested(2, 2),
    ]
    assert [text for _, text in told(events)[2:]] == [
        '{"ok":true}',
        "Error: approval denied: no receipt",
        "Error: approval denied: no reason given",
        "Error: approval expired: nobody decided in time",
        '{"confirmed":"e did happen","by":"ann","note":"seen"}',
    ]


def test_what_did_not_happen_is_answered_by_the_attempt_that_follows() -> None:
    events = [
        STARTED,
        answered("a"),
        ToolCallInDoubt(1, 1, "a", "r", "d", "?"),
        ToolCallSettled(1, 1, "a", False, "ann"),
    ]
    events += [ToolCallCompleted(1, 1, "a", {"ok": 1}), LLMCallRequested(2, 2)]
    assert told(events)[2:] == [("tool", '{"ok":1}')]


def test_calls_are_numbered_through_the_run() -> None:
    events = [
        STARTED,
        answered("a", "b"),
        ToolCallCompleted(1, 1, "a", {"n": 1}),
        ToolCallCompleted(1, 2, "b", {"n": 2}),
    ]
    events += [LLMCallRequested(2, 2), answered("a"), ToolCallCompleted(2, 3, "a", {"n": 3}), LLMCallRequested(3, 3)]
    assert [text for role, text in told(events) if role == "tool"] == ['{"n":1}', '{"n":2}', '{"n":3}']


def test_what_people_say_comes_after_the_answers() -> None:
    events = [STARTED, MessageTold("early"), LLMCallRequested(1, 1), MessageTold("hurry"), answered("a")]
    events += [MessageTold("please"), ToolCallCompleted(1, 1, "a", {"ok": 1}), LLMCallRequested(2, 2)]
    assert told(events) == [
        ("user", "go"),
        ("user", "early"),
        ("assistant", "thinking"),
        ("tool", '{"ok":1}'),
        ("user", "hurry"),
        ("user", "please"),
    ]


def test_feeding_in_pieces_is_feeding_at_once() -> None:
    events = [STARTED, LLMCallRequested(1, 1), answered("a"), MessageTold("x"), ToolCallCompleted(1, 1, "a", {})]
    events += [LLMCallRequested(2, 2), answered()]
    whole, parts = Transcript(), Transcript()
    whole.feed(events)
    for event in events:
        parts.feed([event])
    assert (parts.messages, parts.seq) == (whole.messages, len(events))


def test_a_lone_surrogate_in_a_result_is_an_escape_for_the_model() -> None:
    events = [STARTED, answered("a"), ToolCallCompleted(1, 1, "a", {"text": "\ud800\x00"}), LLMCallRequested(2, 2)]
    text = told(events)[-1][1]
    assert text == '{"text":"\\ud800\\u0000"}'
    text.encode()
