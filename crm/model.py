"""`DeskModel`: a model that follows the desk's policy by rules, so that the demo and its tests need no network.

It is a pure function of (messages, tools, system prompt), as a real model is to its runtime: it reads the limits from
the policy in its system prompt, the ticket and the records from tool results, and nothing from anywhere else. The same
conversation gets the same answer on any node, before and after a crash.

Invariant: a money tool is called once per ticket. Whatever comes back, the model never tries again by itself; repeating
is the runtime's business, under one key.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from callboard.actors.llm.client import ChatMessage, LLMClient, LLMResponse, ToolCall, ToolSpec
from callboard.crm.decision import (
    Answer,
    Cancel,
    Refund,
    after_money,
    decide,
    handed_over,
    identified,
    not_identified,
    which_order,
)
from callboard.crm.policy import Policy, dollars, parse_policy
from callboard.crm.reading import read_request
from callboard.crm.transcript import Call, Transcript

MAX_TRIES = 2
"""How often the model calls a tool that fails for no reason of its own."""

Wanted = list[tuple[str, dict[str, Any]]]


class DeskModel(LLMClient):
    """Works one ticket at a time. Costs nothing; token counts are estimated as a quarter of the characters."""

    async def call(
        self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpec], system_prompt: str = ""
    ) -> LLMResponse:
        """Give the next tool calls, or the final sentence. Raises PolicyUnreadable where the prompt has no limits."""
        transcript = Transcript(messages)
        step = _Desk(transcript, frozenset(tool.name for tool in tools), parse_policy(system_prompt)).next_step()
        asked = len(system_prompt) + sum(len(message.content) for message in messages)
        if isinstance(step, str):
            return LLMResponse(content=step, input_tokens=asked // 4, output_tokens=len(step) // 4)
        calls = [
            ToolCall(id=f"call-{transcript.calls_before + number}", name=name, arguments=arguments)
            for number, (name, arguments) in enumerate(step, start=1)
        ]
        answered = sum(len(call.name) + len(json.dumps(call.arguments)) for call in calls)
        return LLMResponse(
            tool_calls=calls, stop_reason="tool_use", input_tokens=asked // 4, output_tokens=answered // 4
        )


class _Desk:
    """One look at the conversation: what is known, and therefore what comes next."""

    def __init__(self, transcript: Transcript, tools: frozenset[str], policy: Policy) -> None:
        self._transcript = transcript
        self._tools = tools
        self._policy = policy

    def next_step(self) -> str | Wanted:
        """The calls to make now, or the sentence that ends the run."""
        ticket_id = self._transcript.ticket_id
        if ticket_id is None:
            return "Tell me which ticket to work, as in: Work ticket T-0001."
        wanted = self._missing([("read_ticket", {"ticket_id": ticket_id})])
        if wanted:
            return wanted
        ticket = self._transcript.last("read_ticket")
        if ticket is None or ticket.error is not None:
            return f"Ticket {ticket_id} could not be read: {ticket.error if ticket else 'there is no tool for it'}."
        answer = self._answer(ticket_id, ticket.result)
        return self._close(ticket_id, answer) if isinstance(answer, Answer) else answer

    def _answer(self, ticket_id: str, ticket: Mapping[str, Any]) -> Answer | Wanted:
        request = read_request(ticket)
        if len(request.order_ids) != 1:
            return which_order(request)
        lookups: Wanted = [
            ("find_contact", {"email": request.sender}),
            ("get_order", {"order_id": request.order_ids[0]}),
        ]
        if wanted := self._missing(lookups):
            return wanted
        if broken := self._broken(lookups):
            return handed_over(f"{broken.name} failed: {broken.error}")
        contact, order = self._found("find_contact"), self._found("get_order")
        if contact is None or order is None or not identified(request, contact, order):
            return not_identified()
        decision = decide(request, contact, order, self._policy)
        if isinstance(decision, Answer):
            return decision
        return self._move_money(ticket_id, decision, contact)

    def _move_money(self, ticket_id: str, decision: Refund | Cancel, contact: Mapping[str, Any]) -> Answer | Wanted:
        accounts: Wanted = [("get_account", {"account_id": contact["account_id"]})]
        if isinstance(decision, Refund):
            if wanted := self._missing(accounts):
                return wanted
            if broken := self._broken(accounts):
                return handed_over(f"{broken.name} failed: {broken.error}", contact["first_name"])
            if not self._can_receive(decision):
                return handed_over(
                    "The payment method of the order is no longer on the account.", contact["first_name"]
                )
        tool = "issue_refund" if isinstance(decision, Refund) else "cancel_order"
        if tool not in self._tools:
            return handed_over(f"This desk has no tool {tool}.", contact["first_name"])
        moved = self._transcript.last(tool)
        if moved is None:
            note = ("add_note", {"ticket_id": ticket_id, "text": self._note(decision)})
            return [(tool, _money_arguments(decision)), *([note] if "add_note" in self._tools else [])]
        return after_money(decision, moved, contact, self._policy)

    def _close(self, ticket_id: str, answer: Answer) -> str | Wanted:
        closing: Wanted = [
            ("reply_to_customer", {"ticket_id": ticket_id, "text": answer.reply}),
            ("set_ticket", {"ticket_id": ticket_id, "status": answer.status, "resolution": answer.resolution}),
        ]
        if wanted := self._missing(closing):
            return wanted
        failed = self._broken(closing)
        if failed is not None:
            return f"Ticket {ticket_id}: {answer.resolution} But {failed.name} failed: {failed.error}."
        return f"Ticket {ticket_id} is {answer.status}. {answer.resolution}"

    def _missing(self, wanted: Wanted) -> Wanted:
        """Those calls that were not made, or failed for no reason of their own and may be tried again."""
        return [(name, arguments) for name, arguments in wanted if name in self._tools and not self._settled(name)]

    def _settled(self, name: str) -> bool:
        call = self._transcript.last(name)
        if call is None:
            return False
        return call.error is None or call.refusal_code is not None or self._transcript.times(name) >= MAX_TRIES

    def _broken(self, wanted: Wanted) -> Call | None:
        """The first of the calls that did not work. "Not found" is an answer, not a failure."""
        for name, arguments in wanted:
            call = self._transcript.last(name)
            if call is None:
                return Call(name, arguments, {"error": "there is no such tool"})
            if call.error is not None and call.refusal_code != "not_found":
                return call
        return None

    def _found(self, name: str) -> Mapping[str, Any] | None:
        call = self._transcript.last(name)
        return call.result if call is not None and call.error is None else None

    def _can_receive(self, refund: Refund) -> bool:
        account = self._found("get_account")
        methods = () if account is None else account["payment_methods"]
        return any(method["payment_method_id"] == refund.payment_method_id for method in methods)

    def _note(self, decision: Refund | Cancel) -> str:
        if isinstance(decision, Cancel):
            return f"Order {decision.order_id} is pending and belongs to the writer: cancelling it as asked."
        amount = dollars(decision.amount_cents, self._policy.currency)
        found = f"The {decision.item} of order {decision.order_id} is reported damaged; it cost {amount}."
        return f"{found} Asking for approval." if decision.needs_approval else f"{found} Refunding it."


def _money_arguments(decision: Refund | Cancel) -> dict[str, Any]:
    if isinstance(decision, Cancel):
        return {"order_id": decision.order_id}
    return {
        "order_id": decision.order_id,
        "amount_cents": decision.amount_cents,
        "payment_method_id": decision.payment_method_id,
        "reason": f"{decision.item} arrived damaged",
    }
