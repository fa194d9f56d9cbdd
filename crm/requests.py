"""What the desk's agents are asked for: the typed requests that support sends to the others.

A request says what a customer wants, and where to look. It never says what is true: no sum, no owner, no state is a
field of it, so whoever is asked has to look those up. Texts are bounded, and nothing longer than a sentence fits.
"""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

MoneyWish = Literal["refund_damaged", "cancel_order", "exchange", "close_account", "change_email"]
SubscriptionWish = Literal["cancel", "pause", "resume", "renew"]

MAX_POSITIONS = 50
_Id = Annotated[str, Meta(max_length=100)]


class TriageRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which queue a ticket belongs into."""

    ticket_id: _Id


class BillingRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Something that moves money, or touches what an account is worth."""

    ticket_id: _Id
    wish: MoneyWish
    order_id: _Id = ""
    positions: Annotated[list[int], Meta(max_length=MAX_POSITIONS)] = []
    """Of the order's items that are meant; several where the text could mean any of them."""
    new_variant_ids: Annotated[list[_Id], Meta(max_length=MAX_POSITIONS)] = []
    """Of an exchange: what is wanted instead, in the order of `positions`."""


class RetentionRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Something about a subscription."""

    ticket_id: _Id
    subscription_id: _Id
    wish: SubscriptionWish


class KnowledgeRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A question that the desk's articles may answer."""

    question: Annotated[str, Meta(min_length=1, max_length=400)]
