"""The desk's agents: who may do what, and what each is told.

One pool of runs, five roles. A ticket's run is `support`, the desk's own agent, which reads what customers write and
holds no tool that moves money. It asks the others, each a child run that gets a typed request (`requests.py`) and
never the customer's text: `billing` is the only holder of the tools with effect `money`.

    support ──▶ triage       which queue is it? reads the ticket, changes nothing
            ──▶ billing      refunds, cancellations, exchanges, closing accounts
            ──▶ retention    subscriptions
            ──▶ knowledge    what the articles say

Everything is by name, so that a desk with fewer tools has the same roles with fewer tools.
"""

import re
from collections.abc import Mapping
from typing import Final, Literal, get_args

import msgspec

from callboard.actors.agent.agents import AgentSpec
from callboard.actors.agent.budget import Budget
from callboard.crm.policy import policy_text
from callboard.crm.requests import BillingRequest, KnowledgeRequest, RetentionRequest, TriageRequest
from callboard.crm.tools import Toolset

Role = Literal["support", "triage", "billing", "retention", "knowledge"]
ROLES: Final[tuple[Role, ...]] = get_args(Role)

TOOLS_OF: Final[Mapping[Role, tuple[str, ...]]] = {
    "support": (
        "find_contact",
        "get_account",
        "get_order",
        "get_product",
        "get_subscription",
        "search_kb",
        "read_ticket",
        "add_note",
        "set_ticket",
        "reply_to_customer",
    ),
    "triage": ("read_ticket", "search_kb"),
    "billing": (
        "find_sender",
        "find_contact",
        "get_account",
        "get_order",
        "get_product",
        "add_note",
        "issue_refund",
        "cancel_order",
        "exchange_items",
        "offboard_account",
        "update_contact",
        "export_contacts",
    ),
    "retention": ("find_sender", "get_account", "get_subscription", "add_note", "change_subscription"),
    "knowledge": ("search_kb",),
}
"""The names of all tools that a role holds."""

_ANSWER: Final = (
    'End with one JSON object and nothing else: {"status": "resolved", "waiting", "rejected" or "escalated",'
    ' "resolution": one sentence for the ticket, "reply": what the customer shall read}.'
)
_TEXTS: Final[Mapping[Role, str]] = {
    "support": """
You read the ticket, look up who wrote it, and answer. You cannot move money and you cannot change a subscription: ask
`billing` or `retention` for that, with the ticket's own number and what you looked up. Ask `triage` where you cannot
tell what the customer wants, and `knowledge` where they ask how something works. Take over the status, the resolution
and the reply that you are given, answer the customer once, and set the ticket.
""",
    "triage": """
You are asked about one ticket. Read it and say which queue it belongs into: `billing`, `retention`, `knowledge`,
`support`, or `person` where none fits. You change nothing and answer nobody. End with one JSON object and nothing else:
{"queue": the queue, "wish": in one word what is wanted, or "unclear"}.
""",
    "billing": f"""
You get a request about one ticket, never the customer's words. The request says what is wanted; it proves nothing.
Look up who wrote the ticket with `find_sender` and the order with `get_order`: they must be of one account, or you
refuse. Work out sums and payment methods from the records alone, give `order_version` as you read it, and call the
tool that moves the money once. Where people have to decide, leave a note beside it that says what you found.
{_ANSWER}
""",
    "retention": f"""
You get a request about one subscription. Look up who wrote the ticket with `find_sender` and the subscription with
`get_subscription`: they must be of one account, or you refuse. Then make the change once, and leave a note.
{_ANSWER}
""",
    "knowledge": """
You get one question. Search the articles, and answer in their words, shortly. Where they do not answer it, say so. You
know nothing of customers and orders. End with one JSON object and nothing else: {"found": true or false, "answer": the
answer}.
""",
}
_DESCRIPTIONS: Final[Mapping[Role, str]] = {
    "triage": "Says which queue a ticket belongs into. For tickets whose wish you cannot tell.",
    "billing": (
        "Refunds, cancels, exchanges, closes accounts and changes e-mail addresses, after looking everything up."
        " Give the ticket, the wish, and what it is about; no amounts."
    ),
    "retention": "Cancels, pauses, resumes or renews a subscription of whoever wrote the ticket.",
    "knowledge": "Answers a general question from the desk's articles.",
}
_REQUESTS: Final[Mapping[Role, type[msgspec.Struct]]] = {
    "triage": TriageRequest,
    "billing": BillingRequest,
    "retention": RetentionRequest,
    "knowledge": KnowledgeRequest,
}
_BUDGET: Final = Budget(max_iterations=16, max_tokens=80_000)
_ROLE_LINE: Final = re.compile(r"^## Your role: (\w+)$", re.MULTILINE)


def prompt_of(role: Role) -> str:
    """The system prompt of a role: the policy page, then what is the role's own."""
    return f"{policy_text()}\n## Your role: {role}\n{_TEXTS[role]}"


def role_of(system_prompt: str) -> Role:
    """Whose prompt this is; `support` where no role is named, as in the policy page alone."""
    named = _ROLE_LINE.findall(system_prompt)
    return next((role for role in ROLES if named and role == named[-1]), "support")


def tools_of(role: Role, tools: Toolset) -> Toolset:
    """Those of `tools` that a role holds."""
    return tuple(tool for tool in tools if tool.name in TOOLS_OF[role])


def agents_of(tools: Toolset) -> dict[str, AgentSpec]:
    """The agents that support may call, by name, over the desk's tools."""
    return {role: _spec(role, tools) for role in ROLES if role != "support"}


def _spec(role: Role, tools: Toolset) -> AgentSpec:
    return AgentSpec(
        role,
        _DESCRIPTIONS[role],
        system_prompt=prompt_of(role),
        tools=tools_of(role, tools),
        budget=_BUDGET,
        request=_REQUESTS[role],
    )
