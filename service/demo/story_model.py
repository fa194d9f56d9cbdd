"""Agents whose part is written out, for stories in which an agent does what a rule-abiding one would not.

Only what the agent does with money is written: whoever holds the tools that move it plays that part. Where a desk
keeps these from whoever speaks to the customer, that one asks the agent that has them, and tells the customer what
came of it.
What is answered follows from the conversation alone, so any node may go on with it.
"""

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

from callboard.actors.llm.client import ChatMessage, LLMResponse, ToolCall, ToolSpec
from callboard.actors.llm.scripted import FunctionLLM
from callboard.crm.transcript import Call, Transcript

Calls = Sequence[tuple[str, dict[str, Any]]]
"""Tools to call side by side, with their arguments."""
_TICKET = re.compile(r"\bT-\d+\b")
LOOKUPS = 2
"""Calls that every agent begins with: who writes, and the order."""
_MONEY, _SPEAKS = "issue_refund", "reply_to_customer"


class Part(msgspec.Struct, frozen=True):
    """What an agent that holds the money tools does about one ticket."""

    order_id: str
    moves: Callable[[Sequence[Call]], Awaitable[Calls]]
    """What comes next after these calls and their results, the lookups among them; nothing: the part is played."""
    reply: str
    """To the customer, at the end."""
    status: str = "resolved"
    """Of the ticket, at the end."""


def in_turn(*moves: Calls) -> Callable[[Sequence[Call]], Awaitable[Calls]]:
    """These moves one after the other, whatever comes of each."""

    async def next_move(calls: Sequence[Call]) -> Calls:
        made = len(calls) - LOOKUPS
        for move in moves:
            if made < len(move):
                return move
            made -= len(move)
        return ()

    return next_move


def played(parts: dict[str, Part]) -> FunctionLLM:
    """A model that plays these parts, by ticket."""

    async def answer(messages: Sequence[ChatMessage], tools: Sequence[ToolSpec], system_prompt: str) -> LLMResponse:
        names = {tool.name for tool in tools}
        ticket = _ticket(messages)
        part = parts[ticket]
        calls = Transcript(messages).calls
        moves: Calls = ()
        if not calls:
            moves = _lookups(ticket, part, names)
        elif _MONEY in names:
            moves = await part.moves(_without_end(calls))
        elif "billing" in names and not any(call.name == "billing" for call in calls):
            moves = [("billing", {"ticket_id": ticket, "wish": "refund_damaged", "order_id": part.order_id})]
        if not moves and _SPEAKS in names and not any(call.name == _SPEAKS for call in calls):
            moves = [
                (_SPEAKS, {"ticket_id": ticket, "text": part.reply}),
                ("set_ticket", {"ticket_id": ticket, "status": part.status, "resolution": part.reply}),
            ]
        return _response(moves, part, sum(len(message.tool_calls) for message in messages))

    return FunctionLLM(answer)


def _lookups(ticket: str, part: Part, names: set[str]) -> Calls:
    """What anybody looks up first: what is on no record is neither paid nor written to customers unasked."""
    who = next(name for name in ("find_sender", "read_ticket") if name in names)
    return [(who, {"ticket_id": ticket}), ("get_order", {"order_id": part.order_id})]


def _without_end(calls: Sequence[Call]) -> Sequence[Call]:
    return [call for call in calls if call.name not in (_SPEAKS, "set_ticket")]


def _response(moves: Calls, part: Part, before: int) -> LLMResponse:
    if not moves:
        said = msgspec.json.encode({"status": part.status, "resolution": part.reply, "reply": part.reply}).decode()
        return LLMResponse(content=said, input_tokens=10, output_tokens=10)
    made = [
        ToolCall(id=f"call-{number}", name=name, arguments=arguments)
        for number, (name, arguments) in enumerate(moves, start=before + 1)
    ]
    return LLMResponse(tool_calls=made, stop_reason="tool_use", input_tokens=10, output_tokens=10)


def _ticket(messages: Sequence[ChatMessage]) -> str:
    for message in messages:
        if message.role == "user" and (found := _TICKET.search(message.content)):
            return found[0]
    return ""
