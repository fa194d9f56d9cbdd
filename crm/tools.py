"""The desk's tools, put together: which method is a tool, what it may do, and when a person decides.

Neighbours: `records.py` reads, `casework.py` writes and mails, `money.py` pays back, `exchange.py`, `subscriptions.py`,
`contacts.py` and `offboard.py` do what their names say. Every tool that changes something takes an idempotency key, so
each of them may be repeated; those that move money, or change or hand out what belongs to an account, can also be asked
what they have done, and tell approvers what is so (`checks.py`).
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from callboard.actors.agent.events import Trust
from callboard.actors.agent.options import Effect
from callboard.actors.agent.tool import Tool, tool
from callboard.crm.casework import Casework
from callboard.crm.checks import Checks
from callboard.crm.contacts import Contacts
from callboard.crm.exchange import Exchange
from callboard.crm.gates import (
    closing_terms,
    contact_terms,
    export_terms,
    refund_needs_approval,
)
from callboard.crm.money import AfterEffect, Money
from callboard.crm.offboard import Offboard
from callboard.crm.policy import Policy, parse_policy, policy_text
from callboard.crm.records import Records
from callboard.crm.subscriptions import Subscriptions
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
    **dict.fromkeys(("role", "status", "version", "subscription_ids"), "trusted"),
    **dict.fromkeys(("contacts[].contact_id", "contacts[].role", "contacts[].email"), "trusted"),
    **dict.fromkeys(("deals[].deal_id", "deals[].stage", "deals[].amount_cents"), "trusted"),
}
_ORDER: Mapping[str, Trust] = {
    **dict.fromkeys(("order_id", "account_id", "status", "tracking_ids", "items", "payments"), "trusted"),
    "payments[].reason": "untrusted",
    "paid_cents": "trusted",
    "refunded_cents": "trusted",
    "code": "trusted",
    **dict.fromkeys(("version", "parcels"), "trusted"),
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
_SUBSCRIPTION: Mapping[str, Trust] = {
    **dict.fromkeys(("subscription_id", "account_id", "plan", "price_cents", "period_days"), "trusted"),
    **dict.fromkeys(("status", "renews", "paid_until", "paused_at", "version", "code"), "trusted"),
}
_CHANGED: Mapping[str, Trust] = {
    **_SUBSCRIPTION,
    **dict.fromkeys(("changed", "lost_days", "dedup_hit"), "trusted"),
}
_EXCHANGED: Mapping[str, Trust] = {
    **dict.fromkeys(("exchanged", "order_id", "items", "difference_cents", "currency"), "trusted"),
    **dict.fromkeys(("payment_method_id", "payment_id", "dedup_hit", "code"), "trusted"),
}
# The value that a customer gave is not among them: writing it down makes it no truer.
_UPDATED: Mapping[str, Trust] = dict.fromkeys(
    ("updated", "account_id", "field", "version", "dedup_hit", "code"), "trusted"
)
_EXPORTED: Mapping[str, Trust] = dict.fromkeys(
    ("exported", "export_id", "account_id", "contacts", "orders", "dedup_hit", "code"), "trusted"
)
_CLOSING: Mapping[str, Trust] = dict.fromkeys(
    ("asked", "offboarding_id", "account_id", "state", "dedup_hit", "code"), "trusted"
)


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
        *subscription_tools(database, policy=policy),
        exchange_tool(database, policy=policy, node=node),
        *account_tools(database, policy=policy, node=node),
    )


def record_tools(database: Database) -> Toolset:
    """The tools that only read."""
    records = Records(database)
    return (
        tool(records.find_contact, returns_trust=_ACCOUNT),
        tool(records.find_sender, returns_trust={**_ACCOUNT, "ticket_id": "trusted"}),
        tool(records.get_account, returns_trust=_ACCOUNT),
        tool(records.get_order, returns_trust=_ORDER),
        tool(records.get_product, returns_trust="trusted"),
        tool(records.search_kb, returns_trust="trusted"),
        tool(records.read_ticket, returns_trust=_TICKET),
    )


def casework_tools(database: Database) -> Toolset:
    """The tools that write notes, set tickets and mail the customer.

    They can be asked what they did, but a call in doubt is simply made again: it leaves one row per key however often,
    and a start on record would cost every call a commit.
    """
    casework = Casework(database)

    def made(function: Callable[..., Any], effect: Effect, reconcile: Callable[..., Any]) -> Tool:
        return tool(function, effect=effect, on_doubt="retry", reconcile=reconcile, returns_trust=_DONE)

    return (
        made(casework.add_note, "write", casework.reconcile_note),
        made(casework.set_ticket, "write", casework.reconcile_status),
        made(casework.reply_to_customer, "egress", casework.reconcile_reply),
    )


def money_tools(database: Database, *, policy: Policy, node: str, after_effect: AfterEffect | None) -> Toolset:
    """The tools that pay back; `issue_refund` is gated above the policy's limits."""
    money, checks = Money(database, policy, node=node, after_effect=after_effect), Checks(database, policy)
    about_order = (checks.customer, checks.writer_owns_order, checks.order_unchanged, checks.paid_and_refunded)
    about_refund = (checks.amount_is_left, checks.payment_method, checks.refunds_of_30_days)
    return (
        tool(
            effect="money",
            requires_approval=refund_needs_approval(policy),
            reconcile=money.reconcile_refund,
            checks=(*about_order, *about_refund),
            returns_trust=_PAID,
            sums={"amount_cents": f"{policy.currency} cents"},
        )(money.issue_refund),
        tool(effect="money", reconcile=money.reconcile_cancel, checks=about_order, returns_trust=_PAID)(
            money.cancel_order
        ),
    )


