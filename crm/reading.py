"""What a customer's text asks for, by rules: the order, the address, the wish and the item. Pure functions of text.

Nothing in here decides anything, and no amount is ever read: what a text claims is only a question to the records.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

Wish = Literal["refund_damaged", "cancel", "status", "unclear"]

_ORDER_ID = re.compile(r"(?<![\w#])#?([A-Z]\d{4,9})\b")
# An address, or what stands for one where the desk's guardrails hide them from the model.
_EMAIL = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+|<EMAIL_\d+>", re.IGNORECASE)


def _words(*patterns: str) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w)(?:{'|'.join(patterns)})(?!\w)", re.IGNORECASE)


# The first wish whose words occur wins: who writes that a thing came broken and asks where the money is, has damage.
_WISHES: tuple[tuple[Wish, re.Pattern[str]], ...] = (
    (
        "refund_damaged",
        _words(
            "broken", "broke", "damaged", "cracked", "shattered", "smashed", "dented", "torn", "faulty", "in pieces"
        ),
    ),
    ("cancel", _words(r"cancel\w*", r"call (?:it|this|the order) off", "changed my mind", "stop the order")),
    (
        "status",
        _words(
            r"where(?:'s| is| are)", "when will", "status", r"track\w*", "on its way", r"(?:not|n't) arrived", "news"
        ),
    ),
)


class Request(msgspec.Struct, frozen=True):
    """A ticket as the rules read it."""

    text: str
    sender: str
    """The address that the mail came from."""
    named_emails: tuple[str, ...]
    """Addresses that the text names, lower case."""
    order_ids: tuple[str, ...]
    wish: Wish


def read_request(ticket: Mapping[str, Any]) -> Request:
    """Read a result of the tool `read_ticket`: its subject and what the customer wrote, never the desk's own words."""
    bodies = [str(message["body"]) for message in ticket.get("messages", ()) if message.get("author") == "customer"]
    text = "\n".join([str(ticket.get("subject", "")), *bodies])
    return Request(
        text=text,
        sender=str(ticket.get("from_email", "")).lower(),
        named_emails=tuple(dict.fromkeys(found.lower() for found in _EMAIL.findall(text))),
        order_ids=tuple(dict.fromkeys(f"#{found}" for found in _ORDER_ID.findall(text))),
        wish=next((wish for wish, words in _WISHES if words.search(text)), "unclear"),
    )


def named_items(text: str, items: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Find the items of an order (rows of `get_order`) that a text may mean: none, the one, or all it could be.

    Several variants of one product are told apart by the options that the text spells out, as in `color blue`.
    """
    named = [item for item in items if _mentions(text, str(item["name"]))]
    if len({item["product_id"] for item in named}) != 1:
        return named
    scores = [sum(_mentions(text, f"{name} {value}") for name, value in item["options"].items()) for item in named]
    best = [item for item, score in zip(named, scores, strict=True) if score == max(scores)]
    # Two pieces of the very same variant: whichever broke, the answer is the same.
    return best[:1] if len({item["variant_id"] for item in best}) == 1 else best


def _mentions(text: str, phrase: str) -> bool:
    words = r"\s+".join(re.escape(word) for word in phrase.split())
    return re.search(rf"(?<!\w){words}s?(?!\w)", text, re.IGNORECASE) is not None
