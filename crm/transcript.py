"""A conversation seen as calls and their results: the memory of a model that has no other.

Results are matched to calls by id, never by position, because sibling calls finish in any order. Only what follows the
last instruction that names a ticket counts, so that one run can work several tickets.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from callboard.actors.agent.transcript import EDITED
from callboard.actors.guard.delimit import unmarked
from callboard.actors.llm.client import ChatMessage

_TICKET = re.compile(r"\bticket\s+([A-Za-z0-9][\w-]*)", re.IGNORECASE)


class Call(msgspec.Struct, frozen=True):
    """One tool call with what became of it."""

    name: str
    arguments: Mapping[str, Any]
    result: Mapping[str, Any]

    @property
    def error(self) -> str | None:
        """The sentence with which the tool, its gate or the runtime said no; None where it did what was asked."""
        error = self.result.get("error")
        return None if error is None else str(error)

    @property
    def refusal_code(self) -> str | None:
        """The code of a refusal by the desk's own tools; None where it worked, or failed for another reason."""
        code = self.result.get("code")
        return str(code) if self.error is not None and isinstance(code, str) else None


class Transcript:
    """What was asked, and what was called and answered since."""

    def __init__(self, messages: Sequence[ChatMessage]) -> None:
        self.ticket_id: str | None = None
        first = next((message.content for message in messages if message.role == "user"), "")
        self.request = unmarked(first)
        """What the run was begun with: of a child run, its typed request as JSON."""
        start = 0
        for position, message in enumerate(messages):
            named = ticket_named(message.content) if message.role == "user" else None
            if named is not None:
                self.ticket_id, start = named, position
        self.calls: list[Call] = list(_calls(messages[start:]))
        self.calls_before = sum(len(message.tool_calls) for message in messages)
        """Calls in the whole conversation: the number from which new ids count."""

    def times(self, name: str) -> int:
        """How often the tool was called."""
        return sum(call.name == name for call in self.calls)

    def last(self, name: str) -> Call | None:
        """The last call of the tool."""
        return next((call for call in reversed(self.calls) if call.name == name), None)

    def done(self, name: str) -> bool:
        """Whether the tool was called and did what was asked."""
        call = self.last(name)
        return call is not None and call.error is None


def ticket_named(instruction: str) -> str | None:
    """The ticket that an instruction is about, as in "Work ticket T-0001."; None where it names none."""
    found = _TICKET.search(instruction)
    return None if found is None else found[1]


def _calls(messages: Sequence[ChatMessage]) -> Iterator[Call]:
    answers = {message.tool_call_id: message.content for message in messages if message.role == "tool"}
    for message in messages:
        for call in message.tool_calls:
            yield Call(call.name, call.arguments, _result(answers.get(call.id)))


def _result(content: str | None) -> Mapping[str, Any]:
    if content is None:
        return {"error": "the call was not answered"}
    said = unmarked(content)
    if said.startswith(EDITED):
        said = said.partition("\n")[2]  # what a person changed is no news here: the result tells what was done
    try:
        result = json.loads(said)
    except ValueError:
        return {"error": said}  # the runtime's own sentences, such as a denial, may come as plain text
    return result if isinstance(result, dict) else {"error": content}
