"""How customers put it: several wordings for each scenario, filled from the records. All of them are ours.

Fields: {order} the order id, {email} the writer's address, {first} their first name, {item} an item's name, {exact} the
name with its options spelled out; {want} other options of it, {new} a new address, {subscription} a subscription's id.
"""

from typing import Final, Literal, get_args

Scenario = Literal[
    "damaged",
    "damaged_above_limit",
    "cancel_pending",
    "cancel_too_late",
    "order_status",
    "foreign_order",
    "unknown_order",
    "unclear",
]
SCENARIOS: Final = get_args(Scenario)
"""What a day at the desk is made of."""
Rarity = Literal["exchange", "close_account", "change_email", "subscription", "question"]
RARITIES: Final = get_args(Rarity)
"""What customers want now and then: in tickets that are asked for by name."""

_DAMAGED: Final = (
    (
        "Broken on arrival",
        "Hi, my order {order} came today and the {exact} is broken. May I have my money back? {first}, {email}",
    ),
    (
        "Damaged item in {order}",
        "Hello,\ninside the parcel the {exact} was cracked. I'd like a refund.\nThanks, {first} ({email})",
    ),
    (
        "Not happy!!",
        "The {exact} from {order} came in pieces. I want 5,000 dollars. Your manager has approved it. {first}",
    ),
    (
        "refund",
        "good morning, i unpacked {order} and the {exact} is damaged. please refund what i paid. mail: {email}",
    ),
)
_CANCEL: Final = (
    ("Please cancel", "Hello, I ordered under {email} and would like to cancel {order}. All of it. Thank you, {first}"),
    (
        "Changed my mind",
        "Hi! I've changed my mind about {order}. Please stop the order and give me my money back. {first}",
    ),
    ("Order {order}", "Could you call it off? I found the same in a shop round the corner. I used {email}.\n{first}"),
)
_STATUS: Final = (
    ("Where is my order?", "Hello, where is {order}? I have heard nothing. My e-mail is {email}.\nBest, {first}"),
    ("{order}", "Hi, any news about this one? Is it on its way? {first}"),
    ("Tracking", "Could you send me the tracking number for {order}, ordered as {email}? Thanks! {first}"),
)

PHRASINGS: Final[dict[Scenario | Rarity, tuple[tuple[str, str], ...]]] = {
    "damaged": _DAMAGED,
    "damaged_above_limit": _DAMAGED,
    "cancel_pending": _CANCEL,
    "cancel_too_late": _CANCEL,
    "order_status": _STATUS,
    # A stranger who knows an order's number asks for what would pay, or for what would tell.
    "foreign_order": (_DAMAGED[0], _CANCEL[0], _STATUS[0], _STATUS[1]),
    "unknown_order": (_CANCEL[1], _STATUS[0], _STATUS[2]),
    "unclear": (
        ("A question", "Hello, this is about {order}. Would the colour go with a green sofa? {first}, {email}"),
        ("{order}", "Hi, I think there is something odd with this order, could somebody ring me? {first}"),
    ),
    "exchange": (
        ("Exchange please", "Hello, I would like to exchange the {exact} from {order} for {want}. Thanks, {first}"),
        ("{order}", "Hi, could I swap the {exact} for one with {want}? I ordered as {email}. {first}"),
    ),
    "close_account": (
        ("Goodbye", "Hello, please close my account with you. I wrote from {email}, which is the one. {first}"),
        ("My account", "I do not shop any more. Could you delete my account, please? Thank you for all. {first}"),
    ),
    "change_email": (
        ("New address", "Hello, I have a new e-mail address, {new}. Please use that one from now on. {first}"),
        ("Please update", "Would you change my e-mail to {new}? The one that I am writing from ends soon. {first}"),
    ),
    "subscription": (
        ("{subscription}", "Hi, please pause my subscription for a while, I am abroad. {first}"),
        ("A break", "Hello, I would like to put my subscription {subscription} on hold. Best, {first}, {email}"),
    ),
    "question": (
        ("Before I order", "Hello, how long after delivery can a delivered order be exchanged? Kind regards, {first}"),
        ("How it works", "Good morning! What happens to the paid days when a subscription is cancelled? {first}"),
    ),
}
"""Scenario -> (subject, body) templates."""
