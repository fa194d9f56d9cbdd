"""Contacts, subscriptions and deals for a desk whose data has none: made up from its customers, by a digest of each id.

Nothing here is anybody's data. The same customers give the same rows on every machine and in every Python: about every
fifth account names a second contact, every third has a subscription, every tenth a deal.
"""

import hashlib
from collections.abc import Sequence
from typing import Literal

from callboard.crm.desk import Account, Contact, Deal, Subscription

PLANS: tuple[tuple[str, int, int], ...] = (
    ("Free delivery", 990, 30),
    ("Spare parts", 1_490, 90),
    ("Repair service", 5_900, 365),
)
"""Name, price in cents, and days that one payment lasts."""
_TITLES = ("Furnishing an office", "Gifts for a team", "A second household")
_HELPERS = ("Robin", "Sasha", "Kim", "Alex")

Derived = tuple[list[Contact], list[Subscription], list[Deal]]


def derived(accounts: Sequence[Account]) -> Derived:
    """Make up contacts, subscriptions and deals. Ids are numbered in the order of `accounts`."""
    contacts: list[Contact] = []
    subscriptions: list[Subscription] = []
    deals: list[Deal] = []
    for account in accounts:
        dice = hashlib.sha256(account.account_id.encode()).digest()
        if dice[0] % 5 == 0:
            contacts.append(_contact(f"CON-{len(contacts) + 1_001}", account, dice))
        if dice[1] % 3 == 0:
            subscriptions.append(_subscription(f"SUB-{len(subscriptions) + 1_001}", account, dice))
        if dice[2] % 10 == 0:
            title = _TITLES[dice[3] % len(_TITLES)]
            deals.append(
                Deal(f"DEAL-{len(deals) + 1_001}", account.account_id, title, "open", 10_000 + 1_000 * dice[4])
            )
    return contacts, subscriptions, deals


def _contact(contact_id: str, account: Account, dice: bytes) -> Contact:
    role: Literal["billing", "delivery"] = "billing" if dice[5] % 2 else "delivery"
    name, domain = account.email.split("@", 1)
    first = _HELPERS[dice[6] % len(_HELPERS)]
    return Contact(contact_id, account.account_id, role, first, account.last_name, f"{role}.{name}@{domain}")


def _subscription(subscription_id: str, account: Account, dice: bytes) -> Subscription:
    plan, price_cents, period_days = PLANS[dice[7] % len(PLANS)]
    status: Literal["active", "paused"] = "paused" if dice[8] % 8 == 0 else "active"
    overdue = status == "active" and dice[9] % 16 == 0
    paid_days = -(dice[10] % 10 + 1) if overdue else dice[10] % period_days + 1
    renews = dice[11] % 2 == 0
    return Subscription(subscription_id, account.account_id, plan, price_cents, period_days, status, renews, paid_days)
