"""The desk's policy as numbers: `policy.md` is read by models and people, its table of limits by this module too.

The page is the only source: the gate of the money tools, the deterministic model and the checks of the ledger all parse
it, so that a changed limit changes all three. A page without one of the rules is an error, never a default.
"""

import re
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path

import msgspec

from callboard.mailbox.errors import UsageError

_ROW = re.compile(r"^\|\s*(?P<rule>[^|]+?)\s*\|\s*(?P<value>[^|]+?)\s*\|\s*$", re.MULTILINE)
_MONEY = re.compile(r"(?P<amount>\d[\d,]*(?:\.\d{2})?)\s+(?P<currency>[A-Z]{3})")


class PolicyUnreadable(UsageError):
    """The page lacks a rule of the table of limits, or states it in a way that cannot be parsed."""


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of the page. Amounts are integer cents of `currency`."""

    refund_limit_cents: int
    refund_ceiling_cents: int
    currency: str
    cancellable_statuses: frozenset[str]
    refundable_statuses: frozenset[str]


def policy_text() -> str:
    """Return the page that ships with the desk: the system prompt of its agents."""
    return Path(__file__).with_name("policy.md").read_text(encoding="utf-8")


def parse_policy(text: str) -> Policy:
    """Read the table of limits out of a policy page. Raises PolicyUnreadable, naming the missing rule."""
    rules = {found["rule"].lower(): found["value"] for found in _ROW.finditer(text)}
    limit_cents, currency = _money(rules, "refund limit without approval")
    ceiling_cents, ceiling_currency = _money(rules, "highest refund the desk may ask for")
    if currency != ceiling_currency:
        raise PolicyUnreadable(f"the limits are in {currency} and {ceiling_currency}; state both in one currency")
    return Policy(
        refund_limit_cents=limit_cents,
        refund_ceiling_cents=ceiling_cents,
        currency=currency,
        cancellable_statuses=_words(rules, "an order may be cancelled while it is"),
        refundable_statuses=_words(rules, "a damaged item is refunded when its order is"),
    )


def dollars(cents: int, currency: str = "USD") -> str:
    """Write integer cents as people read them: 48881 -> '488.81 USD'."""
    sign = "-" if cents < 0 else ""
    return f"{sign}{abs(cents) // 100:,}.{abs(cents) % 100:02d} {currency}"


def _money(rules: Mapping[str, str], rule: str) -> tuple[int, str]:
    found = _MONEY.fullmatch(_value(rules, rule))
    if found is None:
        raise PolicyUnreadable(f"policy rule {rule!r} is {rules[rule]!r}; write an amount such as '100.00 USD'")
    return int(Decimal(found["amount"].replace(",", "")) * 100), found["currency"]


def _words(rules: Mapping[str, str], rule: str) -> frozenset[str]:
    return frozenset(re.split(r"\s*(?:,|\bor\b)\s*", _value(rules, rule)))


def _value(rules: Mapping[str, str], rule: str) -> str:
    if rule not in rules:
        raise PolicyUnreadable(f"the policy has no rule {rule!r}; add it to the table of limits")
    return rules[rule]
