"""The desk's tools, put together: which method is a tool, what it may do, and when a person decides.

Neighbours: `records.py` reads, `casework.py` writes and mails, `money.py` pays back. Every tool that changes something
takes an idempotency key, so each of them may be repeated; the money tools can also be asked what they have done.
"""

from typing import TypeAlias

from callboard.actors.agent.tool import Tool, tool
from callboard.crm.casework import Casework
from callboard.crm.money import AfterEffect, Money, refund_needs_approval
from callboard.crm.policy import Policy, parse_policy, policy_text
from callboard.crm.records import Records
from callboard.persistence.postgres.database import Database

Toolset: TypeAlias = tuple[Tool, ...]


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
        tool(records.find_contact),
        tool(records.get_account),
        tool(records.get_order),
        tool(records.get_product),
        tool(records.search_kb),
        tool(records.read_ticket),
    )


def casework_tools(database: Database) -> Toolset:
    """The tools that write notes, set tickets and mail the customer."""
    casework = Casework(database)
    write = tool(side_effect=True)
    return write(casework.add_note), write(casework.set_ticket), write(casework.reply_to_customer)


def money_tools(database: Database, *, policy: Policy, node: str, after_effect: AfterEffect | None) -> Toolset:
    """The tools that pay back; `issue_refund` is gated above the policy's limit."""
    money = Money(database, policy, node=node, after_effect=after_effect)
    gate = refund_needs_approval(policy)
    return (
        tool(side_effect=True, requires_approval=gate, reconcile=money.reconcile_refund)(money.issue_refund),
        tool(side_effect=True, reconcile=money.reconcile_cancel)(money.cancel_order),
    )
