"""The gate: what happens to a call that a model asked for, before anything happens. A pure function.

Order: does the tool exist, could the arguments be read, do they fit, does a rule ask for a person. Only then may it go.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from .arguments import Arguments, InvalidArguments
from .events import RequestedCall
from .text import row_text
from .tool import Tool


@dataclass(frozen=True)
class Refuse:
    """The model gets this error; the tool never sees the call."""

    error: str


@dataclass(frozen=True)
class Hold:
    """A person has to release it; `reason` says why it asks."""

    tool: Tool
    arguments: Arguments
    reason: str


@dataclass(frozen=True)
class Go:
    """It may be made."""

    tool: Tool
    arguments: Arguments


def judge(call: RequestedCall, tools: Mapping[str, Tool]) -> Refuse | Hold | Go:
    """What becomes of a requested call."""
    tool = tools.get(call.name)
    if tool is None:
        return Refuse(f"unknown tool: {call.name[:80]}; known are {', '.join(sorted(tools)) or 'none'}")
    if call.problem:
        return Refuse(f"invalid arguments: {call.problem}")
    try:
        arguments = tool.validate(call.arguments)
    except InvalidArguments as error:
        return Refuse(f"invalid arguments: {error.problem}")
    reason = tool.gate(arguments)
    return Go(tool, arguments) if reason is None else Hold(tool, arguments, row_text(reason))
