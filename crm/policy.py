"""The desk's policy as numbers: `policy.md` is read by models and people, its table of limits by this module too.

The page is the only source: the gates of the tools, the deterministic model and the checks of the ledger all parse it,
so that a changed limit changes all three. A page without one of the rules is an error, never a default.
"""

import hashlib
import re
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import msgspec

from callboard.mailbox.errors import UsageError

CAP_DAYS: Final = 30
"""The days over which an account's refunds are added up."""

_ROW = re.compile(r"^\|\s*(?P<rule>[^|]+?)\s*\|\s*(?P<value>[^|]+?)\s*\|\s*$", re.MULTILINE)
_MONEY = re.compile(r"(?P<amount>\d[\d,]*(?:\.\d{2})?)\s+(?P<currency>[A-Z]{3})")

_SUMS: Final = {
    "refund_limit_cents": "refund limit without approval",
    "one_person_limit_cents": "refund limit with the approval of one person",
    "refund_ceiling_cents": "highest refund the desk may ask for",
    "account_cap_cents": f"refunds of one account in {CAP_DAYS} days without approval",
    "exchange_limit_cents": "price difference of an exchange without approval",
}


class PolicyUnreadable(UsageError):
    """The page lacks a rule of the table of limits, or states it in a way that cannot be parsed."""


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of the page. Amounts are integer cents of `currency`."""

    page_sha256: str
    """Of the whole page: rows about money name it by this, through `crm.tool_policy`."""
    refund_limit_cents: int
    """The most that is refunded without approval."""
    one_person_limit_cents: int
    """The most that one person may approve; above it, it takes two."""
    refund_ceiling_cents: int
    account_cap_cents: int
    """The most that is refunded to one account within `CAP_DAYS` without approval."""
    exchange_limit_cents: int
    """The largest price difference, in either direction, of an exchange without approval."""
    lost_days_limit: int
    """How many paid days of a subscription may be lost without approval."""
    first_notice_days: int
    """So long before a subscription renews, its owner is told."""
    second_notice_days: int
    """So long before, they are told again, where nothing has happened since."""
    currency: str
    cancellable_statuses: frozenset[str]
    refundable_statuses: frozenset[str]
    exchangeable_statuses: frozenset[str]

    @property
    def numbers(self) -> dict[str, Any]:
        """The limits as plain values, for the record of policies."""
        plain: dict[str, Any] = msgspec.to_builtins(self, order="deterministic")
        return {name: value for name, value in plain.items() if name != "page_sha256"}


def policy_text() -> str:
    """Return the page that ships with the desk: the system prompt of its agents."""
    return Path(__file__).with_name("policy.md").read_text(encoding="utf-8")


def parse_policy(text: str) -> Policy:
    """Read the table of limits out of a policy page. Raises PolicyUnreadable, naming the missing rule."""
    rules = {found["rule"].lower(): found["value"] for found in _ROW.finditer(text)}
    sums = {name: _money(rules, rule) for name, rule in _SUMS.items()}
    currencies = sorted({currency for _, currency in sums.values()})
    if len(currencies) != 1:
        raise PolicyUnreadable(f"the limits are in {' and '.join(currencies)}; state all in one currency")
    return Policy(
        page_sha256=hashlib.sha256(text.encode()).hexdigest(),
        currency=currencies[0],
        lost_days_limit=_whole(rules, "paid days that may be lost without approval"),
        first_notice_days=_whole(rules, "days before a renewal that it is announced"),
        second_notice_days=_whole(rules, "days before a renewal that it is announced again"),
        cancellable_statuses=_words(rules, "an order may be cancelled while it is"),
        refundable_statuses=_words(rules, "a damaged item is refunded when its order is"),
        exchangeable_statuses=_words(rules, "items are exchanged when their order is"),
        **{name: cents for name, (cents, _) in sums.items()},
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


def _whole(rules: Mapping[str, str], rule: str) -> int:
    value = _value(rules, rule)
    if not value.isdecimal() or len(value) > 6:
        raise PolicyUnreadable(f"policy rule {rule!r} is {value!r}; write a whole number such as '0'")
    return int(value)


def _words(rules: Mapping[str, str], rule: str) -> frozenset[str]:
    return frozenset(re.split(r"\s*(?:,|\bor\b)\s*", _value(rules, rule)))


def _value(rules: Mapping[str, str], rule: str) -> str:
    if rule not in rules:
        raise PolicyUnreadable(f"the policy has no rule {rule!r}; add it to the table of limits")
    return rules[rule]
