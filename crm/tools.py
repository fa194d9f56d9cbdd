"""The desk's tools, put together: which method is a tool, what it may do, and when a person decides.

Neighbours: `records.py` reads, `casework.py` writes and mails, `money.py` pays back. Every tool that changes something
takes an idempotency key, so each of them may be repeated; the money tools can also be asked what they have done.
"""

from collections.abc import Mapping
from typing import TypeAlias

from callboard.actors.agent.events import Trust
from callboard.actors.agent.tool import Tool, tool
from callboard.crm.casework import Casework
from callboard.crm.money import AfterEffect, Money, refund_needs_approval
from callboard.crm.policy import Policy, parse_policy, policy_text
from callboard.crm.records import Records
from callboard.persistence.postgres.database import Database

Toolset: TypeAlias = tuple[Tool, ...]

# What of a result is the desk's own, column by column. What customers and models write (names, subjects, messages,
# notes, reasons) is not named here, and so is not trusted; a refusal's sentence quotes what was asked.
_ACCOUNT: Mapping[str, Trust] = {
    "account_id": "trusted",
    "email": "trusted",
    "payment_methods": "trusted",
    "order_ids": "trusted",
    "code": "trusted",
}
_ORDER: Mapping[str, Trust] = {
    **dict.fromkeys(("order_id", "account_id", "status", "tracking_ids", "items", "payments"), "trusted"),
    "payments[].reason": "untrusted",
    "paid_cents": "trusted",
    "refunded_cents": "trusted",
    "code": "trusted",
}
_TICKET: Mapping[str, Trust] = {
    "ticket_id": "trusted",
    "status": "trusted",
    "messages[].author": "trusted",
    "messages[].trust": "trusted",
    "notes[].kind": "trusted",
    "notes[].trust": "trusted",
    "code": "trusted",
}
_DONE: Mapping[str, Trust] = dict.fromkeys(("noted", "queued", "ticket_id", "status", "dedup_hit", "code"), "trusted")
_PAID: Mapping[str, Trust] = {
    **dict.fromkeys(("refunded", "cancelled", "order_id", "payment_id", "payment_method_id"), "trusted"),
    **dict.fromkeys(("amount", "amount_cents", "refunded_cents", "currency", "refunds", "dedup_hit"), "trusted"),
    "code": "trusted",
}


def desk_tools(
    database: Database,
    *,
    policy: Policy | None = None,
    node: str = "here",
    after_effect: AfterEffect | None = None,
) -> Toolset:
    """Make all tools of the desk over `database`, opened with the role that `schema.install` gave.

    `policy` sets the limits (default: the page that ships). `node` names this process in the record of attempts.
    `after_effect(key)` is awaited after a refund is committed and before its result is returned: there a test kills.
    """
    policy = policy or parse_policy(policy_text())
    return (
        *record_tools(database),
        *casework_tools(database),
        *money_tools(database, policy=policy, node=node, after_effect=after_effect),
    )


def record_tools(database: Database) -> Toolset:
    """The tools that only read."""
    records = Records(database)
    return (
        tool(records.find_contact, returns_trust=_ACCOUNT),
        tool(records.get_account, returns_trust=_ACCOUNT),
        tool(records.get_order, returns_trust=_ORDER),
        tool(records.get_product, returns_trust="trusted"),
        tool(records.search_kb, returns_trust="trusted"),
        tool(records.read_ticket, returns_trust=_TICKET),
    )


def casework_tools(database: Database) -> Toolset:
    """The tools that write notes, set tickets and mail the customer."""
    casework = Casework(database)
    write = tool(effect="write", returns_trust=_DONE)
    send = tool(effect="egress", returns_trust=_DONE)
    return write(casework.add_note), write(casework.set_ticket), send(casework.reply_to_customer)


def money_tools(database: Database, *, policy: Policy, node: str, after_effect: AfterEffect | None) -> Toolset:
    """The tools that pay back; `issue_refund` is gated above the policy's limit."""
    money = Money(database, policy, node=node, after_effect=after_effect)
    gate = refund_needs_approval(policy)
    return (
        tool(
            effect="money",
            requires_approval=gate,
            reconcile=money.reconcile_refund,
            returns_trust=_PAID,
            sums={"amount_cents": f"{policy.currency} cents"},
        )(money.issue_refund),
        tool(effect="money", reconcile=money.reconcile_cancel, returns_trust=_PAID)(money.cancel_order),
    )
