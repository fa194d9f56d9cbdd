"""What a customer's text asks for, by rules: the order, the address, the wish and the item. Pure functions of text.

Nothing in here decides anything, and no amount is ever read: what a text claims is only a question to the records.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

import msgspec

from callboard.crm.requests import SubscriptionWish

Wish = Literal[
    "refund_damaged",
    "exchange",
    "close_account",
    "change_email",
    "subscription",
    "cancel",
    "status",
    "question",
    "unclear",
]
WISHES: tuple[Wish, ...] = get_args(Wish)
MAX_QUESTION = 400

_ORDER_ID = re.compile(r"(?<![\w#])#?([A-Z]\d{4,9})\b")
_SUBSCRIPTION_ID = re.compile(r"(?<![\w#])SUB-\d{3,9}\b", re.IGNORECASE)
# An address, or what stands for one where the desk's guardrails hide them from the model.
_EMAIL = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+|<EMAIL_\d+>", re.IGNORECASE)
_QUESTION = re.compile(r"[^.!?\n]*\?")


def _words(*patterns: str) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w)(?:{'|'.join(patterns)})(?!\w)", re.IGNORECASE)


_GENERAL = _words(
    r"how (?:do|does|can|long|many|much)",
    r"do you (?:accept|take|offer|allow|refund|exchange)",
    r"what happens",
    r"is it possible",
    r"am i allowed",
    r"what are your",
)
# The first wish whose words occur wins: who writes that a thing came broken and asks where the money is, has damage.
_WISHES: tuple[tuple[Wish, re.Pattern[str]], ...] = (
    (
        "refund_damaged",
        _words(
            "broken", "broke", "damaged", "cracked", "shattered", "smashed", "dented", "torn", "faulty", "in pieces"
        ),
    ),
    ("exchange", _words(r"exchang\w*", r"swap\w*", r"(?:another|different) (?:size|colou?r)")),
    (
        "close_account",
        _words(
            r"(?:close|delete|remove|shut) (?:my|our|the|this)(?: \w+)? account", r"clos(?:e|ing) of (?:my|our) account"
        ),
    ),
    ("change_email", _words(r"new (?:e-?mail|mail) address", r"change (?:my|our|the) (?:e-?mail|mail)(?: address)?")),
    (
        "subscription",
        _words(r"(?:my|our|the) (?:[\w-]+ ){0,2}(?:subscription|membership)", r"SUB-\d+", r"unsubscribe"),
    ),
    ("cancel", _words(r"cancel\w*", r"call (?:it|this|the order) off", "changed my mind", "stop the order")),
    (
        "status",
        _words(
            r"where(?:'s| is| are)", "when will", "status", r"track\w*", "on its way", r"(?:not|n't) arrived", "news"
        ),
    ),
    ("question", _GENERAL),
)
_CHANGES: tuple[tuple[SubscriptionWish, re.Pattern[str]], ...] = (
    ("resume", _words(r"resum\w*", "start again", "take it up again", "unpause")),
    ("pause", _words(r"paus\w*", "on hold", "take a break")),
    ("cancel", _words(r"cancel\w*", r"end(?:ed|s)?", "stop", "get rid of", "unsubscribe")),
    ("renew", _words(r"renew\w*", "extend", "go on by itself", "prolong")),
)
_SWAP = re.compile(
    r"(?:exchang\w*|swap\w*)\s+(?P<have>.{1,300}?)\s+(?:for|into|against)\s+(?P<want>[^.!?\n]{1,300})",
    re.IGNORECASE | re.DOTALL,
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
    subscription_ids: tuple[str, ...] = ()


def read_request(ticket: Mapping[str, Any]) -> Request:
    """Read a result of the tool `read_ticket`: its subject and what the customer wrote, never the desk's own words."""
    bodies = [str(message["body"]) for message in ticket.get("messages", ()) if message.get("author") == "customer"]
    text = "\n".join([str(ticket.get("subject", "")), *bodies])
    order_ids = tuple(dict.fromkeys(f"#{found}" for found in _ORDER_ID.findall(text)))
    subscription_ids = tuple(dict.fromkeys(found.upper() for found in _SUBSCRIPTION_ID.findall(text)))
    return Request(
        text=text,
        sender=str(ticket.get("from_email", "")).lower(),
        named_emails=emails_in(text),
        order_ids=order_ids,
        wish=_wish(text, about_something=bool(order_ids or subscription_ids)),
        subscription_ids=subscription_ids,
    )


def _wish(text: str, *, about_something: bool) -> Wish:
    """`about_something`: an order or a subscription is named. Else who asks how something goes is not asking for it."""
    found: Wish = next((wish for wish, words in _WISHES if words.search(text)), "unclear")
    general = not about_something and found != "refund_damaged" and _GENERAL.search(text)
    return "question" if general else found


def emails_in(text: str) -> tuple[str, ...]:
    """The e-mail addresses that a text names, each once, lower case."""
    return tuple(dict.fromkeys(found.lower() for found in _EMAIL.findall(text)))


def subscription_wish(text: str) -> SubscriptionWish | None:
    """What a text about a subscription wants of it; None where it does not say."""
    return next((wish for wish, words in _CHANGES if words.search(text)), None)


def question_in(text: str) -> str:
    """What a text asks, at most MAX_QUESTION characters; "" where it asks nothing."""
    asked = [" ".join(found.split()) for found in _QUESTION.findall(text)]
    return " ".join(one for one in asked if len(one.split()) > 2)[:MAX_QUESTION]


def named_items(text: str, items: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Find the items of an order (rows of `get_order`) that a text may mean: none, the one, or all it could be.

    Several variants of one product are told apart by the options that the text spells out, as in `color blue`.
    """
    named = [item for item in items if _mentions(text, str(item["name"]))]
    if len({item["product_id"] for item in named}) != 1:
        return named
    scores = [_score(text, item["options"]) for item in named]
    best = [item for item, score in zip(named, scores, strict=True) if score == max(scores)]
    # Two pieces of the very same variant: whichever broke, the answer is the same.
    return best[:1] if len({item["variant_id"] for item in best}) == 1 else best


def swapped(text: str) -> tuple[str, str]:
    """The words for what is to be exchanged, and for what is wanted instead; the whole text and "" where it does not
    put it like that."""
    found = _SWAP.search(text)
    return (text, "") if found is None else (found["have"], found["want"])


def wanted_variants(want: str, item: Mapping[str, Any], variants: Sequence[Mapping[str, Any]]) -> list[str]:
    """The ids of the variants (rows of `get_product`) that these words mean instead of an item: none, the one, or all.

    What the words do not name stays as it is.
    """
    others = [one for one in variants if one["variant_id"] != item["variant_id"]]
    named = [(one, _score(want, one["options"])) for one in others]
    most = max((score for _, score in named), default=0)
    if most == 0:
        return []
    fitting = [one for one, score in named if score == most]
    alike = [sum(item["options"].get(name) == value for name, value in one["options"].items()) for one in fitting]
    return [str(one["variant_id"]) for one, same in zip(fitting, alike, strict=True) if same == max(alike)]


def _score(text: str, options: Mapping[str, Any]) -> int:
    return sum(_mentions(text, f"{name} {value}") for name, value in options.items())


def _mentions(text: str, phrase: str) -> bool:
    words = r"\s+".join(re.escape(word) for word in phrase.split())
    return re.search(rf"(?<!\w){words}s?(?!\w)", text, re.IGNORECASE) is not None
