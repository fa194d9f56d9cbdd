"""One look at a conversation: what is known by now, and which calls are still to be made. For models made of rules.

Every role of `DeskModel` is a function of a `Steps`: it gives the calls to make next, or the words that end the run.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from callboard.actors.llm.client import ToolSpec
from callboard.crm.policy import Policy
from callboard.crm.transcript import Call, Transcript

MAX_TRIES = 2
"""How often the model calls a tool that fails for no reason of its own."""

Wanted: TypeAlias = list[tuple[str, dict[str, Any]]]
"""Calls to make now: tool and arguments."""
Step: TypeAlias = str | Wanted
"""The calls to make now, or the words that end the run."""


class Steps:
    """A conversation, the tools that are there, and the limits that count."""

    def __init__(self, transcript: Transcript, tools: Sequence[ToolSpec], policy: Policy) -> None:
        self.transcript = transcript
        self.policy = policy
        self._tools = {tool.name: tool for tool in tools}

    def has(self, tool: str) -> bool:
        """Whether there is such a tool or agent."""
        return tool in self._tools

    def takes(self, tool: str, parameter: str) -> bool:
        """Whether the tool has such a parameter."""
        return tool in self._tools and parameter in self._tools[tool].parameters.get("properties", {})

    def missing(self, wanted: Wanted) -> Wanted:
        """Those calls that were not made, or failed for no reason of their own and may be tried again."""
        return [(name, arguments) for name, arguments in wanted if self.has(name) and not self._settled(name)]

    def _settled(self, name: str) -> bool:
        call = self.transcript.last(name)
        if call is None:
            return False
        return call.error is None or call.refusal_code is not None or self.transcript.times(name) >= MAX_TRIES

    def broken(self, wanted: Wanted) -> Call | None:
        """The first of the calls that did not work. "Not found" is an answer, not a failure."""
        for name, arguments in wanted:
            call = self.transcript.last(name)
            if call is None:
                return Call(name, arguments, {"error": "there is no such tool"})
            if call.error is not None and call.refusal_code != "not_found":
                return call
        return None

    def found(self, name: str) -> Mapping[str, Any] | None:
        """What the tool found when it was last called; None where it found nothing."""
        call = self.transcript.last(name)
        return call.result if call is not None and call.error is None else None
