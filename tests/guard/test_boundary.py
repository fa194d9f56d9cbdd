"""The border works on each message once, however long the conversation has become."""

from typing import Any

import pytest

from callboard.actors.agent.boundary import Boundary
from callboard.actors.guard.profiles import PROFILES
from callboard.actors.llm.client import ChatMessage


@pytest.fixture
def worked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Contents of the messages that were worked on."""
    seen: list[str] = []
    protected = Boundary._protected

    def counted(self: Boundary, message: ChatMessage) -> ChatMessage:
        seen.append(message.content)
        return protected(self, message)

    monkeypatch.setattr(Boundary, "_protected", counted)
    return seen


def said(number: int) -> ChatMessage:
    return ChatMessage("user", f"message {number}")


def test_w30_each_message_is_worked_on_once_over_a_hundred_calls(worked: list[str]) -> None:
    boundary, messages = Boundary(PROFILES["standard"], "run", {}), list[ChatMessage]()
    for number in range(100):
        messages.append(said(number))
        assert [message.content for message in boundary.outgoing(messages)] == [m.content for m in messages]
    assert worked == [f"message {number}" for number in range(100)]


def test_a_conversation_that_was_shortened_shows_what_is_left_and_works_on_what_is_new(worked: list[str]) -> None:
    boundary, messages = Boundary(PROFILES["standard"], "run", {}), [said(number) for number in range(6)]
    boundary.outgoing(messages)
    shorter: list[Any] = [messages[0], said(99), *messages[4:]]
    assert [message.content for message in boundary.outgoing(shorter)] == [m.content for m in shorter]
    assert worked[6:] == ["message 99"]
    same = said(7)
    twice = [same, same]
    assert [message.content for message in boundary.outgoing(twice)] == ["message 7", "message 7"]
