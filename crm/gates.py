"""When a person has to decide before a tool acts, as far as the arguments say. Made of the policy's numbers.

What only the records know (what was refunded in 30 days, how many paid days are left) the tools find out themselves,
and ask by `NeedsApproval`.
"""

from collections.abc import Callable, Mapping
from typing import Any

from callboard.actors.agent.faults import NeedsApproval
from callboard.actors.agent.policy import Terms
from callboard.crm.policy import Policy, dollars

PEOPLE_TO_CLOSE = 2
"""How many have to approve that an account is closed."""


def refund_needs_approval(policy: Policy) -> Callable[[Mapping[str, Any]], Terms | None]:
    """Make the gate of `issue_refund`: None below the first limit, one person above it, two above the second."""

    def gate(arguments: Mapping[str, Any]) -> Terms | None:
        amount_cents = int(arguments["amount_cents"])
        if amount_cents <= policy.refund_limit_cents:
            return None
        return refund_terms(str(arguments["order_id"]), amount_cents, policy)

    return gate


def refund_terms(order_id: str, amount_cents: int, policy: Policy) -> Terms:
    """Why a refund above the first limit has to be approved, and by how many people."""
    amount, limit = dollars(amount_cents, policy.currency), dollars(policy.refund_limit_cents, policy.currency)
    reason = f"a refund of {amount} for order {order_id} is above the limit of {limit}"
    if amount_cents <= policy.one_person_limit_cents:
        return Terms(reason)
    second = dollars(policy.one_person_limit_cents, policy.currency)
    return Terms(f"{reason}, and above {second} it takes two people", risk="high", needed=2)


def contact_terms(arguments: Mapping[str, Any]) -> Terms | None:
    """The gate of `update_contact`: whoever holds the address holds the account."""
    if arguments["field"] != "email":
        return None
    account_id, value = arguments["account_id"], arguments["value"]
    return Terms(f"the e-mail address of account {account_id} would become {value}", risk="high")


def export_terms(arguments: Mapping[str, Any]) -> Terms:
    """The gate of `export_contacts`: always."""
    return Terms(f"what we hold about account {arguments['account_id']} would be handed out", risk="high")


def closing_terms(arguments: Mapping[str, Any]) -> Terms:
    """The gate of `offboard_account`: always, and two people."""
    reason = f"account {arguments['account_id']} would be closed, which takes two people"
    return Terms(reason, risk="high", needed=PEOPLE_TO_CLOSE)


def asked_by_tool(terms: Terms) -> NeedsApproval:
    """What a tool raises that was called past its gate: the same question."""
    return NeedsApproval(terms.reason, risk="high" if terms.risk == "high" else "normal", needed=terms.needed)