def subscription_tools(database: Database, *, policy: Policy) -> Toolset:
    """The tools about subscriptions: one reads, the other asks for approval where paid days would be lost."""
    subscriptions, checks = Subscriptions(database, policy), Checks(database, policy)
    change = tool(
        effect="write",
        reconcile=subscriptions.reconcile_change,
        checks=(checks.subscription,),
        returns_trust=_CHANGED,
    )
    read = tool(subscriptions.get_subscription, returns_trust=_SUBSCRIPTION)
    return read, change(subscriptions.change_subscription)


def exchange_tool(database: Database, *, policy: Policy, node: str) -> Tool:
    """The tool that exchanges items; it asks for approval where the price difference is large."""
    exchange, checks = Exchange(database, policy, node=node), Checks(database, policy)
    return tool(
        effect="money",
        reconcile=exchange.reconcile_exchange,
        checks=(
            *(checks.customer, checks.writer_owns_order, checks.order_unchanged, checks.paid_and_refunded),
            *(checks.account_method, checks.refunds_of_30_days),
        ),
        returns_trust=_EXCHANGED,
    )(exchange.exchange_items)


def account_tools(database: Database, *, policy: Policy, node: str) -> Toolset:
    """The tools that close an account, change it, and hand out what is held about it. All as strict as money."""
    contacts, offboard = Contacts(database, node=node), Offboard(database, node=node)
    checks = Checks(database, policy)
    close = tool(
        effect="money",
        requires_approval=closing_terms,
        reconcile=offboard.reconcile_offboard,
        checks=(checks.account_holder, checks.nothing_in_the_way),
        returns_trust=_CLOSING,
    )
    update = tool(
        effect="money",
        requires_approval=contact_terms,
        reconcile=contacts.reconcile_update,
        checks=(checks.account_holder,),
        returns_trust=_UPDATED,
    )
    export = tool(
        effect="egress",
        requires_approval=export_terms,
        reconcile=contacts.reconcile_export,
        checks=(checks.account_holder,),
        returns_trust=_EXPORTED,
    )
    return close(offboard.offboard_account), update(contacts.update_contact), export(contacts.export_contacts)
